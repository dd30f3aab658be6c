//! `data inspect`: counts, lengths, samples and batches.

use std::fs;
use std::path::{Path, PathBuf};

use lightning_data::DataError;
use lightning_data::indexed::{IndexedDataset, idx_path};
use lightning_data::inspect::{Summary, show_row, show_sequence, summarize_indexed};
#[cfg(feature = "parquet")]
use lightning_data::inspect::{show_pack, summarize_packs};
use lightning_data::tokenizer::TextTokenizer;
use serde_json::{Value, json};

use super::args::InspectArgs;
use super::batches::{self, Wanted};
use super::run_config::{self, RankView};
use super::{Line, note, usage};
use crate::cli::{Failure, Process, print};

/// What a path holds.
enum Target {
    Indexed(PathBuf),
    #[cfg(feature = "parquet")]
    Packed(Vec<PathBuf>),
    Config(PathBuf),
}

fn target(path: &str) -> Result<Target, Failure> {
    let given = Path::new(path);
    if given.is_dir() {
        let config = given.join("run_config.toml");
        if config.is_file() {
            return Ok(Target::Config(config));
        }
        return packed_folder(given);
    }
    match given.extension().and_then(|e| e.to_str()) {
        Some("toml") => Ok(Target::Config(given.to_path_buf())),
        #[cfg(feature = "parquet")]
        Some("parquet") => Ok(Target::Packed(vec![given.to_path_buf()])),
        #[cfg(not(feature = "parquet"))]
        Some("parquet") => Err(usage(format!("{path}: this build reads no Parquet; build with --features parquet"))),
        Some("bin" | "idx") => Ok(Target::Indexed(given.with_extension(""))),
        _ => Ok(Target::Indexed(given.to_path_buf())),
    }
}

#[cfg(feature = "parquet")]
fn packed_folder(folder: &Path) -> Result<Target, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| DataError::io("list", folder, e))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "parquet"))
        .collect();
    files.sort();
    if files.is_empty() {
        let message = format!(
            "{}: expected run_config.toml or .parquet files, found neither; name a run's folder, splits/train of a preparation, or a file",
            folder.display()
        );
        return Err(usage(message));
    }
    Ok(Target::Packed(files))
}

#[cfg(not(feature = "parquet"))]
fn packed_folder(folder: &Path) -> Result<Target, Failure> {
    let _ = fs::metadata(folder).map_err(|e| DataError::io("open", folder, e))?;
    Err(usage(format!(
        "{}: expected run_config.toml in it, found none; name a run's folder or a file",
        folder.display()
    )))
}

/// Shows what is there.
pub(super) fn inspect(args: InspectArgs, line: Line, process: &mut Process<'_>) -> Result<(), Failure> {
    let mut paths = line.inputs(args.path.clone());
    if paths.len() > 1 {
        return Err(usage(format!("`{}`: one thing at a time; call the verb once for each", paths[1])));
    }
    let found = paths.pop().map(|p| target(&p)).transpose()?;
    match found {
        Some(Target::Indexed(_)) if args.batches.is_some() => Err(usage(
            "--batches of a token file needs a run, which says how samples are cut and ordered: give --recipe or a configuration \
             file, with dataset.data_path=PREFIX",
        )),
        Some(Target::Indexed(prefix)) => {
            line.no_overrides()?;
            indexed(&args, &prefix, process)
        }
        #[cfg(feature = "parquet")]
        Some(Target::Packed(files)) => {
            line.no_overrides()?;
            packed(&args, &files, process)
        }
        Some(Target::Config(file)) => run(&args, Some(&file), &line.overrides, process),
        None if args.recipe.is_some() => run(&args, None, &line.overrides, process),
        None => Err(usage(
            "what to inspect is missing; name a token file, a packed file, a configuration or a run's folder",
        )),
    }
}

fn tokenizer(args: &InspectArgs) -> Result<Option<TextTokenizer>, Failure> {
    Ok(args.tokenizer.as_ref().map(TextTokenizer::load).transpose()?)
}

fn numbers(args: &InspectArgs, total: u64, decodes: bool) -> std::ops::Range<u64> {
    let wanted = args.samples.unwrap_or(if decodes { 3 } else { 0 });
    args.from.min(total)..args.from.saturating_add(wanted).min(total)
}

