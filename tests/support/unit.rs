//! Single operations on a device: every operand is a persistent buffer that the test fills and reads, between guards.

use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
use lightning_core::program::{Builder, Op, Persistent, Program, Space};
use lightning_core::tensor::{DType, Tensor};

/// Bytes before and behind every operand that no operation may touch.
const GUARD_BYTES: usize = 256;
/// What they hold, exact in every type.
const GUARD: f64 = 1232.0;

/// Operands and their values.
pub struct Unit {
    pub act: DType,
    table: Persistent,
    values: Vec<(Tensor, Vec<f64>)>,
    /// What lies around the operands, as windows of one row.
    guards: Vec<Tensor>,
    pub threads: usize,
    /// Storage type whose rounding the values of activations get, whatever `act` is; arithmetic values then get the
    /// rounding of its arithmetic type.
    pub rounding: Option<DType>,
    /// Elements between the rows of activations.
    pub gap: usize,
}

/// A value as a type stores it.
fn rounded(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => f64::from(half::bf16::from_f32(value as f32).to_f32()),
        DType::F32 => f64::from(value as f32),
        DType::F64 | DType::I32 => value,
    }
}

impl Unit {
    pub fn new(act: DType) -> Self {
        Self {
            act,
            table: Persistent::new(),
            values: Vec::new(),
            guards: Vec::new(),
            threads: 2,
            rounding: None,
            gap: 0,
        }
    }

    fn add(&mut self, dtype: DType, rows: usize, cols: usize, values: Vec<f64>) -> Tensor {
        self.add_spaced(dtype, rows, cols, cols, values)
    }

    fn add_spaced(&mut self, dtype: DType, rows: usize, cols: usize, ld: usize, values: Vec<f64>) -> Tensor {
        assert_eq!(values.len(), rows * cols);
        let guard = GUARD_BYTES / dtype.size();
        let all = self.table.add("operand", Space::Input, dtype, 1, rows * ld + 2 * guard);
        let t = Tensor { offset: guard, rows, cols, ld, ..all };
        self.guards.extend([all.columns(0, guard), all.columns(guard + rows * ld, guard)]);
        if ld > cols {
            self.guards.extend((0..rows).map(|row| all.columns(guard + row * ld + cols, ld - cols)));
        }
        self.values.push((t, values));
        t
    }

    /// Adds an operand in the storage type of activations; rows have a gap when there are several.
    fn add_act(&mut self, rows: usize, cols: usize, values: Vec<f64>) -> Tensor {
        let gap = if rows > 1 { self.gap } else { 0 };
        self.add_spaced(self.act, rows, cols, cols + gap, values)
    }

    /// An activation-typed operand.
    pub fn act(&mut self, rows: usize, cols: usize, values: &[f64]) -> Tensor {
        let round = |v: &f64| self.rounding.map_or(*v, |r| rounded(*v, r));
        self.add_act(rows, cols, values.iter().map(round).collect())
    }

    /// An operand in the arithmetic type.
    pub fn acc(&mut self, rows: usize, cols: usize, values: &[f64]) -> Tensor {
        let round = |v: &f64| self.rounding.map_or(*v, |r| rounded(*v, r.accumulator()));
        self.add(self.act.accumulator(), rows, cols, values.iter().map(round).collect())
    }

    pub fn ints(&mut self, rows: usize, cols: usize, values: &[i32]) -> Tensor {
        self.add(DType::I32, rows, cols, values.iter().map(|v| f64::from(*v)).collect())
    }

    /// An f64 metric that starts at 0.
    pub fn metric(&mut self, cols: usize) -> Tensor {
        self.add(DType::F64, 1, cols, vec![0.0; cols])
    }

    /// An output that starts poisoned, so that an element that is not written shows.
    pub fn out(&mut self, rows: usize, cols: usize) -> Tensor {
        self.add_act(rows, cols, vec![f64::NAN; rows * cols])
    }

    pub fn out_acc(&mut self, rows: usize, cols: usize) -> Tensor {
        self.add(self.act.accumulator(), rows, cols, vec![f64::NAN; rows * cols])
    }

    pub fn out_ints(&mut self, rows: usize, cols: usize) -> Tensor {
        self.add(DType::I32, rows, cols, vec![-77.0; rows * cols])
    }

    pub fn zeros_acc(&mut self, rows: usize, cols: usize) -> Tensor {
        self.acc(rows, cols, &vec![0.0; rows * cols])
    }

