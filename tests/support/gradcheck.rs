//! Central differences in f64.
//!
//! A directional derivative comes from the five-point stencil with steps h and h / 2. A step is accepted when both agree:
//! this looks at values of the objective only, so it finds kinks and routing flips without hiding a wrong gradient. If no
//! step of the list is smooth, the test fails and wants other inputs.

use super::random::Random;
use super::unit::{Results, Unit};
use lightning_core::program::Op;
use lightning_core::tensor::Tensor;

/// Relative agreement that is asked for.
pub const BOUND: f64 = 1e-7;

const STEPS: [f64; 4] = [1.0 / 1024.0, 1.0 / 8192.0, 1.0 / 65536.0, 1.0 / 1048576.0];

fn stencil(f: &mut dyn FnMut(f64) -> f64, h: f64) -> f64 {
    (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h)
}

/// Compares the derivative of `f` at 0 with `analytic`; `scale` is what such a derivative usually is.
pub fn check_derivative(label: &str, f: &mut dyn FnMut(f64) -> f64, analytic: f64, scale: f64) {
    assert!(analytic.is_finite(), "{label}: gradient is {analytic}");
    let scale = scale.max(analytic.abs());
    let mut tried = Vec::new();
    for h in STEPS {
        let (coarse, fine) = (stencil(f, h), stencil(f, h / 2.0));
        let scale = scale.max(fine.abs());
        if (coarse - fine).abs() <= 0.5 * BOUND * scale + 1e-10 {
            assert!(
                (fine - analytic).abs() <= BOUND * scale + 1e-9,
                "{label}: difference quotient {fine:e}, gradient {analytic:e} (h = {h:e}, scale {scale:e})"
            );
            return;
        }
        tried.push((h, coarse, fine));
    }
    panic!("{label}: not smooth at these inputs: {tried:?}, gradient {analytic:e}");
}

/// An input and the tensor that receives its gradient. When the latter starts with numbers, the operation adds to them.
pub struct Input {
    pub name: &'static str,
    pub tensor: Tensor,
    pub gradient: Tensor,
}

pub fn input(name: &'static str, tensor: Tensor, gradient: Tensor) -> Input {
    Input { name, tensor, gradient }
}

/// Checks the gradients that `backward` computes of `objective` after `forward`, along two random directions and for
/// three single elements of each input.
pub fn check_gradients(
    label: &str,
    unit: &mut Unit,
    forward: Vec<Op>,
    backward: Vec<Op>,
    objective: impl Fn(&Results) -> f64,
    inputs: &[Input],
    rng: &mut Random,
) {
    let mut all = forward.clone();
    all.extend(backward);
    let results = unit.run(all);
    let mut runner = unit.prepare(forward);
    for input in inputs {
        let at = unit.value(input.tensor).to_vec();
        let start = unit.value(input.gradient);
        let gradient: Vec<f64> =
            results.get(input.gradient).iter().zip(start).map(|(g, s)| if s.is_nan() { *g } else { g - s }).collect();
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let n = at.len();
        let mut directions = vec![(norm, rng.normals(n, 1.0)), (norm, rng.normals(n, 1.0))];
        for _ in 0..3 {
            let mut single = vec![0.0; n];
            single[rng.range(0, n - 1)] = 1.0;
            directions.push((norm / (n as f64).sqrt(), single));
        }
        for (scale, direction) in directions {
            let analytic = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
            let mut along = |s: f64| {
                let moved: Vec<f64> = at.iter().zip(&direction).map(|(x, d)| x + s * d).collect();
                unit.set(input.tensor, &moved);
                runner.run(unit);
                objective(&runner)
            };
            check_derivative(&format!("{label} d {}", input.name), &mut along, analytic, scale);
        }
        unit.set(input.tensor, &at);
    }
}

/// Sum of the products of an output and its weights.
pub fn weighted(results: &Results, output: Tensor, weights: &[f64]) -> f64 {
    let values = results.get(output);
    assert_eq!(values.len(), weights.len());
    values.iter().zip(weights).map(|(v, w)| v * w).sum()
}
