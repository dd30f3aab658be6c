//! Element-wise reductions of bulk copies into global memory.

use crate::num::half_math::{Half, HalfModifiers};
use crate::num::int_cvt::IntType;
use crate::num::min_max::{MinMaxModifiers, min_max_half};
use crate::ptx::program::ReduceOp;
use crate::ptx::types::Ty;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// New value of an element, or `None` when the type has no such reduction.
fn combine(op: ReduceOp, ty: Ty, a: u64, b: u64) -> Option<u64> {
    use ReduceOp::*;
    let half = |h: Half| match op {
        Add => Some(h.add(a as u16, b as u16, HalfModifiers::default()) as u64),
        Min | Max => Some(min_max_half(h, a as u16, b as u16, op == Max, MinMaxModifiers::default()) as u64),
        _ => None,
    };
    match ty {
        Ty::F16 => return half(Half::F16),
        Ty::BF16 => return half(Half::Bf16),
        Ty::F32 if op == Add => {
            return Some((f32::from_bits(a as u32) + f32::from_bits(b as u32)).to_bits() as u64);
        }
        Ty::F64 if op == Add => return Some((f64::from_bits(a) + f64::from_bits(b)).to_bits()),
        t if !t.integer() => return None,
        _ => {}
    }
    let it = IntType { bits: ty.size() as u32 * 8, signed: ty.signed() };
    let keep = if it.bits == 64 { u64::MAX } else { (1 << it.bits) - 1 };
    Some(match op {
        Add => a.wrapping_add(b) & keep,
        Min => {
            if it.read(b) < it.read(a) {
                b
            } else {
                a
            }
        }
        Max => {
            if it.read(b) > it.read(a) {
                b
            } else {
                a
            }
        }
        Inc => {
            if a >= b {
                0
            } else {
                a + 1
            }
        }
        Dec => {
            if a == 0 || a > b {
                b
            } else {
                a - 1
            }
        }
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
    })
}

/// Applies a reduction to an element in global memory; false when the type has no such reduction.
pub(crate) fn reduce_element(ptr: *mut u8, value: u64, op: ReduceOp, ty: Ty) -> bool {
    let f = |old: u64| combine(op, ty, old, value);
    // SAFETY: the caller has located `ty.size()` bytes at `ptr`, aligned to their size, in memory that lives through
    // the launch and is accessed by atomics only.
    unsafe {
        match ty.size() {
            2 => AtomicU16::from_ptr(ptr.cast())
                .fetch_update(Relaxed, Relaxed, |o| f(o as u64).map(|v| v as u16))
                .is_ok(),
            4 => AtomicU32::from_ptr(ptr.cast())
                .fetch_update(Relaxed, Relaxed, |o| f(o as u64).map(|v| v as u32))
                .is_ok(),
            8 => AtomicU64::from_ptr(ptr.cast()).fetch_update(Relaxed, Relaxed, f).is_ok(),
            _ => false,
        }
    }
}
