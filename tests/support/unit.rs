//! Single operations on the CPU device: every operand is a persistent buffer that the test fills and reads.

use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
use lightning_core::program::{Builder, Op, Persistent, Program, Space};
use lightning_core::tensor::{DType, Tensor};

/// Operands and their values.
pub struct Unit {
    pub act: DType,
    table: Persistent,
    values: Vec<(Tensor, Vec<f64>)>,
    pub threads: usize,
}

impl Unit {
    pub fn new(act: DType) -> Self {
        Self { act, table: Persistent::new(), values: Vec::new(), threads: 2 }
    }

    fn add(&mut self, dtype: DType, rows: usize, cols: usize, values: Vec<f64>) -> Tensor {
        assert_eq!(values.len(), rows * cols);
        let t = self.table.add("operand", Space::Input, dtype, rows, cols);
        self.values.push((t, values));
        t
    }

    /// An activation-typed operand.
    pub fn act(&mut self, rows: usize, cols: usize, values: &[f64]) -> Tensor {
        self.add(self.act, rows, cols, values.to_vec())
    }

    /// An operand in the arithmetic type.
    pub fn acc(&mut self, rows: usize, cols: usize, values: &[f64]) -> Tensor {
        self.add(self.act.accumulator(), rows, cols, values.to_vec())
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
        self.add(self.act, rows, cols, vec![f64::NAN; rows * cols])
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
        let mut builder = Builder::new(&self.table, false);
        for op in ops {
            builder.push(op);
        }
        let program = builder.finish("unit").expect("a well-formed program");
        let device = CpuDevice::new(&self.table, &[&program], self.threads).expect("device");
        Results { device, table: self.table.clone(), program }
    }
}

/// Operands on a device.
pub struct Results {
    device: CpuDevice,
    table: Persistent,
    program: Program,
}

impl Results {
    /// Writes all operands and runs the operations.
    pub fn run(&mut self, unit: &Unit) {
        for (tensor, values) in &unit.values {
            if tensor.dtype == DType::I32 {
                let values: Vec<i32> = values.iter().map(|v| *v as i32).collect();
                self.device.write_slice(self.table.buffers(), *tensor, &values).expect("write");
            } else {
                self.device.write_f64(self.table.buffers(), *tensor, values).expect("write");
            }
        }
        self.device.run(&self.program).expect("run");
    }

    pub fn get(&self, tensor: Tensor) -> Vec<f64> {
        self.device.read_f64(self.table.buffers(), tensor).expect("read")
    }
}
