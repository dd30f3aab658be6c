//! Document bounds, rolls, the token embedding.

use super::compare::{Bound, Case, check, check_with_gaps, fresh};
use super::reduce::gradient;
use super::support::random::Random;
use lightning_core::ops::{EmbeddingBwd, EmbeddingFwd, Roll, Segments};

/// Ascending offsets within `tokens`, some of them repeated, with ghosts behind.
fn offsets(rng: &mut Random, tokens: usize) -> Vec<i32> {
    let mut offsets: Vec<i32> = (0..rng.range(0, 6)).map(|_| rng.range(0, tokens) as i32).collect();
    offsets.sort_unstable();
    if let (Some(last), true) = (offsets.last().copied(), rng.chance(0.5)) {
        offsets.extend([last; 3]);
    }
    offsets
}

#[test]
fn segments_and_roll() {
    let mut rng = fresh("segments_and_roll");
    let mut cases: Vec<(usize, usize, Vec<i32>)> = [(0, 1), (1, 1), (6, 3), (255, 255), (256, 128), (771, 257)]
        .into_iter()
        .map(|(t, row)| (t, row, offsets(&mut rng, t)))
        .collect();
    // Documents of length 0, 1, 2 and 3, at the ends too.
    cases.push((9, 9, vec![0, 0, 1, 1, 3, 6, 8, 9, 9]));
    for (t, row_len, offsets) in cases {
        let values: Vec<i32> = rng.ints(t, 1000);
        check(&format!("{t} tokens in rows of {row_len}, cuts {offsets:?}"), |u| {
            let cu_seqlens = u.ints(1, offsets.len(), &offsets);
            let (start, end) = (u.out_ints(1, t), u.out_ints(1, t));
            let (src, dst) = (u.ints(1, t, &values), u.out_ints(1, t));
            let ops = vec![Segments { cu_seqlens, row_len, start, end }.into(), Roll { src, end, dst }.into()];
            let results = [("start", start), ("end", end), ("dst", dst)];
            Case { ops, results: results.map(|(name, t)| (name, t, Bound::Exact)).to_vec() }
        });
    }
}

#[test]
fn embedding() {
    let mut rng = fresh("embedding");
    // Vocabularies of one, two and three sort passes; tokens around a tile of 256; one id for all.
    for (t, v, h) in [(0, 3, 8), (1, 1, 1), (5, 40, 33), (257, 3, 64), (300, 700, 9), (40, 300_000, 8), (256, 1, 16)] {
        let (accumulate, bf16_gradient) = (rng.chance(0.5), rng.chance(0.5));
        let ids = rng.ints(t, v);
        let table = if v > 1000 { vec![0.5; v * h] } else { rng.normals(v * h, 1.0) };
        let dy = rng.normals(t * h, 1.0);
        let what = format!("{t} tokens of {v} x {h}, accumulate {accumulate}, bf16 gradient {bf16_gradient}");
        check_with_gaps(&what, if v > 1000 { &[0] } else { &[0, 8, 1] }, |u| {
            let ids = u.ints(1, t, &ids);
            let (table, y, dy) = (u.act(v, h, &table), u.out(t, h), u.act(t, h, &dy));
            let dtable = gradient(u, (v, h), bf16_gradient, accumulate);
            let ops = vec![EmbeddingFwd { ids, table, y }.into(), EmbeddingBwd { ids, dy, dtable, accumulate }.into()];
            // The CPU rounds a bf16 gradient after every token, the kernel once.
            let bound = if bf16_gradient { Bound::Gradient } else { Bound::Exact };
            Case { ops, results: vec![("y", y, Bound::Exact), ("dtable", dtable, bound)] }
        });
    }
}
