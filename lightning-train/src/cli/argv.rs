//! From what people type to what `argh` takes.
//!
//! `argh` knows `--long-name value` only. In front of it stand: `_` and `-` in names, `--name=value`, the launcher's short
//! names (`-ms 20`, `-tp 2`), boolean flags with a value, the launcher's own flags, and trailing `key=value` overrides
//! anywhere on the line. A flag that is given twice counts as given last.

use crate::config::error::ConfigError;
use crate::config::nearest::nearest;

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A value that the verb reads.
    Value,
    /// A value for one or more settings.
    Settings(&'static [&'static str]),
    /// Nothing.
    Switch,
    /// A value for the scheduler; accepted and recorded.
    LauncherValue,
    /// Nothing; for the scheduler.
    LauncherSwitch,
}

/// A flag of a verb.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Name in kebab case, without dashes.
    pub long: &'static str,
    /// Other names, without dashes.
    pub other: &'static [&'static str],
    /// What it takes.
    pub takes: Takes,
}

impl Flag {
    /// A flag without other names.
    pub const fn new(long: &'static str, takes: Takes) -> Self {
        Self { long, other: &[], takes }
    }

    /// A flag with other names.
    pub const fn with(long: &'static str, other: &'static [&'static str], takes: Takes) -> Self {
        Self { long, other, takes }
    }

    fn takes_value(&self) -> bool {
        matches!(self.takes, Takes::Value | Takes::Settings(_) | Takes::LauncherValue)
    }

    fn is_launcher(&self) -> bool {
        matches!(self.takes, Takes::LauncherValue | Takes::LauncherSwitch)
    }
}

/// A normalised command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Normalised {
    /// Flags for `argh`.
    pub args: Vec<String>,
    /// `key=value` overrides in order.
    pub overrides: Vec<String>,
    /// Flags for a scheduler, with their values.
    pub launcher: Vec<(String, Option<String>)>,
}

/// Normalises the words behind the verb.
///
/// # Errors
/// Unknown flags (with the nearest), a missing value, a value for a switch, words that are neither flag nor override.
pub fn normalise(words: &[String], flags: &[Flag]) -> Result<Normalised, ConfigError> {
    let mut out = Normalised::default();
    let mut given: Vec<(&Flag, Option<String>)> = Vec::new();
    let mut help = false;
    let mut words = words.iter().peekable();
    let mut flags_ended = false;
    while let Some(word) = words.next() {
        if flags_ended || !word.starts_with('-') || word.len() == 1 {
            positional(word, flags, &mut out)?;
            continue;
        }
        if word == "--" {
            flags_ended = true;
            continue;
        }
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (word.as_str(), None),
        };
        if matches!(name, "--help" | "-h") {
            help = true;
            continue;
        }
        let flag = find(name, flags)?;
        if !flag.takes_value() {
            match attached.as_deref() {
                None | Some("true") => given.push((flag, None)),
                // Switched off is not given.
                Some("false") => given.retain(|(f, _)| f.long != flag.long),
                Some(other) => {
                    let message = format!("--{} takes no value but true or false, found `{other}`", flag.long);
                    return Err(ConfigError::usage(message));
                }
            }
            continue;
        }
        let value = match attached {
            Some(value) => value,
            // Values for the scheduler may look like flags (`--srun-arg --exclusive`), ours never do.
            None => match words.next_if(|next| flag.is_launcher() || !next.starts_with("--")) {
                Some(value) => value.clone(),
                None => return Err(ConfigError::usage(format!("--{} needs a value", flag.long))),
            },
        };
        given.push((flag, Some(value)));
    }
    for (i, (flag, value)) in given.iter().enumerate() {
        if flag.is_launcher() {
            out.launcher.push((flag.long.to_string(), value.clone()));
            continue;
        }
        if given[i + 1..].iter().any(|(later, _)| later.long == flag.long) {
            continue;
        }
        out.args.push(format!("--{}", flag.long));
        out.args.extend(value.clone());
    }
    if help {
        out.args = vec!["--help".into()];
    }
    Ok(out)
}

/// Separates paths from flags and their values, for verbs that take paths.
///
/// # Errors
/// Unknown flags.
pub fn split_paths(words: &[String], flags: &[Flag]) -> Result<(Vec<String>, Vec<String>), ConfigError> {
    let (mut line, mut paths) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            paths.extend(words.by_ref().cloned());
        } else if !word.starts_with('-') || word.len() == 1 {
            paths.push(word.clone());
        } else {
            let takes_value =
                !matches!(word.as_str(), "--help" | "-h") && !word.contains('=') && find(word, flags)?.takes_value();
            line.push(word.clone());
            line.extend(takes_value.then(|| words.next().cloned()).flatten());
        }
    }
    Ok((line, paths))
}

fn positional(word: &str, flags: &[Flag], out: &mut Normalised) -> Result<(), ConfigError> {
    if word.contains('=') {
        out.overrides.push(word.to_string());
        return Ok(());
    }
    let plain = word.trim_matches('-').replace('_', "-");
    let known: Vec<String> = flags.iter().map(|f| format!("--{}", f.long)).collect();
    Err(ConfigError::Unknown {
        what: "argument",
        name: word.into(),
        nearest: nearest(&format!("--{plain}"), known.iter().map(String::as_str), 3),
        hint: "flags begin with `--`, overrides are written section.key=value".into(),
    })
}

