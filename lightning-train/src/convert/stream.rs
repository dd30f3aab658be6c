//! Copying tensors into new files with bounded memory, by several workers.

use super::cast;
use super::draft::{Draft, Receipt};
use super::{ConvertError, json};
use crate::adapters::Delta;
use crate::checkpoint::ShardWriter;
use crate::hf::header;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of a tensor that a worker handles at once.
pub const CHUNK: usize = 4 << 20;

/// Bytes that a worker may hold: a chunk as it was read, gathered from pieces, as f32 and as written.
pub const MEMORY_PER_WORKER: usize = 8 * CHUNK;

/// Most workers; together they stay under 1 GiB.
pub const MOST_WORKERS: usize = 16;

/// A tensor's bytes from the first element on.
pub trait Stream {
    /// The next bytes, whole elements.
    ///
    /// # Errors
    /// Unreadable or damaged files.
    fn read(&mut self, out: &mut [u8]) -> Result<(), ConvertError>;
}

/// Where tensors come from.
pub trait Source: Sync {
    /// A tensor that exists, from its first element on.
    fn stream(&self, name: &str) -> Box<dyn Stream + '_>;
}

/// A tensor on its way.
#[derive(Debug, Clone)]
pub struct Job<'d> {
    /// Name in the source.
    pub name: String,
    /// Key in the new file.
    pub key: String,
    /// Type in the source.
    pub from: Dtype,
    /// Type in the new file.
    pub to: Dtype,
    /// Elements in the source; what the new shape does not need (padded rows) is dropped at the end.
    pub stored: usize,
    /// Shape in the new file.
    pub shape: Vec<usize>,
    /// What is added on the way.
    pub delta: Option<&'d Delta>,
}

impl Job<'_> {
    /// Bytes in the new file.
    pub fn bytes(&self) -> u64 {
        header::byte_len(self.to, &self.shape).expect("a tensor that exists")
    }
}

/// A file to write.
#[derive(Debug, Clone)]
pub struct FilePlan<'d> {
    /// Its name.
    pub file: String,
    /// Tensors in the order of its bytes.
    pub jobs: Vec<Job<'d>>,
}

impl FilePlan<'_> {
    /// Key, type and shape of every tensor.
    pub fn entries(&self) -> Vec<(String, Dtype, Vec<usize>)> {
        self.jobs.iter().map(|j| (j.key.clone(), j.to, j.shape.clone())).collect()
    }
}

/// Fills files in the given order up to `limit` bytes each; a larger tensor has a file of its own. Within a file wide
/// elements come first, so that every tensor begins at a multiple of its element size.
pub fn fill<'d>(jobs: Vec<Job<'d>>, limit: u64, name: &dyn Fn(usize, usize) -> String) -> Vec<FilePlan<'d>> {
    let mut groups: Vec<Vec<Job<'d>>> = Vec::new();
    let mut bytes = 0;
    for job in jobs {
        let size = job.bytes();
        if groups.is_empty() || bytes + size > limit {
            groups.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        groups.last_mut().expect("pushed above").push(job);
    }
    let count = groups.len();
    let plan = |(i, mut jobs): (usize, Vec<Job<'d>>)| {
        jobs.sort_by_key(|j| std::cmp::Reverse(j.to.bitsize()));
        FilePlan { file: name(i, count), jobs }
    };
    groups.into_iter().enumerate().map(plan).collect()
}

/// How many workers work: the wanted number, or one per core up to 4 (disks gain nothing from more).
pub fn workers(wanted: Option<usize>) -> Result<usize, ConvertError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match wanted {
        None => Ok(cores.clamp(1, 4)),
        Some(n) if (1..=MOST_WORKERS).contains(&n) => Ok(n),
        Some(n) => Err(ConvertError::Flag(format!(
            "--workers {n} is not possible: 1 to {MOST_WORKERS}; each holds up to {} MiB",
            MEMORY_PER_WORKER >> 20
        ))),
    }
}

/// A progress bar over bytes; hidden when it is not wanted or standard error is no terminal.
pub fn progress_bar(plans: &[FilePlan<'_>], shown: bool) -> ProgressBar {
    let total = plans.iter().flat_map(|p| &p.jobs).map(Job::bytes).sum();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}").expect("a valid template");
    ProgressBar::with_draw_target(Some(total), target).with_style(style)
}

