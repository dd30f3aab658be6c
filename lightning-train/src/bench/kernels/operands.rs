//! One operation of a recorded program alone: a program of its own, with operands of the same shapes and row distances,
//! filled with what such operands hold.

use lightning_core::CoreError;
use lightning_core::device::Device;
use lightning_core::program::{Access, Builder, Op, Persistent, Program, Space};
use lightning_core::rng::Philox;
use lightning_core::tensor::{BufferId, DType, Tensor};
use std::collections::BTreeMap;

/// Elements at whose multiples a window may start anew without a change of its alignment.
const ALIGNED: usize = 128;
/// Numbers that are drawn; longer operands repeat them.
const DRAWN: usize = 1 << 16;

/// An operation with operands of its own.
pub struct Single {
    /// The buffers of the operands.
    pub table: Persistent,
    /// The program of the operation.
    pub program: Program,
    op: Op,
}

/// Elements `low` to `high` of a buffer, of one type.
type Extent = (DType, usize, usize);

impl Single {
    /// The operation with operands of its own; windows of one matrix stay windows of one matrix.
    ///
    /// # Errors
    /// `Shape` if the operation alone is not well-formed.
    pub fn new(op: &Op) -> Result<Self, CoreError> {
        let mut op = op.clone();
        let mut extents: BTreeMap<BufferId, Extent> = BTreeMap::new();
        op.handles(&mut |t| {
            let (low, high) = (t.offset / ALIGNED * ALIGNED, t.span().1.max(t.offset));
            let extent = extents.entry(t.buffer).or_insert((t.dtype, low, high));
            (extent.1, extent.2) = (extent.1.min(low), extent.2.max(high));
        });
        let mut table = Persistent::new();
        let places: BTreeMap<BufferId, (BufferId, usize)> = extents
            .into_iter()
            .map(|(old, (dtype, low, high))| {
                // The space is of no meaning here, but for this one nothing is mirrored on the host.
                (old, (table.add("operand", Space::Optimizer, dtype, 1, high - low).buffer, low))
            })
            .collect();
        op.handles(&mut |t| {
            let (buffer, low) = places[&t.buffer];
            (t.buffer, t.offset) = (buffer, t.offset - low);
        });
        let mut builder = Builder::new(&table, false);
        builder.push(op.clone());
        let program = builder.finish("bench")?;
        Ok(Self { table, program, op })
    }

    /// Writes what the operation reads: numbers from N(0, 1), time steps and the like between 0 and 0.1, document bounds of
    /// one document, balanced routing.
    ///
    /// # Errors
    /// What the device reports.
    pub fn fill(&self, device: &mut impl Device) -> Result<(), CoreError> {
        let mut operands: Vec<(&'static str, Tensor)> = Vec::new();
        self.op.operands(&mut |name, tensor, access| {
            if access != Access::Write && !tensor.is_empty() {
                operands.push((name, tensor));
            }
        });
        let mut rng = Philox::new(1, 0xbe7c);
        let normals: Vec<f64> = (0..DRAWN).map(|_| rng.normal()).collect();
        for (name, tensor) in operands {
            let value = |i: usize| match tensor.dtype {
                DType::I32 => self.integer(name, tensor, i) as f64,
                _ if matches!(name, "delta" | "rstd" | "weight" | "lse") => normals[i % DRAWN].abs() / 10.0,
                _ if name == "mask" => 1.0,
                _ => normals[i % DRAWN],
            };
            for row in 0..tensor.rows {
                let values: Vec<f64> = (0..tensor.cols).map(|col| value(row * tensor.cols + col)).collect();
                device.write_f64(self.table.buffers(), tensor.row_range(row, 1), &values)?;
            }
        }
        Ok(())
    }

    /// Element `i` of an integer operand.
    fn integer(&self, name: &str, tensor: Tensor, i: usize) -> usize {
        let routed = |experts: usize| (i / tensor.cols * tensor.cols + i % tensor.cols) % experts.max(1);
        match (name, &self.op) {
            ("end", _) => tensor.len(),
            ("offsets", Op::ExpertsFwd(op)) => balanced(i, op.offsets.len(), op.pair_of_slot.len()),
            ("offsets", Op::ExpertsBwd(op)) => balanced(i, op.fwd.offsets.len(), op.fwd.pair_of_slot.len()),
            ("idx", Op::DispatchPlan(op)) => routed(op.offsets.len() - 1),
            ("idx", Op::RouterBwd(op)) => routed(op.fwd.logits.cols),
            ("ids", Op::EmbeddingFwd(op)) => i * 7919 % op.table.rows.max(1),
            ("ids", Op::EmbeddingBwd(op)) => i * 7919 % op.dtable.rows.max(1),
            ("label", Op::LinearCrossEntropy(op)) => i * 7919 % op.w.rows.max(1),
            ("pair_of_slot" | "slot_of_pair" | "src", _) => i,
            ("cu_seqlens", Op::Segments(op)) => op.start.len().min(i * op.start.len()),
            _ => 0,
        }
    }
}

/// Bound `i` of equal shares.
fn balanced(i: usize, bounds: usize, slots: usize) -> usize {
    i * slots / (bounds - 1).max(1)
}

/// Operands of an operation in words: `x 8192x2688 w 10304x2688 y 8192x10304`.
pub fn shapes(op: &Op) -> String {
    let mut words = Vec::new();
    op.operands(&mut |name, tensor, _| {
        if tensor.len() > 1 {
            words.push(format!("{name} {}x{}", tensor.rows, tensor.cols));
        }
    });
    words.join(" ")
}
