//! An engine calls the scan and the routed experts, forward and backward, on device memory and a stream of its own, and
//! compares with the CPU device.
//!
//!   cargo run --release -p lightning-core --features gpu --example foreign_memory
//!
//! On a machine without a GPU, `cargo xtask sim` builds the virtual one; LD_LIBRARY_PATH must then name its folder.

use cudarc::driver::result;
use half::bf16;
use lightning_core::CoreError;
use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
use lightning_core::gpu::{GpuOps, Workspace};
use lightning_core::ops::{DispatchPlan, ExpertsBwd, ExpertsFwd, SsdScanBwd, SsdScanFwd, SsdShape};
use lightning_core::program::{Builder, Op, Persistent, Space};
use lightning_core::rng::Philox;
use lightning_core::tensor::{DType, Tensor};

/// Where a case gets its tensors from: memory of this engine on a device, or the CPU device's own.
trait Memory {
    /// A tensor with values, or without when it is only written.
    fn tensor(&mut self, dtype: DType, rows: usize, cols: usize, values: Option<Vec<f64>>) -> Tensor;
}

/// Device memory that this engine allocates.
#[derive(Default)]
struct EngineMemory {
    table: Persistent,
    addresses: Vec<u64>,
}

impl Memory for EngineMemory {
    fn tensor(&mut self, dtype: DType, rows: usize, cols: usize, values: Option<Vec<f64>>) -> Tensor {
        // SAFETY: plain allocation; it stays until the process ends.
        let address = unsafe { result::malloc_sync(rows * cols * dtype.size()) }.expect("device memory");
        if let Some(values) = values {
            // SAFETY: the allocation is as long as the values.
            unsafe { result::memcpy_htod_sync(address, &encode(dtype, &values)) }.expect("copy");
        }
        self.addresses.push(address);
        self.table.foreign("operand", dtype, (rows, cols), cols, address)
    }
}

/// The CPU device's memory, filled later.
#[derive(Default)]
struct HostMemory {
    table: Persistent,
    values: Vec<(Tensor, Vec<f64>)>,
}

impl Memory for HostMemory {
    fn tensor(&mut self, dtype: DType, rows: usize, cols: usize, values: Option<Vec<f64>>) -> Tensor {
        let tensor = self.table.add("operand", Space::Input, dtype, rows, cols);
        self.values.extend(values.map(|v| (tensor, v)));
        tensor
    }
}

fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    match dtype {
        DType::BF16 => values.iter().flat_map(|v| bf16::from_f64(*v).to_le_bytes()).collect(),
        DType::F32 => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        DType::F64 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::I32 => values.iter().flat_map(|v| (*v as i32).to_le_bytes()).collect(),
    }
}

fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let parts = bytes.chunks_exact(dtype.size());
    match dtype {
        DType::BF16 => parts.map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f64()).collect(),
        DType::F32 => parts.map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect(),
        DType::I32 => parts.map(|b| f64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect(),
        DType::F64 => parts.map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect(),
    }
}

