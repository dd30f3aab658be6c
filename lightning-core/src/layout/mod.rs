//! The parameters of a model: storage tensors, the checkpoint tensors that they hold, roles and rules.
//!
//! Checkpoint names are the public ones (model.md §9.1). Several checkpoint tensors may lie in one storage tensor, one
//! after the other along the rows: q, k and v of an attention layer, and the experts of a layer. Programs see storage
//! tensors, files see parts.

mod init;

pub use init::{initial_value, initial_values};

use crate::config::{LayerKind, ModelConfig};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// What a parameter does; decides its initialisation, weight decay and storage type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Token embedding.
    Embedding,
    /// Output head.
    Head,
    /// Projection into a layer (normal initialisation).
    InputProjection,
    /// Projection back to the residual stream (smaller normal initialisation).
    OutputProjection,
    /// Router weight.
    Router,
    /// Norm weight.
    Norm,
    /// Convolution taps.
    ConvWeight,
    /// Convolution bias.
    ConvBias,
    /// Bias of the time step.
    DtBias,
    /// Logarithm of the decay rate.
    ALog,
    /// Direct path of the scan.
    SkipD,
    /// Selection bias of the experts: a buffer, moved by counts, never by gradients.
    ExpertBias,
}

impl Role {
    /// Whether weight decay applies: not to vectors and biases (Megatron's rule; pitfall B69). Convolution taps are a
    /// 3-D tensor and are decayed.
    pub const fn decays(self) -> bool {
        matches!(
            self,
            Self::Embedding
                | Self::Head
                | Self::InputProjection
                | Self::OutputProjection
                | Self::Router
                | Self::ConvWeight
        )
    }

    /// Whether the working copy is kept in the arithmetic type also in bf16 programs (model.md §8; rulings 12).
    pub const fn keeps_precision(self) -> bool {
        matches!(self, Self::DtBias | Self::ALog | Self::SkipD | Self::ExpertBias)
    }

    /// Whether the parameter has a gradient.
    pub const fn trains(self) -> bool {
        !matches!(self, Self::ExpertBias)
    }

    /// Whether files that were not imported store it as F32 (model.md §9.2).
    pub const fn stored_as_f32(self) -> bool {
        matches!(self, Self::ALog | Self::SkipD | Self::ExpertBias)
    }

    /// Name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Head => "head",
            Self::InputProjection => "input projection",
            Self::OutputProjection => "output projection",
            Self::Router => "router",
            Self::Norm => "norm",
            Self::ConvWeight => "convolution taps",
            Self::ConvBias => "convolution bias",
            Self::DtBias => "dt bias",
            Self::ALog => "A_log",
            Self::SkipD => "D",
            Self::ExpertBias => "expert bias",
        }
    }
}

/// A tensor of a checkpoint: some rows of a storage tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Public name.
    pub name: String,
    /// Public shape; its product is rows x columns of the storage tensor.
    pub shape: Vec<usize>,
    /// First row in the storage tensor.
    pub row: usize,
    /// Number of rows.
    pub rows: usize,
}

/// A storage tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name: the public one, or the common stem of the parts.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// Rows; vectors have one.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// The checkpoint tensors in it, in order of their rows.
    pub parts: Vec<Part>,
}

