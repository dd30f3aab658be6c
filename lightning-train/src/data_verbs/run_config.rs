//! The data of a run: from a configuration to batches.

use std::sync::Arc;

use lightning_data::BatchSource;
use lightning_data::tokenizer::TextTokenizer;

use super::usage;
use crate::cli::Failure;
use crate::config::launch::{Launch, smallest_world};
use crate::config::resolve::{Layers, Resolved};

/// What a rank of a run reads.
pub(super) struct RunBatches {
    /// Training batches as one data-parallel rank sees them.
    pub source: Arc<dyn BatchSource>,
    /// The tokenizer, where text is known.
    pub tokenizer: Option<TextTokenizer>,
    /// Samples of a step.
    pub global_batch_size: u64,
    /// Samples of a micro-batch.
    pub micro_batch_size: u64,
    /// Data-parallel ranks of the configuration's smallest launch.
    pub dp: u64,
    /// Context-parallel ranks of the configuration.
    pub cp: usize,
}

/// Resolves a configuration as `train` does.
///
/// # Errors
/// Unknown settings, values that cannot work.
pub(super) fn resolve(
    recipe: Option<&str>,
    file: Option<&str>,
    overrides: &[String],
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, Failure> {
    let mut layers = Layers::new();
    if let Some(name) = recipe {
        layers.recipe(name)?;
    }
    if let Some(path) = file {
        layers.file(path)?;
    }
    for text in overrides {
        layers.set_override(text)?;
    }
    let world_size = smallest_world(layers.config()).max(1);
    let launch = Launch { world_size, source: "the smallest launch".into(), assumed: true, warning: None };
    Ok(layers.finish(launch, environment)?)
}

/// Opens the training data of a run.
///
/// # Errors
/// As the training itself.
pub(super) fn open(resolved: &Resolved, say: &mut dyn FnMut(&str)) -> Result<RunBatches, Failure> {
    let config = &resolved.config;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let data = crate::train::data::open(config, threads, say)?;
    let (global_batch_size, micro_batch_size) = (config.train.global_batch_size, config.train.micro_batch_size);
    if global_batch_size == 0 || micro_batch_size == 0 {
        return Err(usage("train.global_batch_size and train.micro_batch_size: expected at least 1; raise them"));
    }
    Ok(RunBatches {
        source: data.train,
        tokenizer: data.tokenizer,
        global_batch_size,
        micro_batch_size,
        dp: resolved.data_parallel_size().max(1) as u64,
        cp: config.model.context_parallel_size,
    })
}

/// A rank's view of a source that was opened for one rank. The order of pretraining deals micro-batches out in turn:
/// micro-batch m of rank r among D is micro-batch m D + r of a single rank.
pub(super) struct RankView<'a> {
    /// The single rank's batches.
    pub source: &'a dyn BatchSource,
    /// Data-parallel ranks.
    pub dp: u64,
}

impl BatchSource for RankView<'_> {
    fn fill(
        &self,
        consumed_samples: u64,
        micro_batch: u64,
        dp_rank: u64,
        out: &mut lightning_data::Batch,
    ) -> lightning_data::Result<()> {
        self.source.fill(consumed_samples, micro_batch * self.dp + dp_rank, 0, out)
    }

    fn source_names(&self) -> Vec<String> {
        self.source.source_names()
    }

    fn samples(&self) -> Option<u64> {
        self.source.samples()
    }
}
