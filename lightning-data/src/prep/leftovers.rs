//! What killed preparations leave behind, and files that cannot be left behind.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{DataError, Result};

/// Held by every process that prepares into a directory.
pub(super) struct OutputGuard {
    _lock: File,
}

impl OutputGuard {
    /// Enters `output`. Who is alone there removes what killed writers left: unfinished files (`.NAME.PID.N.tmp`) and spools.
    pub(super) fn enter(output: &Path) -> Result<OutputGuard> {
        fs::create_dir_all(output).map_err(|e| DataError::io("create the directory", output, e))?;
        let path = output.join(".prepare.lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|e| DataError::io("create", &path, e))?;
        if lock.try_lock().is_ok() {
            sweep(output);
            let _ = lock.unlock();
        }
        // Where the file system has no locks nothing is swept, here or by others.
        let _ = lock.lock_shared();
        Ok(OutputGuard { _lock: lock })
    }
}

fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        // Only leftovers: nobody needs them, and one that cannot be removed does no harm.
        if kind.is_dir() && (name.ends_with(".spool") || is_unfinished(&name)) {
            let _ = fs::remove_dir_all(path);
        } else if kind.is_dir() {
            sweep(&path);
        } else if kind.is_file() && is_unfinished(&name) {
            let _ = fs::remove_file(path);
        }
    }
}

/// `.NAME.PID.N.tmp`, and `.NAME.PID.tmp` of directories.
fn is_unfinished(name: &str) -> bool {
    let inside = name.strip_prefix('.').and_then(|n| n.strip_suffix(".tmp"));
    inside.and_then(|n| n.rsplit('.').next()).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A file for reading and writing that has no name any more: it goes away when it is closed.
pub(super) fn unnamed_file(directory: &Path) -> Result<File> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(directory).map_err(|e| DataError::io("create the directory", directory, e))?;
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".rows.{}.{unique}.tmp", std::process::id()));
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path);
    let file = file.map_err(|e| DataError::io("create", &path, e))?;
    fs::remove_file(&path).map_err(|e| DataError::io("remove", &path, e))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_swept_and_other_files_stay() {
        let directory = std::env::temp_dir().join(format!("lightning-leftovers-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let keep = ["blend.json", ".hidden", ".notes.tmp", "x.1.2.tmp", "runs/a/config.json", "runs/a/.shard.lock"];
        let drop = [
            ".blend.json.17.0.tmp",
            "runs/a/.config.json.17.3.tmp",
            "runs/a/d/shard_000000.spool/.tokens.bin.17.4.tmp",
            "runs/a/d/receipts/.shard_000000.json.17.5.tmp",
            ".splits.17.tmp/train/link",
        ];
        for name in keep.iter().chain(&drop) {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        // Not while another process works there.
        let other = OutputGuard::enter(&directory.join("empty")).unwrap();
        fs::write(directory.join("empty/.a.1.1.tmp"), "x").unwrap();
        let second = OutputGuard::enter(&directory.join("empty")).unwrap();
        assert!(directory.join("empty/.a.1.1.tmp").exists());
        drop_both(other, second);
        let guard = OutputGuard::enter(&directory).unwrap();
        assert!(keep.iter().all(|name| directory.join(name).exists()));
        assert!(drop.iter().all(|name| !directory.join(name).exists()));
        assert!(!directory.join("empty/.a.1.1.tmp").exists());
        drop_both(guard, unnamed_file(&directory).unwrap());
        fs::remove_dir_all(&directory).unwrap();
    }

    fn drop_both<A, B>(_: A, _: B) {}
}
