//! The batches of a pretraining run.

use super::corpus::{self, Prepared};
use super::provenance::{SampleOrigin, step_samples};
use super::settings;
use super::stop::Stop;
use crate::cli::{Exit, Failure};
use crate::config::choices::DatasetKind;
use crate::config::data_setting::Blend;
use crate::config::run::RunConfig;
use crate::records::run_card::file_hash;
use lightning_data::blend::{BlendSpec, DatasetSettings, PretrainData, PretrainSamples};
use lightning_data::gpt::GptOptions;
use lightning_data::sampler::{BatchShape, CyclicSampler, SequentialSampler};
use lightning_data::split::SampleRequest;
use lightning_data::tokenizer::TextTokenizer;
use lightning_data::{BatchSource, GptBatches, Samples};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Training and validation batches, and what they are.
pub struct RunData {
    /// Training batches.
    pub train: Arc<dyn BatchSource>,
    /// Validation batches.
    pub valid: Option<Arc<dyn BatchSource>>,
    /// The tokenizer, where text is known.
    pub tokenizer: Option<TextTokenizer>,
    /// The prepared corpus of plain text.
    pub corpus: Option<Prepared>,
    /// Identity of tokenizer and data, for checkpoints: lines `name = value`.
    pub fingerprint: String,
    samples: Arc<GptBatches<PretrainSamples, SequentialSampler>>,
    sampler: SequentialSampler,
}

impl RunData {
    /// The documents behind the `global` samples after `consumed` ones.
    pub fn origins(&self, consumed: u64, global: u64) -> Vec<SampleOrigin> {
        step_samples(self.samples.samples(), &self.sampler, consumed, global)
    }

    /// For the run card.
    pub fn describe(&self) -> Value {
        let fields = self.fingerprint.lines().filter_map(|line| line.split_once(" = "));
        let mut map: serde_json::Map<String, Value> = fields.map(|(k, v)| (k.to_string(), v.into())).collect();
        if let Some(corpus) = &self.corpus {
            map.insert("corpus".into(), serde_json::to_value(corpus).unwrap_or_default());
        }
        if let Some(samples) = self.train.samples() {
            map.insert("training_samples".into(), samples.into());
        }
        Value::Object(map)
    }
}

/// What data and tokenizer are, line by line, so that a difference can be named.
fn fingerprint(
    config: &RunConfig,
    data: &PretrainData,
    corpus: Option<&Prepared>,
    tokenizer: Option<&TextTokenizer>,
) -> Result<String, Failure> {
    let mut lines = vec![format!("dataset.random_seed = {}", config.dataset.random_seed)];
    if let Some(corpus) = corpus {
        lines.push(format!("text = {}", corpus.fingerprint));
        lines.push(format!("text.documents = {}", corpus.documents));
        lines.push(format!("text.vocabulary = {}", corpus.vocab_size));
    }
    let blends: Vec<&BlendSpec> = match data {
        PretrainData::Mock { vocab_size } => {
            lines.push(format!("mock.vocabulary = {vocab_size}"));
            vec![]
        }
        PretrainData::Blend { .. } | PretrainData::PerSplit(_) if corpus.is_some() => vec![],
        PretrainData::Blend { blend, split } => {
            lines.push(format!("split = {split}"));
            vec![blend]
        }
        PretrainData::PerSplit(blends) => blends.iter().flatten().collect(),
    };
    for (b, blend) in blends.into_iter().enumerate() {
        for (i, prefix) in blend.prefixes.iter().enumerate() {
            let weight = blend.weights.as_ref().map_or(String::new(), |w| format!(", weight {}", w[i]));
            let size = |ext: &str| std::fs::metadata(format!("{prefix}.{ext}")).map_or(0, |m| m.len());
            // Sizes, not contents: token files have terabytes.
            let sizes = format!("{} bytes of tokens, {} of index", size("bin"), size("idx"));
            lines.push(format!("blend.{b}.{i} = {prefix}{weight}, {sizes}"));
        }
    }
    if let Some(tokenizer) = tokenizer {
        let path = tokenizer.path();
        let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_path_buf() };
        let hash = file_hash(&file).map_err(|e| {
            Failure::new(Exit::Invalid, format!("cannot read {}: {e}; set tokenizer.tokenizer_model", file.display()))
        })?;
        lines.push(format!("tokenizer = {hash} ({} entries)", tokenizer.vocab_size()));
    }
    Ok(lines.join("\n"))
}

fn blend(blend: &Blend) -> Result<BlendSpec, Failure> {
    Ok(BlendSpec::new(blend.prefixes.clone(), blend.weights.clone())?)
}

/// The tokenizer that the configuration names: a folder, or a model in the local Hugging Face cache. Token files and mock
/// data can do without one unless a setting asks where documents end.
fn named_tokenizer(config: &RunConfig, say: &mut dyn FnMut(&str)) -> Result<Option<TextTokenizer>, Failure> {
    let Some(name) = config.tokenizer.tokenizer_model.as_ref() else { return Ok(None) };
    if config.dataset.kind == DatasetKind::Text {
        return Ok(None);
    }
    let d = &config.dataset;
    let needs_ends = d.eod_mask_loss || d.reset_position_ids || d.inter_document_masking;
    match crate::hf::cache::resolve(name, None, &|variable| std::env::var(variable).ok()) {
        Ok(folder) => Ok(Some(TextTokenizer::load(folder)?)),
        Err(_) if !needs_ends => {
            say(&format!("note: tokenizer {name} is not on this machine; ids are trained as they are"));
            Ok(None)
        }
        Err(problem) => {
            let message = format!("tokenizer.tokenizer_model: {problem}; set it to a folder with tokenizer.json");
            Err(Failure::new(crate::cli::Exit::Invalid, message))
        }
    }
}

