//! `cargo xtask`: development tasks that need more than one cargo command.

mod bindgen;
mod checkpoint_speed;
mod data_interop;
mod device_check;
mod failure;
mod fake_checkpoint;
mod interop;
mod kernel_facts;
mod process;
mod python;
mod setup_cuda;
mod sim;
mod sim_conformance;
mod sim_mutants;
mod tensorboard_check;
mod test;

use std::process::ExitCode;

use argh::FromArgs;

/// Development tasks of lightning. Results go to standard output, progress to standard error.
#[derive(FromArgs)]
struct Xtask {
    #[argh(subcommand)]
    verb: Verb,
}

#[derive(FromArgs)]
#[argh(subcommand)]
enum Verb {
    Bindgen(bindgen::Bindgen),
    CheckpointSpeed(checkpoint_speed::CheckpointSpeed),
    DataInterop(data_interop::DataInterop),
    DeviceCheck(device_check::DeviceCheck),
    FakeCheckpoint(fake_checkpoint::FakeCheckpoint),
    Interop(interop::Interop),
    KernelFacts(kernel_facts::KernelFacts),
    SetupCuda(setup_cuda::SetupCuda),
    Sim(sim::Sim),
    SimConformance(sim_conformance::SimConformance),
    SimMutants(sim_mutants::SimMutants),
    TensorboardCheck(tensorboard_check::TensorboardCheck),
    Test(test::Test),
}

fn main() -> ExitCode {
    let xtask: Xtask = argh::from_env();
    let done = match xtask.verb {
        Verb::Bindgen(verb) => verb.run(),
        Verb::CheckpointSpeed(verb) => verb.run(),
        Verb::DataInterop(verb) => verb.run(),
        Verb::DeviceCheck(verb) => verb.run(),
        Verb::FakeCheckpoint(verb) => verb.run(),
        Verb::Interop(verb) => verb.run(),
        Verb::KernelFacts(verb) => verb.run(),
        Verb::SetupCuda(verb) => verb.run(),
        Verb::Sim(verb) => verb.run(),
        Verb::SimConformance(verb) => verb.run(),
        Verb::SimMutants(verb) => verb.run(),
        Verb::TensorboardCheck(verb) => verb.run(),
        Verb::Test(verb) => verb.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
