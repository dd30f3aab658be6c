//! Visits every handle inside an operation so that a pass can point it at another buffer.
//!
//! Every field of every operation is listed, without `..`: an operation that gains a field does not compile until it
//! says here whether the field is a handle.

use super::Op;
use crate::ops::*;
use crate::tensor::Tensor;
use alloc::vec::Vec;

/// Something that holds handles.
pub(super) trait Handles {
    /// Calls `visit` with every handle.
    fn handles(&mut self, visit: &mut dyn FnMut(&mut Tensor));
}

impl Handles for Tensor {
    fn handles(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        visit(self);
    }
}

impl<T: Handles> Handles for Option<T> {
    fn handles(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        if let Some(inner) = self {
            inner.handles(visit);
        }
    }
}

impl<T: Handles> Handles for Vec<T> {
    fn handles(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        for inner in self {
            inner.handles(visit);
        }
    }
}

impl<A: Handles, B: Handles> Handles for (A, B) {
    fn handles(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        self.0.handles(visit);
        self.1.handles(visit);
    }
}

impl Handles for RouterLogits {
    fn handles(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        match self {
            Self::Computed => {}
            Self::Forced(t) | Self::Noise(_, t) => visit(t),
        }
    }
}

/// `Operation { handles; plain values }`.
macro_rules! handles {
    ($($name:ident { $($field:ident),+ ; $($plain:ident),* })+) => {
        $(impl Handles for $name {
            fn handles(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
                let Self { $($field,)+ $($plain: _,)* } = self;
                $($field.handles(visit);)+
            }
        })+
    };
}

handles! {
    Segments { cu_seqlens, start, end; row_len }
    Roll { src, end, dst; }
    EmbeddingFwd { ids, table, y; }
    EmbeddingBwd { ids, dy, dtable; accumulate }
    RmsNormFwd { x, branch, w, x_out, y, rstd; eps }
    RmsNormBwd { dy, x, w, rstd, dx, dw, partial; accumulate_dx, accumulate_dw }
    Adapter { a, b, u; scale }
    AdapterGradients { da, db, v; accumulate }
    LinearFwd { x, w, y, adapter; }
    LinearBwd { dy, x, w, dx, dw, adapter; accumulate_dx, accumulate_dw }
    ConvSiluFwd { x, w, b, start, y; }
    ConvSiluBwd { dy, x, w, b, start, dx, dw, db, partial; accumulate }
    SoftplusDtFwd { raw, bias, delta; dt_min }
    SoftplusDtBwd { ddelta, raw, bias, draw, dbias, partial; dt_min, accumulate }
    SsdScanFwd { x, b, c, delta, a_log, d, start, end, state_in, y, states, state_out; shape }
    SsdScanBwd { fwd, dy, dstate_out, dx, db, dc, ddelta, da_log, dd, dstate_in, partial_a, partial_d; accumulate }
    GatedRmsNormFwd { y, z, w, o, rstd; groups, eps }
    GatedRmsNormBwd { dout, y, z, w, rstd, dy, dz, dw, partial; groups, accumulate }
    AttentionFwd { q, k, v, start, o, lse; shape }
    AttentionBwd { fwd, dout, dq, dk, dv; }
    AuxLoss { stats, metric; coefficient, micro_batches }
    RouterFwd {
        x, w, bias, source, padding, logits, idx, weight, counts, row_counts, aux;
        top_k, scale, normalize, row_len
    }
    RouterBwd { fwd, dweight, dx, dw, dlogits, wide; accumulate }
    DispatchPlan { idx, offsets, pair_of_slot, slot_of_pair; }
    ExpertsFwd { x, weight, offsets, pair_of_slot, up, down, xs, p, a, y; }
    ExpertsBwd { fwd, dout, dxs, dweight, dweights, dys, a, dp; accumulate }
    CombineFwd { y, slot_of_pair, shared, out; }
    CombineBwd { dxs, slot_of_pair, dx; accumulate }
    Relu2Fwd { x, y; }
    Relu2Bwd { x, dy, dx; }
    LossHead { h, label, mask, ce, dh, metric; factor }
    LinearCrossEntropy { heads, w, dw, logits; scale, accumulate }
    StepControl { gradients, state, tokens, partial; schedule, clip, betas }
    AdamW { gradient, param, master, m, v, state; betas, eps, decay }
    ExpertBiasUpdate { counts, bias, last; rate }
    Fill { dst; value }
}

impl Op {
    /// Calls `visit` with every handle of the operation, also those of a saved forward operation that this one does not
    /// touch. Passes use it to rename and resize tensors.
    pub fn handles(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        macro_rules! each {
            ($($name:ident)+) => { match self { $(Self::$name(op) => op.handles(visit)),+ } };
        }
        each! {
            Segments Roll EmbeddingFwd EmbeddingBwd RmsNormFwd RmsNormBwd LinearFwd LinearBwd ConvSiluFwd ConvSiluBwd
            SoftplusDtFwd SoftplusDtBwd SsdScanFwd SsdScanBwd GatedRmsNormFwd GatedRmsNormBwd AttentionFwd AttentionBwd
            RouterFwd RouterBwd DispatchPlan ExpertsFwd ExpertsBwd CombineFwd CombineBwd Relu2Fwd Relu2Bwd
            LinearCrossEntropy StepControl AdamW ExpertBiasUpdate Fill
        }
    }
}
