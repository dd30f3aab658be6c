//! How model code writes a program down.

use super::{Access, Buffer, Node, Op, Program, Space, placement};
use crate::error::CoreError;
use crate::tensor::{BufferId, DType, Tensor};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

/// Number of the next program that is placed; 0 is one that never was.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Buffers that outlive a program: parameters, gradients, optimizer, inputs and state. Every program of a model starts
/// from the same table, so that their handles mean the same bytes.
#[derive(Debug, Clone, Default)]
pub struct Persistent {
    buffers: Vec<Buffer>,
    bytes: [usize; Space::ALL.len()],
}

impl Persistent {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer of `rows` x `cols` elements at the end of its space and returns the whole of it as a tensor.
    pub fn add(&mut self, name: &str, space: Space, dtype: DType, rows: usize, cols: usize) -> Tensor {
        assert!(space != Space::Arena, "arena buffers belong to one program");
        assert!(space != Space::Foreign, "foreign buffers have an address: use `foreign`");
        let id = BufferId(self.buffers.len() as u32);
        let end = &mut self.bytes[space.index()];
        let buffer = Buffer { name: name.to_string(), space, dtype, len: rows * cols, offset: *end, lifetime: (0, 0) };
        *end = (*end + buffer.bytes()).next_multiple_of(placement::ARENA_ALIGNMENT);
        self.buffers.push(buffer);
        Tensor { buffer: id, dtype, offset: 0, rows, cols, ld: cols }
    }

    /// Adds memory of an embedding engine: `rows` x `cols` elements, `ld` from one row to the next, at an address of the
    /// device that will run the program (0 for a tensor without elements).
    pub fn foreign(&mut self, name: &str, dtype: DType, shape: (usize, usize), ld: usize, address: u64) -> Tensor {
        let (rows, cols) = shape;
        assert!(ld >= cols, "rows of `{name}` would overlap");
        let id = BufferId(self.buffers.len() as u32);
        let tensor = Tensor { buffer: id, dtype, offset: 0, rows, cols, ld };
        let (name, len, offset) = (name.to_string(), tensor.span().1, address as usize);
        self.buffers.push(Buffer { name, space: Space::Foreign, dtype, len, offset, lifetime: (0, 0) });
        tensor
    }

    /// Bytes of a space, padding between buffers included.
    pub fn bytes(&self, space: Space) -> usize {
        self.bytes[space.index()]
    }

    /// The buffers in order of their ids.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }
}

/// Records operations and arena buffers.
pub struct Builder {
    buffers: Vec<Buffer>,
    nodes: Vec<Node>,
    regions: Vec<String>,
    kept: Vec<(String, Tensor)>,
    overwrite_gradients: bool,
    touched_gradients: BTreeSet<(BufferId, usize)>,
}

impl Builder {
    /// A builder over a model's persistent buffers. With `overwrite_gradients` (the first micro-batch of a step) the
    /// first contribution to every gradient overwrites it, so that nothing has to be zeroed; otherwise all accumulate.
    pub fn new(persistent: &Persistent, overwrite_gradients: bool) -> Self {
        Self {
            buffers: persistent.buffers.clone(),
            nodes: Vec::new(),
            regions: vec!["program".to_string()],
            kept: Vec::new(),
            overwrite_gradients,
            touched_gradients: BTreeSet::new(),
        }
    }

    /// Names the part of the model that the following operations belong to.
    pub fn region(&mut self, name: impl Into<String>) {
        self.regions.push(name.into());
    }

    /// A new arena tensor of `rows` x `cols` elements.
    pub fn tensor(&mut self, name: &str, dtype: DType, rows: usize, cols: usize) -> Tensor {
        let id = BufferId(self.buffers.len() as u32);
        let region = self.regions.last().map_or("", String::as_str);
        let name = format!("{region}/{name}");
        let (len, lifetime) = (rows * cols, (usize::MAX, 0));
        self.buffers.push(Buffer { name, space: Space::Arena, dtype, len, offset: 0, lifetime });
        Tensor { buffer: id, dtype, offset: 0, rows, cols, ld: cols }
    }

