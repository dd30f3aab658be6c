//! Initial values (model.md §1.7), a pure function of (seed, parameter name, element): the same for any layout of ranks.

use super::{Param, Part, Role};
use crate::config::ModelConfig;
use crate::rng::{Philox, name_stream};
use alloc::vec::Vec;

/// The initial value of element `index` (row-major in the part's shape) of a checkpoint tensor.
pub fn initial_value(config: &ModelConfig, seed: u64, param: &Param, part: &Part, index: u64) -> f64 {
    value(config, &Philox::new(seed, name_stream(&part.name)), param.role, index)
}

/// All initial values of a checkpoint tensor, row by row: [`initial_value`] of every element, and much sooner.
pub fn initial_values(config: &ModelConfig, seed: u64, param: &Param, part: &Part, out: &mut Vec<f64>) {
    let random = Philox::new(seed, name_stream(&part.name));
    let n = part.rows * param.cols;
    out.clear();
    match spread(config, param.role) {
        Some(spread) => {
            // One block makes two numbers.
            for block in 0..n.div_ceil(2) as u64 {
                let (even, odd) = random.normal_pair(block);
                out.extend([spread * even, spread * odd]);
            }
            out.truncate(n);
        }
        None => out.extend((0..n as u64).map(|i| value(config, &random, param.role, i))),
    }
}

/// Standard deviation of the roles that begin with normal numbers.
fn spread(config: &ModelConfig, role: Role) -> Option<f64> {
    match role {
        Role::Embedding | Role::Head | Role::InputProjection | Role::Router => Some(config.init_std),
        // Projections into the residual stream: divided by the root of the number of backbone layers, also in MTP.
        Role::OutputProjection => Some(config.init_std / libm::sqrt(config.layers.len() as f64)),
        _ => None,
    }
}

fn value(config: &ModelConfig, random: &Philox, role: Role, index: u64) -> f64 {
    match (spread(config, role), role) {
        (Some(spread), _) => spread * random.normal_at(index),
        (None, Role::Norm | Role::SkipD) => 1.0,
        // Uniform with bound 1 / sqrt(fan-in), fan-in = one channel x taps.
        (None, Role::ConvWeight | Role::ConvBias) => {
            let bound = 1.0 / libm::sqrt(config.mamba().conv_kernel as f64);
            bound * (2.0 * random.uniform_at(index) - 1.0)
        }
        (None, Role::ALog) => libm::log(1.0 + 15.0 * random.uniform_at(index)),
        (None, Role::DtBias) => {
            let m = config.mamba();
            let (low, high) = (libm::log(m.dt_init.0), libm::log(m.dt_init.1));
            let dt = libm::exp(low + (high - low) * random.uniform_at(index)).max(m.dt_init_floor);
            // The inverse of softplus.
            dt + libm::log(-libm::expm1(-dt))
        }
        // The expert bias; all other roles have a spread.
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::preset;
    use crate::layout::Layout;

    #[test]
    fn spreads_and_ranges_are_those_of_the_specification() {
        let config = preset("oracle_tiny").unwrap();
        let layout = Layout::new(&config);
        for (i, part) in layout.parts() {
            let p = &layout.params[i];
            let n = (part.rows * p.cols) as u64;
            let (mut sum, mut squares, mut low, mut high) = (0.0, 0.0, f64::MAX, f64::MIN);
            for j in 0..n {
                let x = initial_value(&config, 11, p, part, j);
                sum += x;
                squares += x * x;
                low = low.min(x);
                high = high.max(x);
            }
            let std = (squares / n as f64).sqrt();
            let expect =
                |want: f64| assert!((std / want - 1.0).abs() < 4.0 / (n as f64).sqrt(), "{}: {std}", part.name);
            match p.role {
                Role::OutputProjection => expect(0.0173 / 5f64.sqrt()),
                Role::Embedding | Role::Head | Role::InputProjection | Role::Router => expect(0.0173),
                Role::Norm | Role::SkipD => assert_eq!((low, high), (1.0, 1.0)),
                Role::ExpertBias => assert_eq!((low, high), (0.0, 0.0)),
                Role::ConvWeight | Role::ConvBias => {
                    assert!(low >= -0.5 && high < 0.5 && high - low > 0.9)
                }
                Role::ALog => assert!(low >= 0.0 && high <= 16f64.ln()),
                Role::DtBias => {
                    let dt = |b: f64| b.exp().ln_1p();
                    assert!(dt(low) > 0.99e-3 && dt(high) < 0.1001, "{low} {high}");
                }
            }
            assert!(sum.is_finite());
        }
    }

    #[test]
    fn all_values_at_once_are_the_values_one_by_one() {
        let config = preset("oracle_tiny").unwrap();
        let layout = Layout::new(&config);
        let mut all = Vec::new();
        for (i, part) in layout.parts() {
            let p = &layout.params[i];
            initial_values(&config, 5, p, part, &mut all);
            assert_eq!(all.len(), part.rows * p.cols, "{}", part.name);
            for (j, x) in all.iter().enumerate() {
                assert_eq!(x.to_bits(), initial_value(&config, 5, p, part, j as u64).to_bits(), "{} {j}", part.name);
            }
        }
    }

    #[test]
    fn values_depend_on_the_name_and_not_on_the_order() {
        let config = preset("oracle_tiny").unwrap();
        let layout = Layout::new(&config);
        let mut first = alloc::collections::BTreeSet::new();
        for (i, part) in layout.parts() {
            if layout.params[i].role == Role::InputProjection {
                let x = initial_value(&config, 1, &layout.params[i], part, 0);
                assert!(first.insert(x.to_bits()), "{} starts like another tensor", part.name);
            }
        }
    }
}
