//! Which samples a data-parallel rank sees: pure functions of the number of samples consumed.
//!
//! `micro_batch` is the number of the micro-batch inside the step, from 0; each takes `micro_batch_size * dp_size` samples
//! of the global order. Ranks that share a data-parallel rank (tensor, context, pipeline) read the same samples.

use std::sync::{Arc, Mutex};

use crate::error::{DataError, Result};
use crate::gpt::SampleSlot;
use crate::rng::randperm_torch;

/// Micro-batch size and number of data-parallel ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Samples per micro-batch of one rank.
    pub micro_batch_size: u64,
    /// Data-parallel ranks.
    pub dp_size: u64,
}

impl BatchShape {
    /// Samples of one micro-batch over all ranks.
    pub fn samples(self) -> u64 {
        self.micro_batch_size * self.dp_size
    }

    fn check(self) -> Result<()> {
        if self.micro_batch_size == 0 || self.dp_size == 0 {
            return Err(DataError::Setting {
                name: "micro_batch_size",
                expected: "at least 1, on at least 1 data-parallel rank".into(),
                found: format!("{} on {} ranks", self.micro_batch_size, self.dp_size),
                hint: "set both to 1 or more",
            });
        }
        Ok(())
    }

    fn check_rank(self, dp_rank: u64) -> Result<()> {
        if dp_rank >= self.dp_size {
            return Err(DataError::Setting {
                name: "dp_rank",
                expected: format!("a rank below {}", self.dp_size),
                found: dp_rank.to_string(),
                hint: "ask with the rank inside the data-parallel group",
            });
        }
        Ok(())
    }
}

/// An order of samples.
pub trait Sampler: Send + Sync {
    /// Writes the positions of one micro-batch of one rank into `out` (cleared first).
    ///
    /// # Errors
    /// [`DataError::Exhausted`] past the end of a finite order.
    fn positions(&self, consumed_samples: u64, micro_batch: u64, dp_rank: u64, out: &mut Vec<u64>) -> Result<()>;

    /// Batch shape.
    fn shape(&self) -> BatchShape;
}

/// The order of pretraining ("single"): sequential from `consumed_samples`; an incomplete tail is dropped.
#[derive(Clone, Debug)]
pub struct SequentialSampler {
    name: String,
    total: u64,
    shape: BatchShape,
}

impl SequentialSampler {
    /// Over `total` samples; `name` is for messages.
    pub fn new(name: &str, total: u64, shape: BatchShape) -> Result<SequentialSampler> {
        shape.check()?;
        Ok(SequentialSampler { name: name.to_string(), total, shape })
    }
}

impl Sampler for SequentialSampler {
    fn positions(&self, consumed_samples: u64, micro_batch: u64, dp_rank: u64, out: &mut Vec<u64>) -> Result<()> {
        self.shape.check_rank(dp_rank)?;
        out.clear();
        let chunk = self.shape.samples();
        let begin = micro_batch.checked_mul(chunk).and_then(|n| n.checked_add(consumed_samples));
        let fits = begin.and_then(|b| b.checked_add(chunk)).is_some_and(|end| end <= self.total);
        let (true, Some(begin)) = (fits, begin) else {
            return Err(DataError::Exhausted {
                what: self.name.clone(),
                consumed: begin.unwrap_or(u64::MAX),
                available: self.total,
            });
        };
        let first = begin + dp_rank * self.shape.micro_batch_size;
        out.extend(first..first + self.shape.micro_batch_size);
        Ok(())
    }

    fn shape(&self) -> BatchShape {
        self.shape
    }
}

/// The order of validation in pretraining ("cyclic"): epoch after epoch, each a permutation seeded by its number alone.
pub struct CyclicSampler {
    name: String,
    total: u64,
    shape: BatchShape,
    data_sharding: bool,
    /// The permutation of the epoch used last; a cache, never state.
    epoch: Mutex<Option<(u64, Arc<Vec<u64>>)>>,
}

