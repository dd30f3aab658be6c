//! Launches for the kernels of fills, sums, embedding, routing and the optimizer step.

use std::hash::{Hash, Hasher};

use super::virtual_gpu::embed::{Lookup, fill, roll, segments, sum_blocks};
use super::virtual_gpu::routing::{Router, combine, noise, product, relu2, sort};
use super::virtual_gpu::{Bf16, Element, Random, Trouble, VirtualGpu, optim};

/// Launches that reach every path of `kernel`, hashed; none when the kernel is of another family.
pub fn shapes(
    kernel: &str,
    gpu: &VirtualGpu,
    random: &mut Random,
    hasher: &mut impl Hasher,
) -> Option<Result<(), Trouble>> {
    let left = match kernel {
        "fill" => fills(gpu),
        "sum_blocks_f32" => sums::<f32>(gpu, random),
        "sum_blocks_bf16" => sums::<Bf16>(gpu, random),
        "segments" => documents(gpu),
        "roll" => rolls(gpu),
        "embedding_fwd_bf16" => lookups(|l| l.forward(gpu, random)),
        "embedding_bwd_f32" => lookups(|l| l.backward::<f32>(gpu, random, l.t % 2 == 0)),
        "embedding_bwd_bf16" => lookups(|l| l.backward::<Bf16>(gpu, random, l.t % 2 == 0)),
        "relu2_fwd_bf16" | "relu2_bwd_bf16" => squares(gpu, random, kernel.contains("bwd")),
        "combine_bf16" => combinations(gpu, random),
        "sort_count" | "sort_scan" | "sort_scatter" => sorts(gpu, random),
        "router_noise" => noises(gpu),
        "router_select" | "router_part" | "router_rows" | "router_totals" | "router_dlogits" => routers(gpu, random),
        name if name.starts_with("router_logits") || name.starts_with("router_d") => products(gpu, random, name),
        "grad_squares_f32" => norms::<f32>(gpu, random),
        "grad_squares_bf16" => norms::<Bf16>(gpu, random),
        "step_control" => controls(gpu, random),
        "adamw_f32" => updates::<f32>(gpu, random),
        "adamw_bf16" => updates::<Bf16>(gpu, random),
        "expert_bias_update" => biases(gpu, random),
        _ => return None,
    };
    Some(left.map(|left| left.hash(hasher)))
}

type Left = Result<Vec<Vec<u8>>, Trouble>;

fn fills(gpu: &VirtualGpu) -> Left {
    // A piece is 16 KiB, written wide where the row is aligned and whole, else 256 elements at a time, in loops that are
    // unrolled by four.
    let mut left = Vec::new();
    for size in [2, 4, 8] {
        let piece = (16 << 10) / size;
        for (rows, cols, pad) in [
            (2, 2 * piece, 0),
            (2, piece + 8, 8),
            (2, piece - 1, 2),
            (2, piece + 1300, 1),
            (1, 300, 0),
            (2, 600, 1),
            (2, 900, 0),
            (3, 1100, 1),
        ] {
            left.push(fill(gpu, (rows, cols, pad), size)?);
        }
    }
    Ok(left)
}

fn sums<G: Element>(gpu: &VirtualGpu, random: &mut Random) -> Left {
    let blocks = [0, 1, 15, 17, 101, 16 * 8, 16 * 17 - 3].into_iter().enumerate();
    blocks.map(|(i, blocks)| sum_blocks::<G>(gpu, random, (blocks, [45, 32, 7][i % 3], i % 4), i % 2 == 1)).collect()
}

fn documents(gpu: &VirtualGpu) -> Left {
    let cuts: [(usize, usize, &[i32]); 5] = [
        (1, 1, &[]),
        (9, 9, &[0, 0, 1, 1, 3, 6, 8, 9, 9]),
        (300, 100, &[7, 100, 150, 255, 256, 257]),
        (257, 257, &[-4, 256, 300]),
        (256, 64, &[63]),
    ];
    cuts.into_iter().map(|(t, row_len, cuts)| segments(gpu, t, row_len, cuts)).collect()
}

fn rolls(gpu: &VirtualGpu) -> Left {
    [(1, 1), (255, 10), (257, 257), (256, 1), (300, 128)].into_iter().map(|(t, length)| roll(gpu, t, length)).collect()
}

fn lookups(mut run: impl FnMut(Lookup) -> Result<Vec<u8>, Trouble>) -> Left {
    // Columns in pieces of 256 elements or packs, in loops that are unrolled by four.
    let cases = [
        (1, 1, 1, [0, 0]),
        (24, 5, 24, [8, 0]),
        (31, 40, 7, [1, 3]),
        (10, 3, 2056, [0, 8]),
        (12, 3, 2064, [1, 8]),
        (11, 4, 300, [4, 4]),
        (5, 2, 1300, [1, 4]),
        (3, 2, 600, [4, 1]),
        (4, 2, 900, [4, 1]),
        (4, 3, 10_248, [8, 0]),
        (4, 3, 6152, [0, 8]),
        (2, 1, 4104, [0, 8]),
    ];
    cases.into_iter().map(|(t, v, h, pads)| run(Lookup { t, v, h, pads })).collect()
}

