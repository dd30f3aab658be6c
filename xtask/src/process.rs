//! Running other programs: with their output shown, or taken as text.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::failure::{Failure, Result};

/// The repository root: this package's parent folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the workspace")
}

/// The folder that cargo builds into (`CARGO_TARGET_DIR`, else `target/` of the workspace).
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root().join(dir),
        _ => root().join("target"),
    }
}

/// `cargo`, the one that runs this program, in the repository root.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs with output passed through; fails unless the exit status is 0.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|e| Failure::new(format!("cannot start `{}`: {e}", shown(command))))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{}` ended with {status}", shown(command)))) }
}

/// Runs with output captured, whatever the exit status.
pub fn capture(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().map_err(|e| Failure::new(format!("cannot start `{}`: {e}", shown(command))))
}

/// Standard output as text; fails, with the end of standard error, unless the exit status is 0.
pub fn text(command: &mut Command) -> Result<String> {
    let output = capture(command)?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "`{}` ended with {}:\n{}",
            shown(command),
            output.status,
            tail(&String::from_utf8_lossy(&output.stderr), 20)
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The last `lines` lines.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Removes a folder and all in it, if it is there.
pub fn remove_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Failure::io("remove", folder, &e)),
        _ => Ok(()),
    }
}
