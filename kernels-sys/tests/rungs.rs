//! Kernels against their plain rungs on the virtual GPU: sums, sort, embedding gradient, router.

mod virtual_gpu;

use kernels_sys::{EmbeddingBwdParams, RouteParams, RouterProductParams, SortPassParams, SumBlocksParams};
use virtual_gpu::{Bf16, Buffer, Element, Random, Trouble, VirtualGpu};

/// The value of a launch that must go through without a finding.
fn ok<V>(what: &str, outcome: Result<V, Trouble>) -> V {
    outcome.unwrap_or_else(|trouble| panic!("{what}: {trouble}"))
}

/// A virtual GPU with random warp order, and random numbers; none where there are no kernels.
fn start() -> Option<(VirtualGpu, Random)> {
    let mut random = Random::fresh();
    Some((VirtualGpu::new(random.bits())?, random))
}

/// The elements of a buffer as they are after `run`, which gets a copy of `start`.
fn left<T: Element>(what: &str, gpu: &VirtualGpu, start: &[T], run: impl FnOnce(&Buffer<'_>)) -> Vec<T> {
    let buffer = gpu.upload(start);
    run(&buffer);
    ok(what, buffer.check_guards::<T>(what, 1, start.len(), start.len()));
    buffer.read(0, start.len())
}

fn sum_blocks<G: Element>(gpu: &VirtualGpu, random: &mut Random) {
    for (blocks, n, gap) in [(0usize, 1usize, 0usize), (1, 31, 3), (15, 33, 0), (17, 64, 5), (101, 45, 0)] {
        let stride = n + gap;
        let partial: Vec<f32> = random.elements(blocks * stride, 0.0, 1.0);
        let before: Vec<G> = random.elements(n, 0.0, 1.0);
        let source = gpu.upload(&partial);
        for accumulate in [0, 1] {
            let run = |kernel: &str, grid: usize| {
                let name = format!("{kernel}_{}", G::SUFFIX);
                left(&name, gpu, &before, |dst| {
                    let params = SumBlocksParams {
                        partial: source.address,
                        dst: dst.address,
                        partial_stride: stride as i64,
                        blocks: blocks as i64,
                        n: n as i64,
                        accumulate,
                        reserved: 0,
                    };
                    ok(&name, gpu.launch(&name, grid as u64, &params));
                })
            };
            let (got, plain) = (run("sum_blocks", n.div_ceil(32)), run("sum_blocks_naive", n.div_ceil(128)));
            for (c, (a, b)) in got.iter().zip(&plain).enumerate() {
                let size: f64 = (0..blocks).map(|i| f64::from(partial[i * stride + c].abs())).sum();
                let bound = 2.0 * G::HALF_ULP * b.to_f64().abs() + 1e-6 * size;
                assert!((a.to_f64() - b.to_f64()).abs() <= bound, "{blocks} x {n}: column {c}: {a:?}, plainly {b:?}");
            }
        }
    }
}

#[test]
fn sums_of_blocks() {
    let Some((gpu, mut random)) = start() else {
        return;
    };
    sum_blocks::<f32>(&gpu, &mut random);
    sum_blocks::<Bf16>(&gpu, &mut random);
}

/// B46: entries that name no expert (-1, or beyond the last) come behind all others, in order, wherever they stand.
#[test]
fn b46_sort_with_sentinels() {
    let Some((gpu, mut random)) = start() else {
        return;
    };
    for (n, limit) in [(0usize, 1usize), (1, 1), (31, 4), (255, 5), (257, 128), (600, 1023)] {
        let mut key = random.integers(n, limit);
        for (i, key) in key.iter_mut().enumerate() {
            // The first, the last and some in between.
            if i == 0 || i + 1 == n || i % 11 == 3 {
                *key = [-1, i32::MIN, limit as i32, i32::MAX][i % 4];
            }
        }
        let (digits, tiles) = (limit + 1, n.div_ceil(256).max(1));
        let (keys, count) = (gpu.upload(&key), gpu.buffer(4 * digits * tiles, 0));
        let run = |kernels: &[(&str, usize)]| {
            let [out, inverse, first] = [n, n, digits].map(|n| gpu.buffer(4 * n, 0));
            let params = SortPassParams {
                key: keys.address,
                from: 0,
                out: out.address,
                inverse: inverse.address,
                start: first.address,
                count: count.address,
                n: n as i64,
                tile: 256,
                tiles: tiles as i32,
                digits: digits as i32,
                limit: limit as i32,
                shift: 0,
                mask: i32::MAX,
            };
            for (kernel, grid) in kernels {
                ok(kernel, gpu.launch(kernel, *grid as u64, &params));
            }
            ok("out", out.check_guards::<i32>("out", 1, n, n));
            (out.read::<i32>(0, n), inverse.read::<i32>(0, n), first.read::<i32>(0, digits))
        };
        let got = run(&[("sort_count", tiles), ("sort_scan", 1), ("sort_scatter", tiles)]);
        assert_eq!(got, run(&[("sort_naive", digits.div_ceil(128))]), "{n} items of {digits} digits");
        let mut want: Vec<i32> = (0..n as i32).collect();
        let rank = |i: &i32| usize::try_from(key[*i as usize]).map_or(limit, |k| k.min(limit));
        want.sort_by_key(rank);
        assert_eq!(got.0, want);
    }
}

fn embedding_bwd<G: Element>(gpu: &VirtualGpu, random: &mut Random) {
    for (t, v, h) in [(1usize, 1usize, 1usize), (40, 3, 24), (33, 200, 7), (20, 5, 2050)] {
        let mut ids = random.integers(t, v);
        if t > 10 {
            // Ids outside of the table are left out.
            (ids[0], ids[7]) = (-1, v as i32);
        }
        let mut order: Vec<i32> = (0..t as i32).collect();
        order.sort_by_key(|i| if (0..v as i32).contains(&ids[*i as usize]) { ids[*i as usize] } else { v as i32 });
        let dy: Vec<Bf16> = random.elements(t * h, 0.0, 1.0);
        let before: Vec<G> = random.elements(v * h, 0.0, 1.0);
        let (ids, order, dy) = (gpu.upload(&ids), gpu.upload(&order), gpu.upload(&dy));
        for accumulate in [0, 1] {
            let run = |kernel: &str, grid: (usize, usize)| {
                let name = format!("{kernel}_{}", G::SUFFIX);
                left(&name, gpu, &before, |dtable| {
                    let params = EmbeddingBwdParams {
                        ids: ids.address,
                        order: order.address,
                        dy: dy.address,
                        dtable: dtable.address,
                        dy_stride: h as i64,
                        dtable_stride: h as i64,
                        t: t as i64,
                        h: h as i32,
                        v: v as i32,
                        accumulate,
                        reserved: 0,
                    };
                    ok(&name, gpu.launch_grid(&name, [grid.0, grid.1, 1], &params));
                })
            };
            let (got, plain) = (run("embedding_bwd", (t, 1)), run("embedding_bwd_naive", (h.div_ceil(128), v)));
            assert_eq!(got, plain, "{t} tokens of {v} x {h}");
        }
    }
}

#[test]
fn embedding_gradient() {
    let Some((gpu, mut random)) = start() else {
        return;
    };
    embedding_bwd::<f32>(&gpu, &mut random);
    embedding_bwd::<Bf16>(&gpu, &mut random);
}

#[test]
fn router_logits() {
    let Some((gpu, mut random)) = start() else {
        return;
    };
    for (m, n, k) in [(1usize, 1usize, 1usize), (31, 33, 32), (33, 5, 31), (40, 64, 65), (3, 7, 300)] {
        let (a, b): (Vec<Bf16>, Vec<Bf16>) = (random.elements(m * k, 0.0, 1.0), random.elements(n * k, 0.0, 1.0));
        let (a, b) = (gpu.upload(&a), gpu.upload(&b));
        let run = |kernel: &str, grid: (usize, usize)| {
            left(kernel, &gpu, &vec![0.5f32; m * n], |c| {
                let params = RouterProductParams {
                    a: a.address,
                    b: b.address,
                    c: c.address,
                    a_stride: k as i64,
                    b_stride: k as i64,
                    c_stride: n as i64,
                    m: m as i64,
                    n: n as i64,
                    k: k as i64,
                    accumulate: 0,
                    reserved: 0,
                };
                ok(kernel, gpu.launch_grid(kernel, [grid.0, grid.1, 1], &params));
            })
        };
        let plain = run("router_logits_naive_bf16", ((m * n).div_ceil(128), 1));
        assert_eq!(run("router_logits_bf16", (m.div_ceil(32), n.div_ceil(32))), plain, "{m} x {n} x {k}");
    }
}

#[test]
fn router_selection() {
    let Some((gpu, mut random)) = start() else {
        return;
    };
    for (t, e, k) in [(1usize, 1usize, 1usize), (3, 2, 2), (4, 33, 6), (5, 128, 6), (2, 1000, 22)] {
        // Few different values, so that there are ties.
        let coarse = |v: Vec<i32>| v.into_iter().map(|v| (v - 4) as f32 / 4.0).collect::<Vec<_>>();
        let (logits, bias) = (coarse(random.integers(t * e, 9)), coarse(random.integers(e, 3)));
        let (logits, bias) = (gpu.upload(&logits), gpu.upload(&bias));
        for normalize in [0, 1] {
            let run = |kernel: &str, grid: usize| {
                let [idx, weight, plain, total] = [t * k, t * k, t * k, t].map(|n| gpu.buffer(4 * n, 0));
                let params = RouteParams {
                    logits: logits.address,
                    bias: bias.address,
                    forced: 0,
                    idx: idx.address,
                    weight: weight.address,
                    plain: plain.address,
                    total: total.address,
                    logits_stride: e as i64,
                    forced_stride: 0,
                    idx_stride: k as i64,
                    weight_stride: k as i64,
                    t: t as i64,
                    e: e as i32,
                    k: k as i32,
                    scale: 2.5,
                    normalize,
                };
                ok(kernel, gpu.launch(kernel, grid as u64, &params));
                for (name, buffer, n) in [("idx", &idx, t * k), ("weight", &weight, t * k), ("plain", &plain, t * k)] {
                    ok(kernel, buffer.check_guards::<f32>(name, 1, n, n));
                }
                let choices = (idx.read::<i32>(0, t * k), plain.read::<i32>(0, t * k), weight.read::<f32>(0, t * k));
                (choices, total.read::<f32>(0, t))
            };
            let (got, plain) = (run("router_select", t.div_ceil(4)), run("router_select_naive", t.div_ceil(128)));
            assert_eq!(got.0, plain.0, "{t} tokens, {k} of {e}");
            for (a, b) in got.1.iter().zip(&plain.1) {
                assert!((a - b).abs() <= 1e-5 * b, "{t} tokens, {k} of {e}: sums of scores {a} and {b}");
            }
        }
    }
}
