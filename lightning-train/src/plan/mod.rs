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
use crate::train::{engine::available_threads, settings};
use estimate::{Planner, cpu_bytes, sampler_bytes, snapshot_bytes};
use kernel_table::KernelTable;
use lightning_core::model::Model;
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

/// Refuses a run on the processor that needs more memory than the machine or its control group has, before anything is
/// allocated.
///
/// # Errors
/// `OutOfMemory` with what is needed, what there is, and the first knobs to turn.
pub fn refuse_what_does_not_fit(config: &RunConfig) -> Result<(), Failure> {
    let spec = settings::model_spec(config)?;
    let threads = config.device.threads.unwrap_or_else(available_threads);
    let bytes = cpu_bytes(&spec, &settings::adam(config)?, threads)?
        + sampler_bytes(config, &spec, threads)?
        + snapshot_bytes(&Model::new(spec)?, config.checkpoint.save_optim);
    let Some((limit, source)) = memory_limit::of_machine() else {
        return Ok(());
    };
    if bytes as u64 <= limit {
        return Ok(());
    }
    let gib = |b: f64| b / 1_073_741_824.0;
    let planner = Planner::new(config, 1, &targets::TARGETS[0], None)?;
    let knobs = advice::knobs(&planner)?;
    let mut message = format!(
        "the plan needs {:.2} GiB, {source} is {:.2} GiB; nothing was allocated",
        gib(bytes as f64),
        gib(limit as f64)
    );
    for knob in knobs.iter().take(4) {
        message.push_str(&format!("\n    {}: saves {:.2} GiB", knob.setting, gib(knob.saves)));
    }
    message.push_str("\n`lightning-train plan` with the same arguments shows where it goes");
    Err(Failure::new(Exit::OutOfMemory, message))
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
