//! What a run on a GPU, real or virtual, depends on.

use std::path::Path;

use kernels_sys::Arch;
use serde_json::{Value, json};

use super::driver::{self, Device, Driver};
use super::{Check, Verdict, gib, toolkit};
use crate::virtual_gpu;

/// Name by which the dynamic loader finds the driver.
const DRIVER_LIBRARY: &str = "libcuda.so.1";
/// The oldest CUDA whose compiler and driver take the kernels.
const OLDEST_CUDA: (u32, u32) = (13, 0);

/// The device that the machine is looked at for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Whatever there is; a missing GPU is no failure.
    Auto,
    /// A run on the processor.
    Cpu,
    /// A run on the GPU of the driver that the loader finds.
    Cuda,
    /// A run on the virtual GPU.
    Sim,
}

impl Wanted {
    /// By the name that `--device` of a run has for it.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "cuda" => Self::Cuda,
            "sim" => Self::Sim,
            _ => return None,
        })
    }

    /// How bad it is that something is missing that only `runs` need.
    fn missing(self, runs: &[Self]) -> Verdict {
        if runs.contains(&self) { Verdict::Bad } else { Verdict::Good }
    }
}

/// All checks of this file.
pub fn checks(wanted: Wanted) -> Vec<Check> {
    let mut checks = Vec::new();
    let real = driver::ask(DRIVER_LIBRARY);
    checks.push(driver_check(wanted, &real));
    if let Ok(driver) = &real {
        device_checks(driver, wanted == Wanted::Cuda, &mut checks);
    }
    let library = virtual_gpu::library();
    let sim = library.as_deref().map(driver::ask);
    checks.push(sim_check(wanted, library.as_deref(), &sim));
    // The loader may have been told to take the virtual driver for the driver: its devices are already listed.
    let listed = real.as_ref().is_ok_and(|r| r.devices.iter().any(|d| d.is_virtual));
    if let (Some(Ok(driver)), false) = (&sim, listed) {
        device_checks(driver, wanted == Wanted::Sim, &mut checks);
    }
    checks.push(images(wanted));
    checks.push(compiler());
    checks.push(nccl());
    checks
}

fn shown(version: (u32, u32)) -> String {
    format!("{}.{}", version.0, version.1)
}

fn driver_check(wanted: Wanted, asked: &Result<Driver, driver::DriverError>) -> Check {
    let (verdict, found, value) = match asked {
        Ok(driver) => {
            let is_virtual = driver.devices.iter().any(|d| d.is_virtual);
            let kind = if is_virtual { "virtual" } else { "real" };
            let mut found = format!("{DRIVER_LIBRARY}, {kind}, CUDA {}", shown(driver.cuda));
            let mut verdict = Verdict::Good;
            if driver.cuda < OLDEST_CUDA {
                verdict = if wanted == Wanted::Cuda { Verdict::Bad } else { Verdict::Warning };
                found += &format!("; the kernels need CUDA {}: update the driver (580 or newer)", shown(OLDEST_CUDA));
            } else if driver.devices.is_empty() {
                verdict = wanted.missing(&[Wanted::Cuda]);
                found += "; it sees no device: is one hidden by CUDA_VISIBLE_DEVICES?";
            }
            let value = json!({
                "present": true, "kind": kind, "cuda": shown(driver.cuda), "devices": driver.devices.len()
            });
            (verdict, found, value)
        }
        Err(driver::DriverError::Absent(_)) => {
            let mut found = format!("none ({DRIVER_LIBRARY} is not found)");
            if wanted == Wanted::Cuda {
                found += "; install the NVIDIA driver, or run on the virtual GPU or the processor";
            }
            (wanted.missing(&[Wanted::Cuda]), found, json!({ "present": false }))
        }
        Err(error) => {
            let verdict = if wanted == Wanted::Cuda { Verdict::Bad } else { Verdict::Warning };
            let found = format!("{DRIVER_LIBRARY}: {error}");
            (verdict, found, json!({ "present": true, "error": error.to_string() }))
        }
    };
    Check { what: "GPU driver", verdict, found, value }
}

fn sim_check(wanted: Wanted, path: Option<&Path>, asked: &Option<Result<Driver, driver::DriverError>>) -> Check {
    let (verdict, found, value) = match (path, asked) {
        (Some(path), Some(Ok(driver))) => {
            let found = format!("{}, CUDA {}", path.display(), shown(driver.cuda));
            (Verdict::Good, found, json!({ "library": path, "cuda": shown(driver.cuda) }))
        }
        (Some(path), Some(Err(error))) => {
            let verdict = if wanted == Wanted::Sim { Verdict::Bad } else { Verdict::Warning };
            let found = format!("{}: {error}; {}", path.display(), virtual_gpu::HOW);
            (verdict, found, json!({ "library": path, "error": error.to_string() }))
        }
        _ => {
            let found = format!("not there; {}", virtual_gpu::HOW);
            (wanted.missing(&[Wanted::Sim]), found, json!({ "library": null }))
        }
    };
    Check { what: "virtual GPU", verdict, found, value }
}