/// Opens (and where needed makes) the data of a run.
///
/// # Errors
/// Missing or damaged files, splits without documents, cache folders that cannot be written.
pub fn open(config: &RunConfig, threads: usize, say: &mut dyn FnMut(&str)) -> Result<RunData, Failure> {
    open_unless_stopped(config, threads, &Stop::default(), say)
}

/// As [`open`], for a run that can be stopped from outside.
///
/// # Errors
/// As [`open`]; `Requeue` after a signal or the time limit.
pub fn open_unless_stopped(
    config: &RunConfig,
    threads: usize,
    stop: &Stop,
    say: &mut dyn FnMut(&str),
) -> Result<RunData, Failure> {
    let d = &config.dataset;
    let mut tokenizer = named_tokenizer(config, say)?;
    let mut prepared = None;
    let split = || d.split.clone().unwrap_or_else(|| "9999,8,2".to_string());
    let data = match settings::data_kind(config)? {
        DatasetKind::Text => {
            let corpus = corpus::prepare(config, stop, say)?;
            tokenizer = Some(TextTokenizer::load(&corpus.folder)?);
            let blend = BlendSpec::new(vec![corpus.prefix().to_string_lossy().into_owned()], None)?;
            prepared = Some(corpus);
            PretrainData::Blend { blend, split: split() }
        }
        DatasetKind::MegatronIndexed => match (&d.data_path, &d.blend, &d.blend_per_split, &d.per_split_data_args_path)
        {
            (Some(words), ..) => PretrainData::Blend { blend: BlendSpec::from_list(&words.0)?, split: split() },
            (_, Some(b), ..) => PretrainData::Blend { blend: blend(b)?, split: split() },
            (_, _, Some(per_split), _) => {
                let [a, b, c] = &per_split.0;
                let one = |x: &Option<Blend>| x.as_ref().map(blend).transpose();
                PretrainData::PerSplit([one(a)?, one(b)?, one(c)?])
            }
            (_, _, _, Some(path)) => PretrainData::PerSplit(BlendSpec::per_split_file(Path::new(path))?),
            _ => {
                let message = "dataset.kind = megatron-indexed needs dataset.blend, dataset.data_path, \
                               dataset.blend_per_split or dataset.per_split_data_args_path";
                return Err(Failure::new(Exit::Usage, message));
            }
        },
        _ => PretrainData::Mock { vocab_size: config.model.vocab_size as u32 },
    };
    let eod = match &tokenizer {
        Some(tokenizer) => tokenizer.eos()? as i32,
        None => 0,
    };
    let options = GptOptions {
        add_extra_token: d.add_extra_token_to_sequence,
        drop_last_partial_validation: d.drop_last_partial_validation_sequence,
        reset_position_ids: d.reset_position_ids,
        eod_mask_loss: d.eod_mask_loss,
        inter_document_masking: d.inter_document_masking,
        ..GptOptions::new(config.model.seq_length as u64, d.random_seed as u32, eod)
    };
    let v = &config.validation;
    let request = SampleRequest {
        train_samples: config.train.train_samples,
        train_iters: config.train.train_iters,
        global_batch_size: config.train.global_batch_size,
        eval_interval: v.eval_interval,
        eval_iters: if v.eval_interval > 0 { v.eval_iters } else { 0 },
        eval_global_batch_size: v.eval_global_batch_size,
    };
    let samples = request.samples()?;
    let fingerprint = fingerprint(config, &data, prepared.as_ref(), tokenizer.as_ref())?;
    stop.check("data preparation")?;
    let settings = DatasetSettings {
        options,
        samples: [Some(samples[0]), Some(samples[1]), Some(0)],
        cache: d.path_to_cache.as_ref().map(PathBuf::from),
        vocab_size: Some(config.model.vocab_size as u32),
        threads,
    };
    let [train, valid, _] = data.build(&settings)?;
    let shape = BatchShape { micro_batch_size: config.train.micro_batch_size, dp_size: 1 };
    let train = train.ok_or_else(|| {
        Failure::new(Exit::Usage, "dataset.split leaves nothing for training; give its first part more")
    })?;
    let sampler = SequentialSampler::new("training data", train.len(), shape)?;
    let samples = Arc::new(GptBatches::new(train, sampler.clone()));
    let train: Arc<dyn BatchSource> = samples.clone();
    let valid = valid
        .map(|valid: PretrainSamples| -> Result<Arc<dyn BatchSource>, Failure> {
            let sampler = CyclicSampler::new("validation data", valid.len(), shape, d.data_sharding)?;
            Ok(Arc::new(GptBatches::new(valid, sampler)))
        })
        .transpose()?;
    if v.eval_interval > 0 && v.eval_iters > 0 && valid.is_none() {
        let message = "validation.eval_interval is set but dataset.split leaves nothing for validation; \
                       give its second part more, or set validation.eval_interval=0";
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(RunData { train, valid, tokenizer, corpus: prepared, fingerprint, samples, sampler })
}