fn squares(gpu: &VirtualGpu, random: &mut Random, backward: bool) -> Left {
    let cases = [
        ((1, 1), [0; 3]),
        ((2, 2056), [8, 0, 16]),
        ((3, 257), [1, 2, 3]),
        ((5, 16), [0, 8, 1]),
        ((4, 2048), [8, 4, 0]),
        ((4, 2048), [4, 0, 8]),
    ];
    cases.into_iter().map(|(shape, pads)| relu2(gpu, random, shape, pads, backward)).collect()
}

fn combinations(gpu: &VirtualGpu, random: &mut Random) -> Left {
    let cases = [((1, 1, 1), 0), ((5, 2, 2064), 8), ((4, 3, 257), 1), ((6, 5, 16), 0), ((2, 0, 24), 8)];
    let sides = [(false, false), (true, false), (false, true), (true, true), (true, true)];
    cases.into_iter().zip(sides).map(|((shape, pad), sides)| combine(gpu, random, shape, pad, sides)).collect()
}

fn sorts(gpu: &VirtualGpu, random: &mut Random) -> Left {
    // Tiles of 256 items are eight rounds of a warp, of 64 two; 1024 digits are all that there is room for.
    let cases = [
        ((0, 3), None),
        ((1, 1), None),
        ((63, 4), None),
        ((200, 9), None),
        ((256, 40), None),
        ((700, 127), None),
        ((1000, 6), None),
        ((129, 1023), None),
        ((430, 1023), None),
        ((300, 700), Some((0, 5))),
        ((300, 700), Some((5, 5))),
        ((601, 1000), Some((2, 8))),
    ];
    let mut left = Vec::new();
    for (sizes, digit) in cases {
        for tile in [64, 256] {
            left.push(sort(gpu, random, sizes, digit, tile)?);
        }
    }
    Ok(left)
}

fn noises(gpu: &VirtualGpu) -> Left {
    [(1, 1), (3, 5), (20, 13)].into_iter().map(|sizes| noise(gpu, sizes)).collect()
}

fn routers(gpu: &VirtualGpu, random: &mut Random) -> Left {
    // Lanes take experts and choices 32 at a time, threads of the statistics 128; rows and chunks are summed in loops that
    // are unrolled by four.
    let sizes = [
        (1, 1, 1, 1),
        (2, 5, 8, 2),
        (1, 65, 40, 6),
        (3, 64, 5, 5),
        (1, 130, 33, 3),
        (2, 2, 300, 8),
        (1, 3, 170, 165),
        (7, 2, 9, 3),
        (1, 390, 4, 2),
        (2, 300, 6, 4),
    ];
    let cases = sizes.into_iter().enumerate().map(|(i, (rows, row_len, e, k))| Router {
        rows,
        row_len,
        e,
        k,
        normalize: i % 2 == 0,
        aux: i % 3 != 1,
        padding: i % 4 < 2,
        forced: i % 4 == 3,
        per_token: i % 2 == 1,
    });
    cases.map(|case| case.run(gpu, random)).collect()
}

fn products(gpu: &VirtualGpu, random: &mut Random, kernel: &str) -> Left {
    let shapes =
        [(1, 1, 1), (33, 31, 40), (32, 64, 32), (40, 33, 65), (5, 70, 0), (64, 64, 64), (70, 65, 100), (20, 9, 31)];
    let shapes = shapes.into_iter().enumerate();
    shapes.map(|(i, shape)| product(gpu, random, kernel, shape, i % 2 == 1)).collect()
}

fn norms<G: Element>(gpu: &VirtualGpu, random: &mut Random) -> Left {
    [1, 15, 17, 16_383, 16_385, 17 * 16_384 + 5].into_iter().map(|n| optim::squares::<G>(gpu, random, n)).collect()
}

fn controls(gpu: &VirtualGpu, random: &mut Random) -> Left {
    let shapes = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 1), (4, 2), (4, 3)];
    let samples = [0, 50, 99, 100, 101, 500, 700, 701, 850, 999, 1000, 1001];
    let mut left = Vec::new();
    for (i, (decay, style)) in shapes.into_iter().enumerate() {
        for (j, samples) in samples.into_iter().enumerate() {
            let blocks = [0, 1, 7, 1024, 1025][(i + j) % 5];
            let tokens = [None, Some(0.0), Some(37.0)][j % 3];
            let clip = [0.0, 1.0, 1e9][(i + j) % 3];
            left.push(optim::control(gpu, random, (blocks, samples), tokens, (decay, style, clip))?);
        }
    }
    Ok(left)
}

fn updates<G: Element>(gpu: &VirtualGpu, random: &mut Random) -> Left {
    let cases = [
        (1, (true, true, false)),
        (255, (false, true, false)),
        (1025, (true, false, false)),
        (600, (true, true, true)),
    ];
    cases.into_iter().map(|(n, how)| optim::adamw::<G>(gpu, random, n, how)).collect()
}

fn biases(gpu: &VirtualGpu, random: &mut Random) -> Left {
    let cases: [Vec<i32>; 4] = [vec![5], vec![17; 40], random.integers(257, 1000), vec![0, 0, i32::MAX, 0]];
    cases.iter().map(|counts| optim::expert_bias(gpu, random, counts)).collect()
}
