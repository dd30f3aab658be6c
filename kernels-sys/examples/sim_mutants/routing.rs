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
    // A piece has 8192 elements of 2 bytes, 4096 of 4, 2048 of 8: whole pieces, aligned and not, and ends of every number
    // of rounds of 256 threads, up to more than the unrolled ones.
    let mut shapes = Vec::new();
    for (size, piece) in [(2, 8192), (4, 4096), (8, 2048)] {
        shapes.extend([
            (1, piece, 0, size),
            (2, piece, 16 / size, size),
            (2, piece, 1, size),
            (3, 2 * piece + 8, 8, size),
        ]);
        shapes.extend([300, 700, 900, 1030, 1500].map(|end| (2, piece + end, end % 3, size)));
        shapes.extend([(1, 255, 0, size), (4, 256, 1, size)]);
    }
    shapes.into_iter().map(|(rows, cols, pad, size)| fill(gpu, (rows, cols, pad), size)).collect()
}

fn sums<G: Element>(gpu: &VirtualGpu, random: &mut Random) -> Left {
    let blocks = [0, 1, 15, 17, 101, 16 * 8, 16 * 17 - 3].into_iter().enumerate();
    blocks.map(|(i, blocks)| sum_blocks::<G>(gpu, random, (blocks, [45, 32, 7][i % 3], i % 4), i % 2 == 1)).collect()
}

fn documents(gpu: &VirtualGpu) -> Left {
    let cuts: [(usize, usize, &[i32]); 6] = [
        // A row of 2^32 tokens and few more: its length has more than 32 bits.
        (9, (1 << 32) + 3, &[2, 6]),
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
        (1, 1, 1, [0, 0], None),
        (24, 5, 24, [8, 0], None),
        (31, 40, 7, [1, 3], None),
        (10, 3, 2056, [0, 8], None),
        (12, 3, 2064, [1, 8], None),
        (11, 4, 300, [4, 4], None),
        // More than four times what the threads of a block take at once.
        (6, 3, 5 * 2048 + 16, [0, 8], None),
        (7, 3, 9 * 256 + 5, [1, 0], None),
        // One operand alone is not aligned.
        (6, 2, 16, [4, 0], None),
        (7, 2, 16, [0, 4], None),
        (6, 2, 16, [0, 0], Some(0)),
        (7, 2, 16, [0, 0], Some(1)),
    ];
    cases.into_iter().map(|(t, v, h, pads, odd)| run(Lookup { t, v, h, pads, odd })).collect()
}

/// Which of `operands` has rows that are not aligned, or starts where nothing is; one at a time.
fn odd_ones<const N: usize>() -> impl Iterator<Item = ([usize; N], Option<usize>)> {
    let rows = (0..N).map(|odd| (std::array::from_fn(|i| if i == odd { 4 } else { 0 }), None));
    rows.chain((0..N).map(|odd| ([0; N], Some(odd))))
}

fn squares(gpu: &VirtualGpu, random: &mut Random, backward: bool) -> Left {
    let cases = [
        ((1, 1), [0; 3]),
        ((2, 2056), [8, 0, 16]),
        ((3, 257), [1, 2, 3]),
        ((5, 16), [0, 8, 1]),
        ((4, 2048), [8, 4, 0]),
        ((4, 2048), [4, 0, 8]),
        ((1, 16), [0; 3]),
        ((3, 20), [4; 3]),
    ];
    let cases = cases.map(|(shape, pads)| (shape, pads, None)).into_iter();
    let odd = odd_ones().map(|(pads, odd)| ((2, 24), pads, odd));
    cases.chain(odd).map(|(shape, pads, odd)| relu2(gpu, random, shape, pads, odd, backward)).collect()
}

fn combinations(gpu: &VirtualGpu, random: &mut Random) -> Left {
    let cases = [
        ((1, 1, 1), 0),
        ((5, 2, 2064), 8),
        ((4, 3, 37), 3),
        ((3, 4, 261), 1),
        ((6, 5, 16), 0),
        ((2, 0, 24), 8),
        ((3, 2, 20), 4),
    ];
    let mut left = Vec::new();
    for sides in [(false, false), (true, false), (false, true), (true, true)] {
        for (shape, pad) in cases {
            left.push(combine(gpu, random, shape, [pad; 4], None, sides)?);
        }
        for (pads, odd) in odd_ones() {
            left.push(combine(gpu, random, (2, 3, 24), pads, odd, sides)?);
        }
    }
    Ok(left)
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
    // The later ones: more choices, experts, chunks and rows than the unrolled loops take at once.
    let sizes = [
        (1, 1, 1, 1),
        (2, 5, 8, 2),
        (1, 65, 40, 6),
        (3, 64, 5, 5),
        (1, 130, 33, 3),
        (2, 2, 300, 8),
        (1, 3, 140, 130),
        (3, 3, 140, 101),
        (9, 2, 150, 3),
        (1, 64 * 9 + 1, 9, 2),
        (5, 64 * 4 + 3, 130, 2),
        (1, 2, 200, 99),
        (140, 1, 6, 2),
        (1, 3, 70, 0),
    ];
    let cases = sizes.into_iter().enumerate().map(|(i, (rows, row_len, e, k))| Router {
        rows,
        row_len,
        e,
        k,
        normalize: i % 2 == 0,
        aux: i % 3 != 1,
        padding: i % 4 < 2,
        forced: i % 8 == 3,
        per_token: i % 2 == 1 || rows > 100,
    });
    cases.map(|case| case.run(gpu, random)).collect()
}

fn products(gpu: &VirtualGpu, random: &mut Random, kernel: &str) -> Left {
    // Whole tiles, more than one, and tiles that end in each of the eight rounds in which they are loaded.
    let ends = (0..8).map(|i| (4 * i + 1, 4 * ((i + 3) % 8) + 2, 4 * ((i + 5) % 8) + 3));
    let shapes = [(33, 31, 40), (32, 64, 32), (40, 33, 65), (5, 70, 0)].into_iter().chain(ends);
    let cases = shapes.flat_map(|shape| [(shape, false), (shape, true)]);
    cases.map(|(shape, accumulate)| product(gpu, random, kernel, shape, accumulate)).collect()
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
