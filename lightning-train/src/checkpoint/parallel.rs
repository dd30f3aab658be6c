//! Layouts of ranks as data: which rank holds which part of which tensor (distributed.md §1, §2, §3, §8).
//!
//! Ranks are counted `tp-cp-ep-dp-pp`, the first name fastest, on two grids over the same ranks:
//!
//! ```text
//! dense : rank = tp  + TP  · (cp + CP · (dp + DP · pp))
//! expert: rank = etp + ETP · (ep + EP · (edp + EDP · pp))
//! ```
//!
//! A layout gives each rank its *local tensor*: some rectangles of the global one, one below the other. What is divided
//! further, over the ranks that would hold the same ([`Sharding`]), is the concatenation of a rank's local tensors, cut
//! into equal ranges; a range that cuts a row becomes up to three rectangles per local one, or a flat range where the
//! local tensor is the global one. Padding of that concatenation belongs to no tensor and is never stored (pitfall B78).

use super::region::{Rect, Region, part_of};
use lightning_core::config::ModelConfig;
use lightning_core::layout::{Layout, Role};
use std::collections::BTreeMap;

/// What ranks with equal local tensors divide among themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharding {
    /// Nothing.
    Replicated,
    /// The optimizer's tensors (ZeRO-1).
    Optimizer,
    /// Weights and the optimizer's tensors (FSDP).
    Everything,
}

/// Sizes of a layout of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankLayout {
    /// Tensor-parallel ranks.
    pub tp: usize,
    /// Context-parallel ranks.
    pub cp: usize,
    /// Data-parallel ranks.
    pub dp: usize,
    /// Pipeline stages.
    pub pp: usize,
    /// Expert-parallel ranks.
    pub ep: usize,
    /// Ranks that share an expert's matrices.
    pub etp: usize,
    /// What equal ranks divide.
    pub sharding: Sharding,
}

impl RankLayout {
    /// One rank that holds everything.
    pub const SINGLE: Self = Self { tp: 1, cp: 1, dp: 1, pp: 1, ep: 1, etp: 1, sharding: Sharding::Replicated };

    /// Number of ranks.
    pub const fn world(&self) -> usize {
        self.tp * self.cp * self.dp * self.pp
    }

    /// Checks that the two grids have the same ranks and stages.
    ///
    /// # Errors
    /// The sizes, and what they must satisfy.
    pub fn check(&self) -> Result<(), String> {
        let sizes = [self.tp, self.cp, self.dp, self.pp, self.ep, self.etp];
        if sizes.contains(&0) || !(self.tp * self.cp * self.dp).is_multiple_of(self.ep * self.etp) {
            return Err(format!(
                "tp {} x cp {} x dp {} ranks of a stage cannot be divided into ep {} x etp {}; change one of them",
                self.tp, self.cp, self.dp, self.ep, self.etp
            ));
        }
        Ok(())
    }

    fn dense(&self, rank: usize) -> Place {
        let (tp, rest) = (rank % self.tp, rank / self.tp);
        let (same, pp) = (rest % (self.cp * self.dp), rest / (self.cp * self.dp));
        Place { tp, ep: 0, same, pp, sharers: self.cp * self.dp }
    }

    fn expert(&self, rank: usize) -> Place {
        let edp = self.tp * self.cp * self.dp / (self.ep * self.etp);
        let (etp, rest) = (rank % self.etp, rank / self.etp);
        let (ep, rest) = (rest % self.ep, rest / self.ep);
        Place { tp: etp, ep, same: rest % edp, pp: rest / edp, sharers: edp }
    }
}

/// Where a rank stands on one of the grids.
#[derive(Debug, Clone, Copy)]
struct Place {
    tp: usize,
    ep: usize,
    /// Index among the ranks with equal local tensors.
    same: usize,
    pp: usize,
    sharers: usize,
}

/// How tensor parallelism cuts a tensor: segments along a dimension, each in units that stay together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cut {
    dim: usize,
    /// (units, elements of a unit) of every segment.
    segments: Vec<(usize, usize)>,
}

/// A tensor with everything that its placement depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Placement {
    name: String,
    shape: Vec<usize>,
    cut: Option<Cut>,
    expert: Option<usize>,
    /// Position in the order of layers, for pipeline stages.
    layer: usize,
    trains: bool,
}

/// What a rank has of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Name of the global tensor, without section.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The rank's parts, in the order in which they lie in its memory.
    pub regions: Vec<Region>,
    /// Whether this rank is the one that writes them; each element has exactly one writer.
    pub writes: bool,
}

