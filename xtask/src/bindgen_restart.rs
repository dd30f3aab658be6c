//! Without the `bindgen` feature: find libclang and start this program again with the feature on.

use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::process::{cargo, remove_folder, root};
use crate::python::Python;

/// As pip reads it; first sum x86-64, second 64-bit Arm.
const LIBCLANG: &str = "libclang==18.1.1 \
    --hash=sha256:c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b \
    --hash=sha256:54dda940a4a0491a9d1532bf071ea3ef26e6dbaf03b5000ed94dd7174e8f9592\n";
const BY_HAND: &str = "install libclang by hand (Debian and Ubuntu: `apt install libclang-dev`) and set LIBCLANG_PATH \
    to its folder.";

/// Generates or checks the parameter blocks.
pub fn run(check: bool) -> Result<()> {
    let mut again = cargo();
    // bindgen runs for a blink and compiles for a minute when optimised.
    again.args(["run", "--quiet", "--config", "profile.dev.debug=false"]);
    again.args(["--package", "xtask", "--features", "bindgen"]);
    again.args(["--", "bindgen"]);
    if check {
        again.arg("--check");
    }
    if let Some(folder) = libclang_folder()? {
        again.env("LIBCLANG_PATH", folder);
    }
    crate::process::run(&mut again)
}

/// The folder of libclang, unless the user names one.
fn libclang_folder() -> Result<Option<PathBuf>> {
    if std::env::var_os("LIBCLANG_PATH").is_some() {
        return Ok(None);
    }
    let folder = root().join("target/libclang");
    let library = folder.join("clang/native");
    if !library.join("libclang.so").is_file() {
        let partial = root().join("target/libclang.partial");
        remove_folder(&partial)?;
        remove_folder(&folder)?;
        Python::find(BY_HAND)?.install_into(&partial, LIBCLANG, BY_HAND)?;
        std::fs::rename(&partial, &folder).map_err(|e| Failure::io("move into place", &folder, &e))?;
    }
    Ok(Some(library))
}
