//! CUDA software besides the driver: the compiler that builds kernels, and NCCL.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::Library;

/// An nvcc, and the release that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub path: PathBuf,
    /// Major and minor; none when it does not say.
    pub release: Option<(u32, u32)>,
}

/// The nvcc that a build would take: of `CUDA_HOME`, of `target/cuda` (where `cargo xtask setup-cuda` puts it) around
/// the program or the working directory, or on the path.
pub fn compiler() -> Option<Compiler> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let program = std::env::current_exe().ok();
    let here = std::env::current_dir().ok();
    let around = program.iter().chain(&here).flat_map(|p| p.ancestors()).take(32);
    let of_targets = around.flat_map(|folder| [folder.join("cuda"), folder.join("target/cuda")]);
    let on_path = variable("PATH");
    let candidates = variable("CUDA_HOME")
        .map(|home| PathBuf::from(home).join("bin/nvcc"))
        .into_iter()
        .chain(of_targets.map(|cuda| cuda.join("nvidia/cu13/bin/nvcc")))
        .chain(on_path.iter().flat_map(std::env::split_paths).map(|folder| folder.join("nvcc")));
    let path = candidates.into_iter().find(|path| path.is_file())?;
    let release = release_of(&path);
    Some(Compiler { path, release })
}

fn release_of(nvcc: &Path) -> Option<(u32, u32)> {
    let output = Command::new(nvcc).arg("--version").output().ok()?;
    parse_release(&String::from_utf8_lossy(&output.stdout))
}

/// Finds `release 13.0` in what `nvcc --version` prints.
fn parse_release(said: &str) -> Option<(u32, u32)> {
    let (major, rest) = said.split("release ").nth(1)?.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.trim().parse().ok()?, minor.parse().ok()?))
}

/// The version of the NCCL library that this process would load, such as (2, 28, 3).
///
/// # Errors
/// Why there is none.
pub fn nccl() -> Result<(u32, u32, u32), String> {
    // SAFETY: loading runs the start-up code of the library that a run on several GPUs would load too.
    let library = unsafe { Library::new("libnccl.so.2") }.map_err(|e| e.to_string())?;
    let mut version: c_int = 0;
    // SAFETY: the type is the documented one.
    let get = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>("ncclGetVersion") }
        .map_err(|_| "libnccl.so.2 has no ncclGetVersion".to_string())?;
    // SAFETY: writes one integer of ours.
    let status = unsafe { get(&mut version) };
    if status != 0 {
        return Err(format!("ncclGetVersion fails with {status}"));
    }
    let version = u32::try_from(version).unwrap_or(0);
    std::mem::forget(library);
    Ok(parse_nccl(version))
}

/// 22803 is 2.28.3; before 2.9 it was 2803 for 2.8.3.
fn parse_nccl(version: u32) -> (u32, u32, u32) {
    let unit = if version < 10_000 { 1000 } else { 10_000 };
    (version / unit, version % unit / 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let said = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n";
        assert_eq!(parse_release(said), Some((13, 0)));
        assert_eq!(parse_release("release x"), None);
        assert_eq!(parse_release(""), None);
        assert_eq!(parse_nccl(22803), (2, 28, 3));
        assert_eq!(parse_nccl(2803), (2, 8, 3));
    }

    #[test]
    fn a_program_that_is_no_nvcc_has_no_release() {
        assert_eq!(release_of(Path::new("/nowhere/nvcc")), None);
    }
}
