//! Ours to Hugging Face.

use super::ConvertError;
use super::args::ExportArgs;
use super::census::Census;
use super::draft::{Draft, compare_file};
use super::dtypes::{converted, default_dtype, named_dtype, torch_name};
use super::places::{copy_side_files, locate, refuse_same_place};
use super::report::Report;
use super::stream::{self, FilePlan, Job, write_files};
use super::weights::Weights;
use crate::adapters::{Adapter, Delta};
use crate::checkpoint::{CheckpointError, move_into_place, parse_dtype, recover, sync_folder, write_file};
use crate::cli::Failure;
use crate::hf::folder::{INDEX, SINGLE, side_files};
use crate::hf::{HfConfig, HfFolder, header};
use lightning_core::layout::Layout;
use safetensors::Dtype;
use serde_json::json as object;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The verb `export`.
///
/// # Errors
/// A [`ConvertError`] with its exit code.
pub fn export(args: ExportArgs) -> Result<(), Failure> {
    let json = args.json;
    run(&args)?.print(json);
    Ok(())
}

/// Exports and says what was done.
///
/// # Errors
/// As [`export`].
pub fn run(args: &ExportArgs) -> Result<Report, ConvertError> {
    let workers = if args.low_memory { 1 } else { stream::workers(args.workers)? };
    let dtype = named_dtype(args.torch_dtype.as_deref())?;
    let weights = open_ours(Path::new(&args.checkpoint_path))?;
    let reference = match &args.hf_model {
        None => None,
        Some(model) => Some(HfFolder::open(&locate(model, args.hf_revision.as_deref())?)?),
    };
    let mut notes = Vec::new();
    let mut config = weights.config().clone();
    let census = check_census(&weights, reference.as_ref(), args.not_strict, &mut notes)?;
    if args.dry_run {
        return Ok(Report { census, folder: None, saturated: BTreeMap::new(), notes });
    }
    let target = PathBuf::from(&args.hf_path);
    refuse_same_place(weights.path(), &target)?;
    if let Some(reference) = &reference {
        refuse_same_place(&reference.path, &target)?;
    }
    recover(&target)?;
    if target.exists() && !args.overwrite {
        return Err(ConvertError::Exists(target));
    }
    let deltas = match &args.adapter {
        None => BTreeMap::new(),
        Some(folder) => Adapter::read(Path::new(folder))?.deltas(&config.model)?,
    };
    let jobs = jobs(&weights, reference.as_ref(), dtype, &deltas);
    let bytes: u64 = jobs.iter().map(Job::bytes).sum();
    let single = bytes <= args.max_shard_size;
    let name = |i: usize, n: usize| {
        if single { SINGLE.to_string() } else { format!("model-{:05}-of-{n:05}.safetensors", i + 1) }
    };
    let plans = stream::fill(jobs, args.max_shard_size, &name);
    let draft_folder = draft_of(&target)?;
    let index_text = fs::read_to_string(weights.path().join("index.json")).unwrap_or_default();
    let fingerprint = object!({
        "source": weights.path(), "target": "export", "dtype": args.torch_dtype,
        "index": format!("{:016x}", twox_hash::XxHash3_64::oneshot(index_text.as_bytes())),
        "reference": reference.as_ref().map(|r| &r.path), "shard": args.max_shard_size,
        "adapter": args.adapter.as_ref().map(|a| Adapter::fingerprint(Path::new(a))),
    });
    let draft = Draft::open(&draft_folder, &fingerprint)?;
    let progress = stream::progress_bar(&plans, !args.no_progress && !args.json);
    let receipts = write_files(&plans, &[("format", "pt")], &weights, &draft, workers, &progress)?;
    progress.finish_and_clear();
    write_index(&draft.folder, &plans, single)?;
    if let Some(dtype) = dtype.or_else(|| main_dtype(&plans)) {
        config.dtype = torch_name(dtype).into();
    }
    write_file(&draft.folder.join("config.json"), config.to_text().as_bytes())?;
    let files = match &reference {
        Some(reference) => reference.side_files(),
        None if weights.path().join("hf").is_dir() => side_files(&weights.path().join("hf")),
        None => Ok(Vec::new()),
    };
    let files = files.map_err(|e| CheckpointError::io("list", weights.path(), e))?;
    let copied = copy_side_files(&files, &draft.folder)?;
    notes.push(match copied {
        0 => "no tokenizer or other side files are known; --hf-model names a checkpoint that has them".into(),
        n => format!("{n} side files were copied unchanged"),
    });
    check_written(&draft.folder, &plans)?;
    draft.clear()?;
    sync_folder(&draft.folder)?;
    move_into_place(&draft.folder, &target)?;
    let saturated = receipts.into_iter().flat_map(|r| r.saturated).collect();
    Ok(Report { census, folder: Some(target), saturated, notes })
}

fn open_ours(path: &Path) -> Result<Weights, ConvertError> {
    let folder = crate::checkpoint::resolve(path, None)?;
    let checkpoint = crate::checkpoint::Checkpoint::open(&folder, &["model"])?;
    let config = HfConfig::read(&folder.join("config.json"))?;
    Ok(Weights::Ours { checkpoint, config })
}

fn draft_of(target: &Path) -> Result<PathBuf, ConvertError> {
    let Some(name) = target.file_name() else {
        return Err(ConvertError::Flag(format!("--hf-path {} names no folder", target.display())));
    };
    let parent = target.parent().unwrap_or(Path::new(""));
    if !parent.as_os_str().is_empty() {
        fs::create_dir_all(parent).map_err(|e| CheckpointError::io("create", parent, e))?;
    }
    Ok(target.with_file_name(format!(".{}.export", name.to_string_lossy())))
}

