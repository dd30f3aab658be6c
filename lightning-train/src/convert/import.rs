//! Hugging Face to ours.

use super::args::ImportArgs;
use super::census::Census;
use super::draft::Draft;
use super::dtypes::{converted, named_dtype};
use super::places::{copy_side_files, fingerprint, locate, refuse_same_place};
use super::report::Report;
use super::stream::{self, Job, write_files};
use super::weights::Weights;
use super::{ConvertError, json};
use crate::checkpoint::{
    Checkpoint, CheckpointError, Piece, TRACKER, TensorEntry, TrainState, iteration_folder, move_into_place, recover,
    region::Region, replace_file, shard_name, sync_folder, write_file, write_index,
};
use crate::cli::Failure;
use crate::hf::{HfConfig, HfFolder};
use lightning_core::layout::Layout;
use safetensors::Dtype;
use serde_json::json as object;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Largest file of an imported checkpoint, in bytes: small enough that a killed conversion loses little.
const SHARD_BYTES: u64 = 2_000_000_000;

/// What an imported checkpoint was made from, to tell whether an interrupted import was this one.
const MADE_FROM: &str = "import.json";

/// The verb `import`.
///
/// # Errors
/// A [`ConvertError`] with its exit code.
pub fn import(args: ImportArgs) -> Result<(), Failure> {
    let json = args.json;
    run(&args)?.print(json);
    Ok(())
}

/// Imports and says what was done.
///
/// # Errors
/// As [`import`].
pub fn run(args: &ImportArgs) -> Result<Report, ConvertError> {
    let workers = if args.low_memory { 1 } else { stream::workers(args.workers)? };
    let dtype = named_dtype(args.torch_dtype.as_deref())?;
    let source = locate(&args.hf_model, args.hf_revision.as_deref())?;
    let mut folder = HfFolder::open(&source)?;
    let mut notes = Vec::new();
    let census = check_census(&mut folder, args.not_strict, &mut notes)?;
    if args.dry_run {
        return Ok(Report { census, folder: None, saturated: BTreeMap::new(), notes });
    }
    let root = Path::new(&args.checkpoint_path);
    let target = iteration_folder(root, 0);
    refuse_same_place(&source, &target)?;
    fs::create_dir_all(root).map_err(|e| CheckpointError::io("create", root, e))?;
    recover(&target)?;
    let config = folder.config.clone();
    let skip: BTreeSet<&String> = census.unexpected.iter().collect();
    let plans = stream::fill(jobs(&config, &folder, &skip, dtype), SHARD_BYTES, &shard_name);
    let fingerprint = object!({
        "source": fingerprint(&folder), "target": "import", "dtype": args.torch_dtype,
        "files": plans.iter().map(|p| (p.file.clone(), p.jobs.iter().map(|j| &j.key).collect::<Vec<_>>())).collect::<Vec<_>>(),
    });
    if target.exists() && !args.overwrite {
        // Without the tracker an earlier process ended between its last two steps; the rest of its work is done.
        let made_from = json::read::<serde_json::Value>(&target.join(MADE_FROM));
        if root.join(TRACKER).exists() || made_from != Some(fingerprint) {
            return Err(ConvertError::Exists(target));
        }
        replace_file(&root.join(TRACKER), b"0")?;
        return Ok(Report { census, folder: Some(target), saturated: BTreeMap::new(), notes });
    }
    let draft = Draft::open(&root.join(".iter_0000000.import"), &fingerprint)?;
    let side_files = folder.side_files().map_err(|e| CheckpointError::io("list", &source, e))?;
    let weights = Weights::Hf(folder);
    let progress = stream::progress_bar(&plans, !args.no_progress && !args.json);
    let receipts = write_files(&plans, &[], &weights, &draft, workers, &progress)?;
    progress.finish_and_clear();
    let mut tensors = BTreeMap::new();
    let mut saturated = BTreeMap::new();
    for (plan, receipt) in plans.iter().zip(&receipts) {
        for job in &plan.jobs {
            let region = Region::whole(&job.shape);
            let piece = Piece::new(&region, &plan.file, job.key.clone(), receipt.hashes[&job.key]);
            let entry = TensorEntry {
                dtype: job.to.to_string(),
                shape: job.shape.clone(),
                source_dtype: Some(job.from.to_string()),
                pieces: vec![piece],
            };
            tensors.insert(format!("model/{}", job.name), entry);
            if let Some(n) = receipt.saturated.get(&job.key) {
                saturated.insert(job.name.clone(), *n);
            }
        }
    }
    write_index(&draft.folder, tensors)?;
    json::write(&draft.folder.join("train_state.json"), &TrainState::default())?;
    write_file(&draft.folder.join("config.json"), config.to_text().as_bytes())?;
    let copied = copy_side_files(&side_files, &draft.folder.join("hf"))?;
    if copied > 0 {
        notes.push(format!("{copied} side files were copied unchanged"));
    }
    json::write(&draft.folder.join(MADE_FROM), &fingerprint)?;
    Checkpoint::open(&draft.folder, &[])?;
    draft.clear()?;
    sync_folder(&draft.folder)?;
    move_into_place(&draft.folder, &target)?;
    replace_file(&root.join(TRACKER), b"0")?;
    Ok(Report { census, folder: Some(target), saturated, notes })
}

