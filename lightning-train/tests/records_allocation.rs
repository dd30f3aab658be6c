//! A step allocates nothing after the first, apart from the packing buffers of the GEMM library, which are bounded.

use lightning_core::config::preset;
use lightning_core::model::{AdamConfig, MicroBatch, ModelSpec, Objective, Precision, Routing, Trace, Training};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule};
use lightning_core::rng::Philox;
use lightning_core::tensor::DType;
use lightning_data::Batch;
use lightning_train::train::device::DeviceChoice;
use lightning_train::train::engine::{Engine, GEMM_WORKSPACE_ALIGNMENT, GEMM_WORKSPACE_BYTES, LossSums};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

thread_local! {
    /// Allocations of the thread that runs the step; the test harness has threads of its own.
    static OURS: Cell<usize> = const { Cell::new(0) };
    static LAST_BYTES: Cell<usize> = const { Cell::new(0) };
}
static GEMM_LIVE: AtomicUsize = AtomicUsize::new(0);
static GEMM_PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts allocations; those of the GEMM library are known by their alignment.
struct Counting;

// SAFETY: every call is passed on to the system allocator with its own arguments; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() >= GEMM_WORKSPACE_ALIGNMENT {
            let live = GEMM_LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
            GEMM_PEAK.fetch_max(live, Relaxed);
        } else {
            OURS.with(|n| n.set(n.get() + 1));
            LAST_BYTES.with(|n| n.set(layout.size()));
        }
        // SAFETY: the caller's contract is that of the system allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if layout.align() >= GEMM_WORKSPACE_ALIGNMENT {
            GEMM_LIVE.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn batch(rows: usize, len: usize, vocab: usize, rng: &mut Philox) -> Batch {
    let mut batch = Batch::default();
    batch.reset(rows, len, false, false);
    for t in 0..rows * len {
        batch.tokens[t] = rng.below(vocab as u64) as i32;
        batch.labels[t] = rng.below(vocab as u64) as i32;
        batch.loss_mask[t] = f32::from(rng.below(8) > 0);
    }
    for row in 1..=rows {
        batch.documents.physical.0.push((row * len) as i32);
    }
    batch
}

#[test]
fn a_step_allocates_nothing_after_the_first() {
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        let config = preset("oracle_tiny").expect("a preset");
        let (rows, len, vocab) = (2, 37, config.vocab);
        let spec = ModelSpec {
            config,
            precision: Precision::of(dtype),
            batch: MicroBatch { rows, row_len: len, max_offsets: rows + 1, padding: false },
            objective: Objective {
                scale: LossScale::MeanOfMeans(2),
                mtp_factor: 0.3,
                aux_coefficient: 1e-4,
                bias_rate: 1e-3,
            },
            routing: Routing::Natural,
            training: Training::Full,
            recompute: lightning_core::program::Recompute::NONE,
        };
        let schedule = Schedule {
            decay: Decay::Cosine,
            init_lr: 0.0,
            max_lr: 1e-3,
            min_lr: 0.0,
            warmup_samples: 4,
            decay_samples: 100,
            wsd_samples: 0,
            start_weight_decay: 0.1,
            end_weight_decay: 0.1,
        };
        let adam = AdamConfig { betas: (0.9, 0.95), eps: 1e-8, clip: 1.0, schedule };
        let mut engine = Engine::new(spec, Some(&adam), &DeviceChoice::Cpu { threads: 1 }, Trace::Off).unwrap();
        let model = engine.model.clone();
        model.initialize(&mut engine.device, 3).unwrap();
        let mut rng = Philox::new(8, 8);
        let batches: Vec<Batch> = (0..4).map(|_| batch(rows, len, vocab, &mut rng)).collect();
        let (mut losses, mut counts) = (LossSums::default(), Vec::new());
        let mut step = |engine: &mut Engine, pair: &[Batch]| {
            for (i, batch) in pair.iter().enumerate() {
                engine.load(batch).unwrap();
                engine.micro_batch(i == 0).unwrap();
            }
            engine.losses_into(&mut losses).unwrap();
            let report = engine.step(4).unwrap();
            engine.expert_counts_into(&mut counts).unwrap();
            report
        };
        step(&mut engine, &batches[..2]);
        let before = OURS.get();
        // The device's own spaces are aligned as much and stay.
        let base = GEMM_LIVE.load(Relaxed);
        GEMM_PEAK.store(base, Relaxed);
        let report = step(&mut engine, &batches[2..]);
        let made = OURS.get() - before;
        let bytes = LAST_BYTES.get();
        assert_eq!(made, 0, "{dtype}: the second step allocated {made} times, {bytes} bytes at last");
        let peak = GEMM_PEAK.load(Relaxed) - base;
        assert!(peak <= GEMM_WORKSPACE_BYTES, "{dtype}: the GEMM library holds {peak} bytes");
        assert!(report.grad_norm.is_finite() && !report.skipped);
    }
}