impl CyclicSampler {
    /// Over `total` samples. With `data_sharding` (the default of the public stack) each rank permutes a bucket of its
    /// own; otherwise all ranks deal one permutation.
    pub fn new(name: &str, total: u64, shape: BatchShape, data_sharding: bool) -> Result<CyclicSampler> {
        shape.check()?;
        if total < shape.samples() {
            return Err(DataError::Exhausted { what: name.to_string(), consumed: 0, available: total });
        }
        Ok(CyclicSampler { name: name.to_string(), total, shape, data_sharding, epoch: Mutex::new(None) })
    }

    /// Samples of one epoch: a multiple of the samples of one micro-batch over all ranks.
    pub fn epoch_samples(&self) -> u64 {
        self.total - self.total % self.shape.samples()
    }

    fn permutation(&self, epoch: u64) -> Result<Arc<Vec<u64>>> {
        let mut cached = self.epoch.lock().map_err(|_| DataError::Worker { what: "sampler" })?;
        if let Some((of, order)) = &*cached
            && *of == epoch
        {
            return Ok(order.clone());
        }
        let mbs = self.shape.micro_batch_size;
        let n = if self.data_sharding { (self.total / self.shape.samples()) * mbs } else { (self.total / mbs) * mbs };
        let order = Arc::new(randperm_torch(n as usize, epoch));
        *cached = Some((epoch, order.clone()));
        Ok(order)
    }
}

impl Sampler for CyclicSampler {
    fn positions(&self, consumed_samples: u64, micro_batch: u64, dp_rank: u64, out: &mut Vec<u64>) -> Result<()> {
        self.shape.check_rank(dp_rank)?;
        out.clear();
        let (chunk, mbs, dp) = (self.shape.samples(), self.shape.micro_batch_size, self.shape.dp_size);
        let at = micro_batch.checked_mul(chunk).and_then(|n| n.checked_add(consumed_samples)).ok_or_else(|| {
            DataError::Exhausted { what: self.name.clone(), consumed: consumed_samples, available: self.total }
        })?;
        let (epoch, offset) = (at / self.epoch_samples(), at % self.epoch_samples());
        if !offset.is_multiple_of(chunk) {
            return Err(DataError::Setting {
                name: "consumed_valid_samples",
                expected: format!("a multiple of {chunk} (micro-batch size times data-parallel ranks) in each epoch"),
                found: format!("{offset} samples into epoch {epoch}"),
                hint: "resume validation with the batch shape it ran with, or start it again from 0",
            });
        }
        let order = self.permutation(epoch)?;
        if self.data_sharding {
            let bucket = order.len() as u64;
            let from = (offset / dp) as usize;
            out.extend(order[from..from + mbs as usize].iter().map(|p| dp_rank * bucket + p));
        } else {
            // Micro-batch j of the epoch, dealt one by one. Where (n div MBS) MBS is more than the epoch, the reference
            // lets some ranks run one micro-batch longer than others; here all ranks end an epoch together.
            out.extend((0..mbs).map(|i| order[(offset + i * dp + dp_rank) as usize]));
        }
        Ok(())
    }

    fn shape(&self) -> BatchShape {
        self.shape
    }
}

/// The order of fine-tuning ("batch"): epoch e is a permutation seeded by (seed + e), cut into global batches, each dealt
/// out one by one to the ranks.
pub struct FineTuningSampler {
    name: String,
    distinct: u64,
    /// Repeated shuffles that stand before the sampler under a maximum number of samples.
    repeated: Option<Vec<u64>>,
    global_batch_size: u64,
    dp_size: u64,
    seed: u64,
    drop_last: bool,
    epoch: Mutex<Option<(u64, Arc<Vec<u64>>)>>,
}

