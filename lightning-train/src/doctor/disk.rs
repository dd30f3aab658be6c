//! Speed and space of the disk behind a folder.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Writing, until the device has it.
    pub write: f64,
    /// Reading back, usually from the system's cache: what loading a fresh checkpoint sees.
    pub read: f64,
}

/// Removes the file however the measurement ends.
struct Probe(std::path::PathBuf);

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes `bytes` into a file in `folder`, flushes it, reads it back and removes it.
///
/// # Errors
/// What the system refuses; bytes that come back changed.
pub fn measure(folder: &Path, bytes: u64) -> io::Result<Speed> {
    let probe = Probe(folder.join(format!(".lightning-doctor.{}", std::process::id())));
    // Not constant: some file systems compress.
    let block: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let blocks = bytes.div_ceil(block.len() as u64);
    let start = Instant::now();
    let mut file = File::create(&probe.0)?;
    for _ in 0..blocks {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let write = start.elapsed();
    let start = Instant::now();
    let mut file = File::open(&probe.0)?;
    let mut back = vec![0; block.len()];
    for _ in 0..blocks {
        file.read_exact(&mut back)?;
        if back != block {
            return Err(io::Error::other("the bytes that come back are not those that were written"));
        }
    }
    let read = start.elapsed();
    let total = (blocks * block.len() as u64) as f64;
    Ok(Speed { write: total / write.as_secs_f64().max(1e-9), read: total / read.as_secs_f64().max(1e-9) })
}

/// Bytes that this user can still write, as `df` says.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let output = Command::new("df").arg("-Pk").arg(folder).output().ok().filter(|o| o.status.success())?;
    available(&String::from_utf8_lossy(&output.stdout))
}

/// The fourth column of POSIX `df` output. Columns are counted behind the capacity's neighbour, because file system names
/// may hold blanks: total, used and available are the last three numbers before `NN%`.
fn available(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.lines().nth(1)?.split_whitespace().collect();
    let percent = words.iter().position(|w| w.strip_suffix('%').is_some_and(|n| n.parse::<u32>().is_ok()))?;
    words.get(percent.checked_sub(1)?)?.parse::<u64>().ok().map(|k| k * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn df_is_read_also_with_blanks_in_names() {
        let head = "Filesystem 1024-blocks Used Available Capacity Mounted on\n";
        assert_eq!(available(&format!("{head}/dev/vda 100 40 60 40% /\n")), Some(60 * 1024));
        assert_eq!(available(&format!("{head}my disk 1 100 40 60 40% /mnt/a b\n")), Some(60 * 1024));
        assert_eq!(available(head), None);
        assert_eq!(available(""), None);
    }

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let dir = std::env::temp_dir().join(format!("lightning-disk-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let speed = measure(&dir, 3 << 20).unwrap();
        assert!(speed.write > 0.0 && speed.read > 0.0);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        assert!(measure(&dir.join("nowhere"), 1).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
