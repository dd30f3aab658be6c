//! FLOPs of a token: as the public stack charges them, and as the shapes have them.

use super::engine::Engine;
use lightning_core::config::{LayerKind, ModelConfig};

/// FLOPs of a training token, forward and backward; recomputation is not counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerToken {
    /// By the public formula.
    pub charged: f64,
    /// Three times the forward pass of the true shapes.
    pub honest: f64,
}

impl PerToken {
    /// Of an engine's programs.
    pub fn of(engine: &Engine) -> Self {
        let spec = &engine.model.spec;
        let forward = engine.evaluate.flops() as f64 / spec.batch.tokens() as f64;
        Self { charged: charged(&spec.config, spec.batch.row_len), honest: 3.0 * forward }
    }
}

/// The formula behind the public TFLOP/s (recipes.md §4.1): the Mamba term uses twice the hidden size as its inner width,
/// attention is charged by the causal half, and eh_proj, router, norms and convolution are not charged.
pub fn charged(config: &ModelConfig, sequence: usize) -> f64 {
    let (h, v, s) = (config.hidden as f64, config.vocab as f64, sequence as f64);
    let depth = config.mtp_depth();
    let block = config.mtp.iter().flat_map(|m| &m.layers);
    let count = |kind: LayerKind| {
        let backbone = config.layers.iter().filter(|k| **k == kind).count();
        (backbone + depth * block.clone().filter(|k| **k == kind).count()) as f64
    };
    let mamba = config.mamba.as_ref().map_or(0.0, |m| {
        let (groups, state, heads) = (m.groups as f64, m.state as f64, m.heads as f64);
        2.0 * h * (2.0 * (2.0 * h) + 2.0 * groups * state + heads) + 7.0 * (2.0 * h) * state + 2.0 * (2.0 * h) * h
    });
    let attention = config.attention.as_ref().map_or(0.0, |a| {
        let (q, heads, kv) = ((a.heads * a.head_dim) as f64, a.heads as f64, a.kv_heads as f64);
        4.0 * q * (h + h * kv / heads) + 2.0 * q * s
    });
    let moe = config
        .moe
        .as_ref()
        .map_or(0.0, |m| 4.0 * h * (m.expert_width * m.top_k) as f64 + 4.0 * h * m.shared_width as f64);
    let mlp = config.mlp_width.map_or(0.0, |f| 4.0 * h * f as f64);
    let layers = count(LayerKind::Mamba) * mamba
        + count(LayerKind::Attention) * attention
        + count(LayerKind::Moe) * moe
        + count(LayerKind::Mlp) * mlp;
    3.0 * (layers + 2.0 * h * v * (1 + depth) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightning_core::config::preset;
    use lightning_core::model::{
        MicroBatch, Model, ModelSpec, Objective, Precision, ProgramKind, Routing, Trace, Training,
    };
    use lightning_core::ops::LossScale;
    use lightning_core::tensor::DType;

    #[test]
    fn charged_flops_are_those_of_the_public_runs() {
        let mut config = preset("nemotron_3_5_lightning").unwrap();
        assert_eq!(charged(&config, 8192), 28_147_236_864.0);
        config.mtp.as_mut().unwrap().depth = 1;
        assert_eq!(charged(&config, 8192), 25_212_665_856.0);
        config.mtp = None;
        assert_eq!(charged(&config, 8192), 22_278_094_848.0);
    }

    #[test]
    fn honest_flops_of_lightning_are_about_27_g_per_token() {
        let spec = ModelSpec {
            config: preset("nemotron_3_5_lightning").unwrap(),
            precision: Precision::of(DType::BF16),
            batch: MicroBatch { rows: 1, row_len: 8192, max_offsets: 2, padding: false },
            objective: Objective {
                scale: LossScale::MeanOfMeans(1),
                mtp_factor: 0.3,
                aux_coefficient: 1e-4,
                bias_rate: 1e-3,
            },
            routing: Routing::Natural,
            training: Training::Off,
            recompute: lightning_core::program::Recompute::NONE,
        };
        let model = Model::new(spec).unwrap();
        let forward = model.micro_batch(ProgramKind::Evaluate, Trace::Off).unwrap().flops() as f64 / 8192.0;
        assert!((3.0 * forward / 26.9e9 - 1.0).abs() < 0.01, "{:.3} G", 3.0 * forward / 1e9);
    }
}
