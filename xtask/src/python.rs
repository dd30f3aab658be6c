//! Python, which brings the CUDA toolkit and libclang from the Python package index and runs the interoperability kernels.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, create_folder, write_file};
use crate::process::{capture, tail};

/// A Python interpreter that has pip.
pub struct Python {
    program: PathBuf,
}

impl Python {
    /// Finds `python3` or `python` on the path (or `$PYTHON`) and checks that it has pip.
    ///
    /// `by_hand` completes the sentence "Without Python, ..." in the error.
    pub fn find(by_hand: &str) -> Result<Self> {
        let named = std::env::var_os("PYTHON").filter(|p| !p.is_empty()).map(PathBuf::from);
        let candidates = match &named {
            Some(program) => vec![program.clone()],
            None => vec!["python3".into(), "python".into()],
        };
        let mut without_pip = None;
        for program in candidates {
            let starts = |args: &[&str]| capture(Command::new(&program).args(args)).is_ok_and(|o| o.status.success());
            if !starts(&["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]) {
                continue;
            }
            if starts(&["-m", "pip", "--version"]) {
                return Ok(Self { program });
            }
            without_pip.get_or_insert(program);
        }
        Err(Failure::new(match (without_pip, named) {
            (Some(program), _) => format!(
                "{} has no pip: install it (Debian and Ubuntu: `apt install python3-pip`; elsewhere `{0} -m ensurepip`). \
                 Without pip, {by_hand}",
                program.display()
            ),
            (None, Some(program)) => format!(
                "PYTHON={} does not start or is older than 3.9: set it to a Python 3.9 or newer, or unset it. \
                 Without Python, {by_hand}",
                program.display()
            ),
            (None, None) => format!(
                "no Python 3.9 or newer on the path: install python3 with pip, or set PYTHON. Without Python, {by_hand}"
            ),
        }))
    }

    /// A command that starts the interpreter.
    pub fn command(&self) -> Command {
        Command::new(&self.program)
    }

    /// Installs the packages of a requirements file (hashes are checked where it has them) into an empty folder,
    /// without their dependencies. `by_hand` completes the sentence "Without the package index, ..." in the error.
    pub fn install_into(&self, folder: &Path, requirements: &str, by_hand: &str) -> Result<()> {
        create_folder(folder)?;
        let list = folder.join("requirements.txt");
        write_file(&list, requirements)?;
        let mut command = self.command();
        command
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"])
            .args(["--no-deps", "--no-compile", "--only-binary=:all:", "--root-user-action=ignore"])
            .args(["--retries", "2", "--target"])
            .arg(folder)
            .arg("--requirement")
            .arg(&list);
        let output = capture(&mut command)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Failure::new(format!(
            "pip could not install the packages that this needs. It said:\n{}\n\
             If this machine has no network, run the same command on one that has, with the same processor, and copy \
             the folder over. Without the package index, {by_hand}",
            tail(&said, 12)
        )))
    }
}
