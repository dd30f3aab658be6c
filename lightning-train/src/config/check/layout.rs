//! Parallel sizes that divide what they split.

use super::super::choices::*;
use super::super::launch::{self, Launch};
use super::super::run::RunConfig;
use super::{Check, need};

pub(super) fn layout(config: &RunConfig, launch: &Launch) -> Check {
    let m = &config.model;
    for (key, size) in [
        ("model.tensor_model_parallel_size", m.tensor_model_parallel_size),
        ("model.pipeline_model_parallel_size", m.pipeline_model_parallel_size),
        ("model.context_parallel_size", m.context_parallel_size),
        ("model.expert_model_parallel_size", m.expert_model_parallel_size),
        ("model.expert_tensor_parallel_size", m.expert_tensor_parallel_size.unwrap_or(1)),
        ("model.virtual_pipeline_model_parallel_size", m.virtual_pipeline_model_parallel_size.unwrap_or(1)),
        ("ddp.num_distributed_optimizer_instances", config.ddp.num_distributed_optimizer_instances),
    ] {
        need((1..=1 << 20).contains(&size), key, size, "must be at least 1")?;
    }
    let (tp, cp, ep) = (m.tensor_model_parallel_size, m.context_parallel_size, m.expert_model_parallel_size);
    let divides = |key: &str, size: usize, what: &str, value: usize| {
        let reason = format!("must divide {what} = {value}");
        need(value.is_multiple_of(size), key, size, &reason)
    };
    let layers = &m.hybrid_layer_pattern;
    let mtp = m.mtp_hybrid_override_pattern.as_deref().unwrap_or("");
    let has = |kind: char| layers.contains(kind) || mtp.contains(kind);
    let tp_key = "model.tensor_model_parallel_size";
    if has('*') {
        divides(tp_key, tp, "model.num_attention_heads", m.num_attention_heads)?;
        divides(tp_key, tp, "model.num_query_groups", m.num_query_groups)?;
    }
    if has('M') {
        divides(tp_key, tp, "model.mamba_num_heads", m.mamba_num_heads)?;
        divides(tp_key, tp, "model.mamba_num_groups", m.mamba_num_groups)?;
    }
    if has('E') {
        divides("model.expert_model_parallel_size", ep, "model.num_moe_experts", m.num_moe_experts)?;
    }
    if cp > 1 {
        let reason = format!("must be a multiple of {} (twice model.context_parallel_size)", 2 * cp);
        need(m.seq_length.is_multiple_of(2 * cp), "model.seq_length", m.seq_length, &reason)?;
        if m.cp_comm_type == Some(CpCommType::A2a) && has('*') {
            let heads = m.num_query_groups / tp;
            let reason =
                format!("a2a splits the {heads} key/value heads of a tensor-parallel rank over {cp} ranks; use p2p");
            need(heads.is_multiple_of(cp), "model.cp_comm_type", "a2a", &reason)?;
        }
    }
    if m.sequence_parallel {
        let reason = format!("must be a multiple of {} with model.sequence_parallel", tp * cp);
        need(m.seq_length.is_multiple_of(tp * cp), "model.seq_length", m.seq_length, &reason)?;
    }
    // A layout that this launch cannot hold is refused when it is run; only its own ranks are checked against the batch.
    let smallest = launch::smallest_world(config);
    let world = if launch.world_size >= smallest { launch.world_size } else { smallest };
    let reason = format!("must be a multiple of the {smallest} ranks that the parallel sizes need");
    need(world.is_multiple_of(smallest), "run.world_size", world, &reason)?;
    let dp = (world / launch::model_parallel_size(config)) as u64;
    let (batch, micro) = (config.train.global_batch_size, config.train.micro_batch_size);
    let reason = format!(
        "must be a multiple of {} (micro_batch_size {micro} times {dp} data-parallel ranks)",
        micro.saturating_mul(dp)
    );
    need(batch.is_multiple_of(micro.saturating_mul(dp)), "train.global_batch_size", batch, &reason)
}
