//! Routed experts: gather, up-projection, weighted squared ReLU, down-projection, over slots sorted by expert.
//!
//!   slot s of pair (t, j), expert e:   p_sf = sum_d x_td U_efd     a_sf = w_tj max(p_sf, 0)^2     y_sd = sum_f a_sf V_edf
//!   da = dout_t V_e;   dw_tj = sum_f max(p, 0)^2 da;   dp = 2 max(p, 0) w da;   dxs = dp U_e
//!   dU_e (+)= dp^T x,   dV_e (+)= dout^T a             over the slots of e; an expert without slots gets exact zeros
//!
//! | buffer        | shape      | dtype | written                                              |
//! |---------------|------------|-------|------------------------------------------------------|
//! | x, dout       | [t, d]     | act   | read                                                 |
//! | weight        | [t, k]     | acc   | read; routing weights                                |
//! | offsets, pair_of_slot | [e + 1], [t k] | i32 | read                                          |
//! | up, down      | [e f, d], [e d, f] | act | read                                             |
//! | xs            | [t k, d]   | act   | overwritten; gathered tokens, kept                   |
//! | p             | [t k, f]   | act   | overwritten; kept                                    |
//! | a             | [t k, f]   | act   | workspace in both passes                             |
//! | y, dxs        | [t k, d]   | act   | overwritten                                          |
//! | dweight       | [t, k]     | acc   | overwritten                                          |
//! | dup, ddown    | as weights | grad  | overwritten or accumulated                           |
//! | dys, dp       | [t k, d], [t k, f] | act | workspace                                        |
//!
//! Rounding: products in acc rounded once to act at p, y, da, dxs; the weight multiplies in acc before the rounding of a
//! (model.md §5.1, §5.2). Order: slots of an expert in token order. Kernels: csrc/moe/experts.cu

use super::linear::product_scratch;
use crate::cpu::simd::{LANES, fold, simd_fn};
use crate::cpu::{Cpu, CpuKernel, Form, Tile, product, weight_gradient_piece};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};
use core::ops::Range;

/// Slots of a piece of work.
const BLOCK: usize = 256;

/// Applies the experts.
#[derive(Debug, Clone)]
pub struct ExpertsFwd {
    /// Tokens.
    pub x: Tensor,
    /// Routing weights.
    pub weight: Tensor,
    /// First slot of every expert.
    pub offsets: Tensor,
    /// Pair in each slot.
    pub pair_of_slot: Tensor,
    /// Up-projections of all experts.
    pub up: Tensor,
    /// Down-projections of all experts.
    pub down: Tensor,
    /// Gathered tokens.
    pub xs: Tensor,
    /// Up-projected slots.
    pub p: Tensor,
    /// Activated slots.
    pub a: Tensor,
    /// Outputs by slot.
    pub y: Tensor,
}

impl Operation for ExpertsFwd {
    const NAME: &'static str = "experts_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("x", self.x, Access::Read);
        visit("weight", self.weight, Access::Read);
        visit("offsets", self.offsets, Access::Read);
        visit("pair_of_slot", self.pair_of_slot, Access::Read);
        visit("up", self.up, Access::Read);
        visit("down", self.down, Access::Read);
        visit("xs", self.xs, Access::Write);
        visit("p", self.p, Access::Write);
        visit("a", self.a, Access::Write);
        visit("y", self.y, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.x.dtype
    }
    fn flops(&self) -> u64 {
        4 * self.p.rows as u64 * self.p.cols as u64 * self.x.cols as u64
    }
    fn cpu_scratch(&self) -> usize {
        product_scratch(self.x.dtype, self.x.dtype)
    }
}

/// Piece `index` of the work: an expert and a block of its slots; `None` past the last. Pieces depend on the counts only.
fn expert_piece(offsets: &[i32], index: usize) -> Option<(usize, Range<usize>)> {
    let mut first = 0;
    for e in 0..offsets.len() - 1 {
        let (start, end) = (offsets[e] as usize, offsets[e + 1] as usize);
        let blocks = (end - start).div_ceil(BLOCK);
        if index < first + blocks {
            let s = start + (index - first) * BLOCK;
            return Some((e, s..(s + BLOCK).min(end)));
        }
        first += blocks;
    }
    None
}

/// An upper bound of the number of pieces.
fn piece_bound(slots: usize, experts: usize) -> usize {
    slots / BLOCK + experts
}

