//! Whole tiny models against central differences in f64: every kind of layer, MTP, both losses, auxiliary loss, padding.

mod support;

use lightning_core::model::Objective;
use lightning_core::ops::LossScale;
use lightning_core::tensor::DType;
use support::gradcheck::check_derivative;
use support::random::Random;
use support::*;

/// Patterns of the backbone and of the MTP block with its depth.
const PATTERNS: [(&str, Option<(&str, usize)>); 14] = [
    ("M", None),
    ("*", None),
    ("E", None),
    ("-", None),
    ("M-E*", None),
    ("EE-", Some(("*E", 0))),
    ("ME*", Some(("*E", 1))),
    ("M*", Some(("*E", 2))),
    ("E", Some(("*E", 3))),
    ("-", Some(("M", 2))),
    ("M", Some(("-", 1))),
    ("*E", Some(("EE", 2))),
    ("MM", Some(("M*E-", 2))),
    ("E-M*EM", Some(("E", 3))),
];

fn check_model(seed: u64, pattern: &str, mtp: Option<(&str, usize)>) {
    let mut rng = Random::new(seed);
    let config = tiny::config(&mut rng, pattern, mtp);
    let (rows, row_len) = (rng.range(1, 3), rng.pick(&[1, 2, 3, 4, 5, 6, 9, 13]));
    let mut options = Options::new(DType::F64, rows, row_len);
    options.threads = 1;
    options.padding = rng.chance(0.4);
    options.objective = Objective {
        scale: if rng.chance(0.5) { LossScale::PerToken } else { LossScale::MeanOfMeans(rng.range(1, 3)) },
        mtp_factor: 0.7,
        aux_coefficient: if rng.chance(0.6) { 0.5 } else { 0.0 },
        bias_rate: 1e-3,
    };
    let batch = tiny::batch(&mut rng, &config, rows, row_len, options.padding);
    let weights = tiny::weights(&config, &mut rng);
    let mut s = tiny::session(&config, &options, &weights);
    s.run_first(&batch);
    let trained = s.values();
    assert_eq!(s.evaluate(&batch), trained, "evaluation and training see the same losses");
    s.run_first(&batch);
    let gradients = s.gradients();
    let label = format!("seed {seed} {pattern} {mtp:?} {rows} x {row_len} {:?} {:?}", options.objective, batch.offsets);
    for (name, gradient) in &gradients {
        let (n, part, at) = (gradient.len(), s.part(name), &weights[name]);
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let mut single = vec![0.0; n];
        single[rng.range(0, n - 1)] = 1.0;
        for (scale, direction) in [(norm, rng.normals(n, 1.0)), (norm / (n as f64).sqrt(), single)] {
            let analytic = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
            let mut along = |step: f64| {
                let moved: Vec<f64> = at.iter().zip(&direction).map(|(x, d)| x + step * d).collect();
                s.model.write_weight(&mut s.device, part, &moved).unwrap();
                let values = s.evaluate(&batch);
                s.objective(&values, &batch)
            };
            check_derivative(&format!("{label}: {name}"), &mut along, analytic, scale);
        }
        s.model.write_weight(&mut s.device, part, at).unwrap();
    }
}

#[test]
fn fd_models_of_single_layer_kinds() {
    for (i, (pattern, mtp)) in PATTERNS[..4].iter().enumerate() {
        for round in 0..4 {
            check_model(10 * i as u64 + round, pattern, *mtp);
        }
    }
}

#[test]
fn fd_models_of_mixed_layers_with_mtp() {
    for (i, (pattern, mtp)) in PATTERNS[4..9].iter().enumerate() {
        for round in 0..3 {
            check_model(100 + 10 * i as u64 + round, pattern, *mtp);
        }
    }
}

#[test]
fn fd_models_of_unusual_mtp_blocks() {
    for (i, (pattern, mtp)) in PATTERNS[9..].iter().enumerate() {
        for round in 0..2 {
            check_model(200 + 10 * i as u64 + round, pattern, *mtp);
        }
    }
}
