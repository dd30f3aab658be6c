//! What must not change a result: packing, chunks, batching, ghosts, how accumulation starts.

mod support;

use lightning_core::config::ModelConfig;
use lightning_core::model::Objective;
use lightning_core::ops::LossScale;
use lightning_core::tensor::DType;
use support::named::{Named, assert_all_close, assert_same};
use support::random::Random;
use support::*;

fn objective(scale: LossScale, aux: f64) -> Objective {
    Objective { scale, mtp_factor: 0.3, aux_coefficient: aux, bias_rate: 1e-2 }
}

/// Loss mask for which every depth of MTP has as many tokens as the LM, document by document: nothing in the first
/// `depth` tokens of a document. Then losses of documents and rows add up.
fn additive_mask(rng: &mut Random, documents: &[(usize, usize)], depth: usize, density: f64) -> Vec<i32> {
    let mut mask = Vec::new();
    for &(start, end) in documents {
        for t in start..end {
            mask.push(i32::from(t >= start + depth && rng.chance(density)));
        }
    }
    mask
}

/// Documents of a batch as the specification cuts them: at offsets, row starts and the end.
fn documents(batch: &Batch, row_len: usize) -> Vec<(usize, usize)> {
    let tokens = batch.ids.len();
    let mut cuts: Vec<usize> = (0..=tokens).step_by(row_len).collect();
    cuts.extend(batch.offsets.iter().map(|o| *o as usize));
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|w| (w[0], w[1])).collect()
}

fn check_packing(label: &str, rng: &mut Random, config: &ModelConfig, act: DType, bound: f64) {
    let (rows, row_len) = (rng.range(1, 2), rng.range(9, 24));
    let mut batch = tiny::batch(rng, config, rows, row_len, false);
    batch.offsets = rng.offsets(rows * row_len, 5);
    let documents = documents(&batch, row_len);
    batch.mask = additive_mask(rng, &documents, config.mtp_depth(), 0.8);
    let weights = tiny::weights(config, rng);
    let mut options = Options::new(act, rows, row_len);
    options.objective = objective(LossScale::PerToken, 0.0);
    let mut packed = tiny::session(config, &options, &weights);
    packed.run_first(&batch);
    let (mut values, mut gradients, mut losses) = (Named::new(), Named::new(), Vec::new());
    for &(start, end) in &documents {
        (options.rows, options.row_len) = (1, end - start);
        let mut s = tiny::session(config, &options, &weights);
        let part = |v: &[i32]| v[start..end].to_vec();
        s.run_first(&Batch::new(part(&batch.ids), part(&batch.labels), part(&batch.mask)));
        for (name, v) in s.outputs() {
            values.entry(name).or_default().extend(v);
        }
        for (name, v) in s.gradients() {
            let sum = gradients.entry(name).or_insert_with(|| vec![0.0; v.len()]);
            sum.iter_mut().zip(v).for_each(|(a, b)| *a += b);
        }
        let sums = s.values().losses;
        losses.resize(sums.len(), 0.0);
        losses.iter_mut().zip(sums).for_each(|(a, b)| *a += b);
    }
    let label = format!("{label} {act} {documents:?}");
    assert_all_close(&label, &packed.outputs(), &values, bound);
    assert_all_close(&label, &packed.gradients(), &gradients, bound);
    // Sums of losses, tokens and hits; the means are not additive.
    let got = packed.values().losses;
    for (got, want) in got.chunks(4).zip(losses.chunks(4)) {
        assert_close(&label, &got[..1], &want[..1], bound);
        assert_eq!((got[1], got[3]), (want[1], want[3]), "{label}: tokens and hits");
    }
}

#[test]
fn packed_equals_separate_documents() {
    for (seed, pattern, mtp) in [
        (1, "ME*-", Some(("*E", 2))),
        (2, "M*M", None),
        (3, "E*", Some(("M*", 1))),
        (4, "MM", Some(("*E", 3))),
        (5, "*", None),
        (6, "M-E", None),
    ] {
        let mut rng = Random::new(seed);
        let config = tiny::config(&mut rng, pattern, mtp);
        check_packing(&format!("seed {seed} {pattern}"), &mut rng, &config, DType::F64, 1e-12);
    }
    // In f32 the bound holds for models of ordinary condition.
    for seed in 7..9 {
        let mut rng = Random::new(seed);
        let config = tiny::wide(&mut rng);
        check_packing(&format!("seed {seed}"), &mut rng, &config, DType::F32, 1e-6);
    }
}

fn check_chunks(label: &str, rng: &mut Random, mut config: ModelConfig, act: DType, bound: f64) {
    let (rows, row_len) = (rng.range(1, 2), rng.range(10, 30));
    let mut batch = tiny::batch(rng, &config, rows, row_len, false);
    batch.mask = vec![1; rows * row_len];
    batch.offsets = rng.offsets(rows * row_len, 3);
    let weights = tiny::weights(&config, rng);
    let mut want = None;
    for chunk in [row_len, 1, 2, 7, row_len - 1, row_len + 1, 1000] {
        config.mamba.as_mut().unwrap().chunk = chunk;
        let mut s = tiny::session(&config, &Options::new(act, rows, row_len), &weights);
        s.run_first(&batch);
        let got = (s.outputs(), s.gradients());
        let (values, gradients) = want.get_or_insert_with(|| got.clone());
        let label = format!("{label} {act} chunk {chunk} of {row_len}");
        assert_all_close(&label, &got.0, values, bound);
        assert_all_close(&label, &got.1, gradients, bound);
    }
}