/// The tensors of a model on a layout of ranks.
#[derive(Debug, Clone)]
pub struct Distribution {
    layout: RankLayout,
    tensors: Vec<Placement>,
    layers: usize,
    experts: usize,
    /// The rank that writes a local tensor which several ranks hold, for tensors that are not divided further.
    writers: BTreeMap<(usize, Vec<Rect>), usize>,
}

impl Distribution {
    /// The placement of every tensor of a model.
    ///
    /// # Errors
    /// A layout whose grids do not fit.
    pub fn new(config: &ModelConfig, layout: RankLayout) -> Result<Self, String> {
        layout.check()?;
        let model = Layout::new(config);
        let layers = config.layers.len() + 2;
        let mut tensors = Vec::new();
        for (index, part) in model.parts() {
            let role = model.params[index].role;
            tensors.push(Placement {
                cut: cut(config, &part.name, &part.shape, role),
                expert: expert_of(&part.name),
                layer: layer_of(&part.name, layers),
                name: part.name.clone(),
                shape: part.shape.clone(),
                trains: role.trains(),
            });
        }
        let experts = config.moe.as_ref().map_or(1, |m| m.experts);
        let mut new = Self { layout, tensors, layers, experts, writers: BTreeMap::new() };
        new.assign_writers();
        Ok(new)
    }

    /// Number of ranks.
    pub fn world(&self) -> usize {
        self.layout.world()
    }

    /// The rank's local tensor, or nothing when the tensor lies elsewhere.
    fn local(&self, tensor: &Placement, rank: usize) -> Option<(Vec<Rect>, Place)> {
        let place = if tensor.expert.is_some() { self.layout.expert(rank) } else { self.layout.dense(rank) };
        if tensor.layer * self.layout.pp / self.layers != place.pp {
            return None;
        }
        if tensor.expert.is_some_and(|e| e * self.layout.ep / self.experts != place.ep) {
            return None;
        }
        let parts = if tensor.expert.is_some() { self.layout.etp } else { self.layout.tp };
        let rects = match &tensor.cut {
            None => vec![Rect::whole(&tensor.shape)],
            Some(cut) => cut.rects(&tensor.shape, place.tp, parts),
        };
        (!rects.is_empty()).then_some((rects, place))
    }

    /// Spreads what several ranks hold over them by size, so that each writes about the same.
    fn assign_writers(&mut self) {
        let world = self.world();
        let mut load = vec![0usize; world];
        let mut chosen = BTreeMap::new();
        for (index, tensor) in self.tensors.iter().enumerate() {
            let mut holders: BTreeMap<Vec<Rect>, Vec<usize>> = BTreeMap::new();
            for rank in 0..world {
                if let Some((rects, _)) = self.local(tensor, rank) {
                    holders.entry(rects).or_default().push(rank);
                }
            }
            for (rects, ranks) in holders {
                let writer = ranks.into_iter().min_by_key(|r| (load[*r], *r)).expect("a holder");
                load[writer] += rects.iter().map(Rect::len).sum::<usize>();
                chosen.insert((index, rects), writer);
            }
        }
        self.writers = chosen;
    }

    /// What a rank holds of the tensors of a section (`model`, or one of the optimizer's), in the order of the model.
    pub fn held(&self, section: &str, rank: usize) -> Vec<Held> {
        let optimizer = section != "model";
        let divided = match self.layout.sharding {
            Sharding::Replicated => false,
            Sharding::Optimizer => optimizer,
            Sharding::Everything => true,
        };
        let mut held = Vec::new();
        // Dense and expert tensors have different groups of equal ranks, so they are divided apart.
        for experts in [false, true] {
            let locals: Vec<(usize, Vec<Rect>, Place)> = self
                .tensors
                .iter()
                .enumerate()
                .filter(|(_, t)| t.expert.is_some() == experts && (t.trains || !optimizer))
                .filter_map(|(i, t)| self.local(t, rank).map(|(rects, place)| (i, rects, place)))
                .collect();
            let total: usize = locals.iter().flat_map(|(_, rects, _)| rects).map(Rect::len).sum();
            let mut start = 0;
            for (index, rects, place) in locals {
                let tensor = &self.tensors[index];
                let len: usize = rects.iter().map(Rect::len).sum();
                let range = if divided {
                    let share = total.div_ceil(place.sharers);
                    let low = (place.same * share).clamp(start, start + len) - start;
                    let high = ((place.same + 1) * share).clamp(start, start + len) - start;
                    low..high
                } else {
                    0..len
                };
                start += len;
                let writes = if divided {
                    self.first_of_tensor_group(tensor, &rects, place)
                } else {
                    self.writers[&(index, rects.clone())] == rank
                };
                let regions = regions(&tensor.shape, &rects, range);
                if !regions.is_empty() {
                    let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
                    held.push((index, Held { name, shape, regions, writes }));
                }
            }
        }
        held.sort_by_key(|(index, _)| *index);
        held.into_iter().map(|(_, held)| held).collect()
    }

