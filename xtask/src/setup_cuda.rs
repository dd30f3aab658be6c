//! `cargo xtask setup-cuda`: the pinned CUDA toolkit, from the Python package index into `target/cuda`.
//!
//! The wheels of [`REQUIREMENTS`] unpack into one tree whose `nvidia/cu13` is a CUDA home. The tree is built in a
//! folder of another name and renamed when it is complete and its nvcc has answered, so that a run that is killed
//! leaves nothing that looks finished. No root, no driver and no GPU are needed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use argh::FromArgs;

use crate::failure::{Failure, Result, create_folder, write_file};
use crate::process::{capture, remove_folder, root};
use crate::python::Python;

/// What pip installs: names, versions and SHA-256 sums.
const REQUIREMENTS: &str = include_str!("cuda_requirements.txt");
/// The oldest toolkit whose nvcc compiles `csrc/`.
pub const OLDEST: (u32, u32) = (13, 0);
/// Written last into a finished tree: the requirements that it was made from.
const STAMP: &str = "toolkit-complete.txt";
const BY_HAND: &str = "install the CUDA toolkit 13.0 or newer by hand \
    (https://developer.nvidia.com/cuda-toolkit-archive) and set CUDA_HOME to its folder.";

/// put the pinned CUDA toolkit into target/cuda (a CUDA_HOME of your own, 13.0 or newer, is used instead)
#[derive(FromArgs)]
#[argh(subcommand, name = "setup-cuda")]
pub struct SetupCuda {
    /// install again even if a complete toolkit is there
    #[argh(switch)]
    force: bool,
}

impl SetupCuda {
    /// Runs the verb and prints the CUDA home on standard output.
    pub fn run(self) -> Result<()> {
        let home = ensure(self.force)?;
        println!("{}", home.display());
        Ok(())
    }
}

/// Makes sure that there is a toolkit and returns its CUDA home: the user's own `CUDA_HOME`, else the one under
/// `target/cuda`, installed if it is missing, incomplete or of another pin.
pub fn ensure(force: bool) -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("CUDA_HOME").filter(|h| !h.is_empty()).map(PathBuf::from) {
        let (major, minor) = nvcc_release(&home.join("bin/nvcc")).map_err(|why| {
            Failure::new(format!(
                "CUDA_HOME={} is set, but {why}. Unset CUDA_HOME to use the pinned toolkit of `cargo xtask setup-cuda`, \
                 or set it to a CUDA 13.0 or newer.",
                home.display()
            ))
        })?;
        if (major, minor) < OLDEST {
            return Err(Failure::new(format!(
                "CUDA_HOME={} holds CUDA {major}.{minor}, but the kernels need {}.{} or newer. Unset CUDA_HOME to use \
                 the pinned toolkit of `cargo xtask setup-cuda`, or set it to a newer one.",
                home.display(),
                OLDEST.0,
                OLDEST.1
            )));
        }
        eprintln!("using CUDA {major}.{minor} of CUDA_HOME={}; nothing to install", home.display());
        return Ok(home);
    }

    let target = root().join("target");
    create_folder(&target)?;
    // Two runs at once (two terminals, an editor) take turns; the second finds the work done. The lock goes with
    // the process, so that a killed run does not leave it behind.
    let lock_path = target.join("cuda.lock");
    let lock = File::create(&lock_path).map_err(|e| Failure::io("create", &lock_path, &e))?;
    lock.lock().map_err(|e| Failure::io("lock", &lock_path, &e))?;

    let tree = target.join("cuda");
    let home = tree.join("nvidia/cu13");
    if !force
        && fs::read_to_string(tree.join(STAMP)).is_ok_and(|stamp| stamp == REQUIREMENTS)
        && nvcc_release(&home.join("bin/nvcc")).is_ok_and(|release| release == OLDEST)
    {
        eprintln!("the CUDA 13.0 toolkit is in {}", home.display());
        return Ok(home);
    }
    install(&target, &tree)?;
    Ok(home)
}

fn install(target: &Path, tree: &Path) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Err(Failure::new(format!("the pinned toolkit exists for Linux only: {BY_HAND}")));
    }
    let started = Instant::now();
    let partial = target.join("cuda.partial");
    let old = target.join("cuda.old");
    remove_folder(&partial)?;
    remove_folder(&old)?;
    let python = Python::find(BY_HAND)?;
    eprintln!("installing the CUDA 13.0 toolkit from the Python package index (about 110 MB to fetch, 280 MB on disk)");
    python.install_into(&partial, REQUIREMENTS, BY_HAND)?;

    let home = partial.join("nvidia/cu13");
    let link = home.join("lib64");
    if !link.exists() {
        #[cfg(unix)]
        std::os::unix::fs::symlink("lib", &link).map_err(|e| Failure::io("link", &link, &e))?;
    }
    let release = nvcc_release(&home.join("bin/nvcc"))
        .map_err(|why| Failure::new(format!("the toolkit was installed, but {why}. {BY_HAND}")))?;
    if release != OLDEST {
        return Err(Failure::new(format!(
            "the toolkit was installed, but its nvcc says {}.{} and not {}.{}. {BY_HAND}",
            release.0, release.1, OLDEST.0, OLDEST.1
        )));
    }
    write_file(&partial.join(STAMP), REQUIREMENTS)?;
    if tree.exists() {
        fs::rename(tree, &old).map_err(|e| Failure::io("move aside", tree, &e))?;
    }
    fs::rename(&partial, tree).map_err(|e| Failure::io("move into place", tree, &e))?;
    remove_folder(&old)?;
    look_again()?;
    eprintln!("installed in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Makes the next build look for nvcc anew: an earlier one may have been made without kernels.
fn look_again() -> Result<()> {
    let script = root().join("build.rs");
    File::options()
        .append(true)
        .open(&script)
        .and_then(|file| file.set_modified(SystemTime::now()))
        .map_err(|e| Failure::io("touch", &script, &e))
}

/// The release that `nvcc --version` names, or why there is none (a clause without a full stop).
fn nvcc_release(nvcc: &Path) -> std::result::Result<(u32, u32), String> {
    if !nvcc.is_file() {
        return Err(format!("{} does not exist", nvcc.display()));
    }
    let output = capture(Command::new(nvcc).arg("--version")).map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    parse_release(&said).ok_or_else(|| format!("{} --version names no release", nvcc.display()))
}

/// Finds `release 13.0` in what `nvcc --version` prints.
fn parse_release(said: &str) -> Option<(u32, u32)> {
    let after = said.split("release ").nth(1)?;
    let (major, rest) = after.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.trim().parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_read_from_what_nvcc_prints() {
        let said = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n";
        assert_eq!(parse_release(said), Some((13, 0)));
        assert_eq!(parse_release("Cuda compilation tools, release 9.2, V9.2.1"), Some((9, 2)));
        assert_eq!(parse_release("nothing of the kind"), None);
        assert_eq!(parse_release("release x.y"), None);
    }

    #[test]
    fn every_requirement_is_pinned_by_version_and_by_a_sum_for_each_processor() {
        let packages: Vec<&str> = REQUIREMENTS.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(packages.len(), 7);
        for line in packages {
            assert!(line.contains("=="), "{line}");
            assert_eq!(line.matches("--hash=sha256:").count(), 2, "{line}");
        }
    }
}
