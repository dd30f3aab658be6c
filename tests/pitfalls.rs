//! Errors that other trainers made with losses, packing and routing, as tests that bear their numbers in the project's
//! list. Those of the mixers are in `pitfalls_mixers.rs`, of the optimizer in `optimizer.rs`, of data and command line in
//! their crates.

mod support;

use lightning_core::model::Objective;
use lightning_core::ops::*;
use lightning_core::tensor::DType;
use support::random::Random;
use support::unit::Unit;
use support::*;

fn objective(scale: LossScale, aux: f64) -> Objective {
    Objective { scale, mtp_factor: 0.3, aux_coefficient: aux, bias_rate: 1e-3 }
}

fn rolled(values: &[i32], documents: &[(usize, usize)]) -> Vec<i32> {
    let mut out = vec![0; values.len()];
    for &(start, end) in documents {
        out[start..end - 1].copy_from_slice(&values[start + 1..end]);
    }
    out
}

fn as_f64(values: &[i32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// Documents of 3 and 5 tokens in physical slots of 4 and 8: targets never cross, and a document's last real token has
/// none at depth 1.
#[test]
fn b26_mtp_targets_of_packed_and_padded_documents() {
    let mut rng = Random::new(26);
    let config = tiny::config(&mut rng, "M*", Some(("*E", 2)));
    let weights = tiny::weights(&config, &mut rng);
    let documents = [(0, 4), (4, 12)];
    let mut batch = Batch::new(rng.ints(12, config.vocab), rng.ints(12, config.vocab), vec![0; 12]);
    // Real tokens are 0..3 and 4..9; the label of a document's last real token is "none".
    for t in [0, 1, 4, 5, 6, 7] {
        batch.mask[t] = 1;
    }
    batch.offsets = vec![0, 4, 12];
    let mut s = tiny::session(&config, &Options::new(DType::F64, 1, 12), &weights);
    s.run_first(&batch);
    let mut mask = batch.mask.clone();
    for k in 1..=2 {
        mask = rolled(&mask, &documents);
        assert_eq!(s.output(&format!("mtp{k}.mask")), as_f64(&mask), "depth {k}");
        let losses = s.values().losses;
        assert_eq!(losses[4 * k + 1], f64::from(mask.iter().sum::<i32>()), "tokens of depth {k}");
    }
    assert_eq!(mask.iter().sum::<i32>(), 2, "depth 2 keeps two targets of the longer document");
    // Nothing of the second document reaches the first.
    let first = |s: &Session| ["lm_ce", "mtp1_ce", "mtp2_ce"].map(|n| s.output(n)[..4].to_vec());
    let before = first(&s);
    for t in 4..12 {
        batch.ids[t] = (batch.ids[t] + 1) % config.vocab as i32;
        batch.labels[t] = (batch.labels[t] + 1) % config.vocab as i32;
    }
    s.run_first(&batch);
    assert_eq!(before, first(&s));
}

/// The shift covers whole rows, not parts of them: ids and targets of every position, none at a row's end.
#[test]
fn b27_shift_is_over_whole_rows() {
    let mut rng = Random::new(27);
    let (rows, row_len) = (3, 33);
    let src = rng.ints(rows * row_len, 1000);
    let mut u = Unit::new(DType::F32);
    let (_, end) = u.bounds(rows * row_len, row_len, &[]);
    let (src_t, dst) = (u.ints(1, rows * row_len, &src), u.out_ints(1, rows * row_len));
    let r = u.run(vec![Roll { src: src_t, end, dst }.into()]);
    let rows: Vec<(usize, usize)> = (0..rows).map(|i| (i * row_len, (i + 1) * row_len)).collect();
    assert_eq!(r.get(dst), as_f64(&rolled(&src, &rows)));
}

/// The main and the MTP losses read the same mask: prompts and padding train neither.
#[test]
fn b28_one_mask_for_all_losses() {
    let mut rng = Random::new(28);
    let config = tiny::config(&mut rng, "ME", Some(("*E", 2)));
    let weights = tiny::weights(&config, &mut rng);
    for scale in [LossScale::PerToken, LossScale::MeanOfMeans(1)] {
        let mut options = Options::new(DType::F64, 1, 14);
        options.objective = objective(scale, 0.0);
        let mut s = tiny::session(&config, &options, &weights);
        let mut batch = tiny::batch(&mut rng, &config, 1, 14, false);
        batch.offsets = vec![0];
        batch.mask = (0..14).map(|t| i32::from((6..11).contains(&t))).collect();
        s.run_first(&batch);
        let (values, gradients) = (s.values(), s.gradients());
        assert_eq!([values.losses[1], values.losses[5], values.losses[9]], [5.0; 3]);
        // Labels outside the mask change nothing.
        let mut other = batch.clone();
        for t in (0..6).chain(11..14) {
            other.labels[t] = (other.labels[t] + 1) % config.vocab as i32;
        }
        s.run_first(&other);
        assert_eq!(s.values(), values, "{scale:?}");
        assert_eq!(s.gradients(), gradients, "{scale:?}");
        assert!(gradients.values().flatten().any(|g| *g != 0.0));
    }
}

/// No target at all: losses, gradients and counts are zero, not NaN.
#[test]
fn b29_no_target_gives_zero() {
    let mut rng = Random::new(29);
    let config = tiny::config(&mut rng, "ME*-", Some(("*E", 2)));
    let weights = tiny::weights(&config, &mut rng);
    for act in [DType::F64, DType::F32, DType::BF16] {
        for scale in [LossScale::PerToken, LossScale::MeanOfMeans(1)] {
            let mut options = Options::new(act, 2, 5);
            options.objective = objective(scale, 0.0);
            let mut s = tiny::session(&config, &options, &weights);
            let mut batch = tiny::batch(&mut rng, &config, 2, 5, false);
            batch.mask = vec![0; 10];
            s.run_first(&batch);
            assert!(s.values().losses.iter().all(|v| *v == 0.0), "{act} {scale:?}");
            assert!(s.gradients().values().flatten().all(|v| *v == 0.0), "{act} {scale:?}");
            // One target of the LM that no depth of MTP has: the one of a row's first token is rolled out.
            batch.mask[5] = 1;
            batch.offsets = vec![0];
            s.run_first(&batch);
            let losses = s.values().losses;
            let none = losses[4..].iter().all(|v| *v == 0.0);
            assert!(losses[1] == 1.0 && none, "{act} {scale:?} {losses:?}");
            assert!(s.gradients().values().flatten().all(|v| v.is_finite()));
        }
    }
}

/// Masks go by position: with pad == eos, an eos that counts is trained and the padding is not, whatever its id.
#[test]
fn b31_padding_is_a_position_not_a_value() {
    let mut rng = Random::new(31);
    let config = tiny::config(&mut rng, "M*E", None);
    let weights = tiny::weights(&config, &mut rng);
    let mut options = Options::new(DType::F64, 1, 10);
    options.padding = true;
    options.objective = objective(LossScale::PerToken, 0.1);
    let mut s = tiny::session(&config, &options, &weights);
    let eos = 1;
    let mut batch = Batch::new(rng.ints(10, config.vocab), rng.ints(10, config.vocab), vec![0; 10]);
    // Six real tokens that predict five and then eos; four of padding, all eos.
    batch.labels[5] = eos;
    batch.mask[..6].fill(1);
    batch.ids[6..].fill(eos);
    batch.labels[6..].fill(eos);
    batch.padding = Some((0..10).map(|t| i32::from(t >= 6)).collect());
    s.run_first(&batch);
    let (values, gradients, counts) = (s.values(), s.gradients(), s.read(s.model.metrics.counts));
    assert_eq!(values.losses[1], 6.0, "the eos is trained");
    let ce = s.output("lm_ce");
    assert_close("sum", &values.losses[..1], &[ce[..6].iter().sum()], 1e-12);
    assert_eq!(counts.iter().sum::<f64>(), 6.0 * config.moe().top_k as f64);
    batch.ids[6..].fill(0);
    batch.labels[6..].fill(0);
    s.run_first(&batch);
    assert_eq!((s.values(), s.gradients()), (values, gradients), "the id of padding does not matter");
}

/// A pack of as many documents as offsets fit, and the same pack with ghosts in a longer list.
#[test]
fn b34_the_fullest_pack_and_its_ghosts() {
    let mut rng = Random::new(34);
    let config = tiny::config(&mut rng, "M*E", Some(("*E", 1)));
    let weights = tiny::weights(&config, &mut rng);
    let mut batch = tiny::batch(&mut rng, &config, 1, 9, false);
    batch.mask = vec![1; 9];
    for documents in [vec![0, 9], (0..=9).collect(), vec![0, 1, 3, 8, 9]] {
        let mut want = None;
        for ghosts in [0, 1, 7] {
            let mut options = Options::new(DType::F64, 1, 9);
            options.max_offsets = documents.len() + ghosts;
            batch.offsets = documents.clone();
            let mut s = tiny::session(&config, &options, &weights);
            s.run_first(&batch);
            let got = (s.values(), s.gradients());
            assert_eq!(&got, want.get_or_insert_with(|| got.clone()), "{documents:?} and {ghosts} ghosts");
            let starts = documents.windows(2).filter(|w| w[1] - w[0] > 1).count();
            assert_eq!(got.0.losses[5] > 0.0, starts > 0, "one-token documents have no second target");
        }
    }
}

/// Micro-batches with 1 and 7 tokens: with per-token loss as one big batch, otherwise the mean of their means.
#[test]
fn b37_token_weights_across_micro_batches() {
    let mut rng = Random::new(37);
    let config = tiny::config(&mut rng, "M*-", None);
    let weights = tiny::weights(&config, &mut rng);
    let mut batch = tiny::batch(&mut rng, &config, 2, 8, false);
    batch.offsets = vec![0];
    batch.mask = [[0, 0, 0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 1, 1, 1, 1]].concat();
    let half = |i: usize| {
        let part = |v: &[i32]| v[8 * i..8 * (i + 1)].to_vec();
        Batch::new(part(&batch.ids), part(&batch.labels), part(&batch.mask))
    };
    let run = |rows: usize, scale: LossScale, batches: &[Batch]| {
        let mut options = Options::new(DType::F64, rows, 8);
        options.objective = objective(scale, 0.0);
        let mut s = tiny::session(&config, &options, &weights);
        for (i, b) in batches.iter().enumerate() {
            if i == 0 { s.run_first(b) } else { s.run_later(b) }
        }
        (s.gradients(), s.values().losses)
    };
    let (whole, losses) = run(2, LossScale::PerToken, std::slice::from_ref(&batch));
    let (parts, sums) = run(1, LossScale::PerToken, &[half(0), half(1)]);
    assert_eq!((losses[1], sums[1]), (8.0, 8.0));
    let (means, _) = run(1, LossScale::MeanOfMeans(2), &[half(0), half(1)]);
    let (first, _) = run(1, LossScale::MeanOfMeans(1), &[half(0)]);
    let (second, _) = run(1, LossScale::MeanOfMeans(1), &[half(1)]);
    for (name, want) in &whole {
        assert_close(name, &parts[name], want, 1e-12);
        let mean: Vec<f64> = first[name].iter().zip(&second[name]).map(|(a, b)| (a + b) / 2.0).collect();
        assert_close(name, &means[name], &mean, 1e-12);
    }
    let head = "lm_head.weight";
    let per_token: Vec<f64> = whole[head].iter().map(|g| g / 8.0).collect();
    assert!(relative_l2(&means[head], &per_token) > 1e-3, "both modes give the same");
}

/// As many tokens as experts, where a mask along the wrong axis has the right shape.
#[test]
fn b41_padding_is_not_traffic() {
    for seed in 0..6 {
        let mut rng = Random::new(4100 + seed);
        let mut config = tiny::config(&mut rng, "EE", None);
        let experts = rng.range(3, 9);
        let moe = config.moe.as_mut().unwrap();
        (moe.experts, moe.top_k) = (experts, rng.range(1, 3));
        let weights = tiny::weights(&config, &mut rng);
        let mut options = Options::new(DType::F32, 1, experts);
        options.padding = true;
        options.objective = objective(LossScale::PerToken, 0.1);
        let mut s = tiny::session(&config, &options, &weights);
        let mut batch = tiny::batch(&mut rng, &config, 1, experts, true);
        batch.padding.as_mut().unwrap()[0] = 1;
        s.run_first(&batch);
        let counts = s.read(s.model.metrics.counts);
        for layer in 0..2 {
            let idx = s.output(&format!("router.{layer}.topk_idx"));
            let mut want = vec![0.0; experts];
            for (t, pad) in batch.padding.iter().flatten().enumerate() {
                for j in 0..config.moe().top_k {
                    if *pad == 0 {
                        want[idx[t * config.moe().top_k + j] as usize] += 1.0;
                    }
                }
            }
            assert_eq!(counts[layer * experts..(layer + 1) * experts], want[..], "seed {seed} layer {layer}");
        }
    }
}

/// The gradient of the auxiliary loss of two rows is the mean of those of each; a packed row is one sequence.
#[test]
fn b42_auxiliary_loss_of_batches_and_packs() {
    let mut rng = Random::new(42);
    let mut config = tiny::config(&mut rng, "E", None);
    config.moe.as_mut().unwrap().experts = 5;
    let weights = tiny::weights(&config, &mut rng);
    let mut batch = tiny::batch(&mut rng, &config, 2, 7, false);
    // Without loss tokens only the auxiliary loss has gradients.
    (batch.mask, batch.offsets) = (vec![0; 14], vec![0]);
    let run = |rows: usize, batch: &Batch| {
        let mut options = Options::new(DType::F64, rows, 7);
        options.objective = objective(LossScale::MeanOfMeans(1), 0.5);
        let mut s = tiny::session(&config, &options, &weights);
        s.run_first(batch);
        (s.gradients(), s.values().aux)
    };
    let (both, aux) = run(2, &batch);
    let half = |i: usize| {
        let part = |v: &[i32]| v[7 * i..7 * (i + 1)].to_vec();
        Batch::new(part(&batch.ids), part(&batch.labels), part(&batch.mask))
    };
    let ((first, a), (second, b)) = (run(1, &half(0)), run(1, &half(1)));
    assert_close("aux", &aux, &[(a[0] + b[0]) / 2.0], 1e-12);
    for (name, got) in &both {
        let mean: Vec<f64> = first[name].iter().zip(&second[name]).map(|(a, b)| (a + b) / 2.0).collect();
        assert!(relative_l2(got, &mean) < 1e-11 || norm(&mean) < 1e-13, "{name}");
    }
    assert!(both["backbone.layers.0.mixer.gate.weight"].iter().any(|g| *g != 0.0));
    let packed = Batch { offsets: vec![0, 2, 3, 9], ..batch.clone() };
    assert_eq!(run(2, &packed).1, aux, "documents do not cut the auxiliary loss");
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// The weight of the auxiliary loss does not depend on how many micro-batches a step has, nor on the MTP depth.
#[test]
fn b43_auxiliary_weight_is_invariant() {
    let mut rng = Random::new(43);
    for mtp in [None, Some(("E", 1)), Some(("E", 3))] {
        let mut config = tiny::config(&mut rng, "E", mtp);
        config.moe.as_mut().unwrap().experts = 5;
        let weights = tiny::weights(&config, &mut rng);
        let mut batch = tiny::batch(&mut rng, &config, 1, 9, false);
        (batch.mask, batch.offsets) = (vec![1; 9], vec![0]);
        let run = |copies: usize, per_token: bool, aux: f64| {
            let mut options = Options::new(DType::F64, 1, 9);
            let scale = if per_token { LossScale::PerToken } else { LossScale::MeanOfMeans(copies) };
            options.objective = objective(scale, aux);
            let mut s = tiny::session(&config, &options, &weights);
            for i in 0..copies {
                if i == 0 { s.run_first(&batch) } else { s.run_later(&batch) }
            }
            let divisor = if per_token { s.values().losses[1] } else { 1.0 };
            let gate = s.gradient("backbone.layers.0.mixer.gate.weight");
            gate.iter().map(|g| g / divisor).collect::<Vec<f64>>()
        };
        let only_aux = |copies: usize, per_token: bool| -> Vec<f64> {
            let (with, without) = (run(copies, per_token, 0.5), run(copies, per_token, 0.0));
            with.iter().zip(without).map(|(a, b)| a - b).collect()
        };
        let want = only_aux(1, false);
        assert!(norm(&want) > 1e-6);
        for copies in [1, 2, 5] {
            for per_token in [false, true] {
                let label = format!("{copies} micro-batches, per token {per_token}");
                assert_close(&label, &only_aux(copies, per_token), &want, 1e-9);
            }
        }
    }
}

/// Router arithmetic of bf16 models is f32: logits, scores, selection and weights.
#[test]
fn b44_router_computes_in_f32() {
    let mut rng = Random::new(44);
    let (t, d, experts, k) = (50, 130, 9, 3);
    let (x, w) = (rng.normals(t * d, 1.0), rng.normals(experts * d, 0.1));
    // A bias of the size of bf16 roundings of the score, but far above those of f32.
    let bias: Vec<f64> = (0..experts).map(|_| 1e-3 * rng.normal()).collect();
    let dweight = rng.normals(t * k, 1.0);
    let run = |act: DType| {
        let mut u = Unit::new(act);
        let fwd = RouterFwd {
            x: u.act(t, d, &x),
            w: u.act(experts, d, &w),
            bias: u.acc(1, experts, &bias),
            source: RouterLogits::Computed,
            top_k: k,
            scale: 2.5,
            normalize: true,
            row_len: t,
            padding: None,
            logits: u.out_acc(t, experts),
            idx: u.out_ints(t, k),
            weight: u.out_acc(t, k),
            counts: None,
            row_counts: u.out_ints(1, experts),
            aux: None,
        };
        let bwd = RouterBwd {
            fwd: fwd.clone(),
            dweight: u.acc(t, k, &dweight),
            dx: u.act(t, d, &vec![0.0; t * d]),
            dw: Some(u.out_acc(experts, d)),
            accumulate: false,
            dlogits: u.out_acc(t, experts),
            wide: (act == DType::BF16).then(|| (u.out_acc(t, d), u.out_acc(experts, d))),
        };
        let r = u.run(vec![fwd.clone().into(), bwd.clone().into()]);
        let tensors = [fwd.logits, fwd.weight, bwd.dlogits, bwd.dw.unwrap(), fwd.idx];
        tensors.map(|t| r.get(t))
    };
    let (exact, bf16) = (run(DType::F64), run(DType::BF16));
    assert_eq!(bf16[4], exact[4], "selection");
    for (i, name) in ["logits", "weights", "dlogits", "dW"].iter().enumerate() {
        assert_close(name, &bf16[i], &exact[i], 1e-5);
    }
}

/// More choices and more experts than tokens, and all experts chosen.
#[test]
fn b48_more_capacity_than_tokens() {
    let mut rng = Random::new(48);
    for (tokens, experts, top_k) in [(4, 8, 8), (1, 8, 3), (1, 1, 1), (2, 3, 3)] {
        let mut config = tiny::config(&mut rng, "E", None);
        let moe = config.moe.as_mut().unwrap();
        (moe.experts, moe.top_k) = (experts, top_k);
        let weights = tiny::weights(&config, &mut rng);
        let mut s = tiny::session(&config, &Options::new(DType::F32, 1, tokens), &weights);
        let batch = tiny::batch(&mut rng, &config, 1, tokens, false);
        s.run_first(&batch);
        let idx = s.output("router.0.topk_idx");
        for row in idx.chunks(top_k) {
            let mut row = row.to_vec();
            row.sort_by(f64::total_cmp);
            row.dedup();
            assert_eq!(row.len(), top_k, "an expert was chosen twice or dropped");
        }
        assert!(s.output("logits").iter().all(|v| v.is_finite()));
    }
}

/// Ties go to the lower index, also when all scores saturate.
#[test]
fn router_ties_go_to_the_lower_index() {
    let (t, experts, k) = (4, 6, 3);
    // Equal logits; one saturated pair at the end; descending; two equal maxima.
    let logits = [
        [0.5; 6],
        [-1.0, -1.0, -1.0, -1.0, 60.0, 70.0],
        [5.0, 4.0, 3.0, 2.0, 1.0, 0.0],
        [0.0, 2.0, 1.0, 2.0, 0.0, 1.0],
    ];
    let want = [[0, 1, 2], [4, 5, 0], [0, 1, 2], [1, 3, 2]];
    for act in [DType::F32, DType::BF16, DType::F64] {
        let mut u = Unit::new(act);
        let identity: Vec<f64> = (0..36).map(|i| f64::from(u8::from(i / 6 == i % 6))).collect();
        let fwd = RouterFwd {
            x: u.act(t, experts, &logits.concat()),
            w: u.act(experts, experts, &identity),
            bias: u.acc(1, experts, &[0.0; 6]),
            source: RouterLogits::Computed,
            top_k: k,
            scale: 1.0,
            normalize: true,
            row_len: t,
            padding: None,
            logits: u.out_acc(t, experts),
            idx: u.out_ints(t, k),
            weight: u.out_acc(t, k),
            counts: None,
            row_counts: u.out_ints(1, experts),
            aux: None,
        };
        let r = u.run(vec![fwd.clone().into()]);
        assert_eq!(r.get(fwd.idx), as_f64(&want.concat()), "{act}");
        for row in r.get(fwd.weight).chunks(k) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        }
    }
}

/// A hit is a counted token whose label is the first of the largest logits.
#[test]
fn hits_are_the_first_largest_logit_where_the_mask_is_on() {
    for act in [DType::F32, DType::BF16, DType::F64] {
        let mut u = Unit::new(act);
        // Logits of every token: 1, 2, 2, 0.
        let (h, w) = (u.act(5, 1, &[1.0; 5]), u.act(4, 1, &[1.0, 2.0, 2.0, 0.0]));
        let (label, mask) = (u.ints(1, 5, &[1, 2, 0, 1, 1]), u.ints(1, 5, &[1, 1, 1, 0, 1]));
        let (ce, metric, logits) = (u.out_acc(1, 5), u.metric(4), u.out(2, 4));
        let head = LossHead { h, label, mask, factor: 1.0, ce, dh: None, metric };
        let op = LinearCrossEntropy {
            heads: vec![head],
            w,
            scale: LossScale::PerToken,
            dw: None,
            accumulate: false,
            logits,
        };
        let metric = u.run(vec![op.into()]).get(metric);
        assert_eq!((metric[1], metric[3]), (4.0, 2.0), "{act}: tokens and hits");
    }
}
