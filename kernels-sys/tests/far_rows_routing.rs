//! Row offsets that pass 2^31 and 2^32 elements (`spec/kernels.md` §3 row 1, pitfalls B46, B56, B63): few rows far apart,
//! in memory that exists only where it is touched.

mod virtual_gpu;

use kernels_sys::{
    CombineParams, EmbeddingBwdParams, EmbeddingFwdParams, FillParams, Relu2BwdParams, Relu2FwdParams, RouteParams,
    RouterProductParams, SumBlocksParams,
};
use virtual_gpu::{Bf16, Buffer, Element, Random, Trouble, VirtualGpu};

/// Elements from one row to the next: the second row lies beyond 2^31, the third beyond 2^32.
const STRIDE: usize = (1 << 31) + 8;

fn ok<V>(what: &str, outcome: Result<V, Trouble>) -> V {
    outcome.unwrap_or_else(|trouble| panic!("{what}: {trouble}"))
}

fn start() -> Option<(VirtualGpu, Random)> {
    let mut random = Random::fresh();
    Some((VirtualGpu::new(random.bits())?, random))
}

/// Rows of `h` elements, far apart.
fn far<'a, T: Element>(gpu: &'a VirtualGpu, rows: usize, h: usize, data: &[T]) -> Buffer<'a> {
    let buffer = gpu.sparse_buffer((STRIDE * (rows - 1) + h) * size_of::<T>());
    for (row, values) in data.chunks_exact(h).enumerate() {
        buffer.write(row * STRIDE, values);
    }
    buffer
}

fn read<T: Element>(buffer: &Buffer<'_>, rows: usize, h: usize) -> Vec<T> {
    (0..rows).flat_map(|row| buffer.read::<T>(row * STRIDE, h)).collect()
}

#[test]
fn embedding() {
    let Some((gpu, mut random)) = start() else {
        return;
    };
    let h = 16;
    let table: Vec<Bf16> = random.elements(3 * h, 0.0, 1.0);
    let ids = gpu.upload(&[2, 0, 2]);
    let (from, y) = (far(&gpu, 3, h, &table), far::<Bf16>(&gpu, 3, h, &[]));
    let params = EmbeddingFwdParams {
        ids: ids.address,
        table: from.address,
        y: y.address,
        table_stride: STRIDE as i64,
        y_stride: STRIDE as i64,
        t: 3,
        h: h as i32,
        v: 3,
    };
    ok("forward", gpu.launch("embedding_fwd_bf16", 2, &params));
    let want: Vec<Bf16> = [2, 0, 2].iter().flat_map(|id| &table[id * h..][..h]).copied().collect();
    assert_eq!(read::<Bf16>(&y, 3, h), want);

    let order = gpu.upload(&[1, 0, 2]);
    let dtable = far(&gpu, 3, h, &vec![1.0f32; 3 * h]);
    let params = EmbeddingBwdParams {
        ids: ids.address,
        order: order.address,
        dy: y.address,
        dtable: dtable.address,
        dy_stride: STRIDE as i64,
        dtable_stride: STRIDE as i64,
        t: 3,
        h: h as i32,
        v: 3,
        accumulate: 0,
        reserved: 0,
    };
    ok("backward", gpu.launch("embedding_bwd_f32", 3, &params));
    let row = |id: usize, times: f32| table[id * h..][..h].iter().map(move |v| times * v.to_f32());
    let want: Vec<f32> = row(0, 1.0).chain(vec![1.0; h]).chain(row(2, 2.0)).collect();
    assert_eq!(read::<f32>(&dtable, 3, h), want);
}

