//! Whole programs: a micro-batch forward and backward, an evaluation, an optimizer step.
//!
//!   L = L_LM + (factor / depth) sum_k L_mtp_k + sum over routers of L_aux            (model.md §2)

use super::moe::RouterSite;
use super::{AdamConfig, Context, Model, Training, mtp, stack};
use crate::error::CoreError;
use crate::ops::{
    AdamW, EmbeddingBwd, EmbeddingFwd, ExpertBiasUpdate, Fill, LinearCrossEntropy, LinearFwd, LossHead, LossScale,
    Segments, StepControl,
};
use crate::program::{Builder, Program};
use crate::tensor::Tensor;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Which micro-batch program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// The first micro-batch of a step: gradients are overwritten, metrics start at zero.
    TrainFirst,
    /// A later micro-batch: gradients and metrics accumulate.
    Train,
    /// Forward only; metrics accumulate, expert counters do not.
    Evaluate,
}

/// Which intermediate values stay readable after a program ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// None.
    Off,
    /// Hidden states of every layer, logits and routing of the backbone, hidden states and losses of every MTP depth.
    Full,
}

impl Model {
    /// The program of one micro-batch.
    ///
    /// # Errors
    /// `Shape` if the recorded program is not well-formed.
    pub fn micro_batch(&self, kind: ProgramKind, trace: Trace) -> Result<Program, CoreError> {
        let mut program = self.record(kind, trace);
        program.recompute(&self.spec.recompute);
        program.place()?;
        Ok(program)
    }

    /// The program of one micro-batch before recomputation and placement, for passes and planners.
    pub fn record(&self, kind: ProgramKind, trace: Trace) -> Program {
        let backward = kind != ProgramKind::Evaluate;
        assert!(!backward || self.spec.training != Training::Off, "the model was laid out without gradients");
        let mut builder = Builder::new(&self.persistent, kind == ProgramKind::TrainFirst);
        let tokens = self.spec.batch.tokens();
        let start = builder.tensor("document_start", crate::tensor::DType::I32, 1, tokens);
        let end = builder.tensor("document_end", crate::tensor::DType::I32, 1, tokens);
        let mut cx = Context { model: self, builder, backward, start, end };

        cx.region("inputs");
        cx.push(Segments {
            cu_seqlens: self.inputs.cu_seqlens,
            row_len: self.spec.batch.row_len,
            start: cx.start,
            end: cx.end,
        });
        if kind == ProgramKind::TrainFirst {
            cx.push(Fill { dst: self.metrics.losses, value: 0.0 });
            cx.push(Fill { dst: self.metrics.aux, value: 0.0 });
        }
        let x = cx.activation("embedded", self.spec.config.hidden);
        cx.push(EmbeddingFwd { ids: self.inputs.ids, table: cx.weight(self.layout.embedding), y: x });

        let site = RouterSite { router: 0, application: 0, divisor: 1, masked: true };
        let (h, backbone) = stack::forward(&mut cx, "layers", &self.layout.layers, self.layout.final_norm, site, x);
        let depths = match &self.layout.mtp {
            Some(p) if self.spec.config.mtp_depth() > 0 => mtp::forward(&mut cx, p, h),
            _ => Vec::new(),
        };
        if trace == Trace::Full {
            self.trace(&mut cx, h, &backbone, &depths);
        }
        let dh = self.losses(&mut cx, h, &depths, trace);
        if backward {
            if let Some(p) = &self.layout.mtp {
                mtp::backward(&mut cx, p, &depths, &dh);
            }
            let layers = &self.layout.layers;
            let dx = stack::backward(&mut cx, "layers", layers, self.layout.final_norm, &backbone, dh[0]);
            cx.region("embedding/backward");
            let (dtable, accumulate) = cx.gradient(self.layout.embedding);
            cx.push(EmbeddingBwd { ids: self.inputs.ids, dy: dx, dtable, accumulate });
        }
        cx.builder.record(match kind {
            ProgramKind::TrainFirst => "train_first",
            ProgramKind::Train => "train",
            ProgramKind::Evaluate => "evaluate",
        })
    }

