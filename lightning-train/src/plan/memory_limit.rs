//! How much memory this machine gives to a process.

use std::fs;

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()
}

/// Bytes that the machine or the control group of this process allows, and which of them says so. `None` where neither
/// can be read.
pub fn of_machine() -> Option<(u64, String)> {
    let mut limits = Vec::new();
    if let Some(kb) = fs::read_to_string("/proc/meminfo").ok().and_then(|t| kilobytes(&t, "MemTotal:")) {
        limits.push((kb * 1024, "memory of this machine".to_string()));
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (controllers, path) = (fields.nth(1).unwrap_or(""), fields.next().unwrap_or("/"));
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // The limit of every group above counts too.
        let mut path = Some(std::path::Path::new(path.trim_start_matches('/')));
        while let Some(p) = path {
            let full = std::path::Path::new(root).join(p).join(file);
            if let Some(bytes) = fs::read_to_string(&full).ok().and_then(|t| t.trim().parse::<u64>().ok()) {
                limits.push((bytes, format!("{file} of the control group")));
            }
            path = p.parent();
        }
    }
    limits.into_iter().min_by_key(|(bytes, _)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_meminfo_are_read() {
        let text = "MemTotal:       32617340 kB\nMemFree:  5 kB\n";
        assert_eq!(kilobytes(text, "MemTotal:"), Some(32_617_340));
        assert_eq!(kilobytes(text, "Swap:"), None);
        if cfg!(target_os = "linux") {
            assert!(of_machine().unwrap().0 > 1 << 20);
        }
    }
}