/// Prints a summary and samples, for people or programs.
fn print_summary(
    head: Value,
    summary: Option<&Summary>,
    samples: &[(u64, usize, String)],
    json: bool,
    process: &mut Process<'_>,
) -> Result<(), Failure> {
    let mut value = head;
    if let (Value::Object(all), Value::Object(counts)) = (&mut value, summary.map_or(Value::Null, Summary::to_json)) {
        all.extend(counts);
    }
    if json {
        value["samples"] =
            samples.iter().map(|(i, n, text)| json!({ "index": i, "tokens": n, "text": text })).collect();
        return print(process, &format!("{value}\n"));
    }
    let mut text = String::new();
    for (key, entry) in value.as_object().into_iter().flatten() {
        match entry {
            Value::Null => {}
            Value::Array(_) if key == "length_histogram" => {}
            Value::Object(map) => {
                text += &format!("{key}\n");
                map.iter().for_each(|(name, n)| text += &format!("  {n:>21} {name}\n"));
            }
            Value::String(s) => text += &format!("{key:16} {s}\n"),
            other => text += &format!("{key:16} {other}\n"),
        }
    }
    let histogram = summary.map_or(&[][..], |s| &s.histogram[..]);
    text += if histogram.is_empty() { "" } else { "lengths\n" };
    let most = histogram.iter().map(|h| h.1).max().unwrap_or(1).max(1);
    for &(from, n) in histogram {
        let to = if from == 0 { 0 } else { 2 * from - 1 };
        text +=
            &format!("  {:>21} {n:>12} {}\n", format!("{from} to {to}"), "#".repeat((40 * n).div_ceil(most) as usize));
    }
    for (i, n, sample) in samples {
        text += &format!("sample {i} ({n} tokens)\n{sample}\n");
    }
    print(process, &text)
}

fn indexed(args: &InspectArgs, prefix: &Path, process: &mut Process<'_>) -> Result<(), Failure> {
    let tokenizer = tokenizer(args)?;
    let data = IndexedDataset::open_validated(prefix)?;
    let summary = summarize_indexed(prefix)?;
    if let Some(vocab_size) = args.vocab_size.or(tokenizer.as_ref().map(TextTokenizer::vocab_size)) {
        check_range(&data, vocab_size)?;
    }
    let mut samples = Vec::new();
    for i in numbers(args, data.len(), tokenizer.is_some()) {
        let ids = data.read(i)?;
        let text = match &tokenizer {
            Some(tokenizer) => show_sequence(tokenizer, &ids)?,
            None => ids.iter().map(i32::to_string).collect::<Vec<_>>().join(" "),
        };
        samples.push((i, ids.len(), text));
    }
    let head = json!({
        "kind": "token file", "prefix": prefix, "dtype": data.token_type().name(), "bytes": data.bin_bytes(),
    });
    print_summary(head, Some(&summary), &samples, args.json, process)
}

/// Every token against the vocabulary.
fn check_range(data: &IndexedDataset, vocab_size: u32) -> Result<(), Failure> {
    for sequence in 0..data.len() {
        let ids = data.read(sequence)?;
        if let Some(position) = ids.iter().position(|&id| id < 0 || id as u32 >= vocab_size) {
            let error = DataError::TokenRange {
                path: data.bin_path().to_path_buf(),
                sequence,
                position: position as u64,
                id: i64::from(ids[position]),
                vocab_size: u64::from(vocab_size),
            };
            return Err(error.into());
        }
    }
    Ok(())
}

/// Opens packs; the column types say which convention they follow.
#[cfg(feature = "parquet")]
fn open_packs(files: &[PathBuf]) -> Result<lightning_data::sft::ParquetPacks, Failure> {
    use lightning_data::sft::ParquetPacks;
    let offline_name = files.iter().any(|f| f.to_string_lossy().ends_with(".idx.parquet"));
    let open = |offline: bool| if offline { ParquetPacks::offline(files) } else { ParquetPacks::prepared(files) };
    match open(offline_name) {
        Err(e @ DataError::Invalid { .. }) => open(!offline_name).map_err(|_| e.into()),
        other => Ok(other?),
    }
}

/// Links of a preparation are named `POSITION__DATASET__SHARD.parquet`; another file is a source of its own.
#[cfg(feature = "parquet")]
fn data_set_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match name.split_once("__").and_then(|(_, rest)| rest.rsplit_once("__shard_")) {
        Some((data_set, _)) => data_set.to_string(),
        None => name.into_owned(),
    }
}

