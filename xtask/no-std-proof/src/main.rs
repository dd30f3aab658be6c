//! A program without the standard library that links `lightning-core` and `kernels-sys`.
//!
//! It trains the smallest model for a few steps and brings what std would: the entry point, the allocator and the panic handler. Exit status 0 means that the
//! libraries linked and did what they are asked here.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};
use core::panic::PanicInfo;
use core::ptr;

use kernels_sys::Arch;
use lightning_core::CoreError;
use lightning_core::config::preset;
use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
use lightning_core::model::{
    AdamConfig, MicroBatch, Model, ModelSpec, Objective, Precision, ProgramKind, Routing, Trace, Training,
};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule, StateSlot};
use lightning_core::tensor::DType;

#[link(name = "c")]
unsafe extern "C" {
    fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    fn free(block: *mut c_void);
    fn abort() -> !;
}

/// The C library's allocator.
struct CAllocator;

// SAFETY: posix_memalign gives blocks of at least the size and alignment asked for, or fails; free takes them back.
unsafe impl GlobalAlloc for CAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut place = ptr::null_mut();
        // SAFETY: `place` is a valid address, and the alignment is a power of two and a multiple of a pointer's size.
        let status = unsafe {
            posix_memalign(
                &mut place,
                layout.align().max(size_of::<usize>()),
                layout.size(),
            )
        };
        if status == 0 {
            place.cast()
        } else {
            ptr::null_mut()
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller gives a block that `alloc` gave out and that is not freed yet.
        unsafe { free(block.cast()) }
    }
}

#[global_allocator]
static ALLOCATOR: CAllocator = CAllocator;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: abort has no condition.
    unsafe { abort() }
}

/// The precompiled `alloc` refers to the personality of unwinding, which std would bring. Panics abort here, so that
/// nothing ever calls it.
// SAFETY: no other symbol of the program has this name, since std is not linked.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

/// As [`rust_eh_personality`]: named by the precompiled `alloc`, never called.
// SAFETY: no other symbol of the program has this name, since no unwinder is linked.
#[unsafe(no_mangle)]
pub extern "C" fn _Unwind_Resume() -> ! {
    // SAFETY: abort has no condition.
    unsafe { abort() }
}

/// Entry point that the C runtime calls.
// SAFETY: no other symbol of the program is called `main`.
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: c_int, _argv: *const *const u8) -> c_int {
    let found = kernels_sys::kernel("rms_norm_fwd_bf16", Arch::Sm90a).is_some();
    let named = Arch::Sm90a.to_string() == "sm_90a";
    let learned = losses(8).is_ok_and(|losses| losses[7] < losses[0] - 1.0);
    c_int::from(!(found && named && learned))
}

/// Losses of a few steps of the smallest model of the family on one batch.
fn losses(steps: usize) -> Result<Vec<f64>, CoreError> {
    let config = preset("oracle_tiny").expect("a named model");
    let (rows, row_len, vocab) = (2, 24, config.vocab as i32);
    let spec = ModelSpec {
        config,
        precision: Precision::of(DType::F32),
        batch: MicroBatch { rows, row_len, max_offsets: rows + 1, padding: false },
        objective: Objective { scale: LossScale::PerToken, mtp_factor: 0.3, aux_coefficient: 1e-4, bias_rate: 1e-3 },
        routing: Routing::Natural,
        training: Training::Full,
        recompute: lightning_core::program::Recompute::NONE,
    };
    let schedule = Schedule {
        decay: Decay::Constant,
        init_lr: 0.0,
        max_lr: 1e-2,
        min_lr: 0.0,
        warmup_samples: 0,
        decay_samples: 1,
        wsd_samples: 0,
        start_weight_decay: 0.0,
        end_weight_decay: 0.0,
    };
    let model = Model::new(spec)?;
    let micro_batch = model.micro_batch(ProgramKind::TrainFirst, Trace::Off)?;
    let optimizer = model.optimizer_step(&AdamConfig { betas: (0.9, 0.95), eps: 1e-8, clip: 1.0, schedule })?;
    let mut device = CpuDevice::new(&model.persistent, &[&micro_batch, &optimizer], 1)?;
    model.initialize(&mut device, 1)?;
    let tokens = rows * row_len;
    let ids: Vec<i32> = (0..tokens as i32).map(|t| t * 7 % vocab).collect();
    let labels: Vec<i32> = (0..tokens as i32).map(|t| (t + 1) * 7 % vocab).collect();
    let buffers = model.persistent.buffers();
    device.write_slice(buffers, model.inputs.ids, &ids)?;
    device.write_slice(buffers, model.inputs.labels, &labels)?;
    device.write_slice(buffers, model.inputs.loss_mask, &vec![1i32; tokens])?;
    device.write_slice(buffers, model.inputs.cu_seqlens, &vec![0i32; rows + 1])?;
    device.write_slice(buffers, model.metrics.state.columns(StateSlot::StepSamples as usize, 1), &[rows as f64])?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        device.run(&micro_batch)?;
        losses.push(device.read_vec::<f64>(buffers, model.metrics.losses)?[2]);
        device.run(&optimizer)?;
    }
    Ok(losses)
}