impl Param {
    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Whether there is no element.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Index of a parameter in [`Layout::params`].
pub type ParamIndex = usize;

/// Parameters of a Mamba-2 mixer.
#[derive(Debug, Clone, Copy)]
pub struct MambaParams {
    /// `in_proj.weight`.
    pub in_proj: ParamIndex,
    /// `conv1d.weight`.
    pub conv_w: ParamIndex,
    /// `conv1d.bias`.
    pub conv_b: ParamIndex,
    /// `dt_bias`.
    pub dt_bias: ParamIndex,
    /// `A_log`.
    pub a_log: ParamIndex,
    /// `D`.
    pub d: ParamIndex,
    /// `norm.weight` of the mixer.
    pub norm: ParamIndex,
    /// `out_proj.weight`.
    pub out_proj: ParamIndex,
}

/// Parameters of an attention mixer.
#[derive(Debug, Clone, Copy)]
pub struct AttentionParams {
    /// `q_proj`, `k_proj` and `v_proj` below each other.
    pub qkv: ParamIndex,
    /// `o_proj.weight`.
    pub o_proj: ParamIndex,
}

/// Parameters of a dense squared-ReLU MLP.
#[derive(Debug, Clone, Copy)]
pub struct MlpParams {
    /// `up_proj.weight`.
    pub up: ParamIndex,
    /// `down_proj.weight`.
    pub down: ParamIndex,
}

/// Parameters of a mixture of experts.
#[derive(Debug, Clone, Copy)]
pub struct MoeParams {
    /// `gate.weight`.
    pub router: ParamIndex,
    /// `gate.e_score_correction_bias`.
    pub bias: ParamIndex,
    /// All `up_proj.weight` below each other.
    pub up: ParamIndex,
    /// All `down_proj.weight` below each other.
    pub down: ParamIndex,
    /// The shared expert.
    pub shared: Option<MlpParams>,
}

/// Parameters of a mixer.
#[derive(Debug, Clone, Copy)]
pub enum MixerParams {
    /// `M`.
    Mamba(MambaParams),
    /// `*`.
    Attention(AttentionParams),
    /// `E`.
    Moe(MoeParams),
    /// `-`.
    Mlp(MlpParams),
}

/// Parameters of a layer.
#[derive(Debug, Clone, Copy)]
pub struct LayerParams {
    /// `norm.weight` of the layer.
    pub norm: ParamIndex,
    /// Its mixer.
    pub mixer: MixerParams,
}

/// Parameters of the multi-token-prediction block.
#[derive(Debug, Clone)]
pub struct MtpParams {
    /// `enorm.weight`.
    pub enorm: ParamIndex,
    /// `hnorm.weight`.
    pub hnorm: ParamIndex,
    /// `eh_proj.weight`.
    pub eh_proj: ParamIndex,
    /// The layers of the block.
    pub layers: Vec<LayerParams>,
    /// `final_layernorm.weight`.
    pub final_norm: ParamIndex,
}

/// All parameters of a model and where each block finds its own.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Storage tensors in checkpoint order.
    pub params: Vec<Param>,
    /// `embeddings.weight`.
    pub embedding: ParamIndex,
    /// The backbone.
    pub layers: Vec<LayerParams>,
    /// `norm_f.weight`.
    pub final_norm: ParamIndex,
    /// `lm_head.weight`.
    pub head: ParamIndex,
    /// Multi-token prediction.
    pub mtp: Option<MtpParams>,
}

