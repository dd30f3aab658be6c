//! Causal convolution with SiLU.

use super::compare::{Bound, Case, check_naive, check_with_gaps, fresh, real_tokens};
use super::support::random::Random;
use super::support::unit::Unit;
use lightning_core::ops::{ConvSiluBwd, ConvSiluFwd};
use lightning_core::tensor::Tensor;

/// Sizes and what varies besides.
#[derive(Debug, Clone)]
struct Shape {
    tokens: usize,
    row_len: usize,
    channels: usize,
    taps: usize,
    offsets: Vec<i32>,
    accumulate: bool,
    /// Gradients of the weights in the type of activations instead of f32.
    narrow: bool,
}

/// A weight gradient that starts poisoned or with a value, as f32 or in the type of activations.
pub fn weight_gradient(
    u: &mut Unit,
    rows: usize,
    cols: usize,
    accumulate: bool,
    narrow: bool,
    start: &[f64],
) -> Tensor {
    match (narrow, accumulate) {
        (false, _) => u.gradient(rows, cols, accumulate),
        (true, false) => u.out(rows, cols),
        (true, true) => u.act(rows, cols, start),
    }
}

/// Draws operands and returns how to build the case.
fn conv(rng: &mut Random, s: Shape) -> impl Fn(&mut Unit) -> Case {
    let (t, c, k) = (s.tokens, s.channels, s.taps);
    let [x, dy] = [(); 2].map(|()| rng.normals(t * c, 1.0));
    let (w, b, dw0) = (rng.normals(c * k, 1.0), rng.normals(c, 1.0), rng.normals(c * k, 1.0));
    move |u| {
        let (start, _) = u.bounds(t, s.row_len, &s.offsets);
        let (x, w, b, dy) = (u.act(t, c, &x), u.act(c, k, &w), u.act(1, c, &b), u.act(t, c, &dy));
        let (y, dx) = (u.out(t, c), u.out(t, c));
        let dw = weight_gradient(u, c, k, s.accumulate, s.narrow, &dw0);
        let db = weight_gradient(u, 1, c, s.accumulate, s.narrow, &dw0[..c]);
        let partial = u.out_acc(k + 1, c);
        let accumulate = s.accumulate;
        Case {
            ops: vec![
                ConvSiluFwd { x, w, b, start, y }.into(),
                ConvSiluBwd { dy, x, w, b, start, dx, dw, db, accumulate, partial }.into(),
            ],
            results: vec![
                ("y", y, Bound::Value),
                ("dx", dx, Bound::Gradient),
                ("dw", dw, Bound::Gradient),
                ("db", db, Bound::Gradient),
            ],
        }
    }
}

fn check(rng: &mut Random, gaps: &[usize], s: Shape) {
    let what = format!("{s:?}");
    check_with_gaps(&what, gaps, conv(rng, s));
}

#[test]
fn conv_silu() {
    let mut rng = fresh("conv_silu");
    let row = |rows: usize, row_len: usize, channels: usize, taps: usize| (rows, row_len, channels, taps);
    for (rows, row_len, channels, taps) in [
        row(1, 0, 8, 4),
        row(1, 1, 1, 4),
        row(2, 3, 7, 4),
        row(1, 31, 64, 4),
        row(1, 33, 65, 4),
        row(3, 43, 72, 4),
        row(1, 257, 8, 3),
        row(1, 65, 9, 1),
        row(1, 40, 16, 8),
    ] {
        let tokens = rows * row_len;
        let count = rows + 3;
        let offsets = rng.offsets(tokens, count);
        let (accumulate, narrow) = (rng.chance(0.5), rng.chance(0.5));
        let shape = Shape { tokens, row_len, channels, taps, offsets, accumulate, narrow };
        check(&mut rng, &[0, 8, 1], shape.clone());
        if tokens == 3 * 43 {
            let what = format!("{shape:?}");
            check_naive(&what, conv(&mut rng, shape));
        }
    }
}

/// Lengths around the tiles of 32 and 128 tokens, between guards and with poisoned outputs (kernels.md §3, row 9).
#[test]
fn row09_conv_at_tails_of_tiles() {
    let mut rng = fresh("row09");
    for tokens in [63, 64, 65, 127, 128, 129] {
        let (accumulate, narrow) = (rng.chance(0.5), rng.chance(0.5));
        let offsets = vec![0, tokens as i32 - 1];
        check(&mut rng, &[0], Shape { tokens, row_len: tokens, channels: 8, taps: 4, offsets, accumulate, narrow });
    }
}

/// Documents shorter than the taps, of 0 to 3 tokens, at every place of a tile (kernels.md §3, row 10).
#[test]
fn row10_conv_of_documents_shorter_than_the_taps() {
    let mut rng = fresh("row10");
    let lengths = [1, 2, 3, 0, 1, 1, 26, 2, 0, 0, 3, 90, 1, 2, 3, 1];
    let mut offsets = vec![0];
    for n in lengths {
        offsets.push(offsets.last().unwrap() + n);
    }
    let tokens = *offsets.last().unwrap() as usize + 5;
    for accumulate in [false, true] {
        let narrow = rng.chance(0.5);
        let offsets = offsets.clone();
        check(&mut rng, &[3], Shape { tokens, row_len: tokens, channels: 24, taps: 4, offsets, accumulate, narrow });
    }
}

#[test]
fn conv_of_the_real_model() {
    let mut rng = fresh("conv of the real model");
    let tokens = real_tokens();
    let offsets = rng.offsets(tokens, 3);
    let shape = Shape { tokens, row_len: tokens, channels: 6144, taps: 4, offsets, accumulate: false, narrow: false };
    check(&mut rng, &[10304 - 6144], shape);
}