    /// A gradient that is overwritten (starts poisoned) or added to (starts with `start`).
    pub fn gradient(&mut self, rows: usize, cols: usize, accumulate: bool) -> Tensor {
        if accumulate {
            let start: Vec<f64> = (0..rows * cols).map(|i| (i % 7) as f64 - 3.0).collect();
            self.acc(rows, cols, &start)
        } else {
            self.out_acc(rows, cols)
        }
    }

    /// Changes the initial value of an operand.
    pub fn set(&mut self, tensor: Tensor, values: &[f64]) {
        let slot = self.values.iter_mut().find(|(t, _)| *t == tensor).expect("an operand");
        slot.1 = values.to_vec();
    }

    pub fn value(&self, tensor: Tensor) -> &[f64] {
        &self.values.iter().find(|(t, _)| *t == tensor).expect("an operand").1
    }

    /// Document bounds of tokens with the given offsets.
    pub fn bounds(&mut self, tokens: usize, row_len: usize, offsets: &[i32]) -> (Tensor, Tensor) {
        let (mut start, mut end) = (vec![0; tokens], vec![0; tokens]);
        let mut cuts: Vec<usize> = (0..=tokens).step_by(row_len.max(1)).collect();
        cuts.extend(offsets.iter().map(|o| *o as usize));
        cuts.push(tokens);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            for t in pair[0]..pair[1] {
                (start[t], end[t]) = (pair[0] as i32, pair[1] as i32);
            }
        }
        (self.ints(1, tokens, &start), self.ints(1, tokens, &end))
    }

    /// Document bounds of tokens that carry document ids.
    pub fn bounds_of(&mut self, doc: &[i32], row_len: usize) -> (Tensor, Tensor) {
        let cuts: Vec<i32> = (1..doc.len()).filter(|t| doc[*t] != doc[*t - 1]).map(|t| t as i32).collect();
        self.bounds(doc.len(), row_len, &cuts)
    }

    /// Runs operations on fresh copies of the operands.
    pub fn run(&self, ops: Vec<Op>) -> Results {
        let mut results = self.prepare(ops);
        results.run(self);
        results
    }

    /// A device with the program of the given operations, to be run with any values of the operands.
    pub fn prepare(&self, ops: Vec<Op>) -> Results {
        let program = self.program(ops);
        let device = CpuDevice::new(&self.table, &[&program], self.threads).expect("device");
        self.on(device, program)
    }

    /// The program of the given operations.
    pub fn program(&self, ops: Vec<Op>) -> Program {
        let mut builder = Builder::new(&self.table, false);
        for op in ops {
            builder.push(op);
        }
        builder.finish("unit").expect("a well-formed program")
    }

    /// The operands, for a device to allocate.
    pub fn table(&self) -> &Persistent {
        &self.table
    }

    /// Joins a device and its program.
    pub fn on<D: Device>(&self, device: D, program: Program) -> Results<D> {
        Results { device, table: self.table.clone(), program }
    }
}

/// Operands on a device.
pub struct Results<D = CpuDevice> {
    pub device: D,
    table: Persistent,
    program: Program,
}

impl<D: Device> Results<D> {
    /// Writes all operands and runs the operations.
    pub fn run(&mut self, unit: &Unit) {
        self.write(unit);
        self.device.run(&self.program).expect("run");
    }

    /// Writes all operands and what lies around them.
    pub fn write(&mut self, unit: &Unit) {
        for (tensor, values) in &unit.values {
            for (row, values) in values.chunks(tensor.cols.max(1)).enumerate() {
                self.write_row(tensor.row_range(row, 1), values);
            }
        }
        for guard in &unit.guards {
            self.write_row(*guard, &vec![GUARD; guard.cols]);
        }
    }

    fn write_row(&mut self, row: Tensor, values: &[f64]) {
        self.device.write_f64(self.table.buffers(), row, values).expect("write");
    }

    pub fn get(&self, tensor: Tensor) -> Vec<f64> {
        let row = |row| self.device.read_f64(self.table.buffers(), tensor.row_range(row, 1)).expect("read");
        (0..tensor.rows).flat_map(row).collect()
    }

    /// Panics when something beside the operands was written.
    pub fn check_guards(&self, what: &str, unit: &Unit) {
        for guard in &unit.guards {
            let found = self.device.read_f64(self.table.buffers(), *guard).expect("read");
            assert!(found.iter().all(|v| *v == GUARD), "{what}: elements beside {guard:?} were written: {found:?}");
        }
    }
}