#[test]
fn combination_and_squared_relu() {
    let Some((gpu, mut random)) = start() else {
        return;
    };
    let h = 8;
    let data: Vec<Bf16> = random.elements(3 * h, 0.0, 1.0);
    let slot = gpu.upload(&[2, 0, 1]);
    let (y, out) = (far(&gpu, 3, h, &data), far::<Bf16>(&gpu, 3, h, &[]));
    let params = CombineParams {
        y: y.address,
        slot: slot.address,
        out: out.address,
        y_stride: STRIDE as i64,
        slot_stride: 1,
        out_stride: STRIDE as i64,
        t: 3,
        k: 1,
        h: h as i32,
        ..CombineParams::default()
    };
    ok("combine", gpu.launch("combine_bf16", 3, &params));
    let want: Vec<Bf16> = [2, 0, 1].iter().flat_map(|slot| &data[slot * h..][..h]).copied().collect();
    assert_eq!(read::<Bf16>(&out, 3, h), want);

    let squared = far::<Bf16>(&gpu, 3, h, &[]);
    let params = Relu2FwdParams {
        x: y.address,
        y: squared.address,
        x_stride: STRIDE as i64,
        y_stride: STRIDE as i64,
        t: 3,
        f: h as i64,
    };
    ok("relu2_fwd", gpu.launch("relu2_fwd_bf16", 2, &params));
    let positive = |v: &Bf16| v.to_f32().max(0.0);
    let want: Vec<Bf16> = data.iter().map(|v| Bf16::from_f32(positive(v) * positive(v))).collect();
    assert_eq!(read::<Bf16>(&squared, 3, h), want);
    let params = Relu2BwdParams {
        x: y.address,
        dy: y.address,
        dx: squared.address,
        x_stride: STRIDE as i64,
        dy_stride: STRIDE as i64,
        dx_stride: STRIDE as i64,
        t: 3,
        f: h as i64,
    };
    ok("relu2_bwd", gpu.launch("relu2_bwd_bf16", 2, &params));
    let want: Vec<Bf16> = data.iter().map(|v| Bf16::from_f32(2.0 * positive(v) * v.to_f32())).collect();
    assert_eq!(read::<Bf16>(&squared, 3, h), want);
}

#[test]
fn router() {
    let Some((gpu, _)) = start() else {
        return;
    };
    // x_t = t + 1, w_e = e + 1.
    let x: Vec<Bf16> = (1..4).map(|v| Bf16::from_f32(v as f32)).collect();
    let (a, b) = (far(&gpu, 3, 1, &x), far(&gpu, 2, 1, &x[..2]));
    let logits = far::<f32>(&gpu, 3, 2, &[]);
    let params = RouterProductParams {
        a: a.address,
        b: b.address,
        c: logits.address,
        a_stride: STRIDE as i64,
        b_stride: STRIDE as i64,
        c_stride: STRIDE as i64,
        m: 3,
        n: 2,
        k: 1,
        accumulate: 0,
        reserved: 0,
    };
    ok("logits", gpu.launch("router_logits_bf16", 1, &params));
    assert_eq!(read::<f32>(&logits, 3, 2), [1.0, 2.0, 2.0, 4.0, 3.0, 6.0]);

    let (bias, idx, weight) = (gpu.upload(&[0.0f32; 2]), far::<i32>(&gpu, 3, 1, &[]), far::<f32>(&gpu, 3, 1, &[]));
    let params = RouteParams {
        logits: logits.address,
        bias: bias.address,
        idx: idx.address,
        weight: weight.address,
        logits_stride: STRIDE as i64,
        idx_stride: STRIDE as i64,
        weight_stride: STRIDE as i64,
        t: 3,
        e: 2,
        k: 1,
        scale: 2.0,
        normalize: 1,
        ..RouteParams::default()
    };
    ok("select", gpu.launch("router_select", 1, &params));
    assert_eq!((read::<i32>(&idx, 3, 1), read::<f32>(&weight, 3, 1)), (vec![1; 3], vec![2.0; 3]));
}

#[test]
fn sums_of_blocks_and_fills() {
    let Some((gpu, mut random)) = start() else {
        return;
    };
    let n = 5;
    let data: Vec<f32> = random.elements(3 * n, 0.0, 1.0);
    let (partial, dst) = (far(&gpu, 3, n, &data), gpu.buffer(4 * n, 0));
    let params = SumBlocksParams {
        partial: partial.address,
        dst: dst.address,
        partial_stride: STRIDE as i64,
        blocks: 3,
        n: n as i64,
        accumulate: 0,
        reserved: 0,
    };
    ok("sum", gpu.launch("sum_blocks_f32", 1, &params));
    let want: Vec<f32> = (0..n).map(|c| data[c] + data[n + c] + data[2 * n + c]).collect();
    assert_eq!(dst.read::<f32>(0, n), want);

    let value = u64::from(7.5f32.to_bits());
    let params = FillParams {
        dst: partial.address,
        value,
        stride: STRIDE as i64,
        rows: 3,
        cols: n as i64,
        size: 4,
        reserved: 0,
    };
    ok("fill", gpu.launch("fill", 2, &params));
    assert_eq!(read::<f32>(&partial, 3, n), vec![7.5; 3 * n]);
}
