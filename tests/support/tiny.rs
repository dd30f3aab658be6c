//! Random tiny models, weights and batches.

use super::random::Random;
use super::{Batch, Options, Session};
use lightning_core::config::{AttentionConfig, MambaConfig, ModelConfig, MoeConfig, MtpConfig, parse_pattern};
use lightning_core::layout::Role;
use lightning_core::ops::LossScale;
use std::collections::BTreeMap;

/// A model of the given pattern with random ugly sizes. `mtp` is the pattern of the MTP block and its depth.
pub fn config(rng: &mut Random, pattern: &str, mtp: Option<(&str, usize)>) -> ModelConfig {
    let (groups, kv_heads, experts) = (rng.range(1, 3), rng.range(1, 2), rng.range(1, 6));
    let shared = rng.chance(0.7);
    ModelConfig {
        vocab: rng.range(2, 19),
        hidden: rng.range(1, 9),
        layers: parse_pattern(pattern).unwrap(),
        attention: Some(AttentionConfig { heads: kv_heads * rng.range(1, 3), kv_heads, head_dim: rng.range(1, 5) }),
        mamba: Some(MambaConfig {
            heads: groups * rng.range(1, 3),
            head_dim: rng.range(1, 3),
            state: rng.range(1, 5),
            groups,
            conv_kernel: rng.range(1, 4),
            chunk: rng.range(1, 5),
            dt_min: rng.pick(&[0.0, 0.0, 0.4]),
            dt_init: (1e-3, 0.1),
            dt_init_floor: 1e-4,
        }),
        moe: Some(MoeConfig {
            experts,
            top_k: rng.range(1, experts.min(3)),
            expert_width: rng.range(1, 6),
            shared_width: if shared { rng.range(1, 7) } else { 0 },
            shared_experts: usize::from(shared),
            scale: 2.5,
            normalize: rng.chance(0.8),
        }),
        mlp_width: Some(rng.range(1, 9)),
        mtp: mtp.map(|(pattern, depth)| MtpConfig { layers: parse_pattern(pattern).unwrap(), depth }),
        norm_eps: 1e-2,
        init_std: 0.02,
        max_positions: 64,
    }
}

/// A model whose operations are cut into many pieces.
pub fn wide(rng: &mut Random) -> ModelConfig {
    let mut config = config(rng, "ME*-M", Some(("*E", 2)));
    (config.hidden, config.vocab) = (72, 301);
    let m = config.mamba.as_mut().unwrap();
    (m.heads, m.groups, m.head_dim, m.state, m.chunk, m.conv_kernel) = (12, 3, 11, 7, 32, 4);
    let a = config.attention.as_mut().unwrap();
    (a.heads, a.kv_heads, a.head_dim) = (6, 2, 16);
    let e = config.moe.as_mut().unwrap();
    (e.experts, e.top_k, e.expert_width, e.shared_width, e.shared_experts) = (7, 3, 65, 96, 1);
    config.mlp_width = Some(130);
    config
}

/// Values of every checkpoint tensor, of a size that lets every part of the model matter.
pub fn weights(config: &ModelConfig, rng: &mut Random) -> BTreeMap<String, Vec<f64>> {
    let layout = lightning_core::layout::Layout::new(config);
    let mut weights = BTreeMap::new();
    for (index, part) in layout.parts() {
        let param = &layout.params[index];
        let n = part.rows * param.cols;
        let values = match param.role {
            Role::Embedding => rng.normals(n, 1.0),
            Role::Head | Role::InputProjection | Role::OutputProjection | Role::Router => {
                rng.normals(n, 1.0 / (param.cols as f64).sqrt())
            }
            Role::Norm => rng.uniforms(n, 0.5, 1.5),
            Role::ConvWeight => rng.normals(n, 0.5),
            Role::ConvBias | Role::ExpertBias => rng.normals(n, 0.1),
            Role::DtBias => rng.uniforms(n, -2.0, 0.5),
            Role::ALog => rng.uniforms(n, -1.0, 1.0),
            Role::SkipD => rng.normals(n, 1.0),
        };
        // Numbers that every storage type holds exactly, so that programs of all types start from the same model.
        let exact = |v: f64| half::bf16::from_f64(v).to_f64();
        weights.insert(part.name.clone(), values.into_iter().map(exact).collect());
    }
    weights
}

