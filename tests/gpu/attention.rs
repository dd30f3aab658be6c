//! Causal grouped-query attention.

use super::compare::{Bound, Case, check_naive, check_with_gaps, device, fresh, real_tokens};
use super::support::random::Random;
use super::support::relative_l2;
use super::support::unit::Unit;
use lightning_core::gpu::Execution;
use lightning_core::ops::{AttentionBwd, AttentionFwd, AttentionShape};
use lightning_core::tensor::{DType, Tensor};

struct Setup {
    shape: AttentionShape,
    t: usize,
    /// First tokens of documents, beside the starts of rows.
    offsets: Vec<i32>,
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    dout: Vec<f64>,
}

impl Setup {
    fn new(rng: &mut Random, rows: usize, row_len: usize, heads: (usize, usize), head_dim: usize) -> Self {
        let t = rows * row_len;
        let shape = AttentionShape {
            heads: heads.0,
            kv_heads: heads.1,
            head_dim,
            row_len,
            scale: 1.0 / (head_dim as f64).sqrt(),
        };
        let (wide, narrow) = (heads.0 * head_dim, heads.1 * head_dim);
        Self {
            shape,
            t,
            offsets: Vec::new(),
            q: rng.normals(t * wide, 2.0),
            k: rng.normals(t * narrow, 1.0),
            v: rng.normals(t * narrow, 1.0),
            dout: rng.normals(t * wide, 1.0),
        }
    }

    fn ops(&self, u: &mut Unit) -> (AttentionFwd, AttentionBwd) {
        let s = self.shape;
        let (wide, narrow) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let (start, _) = u.bounds(self.t, s.row_len, &self.offsets);
        let fwd = AttentionFwd {
            shape: s,
            q: u.act(self.t, wide, &self.q),
            k: u.act(self.t, narrow, &self.k),
            v: u.act(self.t, narrow, &self.v),
            start,
            o: u.out(self.t, wide),
            lse: u.out_acc(self.t, s.heads),
        };
        let bwd = AttentionBwd {
            fwd: fwd.clone(),
            dout: u.act(self.t, wide, &self.dout),
            dq: u.out(self.t, wide),
            dk: u.out(self.t, narrow),
            dv: u.out(self.t, narrow),
        };
        (fwd, bwd)
    }

    fn case(&self, u: &mut Unit) -> Case {
        let (fwd, bwd) = self.ops(u);
        let results = vec![
            ("o", fwd.o, Bound::Value),
            ("lse", fwd.lse, Bound::Value),
            ("dq", bwd.dq, Bound::Gradient),
            ("dk", bwd.dk, Bound::Gradient),
            ("dv", bwd.dv, Bound::Gradient),
        ];
        Case { ops: vec![fwd.into(), bwd.into()], results }
    }

    fn label(&self) -> String {
        format!("{} tokens, {:?}, documents at {:?}", self.t, self.shape, self.offsets)
    }

    /// Results of this process's GPU device.
    fn run(&self) -> Vec<Vec<f64>> {
        let mut u = Unit::new(DType::BF16);
        let case = self.case(&mut u);
        let mut gpu = device(&u, case.ops, Execution::Launches);
        gpu.run(&u);
        case.results.iter().map(|(_, t, _)| gpu.get(*t)).collect()
    }
}

#[test]
fn attention() {
    let mut rng = fresh("attention");
    // Rows around the tiles of 64 and 32, head sizes around the 16 channels of a step and the most that fit.
    for (rows, row_len, heads, head_dim, gaps) in [
        (1, 1, (1, 1), 1, &[0][..]),
        (2, 33, (3, 1), 5, &[0, 1]),
        (1, 63, (4, 2), 16, &[0, 8, 1]),
        (1, 64, (2, 2), 17, &[0]),
        (2, 65, (2, 1), 24, &[8]),
        (1, 129, (2, 1), 128, &[0]),
    ] {
        let mut setup = Setup::new(&mut rng, rows, row_len, heads, head_dim);
        if rng.chance(0.5) {
            let count = rng.range(1, 4);
            setup.offsets = rng.offsets(setup.t, count);
        }
        check_with_gaps(&setup.label(), gaps, |u| setup.case(u));
    }
}

/// Pitfall B62; row 12 of the defect list: documents of 0, 1, 2 and 3 tokens at the start, in the middle and at the end.
#[test]
fn pitfall_b62_documents_without_tokens_and_of_a_few() {
    let mut rng = fresh("attention, short documents");
    let mut setup = Setup::new(&mut rng, 1, 70, (2, 1), 12);
    setup.offsets = vec![0, 0, 1, 3, 6, 6, 6, 31, 32, 33, 64, 65, 67, 68, 69, 70, 70];
    check_with_gaps(&setup.label(), &[0, 1], |u| setup.case(u));
    let mut alone = Setup::new(&mut rng, 1, 40, (2, 2), 8);
    alone.offsets = (0..40).collect();
    check_with_gaps(&alone.label(), &[0], |u| alone.case(u));
    // A token alone in its document is its own value, whatever its score, and no gradient reaches its query and key.
    let results = alone.run();
    assert_eq!(results[0], alone.v, "every probability is 1");
    assert_eq!(results[4], alone.dout);
}

