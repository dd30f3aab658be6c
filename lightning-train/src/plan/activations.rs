//! What the micro-batch program of a rank holds: by kind of layer, at its fullest operation, and in its buffers.

use lightning_core::config::{LayerKind, ModelConfig};
use lightning_core::program::{ARENA_ALIGNMENT, Buffer, Program, Space};

/// A buffer at the fullest operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Holder {
    /// `region/tensor`; `*` behind it marks a recomputed one.
    pub name: String,
    /// Bytes.
    pub bytes: usize,
}

/// Activation memory of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Activations {
    /// Bytes that the forward pass keeps for the backward pass, by kind of layer.
    pub saved: Vec<(&'static str, usize)>,
    /// Tile of logits.
    pub logits: usize,
    /// Bytes alive at the fullest operation.
    pub peak: usize,
    /// Operation of the peak.
    pub peak_op: &'static str,
    /// Its region.
    pub peak_region: String,
    /// Of the peak: what is neither saved nor logits.
    pub workspace: usize,
    /// The largest buffers at the peak.
    pub holders: Vec<Holder>,
    /// Fullest operation of every region, in order: (region, bytes).
    pub timeline: Vec<(String, usize)>,
}

const KINDS: [&str; 7] = ["mamba", "attention", "moe", "mlp", "mtp joins", "norms and residual", "other"];

/// Position in [`KINDS`] of a buffer.
fn kind(config: &ModelConfig, name: &str) -> usize {
    let mut parts = name.trim_end_matches('*').split('/');
    let (region, last) = (parts.next().unwrap_or(""), name.trim_end_matches('*').rsplit('/').next().unwrap_or(""));
    if matches!(last, "residual" | "normed" | "rstd" | "embedded") || region.ends_with(".norm") {
        return 5;
    }
    let Some((stack, index)) = region.rsplit_once('.').and_then(|(s, i)| Some((s, i.parse::<usize>().ok()?))) else {
        return if region.starts_with("mtp") { 4 } else { 6 };
    };
    let layers = match stack {
        "layers" => Some(&config.layers),
        _ => config.mtp.as_ref().map(|m| &m.layers),
    };
    match layers.and_then(|l| l.get(index)) {
        Some(LayerKind::Mamba) => 0,
        Some(LayerKind::Attention) => 1,
        Some(LayerKind::Moe) => 2,
        Some(LayerKind::Mlp) => 3,
        None => 6,
    }
}

fn size(buffer: &Buffer) -> usize {
    buffer.bytes().next_multiple_of(ARENA_ALIGNMENT)
}

/// Reads a program with known lifetimes.
pub fn of(program: &Program, config: &ModelConfig) -> Activations {
    let start = program.backward_start();
    let mut saved = [0; KINDS.len()];
    let mut logits = 0;
    let peak = program.peak();
    let mut saved_at_peak = 0;
    for buffer in program.buffers.iter().filter(|b| b.space == Space::Arena && b.lifetime.0 != usize::MAX) {
        let (first, last) = buffer.lifetime;
        if buffer.name.ends_with("logits_tile") {
            logits = size(buffer);
        } else if first < start && last >= start {
            saved[kind(config, &buffer.name)] += size(buffer);
            if first <= peak.node && peak.node <= last {
                saved_at_peak += size(buffer);
            }
        }
    }
    let live = program.live_bytes();
    let mut timeline: Vec<(String, usize)> = Vec::new();
    for (index, bytes) in live.iter().enumerate() {
        let region = program.region_of(index);
        match timeline.last_mut() {
            Some((name, most)) if name == region => *most = (*most).max(*bytes),
            _ => timeline.push((region.to_string(), *bytes)),
        }
    }
    let alive = program.alive_at(peak.node);
    let logits_at_peak: usize =
        alive.iter().map(|id| program.buffer(*id)).filter(|b| b.name.ends_with("logits_tile")).map(size).sum();
    let holders = alive.iter().take(8).map(|id| program.buffer(*id));
    let holders = holders.map(|b| Holder { name: b.name.clone(), bytes: size(b) }).collect();
    let node = program.nodes.get(peak.node);
    Activations {
        saved: KINDS.into_iter().zip(saved).filter(|(_, bytes)| *bytes > 0).collect(),
        logits,
        peak: peak.bytes,
        peak_op: node.map_or("", |n| n.op.name()),
        peak_region: node.map_or(String::new(), |_| program.region_of(peak.node).to_string()),
        workspace: peak.bytes - saved_at_peak - logits_at_peak,
        holders,
        timeline,
    }
}