/// Counts the source against its model. Without strictness, tensors that the model does not have are left out, and an MTP
/// block of which the source has nothing is taken out of the model; nothing else may differ.
fn check_census(folder: &mut HfFolder, not_strict: bool, notes: &mut Vec<String>) -> Result<Census, ConvertError> {
    let take = |folder: &HfFolder| {
        let found = folder.tensors.iter().map(|(n, t)| (n.as_str(), t.dtype, t.shape.as_slice()));
        Census::take(&folder.config.model, found)
    };
    let mut census = take(folder);
    let mtp = |name: &String| name.starts_with("mtp.");
    let without_mtp = folder.config.model.mtp.is_some() && !folder.tensors.keys().any(mtp);
    if not_strict && without_mtp {
        folder.config.model.mtp = None;
        notes.push("the source has no mtp.* tensors: the checkpoint has no MTP block".into());
        census = take(folder);
    }
    if not_strict && !census.unexpected.is_empty() {
        notes.push(format!("{} tensors are not in the model and were left out", census.unexpected.len()));
    }
    let harmless = census.missing.is_empty() && census.shapes.is_empty();
    if census.agrees() || (not_strict && harmless) {
        return Ok(census);
    }
    let hint = if without_mtp && census.missing.iter().all(mtp) && census.shapes.is_empty() {
        "transformers drops mtp.* when it saves; import the original checkpoint, or without MTP by --not-strict"
    } else if harmless {
        "is it this model's config.json? --not-strict leaves out tensors that the model does not have"
    } else {
        "is it this model's config.json, and are all files there?"
    };
    Err(ConvertError::Census { path: folder.path.clone(), differences: census.differences(), hint })
}

fn jobs(config: &HfConfig, folder: &HfFolder, skip: &BTreeSet<&String>, dtype: Option<Dtype>) -> Vec<Job<'static>> {
    let layout = Layout::new(&config.model);
    let wanted = layout.parts().filter(|(_, part)| !skip.contains(&part.name));
    wanted
        .map(|(index, part)| {
            let tensor = &folder.tensors[&part.name];
            Job {
                name: part.name.clone(),
                key: Region::whole(&part.shape).key(&format!("model/{}", part.name)),
                from: tensor.dtype,
                to: converted(layout.params[index].role, tensor.dtype, dtype),
                stored: part.shape.iter().product(),
                shape: part.shape.clone(),
                delta: None,
            }
        })
        .collect()
}
