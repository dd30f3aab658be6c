//! `E`: the mixture of experts (model.md §5).
//!
//!   idx, w = route(x)        routed = sum_j down_e(w_j max(up_e(x), 0)^2),  e = idx_j        out = routed + shared(x)

use super::{Context, Routing, mlp};
use crate::layout::MoeParams;
use crate::ops::{
    AuxLoss, CombineBwd, CombineFwd, DispatchPlan, ExpertsBwd, ExpertsFwd, LossScale, RouterBwd, RouterFwd,
    RouterLogits,
};
use crate::tensor::{DType, Tensor};

/// Which router of the model an application uses.
#[derive(Debug, Clone, Copy)]
pub struct RouterSite {
    /// Row of the counters and of the auxiliary losses.
    pub router: usize,
    /// Index among all applications (MTP depths count separately): selects the given experts.
    pub application: usize,
    /// Divisor of the auxiliary coefficient: the MTP depth inside the MTP block, else 1.
    pub divisor: usize,
    /// Whether padding tokens are left out of the statistics (the backbone's routers; model.md §13.21).
    pub masked: bool,
}

/// What the backward pass needs.
pub struct Saved {
    router: RouterFwd,
    plan: DispatchPlan,
    experts: ExpertsFwd,
    shared: Option<mlp::Saved>,
}

impl Saved {
    /// Logits, selected experts and their weights, for traces.
    pub fn routing(&self) -> (Tensor, Tensor, Tensor) {
        (self.router.logits, self.router.idx, self.router.weight)
    }
}

/// Records the mixer on normed input `x`.
pub fn forward(cx: &mut Context<'_>, p: &MoeParams, site: RouterSite, x: Tensor) -> (Tensor, Saved) {
    let spec = &cx.model.spec;
    let m = spec.config.moe().clone();
    let (tokens, k, rows, row_len) = (cx.tokens(), m.top_k, spec.batch.rows, spec.batch.row_len);
    let (metrics, inputs) = (cx.model.metrics, &cx.model.inputs);
    let source = match spec.routing {
        Routing::Natural => RouterLogits::Computed,
        Routing::Forced => RouterLogits::Forced(inputs.forced[site.application]),
        Routing::Noise => {
            let counter = inputs.noise.expect("a model with noise routing has a counter");
            RouterLogits::Noise(site.application as u64, counter)
        }
    };
    let padding = inputs.padding.filter(|_| site.masked);
    let coefficient = spec.objective.aux_coefficient / site.divisor as f64;
    let micro_batches = match spec.objective.scale {
        LossScale::MeanOfMeans(n) => Some(n),
        LossScale::PerToken => None,
    };
    let row = |t: Tensor| t.row_range(site.router, 1);
    let aux = (coefficient != 0.0).then(|| {
        let stats = cx.statistics("aux_stats", rows, m.experts + 2);
        AuxLoss { coefficient, micro_batches, stats, metric: row(metrics.aux) }
    });
    let router = RouterFwd {
        x,
        w: cx.weight(p.router),
        bias: cx.weight(p.bias),
        source,
        top_k: k,
        scale: m.scale,
        normalize: m.normalize,
        row_len,
        padding,
        logits: cx.statistics("logits", tokens, m.experts),
        idx: cx.integers("idx", tokens, k),
        weight: cx.statistics("weight", tokens, k),
        counts: cx.backward.then(|| row(metrics.counts)),
        row_counts: cx.integers("row_counts", rows, m.experts),
        aux,
    };
    cx.push(router.clone());

    let plan = DispatchPlan {
        idx: router.idx,
        offsets: cx.integers("offsets", 1, m.experts + 1),
        pair_of_slot: cx.integers("pair_of_slot", 1, tokens * k),
        slot_of_pair: cx.integers("slot_of_pair", tokens, k),
    };
    cx.push(plan.clone());

    let act = cx.precision().act;
    let (f, d) = (m.expert_width, x.cols);
    let mut slots = |name: &str, cols: usize| cx.builder.tensor(name, act, tokens * k, cols);
    let (xs, up, a, y) = (slots("xs", d), slots("p", f), slots("a", f), slots("y", d));
    let experts = ExpertsFwd {
        x,
        weight: router.weight,
        offsets: plan.offsets,
        pair_of_slot: plan.pair_of_slot,
        up: cx.weight(p.up),
        down: cx.weight(p.down),
        xs,
        p: up,
        a,
        y,
    };
    cx.push(experts.clone());

    let shared = p.shared.as_ref().map(|shared| mlp::forward(cx, shared, x));
    let out = cx.activation("out", d);
    let shared_out = shared.as_ref().map(|(out, _)| *out);
    cx.push(CombineFwd { y, slot_of_pair: plan.slot_of_pair, shared: shared_out, out });
    (out, Saved { router, plan, experts, shared: shared.map(|(_, saved)| saved) })
}

/// Records the gradients; returns the gradient of the normed input.
pub fn backward(cx: &mut Context<'_>, p: &MoeParams, saved: &Saved, dout: Tensor) -> Tensor {
    let Saved { router, plan, experts, shared } = saved;
    let (tokens, k, precision) = (cx.tokens(), router.top_k, cx.precision());
    let (f, d) = (experts.p.cols, dout.cols);
    let mut slots = |name: &str, cols: usize| cx.builder.tensor(name, precision.act, tokens * k, cols);
    let (dxs, dys, a, dp) = (slots("dxs", d), slots("dys", d), slots("da", f), slots("dp", f));
    let dweight = cx.statistics("dweight", tokens, k);
    let ((dup, accumulate), (ddown, _)) = (cx.gradient(p.up), cx.gradient(p.down));
    let (fwd, dweights) = (experts.clone(), Some((dup, ddown)));
    cx.push(ExpertsBwd { fwd, dout, dxs, dweight, dweights, accumulate, dys, a, dp });

    // The gradient of the input: the shared expert's, then the routed experts', then the router's.
    let dx = match (&p.shared, shared) {
        (Some(params), Some(saved)) => mlp::backward(cx, params, saved, dout),
        _ => cx.activation("dx", d),
    };
    cx.push(CombineBwd { dxs, slot_of_pair: plan.slot_of_pair, dx, accumulate: shared.is_some() });

    let dlogits = cx.statistics("dlogits", tokens, router.logits.cols);
    let wide = (precision.act == DType::BF16)
        .then(|| (cx.statistics("x_wide", tokens, d), cx.statistics("w_wide", router.w.rows, d)));
    let (dw, accumulate) = cx.gradient(p.router);
    cx.push(RouterBwd { fwd: router.clone(), dweight, dx, dw: Some(dw), accumulate, dlogits, wide });
    dx
}