/// Row 8 of the defect list: documents in a pack attend as if each were alone.
#[test]
fn a_pack_equals_its_documents() {
    let mut rng = fresh("attention, packs");
    let mut pack = Setup::new(&mut rng, 1, 101, (2, 1), 16);
    pack.offsets = vec![37, 40];
    let packed = pack.run();
    for (first, end) in [(0, 37), (37, 40), (40, 101)] {
        let rows = |values: &[f64]| {
            let cols = values.len() / pack.t;
            values[first * cols..end * cols].to_vec()
        };
        let alone = Setup {
            shape: AttentionShape { row_len: end - first, ..pack.shape },
            t: end - first,
            offsets: Vec::new(),
            q: rows(&pack.q),
            k: rows(&pack.k),
            v: rows(&pack.v),
            dout: rows(&pack.dout),
        };
        for (packed, alone) in packed.iter().zip(alone.run()) {
            let error = relative_l2(&rows(packed), &alone);
            // Keys come in other groups, so sums are rounded elsewhere.
            assert!(error < 2e-3, "{first}..{end}: {error:.2e}");
        }
    }
}

/// Rows 15, 16 and 25 of the defect list: inputs with structure (low rank, repeated tokens, outliers), large scores.
#[test]
fn attention_of_structured_inputs() {
    let mut rng = fresh("attention, structured inputs");
    let mut setup = Setup::new(&mut rng, 2, 70, (4, 2), 32);
    for t in 0..setup.t {
        let width = setup.k.len() / setup.t;
        for c in 0..width {
            // Every third token repeats; keys have rank 2 and one channel far larger than the others.
            let at = t - t % 3;
            setup.k[t * width + c] =
                half::bf16::from_f64((at as f64 * 0.11).sin() + 0.25 * c as f64 / width as f64).to_f64();
            setup.v[t * width + c] = setup.v[at * width + c];
        }
        setup.k[t * width] = 24.0;
    }
    for q in setup.q.iter_mut().step_by(5) {
        *q *= 16.0;
    }
    check_with_gaps(&setup.label(), &[0], |u| setup.case(u));
}

/// Row 14 of the defect list, pitfall B64: windows of a wider matrix whose other columns hold NaN, output and gradient
/// with row distances of their own.
#[test]
fn pitfall_b64_attention_reads_windows_of_a_fused_projection() {
    let mut rng = fresh("attention, windows");
    for head_dim in [16, 7] {
        let setup = Setup::new(&mut rng, 1, 67, (2, 1), head_dim);
        check_with_gaps(&setup.label(), &[0], |u| {
            let (mut fwd, mut bwd) = setup.ops(u);
            // q | NaN | k | v in one matrix, as the projection leaves them, and their gradients likewise.
            let (wide, narrow) = (2 * head_dim, head_dim);
            let width = wide + 3 + 2 * narrow;
            let mut values = vec![f64::NAN; setup.t * width];
            for t in 0..setup.t {
                let row = &mut values[t * width..][..width];
                row[..wide].copy_from_slice(&setup.q[t * wide..][..wide]);
                row[wide + 3..wide + 3 + narrow].copy_from_slice(&setup.k[t * narrow..][..narrow]);
                row[wide + 3 + narrow..].copy_from_slice(&setup.v[t * narrow..][..narrow]);
            }
            let all = u.act(setup.t, width, &values);
            let gradients = u.out(setup.t, width);
            let windows = |all: Tensor| {
                [all.columns(0, wide), all.columns(wide + 3, narrow), all.columns(wide + 3 + narrow, narrow)]
            };
            [fwd.q, fwd.k, fwd.v] = windows(all);
            [bwd.dq, bwd.dk, bwd.dv] = windows(gradients);
            bwd.fwd = fwd.clone();
            let results = vec![
                ("o", fwd.o, Bound::Value),
                ("dq", bwd.dq, Bound::Gradient),
                ("dk", bwd.dk, Bound::Gradient),
                ("dv", bwd.dv, Bound::Gradient),
            ];
            Case { ops: vec![fwd.into(), bwd.into()], results }
        });
    }
}

#[test]
fn attention_agrees_with_the_naive_kernels() {
    let mut rng = fresh("attention, naive");
    let mut setup = Setup::new(&mut rng, 2, 37, (4, 2), 20);
    setup.offsets = vec![5, 6, 50];
    check_naive(&setup.label(), |u| setup.case(u));
    // Heads that are wider than the tensor-core kernels take.
    let wide = Setup::new(&mut rng, 1, 9, (2, 1), 130);
    check_with_gaps(&wide.label(), &[0], |u| wide.case(u));
}

#[test]
fn attention_without_tokens_launches_nothing() {
    let mut rng = fresh("attention, no tokens");
    let setup = Setup::new(&mut rng, 0, 8, (2, 1), 16);
    assert!(setup.run().iter().all(Vec::is_empty));
}

#[test]
fn attention_of_the_real_model() {
    let mut rng = fresh("attention of the real model");
    let setup = Setup::new(&mut rng, 1, real_tokens(), (32, 2), 128);
    check_with_gaps(&setup.label(), &[4608 - 4096], |u| setup.case(u));
}
