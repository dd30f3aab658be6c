//! Document boundaries of packed rows, and the rolls of multi-token prediction that stop at them.
//!
//! A micro-batch is `rows` rows of `row_len` tokens, one after the other (T tokens). `cu_seqlens` holds ascending token
//! offsets at which documents start or end, with any number of ghosts (repeated offsets) so that its length is fixed.
//! Row starts are boundaries too, and tokens after the last offset form one more document (model.md §4.7).
//!
//! `Segments`:  start_t = first token of the document of t,  end_t = one past its last token
//! `Roll`:      dst_t = src_{t+1} inside a document, 0 at its last token (model.md §6)
//!
//! | buffer     | shape  | dtype | written     |
//! |------------|--------|-------|-------------|
//! | cu_seqlens | [m]    | i32   | read        |
//! | start, end | [t]    | i32   | overwritten |
//! | src        | [t]    | i32   | read        |
//! | dst        | [t]    | i32   | overwritten |
//!
//! Kernels: csrc/embed/segments.cu

use crate::cpu::{Cpu, CpuKernel};
use crate::element::Element;
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

/// Computes the bounds of every token's document.
#[derive(Debug, Clone)]
pub struct Segments {
    /// Document offsets, ghosts allowed.
    pub cu_seqlens: Tensor,
    /// Tokens of a row.
    pub row_len: usize,
    /// First token of each token's document.
    pub start: Tensor,
    /// One past the last token of each token's document.
    pub end: Tensor,
}

impl Operation for Segments {
    const NAME: &'static str = "segments";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("cu_seqlens", self.cu_seqlens, Access::Read);
        visit("start", self.start, Access::Write);
        visit("end", self.end, Access::Write);
    }
    fn dtype(&self) -> DType {
        DType::I32
    }
}

impl CpuKernel for Segments {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let cu = cpu.read_i32(self.cu_seqlens);
        let (mut start, mut end) = (cpu.write_i32(self.start), cpu.write_i32(self.end));
        let (start, end) = (start.as_mut_slice(), end.as_mut_slice());
        let tokens = start.len();
        // Mark the first token of each document, then spread the marks forwards and backwards.
        for (t, mark) in start.iter_mut().enumerate() {
            *mark = i32::from(t % self.row_len.max(1) == 0);
        }
        for &offset in cu.as_slice() {
            if (0..tokens as i32).contains(&offset) {
                start[offset as usize] = 1;
            }
        }
        let mut first = 0;
        for (t, mark) in start.iter_mut().enumerate() {
            if *mark == 1 {
                first = t as i32;
            }
            *mark = first;
        }
        let mut last = tokens as i32;
        for t in (0..tokens).rev() {
            end[t] = last;
            if start[t] as usize == t {
                last = t as i32;
            }
        }
    }
}

/// Shifts per-token integers one to the left inside each document.
#[derive(Debug, Clone)]
pub struct Roll {
    /// Values to shift.
    pub src: Tensor,
    /// Document ends from [`Segments`].
    pub end: Tensor,
    /// Shifted values; 0 at the last token of each document.
    pub dst: Tensor,
}

impl Operation for Roll {
    const NAME: &'static str = "roll";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("src", self.src, Access::Read);
        visit("end", self.end, Access::Read);
        visit("dst", self.dst, Access::Write);
    }
    fn dtype(&self) -> DType {
        DType::I32
    }
}

impl CpuKernel for Roll {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (src, end) = (cpu.read_i32(self.src).as_slice(), cpu.read_i32(self.end).as_slice());
        let mut dst = cpu.write_i32(self.dst);
        for (t, value) in dst.as_mut_slice().iter_mut().enumerate() {
            *value = if t + 1 < end[t] as usize { src[t + 1] } else { 0 };
        }
    }
}
