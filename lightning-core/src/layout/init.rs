//! Initial values (model.md §1.7), a pure function of (seed, parameter name, element): the same for any layout of ranks.

use super::{Param, Part, Role};
use crate::config::ModelConfig;
use crate::rng::{Philox, name_stream};

/// The initial value of element `index` (row-major in the part's shape) of a checkpoint tensor.
pub fn initial_value(config: &ModelConfig, seed: u64, param: &Param, part: &Part, index: u64) -> f64 {
    let random = || Philox::new(seed, name_stream(&part.name));
    match param.role {
        Role::Embedding | Role::Head | Role::InputProjection | Role::Router => {
            config.init_std * random().normal_at(index)
        }
        // Projections into the residual stream: divided by the root of the number of backbone layers, also in MTP.
        Role::OutputProjection => config.init_std / libm::sqrt(config.layers.len() as f64) * random().normal_at(index),
        Role::Norm | Role::SkipD => 1.0,
        Role::ExpertBias => 0.0,
        // Uniform with bound 1 / sqrt(fan-in), fan-in = one channel x taps.
        Role::ConvWeight | Role::ConvBias => {
            let bound = 1.0 / libm::sqrt(config.mamba().conv_kernel as f64);
            bound * (2.0 * random().uniform_at(index) - 1.0)
        }
        Role::ALog => libm::log(1.0 + 15.0 * random().uniform_at(index)),
        Role::DtBias => {
            let m = config.mamba();
            let (low, high) = (libm::log(m.dt_init.0), libm::log(m.dt_init.1));
            let dt = libm::exp(low + (high - low) * random().uniform_at(index)).max(m.dt_init_floor);
            // The inverse of softplus.
            dt + libm::log(-libm::expm1(-dt))
        }
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