/// Writes the planned files into the draft; files that are complete already are kept. Returns the receipts in the order
/// of the plan.
///
/// # Errors
/// The first failure; complete files stay in the draft.
pub fn write_files(
    plans: &[FilePlan<'_>],
    metadata: &[(&str, &str)],
    source: &dyn Source,
    draft: &Draft,
    workers: usize,
    progress: &ProgressBar,
) -> Result<Vec<Receipt>, ConvertError> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let done: Mutex<Vec<Option<Receipt>>> = Mutex::new(vec![None; plans.len()]);
    let failure: Mutex<Option<ConvertError>> = Mutex::new(None);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = plans.get(index) else { return };
            let outcome = match draft.receipt(plan) {
                Some(receipt) => {
                    progress.inc(plan.jobs.iter().map(Job::bytes).sum());
                    Ok(receipt)
                }
                None => write_one(plan, metadata, source, draft, progress, &stop),
            };
            match outcome {
                Ok(receipt) => done.lock().expect("no worker panics with the lock")[index] = Some(receipt),
                Err(error) => {
                    // First the error, then the sign to stop: a worker that stops has none of its own to tell.
                    failure.lock().expect("no worker panics with the lock").get_or_insert(error);
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers.min(plans.len()) {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failure.into_inner().expect("no worker panics with the lock") {
        return Err(error);
    }
    let done = done.into_inner().expect("no worker panics with the lock");
    Ok(done.into_iter().map(|r| r.expect("every file was written")).collect())
}

fn write_one(
    plan: &FilePlan<'_>,
    metadata: &[(&str, &str)],
    source: &dyn Source,
    draft: &Draft,
    progress: &ProgressBar,
    stop: &AtomicBool,
) -> Result<Receipt, ConvertError> {
    let path = draft.folder.join(&plan.file);
    let mut writer = ShardWriter::create(&path, &plan.entries(), metadata)?;
    let mut buffers = Buffers::default();
    let mut saturated = BTreeMap::new();
    for job in &plan.jobs {
        if stop.load(Ordering::Relaxed) {
            // Another worker has failed, and its error is the one to tell.
            return Err(ConvertError::Busy(path));
        }
        let beyond = copy(job, source, &mut writer, &mut buffers, progress)?;
        if beyond > 0 {
            saturated.insert(job.key.clone(), beyond);
        }
    }
    let hashes = writer.finish()?;
    let keys = plan.jobs.iter().map(|j| j.key.clone());
    let receipt = Receipt { file: plan.file.clone(), hashes: keys.zip(hashes).collect(), saturated };
    json::write(&draft.receipt_path(&plan.file), &receipt)?;
    Ok(receipt)
}

#[derive(Default)]
struct Buffers {
    read: Vec<u8>,
    floats: Vec<f32>,
    out: Vec<u8>,
}

/// Copies one tensor. Returns the number of elements beyond the range of the new type.
fn copy(
    job: &Job<'_>,
    source: &dyn Source,
    writer: &mut ShardWriter,
    buffers: &mut Buffers,
    progress: &ProgressBar,
) -> Result<u64, ConvertError> {
    if !cast::possible(job.from, job.to) {
        return Err(ConvertError::Cast { tensor: job.name.clone(), from: job.from, to: job.to });
    }
    let size = job.from.bitsize() / 8;
    let wanted: usize = job.shape.iter().product();
    // Whole rows, where something is added row by row.
    let row = job.delta.map_or(1, Delta::columns);
    let step = (CHUNK / size.max(4) / row).max(1) * row;
    let mut stream = source.stream(&job.name);
    let (mut at, mut saturated) = (0, 0);
    while at < job.stored {
        let limit = if at < wanted { wanted } else { job.stored };
        let n = step.min(limit - at);
        buffers.read.resize(n * size, 0);
        stream.read(&mut buffers.read)?;
        if at >= wanted {
            // Read to the end all the same: the checksum covers everything.
        } else if let Some(delta) = job.delta {
            cast::to_f32(job.from, &buffers.read, &mut buffers.floats).ok_or(ConvertError::Cast {
                tensor: job.name.clone(),
                from: job.from,
                to: Dtype::F32,
            })?;
            delta.add(&mut buffers.floats, at / row);
            buffers.out.clear();
            saturated += cast::from_f32(&buffers.floats, job.to, &mut buffers.out);
            writer.write(&buffers.out)?;
        } else if job.from == job.to {
            writer.write(&buffers.read)?;
        } else {
            buffers.out.clear();
            saturated += cast::convert(job.from, job.to, &buffers.read, &mut buffers.floats, &mut buffers.out);
            writer.write(&buffers.out)?;
        }
        if at < wanted {
            progress.inc((n * job.to.bitsize() / 8) as u64);
        }
        at += n;
    }
    Ok(saturated)
}
