//! The router, forward and backward.

use super::compare::{Bound, Case, check, check_with_gaps, fresh};
use super::reduce::gradient;
use super::support::random::Random;
use super::support::unit::Unit;
use lightning_core::ops::{AuxLoss, RouterBwd, RouterFwd, RouterLogits};
use lightning_core::tensor::DType;

/// Sizes and settings of a case; numbers that are drawn once.
struct Setting {
    rows: usize,
    row_len: usize,
    d: usize,
    experts: usize,
    k: usize,
    normalize: bool,
    aux: Option<Option<usize>>,
    bf16_gradient: bool,
    accumulate: bool,
    x: Vec<f64>,
    w: Vec<f64>,
    bias: Vec<f64>,
    padding: Option<Vec<i32>>,
    forced: Option<Vec<i32>>,
    noise: bool,
    dweight: Vec<f64>,
    dx: Vec<f64>,
}

impl Setting {
    /// Small multiples of 1/8, whose sums of products are exact in any order: the logits are equal on both devices, with
    /// many ties among them.
    fn new(rng: &mut Random, (rows, row_len, d): (usize, usize, usize), (k, experts): (usize, usize)) -> Self {
        let t = rows * row_len;
        let eighths =
            |rng: &mut Random, n: usize| (0..n).map(|_| rng.range(0, 8) as f64 / 8.0 - 0.5).collect::<Vec<_>>();
        let aux = rng.chance(0.7).then(|| rng.chance(0.5).then_some(3));
        Self {
            rows,
            row_len,
            d,
            experts,
            k,
            normalize: rng.chance(0.7),
            aux,
            bf16_gradient: rng.chance(0.5),
            accumulate: rng.chance(0.5),
            x: eighths(rng, t * d),
            w: eighths(rng, experts * d),
            bias: eighths(rng, experts),
            padding: rng.chance(0.5).then(|| rng.mask(t, 0.4)),
            forced: None,
            noise: false,
            dweight: rng.normals(t * k, 1.0),
            dx: rng.normals(t * d, 1.0),
        }
    }

    fn what(&self) -> String {
        let Self { rows, row_len, d, experts, k, aux, .. } = self;
        let padding = self.padding.is_some();
        format!("{rows} x {row_len} x {d}, {k} of {experts} experts, aux {aux:?}, padding {padding}")
    }

    fn build(&self, u: &mut Unit) -> Case {
        let Self { rows, row_len, d, experts, k, .. } = *self;
        let t = rows * row_len;
        let (x, w) = (u.act(t, d, &self.x), u.act(experts, d, &self.w));
        let bias = u.acc(1, experts, &self.bias);
        let source = match (&self.forced, self.noise) {
            (Some(forced), _) => RouterLogits::Forced(u.ints(t, k, forced)),
            (None, true) => RouterLogits::Noise(5 << 40, u.ints(1, 2, &[-7, 11])),
            (None, false) => RouterLogits::Computed,
        };
        let aux = self.aux.map(|micro_batches| AuxLoss {
            coefficient: 0.8,
            micro_batches,
            stats: u.out_acc(rows, experts + 2),
            metric: u.metric(1),
        });
        let counts = u.ints(1, experts, &vec![3; experts]);
        let fwd = RouterFwd {
            x,
            w,
            bias,
            source,
            top_k: k,
            scale: 2.5,
            normalize: self.normalize,
            row_len,
            padding: self.padding.as_ref().map(|p| u.ints(1, t, p)),
            logits: u.out_acc(t, experts),
            idx: u.out_ints(t, k),
            weight: u.out_acc(t, k),
            counts: Some(counts),
            row_counts: u.out_ints(rows, experts),
            aux,
        };
        let bwd = RouterBwd {
            fwd: fwd.clone(),
            dweight: u.acc(t, k, &self.dweight),
            dx: u.act(t, d, &self.dx),
            dw: Some(gradient(u, (experts, d), self.bf16_gradient, self.accumulate)),
            accumulate: self.accumulate,
            dlogits: u.out_acc(t, experts),
            wide: (u.act == DType::BF16).then(|| (u.out_acc(t, d), u.out_acc(experts, d))),
        };
        let mut results = vec![
            ("logits", fwd.logits, Bound::Exact),
            ("idx", fwd.idx, Bound::Exact),
            ("weight", fwd.weight, Bound::Exact),
            ("counts", counts, Bound::Exact),
            ("row_counts", fwd.row_counts, Bound::Exact),
            ("dlogits", bwd.dlogits, Bound::Gradient),
            ("dx", bwd.dx, Bound::Gradient),
            ("dw", bwd.dw.unwrap(), Bound::Gradient),
        ];
        if let Some(aux) = &fwd.aux {
            // The counts of the selection without the bias, and the tokens, are whole numbers.
            results.push(("f and T", aux.stats.columns(0, experts + 1), Bound::Exact));
            results.push(("L", aux.stats.columns(experts + 1, 1), Bound::Value));
            results.push(("metric", aux.metric, Bound::Value));
        }
        Case { ops: vec![fwd.into(), bwd.into()], results }
    }
}

#[test]
fn router_decides_as_the_cpu_device() {
    let mut rng = fresh("router");
    // Warps take 4 tokens of a block, chunks 64 tokens of a row, product tiles 32 rows, columns and terms.
    for (sizes, experts) in [
        ((0, 1, 4), (1, 2)),
        ((1, 1, 1), (1, 1)),
        ((3, 5, 17), (2, 8)),
        ((1, 65, 33), (6, 128)),
        ((2, 64, 32), (3, 33)),
        ((1, 129, 40), (5, 5)),
        ((2, 3, 8), (8, 1000)),
    ] {
        let setting = Setting::new(&mut rng, sizes, experts);
        check_with_gaps(&setting.what(), &[0, 1], |u| setting.build(u));
    }
}

#[test]
fn router_with_forced_experts() {
    let mut rng = fresh("router_forced");
    let mut setting = Setting::new(&mut rng, (2, 37, 12), (3, 9));
    setting.forced = Some((0..74).flat_map(|_| rng.distinct(9, 3)).map(|e| e as i32).collect());
    check(&setting.what(), |u| setting.build(u));
}

/// The seed is fixed: the two devices' logarithms and cosines may differ in the last bit of f64, which moves an f32
/// result once in some ten million draws.
#[test]
fn router_with_noise_logits_draws_as_the_cpu_device() {
    let mut setting = Setting::new(&mut Random::new(9), (2, 33, 4), (4, 15));
    setting.noise = true;
    check(&setting.what(), |u| setting.build(u));
}

/// f32 logits from bf16 operands at the true width: only the sum rounds.
#[test]
fn b44_logits_are_sums_in_f32() {
    let mut rng = fresh("router_logits");
    let mut setting = Setting::new(&mut rng, (1, 3, 2688), (6, 128));
    setting.x = rng.normals(3 * 2688, 1.0);
    setting.w = rng.normals(128 * 2688, 0.02);
    check(&setting.what(), |u| {
        let mut case = setting.build(u);
        case.ops.truncate(1);
        case.results.truncate(1);
        case.results[0].2 = Bound::Value;
        case
    });
}