impl Layout {
    /// The parameters of a checked configuration.
    pub fn new(config: &ModelConfig) -> Self {
        let mut b = Table { config, params: Vec::new() };
        let (v, h) = (config.vocab, config.hidden);
        let embedding = b.matrix("backbone.embeddings.weight", Role::Embedding, v, h);
        let layer = |b: &mut Table<'_>, prefix: &str, kind| LayerParams {
            norm: b.vector(&format!("{prefix}norm.weight"), Role::Norm, h),
            mixer: b.mixer(&format!("{prefix}mixer."), kind),
        };
        let layers = config
            .layers
            .iter()
            .enumerate()
            .map(|(i, k)| layer(&mut b, &format!("backbone.layers.{i}."), *k))
            .collect();
        let final_norm = b.vector("backbone.norm_f.weight", Role::Norm, h);
        let head = b.matrix("lm_head.weight", Role::Head, v, h);
        let mtp = config.mtp.as_ref().map(|mtp| {
            let enorm = b.vector("mtp.layers.0.enorm.weight", Role::Norm, h);
            let hnorm = b.vector("mtp.layers.0.hnorm.weight", Role::Norm, h);
            let eh_proj = b.matrix("mtp.layers.0.eh_proj.weight", Role::InputProjection, h, 2 * h);
            let layers =
                mtp.layers.iter().enumerate().map(|(i, k)| layer(&mut b, &format!("mtp.layers.{i}."), *k)).collect();
            let last = mtp.layers.len() - 1;
            let final_norm = b.vector(&format!("mtp.layers.{last}.final_layernorm.weight"), Role::Norm, h);
            MtpParams { enorm, hnorm, eh_proj, layers, final_norm }
        });
        Self { params: b.params, embedding, layers, final_norm, head, mtp }
    }

    /// Every checkpoint tensor with the storage tensor that holds it.
    pub fn parts(&self) -> impl Iterator<Item = (ParamIndex, &Part)> {
        self.params.iter().enumerate().flat_map(|(i, p)| p.parts.iter().map(move |part| (i, part)))
    }

    /// Number of checkpoint tensors.
    pub fn tensor_count(&self) -> usize {
        self.params.iter().map(|p| p.parts.len()).sum()
    }

    /// Number of elements of all tensors (expert biases included, as the public card counts).
    pub fn element_count(&self) -> u64 {
        self.params.iter().map(|p| p.len() as u64).sum()
    }
}

/// Collects storage tensors.
struct Table<'c> {
    config: &'c ModelConfig,
    params: Vec<Param>,
}

