//! Where the virtual GPU's driver library is.

use std::path::{Path, PathBuf};

/// Names the library where it does not lie beside the program.
pub const VARIABLE: &str = "LIGHTNING_SIM_LIB";

/// How to get it, for messages.
pub const HOW: &str = "build it with `cargo xtask sim`, or name it with LIGHTNING_SIM_LIB=PATH";

/// The driver library of the virtual GPU: `sim/libcuda.so.1` beside the program, where `cargo xtask sim` puts it, else
/// the file that `LIGHTNING_SIM_LIB` names. None where there is neither.
pub fn library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let named = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
    find(program.as_deref(), named)
}

fn find(program: Option<&Path>, named: Option<PathBuf>) -> Option<PathBuf> {
    let beside = program.and_then(Path::parent).map(|folder| folder.join("sim/libcuda.so.1"));
    beside.filter(|path| path.is_file()).or(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_the_program_comes_first() {
        let dir = std::env::temp_dir().join(format!("lightning-virtual-gpu-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("sim")).unwrap();
        let program = dir.join("lightning-train");
        assert_eq!(find(Some(&program), None), None);
        assert_eq!(find(Some(&program), Some("a.so".into())), Some("a.so".into()));
        std::fs::write(dir.join("sim/libcuda.so.1"), "").unwrap();
        assert_eq!(find(Some(&program), Some("a.so".into())), Some(dir.join("sim/libcuda.so.1")));
        assert_eq!(find(None, None), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
