//! Counts of launches: one JSON object per line, appended to the file that `LIGHTNING_SIM_COUNTS_FILE` names.

use super::entry::explain;
use super::handles::lock;
use super::state::Driver;
use super::work::KernelWork;
use crate::exec::LaunchReport;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

fn file() -> Option<&'static Mutex<File>> {
    static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = std::env::var_os("LIGHTNING_SIM_COUNTS_FILE")?;
        match File::options().create(true).append(true).open(&path) {
            Ok(f) => Some(Mutex::new(f)),
            Err(e) => {
                explain(&format!("LIGHTNING_SIM_COUNTS_FILE={path:?} cannot be written: {e}; name a writable file"));
                None
            }
        }
    })
    .as_ref()
}

/// Writes the counts of a launch, when they are collected and wanted.
pub fn record(d: &Driver, device: usize, work: &KernelWork, report: &LaunchReport) {
    if !d.settings.counts {
        return;
    }
    let Some(file) = file() else { return };
    let [gx, gy, gz] = work.grid;
    let [bx, by, bz] = work.block;
    let name = &work.function.name;
    let line = format!(
        "{{\"kernel\":{name:?},\"device\":{device},\"grid\":[{gx},{gy},{gz}],\"block\":[{bx},{by},{bz}],\"counts\":{}}}\n",
        report.counts.to_json()
    );
    if let Err(e) = lock(file).write_all(line.as_bytes()) {
        explain(&format!("writing LIGHTNING_SIM_COUNTS_FILE failed: {e}"));
    }
}