#[cfg(feature = "parquet")]
fn packed(args: &InspectArgs, files: &[PathBuf], process: &mut Process<'_>) -> Result<(), Failure> {
    use lightning_data::sampler::FineTuningSampler;
    use lightning_data::sft::{CollateSettings, Collator, PackStore, PackedBatches};
    let tokenizer = tokenizer(args)?;
    let store = open_packs(files)?;
    if let Some(text) = &args.batches {
        let (Some(pack_size), Some(tokenizer)) = (args.pack_size, &tokenizer) else {
            return Err(usage(
                "--batches of packed files needs --pack-size (positions of a row) and --tokenizer (its EOS pads rows)",
            ));
        };
        let dp = args.dp.unwrap_or(1);
        let global_batch_size = args.global_batch_size.unwrap_or(dp);
        let name = store.name();
        let seed = args.seed.unwrap_or(1234);
        let sampler = FineTuningSampler::new(&name, store.len(), global_batch_size, dp, seed, true)?;
        let collator = Collator::new(CollateSettings {
            pack_size,
            pad_seq_to_mult: args.pad_seq_to_mult.unwrap_or(1),
            eos: tokenizer.eos()? as i32,
            pad_to_max_length: false,
            pad_cu_seqlens: None,
        })?;
        let source = PackedBatches::new(store, sampler, collator)?;
        let wanted = Wanted {
            steps: batches::steps(text)?,
            rank: args.rank,
            dp,
            cp: args.cp.unwrap_or(1).max(1),
            cp_rank: args.cp_rank,
            global_batch_size,
            micro_batch_size: 1,
            json: args.json,
        };
        return match &args.output {
            Some(path) => batches::save(&source, &wanted, Path::new(path), process),
            None => batches::show(&source, &wanted, process),
        };
    }
    let summary = summarize_packs(&store)?;
    let mut by_source = serde_json::Map::new();
    for file in files.iter().filter(|_| files.len() > 1) {
        let tokens = summarize_packs(&open_packs(std::slice::from_ref(file))?)?.tokens;
        let name = data_set_of(file);
        let before = by_source.get(&name).and_then(Value::as_u64).unwrap_or(0);
        by_source.insert(name, (before + tokens).into());
    }
    let mut samples = Vec::new();
    for i in numbers(args, store.len(), tokenizer.is_some()) {
        let pack = store.pack(i)?;
        let text = match &tokenizer {
            Some(tokenizer) => show_pack(tokenizer, &pack)?,
            None => pack.input_ids.iter().map(i32::to_string).collect::<Vec<_>>().join(" "),
        };
        samples.push((i, pack.input_ids.len(), text));
    }
    let mut head = json!({ "kind": "packed files", "convention": format!("{:?}", store.convention()).to_lowercase(), "files": files.len() });
    if !by_source.is_empty() {
        head["tokens_by_source"] = by_source.into();
    }
    print_summary(head, Some(&summary), &samples, args.json, process)
}

fn run(
    args: &InspectArgs,
    file: Option<&Path>,
    overrides: &[String],
    process: &mut Process<'_>,
) -> Result<(), Failure> {
    let file = file.map(|f| f.display().to_string());
    let resolved = run_config::resolve(args.recipe.as_deref(), file.as_deref(), overrides, process.environment)?;
    let data = run_config::open(&resolved, &mut |text| note(process, text))?;
    let dp = args.dp.unwrap_or(data.dp);
    let wanted = Wanted {
        steps: batches::steps(args.batches.as_deref().unwrap_or("0"))?,
        rank: args.rank,
        dp,
        cp: args.cp.unwrap_or(data.cp).max(1),
        cp_rank: args.cp_rank,
        global_batch_size: data.global_batch_size,
        micro_batch_size: data.micro_batch_size,
        json: args.json,
    };
    let source = RankView { source: data.source.as_ref(), dp: dp.max(1) };
    match (&args.batches, &args.output) {
        (Some(_), Some(path)) => batches::save(&source, &wanted, Path::new(path), process),
        (Some(_), None) => batches::show(&source, &wanted, process),
        (None, Some(_)) => Err(usage("--output writes batches; say which with --batches FIRST..END")),
        (None, None) => {
            let d = &resolved.config.dataset;
            let mut value = json!({
                "kind": "run", "data": d.kind.to_string(), "train_samples": data.source.samples(),
                "sequence_length": resolved.config.model.seq_length, "global_batch_size": data.global_batch_size,
                "micro_batch_size": data.micro_batch_size, "data_parallel": dp, "sources": data.source.source_names(),
            });
            let files = summarize_sources(&data.source.source_names())?;
            let count = numbers(args, data.source.samples().unwrap_or(u64::MAX), false);
            let tokenizer = match tokenizer(args)? {
                Some(tokenizer) => Some(tokenizer),
                None => data.tokenizer,
            };
            let mut samples = Vec::new();
            for sample in count {
                let (step, at) = (sample / data.global_batch_size, sample % data.global_batch_size);
                let batch = data.source.batch(step * data.global_batch_size, at / data.micro_batch_size, 0)?;
                let row = (at % data.micro_batch_size) as usize;
                let ids = &batch.tokens[row * batch.seq_length..(row + 1) * batch.seq_length];
                let text = match &tokenizer {
                    Some(tokenizer) => show_row(tokenizer, &batch, row)?,
                    None => ids.iter().map(i32::to_string).collect::<Vec<_>>().join(" "),
                };
                samples.push((sample, ids.len(), text));
            }
            let (whole, by_source) = files;
            if !by_source.is_empty() {
                value["tokens_by_source"] = by_source.into();
            }
            print_summary(value, whole.as_ref(), &samples, args.json, process)
        }
    }
}

/// What is in the files behind a run's sources: all of them, and tokens by source. Sources without files have no counts.
fn summarize_sources(names: &[String]) -> Result<(Option<Summary>, serde_json::Map<String, Value>), Failure> {
    let (mut whole, mut tokens) = (Summary::new(), serde_json::Map::new());
    for name in names {
        let path = Path::new(name);
        let summary = match () {
            () if idx_path(path).is_file() => summarize_indexed(path)?,
            #[cfg(feature = "parquet")]
            () if path.extension().is_some_and(|e| e == "parquet") => summarize_packs(&open_packs(&[path.into()])?)?,
            () => continue,
        };
        tokens.insert(name.clone(), summary.tokens.into());
        whole.merge(&summary);
    }
    Ok(((!tokens.is_empty()).then_some(whole), tokens))
}
