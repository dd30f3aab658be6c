//! What a conversion says when it is done.

use super::Census;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a conversion did.
#[derive(Debug, Clone)]
pub struct Report {
    /// All tensors.
    pub census: Census,
    /// What was written; nothing in a dry run.
    pub folder: Option<PathBuf>,
    /// Elements beyond the range of a new type, by tensor.
    pub saturated: BTreeMap<String, u64>,
    /// What was left out or carried along, for people.
    pub notes: Vec<String>,
}

impl Report {
    /// Prints the table (or JSON) to standard output and the rest to standard error.
    pub fn print(&self, json: bool) {
        if json {
            let mut value = self.census.to_json();
            value["folder"] = json!(self.folder);
            value["saturated"] = json!(self.saturated);
            value["notes"] = json!(self.notes);
            println!("{value}");
        } else {
            print!("{}", self.census.table());
        }
        for note in &self.notes {
            eprintln!("note: {note}");
        }
        for (name, n) in &self.saturated {
            eprintln!(
                "note: {n} elements of {name} were beyond the range of the new type and became its largest value"
            );
        }
        if let Some(folder) = &self.folder {
            eprintln!("wrote {}", folder.display());
        }
    }
}
