//! Settings of the virtual device, read from the environment.
//!
//! | variable                | values                            | meaning |
//! |-------------------------|-----------------------------------|---------|
//! | `LIGHTNING_SIM`         | `check` (default), `fast`         | `fast` turns every check and count off |
//! | `LIGHTNING_SIM_SEED`    | integer, default 1                | seed of the warp schedules |
//! | `LIGHTNING_SIM_THREADS` | integer, default: cores           | host threads that execute thread blocks |
//! | `LIGHTNING_SIM_SCHEDULE`| `random` (default), `round-robin` | how the next warp is chosen |
//! | `LIGHTNING_SIM_ARCH`    | `h100` (default), `h200`          | device that is pretended |
//! | `LIGHTNING_SIM_MEMORY`  | bytes, or with suffix K, M, G, T  | device memory; default: that of the device |
//! | `LIGHTNING_SIM_DEVICES` | integer, default 1                | number of devices |
//! | `LIGHTNING_SIM_FAIL_AFTER` | integer, default: never        | launches after which the device fails, as with a memory error |
//! | `LIGHTNING_SIM_COUNTS`  | `1`, `0` (default 1)              | collect the counts of every launch |
//! | `LIGHTNING_SIM_COUNTS_FILE` | path, default: none           | file to which the driver library appends them, one JSON object a line |

use std::fmt;

/// The device that the machine pretends to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// NVIDIA H100 SXM: sm_90a, 132 multiprocessors, 80 GB.
    H100,
    /// NVIDIA H200 SXM: sm_90a, 132 multiprocessors, 141 GB.
    H200,
}

impl Architecture {
    /// Marketing name as `cuDeviceGetName` returns it.
    pub fn device_name(self) -> &'static str {
        match self {
            Architecture::H100 => "NVIDIA H100 80GB HBM3",
            Architecture::H200 => "NVIDIA H200",
        }
    }

    /// Compute capability, major and minor.
    pub fn compute_capability(self) -> (u32, u32) {
        (9, 0)
    }

    /// Number of streaming multiprocessors.
    pub fn multiprocessors(self) -> u32 {
        132
    }

    /// Device memory in bytes when no setting says otherwise.
    pub fn default_memory(self) -> u64 {
        match self {
            Architecture::H100 => 85_045_805_056,
            Architecture::H200 => 150_109_880_320,
        }
    }

    /// Largest shared memory of one block after opting in, in bytes.
    pub fn max_shared_per_block_optin(self) -> u32 {
        232_448
    }

    /// Shared memory of one multiprocessor in bytes.
    pub fn shared_per_multiprocessor(self) -> u32 {
        233_472
    }

    /// Shared memory that the system reserves in every block, in bytes.
    pub fn reserved_shared_per_block(self) -> u32 {
        1024
    }

    /// 32-bit registers of one multiprocessor.
    pub fn registers_per_multiprocessor(self) -> u32 {
        65_536
    }

    /// Resident threads of one multiprocessor.
    pub fn threads_per_multiprocessor(self) -> u32 {
        2048
    }

    /// Resident thread blocks of one multiprocessor.
    pub fn blocks_per_multiprocessor(self) -> u32 {
        32
    }
}

/// How the next warp of a thread block is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Seeded random order with random time slices.
    Random,
    /// In turn, with fixed time slices.
    RoundRobin,
}

/// Settings of a machine. [`Settings::from_env`] reads them; fields may also be set by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether races, uninitialised reads and the like are looked for. Bounds are always checked.
    pub checks: bool,
    /// Whether the counts of [`crate::count`] are collected.
    pub counts: bool,
    /// Seed of the schedules.
    pub seed: u64,
    /// Host threads that execute thread blocks.
    pub host_threads: usize,
    /// How warps are interleaved.
    pub schedule: Schedule,
    /// The device that is pretended.
    pub architecture: Architecture,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Number of devices.
    pub devices: usize,
    /// Launches of the process after which a device fails for good; a planted fault, for tests of what programs do then.
    pub fail_after: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            checks: true,
            counts: true,
            seed: 1,
            host_threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            schedule: Schedule::Random,
            architecture: Architecture::H100,
            memory_bytes: Architecture::H100.default_memory(),
            devices: 1,
            fail_after: None,
        }
    }
}