type Case = (Vec<Op>, Vec<(&'static str, Tensor)>);

fn scan(m: &mut dyn Memory) -> Case {
    let (t, shape) = (37, SsdShape { heads: 2, head_dim: 16, state: 16, groups: 1, chunk: 16, row_len: 37 });
    let (inner, bc, all) = (shape.heads * shape.head_dim, shape.groups * shape.state, shape.state_elements());
    let mut rng = Philox::new(1, 0);
    let mut values = |n: usize| (0..n).map(|_| bf16::from_f64(2.0 * rng.uniform() - 1.0).to_f64()).collect::<Vec<_>>();
    use DType::{BF16, F32, I32};
    let fwd = SsdScanFwd {
        shape,
        x: m.tensor(BF16, t, inner, Some(values(t * inner))),
        b: m.tensor(BF16, t, bc, Some(values(t * bc))),
        c: m.tensor(BF16, t, bc, Some(values(t * bc))),
        delta: m.tensor(F32, t, shape.heads, Some(values(t * shape.heads).iter().map(|v| 0.3 + 0.2 * v).collect())),
        a_log: m.tensor(F32, 1, shape.heads, Some(values(shape.heads))),
        d: m.tensor(F32, 1, shape.heads, Some(values(shape.heads))),
        start: m.tensor(I32, 1, t, Some(vec![0.0; t])),
        end: m.tensor(I32, 1, t, Some(vec![t as f64; t])),
        state_in: None,
        y: m.tensor(BF16, t, inner, None),
        states: m.tensor(F32, shape.chunks(), all, None),
        state_out: None,
    };
    let bwd = SsdScanBwd {
        fwd: fwd.clone(),
        dy: m.tensor(BF16, t, inner, Some(values(t * inner))),
        dstate_out: None,
        dx: m.tensor(BF16, t, inner, None),
        db: m.tensor(BF16, t, bc, None),
        dc: m.tensor(BF16, t, bc, None),
        ddelta: m.tensor(F32, t, shape.heads, None),
        da_log: m.tensor(F32, 1, shape.heads, None),
        dd: m.tensor(F32, 1, shape.heads, None),
        accumulate: false,
        dstate_in: None,
        partial_a: m.tensor(F32, 1, shape.heads, None),
        partial_d: m.tensor(F32, 1, shape.heads, None),
    };
    let results = vec![("y", fwd.y), ("dx", bwd.dx), ("dB", bwd.db), ("dC", bwd.dc), ("dA_log", bwd.da_log)];
    (vec![fwd.into(), bwd.into()], results)
}

fn experts(m: &mut dyn Memory) -> Case {
    let (t, k, e, d, f) = (19, 2, 4, 32, 24);
    let mut rng = Philox::new(2, 0);
    let mut values = |n: usize| (0..n).map(|_| bf16::from_f64(2.0 * rng.uniform() - 1.0).to_f64()).collect::<Vec<_>>();
    use DType::{BF16, F32, I32};
    // Expert 2 gets nothing.
    let idx = (0..t).flat_map(|i| [if i % 2 == 1 { 1.0 } else { 3.0 }, 0.0]).collect();
    let plan = DispatchPlan {
        idx: m.tensor(I32, t, k, Some(idx)),
        offsets: m.tensor(I32, 1, e + 1, None),
        pair_of_slot: m.tensor(I32, 1, t * k, None),
        slot_of_pair: m.tensor(I32, t, k, None),
    };
    let fwd = ExpertsFwd {
        x: m.tensor(BF16, t, d, Some(values(t * d))),
        weight: m.tensor(F32, t, k, Some(values(t * k))),
        offsets: plan.offsets,
        pair_of_slot: plan.pair_of_slot,
        up: m.tensor(BF16, e * f, d, Some(values(e * f * d))),
        down: m.tensor(BF16, e * d, f, Some(values(e * d * f))),
        xs: m.tensor(BF16, t * k, d, None),
        p: m.tensor(BF16, t * k, f, None),
        a: m.tensor(BF16, t * k, f, None),
        y: m.tensor(BF16, t * k, d, None),
    };
    let bwd = ExpertsBwd {
        fwd: fwd.clone(),
        dout: m.tensor(BF16, t, d, Some(values(t * d))),
        dxs: m.tensor(BF16, t * k, d, None),
        dweight: m.tensor(F32, t, k, None),
        dweights: Some((m.tensor(F32, e * f, d, None), m.tensor(F32, e * d, f, None))),
        accumulate: false,
        dys: m.tensor(BF16, t * k, d, None),
        a: m.tensor(BF16, t * k, f, None),
        dp: m.tensor(BF16, t * k, f, None),
    };
    let (dup, ddown) = bwd.dweights.expect("given above");
    let results = vec![("y", fwd.y), ("dx", bwd.dxs), ("dweight", bwd.dweight), ("dU", dup), ("dV", ddown)];
    (vec![plan.into(), fwd.into(), bwd.into()], results)
}

fn run_on_cpu(case: fn(&mut dyn Memory) -> Case) -> Result<Vec<Vec<f64>>, CoreError> {
    let mut memory = HostMemory::default();
    let (ops, results) = case(&mut memory);
    let mut builder = Builder::new(&memory.table, false);
    ops.into_iter().for_each(|op| builder.push(op));
    let program = builder.finish("cpu")?;
    let mut cpu = CpuDevice::new(&memory.table, &[&program], 1)?;
    for (tensor, values) in &memory.values {
        cpu.write(memory.table.buffers(), *tensor, &encode(tensor.dtype, values))?;
    }
    cpu.run(&program)?;
    results.iter().map(|(_, t)| cpu.read_f64(memory.table.buffers(), *t)).collect()
}

/// Runs both cases.
pub fn main() -> Result<(), CoreError> {
    let mut gpu = GpuOps::open(0)?;
    let stream = result::stream::create(result::stream::StreamKind::NonBlocking).expect("a stream");
    let mut all_close = true;
    for (name, case) in [("scan", scan as fn(&mut dyn Memory) -> Case), ("experts", experts)] {
        let mut memory = EngineMemory::default();
        let (ops, results) = case(&mut memory);
        let mut builder = Builder::new(&memory.table, false);
        ops.into_iter().for_each(|op| builder.push(op));
        let program = builder.finish("foreign")?;
        let bytes = GpuOps::workspace_bytes(&program);
        // SAFETY: plain allocation; it stays until the process ends.
        let address = unsafe { result::malloc_sync(bytes.max(256)) }.expect("device memory");
        // SAFETY: every operand and the workspace were allocated above with their sizes, and nothing else uses them.
        unsafe { gpu.enqueue(&program, Workspace { address, bytes }, stream.cast())? };
        // SAFETY: the stream is ours.
        unsafe { result::stream::synchronize(stream) }.expect("the operations");
        for ((what, tensor), want) in results.iter().zip(run_on_cpu(case)?) {
            let mut bytes = vec![0; tensor.bytes()];
            let address = program.buffer(tensor.buffer).offset as u64;
            // SAFETY: the tensor is a whole allocation of this size.
            unsafe { result::memcpy_dtoh_sync(&mut bytes, address) }.expect("copy");
            let got = decode(tensor.dtype, &bytes);
            let distance: f64 = got.iter().zip(&want).map(|(g, w)| (g - w) * (g - w)).sum();
            let norm: f64 = want.iter().map(|w| w * w).sum();
            let error = (distance / norm).sqrt();
            all_close &= error <= 1e-2;
            println!("{name} {what:8} relative L2 distance from the CPU device {error:.2e}");
        }
        println!("{name}: {} tensors in memory of this engine", memory.addresses.len());
    }
    assert!(all_close, "results differ");
    Ok(())
}