    /// Appends an operation.
    pub fn push(&mut self, op: impl Into<Op>) {
        let region = self.regions.len() - 1;
        self.nodes.push(Node { op: op.into(), region });
    }

    /// Makes a tensor readable under `name` after the program ran: its memory is not reused.
    pub fn output(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.kept.push((name.into(), tensor));
    }

    /// Whether the next contribution to this gradient adds to what is there. The first call for a gradient in a
    /// first-micro-batch program answers `false`.
    pub fn accumulates(&mut self, gradient: Tensor) -> bool {
        let first = self.touched_gradients.insert((gradient.buffer, gradient.offset));
        !(first && self.overwrite_gradients)
    }

    /// Checks the list and places every arena buffer: [`Builder::record`], then [`Program::place`].
    pub fn finish(self, name: &'static str) -> Result<Program, CoreError> {
        let mut program = self.record(name);
        program.place()?;
        Ok(program)
    }

    /// The list as it is, for passes that rewrite it before it is placed.
    pub fn record(self, name: &'static str) -> Program {
        Program {
            id: 0,
            name,
            buffers: self.buffers,
            nodes: self.nodes,
            regions: self.regions,
            arena_bytes: 0,
            outputs: self.kept,
        }
    }
}

impl Program {
    /// Checks the list and places every arena buffer by its lifetime.
    ///
    /// # Errors
    /// `Shape` when something is read before it is written, or an operation writes a tensor that overlaps another of its
    /// operands.
    pub fn place(&mut self) -> Result<(), CoreError> {
        self.check()?;
        self.id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        self.find_lifetimes();
        let persistent = self.buffers.iter().take_while(|b| b.space != Space::Arena).count();
        self.arena_bytes = placement::place(&mut self.buffers[persistent..]);
        Ok(())
    }

    /// Finds the first and the last operation that touch every buffer.
    pub fn find_lifetimes(&mut self) {
        let end = self.nodes.len();
        for buffer in &mut self.buffers {
            buffer.lifetime = (usize::MAX, 0);
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let buffers = &mut self.buffers;
            node.op.operands(&mut |_, tensor, _| {
                let life = &mut buffers[tensor.buffer.0 as usize].lifetime;
                *life = (life.0.min(index), life.1.max(index));
            });
        }
        for (_, tensor) in &self.outputs {
            self.buffers[tensor.buffer.0 as usize].lifetime.1 = end;
        }
    }

    fn check(&self) -> Result<(), CoreError> {
        let mut written: Vec<bool> = self.buffers.iter().map(|b| b.space != Space::Arena).collect();
        for node in &self.nodes {
            let mut operands: Vec<(&'static str, Tensor, Access)> = Vec::new();
            node.op.operands(&mut |name, tensor, access| operands.push((name, tensor, access)));
            let region = &self.regions[node.region];
            let fail = |what: &str, problem: String| CoreError::Shape {
                what: format!("{region}: {} operand `{what}`", node.op.name()),
                expected: "a well-formed program".to_string(),
                found: problem,
            };
            for (name, tensor, access) in &operands {
                let buffer = &self.buffers[tensor.buffer.0 as usize];
                if tensor.span().1 > buffer.len {
                    return Err(fail(name, format!("window past the end of `{}`", buffer.name)));
                }
                if *access != Access::Write && !tensor.is_empty() && !written[tensor.buffer.0 as usize] {
                    return Err(fail(name, format!("`{}` is read before it is written", buffer.name)));
                }
            }
            for (i, (name, tensor, access)) in operands.iter().enumerate() {
                for (other_name, other, other_access) in &operands[i + 1..] {
                    if (*access != Access::Read || *other_access != Access::Read) && tensor.overlaps(other) {
                        return Err(fail(name, format!("overlaps operand `{other_name}`")));
                    }
                }
            }
            for (_, tensor, access) in &operands {
                if *access != Access::Read {
                    written[tensor.buffer.0 as usize] = true;
                }
            }
        }
        Ok(())
    }
}
