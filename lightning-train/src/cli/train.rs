//! The verb `train` up to the point where training begins: from the command line to a resolved configuration.

use super::argv::{Normalised, Takes};
use super::verbs::TrainArgs;
use super::{Actions, Exit, Failure, Process, help, print};
use crate::config::error::ConfigError;
use crate::config::launch::{self, Launch};
use crate::config::resolve::{Layers, Origin, Resolved};
use crate::config::run::RunConfig;
use crate::config::setting::Setting;
use crate::config::value::Value;
use crate::config::{choices::Mode, file};
use crate::recipes;

/// A training that can begin.
#[derive(Debug, Clone)]
pub struct TrainRequest {
    /// The configuration and where it comes from.
    pub resolved: Resolved,
    /// Flags for a scheduler, recorded with the run.
    pub launcher: Vec<(String, Option<String>)>,
    /// Whether results are printed for programs.
    pub json: bool,
}

/// Runs the verb; `verb` is `train` or a short form that names the mode.
pub(super) fn train(
    verb: &str,
    args: TrainArgs,
    line: Normalised,
    actions: &Actions,
    process: &mut Process<'_>,
) -> Result<(), Failure> {
    if args.list_recipes {
        return print(process, &recipes::table());
    }
    if args.list_settings {
        return print(process, &help::settings());
    }
    let resolved = resolve(verb, &args, &line, process.environment)?;
    for note in &resolved.notes {
        let _ = writeln!(process.err, "note: {note}");
    }
    if args.dump_env {
        for (name, value) in &resolved.config.env.vars {
            let _ = writeln!(process.err, "{name}={value}");
        }
    }
    if args.dry_run || args.print_config {
        let text = if args.json { to_json(&resolved, &line.launcher) } else { file::to_toml(&resolved) };
        print(process, &text)?;
    }
    if args.dry_run {
        let _ = writeln!(
            process.err,
            "dry run: {} ranks ({}), {} data-parallel; nothing was written",
            resolved.launch.world_size,
            resolved.launch.source,
            resolved.data_parallel_size()
        );
        return Ok(());
    }
    match actions.train {
        Some(act) => act(TrainRequest { resolved, launcher: line.launcher, json: args.json }),
        None => Err(Failure::new(
            Exit::Usage,
            "this build resolves and prints configurations but has no training loop; add --dry-run",
        )),
    }
}

