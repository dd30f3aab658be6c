//! Residual add and RMSNorm on the virtual GPU against f64, at awkward shapes, between guard bytes.

mod virtual_gpu;

use kernels_sys::{RmsNormFwdParams, SumBlocksParams};
use ptx_sim::exec::Counts;
use virtual_gpu::rms_norm::{
    Backward, BackwardCase, EPS, Forward, ForwardCase, Inputs, Odd, XOut, backward, forward, read_rows, rstd_f64,
};
use virtual_gpu::{Bf16, Element, Random, Trouble, VirtualGpu};

/// (tokens, hidden, elements of a row beyond hidden): empty, single, odd, unaligned rows, one beyond what the threads
/// hold in registers, the model's own width.
const SHAPES: &[(usize, usize, usize)] = &[
    (0, 64, 0),
    (1, 1, 0),
    (3, 2, 5),
    (2, 7, 0),
    (5, 8, 8),
    (7, 31, 1),
    (4, 64, 16),
    (9, 257, 0),
    (2, 384, 3),
    (3, 2688, 0),
    (2, 3072, 8),
    (2, 3073, 0),
    (1, 3080, 8),
    (2, 6152, 0),
];

/// The value of a launch that must go through without a finding.
fn ok<V>(what: &str, outcome: Result<V, Trouble>) -> V {
    outcome.unwrap_or_else(|trouble| panic!("{what}: {trouble}"))
}

fn dot(values: impl Iterator<Item = f64>) -> f64 {
    values.sum()
}

/// Asserts |got - want| <= one rounding of want + slack, element by element.
fn assert_close<T: Element>(what: &str, got: &[T], want: &[f64], slack: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let bound = 1.01 * T::HALF_ULP * want.abs() + slack(i);
        let error = (got.to_f64() - want).abs();
        assert!(error <= bound, "{what}[{i}]: got {got:?}, want {want}, error {error:e}, bound {bound:e}");
    }
}

/// `slack` is the relative error of the sum of squares: a sum in one go over a row errs more than a tree.
fn check_forward<T: Element>(what: &str, inputs: &Inputs<T>, with_b: bool, got: &Forward<T>, slack: f64) {
    let want = inputs.x_out(with_b);
    if let Some(x_out) = &got.x_out {
        assert_eq!(*x_out, want, "{what}: x_out");
    }
    let (mut y, mut rstd) = (Vec::new(), Vec::new());
    for row in want.chunks_exact(inputs.h) {
        let r = rstd_f64(row);
        rstd.push(r);
        y.extend(row.iter().zip(&inputs.w).map(|(x, w)| w.to_f64() * x.to_f64() * r));
    }
    if let Some(got) = &got.rstd {
        assert_close(&format!("{what}: rstd"), got, &rstd, |i| slack * rstd[i]);
    }
    assert_close(&format!("{what}: y"), &got.y, &y, |i| 2.0 * slack * y[i].abs());
}

fn forward_at_all_shapes<T: Element>() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else {
        return;
    };
    for (n, &shape) in SHAPES.iter().enumerate() {
        let inputs = Inputs::<T>::new(&mut random, shape);
        let (with_b, x_out) = (n % 4 != 1, XOut::ALL[n % 3]);
        let fast = ForwardCase { kernel: "rms_norm_fwd", grid: 2, with_b, x_out, shift: 0, eps: EPS };
        let what = format!("{shape:?} b {with_b} x_out {x_out:?}");
        let got = ok(&what, forward(&gpu, &inputs, fast));
        check_forward(&what, &inputs, with_b, &got, 5e-7);

        let naive = ok(&what, forward(&gpu, &inputs, ForwardCase { kernel: "rms_norm_fwd_naive", grid: 1, ..fast }));
        check_forward(&format!("{what}, naive"), &inputs, with_b, &naive, 5e-6);

        // Another grid and unaligned rows change no bit of what is summed in the same order.
        let other = ok(&what, forward(&gpu, &inputs, ForwardCase { grid: 3, ..fast }));
        assert_eq!(got.y, other.y, "{what}: y depends on the grid");
        assert_eq!(got.rstd, other.rstd, "{what}: rstd depends on the grid");
        let shifted = ok(&what, forward(&gpu, &inputs, ForwardCase { shift: 1, ..fast }));
        check_forward(&format!("{what}, shifted"), &inputs, with_b, &shifted, 5e-7);
    }
}

#[test]
fn forward_bf16() {
    forward_at_all_shapes::<Bf16>();
}

