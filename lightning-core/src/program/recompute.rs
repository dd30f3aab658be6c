//! Selective and full recomputation as passes over the list of operations.
//!
//! A pass drops what a segment of the forward pass wrote after its last use there, and inserts the operations that write
//! it again, into new tensors, right before the backward pass first asks for it. The repeated operations are the same
//! with the same operands, so that gradients keep their bits. A repeated router counts nothing and reports nothing: its
//! counters and its auxiliary loss belong to the first run.
//!
//! | module    | forgotten                                            | repeated                      | kept            |
//! |-----------|------------------------------------------------------|-------------------------------|-----------------|
//! | core_attn | output and log-sum-exp of attention                  | attention                     | q, k, v         |
//! | moe       | everything between the norm and the combined output  | router to experts, shared up  | the normed input|
//! | moe_act   | the shared expert's activation (those of the routed  | squared ReLU                  | its input       |
//! |           | experts are always rebuilt by their backward pass)   |                               |                 |
//! | layernorm | output of the norm before attention, MoE and MLP     | norm                          | residual stream |
//! | mlp       | activations of a dense MLP                           | up-projection, squared ReLU   | the normed input|
//! | full      | whole layers, or groups of them; MTP applications    | the layers                    | their input     |
//!
//! Source: recipes.md §1.7.

use super::{Access, Buffer, Node, Op, Program, Space};
use crate::ops::RmsNormFwd;
use crate::tensor::BufferId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Which layers are recomputed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LayerRecompute {
    /// None.
    #[default]
    Off,
    /// All, in groups of this many layers of which only the input is kept; every MTP application is a group.
    Uniform(usize),
    /// The first layers of the backbone, each by itself.
    Block(usize),
}

/// What the backward pass computes again instead of finding it in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recompute {
    /// Attention between its projections.
    pub core_attn: bool,
    /// Mixtures of experts behind their norm.
    pub moe: bool,
    /// Activations of the shared expert.
    pub moe_act: bool,
    /// Norms before attention, mixtures of experts and dense MLPs.
    pub layernorm: bool,
    /// Dense MLPs behind their norm.
    pub mlp: bool,
    /// Whole layers.
    pub layers: LayerRecompute,
}

impl Recompute {
    /// Nothing is recomputed.
    pub const NONE: Self = Self {
        core_attn: false,
        moe: false,
        moe_act: false,
        layernorm: false,
        mlp: false,
        layers: LayerRecompute::Off,
    };
}

/// What kind of layer a forward region is, read off its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mixer {
    Mamba,
    Attention,
    Moe,
    Mlp,
    None,
}

/// A region of the forward pass: its name without `/forward`, and its operations.
struct Layer {
    name: String,
    nodes: Vec<usize>,
    mixer: Mixer,
}

impl Layer {
    /// Position in a stack: `layers.12` is 12 of `layers`.
    fn position(&self) -> Option<(&str, usize)> {
        let (stack, index) = self.name.rsplit_once('.')?;
        Some((stack, index.parse().ok()?))
    }
}

fn forward_layers(program: &Program, end: usize) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    for (index, node) in program.nodes[..end].iter().enumerate() {
        let Some(name) = program.regions[node.region].strip_suffix("/forward") else {
            continue;
        };
        if layers.last().is_none_or(|l| l.name != name) {
            layers.push(Layer { name: name.to_string(), nodes: Vec::new(), mixer: Mixer::None });
        }
        let layer = layers.last_mut().expect("a layer was pushed");
        layer.nodes.push(index);
        match node.op {
            Op::SsdScanFwd(_) => layer.mixer = Mixer::Mamba,
            Op::AttentionFwd(_) => layer.mixer = Mixer::Attention,
            Op::RouterFwd(_) => layer.mixer = Mixer::Moe,
            Op::Relu2Fwd(_) if layer.mixer == Mixer::None => layer.mixer = Mixer::Mlp,
            _ => {}
        }
    }
    layers
}