simd_fn! {
    /// `a = w max(p, 0)^2`.
    fn activate<A: Element>(p: &[A], w: A::Acc, a: &mut [A]) {
        for (a, p) in a.iter_mut().zip(p) {
            let r = A::Acc::ZERO.max(p.widen());
            *a = A::narrow(w * (r * r));
        }
    }
}

impl CpuKernel for ExpertsFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (x, weight) = (cpu.read::<A>(self.x), cpu.read::<A::Acc>(self.weight).as_slice());
        let offsets = cpu.read_i32(self.offsets).as_slice();
        let pairs = cpu.read_i32(self.pair_of_slot).as_slice();
        let (up, down) = (cpu.read::<A>(self.up), cpu.read::<A>(self.down));
        let (xs, p) = (cpu.write::<A>(self.xs), cpu.write::<A>(self.p));
        let (a, y) = (cpu.write::<A>(self.a), cpu.write::<A>(self.y));
        let (k, experts) = (pairs.len() / x.rows.max(1), offsets.len() - 1);
        let (f, d) = (p.cols, x.cols);
        let out = (xs, p, a, y);
        cpu.workers.pieces::<A::Acc>(piece_bound(pairs.len(), experts), |index, scratch| {
            let Some((e, slots)) = expert_piece(offsets, index) else {
                return;
            };
            // SAFETY: pieces own disjoint slots, and the four outputs are not used elsewhere meanwhile.
            let (mut xs, mut p, mut a, mut y) = unsafe { out.tile(slots.clone(), 0, 1) };
            for (i, s) in slots.clone().enumerate() {
                xs.row_mut(i).copy_from_slice(x.row(pairs[s] as usize / k));
            }
            product::<A, A>(Form::NT, xs.as_mat(), up.row_range(e * f..(e + 1) * f), false, &mut p, scratch);
            for (i, s) in slots.enumerate() {
                activate(p.as_mat().row(i), weight[pairs[s] as usize], a.row_mut(i));
            }
            product::<A, A>(Form::NT, a.as_mat(), down.row_range(e * d..(e + 1) * d), false, &mut y, scratch);
        });
    }
}

/// Gradients of the experts.
#[derive(Debug, Clone)]
pub struct ExpertsBwd {
    /// The forward operation (its inputs and kept tensors; its workspace `a` is given anew).
    pub fwd: ExpertsFwd,
    /// Gradient of the combined output, by token.
    pub dout: Tensor,
    /// Gradient of the gathered tokens, by slot.
    pub dxs: Tensor,
    /// Gradient of the routing weights.
    pub dweight: Tensor,
    /// Gradients of the up- and down-projections; absent when the experts are frozen.
    pub dweights: Option<(Tensor, Tensor)>,
    /// Add to `dweights` instead of overwriting them.
    pub accumulate: bool,
    /// Workspace: gathered output gradients.
    pub dys: Tensor,
    /// Workspace: activations.
    pub a: Tensor,
    /// Workspace: gradients of the up-projected slots.
    pub dp: Tensor,
}

impl Operation for ExpertsBwd {
    const NAME: &'static str = "experts_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        let f = &self.fwd;
        visit("weight", f.weight, Access::Read);
        visit("offsets", f.offsets, Access::Read);
        visit("pair_of_slot", f.pair_of_slot, Access::Read);
        visit("up", f.up, Access::Read);
        visit("down", f.down, Access::Read);
        visit("xs", f.xs, Access::Read);
        visit("p", f.p, Access::Read);
        visit("dout", self.dout, Access::Read);
        visit("dxs", self.dxs, Access::Write);
        visit("dweight", self.dweight, Access::Write);
        if let Some((dup, ddown)) = self.dweights {
            visit("dup", dup, Access::output(self.accumulate));
            visit("ddown", ddown, Access::output(self.accumulate));
        }
        visit("dys", self.dys, Access::Write);
        visit("a", self.a, Access::Write);
        visit("dp", self.dp, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.dout.dtype
    }
    fn flops(&self) -> u64 {
        self.fwd.flops() * (1 + u64::from(self.dweights.is_some()))
    }
    fn cpu_scratch(&self) -> usize {
        let act = self.dout.dtype;
        self.dweights.map_or(0, |(d, _)| product_scratch(act, d.dtype)).max(product_scratch(act, act))
    }
}

