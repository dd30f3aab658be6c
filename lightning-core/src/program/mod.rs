//! Programs: a model's step as a flat list of operations on tensor handles.
//!
//! Model code runs once per kind of step against a [`Builder`] and leaves a [`Program`] behind. Planners read it, passes
//! rewrite it, devices execute it. Nothing in a program says which device it runs on.

mod builder;
mod op;
mod placement;
mod recompute;
mod retarget;
mod timeline;

pub use builder::{Builder, Persistent};
pub use op::{Access, Op, Operation};
pub use placement::ARENA_ALIGNMENT;
pub use recompute::{LayerRecompute, Recompute};
pub use timeline::{Peak, Traffic};

use crate::tensor::{BufferId, DType, Tensor};
use alloc::string::String;
use alloc::vec::Vec;

/// Where a buffer lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Working weights and buffers that are saved with them (expert bias).
    Parameters,
    /// Weight gradients, accumulated over micro-batches.
    Gradients,
    /// Master weights and moments.
    Optimizer,
    /// What the host writes before a micro-batch: token ids, labels, masks, document offsets.
    Input,
    /// The device state block: counters, schedule values, metrics.
    State,
    /// Activations and workspace of one program; placed by lifetimes and reused by the next program.
    Arena,
    /// Memory of an embedding engine; buffers hold absolute addresses, and nothing is allocated.
    Foreign,
}

impl Space {
    /// All spaces, in the order of [`Space::index`].
    pub const ALL: [Self; 7] =
        [Self::Parameters, Self::Gradients, Self::Optimizer, Self::Input, Self::State, Self::Arena, Self::Foreign];

    /// Position in [`Space::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name in messages and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer",
            Self::Input => "input",
            Self::State => "state",
            Self::Arena => "arena",
            Self::Foreign => "foreign",
        }
    }
}

/// One buffer of a program.
#[derive(Debug, Clone)]
pub struct Buffer {
    /// Name for reports and messages.
    pub name: String,
    /// Where it lives.
    pub space: Space,
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub len: usize,
    /// Byte offset inside its space; the address itself of a foreign buffer.
    pub offset: usize,
    /// First and last operation that touch it (arena buffers of a finished program).
    pub lifetime: (usize, usize),
}

impl Buffer {
    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * self.dtype.size()
    }
}

/// An operation and the region of the model that it belongs to.
#[derive(Debug, Clone)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Index into [`Program::regions`].
    pub region: usize,
}

/// A finished, placed list of operations.
#[derive(Debug, Clone)]
pub struct Program {
    /// See [`Program::id`].
    id: u64,
    /// What the program does (`train_first`, `optimizer`, `evaluate`, ...).
    pub name: &'static str,
    /// Persistent buffers first (the same in every program of a model), then arena buffers.
    pub buffers: Vec<Buffer>,
    /// The operations in order of execution.
    pub nodes: Vec<Node>,
    /// Names of regions such as `layers.3/forward`.
    pub regions: Vec<String>,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Tensors whose values can be read after the program ran, by name.
    pub outputs: Vec<(String, Tensor)>,
}

impl Program {
    /// Distinguishes programs: a new number whenever a program is placed. Devices keep what they prepared under it, so a
    /// program whose operations change must be placed again.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The output with this name.
    pub fn output(&self, name: &str) -> Option<Tensor> {
        self.outputs.iter().find(|(n, _)| n == name).map(|(_, t)| *t)
    }

    /// The buffer behind a tensor.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// Forward and backward floating-point operations as the shapes have them.
    pub fn flops(&self) -> u64 {
        self.nodes.iter().map(|n| n.op.flops()).sum()
    }
}
