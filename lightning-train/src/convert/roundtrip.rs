//! In and out again, and the comparison with the source.

use super::args::{ExportArgs, ImportArgs, RoundtripArgs};
use super::places::locate;
use super::{Weights, export, import};
use crate::cli::{Exit, Failure};
use crate::verify::same::compare;
use std::path::Path;

/// The verb `roundtrip`.
///
/// # Errors
/// Those of import and export; `Verification` when a tensor differs.
pub fn roundtrip(args: RoundtripArgs) -> Result<(), Failure> {
    let imported = import::run(&ImportArgs {
        hf_model: args.hf_model.clone(),
        hf_revision: args.hf_revision.clone(),
        checkpoint_path: args.checkpoint_path.clone(),
        torch_dtype: None,
        overwrite: args.overwrite,
        not_strict: false,
        low_memory: args.low_memory,
        workers: args.workers,
        dry_run: false,
        no_progress: args.no_progress || args.json,
        json: args.json,
    })?;
    let source = locate(&args.hf_model, args.hf_revision.as_deref())?;
    export::run(&ExportArgs {
        checkpoint_path: args.checkpoint_path.clone(),
        hf_path: args.hf_path.clone(),
        hf_model: Some(source.display().to_string()),
        hf_revision: None,
        torch_dtype: None,
        adapter: None,
        max_shard_size: 5_000_000_000,
        overwrite: args.overwrite,
        not_strict: false,
        low_memory: args.low_memory,
        workers: args.workers,
        dry_run: false,
        no_progress: args.no_progress || args.json,
        json: args.json,
    })?;
    let open = |path: &Path| Weights::open(path);
    let result = compare(&open(&source)?, &open(Path::new(&args.hf_path))?)?;
    if args.json {
        let mut value = imported.census.to_json();
        value["comparison"] = result.to_json();
        println!("{value}");
    } else {
        print!("{}{}", imported.census.table(), result.text());
    }
    if result.is_same() {
        return Ok(());
    }
    Err(Failure::new(Exit::Verification, "the exported checkpoint differs from the source; keep both and report it"))
}
