//! Bytes that one rank sends in an optimizer step, by collective, and the links that they take.
//!
//! | collective                    | bytes sent by one rank                                                     |
//! |-------------------------------|----------------------------------------------------------------------------|
//! | reduce-scatter, all-gather    | buffer (n - 1) / n                                                         |
//! | ring of n ranks               | own part (n - 1)                                                           |
//! | expert dispatch and combine   | tokens x remote ranks that a token reaches x hidden; k (n - 1) / n copies  |
//! |                               | with the all-to-all dispatcher, else one per rank: (n - 1) P(rank is hit)  |
//!
//! Sources: distributed.md §2 to §5 and §8, kernels.md §1.4 (172 MB per dispatch at 8192 tokens and 8 ranks).

use super::ranks::Ranks;
use super::statics::Static;
use super::targets::Target;
use crate::config::choices::{ShardingStrategy, TokenDispatcher};
use crate::config::run::RunConfig;
use lightning_core::config::{LayerKind, ModelConfig};
use lightning_core::program::{Op, Program};

/// One kind of collective.
#[derive(Debug, Clone, PartialEq)]
pub struct Collective {
    /// What is exchanged.
    pub name: &'static str,
    /// Ranks of the group.
    pub ranks: usize,
    /// Calls in an optimizer step.
    pub calls: f64,
    /// Bytes that one rank sends in an optimizer step.
    pub bytes: f64,
    /// `link` inside a domain, `network` across.
    pub link: &'static str,
    /// Seconds at the link's rate.
    pub seconds: f64,
}

/// Mean number of other ranks that a token reaches when its `k` experts are drawn evenly from `experts` on `ranks`.
pub fn remote_ranks(experts: usize, k: usize, ranks: usize) -> f64 {
    let here = experts / ranks;
    let miss = (0..k).map(|j| (experts - here).saturating_sub(j) as f64 / (experts - j) as f64).product::<f64>();
    (ranks - 1) as f64 * (1.0 - miss)
}