impl Table<'_> {
    fn push(&mut self, name: String, role: Role, cols: usize, parts: Vec<Part>) -> ParamIndex {
        let rows = parts.iter().map(|p| p.rows).sum();
        self.params.push(Param { name, role, rows, cols, parts });
        self.params.len() - 1
    }

    fn matrix(&mut self, name: &str, role: Role, rows: usize, cols: usize) -> ParamIndex {
        let part = Part { name: name.to_string(), shape: vec![rows, cols], row: 0, rows };
        self.push(name.to_string(), role, cols, vec![part])
    }

    fn vector(&mut self, name: &str, role: Role, cols: usize) -> ParamIndex {
        let part = Part { name: name.to_string(), shape: vec![cols], row: 0, rows: 1 };
        self.push(name.to_string(), role, cols, vec![part])
    }

    /// Matrices of equal width below each other.
    fn stacked(&mut self, name: String, role: Role, cols: usize, parts: Vec<(String, usize)>) -> ParamIndex {
        let mut row = 0;
        let parts = parts
            .into_iter()
            .map(|(name, rows)| {
                let part = Part { name, shape: vec![rows, cols], row, rows };
                row += rows;
                part
            })
            .collect();
        self.push(name, role, cols, parts)
    }

    fn mlp(&mut self, prefix: &str, width: usize) -> MlpParams {
        let h = self.config.hidden;
        MlpParams {
            up: self.matrix(&format!("{prefix}up_proj.weight"), Role::InputProjection, width, h),
            down: self.matrix(&format!("{prefix}down_proj.weight"), Role::OutputProjection, h, width),
        }
    }

    fn mixer(&mut self, prefix: &str, kind: LayerKind) -> MixerParams {
        let h = self.config.hidden;
        match kind {
            LayerKind::Mamba => {
                let m = self.config.mamba().clone();
                let (heads, channels) = (m.heads, m.conv_channels());
                let in_proj =
                    self.matrix(&format!("{prefix}in_proj.weight"), Role::InputProjection, m.in_proj_rows(), h);
                let taps = format!("{prefix}conv1d.weight");
                let part = Part { name: taps.clone(), shape: vec![channels, 1, m.conv_kernel], row: 0, rows: channels };
                MixerParams::Mamba(MambaParams {
                    in_proj,
                    conv_w: self.push(taps, Role::ConvWeight, m.conv_kernel, vec![part]),
                    conv_b: self.vector(&format!("{prefix}conv1d.bias"), Role::ConvBias, channels),
                    dt_bias: self.vector(&format!("{prefix}dt_bias"), Role::DtBias, heads),
                    a_log: self.vector(&format!("{prefix}A_log"), Role::ALog, heads),
                    d: self.vector(&format!("{prefix}D"), Role::SkipD, heads),
                    norm: self.vector(&format!("{prefix}norm.weight"), Role::Norm, m.inner()),
                    out_proj: self.matrix(&format!("{prefix}out_proj.weight"), Role::OutputProjection, h, m.inner()),
                })
            }
            LayerKind::Attention => {
                let a = self.config.attention().clone();
                let (q, kv) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
                let parts = [("q_proj", q), ("k_proj", kv), ("v_proj", kv)];
                let parts = parts.iter().map(|(n, rows)| (format!("{prefix}{n}.weight"), *rows)).collect();
                MixerParams::Attention(AttentionParams {
                    qkv: self.stacked(format!("{prefix}qkv_proj.weight"), Role::InputProjection, h, parts),
                    o_proj: self.matrix(&format!("{prefix}o_proj.weight"), Role::OutputProjection, h, q),
                })
            }
            LayerKind::Moe => {
                let m = self.config.moe().clone();
                let router = self.matrix(&format!("{prefix}gate.weight"), Role::Router, m.experts, h);
                let bias = self.vector(&format!("{prefix}gate.e_score_correction_bias"), Role::ExpertBias, m.experts);
                let all = |matrix: &str, rows: usize| {
                    (0..m.experts).map(|e| (format!("{prefix}experts.{e}.{matrix}.weight"), rows)).collect()
                };
                let (ups, downs) = (all("up_proj", m.expert_width), all("down_proj", h));
                let up = self.stacked(format!("{prefix}experts.up_proj"), Role::InputProjection, h, ups);
                let down =
                    self.stacked(format!("{prefix}experts.down_proj"), Role::OutputProjection, m.expert_width, downs);
                let shared =
                    (m.shared_width > 0).then(|| self.mlp(&format!("{prefix}shared_experts."), m.shared_width));
                MixerParams::Moe(MoeParams { router, bias, up, down, shared })
            }
            LayerKind::Mlp => {
                let width = self.config.mlp_width.expect("a checked config with `-` layers has their width");
                MixerParams::Mlp(self.mlp(prefix, width))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::preset;

    #[test]
    fn lightning_has_the_public_counts() {
        let layout = Layout::new(&preset("nemotron_3_5_lightning").unwrap());
        assert_eq!(layout.tensor_count(), 6513);
        assert_eq!(layout.element_count(), 32_913_266_240);
        let nano = Layout::new(&preset("nemotron_3_nano_30b").unwrap());
        assert_eq!((nano.tensor_count(), nano.element_count()), (6243, 31_577_940_288));
    }

    #[test]
    fn parts_tile_their_storage_tensor_and_names_are_unique() {
        for name in ["oracle_tiny", "nemotron_nano_4b", "demo"] {
            let layout = Layout::new(&preset(name).unwrap());
            let mut names = alloc::collections::BTreeSet::new();
            for p in &layout.params {
                let mut row = 0;
                for part in &p.parts {
                    assert_eq!(part.row, row, "{}", part.name);
                    assert_eq!(part.shape.iter().product::<usize>(), part.rows * p.cols, "{}", part.name);
                    assert!(names.insert(part.name.clone()), "{} twice", part.name);
                    row += part.rows;
                }
                assert_eq!(row, p.rows);
            }
        }
    }

    #[test]
    fn b69_decay_follows_the_table_of_roles() {
        let layout = Layout::new(&preset("oracle_tiny").unwrap());
        for (i, part) in layout.parts() {
            let by_shape = part.shape.len() > 1 && !part.name.ends_with(".bias");
            assert_eq!(layout.params[i].role.decays(), by_shape, "{}", part.name);
        }
    }
}