/// A batch with random documents, loss mask and (when asked) padding.
pub fn batch(rng: &mut Random, config: &ModelConfig, rows: usize, row_len: usize, padding: bool) -> Batch {
    let t = rows * row_len;
    let density = rng.pick(&[0.0, 0.6, 0.6, 1.0]);
    let mut batch = Batch::new(rng.ints(t, config.vocab), rng.ints(t, config.vocab), rng.mask(t, density));
    if rng.chance(0.7) {
        let count = rng.range(0, 5);
        batch.offsets = rng.offsets(t, count);
    }
    batch.padding = padding.then(|| rng.mask(t, 0.3));
    batch
}

/// A session with the given weights.
pub fn session(config: &ModelConfig, options: &Options, weights: &BTreeMap<String, Vec<f64>>) -> Session {
    let mut session = Session::new(config, options);
    session.load(|name| weights.get(name).cloned());
    session
}

/// Metrics of one micro-batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    /// Rows of the loss metrics: sum, tokens, mean, hits.
    pub losses: Vec<f64>,
    /// Auxiliary loss by router.
    pub aux: Vec<f64>,
}

impl Session {
    /// Metrics as they stand.
    pub fn values(&self) -> Values {
        Values { losses: self.read(self.model.metrics.losses), aux: self.read(self.model.metrics.aux) }
    }

    /// Forward only, with metrics that start at zero.
    pub fn evaluate(&mut self, batch: &Batch) -> Values {
        let metrics = self.model.metrics;
        for tensor in [metrics.losses, metrics.aux] {
            let buffers = self.model.persistent.buffers();
            use lightning_core::device::Device;
            self.device.write_f64(buffers, tensor, &vec![0.0; tensor.len()]).expect("write");
        }
        self.set_batch(batch);
        use lightning_core::device::Device;
        let program = self.evaluate.clone();
        self.device.run(&program).expect("run");
        self.values()
    }

    /// What the gradients of a micro-batch are the gradients of.
    pub fn objective(&self, values: &Values, batch: &Batch) -> f64 {
        let spec = &self.model.spec;
        let depth = spec.config.mtp_depth();
        let heads: Vec<&[f64]> = values.losses.chunks(4).collect();
        let factor = |k: usize| {
            if k == 0 { 1.0 } else { spec.objective.mtp_factor / depth as f64 }
        };
        let backbone = spec.config.layers.iter().filter(|l| **l == lightning_core::config::LayerKind::Moe).count();
        match spec.objective.scale {
            LossScale::MeanOfMeans(n) => {
                let losses: f64 = heads.iter().enumerate().map(|(k, h)| factor(k) * h[2]).sum();
                (losses + values.aux.iter().sum::<f64>()) / n as f64
            }
            LossScale::PerToken => {
                let tokens = batch.ids.len() as f64;
                let padded: i32 = batch.padding.iter().flatten().sum();
                let real = tokens - f64::from(padded);
                let losses: f64 =
                    heads.iter().enumerate().map(|(k, h)| factor(k) * h[0] * heads[0][1] / h[1].max(1.0)).sum();
                let (backbone, mtp) = values.aux.split_at(backbone);
                losses + real * backbone.iter().sum::<f64>() + tokens * mtp.iter().sum::<f64>()
            }
        }
    }

    /// Gradients of all trained tensors by name.
    pub fn gradients(&self) -> BTreeMap<String, Vec<f64>> {
        self.model
            .parts()
            .filter(|(_, _, tensors)| tensors.training.is_some())
            .map(|(part, _, tensors)| (part.name.clone(), self.read(tensors.training.unwrap().gradient)))
            .collect()
    }

    /// Every readable intermediate value of the last training micro-batch.
    pub fn outputs(&self) -> BTreeMap<String, Vec<f64>> {
        let names = self.first.outputs.iter().map(|(name, _)| name);
        names.map(|n| (n.clone(), self.output(n))).collect()
    }

    /// All weights by name.
    pub fn all_weights(&self) -> BTreeMap<String, Vec<f64>> {
        self.model.parts().map(|(part, _, tensors)| (part.name.clone(), self.read(tensors.weight))).collect()
    }
}
