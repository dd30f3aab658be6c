//! Launches of the TMA and wgmma pipeline of `xtask/mutants/gemm_pipeline.cu`.

use ptx_sim::exec::{Launch, Machine, Module};
use ptx_sim::tensormap::{DataType, L2Promotion, OobFill, Swizzle, TensorMap};
use std::sync::Arc;

use super::virtual_gpu::{Bf16, Element, Random};

/// Its kernel.
pub const KERNEL: &str = "gemm_pipeline";

/// Tile of a block: rows and columns of d.
const TILE: usize = 128;
/// Dynamic shared memory: `sizeof(Shared)`.
const SHARED_BYTES: u32 = 2 * 3 * (128 * 64 * 2) + 4 * (64 * 64 * 2) + 2 * 3 * 8;

/// One product d = a b^T.
pub struct Product {
    /// What the device left, [m, n].
    pub got: Vec<Bf16>,
    a: Vec<Bf16>,
    b: Vec<Bf16>,
    shape: (usize, usize, usize),
}

impl Product {
    /// The same, computed here.
    pub fn want(&self) -> Vec<Bf16> {
        let (m, n, k) = self.shape;
        reference(&self.a, &self.b, m, n, k)
    }
}

/// Runs one product of whole eighths, which every order of summation gives exactly.
pub fn product(
    machine: &Machine,
    module: &Arc<Module>,
    (m, n, k): (usize, usize, usize),
    random: &mut Random,
) -> Result<Product, String> {
    let mut operand = |rows: usize| -> Vec<Bf16> {
        (0..rows * k).map(|_| Bf16::from_f32((random.bits() % 17) as f32 / 8.0 - 1.0)).collect()
    };
    let (a, b) = (operand(m), operand(n));
    let memory = machine.memory();
    let upload = |bytes: Vec<u8>| -> Result<u64, String> {
        let address = memory.allocate(0, bytes.len() as u64).map_err(|e| e.to_string())?;
        memory.write(address, &bytes).map_err(|e| e.to_string())?;
        Ok(address)
    };
    let raw = |elements: &[Bf16]| elements.iter().flat_map(|e| e.to_bytes()).collect::<Vec<u8>>();
    let (a_at, b_at, d_at) = (upload(raw(&a))?, upload(raw(&b))?, upload(vec![0xff; m * n * 2])?);

    let mut params = Vec::new();
    params.extend(map(a_at, m, k, TILE).to_bytes());
    params.extend(map(b_at, n, k, TILE / 2).to_bytes());
    params.extend(map(d_at, m, n, 64).to_bytes());
    params.extend((k as i32).to_le_bytes());
    let loaded = machine.load(module.clone()).map_err(|e| e.to_string())?;
    let launch = Launch {
        grid: [2 * m.div_ceil(2 * TILE) as u32, n.div_ceil(TILE) as u32, 1],
        block: [384, 1, 1],
        dynamic_shared: SHARED_BYTES,
        params,
        ..Launch::new(&loaded, KERNEL)
    };
    machine.launch(&launch).map_err(|fault| fault.to_string())?;
    let mut bytes = vec![0; m * n * 2];
    memory.read(d_at, &mut bytes).map_err(|e| e.to_string())?;
    for address in [a_at, b_at, d_at] {
        memory.free(address).map_err(|e| e.to_string())?;
    }
    Ok(Product { got: bytes.chunks_exact(2).map(Bf16::from_bytes).collect(), a, b, shape: (m, n, k) })
}

fn reference(a: &[Bf16], b: &[Bf16], m: usize, n: usize, k: usize) -> Vec<Bf16> {
    let floats = |elements: &[Bf16]| elements.iter().map(|e| e.to_f32()).collect::<Vec<f32>>();
    let (a, b) = (floats(a), floats(b));
    let mut d = Vec::with_capacity(m * n);
    for i in 0..m {
        for j in 0..n {
            let (row, column) = (&a[i * k..][..k], &b[j * k..][..k]);
            let sum: f32 = row.iter().zip(column).map(|(x, y)| x * y).sum();
            d.push(Bf16::from_f32(sum));
        }
    }
    d
}

/// A map over a row-major matrix of bf16 with boxes of `box_rows` rows and 64 columns, swizzled over 128 bytes.
fn map(address: u64, rows: usize, columns: usize, box_rows: usize) -> TensorMap {
    TensorMap {
        address,
        data_type: DataType::Bf16,
        rank: 2,
        dims: [columns as u64, rows as u64, 1, 1, 1],
        strides: [columns as u64 * 2, 0, 0, 0],
        box_dims: [64, box_rows as u32, 1, 1, 1],
        element_strides: [1; 5],
        swizzle: Swizzle::B128,
        l2_promotion: L2Promotion::None,
        oob_fill: OobFill::Zero,
    }
}
