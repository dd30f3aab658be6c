//! Makes the virtual GPU the CUDA driver of this process.
//!
//! The dynamic loader reads its search path when a program starts, so this one starts itself again, once, before any
//! test runs.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the process that has the library on its path.
const READY: &str = "LIGHTNING_TEST_DRIVER";

#[used]
// SAFETY: the entry is a function without arguments, as the loader calls it; it only reads the environment and files,
// and replaces the process.
#[unsafe(link_section = ".init_array")]
static START_AGAIN: extern "C" fn() = start_again;

extern "C" fn start_again() {
    if std::env::var_os(READY).is_some() {
        return;
    }
    let Some(folder) = folder() else {
        return;
    };
    let mut arguments = std::env::args_os();
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let name = arguments.next().unwrap_or_default();
    let mut again = Command::new(program);
    again.arg0(name).args(arguments).env(READY, "1").env("LD_LIBRARY_PATH", folder);
    if std::env::var_os("LIGHTNING_SIM_MEMORY").is_none() {
        again.env("LIGHTNING_SIM_MEMORY", "4G");
    }
    // Returns only when it failed; the tests then say that there is no driver.
    let error = again.exec();
    eprintln!("cannot start the tests again: {error}");
}

/// A folder in which the library that cargo built beside this test has the driver's names.
pub fn folder() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let beside = test.parent()?;
    let library = [beside.join("libptx_sim.so"), beside.join("../libptx_sim.so")].into_iter().find(|p| p.exists())?;
    let library = library.canonicalize().ok()?;
    let folder = beside.join("libcuda-for-gpu-tests");
    std::fs::create_dir_all(&folder).ok()?;
    for name in ["libcuda.so", "libcuda.so.1"] {
        link(&library, &folder.join(name)).ok()?;
    }
    Some(folder)
}

fn link(library: &Path, to: &Path) -> std::io::Result<()> {
    if std::fs::read_link(to).ok().as_deref() == Some(library) {
        return Ok(());
    }
    // Another process may do the same at this moment: make the link aside and rename it.
    let aside = to.with_extension(format!("{}", std::process::id()));
    _ = std::fs::remove_file(&aside);
    std::os::unix::fs::symlink(library, &aside)?;
    std::fs::rename(&aside, to)
}