impl FineTuningSampler {
    /// Over `total` samples. `drop_last`: an incomplete global batch at an epoch's end is dropped; otherwise it is filled up.
    ///
    /// # Errors
    /// A global batch that is 0, not a multiple of the ranks, or (with `drop_last`) larger than the data.
    pub fn new(
        name: &str,
        total: u64,
        global_batch_size: u64,
        dp_size: u64,
        seed: u64,
        drop_last: bool,
    ) -> Result<FineTuningSampler> {
        if dp_size == 0 || global_batch_size == 0 || !global_batch_size.is_multiple_of(dp_size) {
            return Err(DataError::Setting {
                name: "global_batch_size",
                expected: format!("a multiple of {dp_size} data-parallel ranks, above 0"),
                found: global_batch_size.to_string(),
                hint: "change the batch size or the number of ranks",
            });
        }
        if total == 0 || (drop_last && total < global_batch_size) {
            return Err(DataError::Exhausted { what: name.to_string(), consumed: 0, available: total });
        }
        Ok(FineTuningSampler {
            name: name.to_string(),
            distinct: total,
            repeated: None,
            global_batch_size,
            dp_size,
            seed,
            drop_last,
            epoch: Mutex::new(None),
        })
    }

    /// Puts shuffled repetitions of the samples, cut at `max_samples`, before the sampler.
    pub fn with_max_samples(mut self, max_samples: u64) -> FineTuningSampler {
        let mut rng = crate::rng::Mt19937::from_seed(self.seed as u32);
        let mut repeated = Vec::with_capacity(max_samples as usize);
        while (repeated.len() as u64) < max_samples {
            repeated.extend(rng.permutation_numpy(self.distinct as usize));
        }
        repeated.truncate(max_samples as usize);
        self.repeated = Some(repeated);
        self
    }

    /// Number of distinct samples.
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    fn total(&self) -> u64 {
        self.repeated.as_ref().map_or(self.distinct, |r| r.len() as u64)
    }

    /// Samples of one epoch: a multiple of the global batch.
    pub fn epoch_samples(&self) -> u64 {
        let (total, g) = (self.total(), self.global_batch_size);
        if self.drop_last { total / g * g } else { total.div_ceil(g) * g }
    }

    /// What one rank sees in the step that starts after `consumed_samples`, in the order of its micro-batches of one.
    ///
    /// # Errors
    /// A rank outside the group; a position inside a global batch.
    pub fn step(&self, consumed_samples: u64, dp_rank: u64) -> Result<Vec<SampleSlot>> {
        BatchShape { micro_batch_size: 1, dp_size: self.dp_size }.check_rank(dp_rank)?;
        let per_epoch = self.epoch_samples();
        if per_epoch == 0 {
            return Err(DataError::Exhausted { what: self.name.clone(), consumed: consumed_samples, available: 0 });
        }
        let (epoch, offset) = (consumed_samples / per_epoch, consumed_samples % per_epoch);
        if !offset.is_multiple_of(self.global_batch_size) {
            return Err(DataError::Setting {
                name: "consumed_samples",
                expected: format!("a multiple of the global batch size {}", self.global_batch_size),
                found: consumed_samples.to_string(),
                hint: "resume with the global batch size that the run had",
            });
        }
        let order = self.permutation(epoch)?;
        let begin = offset as usize;
        let end = (begin + self.global_batch_size as usize).min(order.len());
        let mine = order[begin..end].iter().skip(dp_rank as usize).step_by(self.dp_size as usize);
        let mut slots: Vec<SampleSlot> = mine.map(|&i| SampleSlot::Real(i)).collect();
        slots.resize((self.global_batch_size / self.dp_size) as usize, SampleSlot::Filler);
        Ok(slots)
    }

    fn permutation(&self, epoch: u64) -> Result<Arc<Vec<u64>>> {
        let mut cached = self.epoch.lock().map_err(|_| DataError::Worker { what: "sampler" })?;
        if let Some((of, order)) = &*cached
            && *of == epoch
        {
            return Ok(order.clone());
        }
        let mut order = randperm_torch(self.total() as usize, self.seed.wrapping_add(epoch));
        if let Some(repeated) = &self.repeated {
            for i in &mut order {
                *i = repeated[*i as usize];
            }
        }
        let order = Arc::new(order);
        *cached = Some((epoch, order.clone()));
        Ok(order)
    }
}