impl Program {
    /// Applies the recomputation to a program that is not placed yet; see the head of this file. A program without a
    /// backward pass stays as it is.
    pub fn recompute(&mut self, what: &Recompute) {
        let end = self.backward_start();
        if *what == Recompute::NONE || end >= self.nodes.len() {
            return;
        }
        for segment in segments(self, what, end) {
            rebuild(self, &segment, end);
        }
    }
}

/// The groups of forward operations whose results are forgotten, in the order in which they have to be treated: a
/// repeated operation may read what a later group forgets.
fn segments(program: &Program, what: &Recompute, end: usize) -> Vec<Vec<usize>> {
    let layers = forward_layers(program, end);
    let op = |i: &usize| &program.nodes[*i].op;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    match what.layers {
        LayerRecompute::Off => {}
        LayerRecompute::Uniform(size) => {
            let mut keys: Vec<(String, usize)> = Vec::new();
            for layer in &layers {
                let key = match layer.position() {
                    Some(("layers", i)) => ("layers".to_string(), i / size.max(1)),
                    // The block and its layers are one group, and the norm behind it stays.
                    Some((stack, _)) => (stack.to_string(), 0),
                    None if layer.name.ends_with(".norm") => continue,
                    None => (layer.name.clone(), 0),
                };
                if keys.last() == Some(&key) {
                    groups.last_mut().expect("a group per key").extend(&layer.nodes);
                } else {
                    keys.push(key);
                    groups.push(layer.nodes.clone());
                }
            }
        }
        LayerRecompute::Block(count) => {
            let first = |l: &&Layer| matches!(l.position(), Some(("layers", i)) if i < count);
            groups.extend(layers.iter().filter(first).map(|l| l.nodes.clone()));
        }
    }
    let body = |l: &Layer| l.nodes.iter().copied().filter(|i| !matches!(op(i), Op::RmsNormFwd(_))).collect();
    let only = |l: &Layer, keep: &dyn Fn(&Op) -> bool| -> Vec<usize> {
        l.nodes.iter().copied().filter(|i| keep(op(i))).collect()
    };
    let of = |mixers: &'static [Mixer]| layers.iter().filter(move |l| mixers.contains(&l.mixer));
    if what.moe {
        groups.extend(of(&[Mixer::Moe]).map(body));
    }
    if what.mlp {
        groups.extend(of(&[Mixer::Mlp]).map(body));
    }
    if what.core_attn {
        groups.extend(of(&[Mixer::Attention]).map(|l| only(l, &|op| matches!(op, Op::AttentionFwd(_)))));
    }
    if what.moe_act {
        groups.extend(of(&[Mixer::Moe]).map(|l| only(l, &|op| matches!(op, Op::Relu2Fwd(_)))));
    }
    if what.layernorm {
        let normed = of(&[Mixer::Attention, Mixer::Moe, Mixer::Mlp]);
        groups.extend(normed.map(|l| only(l, &|op| matches!(op, Op::RmsNormFwd(_)))));
    }
    groups
}

/// Operands of an operation as (buffer, access).
fn operands(op: &Op) -> Vec<(BufferId, Access)> {
    let mut list = Vec::new();
    op.operands(&mut |_, tensor, access| list.push((tensor.buffer, access)));
    list
}

/// The operation that writes the same results again. `forgotten` are the buffers that no longer hold them.
fn again(op: &Op, forgotten: &BTreeSet<BufferId>) -> Op {
    match op {
        Op::RouterFwd(router) => {
            let mut router = router.clone();
            router.counts = None;
            router.aux = None;
            Op::RouterFwd(router)
        }
        // The sum of stream and branch is still there, already rounded: the norm reads it.
        Op::RmsNormFwd(RmsNormFwd { x_out: Some(x), w, eps, y, rstd, .. }) if !forgotten.contains(&x.buffer) => {
            Op::RmsNormFwd(RmsNormFwd { x: *x, branch: None, w: *w, eps: *eps, x_out: None, y: *y, rstd: *rstd })
        }
        other => other.clone(),
    }
}