#[test]
fn forward_f32() {
    forward_at_all_shapes::<f32>();
}

fn check_backward<T: Element>(what: &str, inputs: &Inputs<T>, x_out: &[T], accumulate: bool, got: &Backward<T>) {
    let (h, n) = (inputs.h, inputs.h as f64);
    let start = if accumulate { 1.0 } else { 0.0 };
    let (mut dw, mut dw_size) = (vec![start; h], vec![start; h]);
    let (mut d_res, mut size) = (Vec::new(), Vec::new());
    for (t, row) in x_out.chunks_exact(h).enumerate() {
        let r = f64::from(rstd_f64(row) as f32);
        let dy = &inputs.dy[t * h..][..h];
        let g: Vec<f64> = dy.iter().zip(&inputs.w).map(|(dy, w)| dy.to_f64() * w.to_f64()).collect();
        let mean = dot(g.iter().zip(row).map(|(g, x)| g * x.to_f64())) / n;
        let mean_size = dot(g.iter().zip(row).map(|(g, x)| (g * x.to_f64()).abs())) / n;
        for c in 0..h {
            let x = row[c].to_f64();
            let before = if accumulate { inputs.d_res[t * h + c].to_f64() } else { 0.0 };
            d_res.push(before + r * (g[c] - x * r * r * mean));
            size.push(before.abs() + r * (g[c].abs() + x.abs() * r * r * mean_size));
            dw[c] += dy[c].to_f64() * x * r;
            dw_size[c] += (dy[c].to_f64() * x * r).abs();
        }
    }
    assert_close(&format!("{what}: d_res"), &got.d_res, &d_res, |i| 1e-6 * size[i]);
    assert_close(&format!("{what}: dw"), &got.dw, &dw, |i| 1e-6 * dw_size[i]);
}

fn backward_at_all_shapes<T: Element>() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else {
        return;
    };
    for (n, &shape) in SHAPES.iter().enumerate() {
        let inputs = Inputs::<T>::new(&mut random, shape);
        let x_out = inputs.x_out(true);
        let accumulate = n % 2 == 0;
        let fast = BackwardCase { naive: false, grid: 2, block_tokens: 2, accumulate, shift: 0, odd: None };
        let what = format!("{shape:?} accumulate {accumulate}");
        let got = ok(&what, backward(&gpu, &inputs, &x_out, fast));
        check_backward(&what, &inputs, &x_out, accumulate, &got);

        let naive = ok(&what, backward(&gpu, &inputs, &x_out, BackwardCase { naive: true, ..fast }));
        check_backward(&format!("{what}, naive"), &inputs, &x_out, accumulate, &naive);

        let other = ok(&what, backward(&gpu, &inputs, &x_out, BackwardCase { grid: 5, ..fast }));
        assert_eq!(got.d_res, other.d_res, "{what}: d_res depends on the grid");
        assert_eq!(got.dw, other.dw, "{what}: dw depends on the grid");
        let shifted = ok(&what, backward(&gpu, &inputs, &x_out, BackwardCase { shift: 1, block_tokens: 3, ..fast }));
        check_backward(&format!("{what}, shifted"), &inputs, &x_out, accumulate, &shifted);
        let odd = Odd::ALL[n % Odd::ALL.len()];
        let one_off = ok(&what, backward(&gpu, &inputs, &x_out, BackwardCase { odd: Some(odd), ..fast }));
        check_backward(&format!("{what}, {odd:?} off"), &inputs, &x_out, accumulate, &one_off);
    }
}

#[test]
fn backward_bf16() {
    backward_at_all_shapes::<Bf16>();
}

#[test]
fn backward_f32() {
    backward_at_all_shapes::<f32>();
}

