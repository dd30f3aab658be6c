//! An event file of a run.

use super::{event, record};
use crate::cli::{Exit, Failure};
use crate::doctor::machine::host_name;
use crate::records::clock::WallClock;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes that are held back before they are written.
const BUFFER: usize = 1 << 16;

/// Writes scalars under the names of `metrics.jsonl`.
pub struct EventWriter {
    path: PathBuf,
    file: File,
    clock: WallClock,
    buffer: Vec<u8>,
}

/// The seconds in the name of an event file.
fn seconds_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("events.out.tfevents.")?.split('.').next()?.parse().ok()
}

impl EventWriter {
    /// A new file in `folder`, for steps after `done`. Readers order files by the seconds in their names, so the name is
    /// later than every name there, even when the clock fell.
    ///
    /// # Errors
    /// `Invalid` when the folder cannot be written.
    pub fn create(folder: &Path, done: u64, mut clock: WallClock) -> Result<Self, Failure> {
        let cannot = |path: &Path, e: &std::io::Error| {
            let hint = "free space, or set logger.tensorboard_dir";
            Failure::new(Exit::Invalid, format!("cannot write {}: {e}; {hint}", path.display()))
        };
        fs::create_dir_all(folder).map_err(|e| cannot(folder, &e))?;
        let entries = fs::read_dir(folder).map_err(|e| cannot(folder, &e))?;
        let newest = entries.flatten().filter_map(|e| seconds_of(&e.path())).max();
        let now = clock.seconds();
        let mut seconds = newest.map_or(now as u64, |n| (now as u64).max(n + 1));
        let host: String = host_name().chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
        let (path, file) = loop {
            let path = folder.join(format!("events.out.tfevents.{seconds:010}.{host}.{}.0", std::process::id()));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => break (path, file),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => seconds += 1,
                Err(e) => return Err(cannot(&path, &e)),
            }
        };
        let mut writer = Self { path, file, clock, buffer: Vec::with_capacity(BUFFER) };
        record::frame(&event::file_version(now), &mut writer.buffer);
        if done > 0 {
            record::frame(&event::session_start(now, done + 1), &mut writer.buffer);
        }
        writer.flush()?;
        Ok(writer)
    }

    /// Adds the numbers of a record of `metrics.jsonl`. Absent ones make no event; `null` is a NaN.
    ///
    /// # Errors
    /// `Invalid` when the disk is full.
    pub fn write(&mut self, step: u64, record: &Value, prefix: &str) -> Result<(), Failure> {
        let Some(map) = record.as_object() else { return Ok(()) };
        let mut tags = Vec::with_capacity(map.len());
        for (name, value) in map {
            let value = match value {
                Value::Null => f64::NAN,
                Value::Bool(b) => f64::from(u8::from(*b)),
                Value::Number(n) => n.as_f64().unwrap_or(f64::NAN),
                _ => continue,
            };
            if name != "iteration" {
                tags.push((format!("{prefix}{name}"), value));
            }
        }
        let values: Vec<(&str, f64)> = tags.iter().map(|(t, v)| (t.as_str(), *v)).collect();
        let data = event::scalars(self.clock.seconds(), step, &values);
        record::frame(&data, &mut self.buffer);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// `Invalid` when the disk is full.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|e| {
            let hint = "free space, or set logger.tensorboard_dir";
            Failure::new(Exit::Invalid, format!("cannot write {}: {e}; {hint}", self.path.display()))
        })
    }

    /// Seconds that the clock fell since this was last asked, if it did.
    pub fn take_step_back(&mut self) -> Option<f64> {
        self.clock.take_step_back()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        // A run that ends with an error still shows its last steps.
        let _ = self.flush();
    }
}