/// Forgets what `segment` wrote and rebuilds what the backward pass, which starts at `end`, needs of it.
fn rebuild(program: &mut Program, segment: &[usize], end: usize) {
    let arena = |program: &Program, id: BufferId| program.buffers[id.0 as usize].space == Space::Arena;
    // What only the segment writes. Sequence statistics of the router stay: they are small and counted once.
    let mut forgotten = BTreeSet::new();
    let mut first_norm = true;
    for &index in segment {
        let op = &program.nodes[index].op;
        if matches!(op, Op::Roll(_) | Op::Segments(_)) {
            continue;
        }
        let mut kept = Vec::new();
        if let Op::RouterFwd(router) = op {
            kept.extend(router.aux.as_ref().map(|aux| aux.stats.buffer));
        }
        if let Op::RmsNormFwd(norm) = op {
            if first_norm {
                kept.extend(norm.x_out.map(|x| x.buffer));
            }
            first_norm = false;
        }
        let written = operands(op).into_iter().filter(|(_, access)| *access == Access::Write);
        forgotten.extend(written.map(|(id, _)| id).filter(|id| arena(program, *id) && !kept.contains(id)));
    }
    for (index, node) in program.nodes[..end].iter().enumerate() {
        if segment.binary_search(&index).is_err() {
            for (id, access) in operands(&node.op) {
                if access != Access::Read {
                    forgotten.remove(&id);
                }
            }
        }
    }
    // What the backward pass reads of it, and where it does so first.
    let mut needed = BTreeSet::new();
    let mut at = None;
    for (index, node) in program.nodes.iter().enumerate().skip(end) {
        for (id, _) in operands(&node.op) {
            if forgotten.contains(&id) {
                at.get_or_insert(index);
                needed.insert(id);
            }
        }
    }
    let Some(at) = at else {
        return;
    };
    // Only the operations that lead there are repeated.
    let mut repeated: Vec<(usize, Op)> = Vec::new();
    for &index in segment.iter().rev() {
        let op = again(&program.nodes[index].op, &forgotten);
        let list = operands(&op);
        if list.iter().any(|(id, access)| *access == Access::Write && needed.contains(id)) {
            needed.extend(
                list.iter().filter(|(id, access)| *access == Access::Read && forgotten.contains(id)).map(|o| o.0),
            );
            repeated.push((index, op));
        }
    }
    repeated.reverse();
    debug_assert!(
        repeated.iter().all(|(_, op)| operands(op).iter().all(|(id, access)| match access {
            Access::Read => true,
            Access::Write => arena(program, *id),
            Access::Update => false,
        })),
        "a repeated operation must only write arena tensors"
    );

    let mut names: BTreeMap<BufferId, BufferId> = BTreeMap::new();
    for (_, op) in &repeated {
        for (id, access) in operands(op) {
            if access == Access::Write && !names.contains_key(&id) {
                let old = &program.buffers[id.0 as usize];
                let name = format!("{}*", old.name);
                let copy = Buffer { name, lifetime: (usize::MAX, 0), offset: 0, ..old.clone() };
                names.insert(id, BufferId(program.buffers.len() as u32));
                program.buffers.push(copy);
            }
        }
    }
    let mut regions: BTreeMap<usize, usize> = BTreeMap::new();
    let mut inserted = Vec::new();
    for (index, mut op) in repeated {
        let region = program.nodes[index].region;
        let region = *regions.entry(region).or_insert_with(|| {
            let name = program.regions[region].replace("/forward", "/recompute");
            program.regions.push(name);
            program.regions.len() - 1
        });
        op.handles(&mut |tensor| rename(tensor, &names));
        inserted.push(Node { op, region });
    }
    for node in &mut program.nodes[at..] {
        node.op.handles(&mut |tensor| {
            if forgotten.contains(&tensor.buffer) {
                rename(tensor, &names);
            }
        });
    }
    program.nodes.splice(at..at, inserted);
}

fn rename(tensor: &mut crate::tensor::Tensor, names: &BTreeMap<BufferId, BufferId>) {
    if let Some(id) = names.get(&tensor.buffer) {
        tensor.buffer = *id;
    }
}