fn find<'f>(name: &str, flags: &'f [Flag]) -> Result<&'f Flag, ConfigError> {
    let plain = name.trim_start_matches('-').replace('_', "-");
    let long = name.starts_with("--");
    flags.iter().find(|f| (long && f.long == plain) || f.other.contains(&plain.as_str())).ok_or_else(|| {
        let known: Vec<String> = flags.iter().map(|f| format!("--{}", f.long)).collect();
        ConfigError::Unknown {
            what: "flag",
            name: name.into(),
            nearest: nearest(&format!("--{plain}"), known.iter().map(String::as_str), 3),
            hint: "`--help` lists all".into(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[
        Flag::with("max-steps", &["ms"], Takes::Settings(&["train.train_iters"])),
        Flag::with("tensor-model-parallel-size", &["tp"], Takes::Settings(&["model.tensor_model_parallel_size"])),
        Flag::new("recipe", Takes::Value),
        Flag::new("dry-run", Takes::Switch),
        Flag::new("nodes", Takes::LauncherValue),
        Flag::new("srun-arg", Takes::LauncherValue),
        Flag::with("peak-mem-clk", &["lmc"], Takes::LauncherSwitch),
    ];

    fn run(line: &str) -> Result<Normalised, ConfigError> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        normalise(&words, FLAGS)
    }

    #[test]
    fn spellings_of_a_flag_are_one() {
        let expected = run("--max-steps 20").unwrap();
        assert_eq!(expected.args, ["--max-steps", "20"]);
        for line in [
            "--max_steps 20",
            "--max_steps=20",
            "--max-steps=20",
            "-ms 20",
            "-ms=20",
            "--ms 20",
            "-ms 5 --max-steps 20",
        ] {
            assert_eq!(run(line).unwrap(), expected, "{line}");
        }
        assert_eq!(run("-ms -1").unwrap().args, ["--max-steps", "-1"]);
        assert_eq!(run("--recipe=").unwrap().args, ["--recipe", ""]);
        assert_eq!(run("--recipe=a=b").unwrap().args, ["--recipe", "a=b"]);
    }

    #[test]
    fn paths_are_told_from_the_values_of_flags() {
        let words: Vec<String> = "a --max-steps 5 b=c --dry-run d -- -e".split(' ').map(String::from).collect();
        let (line, paths) = split_paths(&words, FLAGS).unwrap();
        assert_eq!(line, ["--max-steps", "5", "--dry-run"]);
        assert_eq!(paths, ["a", "b=c", "d", "-e"]);
        assert!(split_paths(&["--nothing".to_string()], FLAGS).is_err());
    }

    #[test]
    fn switches_take_true_and_false() {
        assert_eq!(run("--dry_run").unwrap().args, ["--dry-run"]);
        assert_eq!(run("--dry-run=true").unwrap().args, ["--dry-run"]);
        assert!(run("--dry-run --dry-run=false").unwrap().args.is_empty());
        assert!(run("--dry-run=7").unwrap_err().to_string().contains("true or false"));
    }

    #[test]
    fn overrides_may_stand_anywhere() {
        let n = run("a.b=1 --recipe r optimizer.lr=-1 -tp 2 -- --x=y c=--z").unwrap();
        assert_eq!(n.overrides, ["a.b=1", "optimizer.lr=-1", "--x=y", "c=--z"]);
        assert_eq!(n.args, ["--recipe", "r", "--tensor-model-parallel-size", "2"]);
    }

    #[test]
    fn launcher_flags_are_set_aside() {
        let n = run("--nodes 2 -lmc --srun-arg --exclusive --srun_arg=-v --dry-run").unwrap();
        assert_eq!(n.args, ["--dry-run"]);
        let names: Vec<&str> = n.launcher.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["nodes", "peak-mem-clk", "srun-arg", "srun-arg"]);
        assert_eq!(n.launcher[2].1.as_deref(), Some("--exclusive"));
    }

    #[test]
    fn mistakes_name_the_flag() {
        assert!(run("--recipe").unwrap_err().to_string().contains("--recipe needs a value"));
        assert!(run("--recipe --dry-run").unwrap_err().to_string().contains("--recipe needs a value"));
        assert!(run("--max-stpes 3").unwrap_err().to_string().contains("--max-steps"));
        assert!(run("-max-steps 3").unwrap_err().to_string().contains("--max-steps"));
        assert!(run("-q").unwrap_err().to_string().contains("no flag is named `-q`"));
        assert!(run("recipe demo").unwrap_err().to_string().contains("--recipe"));
        assert!(run("-").is_err());
        assert!(run("").unwrap().args.is_empty());
    }

    #[test]
    fn help_wins() {
        assert_eq!(run("--recipe x --help").unwrap().args, ["--help"]);
        assert_eq!(run("-h").unwrap().args, ["--help"]);
    }
}
