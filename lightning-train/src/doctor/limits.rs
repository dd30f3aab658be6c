//! Limits of the process that training runs into.

use std::fs;

use serde_json::json;

use super::{Check, Verdict, gib};

/// Files that a run of one rank holds open at most: shards of data and checkpoints, with room to spare.
const LEAST_OPEN_FILES: u64 = 1024;

/// A soft limit; none is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit(Option<u64>);

/// The soft limit of a row of `/proc/self/limits`, such as `Max open files`.
fn soft(text: &str, row: &str) -> Option<Limit> {
    let rest = text.lines().find_map(|line| line.strip_prefix(row))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(Limit(None)),
        number => number.parse().ok().map(|n| Limit(Some(n))),
    }
}

/// Open files, page-locked memory, and the shared memory that ranks of one machine exchange data through.
pub(super) fn check() -> Check {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = soft(&text, "Max open files");
    let locked = soft(&text, "Max locked memory");
    let shared = super::disk::free_bytes(std::path::Path::new("/dev/shm"));
    let mut parts = Vec::new();
    let mut verdict = Verdict::Good;
    if let Some(Limit(n)) = files {
        let mut part = format!("open files {}", n.map_or("unlimited".into(), |n| n.to_string()));
        if n.is_some_and(|n| n < LEAST_OPEN_FILES) {
            verdict = Verdict::Warning;
            part += &format!(" (raise it with `ulimit -n {LEAST_OPEN_FILES}`)");
        }
        parts.push(part);
    }
    if let Some(Limit(n)) = locked {
        parts.push(format!("locked memory {}", n.map_or("unlimited".into(), |n| format!("{:.2} GiB", gib(n)))));
    }
    if let Some(bytes) = shared {
        parts.push(format!("/dev/shm {:.1} GiB free", gib(bytes)));
    }
    let found = if parts.is_empty() { "the system does not say".to_string() } else { parts.join(", ") };
    let value = json!({
        "open_files": files.and_then(|l| l.0),
        "locked_memory_bytes": locked.and_then(|l| l.0),
        "shared_memory_free_bytes": shared,
    });
    Check { what: "limits", verdict, found, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_table_is_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            256                  524288               files     \n\
                    Max locked memory         unlimited            unlimited            bytes     \n";
        assert_eq!(soft(text, "Max open files"), Some(Limit(Some(256))));
        assert_eq!(soft(text, "Max locked memory"), Some(Limit(None)));
        assert_eq!(soft(text, "Max nothing"), None);
        assert_eq!(soft("", "Max open files"), None);
    }
}
