//! Projections with and without an adapter, forward and backward.

use super::compare::{Bound, Case, check_naive, check_with_gaps, fresh, real_tokens};
use super::support::unit::Unit;
use lightning_core::gpu::{GpuDevice, GpuOptions};
use lightning_core::ops::{Adapter, AdapterGradients, LinearBwd, LinearFwd};
use lightning_core::tensor::{DType, Tensor};

/// Sizes of a projection, rank of its adapter (0: none), and what is written how.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    t: usize,
    o: usize,
    i: usize,
    r: usize,
    frozen: bool,
    accumulate: (bool, bool),
}

/// Forward and backward of one projection with operands drawn from a stream.
fn projection(sizes: Sizes, gaps: &[usize], rng: &mut super::support::random::Random) {
    let Sizes { t, o, i, r, frozen, accumulate } = sizes;
    let [x, dx] = [(); 2].map(|()| rng.normals(t * i, 1.0));
    let dy = rng.normals(t * o, 1.0);
    let w = rng.normals(o * i, 1.0);
    let (a, b) = (rng.normals(r * i, 1.0), rng.normals(o * r, 1.0));
    check_with_gaps(&format!("{sizes:?}"), gaps, |u| {
        let (xt, wt, y) = (u.act(t, i, &x), u.act(o, i, &w), u.out(t, o));
        let dyt = u.act(t, o, &dy);
        let dxt = if accumulate.0 { u.act(t, i, &dx) } else { u.out(t, i) };
        let dw = (!frozen).then(|| u.gradient(o, i, accumulate.1));
        let adapter = (r > 0).then(|| {
            let (at, bt, ut) = (u.act(r, i, &a), u.act(o, r, &b), u.out(t, r));
            let (da, db) = (u.gradient(r, i, accumulate.1), u.gradient(o, r, accumulate.1));
            let gradients = AdapterGradients { da, db, accumulate: accumulate.1, v: u.out(t, r) };
            (Adapter { a: at, b: bt, scale: 0.75, u: ut }, gradients)
        });
        let ops = vec![
            LinearFwd { x: xt, w: wt, y, adapter: adapter.map(|(a, _)| a) }.into(),
            LinearBwd {
                dy: dyt,
                x: xt,
                w: wt,
                dx: Some(dxt),
                accumulate_dx: accumulate.0,
                dw,
                accumulate_dw: accumulate.1,
                adapter,
            }
            .into(),
        ];
        let mut results = vec![("y", y, Bound::Value), ("dx", dxt, Bound::Gradient)];
        results.extend(dw.map(|dw| ("dw", dw, Bound::Gradient)));
        if let Some((adapter, gradients)) = adapter {
            results.extend([
                ("u", adapter.u, Bound::Value),
                ("v", gradients.v, Bound::Gradient),
                ("da", gradients.da, Bound::Gradient),
                ("db", gradients.db, Bound::Gradient),
            ]);
        }
        Case { ops, results }
    });
}

#[test]
fn linear_at_ugly_sizes() {
    let mut rng = fresh("linear_at_ugly_sizes");
    for (t, o, i) in [(1, 1, 1), (3, 7, 5), (64, 64, 32), (65, 63, 33), (0, 9, 4), (31, 129, 80)] {
        for r in [0, 3] {
            let accumulate = (rng.chance(0.5), rng.chance(0.5));
            projection(Sizes { t, o, i, r, frozen: r > 0, accumulate }, &[0, 8, 1], &mut rng);
        }
    }
}

/// Weight gradients in bf16 (`grad_accum_dtype`), overwritten and added to.
#[test]
fn linear_weight_gradient_in_bf16() {
    let mut rng = fresh("linear_weight_gradient_in_bf16");
    for accumulate in [false, true] {
        let (t, o, i) = (40, 24, 72);
        let [x, dy, w, start] = [t * i, t * o, o * i, o * i].map(|n| rng.normals(n, 1.0));
        check_with_gaps(&format!("accumulate {accumulate}"), &[0, 8, 1], |u: &mut Unit| {
            let (xt, wt, dyt) = (u.act(t, i, &x), u.act(o, i, &w), u.act(t, o, &dy));
            let dw: Tensor = if accumulate { u.act(o, i, &start) } else { u.out(o, i) };
            assert!(u.act == DType::F64 || dw.dtype == DType::BF16);
            let op = LinearBwd {
                dy: dyt,
                x: xt,
                w: wt,
                dx: None,
                accumulate_dx: false,
                dw: Some(dw),
                accumulate_dw: accumulate,
                adapter: None,
            };
            Case { ops: vec![op.into()], results: vec![("dw", dw, Bound::Gradient)] }
        });
    }
}