#[test]
fn any_chunk_length_gives_the_same() {
    for seed in 10..13 {
        let mut rng = Random::new(seed);
        let config = tiny::config(&mut rng, "M*M", Some(("M", 1)));
        check_chunks(&format!("seed {seed}"), &mut rng, config, DType::F64, 1e-12);
    }
    // In f32 the bound is that of one mixer; deeper models add up the differences of their layers.
    for seed in 13..17 {
        let mut rng = Random::new(seed);
        let mut config = tiny::wide(&mut rng);
        (config.layers, config.mtp) = (lightning_core::config::parse_pattern("M").unwrap(), None);
        check_chunks(&format!("seed {seed}"), &mut rng, config, DType::F32, 1e-6);
    }
}

#[test]
fn a_batch_of_two_equals_two_of_one() {
    for (seed, mtp) in [(20, Some(("*E", 2))), (21, None), (22, Some(("E", 1)))] {
        let mut rng = Random::new(seed);
        let config = tiny::config(&mut rng, "ME*-E", mtp);
        let row_len = rng.range(6, 15);
        let mut batch = tiny::batch(&mut rng, &config, 2, row_len, false);
        batch.offsets = vec![0];
        let rows = [(0, row_len), (row_len, 2 * row_len)];
        let depth = config.mtp_depth();
        // With per-token loss rows may differ in their tokens; the mean of means is one mean only when they do not.
        for per_token in [true, false] {
            let density = if per_token { 0.6 } else { 1.0 };
            batch.mask = additive_mask(&mut rng, &rows, depth, density);
            let scale = |n: usize| {
                if per_token { LossScale::PerToken } else { LossScale::MeanOfMeans(n) }
            };
            let weights = tiny::weights(&config, &mut rng);
            let mut options = Options::new(DType::F64, 2, row_len);
            options.objective = objective(scale(1), 0.3);
            let mut both = tiny::session(&config, &options, &weights);
            both.run_first(&batch);
            let mut options = Options::new(DType::F64, 1, row_len);
            options.objective = objective(scale(2), 0.3);
            let mut one = tiny::session(&config, &options, &weights);
            for (i, (start, end)) in rows.into_iter().enumerate() {
                let part = |v: &[i32]| v[start..end].to_vec();
                let row = Batch::new(part(&batch.ids), part(&batch.labels), part(&batch.mask));
                if i == 0 { one.run_first(&row) } else { one.run_later(&row) }
            }
            let label = format!("seed {seed} per token {per_token}");
            assert_all_close(&label, &one.gradients(), &both.gradients(), 1e-12);
            let (got, want) = (one.values().losses, both.values().losses);
            for (got, want) in got.chunks(4).zip(want.chunks(4)) {
                assert_close(&label, &got[..2], &want[..2], 1e-12);
            }
            assert_eq!(one.read(one.model.metrics.counts), both.read(both.model.metrics.counts), "{label}: counts");
        }
    }
}

#[test]
fn overwriting_first_equals_zeroing_first() {
    for (seed, act, grad) in [
        (50, DType::F64, DType::F64),
        (51, DType::F32, DType::F32),
        (52, DType::F32, DType::BF16),
        (53, DType::BF16, DType::F32),
    ] {
        let mut rng = Random::new(seed);
        let config = tiny::config(&mut rng, "ME*-", Some(("*E", 2)));
        let (rows, row_len) = (2, 11);
        let batches: Vec<Batch> = (0..3).map(|_| tiny::batch(&mut rng, &config, rows, row_len, false)).collect();
        let weights = tiny::weights(&config, &mut rng);
        let mut options = Options::new(act, rows, row_len);
        options.grad = Some(grad);
        options.objective = objective(LossScale::MeanOfMeans(2), 0.1);
        let mut s = tiny::session(&config, &options, &weights);
        // Gradients and metrics of an earlier step must not survive.
        s.run_first(&batches[2]);
        s.run_first(&batches[0]);
        s.run_later(&batches[1]);
        let want = s.gradients();
        let values = s.values();
        let mut zeroed = tiny::session(&config, &options, &weights);
        zeroed.run_later(&batches[0]);
        zeroed.run_later(&batches[1]);
        assert_eq!(zeroed.gradients(), want, "{act} {grad}");
        assert_eq!(zeroed.values(), values, "{act} {grad}");
        assert!(want.values().any(|g| g.iter().any(|v| *v != 0.0)));
    }
}

#[test]
fn ghost_offsets_change_nothing() {
    let mut rng = Random::new(60);
    let config = tiny::config(&mut rng, "M*E", Some(("*E", 2)));
    let (rows, row_len) = (2, 12);
    let mut batch = tiny::batch(&mut rng, &config, rows, row_len, false);
    batch.mask = vec![1; 24];
    let weights = tiny::weights(&config, &mut rng);
    let mut s = tiny::session(&config, &Options::new(DType::F32, rows, row_len), &weights);
    let mut run = |offsets: &[i32]| {
        batch.offsets = offsets.to_vec();
        s.run_first(&batch);
        let mut all = s.outputs();
        all.extend(s.gradients());
        all
    };
    let want = run(&[0, 5, 17]);
    for ghosts in [&[0, 0, 0, 5, 5, 17][..], &[0, 5, 17, 24, 24, 24], &[0, 5, 12, 17, 17], &[5, 17]] {
        assert_same(&format!("{ghosts:?}"), &run(ghosts), &want);
    }
    assert_ne!(run(&[0, 5, 18]), want, "offsets have no effect");
}
