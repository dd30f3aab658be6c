//! One operation or a few, three times: in f64 on the CPU device (the reference), in bf16 there, in bf16 on the GPU device.

use super::support::random::Random;
use super::support::relative_l2;
use super::support::unit::Unit;
use lightning_core::gpu::{Execution, GpuDevice, GpuOptions};
use lightning_core::program::Op;
use lightning_core::tensor::{DType, Tensor};

/// How close a result must be to the f64 reference (relative L2), or how close twice the bf16 error of the CPU device
/// is, whichever is larger.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Outputs of forward passes.
    Value,
    /// Gradients of activations and weights.
    Gradient,
    /// Gradients of A_log and of time steps.
    Decay,
    /// Integers, copies and whatever else has one right answer: equal to the CPU device in bf16, element by element.
    Exact,
}

impl Bound {
    fn relative_l2(self) -> f64 {
        match self {
            Self::Value => 3e-3,
            Self::Gradient => 1e-2,
            Self::Decay => 5e-2,
            Self::Exact => 0.0,
        }
    }
}

/// Operations, and what of their results is compared.
pub struct Case {
    pub ops: Vec<Op>,
    pub results: Vec<(&'static str, Tensor, Bound)>,
}

/// A seed that differs from run to run, printed so that a failure can be repeated with LIGHTNING_TEST_SEED.
pub fn fresh(what: &str) -> Random {
    let seed = match std::env::var("LIGHTNING_TEST_SEED") {
        Ok(seed) => seed.parse().expect("LIGHTNING_TEST_SEED is an integer"),
        Err(_) => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |d| d.as_nanos() as u64 % 1_000_000_007),
    };
    println!("{what}: LIGHTNING_TEST_SEED={seed}");
    Random::new(seed)
}

/// Tokens for the widths of the 30B model: a few here, many on a device (`cargo xtask device-check` sets the variable).
pub fn real_tokens() -> usize {
    if std::env::var_os("LIGHTNING_TEST_REAL_SHAPES").is_some() { 1000 } else { 20 }
}

/// A device with room for the operands of a unit and one program.
pub fn device(unit: &Unit, ops: Vec<Op>, execution: Execution) -> super::support::unit::Results<GpuDevice> {
    device_with_kernels(unit, ops, execution, false)
}

/// As [`device`], with the naive kernels if asked for.
pub fn device_with_kernels(
    unit: &Unit,
    ops: Vec<Op>,
    execution: Execution,
    naive: bool,
) -> super::support::unit::Results<GpuDevice> {
    let program = unit.program(ops);
    let options = GpuOptions { execution, naive, ..GpuOptions::default() };
    let device = GpuDevice::new(unit.table(), &[&program], options).unwrap_or_else(|e| panic!("{e}"));
    unit.on(device, program)
}

/// Builds the case for each of the three runs (it must draw the same numbers each time) and compares. The GPU runs twice,
/// launch by launch and as a graph, which must agree bit for bit; rows of activations have no gap, an even and an odd one
/// in turn when `gaps` lists them.
pub fn check_with_gaps(what: &str, gaps: &[usize], build: impl Fn(&mut Unit) -> Case) {
    for &gap in gaps {
        let what = format!("{what}, gap {gap}");
        let unit = |act| {
            let mut u = Unit::new(act);
            (u.rounding, u.gap) = (Some(DType::BF16), gap);
            let case = build(&mut u);
            (u, case)
        };
        let (u64, case64) = unit(DType::F64);
        let reference = u64.run(case64.ops);
        let (u, case) = unit(DType::BF16);
        let cpu = u.run(case.ops.clone());
        let mut gpu = device(&u, case.ops.clone(), Execution::Launches);
        gpu.run(&u);
        let first: Vec<Vec<f64>> = case.results.iter().map(|(_, t, _)| gpu.get(*t)).collect();
        gpu.check_guards(&what, &u);
        for (((name, tensor, bound), got), (_, tensor64, _)) in case.results.iter().zip(&first).zip(&case64.results) {
            let (want, near) = (reference.get(*tensor64), cpu.get(*tensor));
            if *bound == Bound::Exact {
                assert_eq!(got, &near, "{what}: {name}");
                continue;
            }
            let (error, cpu_error) = (relative_l2(got, &want), relative_l2(&near, &want));
            let limit = bound.relative_l2().max(2.0 * cpu_error);
            assert!(
                error <= limit,
                "{what}: {name}: relative L2 error {error:.3e} above {limit:.1e} (CPU device in bf16: {cpu_error:.3e})"
            );
        }
        drop(gpu);
        let mut graph = device(&u, case.ops, Execution::Graph);
        graph.run(&u);
        graph.run(&u);
        for ((name, tensor, _), first) in case.results.iter().zip(&first) {
            let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&graph.get(*tensor)), bits(first), "{what}: {name} differs in a graph");
        }
    }
}

/// [`check_with_gaps`] without a gap.
pub fn check(what: &str, build: impl Fn(&mut Unit) -> Case) {
    check_with_gaps(what, &[0], build);
}

/// Holds the naive kernels of a family against the others, both on the GPU device: as close as results must be to the
/// reference.
pub fn check_naive(what: &str, build: impl Fn(&mut Unit) -> Case) {
    let mut u = Unit::new(DType::BF16);
    u.rounding = Some(DType::BF16);
    let case = build(&mut u);
    let [got, naive] = [false, true].map(|naive| {
        let mut gpu = device_with_kernels(&u, case.ops.clone(), Execution::Launches, naive);
        gpu.run(&u);
        gpu.check_guards(what, &u);
        case.results.iter().map(|(_, t, _)| gpu.get(*t)).collect::<Vec<_>>()
    });
    for (((name, _, bound), got), naive) in case.results.iter().zip(got).zip(naive) {
        let error = relative_l2(&got, &naive);
        assert!(error <= bound.relative_l2(), "{what}: {name}: {error:.3e} away from the naive kernels");
    }
}
