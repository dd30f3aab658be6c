//! Named members of the family (spec: model.md §1).

use super::{AttentionConfig, LayerKind, MambaConfig, ModelConfig, MoeConfig, MtpConfig, parse_pattern};
use alloc::vec;
use alloc::vec::Vec;

/// Names that [`preset`] knows, with a line about each.
pub const PRESETS: &[(&str, &str)] = &[
    ("nemotron_3_5_lightning", "Nemotron 3.5 Lightning 30B-A3B: 52 layers, 128 experts top-6, MTP depth 2"),
    ("nemotron_3_nano_30b", "Nemotron 3 Nano 30B-A3B: the same backbone without MTP"),
    ("nemotron_nano_4b", "Nemotron Nano 4B: dense hybrid of 42 layers"),
    ("smoke", "the public smoke configuration: 4 layers, 8 experts top-2"),
    ("pipeline_tiny", "the tiny model of the training pipeline; the sizes of `smoke`"),
    ("oracle_tiny", "the model of the golden values: 5 layers, hidden 64"),
    ("demo", "our demo: every kind of layer, MTP depth 2, trains in minutes on two cores"),
    ("peer", "the model of the CPU benchmark beside transformers: 9 layers, hidden 256"),
];

fn layers(pattern: &str) -> Vec<LayerKind> {
    parse_pattern(pattern).expect("presets hold valid patterns")
}

fn mamba(heads: usize, head_dim: usize, state: usize, groups: usize, chunk: usize) -> Option<MambaConfig> {
    let (dt_init, dt_init_floor) = ((1e-3, 0.1), 1e-4);
    Some(MambaConfig { heads, head_dim, state, groups, conv_kernel: 4, chunk, dt_min: 0.0, dt_init, dt_init_floor })
}

fn attention(heads: usize, kv_heads: usize, head_dim: usize) -> Option<AttentionConfig> {
    Some(AttentionConfig { heads, kv_heads, head_dim })
}

fn moe(experts: usize, top_k: usize, expert_width: usize, shared_width: usize) -> Option<MoeConfig> {
    Some(MoeConfig { experts, top_k, expert_width, shared_width, shared_experts: 1, scale: 2.5, normalize: true })
}

fn mtp() -> Option<MtpConfig> {
    Some(MtpConfig { layers: vec![LayerKind::Attention, LayerKind::Moe], depth: 2 })
}

/// The configuration of a named model; `None` for a name that is not in [`PRESETS`].
pub fn preset(name: &str) -> Option<ModelConfig> {
    let lightning = ModelConfig {
        vocab: 131_072,
        hidden: 2688,
        layers: layers("MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"),
        attention: attention(32, 2, 128),
        mamba: mamba(64, 64, 128, 8, 128),
        moe: moe(128, 6, 1856, 3712),
        mlp_width: None,
        mtp: mtp(),
        norm_eps: 1e-5,
        init_std: 0.0173,
        max_positions: 1_048_576,
    };
    Some(match name {
        "nemotron_3_5_lightning" => lightning,
        "nemotron_3_nano_30b" => ModelConfig { mtp: None, max_positions: 262_144, ..lightning },
        "nemotron_nano_4b" => ModelConfig {
            hidden: 3136,
            layers: layers("M-M-M-MM-M-M*-M-M*-M-M-M*-M-M-MM*-MMM-M-M-"),
            attention: attention(40, 8, 128),
            mamba: mamba(96, 80, 128, 8, 256),
            moe: None,
            mlp_width: Some(12_544),
            mtp: None,
            init_std: 0.02,
            max_positions: 262_144,
            ..lightning
        },
        // The pipeline's tiny model has the sizes of the smoke configuration (pipeline.md §1.4).
        "smoke" | "pipeline_tiny" => ModelConfig {
            hidden: 512,
            layers: layers("M*EE"),
            attention: attention(8, 4, 64),
            mamba: mamba(8, 64, 128, 8, 128),
            moe: moe(8, 2, 512, 1024),
            ..lightning
        },
        "oracle_tiny" => ModelConfig {
            vocab: 256,
            hidden: 64,
            layers: layers("MEM*E"),
            attention: attention(4, 2, 16),
            mamba: mamba(32, 16, 16, 4, 16),
            moe: moe(8, 2, 64, 128),
            ..lightning
        },
        "demo" => ModelConfig {
            vocab: 4096,
            hidden: 256,
            layers: layers("MEM*EME"),
            attention: attention(8, 2, 32),
            mamba: mamba(16, 32, 64, 4, 64),
            moe: moe(16, 2, 256, 512),
            init_std: 0.02,
            max_positions: 8192,
            ..lightning
        },
        "peer" => ModelConfig {
            vocab: 4096,
            hidden: 256,
            layers: layers("MEMEM*EME"),
            attention: attention(8, 2, 32),
            mamba: mamba(16, 32, 64, 4, 64),
            moe: moe(16, 2, 256, 512),
            mtp: None,
            init_std: 0.02,
            max_positions: 8192,
            ..lightning
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_preset_is_valid() {
        for (name, _) in PRESETS {
            let config = preset(name).unwrap_or_else(|| panic!("{name} is listed but unknown"));
            config.check().unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        assert!(preset("nemotron_3_super").is_none());
    }
}