/// All collectives of a step. `rows`, `row_len`: tokens of a micro-batch over all context-parallel ranks.
#[allow(clippy::too_many_arguments)]
pub fn of(
    config: &RunConfig,
    global: &ModelConfig,
    ranks: &Ranks,
    statics: &Static,
    program: &Program,
    tokens: usize,
    micro_batches: f64,
    target: &Target,
) -> Vec<Collective> {
    let mut list = Vec::new();
    let mut add = |name, n: usize, span: usize, calls: f64, bytes: f64| {
        if n > 1 && bytes > 0.0 {
            let (link, rate) = if span <= target.domain { ("link", target.link) } else { ("network", target.network) };
            let ranks = n;
            list.push(Collective { name, ranks, calls, bytes, link, seconds: bytes / rate });
        }
    };
    let scatter = |n: usize| (n as f64 - 1.0) / n as f64;
    let count = |op: &dyn Fn(&Op) -> bool| program.nodes.iter().filter(|n| op(&n.op)).count() as f64;
    let act = 2.0;
    let hidden = global.hidden as f64;
    let t = tokens as f64;

    let fsdp = config.ddp.use_megatron_fsdp || config.dist.use_megatron_fsdp;
    let strategy = config.ddp.data_parallel_sharding_strategy;
    let grads_each_time = fsdp && matches!(strategy, ShardingStrategy::OptimGrads | ShardingStrategy::OptimGradsParams);
    let grad = if fsdp || !config.mixed_precision.grad_reduce_in_fp32 { 2.0 } else { 4.0 };
    let times = if grads_each_time { micro_batches } else { 1.0 };
    let gathers = if fsdp && strategy == ShardingStrategy::OptimGradsParams { 2.0 * micro_batches } else { 1.0 };
    let (dense, experts) = (ranks.dense_group(), ranks.edp);
    let sharded = config.optimizer.use_distributed_optimizer || fsdp;
    // Without a sharded optimizer the same bytes move as one all-reduce.
    let dense_bytes = statics.trained_dense * scatter(dense);
    let expert_bytes = statics.trained_experts * scatter(experts);
    add("dense gradients, reduce-scatter", dense, ranks.world, times, times * grad * dense_bytes);
    add("expert gradients, reduce-scatter", experts, ranks.world, times, times * grad * expert_bytes);
    let (name_d, name_e) = match sharded {
        true => ("dense weights, all-gather", "expert weights, all-gather"),
        false => ("dense gradients, all-gather", "expert gradients, all-gather"),
    };
    let width = if sharded { act } else { grad };
    add(name_d, dense, ranks.world, gathers, gathers * width * dense_bytes);
    add(name_e, experts, ranks.world, gathers, gathers * width * expert_bytes);

    if let Some(moe) = &global.moe {
        let n = ranks.ep;
        let sent = if ranks.sequence_parallel { t / ranks.tp as f64 } else { t };
        let copies = match config.model.moe_token_dispatcher_type {
            TokenDispatcher::Flex => remote_ranks(moe.experts, moe.top_k, n),
            _ => moe.top_k as f64 * scatter(n),
        };
        let forward = count(&|op| matches!(op, Op::ExpertsFwd(_)));
        let backward = count(&|op| matches!(op, Op::ExpertsBwd(_)));
        let one = sent * copies * hidden * act;
        add(
            "expert dispatch",
            n,
            n * ranks.etp,
            micro_batches * (forward + backward),
            micro_batches * (forward + backward) * one,
        );
        let combines = count(&|op| matches!(op, Op::CombineFwd(_))) + backward;
        add("expert combine", n, n * ranks.etp, micro_batches * combines, micro_batches * combines * one);
    }
    if ranks.sequence_parallel {
        // A gather before and a scatter behind every block, in both passes, and one more gather for the weight gradient.
        let kinds = |kind: LayerKind| {
            let mtp = global.mtp.iter().flat_map(|m| &m.layers).filter(|k| **k == kind).count() * global.mtp_depth();
            (global.layers.iter().filter(|k| **k == kind).count() + mtp) as f64
        };
        let blocks =
            kinds(LayerKind::Mamba) + kinds(LayerKind::Attention) + kinds(LayerKind::Mlp) + kinds(LayerKind::Moe);
        let one = t * hidden * act * scatter(ranks.tp);
        add(
            "sequence-parallel gather",
            ranks.tp,
            ranks.tp,
            micro_batches * 3.0 * blocks,
            micro_batches * 3.0 * blocks * one,
        );
        add(
            "sequence-parallel scatter",
            ranks.tp,
            ranks.tp,
            micro_batches * 2.0 * blocks,
            micro_batches * 2.0 * blocks * one,
        );
    }
    if ranks.cp > 1 {
        let span = ranks.tp * ranks.cp;
        if let Some(a) = &global.attention {
            let forward = count(&|op| matches!(op, Op::AttentionFwd(_)));
            let backward = count(&|op| matches!(op, Op::AttentionBwd(_)));
            let kv = t * (2 * a.kv_heads.div_ceil(ranks.tp) * a.head_dim) as f64 * act * (ranks.cp - 1) as f64;
            // Backward, keys and values travel with their gradients.
            let calls = micro_batches * (forward + backward);
            add("attention ring (k, v)", ranks.cp, span, calls, micro_batches * kv * (forward + 2.0 * backward));
        }
        if let Some(m) = &global.mamba {
            let forward = count(&|op| matches!(op, Op::SsdScanFwd(_)));
            let backward = count(&|op| matches!(op, Op::SsdScanBwd(_)));
            let columns = (m.in_proj_rows() + m.inner()) as f64 / ranks.tp as f64;
            let one = t * columns * act * scatter(ranks.cp);
            add(
                "Mamba heads to sequence",
                ranks.cp,
                span,
                2.0 * micro_batches * (forward + backward),
                micro_batches * one * (forward + backward),
            );
        }
    }
    list
}