fn device_checks(driver: &Driver, needed: bool, checks: &mut Vec<Check>) {
    for (ordinal, device) in driver.devices.iter().enumerate() {
        checks.push(device_check(ordinal, device, needed));
    }
}

fn device_check(ordinal: usize, device: &Device, needed: bool) -> Check {
    let (major, minor) = device.compute_capability;
    let arch = Arch::of_compute_capability(major, minor);
    let mut found = format!(
        "{ordinal}: {}{}, compute capability {major}.{minor}, {} multiprocessors, {:.1} GiB, {} KiB shared memory a block",
        device.name,
        if device.is_virtual { " (virtual)" } else { "" },
        device.multiprocessors,
        gib(device.memory),
        device.shared_per_block / 1024,
    );
    let mut verdict = if needed { Verdict::Bad } else { Verdict::Warning };
    match arch {
        Some(arch) if kernels_sys::images().iter().any(|image| image.arch == arch) => {
            verdict = Verdict::Good;
            found += &format!("; kernels for {arch}");
        }
        Some(arch) if kernels_sys::absent().is_none() => {
            found +=
                &format!("; this program was built without kernels for {arch}: set LIGHTNING_CUDA_ARCHS and build");
        }
        // The line of the kernels says why there are none.
        Some(arch) => found += &format!("; no kernels for {arch} in this program"),
        None => {
            let known: Vec<&str> = Arch::ALL.iter().map(|a| a.name()).collect();
            found += &format!("; there are no kernels for it, only for {}", known.join(" and "));
        }
    }
    let value = json!({
        "ordinal": ordinal,
        "name": device.name,
        "virtual": device.is_virtual,
        "compute_capability": shown(device.compute_capability),
        "architecture": arch.map(|a| a.name()),
        "multiprocessors": device.multiprocessors,
        "memory_bytes": device.memory,
        "shared_bytes_per_block": device.shared_per_block,
    });
    Check { what: "device", verdict, found, value }
}

fn images(wanted: Wanted) -> Check {
    let images = kernels_sys::images();
    let of = |arch: Arch| images.iter().filter(move |image| image.arch == arch);
    let archs: Vec<Value> = Arch::ALL
        .into_iter()
        .filter(|arch| of(*arch).next().is_some())
        .map(|arch| {
            let bytes: usize = of(arch).map(|image| image.cubin.len() + image.ptx().count_bytes()).sum();
            json!({ "architecture": arch.name(), "modules": of(arch).count(), "bytes": bytes })
        })
        .collect();
    let kernels = kernels_sys::kernels().len();
    let (verdict, found) = match kernels_sys::absent() {
        Some(why) => (wanted.missing(&[Wanted::Cuda, Wanted::Sim]), format!("not in this program: {}", one_line(why))),
        None => {
            let list: Vec<String> = archs
                .iter()
                .map(|a| format!("{} modules for {}", a["modules"], a["architecture"].as_str().unwrap_or_default()))
                .collect();
            (Verdict::Good, format!("{kernels} kernels, {}", list.join(", ")))
        }
    };
    let value = json!({ "kernels": kernels, "images": archs, "absent": kernels_sys::absent() });
    Check { what: "kernels", verdict, found, value }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn compiler() -> Check {
    let (verdict, found, value) = match toolkit::compiler() {
        Some(nvcc) => {
            let release = nvcc.release.map_or("of unknown release".to_string(), shown);
            let mut found = format!("nvcc {release}, {}", nvcc.path.display());
            let usable = nvcc.release.is_some_and(|r| r >= OLDEST_CUDA);
            if !usable {
                found += &format!("; kernels need {}: `cargo xtask setup-cuda` gets it", shown(OLDEST_CUDA));
            }
            let verdict = if usable { Verdict::Good } else { Verdict::Warning };
            (verdict, found, json!({ "nvcc": nvcc.path, "release": nvcc.release.map(shown) }))
        }
        None => {
            let found = "no nvcc; only building kernels needs it: `cargo xtask setup-cuda` gets it".to_string();
            (Verdict::Good, found, json!({ "nvcc": null }))
        }
    };
    Check { what: "CUDA toolkit", verdict, found, value }
}

fn nccl() -> Check {
    let (found, value) = match toolkit::nccl() {
        Ok((major, minor, patch)) => {
            let version = format!("{major}.{minor}.{patch}");
            (format!("libnccl.so.2, {version}"), json!({ "present": true, "version": version }))
        }
        Err(_) => ("not present; only runs on several GPUs need it".to_string(), json!({ "present": false })),
    };
    Check { what: "NCCL", verdict: Verdict::Good, found, value }
}