    /// Whether no tensor-parallel rank before this one has the same local tensor.
    fn first_of_tensor_group(&self, tensor: &Placement, rects: &[Rect], place: Place) -> bool {
        let parts = if tensor.expert.is_some() { self.layout.etp } else { self.layout.tp };
        match &tensor.cut {
            None => place.tp == 0,
            Some(cut) => (0..place.tp).all(|tp| cut.rects(&tensor.shape, tp, parts) != rects),
        }
    }
}

impl Cut {
    /// The rectangles of one of `parts` ranks. With fewer units than ranks (key and value heads), neighbours share one.
    fn rects(&self, shape: &[usize], rank: usize, parts: usize) -> Vec<Rect> {
        let mut rects = Vec::new();
        let mut start = 0;
        for (units, size) in &self.segments {
            let (low, high) = if *units >= parts {
                (rank * units / parts, (rank + 1) * units / parts)
            } else {
                let unit = rank * units / parts;
                (unit, unit + 1)
            };
            if high > low {
                let mut rect = Rect::whole(shape);
                rect.offsets[self.dim] = start + low * size;
                rect.extent[self.dim] = (high - low) * size;
                rects.push(rect);
            }
            start += units * size;
        }
        rects
    }
}

/// How tensor parallelism cuts a tensor (distributed.md §2); `None` is replicated.
fn cut(config: &ModelConfig, name: &str, shape: &[usize], role: Role) -> Option<Cut> {
    let one = |dim: usize, unit: usize| Some(Cut { dim, segments: vec![(shape[dim] / unit, unit)] });
    let ends = |end: &str| name.ends_with(end);
    if let Some(a) = config.attention.as_ref().filter(|_| ends("_proj.weight")) {
        if ends(".q_proj.weight") || ends(".k_proj.weight") || ends(".v_proj.weight") {
            return one(0, a.head_dim);
        }
        if ends(".o_proj.weight") {
            return one(1, a.head_dim);
        }
    }
    if let Some(m) = &config.mamba {
        let per_group = m.heads / m.groups;
        let (inner, state) = ((m.groups, per_group * m.head_dim), (m.groups, m.state));
        let segments = if ends(".in_proj.weight") {
            vec![inner, inner, state, state, (m.groups, per_group)]
        } else if ends(".conv1d.weight") || ends(".conv1d.bias") {
            vec![inner, state, state]
        } else if ends(".dt_bias") || ends(".A_log") || ends(".D") {
            vec![(m.groups, per_group)]
        } else if ends(".mixer.norm.weight") {
            vec![inner]
        } else if ends(".out_proj.weight") {
            return Some(Cut { dim: 1, segments: vec![inner] });
        } else {
            Vec::new()
        };
        if !segments.is_empty() {
            return Some(Cut { dim: 0, segments });
        }
    }
    match role {
        Role::Embedding | Role::Head => one(0, 1),
        Role::InputProjection => one(0, 1),
        Role::OutputProjection => one(1, 1),
        _ => None,
    }
}

/// The number of a routed expert in a tensor's name.
pub fn expert_of(name: &str) -> Option<usize> {
    name.split_once(".experts.")?.1.split('.').next()?.parse().ok()
}

/// The position of a tensor in the order of layers: embeddings first, head and prediction block last.
fn layer_of(name: &str, layers: usize) -> usize {
    if name == "backbone.embeddings.weight" {
        return 0;
    }
    let backbone = name.strip_prefix("backbone.layers.");
    match backbone.and_then(|rest| rest.split('.').next()).and_then(|i| i.parse::<usize>().ok()) {
        Some(layer) => layer + 1,
        None => layers - 1,
    }
}

/// Elements `range` of a local tensor as regions of the global one.
fn regions(shape: &[usize], rects: &[Rect], range: std::ops::Range<usize>) -> Vec<Region> {
    if range.is_empty() {
        return Vec::new();
    }
    if let [rect] = rects
        && *rect == Rect::whole(shape)
        && range.len() < rect.len()
    {
        return vec![Region::Flat { start: range.start, len: range.len() }];
    }
    let mut found = Vec::new();
    let mut start = 0;
    for rect in rects {
        let (low, high) = (range.start.clamp(start, start + rect.len()), range.end.clamp(start, start + rect.len()));
        if high > low {
            found.extend(part_of(rect, low - start, high - start).into_iter().map(Region::Rect));
        }
        start += rect.len();
    }
    found
}