/// Rows of the vocabulary that a layout padded are not exported (pitfall B07): such a shape counts as the model's.
fn trimmed(name: &str, stored: &[usize], config: &HfConfig) -> Vec<usize> {
    let mut shape = stored.to_vec();
    if matches!(name, "backbone.embeddings.weight" | "lm_head.weight") && stored.len() == 2 {
        shape[0] = stored[0].min(config.model.vocab);
    }
    shape
}

fn check_census(
    weights: &Weights,
    reference: Option<&HfFolder>,
    not_strict: bool,
    notes: &mut Vec<String>,
) -> Result<Census, ConvertError> {
    let config = weights.config();
    let mut listed = weights.list(false);
    for tensor in &mut listed {
        tensor.shape = trimmed(&tensor.name, &tensor.shape, config);
    }
    let found = listed.iter().map(|t| (t.name.as_str(), t.dtype, t.shape.as_slice()));
    let census = Census::take(&config.model, found);
    let mut differences = census.differences();
    let mut shapes = census.shapes.len();
    if let Some(reference) = reference {
        let ours: BTreeMap<_, _> = listed.iter().map(|t| (t.name.as_str(), &t.shape)).collect();
        for (name, tensor) in &reference.tensors {
            match ours.get(name.as_str()) {
                None if census.missing.contains(name) => {}
                None => differences.push(format!("{name} of the reference is missing")),
                Some(shape) if **shape != tensor.shape => {
                    shapes += 1;
                    let line = format!("{name} has shape {shape:?}, the reference {:?}", tensor.shape);
                    differences.push(line);
                }
                Some(_) => {}
            }
        }
        let extra = ours.keys().filter(|name| !reference.tensors.contains_key(**name));
        differences.extend(extra.map(|name| format!("{name} is not in the reference")));
    }
    if differences.is_empty() {
        return Ok(census);
    }
    // A folder with other shapes than its configuration would only look like a checkpoint (pitfall B04).
    if not_strict && shapes == 0 && census.total.tensors > 0 {
        notes.push(format!("{} tensors differ from what was expected", differences.len()));
        return Ok(census);
    }
    let hint = "export strictly needs every tensor; was the checkpoint trained from this model? --not-strict writes what is there";
    Err(ConvertError::Census { path: weights.path().to_path_buf(), differences, hint })
}

fn jobs<'d>(
    weights: &Weights,
    reference: Option<&HfFolder>,
    dtype: Option<Dtype>,
    deltas: &'d BTreeMap<String, Delta>,
) -> Vec<Job<'d>> {
    let Weights::Ours { checkpoint, config } = weights else { return Vec::new() };
    let layout = Layout::new(&config.model);
    let mut jobs = Vec::new();
    for (index, part) in layout.parts() {
        let Some(entry) = checkpoint.entry(&format!("model/{}", part.name)) else { continue };
        let from = parse_dtype(&entry.dtype).expect("checked when opened");
        let role = layout.params[index].role;
        let remembered = reference
            .and_then(|r| r.tensors.get(&part.name).map(|t| t.dtype))
            .or_else(|| parse_dtype(entry.source_dtype.as_deref()?))
            .unwrap_or_else(|| default_dtype(role));
        jobs.push(Job {
            name: part.name.clone(),
            key: part.name.clone(),
            from,
            to: converted(role, remembered, dtype),
            stored: entry.shape.iter().product(),
            shape: trimmed(&part.name, &entry.shape, config),
            delta: deltas.get(&part.name),
        });
    }
    jobs
}

/// The type of most bytes.
fn main_dtype(plans: &[FilePlan<'_>]) -> Option<Dtype> {
    let mut bytes: BTreeMap<String, (u64, Dtype)> = BTreeMap::new();
    for job in plans.iter().flat_map(|p| &p.jobs) {
        bytes.entry(job.to.to_string()).or_insert((0, job.to)).0 += job.bytes();
    }
    bytes.into_values().max_by_key(|(n, _)| *n).map(|(_, dtype)| dtype)
}

/// The index, from the headers of the files that were written (pitfall B02).
fn write_index(folder: &Path, plans: &[FilePlan<'_>], single: bool) -> Result<(), ConvertError> {
    if single {
        return Ok(());
    }
    let mut map = BTreeMap::new();
    let mut total = 0;
    for plan in plans {
        let (_, header) = header::open(&folder.join(&plan.file))?;
        for entry in header.entries {
            total += entry.len;
            map.insert(entry.name, plan.file.clone());
        }
    }
    let index = object!({ "metadata": { "total_size": total }, "weight_map": map });
    Ok(write_file(&folder.join(INDEX), format!("{index:#}\n").as_bytes())?)
}

/// Reads the written folder as any other reader would, and compares every header with the plan.
fn check_written(folder: &Path, plans: &[FilePlan<'_>]) -> Result<(), ConvertError> {
    let opened = HfFolder::open(folder)?;
    for plan in plans {
        compare_file(&folder.join(&plan.file), plan)?;
    }
    let planned: usize = plans.iter().map(|p| p.jobs.len()).sum();
    if opened.tensors.len() == planned {
        return Ok(());
    }
    let problem = format!("has {} tensors instead of {planned}", opened.tensors.len());
    Err(ConvertError::Written { path: folder.to_path_buf(), problem })
}