/// A `LIGHTNING_SIM*` variable has a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// Name of the variable.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// What would be accepted.
    pub expected: &'static str,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?} is not usable; set it to {} or unset it", self.variable, self.value, self.expected)
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// Settings from the process environment.
    ///
    /// # Errors
    /// A [`SettingsError`] that names the first variable with an unusable value.
    pub fn from_env() -> Result<Settings, SettingsError> {
        Settings::from_lookup(|name| std::env::var(name).ok())
    }

    /// Settings from any source of variables; `lookup` returns the value of a name.
    ///
    /// # Errors
    /// As [`Settings::from_env`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Settings, SettingsError> {
        let mut s = Settings::default();
        let bad = |variable, value: &str, expected| SettingsError { variable, value: value.to_string(), expected };
        if let Some(v) = lookup("LIGHTNING_SIM") {
            match v.as_str() {
                "" | "check" => {}
                "fast" => {
                    s.checks = false;
                    s.counts = false;
                }
                _ => return Err(bad("LIGHTNING_SIM", &v, "`check` or `fast`")),
            }
        }
        if let Some(v) = lookup("LIGHTNING_SIM_SEED") {
            s.seed = v.parse().map_err(|_| bad("LIGHTNING_SIM_SEED", &v, "an integer"))?;
        }
        if let Some(v) = lookup("LIGHTNING_SIM_THREADS") {
            let n: usize = v.parse().map_err(|_| bad("LIGHTNING_SIM_THREADS", &v, "an integer from 1 to 1024"))?;
            if !(1..=1024).contains(&n) {
                return Err(bad("LIGHTNING_SIM_THREADS", &v, "an integer from 1 to 1024"));
            }
            s.host_threads = n;
        }
        if let Some(v) = lookup("LIGHTNING_SIM_SCHEDULE") {
            s.schedule = match v.as_str() {
                "random" => Schedule::Random,
                "round-robin" => Schedule::RoundRobin,
                _ => {
                    return Err(bad("LIGHTNING_SIM_SCHEDULE", &v, "`random` or `round-robin`"));
                }
            };
        }
        if let Some(v) = lookup("LIGHTNING_SIM_ARCH") {
            s.architecture = match v.to_ascii_lowercase().as_str() {
                "h100" => Architecture::H100,
                "h200" => Architecture::H200,
                _ => return Err(bad("LIGHTNING_SIM_ARCH", &v, "`h100` or `h200`")),
            };
            s.memory_bytes = s.architecture.default_memory();
        }
        if let Some(v) = lookup("LIGHTNING_SIM_MEMORY") {
            let expected = "a number of bytes from 1M to 512G, optionally with K, M, G or T";
            s.memory_bytes = parse_bytes(&v)
                .filter(|b| (1 << 20..=512u64 << 30).contains(b))
                .ok_or_else(|| bad("LIGHTNING_SIM_MEMORY", &v, expected))?;
        }
        if let Some(v) = lookup("LIGHTNING_SIM_DEVICES") {
            let n: usize = v.parse().map_err(|_| bad("LIGHTNING_SIM_DEVICES", &v, "an integer from 1 to 16"))?;
            if !(1..=16).contains(&n) {
                return Err(bad("LIGHTNING_SIM_DEVICES", &v, "an integer from 1 to 16"));
            }
            s.devices = n;
        }
        if let Some(v) = lookup("LIGHTNING_SIM_FAIL_AFTER") {
            s.fail_after = Some(v.parse().map_err(|_| bad("LIGHTNING_SIM_FAIL_AFTER", &v, "a number of launches"))?);
        }
        if let Some(v) = lookup("LIGHTNING_SIM_COUNTS") {
            s.counts = match v.as_str() {
                "1" => true,
                "0" => false,
                _ => return Err(bad("LIGHTNING_SIM_COUNTS", &v, "`0` or `1`")),
            };
        }
        Ok(s)
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let t = text.trim();
    let (digits, shift) = match t.chars().last()? {
        'K' | 'k' => (&t[..t.len() - 1], 10),
        'M' | 'm' => (&t[..t.len() - 1], 20),
        'G' | 'g' => (&t[..t.len() - 1], 30),
        'T' | 't' => (&t[..t.len() - 1], 40),
        _ => (t, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_lookup(|n| pairs.iter().find(|p| p.0 == n).map(|p| p.1.to_string()))
    }

    #[test]
    fn reads_every_variable() {
        let s = from(&[
            ("LIGHTNING_SIM", "fast"),
            ("LIGHTNING_SIM_SEED", "77"),
            ("LIGHTNING_SIM_THREADS", "3"),
            ("LIGHTNING_SIM_SCHEDULE", "round-robin"),
            ("LIGHTNING_SIM_ARCH", "h200"),
            ("LIGHTNING_SIM_MEMORY", "3G"),
            ("LIGHTNING_SIM_DEVICES", "2"),
            ("LIGHTNING_SIM_FAIL_AFTER", "9"),
        ])
        .unwrap();
        assert!(!s.checks && !s.counts);
        assert_eq!((s.seed, s.host_threads, s.schedule), (77, 3, Schedule::RoundRobin));
        assert_eq!((s.architecture, s.memory_bytes, s.devices), (Architecture::H200, 3 << 30, 2));
        assert_eq!(s.fail_after, Some(9));
    }

    #[test]
    fn bad_values_are_named() {
        for (name, value) in [
            ("LIGHTNING_SIM", "quick"),
            ("LIGHTNING_SIM_SEED", "x"),
            ("LIGHTNING_SIM_THREADS", "0"),
            ("LIGHTNING_SIM_SCHEDULE", "rr"),
            ("LIGHTNING_SIM_ARCH", "b200"),
            ("LIGHTNING_SIM_MEMORY", "99999999999G"),
            ("LIGHTNING_SIM_DEVICES", "0"),
            ("LIGHTNING_SIM_FAIL_AFTER", "soon"),
        ] {
            let e = from(&[(name, value)]).unwrap_err();
            assert_eq!(e.variable, name);
            assert!(e.to_string().contains(value));
        }
    }
}