simd_fn! {
    /// From da (in `dp`) to dp, with the activation rebuilt into `a`; returns the gradient of the weight.
    fn activation_gradient<A: Element>(p: &[A], w: A::Acc, a: &mut [A], dp: &mut [A]) -> A::Acc {
        let mut acc = [A::Acc::ZERO; LANES];
        let two_w = A::Acc::from_f64(2.0) * w;
        for ((p, a), dp) in p.chunks(LANES).zip(a.chunks_mut(LANES)).zip(dp.chunks_mut(LANES)) {
            for (l, ((p, a), dp)) in p.iter().zip(a).zip(dp).enumerate() {
                let r = A::Acc::ZERO.max(p.widen());
                let da = dp.widen();
                acc[l] += r * r * da;
                *a = A::narrow(w * (r * r));
                *dp = A::narrow(two_w * r * da);
            }
        }
        fold(acc)
    }
}

impl CpuKernel for ExpertsBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let fwd = &self.fwd;
        let (dout, weight) = (cpu.read::<A>(self.dout), cpu.read::<A::Acc>(fwd.weight).as_slice());
        let offsets = cpu.read_i32(fwd.offsets).as_slice();
        let pairs = cpu.read_i32(fwd.pair_of_slot).as_slice();
        let (up, down) = (cpu.read::<A>(fwd.up), cpu.read::<A>(fwd.down));
        let (xs, p) = (cpu.read::<A>(fwd.xs), cpu.read::<A>(fwd.p));
        let dxs = cpu.write::<A>(self.dxs);
        // One row per pair, so that pieces can write the pairs of their slots.
        let dweight = cpu.write::<A::Acc>(self.dweight.reshape(pairs.len(), 1));
        let mut workspaces = (cpu.write::<A>(self.dys), cpu.write::<A>(self.a), cpu.write::<A>(self.dp));
        let (k, experts) = (pairs.len() / dout.rows.max(1), offsets.len() - 1);
        let (f, d) = (p.cols, dout.cols);
        let out = (dxs, (workspaces.0.reborrow(), workspaces.1.reborrow(), workspaces.2.reborrow()));
        cpu.workers.pieces::<A::Acc>(piece_bound(pairs.len(), experts), |index, scratch| {
            let Some((e, slots)) = expert_piece(offsets, index) else {
                return;
            };
            // SAFETY: pieces own disjoint slots, and the outputs are not used elsewhere meanwhile.
            let (mut dxs, (mut dys, mut a, mut dp)) = unsafe { out.tile(slots.clone(), 0, 1) };
            for (i, s) in slots.clone().enumerate() {
                dys.row_mut(i).copy_from_slice(dout.row(pairs[s] as usize / k));
            }
            product::<A, A>(Form::NN, dys.as_mat(), down.row_range(e * d..(e + 1) * d), false, &mut dp, scratch);
            for (i, s) in slots.enumerate() {
                let pair = pairs[s] as usize;
                let dw = activation_gradient(p.row(s), weight[pair], a.row_mut(i), dp.row_mut(i));
                // SAFETY: every pair has one slot, hence one piece.
                unsafe { dweight.tile(pair..pair + 1, 0, 1) }.row_mut(0)[0] = dw;
            }
            product::<A, A>(Form::NN, dp.as_mat(), up.row_range(e * f..(e + 1) * f), false, &mut dxs, scratch);
        });
        if let Some((dup, ddown)) = self.dweights {
            let (dys, a, dp) = (workspaces.0.as_mat(), workspaces.1.as_mat(), workspaces.2.as_mat());
            let gradients = (cpu.gradient::<A::Acc>(dup), cpu.gradient::<A::Acc>(ddown));
            cpu.workers.pieces::<A::Acc>(2 * experts, |index, scratch| {
                let e = index / 2;
                let slots = offsets[e] as usize..offsets[e + 1] as usize;
                let [dys, a, dp, xs] = [dys, a, dp, xs].map(|m| m.row_range(slots.clone()));
                // SAFETY: pieces own the rows of one expert in one of the two gradients.
                unsafe {
                    if index % 2 == 0 {
                        let dst = gradients.0.tile(e * f..(e + 1) * f, 0, 1);
                        weight_gradient_piece(dp, xs, self.accumulate, dst, scratch);
                    } else {
                        let dst = gradients.1.tile(e * d..(e + 1) * d, 0, 1);
                        weight_gradient_piece(dys, a, self.accumulate, dst, scratch);
                    }
                }
            });
        }
    }
}
