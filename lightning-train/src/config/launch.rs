//! How many ranks a launch has, and what to do when this program cannot run that many.

use super::error::ConfigError;
use super::run::RunConfig;

/// Ranks of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Number of ranks.
    pub world_size: usize,
    /// Who says so, for messages.
    pub source: String,
    /// Whether the ranks are only assumed, to show what a layout would look like where it fits.
    pub assumed: bool,
    /// Something that looks wrong and is only reported.
    pub warning: Option<String>,
}

impl Launch {
    /// One rank, started alone.
    pub fn single() -> Self {
        Self { world_size: 1, source: "one process".into(), assumed: false, warning: None }
    }
}

fn count(name: &str, text: &str) -> Result<usize, ConfigError> {
    text.trim().parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(|| {
        ConfigError::invalid(
            name,
            text,
            "this environment variable must be a number of ranks from 1; unset it or fix the launcher",
        )
    })
}

/// Reads the launch from the environment: torchrun's variables first, then Slurm's, then those of MPI.
///
/// `SLURM_NTASKS` is also set inside an allocation without `srun`, so it counts only with `SLURM_PROCID` and
/// `SLURM_STEP_ID`.
///
/// # Errors
/// A variable that is not a number of ranks, by name.
pub fn detect(environment: &dyn Fn(&str) -> Option<String>) -> Result<Launch, ConfigError> {
    let with = |name: &str, text: &str| {
        let source = format!("{name}={}", text.trim());
        Ok(Launch { world_size: count(name, text)?, source, assumed: false, warning: None })
    };
    if let Some(text) = environment("WORLD_SIZE") {
        return with("WORLD_SIZE", &text);
    }
    if let Some(text) = environment("SLURM_NTASKS") {
        if environment("SLURM_PROCID").is_some() && environment("SLURM_STEP_ID").is_some() {
            return with("SLURM_NTASKS", &text);
        }
        let tasks = count("SLURM_NTASKS", &text)?;
        let mut launch = Launch::single();
        if tasks > 1 {
            launch.warning = Some(format!(
                "{tasks} tasks are allocated (SLURM_NTASKS) but the program was started once; did you forget srun?"
            ));
        }
        return Ok(launch);
    }
    for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"] {
        if let Some(text) = environment(name) {
            return with(name, &text);
        }
    }
    Ok(Launch::single())
}

const SIZES: &[&str] = &[
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
];

/// The parallel sizes of the layout that are more than one, as (setting, size).
pub fn parallel_sizes(config: &RunConfig) -> Vec<(String, usize)> {
    let m = &config.model;
    let sizes = [
        m.tensor_model_parallel_size,
        m.pipeline_model_parallel_size,
        m.context_parallel_size,
        m.expert_model_parallel_size,
        m.expert_tensor_parallel_size.unwrap_or(m.tensor_model_parallel_size),
    ];
    SIZES.iter().zip(sizes).filter(|(_, n)| *n > 1).map(|(name, n)| (format!("model.{name}"), n)).collect()
}

/// Ranks that share one copy of the dense weights' work: tensor x pipeline x context.
pub fn model_parallel_size(config: &RunConfig) -> usize {
    let m = &config.model;
    m.tensor_model_parallel_size * m.pipeline_model_parallel_size * m.context_parallel_size
}

/// Ranks that hold one copy of all experts: expert x expert-tensor x pipeline.
pub fn expert_parallel_size(config: &RunConfig) -> usize {
    let m = &config.model;
    let expert_tensor = m.expert_tensor_parallel_size.unwrap_or(m.tensor_model_parallel_size);
    m.expert_model_parallel_size * expert_tensor * m.pipeline_model_parallel_size
}

/// The smallest number of ranks that the layout fits on.
pub fn smallest_world(config: &RunConfig) -> usize {
    lcm(model_parallel_size(config).max(1), expert_parallel_size(config).max(1))
}

/// Greatest common divisor.
pub(super) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Least common multiple of numbers from 1, saturating.
pub(super) fn lcm(a: usize, b: usize) -> usize {
    (a / gcd(a, b)).saturating_mul(b)
}

/// Refuses what needs more than one rank, with the overrides that run on one.
///
/// # Errors
/// The launch or the layout has more than one rank.
pub fn refuse_more_than_one_rank(config: &RunConfig, launch: &Launch) -> Result<(), ConfigError> {
    if launch.world_size > 1 && !launch.assumed {
        return Err(ConfigError::usage(format!(
            "the launch has {} ranks ({}), and this version trains on one; start the program once, without srun, \
             torchrun or mpirun, or add --dry-run to see the configuration",
            launch.world_size, launch.source
        )));
    }
    let sizes = parallel_sizes(config);
    if sizes.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = sizes.iter().map(|(key, n)| format!("{key} = {n}")).collect();
    let way_out: Vec<String> = sizes.iter().map(|(key, _)| format!("{key}=1")).collect();
    Err(ConfigError::usage(format!(
        "this layout needs at least {} ranks ({}), and this version trains on one. To run it on one rank add\n    {}\n\
         or add --dry-run to see the configuration",
        smallest_world(config),
        named.join(", "),
        way_out.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect_from(pairs: &[(&str, &str)]) -> Result<Launch, ConfigError> {
        detect(&|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn the_environment_says_how_many_ranks() {
        assert_eq!(detect_from(&[]).unwrap().world_size, 1);
        assert_eq!(detect_from(&[("WORLD_SIZE", "4"), ("SLURM_NTASKS", "8")]).unwrap().world_size, 4);
        let step = [("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "0")];
        assert_eq!(detect_from(&step).unwrap().world_size, 8);
        let batch = detect_from(&step[..2]).unwrap();
        assert_eq!(batch.world_size, 1);
        assert!(batch.warning.unwrap().contains("srun"));
        assert_eq!(detect_from(&[("OMPI_COMM_WORLD_SIZE", "2")]).unwrap().world_size, 2);
        for bad in ["", "0", "-1", "two", "1.5"] {
            assert!(detect_from(&[("WORLD_SIZE", bad)]).unwrap_err().to_string().contains("WORLD_SIZE"), "{bad}");
        }
    }

    #[test]
    fn layouts_add_up() {
        let mut config = RunConfig::default();
        assert_eq!(smallest_world(&config), 1);
        config.model.context_parallel_size = 2;
        config.model.expert_model_parallel_size = 8;
        assert_eq!(smallest_world(&config), 8);
        config.model.context_parallel_size = 3;
        assert_eq!(smallest_world(&config), 24);
        let message = refuse_more_than_one_rank(&config, &Launch::single()).unwrap_err().to_string();
        assert!(message.contains("model.context_parallel_size=1 model.expert_model_parallel_size=1"), "{message}");
    }
}