/// The two-pass sum of dw over many blocks is the same for any schedule, and close to the exact sum.
#[test]
fn dw_sums_many_blocks_in_a_fixed_order() {
    let mut random = Random::fresh();
    let (blocks, h) = (101, 45);
    let partial: Vec<f32> = random.elements(blocks * h, 0.0, 1.0);
    let mut first: Option<Vec<f32>> = None;
    for _ in 0..3 {
        let Some(gpu) = VirtualGpu::new(random.bits()) else {
            return;
        };
        let (source, dw) = (gpu.upload(&partial), gpu.buffer(h * 4, 0));
        let params = SumBlocksParams {
            partial: source.address,
            dst: dw.address,
            partial_stride: h as i64,
            blocks: blocks as i64,
            n: h as i64,
            accumulate: 0,
            reserved: 0,
        };
        ok("dw", gpu.launch("sum_blocks_f32", h.div_ceil(32) as u64, &params));
        ok("dw", dw.check_guards::<f32>("dw", 1, h, h));
        let got: Vec<f32> = dw.read(0, h);
        let exact = |c: usize| dot((0..blocks).map(|b| f64::from(partial[b * h + c])));
        let size = |c: usize| dot((0..blocks).map(|b| f64::from(partial[b * h + c].abs())));
        let want: Vec<f64> = (0..h).map(exact).collect();
        assert_close("dw", &got, &want, |c| 1e-6 * size(c));
        assert_eq!(*first.get_or_insert_with(|| got.clone()), got, "the order of the sum depends on the schedule");
    }
}

/// Row offsets pass 2^31 elements: rows 2^31 + 8 elements apart, in memory that exists only where it is touched.
#[test]
fn strides_beyond_32_bits() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else {
        return;
    };
    let (h, stride) = (64usize, (1usize << 31) + 8);
    let inputs = Inputs::<Bf16>::new(&mut random, (2, h, 0));
    let far = |data: &[Bf16]| {
        let buffer = gpu.sparse_buffer((stride + h) * 2);
        for (row, values) in data.chunks_exact(h).enumerate() {
            buffer.write(row * stride, values);
        }
        buffer
    };
    let (x, y) = (far(&inputs.x), far(&[]));
    let w = gpu.upload(&inputs.w);
    let params = RmsNormFwdParams {
        x: x.address,
        y: y.address,
        w: w.address,
        x_stride: stride as i64,
        y_stride: stride as i64,
        t: 2,
        h: h as i32,
        eps: EPS,
        ..RmsNormFwdParams::default()
    };
    ok("far rows", gpu.launch("rms_norm_fwd_bf16", 1, &params));
    let y: Vec<Bf16> = read_rows(&y, 2, h, stride);
    let want: Vec<f64> = inputs
        .x
        .chunks_exact(h)
        .flat_map(|row| {
            let r = rstd_f64(row);
            row.iter().zip(&inputs.w).map(move |(x, w)| w.to_f64() * x.to_f64() * r).collect::<Vec<_>>()
        })
        .collect();
    assert_close("y", &y, &want, |i| 1e-6 * want[i].abs());
}

/// Bytes that the memory system moves for a launch: whole sectors of 32 bytes.
fn sector_bytes(counts: &Counts) -> u64 {
    32 * (counts.global_read_sectors + counts.global_write_sectors)
}

/// Each pass moves at most 1.1 times what it must (every input read once, every output written once), and shared memory
/// serves every request in one go. At the model's width, with rows and blocks for a grid as on a device.
fn moves_little<T: Element>() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else {
        return;
    };
    let (t, h) = (192, 2688);
    let inputs = Inputs::<T>::new(&mut random, (t, h, 0));
    let rows = (t * h * size_of::<T>()) as u64;
    let (w, rstd, dw) = ((h * size_of::<T>()) as u64, t as u64 * 4, h as u64 * 4);

    let case = ForwardCase { kernel: "rms_norm_fwd", grid: 6, with_b: true, x_out: XOut::Apart, shift: 0, eps: EPS };
    let left = ok("forward", forward(&gpu, &inputs, case));
    let (moved, least) = (sector_bytes(&left.counts), 4 * rows + w + rstd);
    assert!(moved * 10 <= least * 11, "forward moves {moved} bytes, {least} would do");
    assert!(moved >= least, "the count of bytes is too low");
    assert_eq!(left.counts.shared_conflicts, 0);

    let x_out = inputs.x_out(true);
    let case = BackwardCase { naive: false, grid: 6, block_tokens: 32, accumulate: true, shift: 0, odd: None };
    let left = ok("backward", backward(&gpu, &inputs, &x_out, case));
    let moved: u64 = left.counts.iter().map(sector_bytes).sum();
    let least = 4 * rows + w + rstd + 2 * dw;
    assert!(moved * 10 <= least * 11, "backward moves {moved} bytes, {least} would do");
    assert!(left.counts.iter().all(|c| c.shared_conflicts == 0));
}

#[test]
fn bf16_moves_few_bytes_without_conflicts() {
    moves_little::<Bf16>();
}

#[test]
fn f32_moves_few_bytes_without_conflicts() {
    moves_little::<f32>();
}