#[test]
fn linear_equals_the_naive_products() {
    let mut rng = fresh("linear_equals_the_naive_products");
    let (t, o, i) = (70, 136, 72);
    let [x, dy, w, dx] = [t * i, t * o, o * i, t * i].map(|n| rng.normals(n, 1.0));
    check_naive("70 x 136 x 72", |u| {
        let (xt, wt, dyt) = (u.act(t, i, &x), u.act(o, i, &w), u.act(t, o, &dy));
        let (y, dxt, dw) = (u.out(t, o), u.act(t, i, &dx), u.gradient(o, i, false));
        let backward = LinearBwd {
            dy: dyt,
            x: xt,
            w: wt,
            dx: Some(dxt),
            accumulate_dx: true,
            dw: Some(dw),
            accumulate_dw: false,
            adapter: None,
        };
        let ops = vec![LinearFwd { x: xt, w: wt, y, adapter: None }.into(), backward.into()];
        Case { ops, results: vec![("y", y, Bound::Value), ("dx", dxt, Bound::Gradient), ("dw", dw, Bound::Gradient)] }
    });
}

/// Kernels of y = x w^T with rows of x, w and y `gap` elements apart, the window of x starting `shift` elements into a
/// row.
fn kernels_of(t: usize, o: usize, i: usize, gap: usize, shift: usize, naive: bool) -> Vec<&'static str> {
    let mut u = Unit::new(DType::BF16);
    u.gap = gap;
    let x = u.out(t, i + shift).columns(shift, i);
    let (w, y) = (u.out(o, i), u.out(t, o));
    let program = u.program(vec![LinearFwd { x, w, y, adapter: None }.into()]);
    let options = GpuOptions { naive, ..GpuOptions::default() };
    let mut device = GpuDevice::new(u.table(), &[&program], options).unwrap_or_else(|e| panic!("{e}"));
    device.launches(&program).unwrap_or_else(|e| panic!("{e}")).into_iter().map(|(kernel, _)| kernel).collect()
}

/// Bulk copies need operands that start and step by 16 bytes; everything else takes the plain kernel, decided before
/// anything runs (row 23 of the defect list: no launch that faults).
#[test]
fn linear_takes_the_kernel_that_its_operands_allow() {
    let kernels = kernels_of(128, 128, 64, 0, 0, false);
    assert_eq!(kernels, ["gemm_nt_128"]);
    assert_eq!(kernels_of(128, 128, 64, 8, 8, false), kernels);
    // The last row of a single-row operand is never stepped over.
    assert_eq!(kernels_of(1, 128, 64, 0, 0, false), kernels);
    let plain = ["gemm_plain_nt_bf16"];
    assert_eq!(kernels_of(128, 128, 64, 1, 0, false), plain);
    assert_eq!(kernels_of(128, 128, 64, 4, 0, false), plain);
    assert_eq!(kernels_of(128, 128, 64, 4, 4, false), plain);
    assert_eq!(kernels_of(128, 128, 63, 0, 0, false), plain);
    assert_eq!(kernels_of(128, 128, 0, 0, 0, false), plain);
    assert_eq!(kernels_of(128, 128, 64, 0, 0, true), ["gemm_naive_bf16"]);
    assert!(kernels_of(0, 128, 64, 0, 0, false).is_empty());
}

#[test]
fn linear_of_the_real_model() {
    let mut rng = fresh("linear of the real model");
    let t = real_tokens();
    // in_proj, QKV and the shared expert on a device; a slice of them on the virtual GPU.
    let widths = if t > 100 { vec![(10304, 2688), (4608, 2688), (2688, 3712)] } else { vec![(464, 2688)] };
    for (o, i) in widths {
        projection(Sizes { t, o, i, r: 0, frozen: false, accumulate: (false, true) }, &[0], &mut rng);
    }
}