    /// Records the losses of all heads; returns the gradients of their hidden states (none in evaluation).
    fn losses(&self, cx: &mut Context<'_>, h: Tensor, depths: &[mtp::Depth], trace: Trace) -> Vec<Tensor> {
        cx.region("loss");
        let tokens = cx.tokens();
        let mtp_factor = self.spec.objective.mtp_factor / depths.len().max(1) as f64;
        let lm = (h, self.inputs.labels, self.inputs.loss_mask, 1.0);
        let all = [lm].into_iter().chain(depths.iter().map(|d| (d.h, d.label, d.mask, mtp_factor)));
        let mut heads = Vec::new();
        let mut dh = Vec::new();
        for (k, (h, label, mask, factor)) in all.enumerate() {
            let ce = cx.statistics(&format!("ce{k}"), 1, tokens);
            let gradient = cx.backward.then(|| cx.activation(&format!("dh{k}"), h.cols));
            dh.extend(gradient);
            let metric = self.metrics.losses.row_range(k, 1);
            heads.push(LossHead { h, label, mask, factor, ce, dh: gradient, metric });
            if trace == Trace::Full {
                let name = if k == 0 { "lm".into() } else { format!("mtp{k}") };
                cx.builder.output(format!("{name}_ce"), ce);
                if k > 0 {
                    cx.builder.output(format!("{name}.mask"), mask);
                }
            }
        }
        let w = cx.weight(self.layout.head);
        let rows = LinearCrossEntropy::tile_rows(tokens, w.rows);
        let logits = cx.builder.tensor("logits_tile", self.spec.precision.act, rows, w.rows);
        let (dw, accumulate) = match cx.backward {
            true => {
                let (dw, accumulate) = cx.gradient(self.layout.head);
                (Some(dw), accumulate)
            }
            false => (None, false),
        };
        cx.push(LinearCrossEntropy { heads, w, scale: self.spec.objective.scale, dw, accumulate, logits });
        dh
    }

    /// Keeps the values that a comparison with a reference needs.
    fn trace(&self, cx: &mut Context<'_>, h: Tensor, backbone: &stack::Saved, depths: &[mtp::Depth]) {
        cx.region("trace");
        for (i, x) in backbone.hidden().enumerate() {
            cx.builder.output(format!("hidden.{i}"), x);
        }
        for (i, (logits, idx, weight)) in backbone.routing() {
            cx.builder.output(format!("router.{i}.logits"), logits);
            cx.builder.output(format!("router.{i}.topk_idx"), idx);
            cx.builder.output(format!("router.{i}.topk_weight"), weight);
        }
        cx.builder.output("final_hidden", h);
        let w = cx.weight(self.layout.head);
        let logits = cx.activation("logits", w.rows);
        cx.push(LinearFwd { x: h, w, y: logits, adapter: None });
        cx.builder.output("logits", logits);
        for (k, depth) in depths.iter().enumerate() {
            cx.builder.output(format!("mtp{}.hidden", k + 1), depth.h);
            for (_, (_, idx, _)) in depth.stack.routing() {
                cx.builder.output(format!("mtp{}.topk_idx", k + 1), idx);
            }
        }
    }

    /// The program of an optimizer step: control, expert biases, AdamW on every trained parameter.
    ///
    /// # Errors
    /// `Shape` if the recorded program is not well-formed.
    pub fn optimizer_step(&self, adam: &AdamConfig) -> Result<Program, CoreError> {
        assert!(self.spec.training == Training::Full, "the model was laid out without an optimizer");
        let gradients = self.gradients.expect("a trained model has gradients");
        let mut b = Builder::new(&self.persistent, false);
        b.region("optimizer");
        let partial = b.tensor("squares", crate::tensor::DType::F64, 1, StepControl::blocks(gradients));
        let tokens = match self.spec.objective.scale {
            LossScale::PerToken => Some(self.metrics.losses.row_range(0, 1).columns(1, 1)),
            LossScale::MeanOfMeans(_) => None,
        };
        let AdamConfig { betas, eps, clip, schedule } = *adam;
        let state = self.metrics.state;
        b.push(StepControl { gradients, state, tokens, schedule, clip, betas, partial });
        for (router, bias) in self.expert_biases().into_iter().enumerate() {
            let row = |t: Tensor| t.row_range(router, 1);
            let (counts, last) = (row(self.metrics.counts), row(self.metrics.last_counts));
            b.push(ExpertBiasUpdate { counts, bias, rate: self.spec.objective.bias_rate, last });
        }
        for (tensors, param) in self.params.iter().zip(&self.layout.params) {
            let Some(training) = &tensors.training else {
                continue;
            };
            let (m, v) = training.moments.expect("a model with an optimizer has moments");
            let (gradient, master, decay) = (training.gradient, training.master, param.role.decays());
            b.push(AdamW { gradient, param: tensors.weight, master, m, v, state, betas, eps, decay });
        }
        b.finish("optimizer")
    }

    /// Expert biases in the order of the rows of the counters.
    pub fn expert_biases(&self) -> Vec<Tensor> {
        let mut biases = vec![];
        for (param, tensors) in self.layout.params.iter().zip(&self.params) {
            if param.role == crate::layout::Role::ExpertBias {
                biases.push(tensors.weight);
            }
        }
        biases
    }
}
