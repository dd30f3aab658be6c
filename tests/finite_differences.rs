//! Every operation's backward pass against central differences of its forward pass, in f64, at random ugly shapes.

mod support;

use lightning_core::tensor::DType;
use support::cases;
use support::gradcheck::check_gradients;
use support::random::Random;

fn check(maker: cases::Maker, first_seed: u64) {
    let (_, _, count) = cases::ALL.iter().find(|(_, m, _)| std::ptr::fn_addr_eq(*m, maker)).unwrap();
    for seed in first_seed..first_seed + count {
        let mut rng = Random::new(seed);
        let mut case = maker(&mut rng, DType::F64);
        let label = format!("seed {seed} {}", case.label);
        check_gradients(&label, &mut case.unit, case.forward, case.backward, &case.objective, &case.inputs, &mut rng);
    }
}

#[test]
fn fd_rms_norm() {
    check(cases::rms_norm, 0);
}

#[test]
fn fd_linear_with_and_without_adapter() {
    check(cases::linear_with_and_without_adapter, 100);
}

#[test]
fn fd_conv_stops_at_documents() {
    check(cases::conv_stops_at_documents, 200);
}

#[test]
fn fd_time_steps_with_and_without_clamp() {
    check(cases::time_steps_with_and_without_clamp, 300);
}

#[test]
fn fd_gated_norm_groups() {
    check(cases::gated_norm_groups, 400);
}

#[test]
fn fd_selective_scan() {
    check(cases::selective_scan, 500);
}

#[test]
fn fd_attention() {
    check(cases::attention, 600);
}

#[test]
fn fd_router_with_auxiliary_loss() {
    check(cases::router_with_auxiliary_loss, 700);
}

#[test]
fn fd_experts_from_dispatch_to_combination() {
    check(cases::experts_from_dispatch_to_combination, 800);
}

#[test]
fn fd_squared_relu() {
    check(cases::squared_relu, 900);
}

#[test]
fn fd_embedding() {
    check(cases::embedding, 1000);
}

#[test]
fn fd_cross_entropy_of_several_heads() {
    check(cases::cross_entropy_of_several_heads, 1100);
}
