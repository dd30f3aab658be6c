//! The verb `plan`: what a run needs and does, before it runs and without the device.
//!
//! | file            | answers                                                                   |
//! |-----------------|---------------------------------------------------------------------------|
//! | [`ranks`]       | the layout, and the program of one rank                                    |
//! | [`statics`]     | weights, gradients, masters, moments                                       |
//! | [`activations`] | what the program holds, by kind of layer and operation by operation        |
//! | [`communication`]| bytes per collective and link                                             |
//! | [`estimate`]    | all of it for one shape, with FLOPs and time at the roofs                   |
//! | [`low_precision`] | what 8- and 4-bit classes keep and cast                                  |
//! | [`kernel_table`] | measured kernels in place of the roofs                                    |
//! | [`advice`]      | what recomputation saves and costs, knobs, the longest sequence            |
//! | [`targets`]     | devices and recorded peaks, as data                                        |

pub mod activations;
pub mod advice;
pub mod communication;
pub mod estimate;
pub mod kernel_table;
pub mod low_precision;
pub mod memory_limit;
pub mod ranks;
mod report;
pub mod statics;
pub mod targets;

use crate::cli::{Exit, Failure};
use crate::config::resolve::Resolved;
use crate::config::run::RunConfig;
use crate::train::device::DeviceChoice;
use estimate::{Estimate, Planner};
use kernel_table::KernelTable;
use std::io::Write;

/// A configuration to plan.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// The configuration and where it comes from.
    pub resolved: Resolved,
    /// Target; the recipe's machine when absent.
    pub target: Option<String>,
    /// List the operations.
    pub ops: bool,
    /// Answer how long a sequence fits.
    pub max_seq: bool,
    /// Measured kernel rates.
    pub measured: Option<String>,
    /// Print for programs.
    pub json: bool,
}

/// Plans and prints.
///
/// # Errors
/// Impossible configurations. A plan that does not fit is an answer, not a failure.
pub fn plan(request: PlanRequest) -> Result<(), Failure> {
    let text = report::of(&request)?;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Unexpected, format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Refuses a run that needs more memory than its device has (for the processor: the machine, or its control group), before
/// anything is allocated.
///
/// # Errors
/// `OutOfMemory` with what is needed, what there is, where it goes, and the first knobs to turn.
pub fn refuse_what_does_not_fit(config: &RunConfig, device: &DeviceChoice) -> Result<(), Failure> {
    let Some((limit, source)) = device.memory()? else {
        return Ok(());
    };
    let planner = Planner::new(config, 1, &targets::TARGETS[0], None)?.on(*device, limit, source.clone());
    let estimate = planner.estimate(&planner.shape())?;
    if estimate.fits() {
        return Ok(());
    }
    let gib = |b: f64| b / 1_073_741_824.0;
    let message = format!(
        "the plan needs {:.2} GiB, {source} is {:.2} GiB; nothing was allocated",
        gib(estimate.total()),
        gib(limit)
    );
    Err(Failure::new(Exit::OutOfMemory, message + &where_it_goes(&planner, &estimate)?))
}

/// What to say when a device refused memory that the plan said it has: the same table, with what is free now.
pub fn refused_memory(config: &RunConfig, device: &DeviceChoice, failure: Failure) -> Failure {
    let told = || -> Result<String, Failure> {
        let Some((limit, source)) = device.memory()? else { return Ok(String::new()) };
        let planner = Planner::new(config, 1, &targets::TARGETS[0], None)?.on(*device, limit, source);
        let estimate = planner.estimate(&planner.shape())?;
        where_it_goes(&planner, &estimate)
    };
    let table = told().unwrap_or_default();
    Failure::new(failure.exit, failure.message + &table)
}

/// Table of a plan's memory and the first knobs to turn.
fn where_it_goes(planner: &Planner<'_>, estimate: &Estimate) -> Result<String, Failure> {
    let mut text = format!("\n{}", report::memory(estimate).join("\n"));
    let gib = |b: f64| b / 1_073_741_824.0;
    for knob in advice::knobs(planner)?.iter().take(4) {
        let fits = if knob.fits { ", fits" } else { "" };
        text.push_str(&format!("\n    {}: saves {:.2} GiB{fits}", knob.setting, gib(knob.saves)));
    }
    text.push_str("\n`lightning-train plan` with the same arguments says more");
    Ok(text)
}

/// The plan of a request as an estimate, with its planner's target.
///
/// # Errors
/// An unknown target, or an impossible configuration.
fn planner(request: &PlanRequest) -> Result<Planner<'_>, Failure> {
    let target = match &request.target {
        None => targets::of_recipe(request.resolved.recipe),
        Some(name) => targets::find(name).ok_or_else(|| {
            let known: Vec<&str> = targets::TARGETS.iter().map(|t| t.name).collect();
            Failure::new(Exit::Usage, format!("--target {name}: unknown; known are {}", known.join(", ")))
        })?,
    };
    let measured = request.measured.as_deref().map(|path| KernelTable::read(path, target.name)).transpose()?;
    Planner::new(&request.resolved.config, request.resolved.launch.world_size, target, measured)
}
