//! The batches of a pretraining run.

use super::corpus::{self, Prepared};
use super::settings;
use crate::cli::Failure;
use crate::config::choices::DatasetKind;
use crate::config::data_setting::Blend;
use crate::config::run::RunConfig;
use lightning_data::blend::{BlendSpec, DatasetSettings, PretrainData, PretrainSamples};
use lightning_data::gpt::GptOptions;
use lightning_data::sampler::{BatchShape, CyclicSampler, SequentialSampler};
use lightning_data::split::SampleRequest;
use lightning_data::tokenizer::TextTokenizer;
use lightning_data::{BatchSource, GptBatches, Samples};
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
    /// Identity of tokenizer and data, for checkpoints.
    pub fingerprint: String,
}

fn blend(blend: &Blend) -> Result<BlendSpec, Failure> {
    Ok(BlendSpec::new(
        blend.prefixes.clone(),
        blend.weights.clone(),
    )?)
}

/// Opens (and where needed makes) the data of a run.
///
/// # Errors
/// Missing or damaged files, splits without documents, cache folders that cannot be written.
pub fn open(
    config: &RunConfig,
    threads: usize,
    say: &mut dyn FnMut(&str),
) -> Result<RunData, Failure> {
    let d = &config.dataset;
    let mut tokenizer = config
        .tokenizer
        .tokenizer_model
        .as_ref()
        .map(TextTokenizer::load)
        .transpose()?;
    let mut prepared = None;
    let split = || d.split.clone().unwrap_or_else(|| "9999,8,2".to_string());
    let data = match settings::data_kind(config)? {
        DatasetKind::Text => {
            let corpus = corpus::prepare(config, say)?;
            tokenizer = Some(TextTokenizer::load(&corpus.folder)?);
            let blend = BlendSpec::new(vec![corpus.prefix().to_string_lossy().into_owned()], None)?;
            prepared = Some(corpus);
            PretrainData::Blend {
                blend,
                split: split(),
            }
        }
        DatasetKind::MegatronIndexed => match (
            &d.data_path,
            &d.blend,
            &d.blend_per_split,
            &d.per_split_data_args_path,
        ) {
            (Some(words), ..) => PretrainData::Blend {
                blend: BlendSpec::from_list(&words.0)?,
                split: split(),
            },
            (_, Some(b), ..) => PretrainData::Blend {
                blend: blend(b)?,
                split: split(),
            },
            (_, _, Some(per_split), _) => {
                let [a, b, c] = &per_split.0;
                let one = |x: &Option<Blend>| x.as_ref().map(blend).transpose();
                PretrainData::PerSplit([one(a)?, one(b)?, one(c)?])
            }
            (_, _, _, Some(path)) => {
                PretrainData::PerSplit(BlendSpec::per_split_file(Path::new(path))?)
            }
            _ => {
                let message = "dataset.kind = megatron-indexed needs dataset.blend, dataset.data_path, \
                               dataset.blend_per_split or dataset.per_split_data_args_path";
                return Err(Failure::new(crate::cli::Exit::Usage, message));
            }
        },
        _ => PretrainData::Mock {
            vocab_size: config.model.vocab_size as u32,
        },
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
    let fingerprint = match &prepared {
        Some(corpus) => format!("text {}", corpus.fingerprint),
        None => format!("{data:?}"),
    };
    let settings = DatasetSettings {
        options,
        samples: [Some(samples[0]), Some(samples[1]), Some(0)],
        cache: d.path_to_cache.as_ref().map(PathBuf::from),
        vocab_size: Some(config.model.vocab_size as u32),
        threads,
    };
    let [train, valid, _] = data.build(&settings)?;
    let shape = BatchShape {
        micro_batch_size: config.train.micro_batch_size,
        dp_size: 1,
    };
    let train = train.ok_or_else(|| {
        Failure::new(
            crate::cli::Exit::Usage,
            "dataset.split leaves nothing for training; give its first part more",
        )
    })?;
    let sampler = SequentialSampler::new("training data", train.len(), shape)?;
    let train: Arc<dyn BatchSource> = Arc::new(GptBatches::new(train, sampler));
    let valid = valid
        .map(
            |valid: PretrainSamples| -> Result<Arc<dyn BatchSource>, Failure> {
                let sampler =
                    CyclicSampler::new("validation data", valid.len(), shape, d.data_sharding)?;
                Ok(Arc::new(GptBatches::new(valid, sampler)))
            },
        )
        .transpose()?;
    if v.eval_interval > 0 && v.eval_iters > 0 && valid.is_none() {
        let message = "validation.eval_interval is set but dataset.split leaves nothing for validation; \
                       give its second part more, or set validation.eval_interval=0";
        return Err(Failure::new(crate::cli::Exit::Usage, message));
    }
    Ok(RunData {
        train,
        valid,
        tokenizer,
        corpus: prepared,
        fingerprint,
    })
}