/// Lays recipe, file, flags and overrides over each other.
pub(super) fn resolve(
    verb: &str,
    args: &TrainArgs,
    line: &Normalised,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, ConfigError> {
    let mode = mode_of(verb, args)?;
    let mut layers = Layers::new();
    match (&args.recipe, &args.model) {
        (Some(_), Some(_)) => {
            return Err(ConfigError::usage("--recipe and --model both name a recipe; give one of them"));
        }
        (Some(name), None) => layers.recipe(name)?,
        (None, Some(stem)) => {
            let Some((mode, _)) = mode else {
                return Err(ConfigError::usage("--model needs --mode pretrain, sft or lora to name a recipe"));
            };
            layers.recipe(&recipes::name_of(stem, mode))?;
        }
        (None, None) if args.config.is_none() => {
            return Err(ConfigError::usage(
                "name what to train: --recipe demo_pretrain_config is a start, --list-recipes lists all, \
                 --config FILE takes a configuration file",
            ));
        }
        (None, None) => {}
    }
    if let Some(path) = &args.config {
        layers.file(path)?;
    }
    let recipe_mode = layers.mode();
    if let Some((mode, flag)) = mode {
        layers.set("run.mode", &mode.to_value(), Origin::Flag(flag))?;
    }
    for (flag, text) in args.setting_flags().into_iter().filter(|(flag, _)| flag.long != "mode") {
        let Takes::Settings(keys) = flag.takes else {
            continue;
        };
        for key in keys {
            set_flag(&mut layers, key, flag.long, text)?;
        }
    }
    for (key, flag, given) in [
        ("train.overfit_batch", "--overfit-batch", args.overfit_batch),
        ("train.check_finite", "--check-finite", args.check_finite),
        ("checkpoint.strict", "--strict", args.strict),
    ] {
        if given {
            layers.set(key, &Value::Bool(true), Origin::Flag(flag.into()))?;
        }
    }
    for text in &line.overrides {
        layers.set_override(text)?;
    }
    let launch = launch_of(&layers, line, environment)?;
    if !args.dry_run {
        launch::refuse_more_than_one_rank(layers.config(), &launch)?;
    }
    let mut resolved = layers.finish(launch, environment)?;
    if resolved.config.run.mode != recipe_mode && resolved.recipe.is_some() {
        resolved.notes.push(format!(
            "the recipe is made for {recipe_mode}, and the run is {}; check its learning rate and data",
            resolved.config.run.mode
        ));
    }
    for (name, value) in &line.launcher {
        // Values of --env may be secrets; only names are ever shown.
        let value = value.as_deref().map(|v| if name == "env" { v.split('=').next().unwrap_or("") } else { v });
        let what = if name == "step-func" { "the mode decides the training step" } else { "concerns a scheduler" };
        resolved
            .notes
            .push(format!("--{name}{}: {what}, recorded only", value.map_or(String::new(), |v| format!(" {v}"))));
    }
    Ok(resolved)
}

/// Flags take their text as it is where the setting is text, and the override grammar otherwise.
fn set_flag(layers: &mut Layers, key: &str, long: &str, text: &str) -> Result<(), ConfigError> {
    let origin = Origin::Flag(format!("--{long}"));
    let takes_text = RunConfig::field(key).is_some_and(|f| (f.takes_text)());
    let result = if takes_text && text != "null" {
        layers.set(key, &Value::Str(text.to_string()), origin)
    } else {
        layers.set_text(key, text, origin)
    };
    result.map_err(|error| match error {
        ConfigError::Type { value, found, expected, .. } => {
            ConfigError::Type { key: format!("--{long}"), value, found, expected }
        }
        other => other,
    })
}

/// The mode that the verb or `--mode` asks for, with the origin's name.
fn mode_of(verb: &str, args: &TrainArgs) -> Result<Option<(Mode, String)>, ConfigError> {
    let read = |text: &str| Mode::from_value(&Value::Str(text.into()));
    let of_verb = read(verb);
    let of_flag = match &args.mode {
        None => None,
        Some(text) => Some(read(text).ok_or_else(|| ConfigError::Type {
            key: "--mode".into(),
            value: text.clone(),
            found: "another name".into(),
            expected: Mode::expected(),
        })?),
    };
    match (of_verb, of_flag) {
        (Some(a), Some(b)) if a != b => {
            Err(ConfigError::usage(format!("the verb {verb} and --mode {b} contradict each other; drop one of them")))
        }
        (Some(mode), _) => Ok(Some((mode, format!("{verb} (verb)")))),
        (None, Some(mode)) => Ok(Some((mode, "--mode".into()))),
        (None, None) => Ok(None),
    }
}

/// The ranks of this launch. A single process that asks for a layout of more stands for the machine it is made for, so
/// that a dry run shows what would happen there.
fn launch_of(
    layers: &Layers,
    line: &Normalised,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Launch, ConfigError> {
    let found = launch::detect(environment)?;
    if found.world_size > 1 {
        return Ok(found);
    }
    let number = |name: &str| -> Result<Option<usize>, ConfigError> {
        let Some((_, Some(text))) = line.launcher.iter().rev().find(|(n, _)| n == name) else {
            return Ok(None);
        };
        match text.trim().parse::<usize>().ok().filter(|n| (1..=1 << 20).contains(n)) {
            Some(n) => Ok(Some(n)),
            None => Err(ConfigError::invalid(format!("--{name}"), text, "must be a number from 1")),
        }
    };
    let (nodes, gpus) = (number("nodes")?, number("gpus-per-node")?);
    if let Some(gpus) = gpus {
        let nodes = nodes.unwrap_or(1);
        let source = format!("--nodes {nodes} --gpus-per-node {gpus}");
        return Ok(Launch { world_size: nodes * gpus, source, assumed: false, warning: found.warning });
    }
    let smallest = launch::smallest_world(layers.config());
    if smallest <= 1 {
        return Ok(found);
    }
    let (world_size, source) = match layers.recipe_used().map(|r| r.gpus).filter(|gpus| gpus % smallest == 0) {
        Some(gpus) => (gpus, "the machine that the recipe is made for"),
        None => (smallest, "the smallest launch for this layout"),
    };
    Ok(Launch { world_size, source: source.into(), assumed: true, warning: found.warning })
}

/// The resolved configuration for programs.
fn to_json(resolved: &Resolved, launcher: &[(String, Option<String>)]) -> String {
    fn json(value: &Value) -> serde_json::Value {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(b) => (*b).into(),
            Value::Int(i) => (*i).into(),
            Value::Float(x) => (*x).into(),
            Value::Str(s) => s.clone().into(),
            Value::List(items) => items.iter().map(json).collect(),
            Value::Map(items) => serde_json::Value::Object(items.iter().map(|(k, v)| (k.clone(), json(v))).collect()),
        }
    }
    let mut config = serde_json::Map::new();
    let mut origins = serde_json::Map::new();
    for (section, fields) in RunConfig::sections() {
        let mut table = serde_json::Map::new();
        for field in fields {
            let key = format!("{section}.{}", field.name);
            if let Some(value) = resolved.config.get(&key) {
                table.insert(field.name.into(), json(&value));
            }
            origins.insert(key.clone(), resolved.origin(&key).to_string().into());
        }
        config.insert(section.into(), table.into());
    }
    let launcher: Vec<serde_json::Value> = launcher
        .iter()
        .map(|(name, value)| {
            let value = if name == "env" { None } else { value.clone() };
            serde_json::json!({ "flag": name, "value": value })
        })
        .collect();
    let all = serde_json::json!({
        "config": config,
        "origins": origins,
        "notes": resolved.notes,
        "world_size": resolved.launch.world_size,
        "launcher": launcher,
    });
    format!("{all:#}\n")
}
