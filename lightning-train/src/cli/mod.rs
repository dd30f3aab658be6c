//! The command line: `lightning-train VERB [--flags] [section.key=value ...]`.
//!
//! [`run`] is the whole program without the process around it. What the verbs do is handed in as [`Actions`]; a verb
//! without an action does not exist, in the help or elsewhere.

pub mod argv;
pub mod exit;
pub mod help;
mod plan;
pub mod train;
pub mod verbs;

use std::io::Write;

use argh::FromArgs;

use crate::config::error::ConfigError;
use crate::config::nearest::nearest;
use crate::convert::{EXPORT_FLAGS, ExportArgs, IMPORT_FLAGS, ImportArgs, ROUNDTRIP_FLAGS, RoundtripArgs};
use crate::plan::PlanRequest;
use crate::verify::{VERIFY_CHECKPOINT_FLAGS, VERIFY_SAME_FLAGS, VerifyCheckpointArgs, VerifySameArgs};
use argv::{Flag, Normalised, normalise, split_paths};
pub use exit::{Exit, Failure};
use help::VerbHelp;
pub use train::TrainRequest;
pub use verbs::{
    BenchKernelsArgs, BenchStepArgs, CompareArgs, DoctorArgs, PlotArgs, VerifyParityArgs, VerifyResumeArgs,
};

/// What a verb does with its flags and the plain words of the command line.
pub type WithWords<A> = fn(A, Vec<String>) -> Result<(), Failure>;

/// What the verbs do. Results go to standard output, everything for people to standard error.
#[derive(Default)]
pub struct Actions {
    /// Trains. Without it, `train` resolves and prints configurations only.
    pub train: Option<fn(TrainRequest) -> Result<(), Failure>>,
    /// `verify parity`.
    pub verify_parity: Option<fn(VerifyParityArgs) -> Result<(), Failure>>,
    /// `plan`.
    pub plan: Option<fn(PlanRequest) -> Result<(), Failure>>,
    /// `bench kernels`.
    pub bench_kernels: Option<fn(BenchKernelsArgs) -> Result<(), Failure>>,
    /// `bench step`.
    pub bench_step: Option<fn(BenchStepArgs) -> Result<(), Failure>>,
    /// `import`.
    pub import: Option<fn(ImportArgs) -> Result<(), Failure>>,
    /// `export`.
    pub export: Option<fn(ExportArgs) -> Result<(), Failure>>,
    /// `roundtrip`.
    pub roundtrip: Option<fn(RoundtripArgs) -> Result<(), Failure>>,
    /// `verify checkpoint`.
    pub verify_checkpoint: Option<fn(VerifyCheckpointArgs) -> Result<(), Failure>>,
    /// `verify resume`, with the overrides of the command line.
    pub verify_resume: Option<WithWords<VerifyResumeArgs>>,
    /// `plot`, with the runs of the command line.
    pub plot: Option<WithWords<PlotArgs>>,
    /// `compare`, with the runs of the command line.
    pub compare: Option<WithWords<CompareArgs>>,
    /// `doctor`.
    pub doctor: Option<fn(DoctorArgs) -> Result<(), Failure>>,
    /// `verify same`.
    pub verify_same: Option<fn(VerifySameArgs) -> Result<(), Failure>>,
    /// `data ...`; gets the words behind `data`, and gives nothing for a verb that it does not know.
    pub data: Option<DataVerbs>,
}

/// The data verbs.
pub type DataVerbs = fn(&[String], &mut Process<'_>) -> Option<Result<(), Failure>>;

/// The surroundings of the program.
pub struct Process<'a> {
    /// Environment variables.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
}

const VERSION: &str = concat!("lightning-train ", env!("CARGO_PKG_VERSION"));

/// Runs the command line (without the program's name) and says how the program ends.
pub fn run(words: &[String], actions: &Actions, process: &mut Process<'_>) -> Exit {
    match dispatch(words, actions, process) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            // A closed standard error leaves only the exit code.
            let _ = writeln!(process.err, "error: {failure}");
            failure.exit
        }
    }
}

fn verb_list(actions: &Actions) -> Vec<VerbHelp> {
    let mut verbs = vec![
        VerbHelp { words: "train", about: "train a model; --mode pretrain, sft or lora" },
        VerbHelp { words: "pretrain", about: "short for train --mode pretrain" },
        VerbHelp { words: "sft", about: "short for train --mode sft" },
        VerbHelp { words: "lora", about: "short for train --mode lora" },
    ];
    let conversions = [
        (actions.import.is_some(), "import", "read a Hugging Face checkpoint"),
        (actions.export.is_some(), "export", "write a Hugging Face checkpoint"),
        (actions.roundtrip.is_some(), "roundtrip", "import, export and compare every bit"),
        (actions.verify_checkpoint.is_some(), "verify checkpoint", "check that a checkpoint is complete and sound"),
        (actions.verify_same.is_some(), "verify same", "compare two checkpoints tensor by tensor"),
    ];
    for (_, words, about) in conversions.into_iter().filter(|(known, _, _)| *known) {
        verbs.push(VerbHelp { words, about });
    }
    if actions.verify_parity.is_some() {
        verbs.push(VerbHelp {
            words: "verify parity",
            about: "compare a checkpoint with stored values, layer by layer",
        });
    }
    if actions.plan.is_some() {
        verbs.push(VerbHelp {
            words: "plan",
            about: "memory, work and time of a training before it runs, for any device",
        });
    }
    if actions.bench_kernels.is_some() {
        verbs.push(VerbHelp { words: "bench kernels", about: "time or count the operations of a model on a GPU" });
    }
    if actions.bench_step.is_some() {
        verbs.push(VerbHelp { words: "bench step", about: "time training steps on this machine" });
    }
    if actions.data.is_some() {
        verbs.extend_from_slice(crate::data_verbs::VERBS);
    }
    for (words, about, there) in [
        ("verify resume", "check that stopping and going on changes no bit", actions.verify_resume.is_some()),
        ("plot", "draw runs: losses, speed, experts", actions.plot.is_some()),
        ("compare", "first step in which two runs differ", actions.compare.is_some()),
        ("doctor", "look at this machine", actions.doctor.is_some()),
    ] {
        if there {
            verbs.push(VerbHelp { words, about });
        }
    }
    verbs
}

fn dispatch(words: &[String], actions: &Actions, process: &mut Process<'_>) -> Result<(), Failure> {
    let verbs = verb_list(actions);
    let first = words.first().map(String::as_str).unwrap_or("");
    match first {
        "" => {
            return Err(Failure::new(Exit::Usage, format!("a verb is missing\n\n{}", help::top(&verbs))));
        }
        "--help" | "-h" | "help" => return print(process, &help::top(&verbs)),
        "--version" | "-V" => return print(process, &format!("{VERSION}\n")),
        "train" | "pretrain" | "sft" | "lora" => {
            let line = normalise(&words[1..], verbs::TRAIN_FLAGS)?;
            return match parse(&["lightning-train", first], &line)? {
                Parsed::Help(text) => print(process, &(text + &help::train_tail())),
                Parsed::Args(args) => train::train(first, args, line, actions, process),
            };
        }
        "plan" => {
            if let Some(act) = actions.plan {
                return plan::plan(&words[1..], act, process);
            }
        }
        _ => {}
    }
    let second = words.get(1).map(String::as_str).unwrap_or("");
    if let ("data", Some(act)) = (first, actions.data)
        && let Some(done) = act(&words[1..], process)
    {
        return done;
    }
    match (first, actions) {
        ("import", Actions { import: Some(act), .. }) => {
            return one_word(first, &words[1..], IMPORT_FLAGS, process, *act);
        }
        ("export", Actions { export: Some(act), .. }) => {
            return one_word(first, &words[1..], EXPORT_FLAGS, process, *act);
        }
        ("roundtrip", Actions { roundtrip: Some(act), .. }) => {
            return one_word(first, &words[1..], ROUNDTRIP_FLAGS, process, *act);
        }
        _ => {}
    }
    if let ("plot", Some(act)) = (first, actions.plot) {
        return with_paths(first, &words[1..], verbs::PLOT_FLAGS, process, act);
    }
    if let ("compare", Some(act)) = (first, actions.compare) {
        return with_paths(first, &words[1..], verbs::COMPARE_FLAGS, process, act);
    }
    if let ("doctor", Some(act)) = (first, actions.doctor) {
        return one_word(first, &words[1..], verbs::DOCTOR_FLAGS, process, act);
    }
    if let ("verify", "resume", Some(act)) = (first, second, actions.verify_resume) {
        let line = normalise(&words[2..], verbs::VERIFY_RESUME_FLAGS)?;
        return match parse(&["lightning-train", first, second], &line)? {
            Parsed::Help(text) => print(process, &(text + "\n" + exit::EXIT_CODES)),
            Parsed::Args(args) => act(args, line.overrides),
        };
    }
    match (first, second, actions) {
        ("verify", "checkpoint", Actions { verify_checkpoint: Some(act), .. }) => {
            let words = name_positionals(words, &["--checkpoint-path"]);
            two_words(first, second, &words, VERIFY_CHECKPOINT_FLAGS, process, *act)
        }
        ("verify", "same", Actions { verify_same: Some(act), .. }) => {
            let words = name_positionals(words, &["--a", "--b"]);
            two_words(first, second, &words, VERIFY_SAME_FLAGS, process, *act)
        }
        ("verify", "parity", Actions { verify_parity: Some(act), .. }) => {
            two_words(first, second, words, verbs::VERIFY_PARITY_FLAGS, process, *act)
        }
        ("bench", "kernels", Actions { bench_kernels: Some(act), .. }) => {
            two_words(first, second, words, verbs::BENCH_KERNELS_FLAGS, process, *act)
        }
        ("bench", "step", Actions { bench_step: Some(act), .. }) => {
            two_words(first, second, words, verbs::BENCH_STEP_FLAGS, process, *act)
        }
        _ => Err(unknown_verb(first, second, &verbs).into()),
    }
}

fn unknown_verb(first: &str, second: &str, verbs: &[VerbHelp]) -> ConfigError {
    let known = || verbs.iter().map(|v| v.words);
    let follow: Vec<&str> = known().filter(|w| w.split(' ').next() == Some(first)).collect();
    let name = if follow.is_empty() { first.to_string() } else { format!("{first} {second}").trim().to_string() };
    ConfigError::Unknown {
        what: "verb",
        nearest: if follow.is_empty() {
            nearest(&name, known(), 3)
        } else {
            follow.into_iter().map(String::from).collect()
        },
        name,
        hint: "`lightning-train --help` lists all".into(),
    }
}

/// The words of a two-word verb with names in front of its leading plain words (`verify same A B`).
fn name_positionals(words: &[String], names: &[&str]) -> Vec<String> {
    let mut named: Vec<String> = words.iter().take(2).cloned().collect();
    let mut names = names.iter();
    let mut rest = words.iter().skip(2).peekable();
    while let Some(word) = rest.next_if(|w| !w.starts_with('-')) {
        named.extend(names.next().map(|name| name.to_string()));
        named.push(word.clone());
    }
    named.extend(rest.cloned());
    named
}

/// A verb of one word, without overrides.
fn one_word<A: FromArgs>(
    verb: &str,
    words: &[String],
    flags: &[Flag],
    process: &mut Process<'_>,
    act: fn(A) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let line = normalise(words, flags)?;
    if let Some(text) = line.overrides.first() {
        let message = format!("`{text}`: {verb} takes no overrides; see {verb} --help");
        return Err(Failure::new(Exit::Usage, message));
    }
    match parse(&["lightning-train", verb], &line)? {
        Parsed::Help(text) => print(process, &(text + "\n" + exit::EXIT_CODES)),
        Parsed::Args(args) => act(args),
    }
}

/// A verb that takes paths.
fn with_paths<A: FromArgs>(
    verb: &str,
    words: &[String],
    flags: &[Flag],
    process: &mut Process<'_>,
    act: WithWords<A>,
) -> Result<(), Failure> {
    let (line, paths) = split_paths(words, flags)?;
    match parse(&["lightning-train", verb], &normalise(&line, flags)?)? {
        Parsed::Help(text) => print(process, &(text + "\n" + exit::EXIT_CODES)),
        Parsed::Args(args) => act(args, paths),
    }
}

/// A verb of two words, without overrides.
fn two_words<A: FromArgs>(
    first: &str,
    second: &str,
    words: &[String],
    flags: &[Flag],
    process: &mut Process<'_>,
    act: fn(A) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let line = normalise(&words[2..], flags)?;
    if let Some(text) = line.overrides.first() {
        let message = format!("`{text}`: {first} {second} takes no overrides; see {first} {second} --help");
        return Err(Failure::new(Exit::Usage, message));
    }
    match parse(&["lightning-train", first, second], &line)? {
        Parsed::Help(text) => print(process, &(text + "\n" + exit::EXIT_CODES)),
        Parsed::Args(args) => act(args),
    }
}

pub(crate) enum Parsed<A> {
    Help(String),
    Args(A),
}

pub(crate) fn parse<A: FromArgs>(command: &[&str], line: &Normalised) -> Result<Parsed<A>, Failure> {
    let args: Vec<&str> = line.args.iter().map(String::as_str).collect();
    match A::from_args(command, &args) {
        Ok(args) => Ok(Parsed::Args(args)),
        Err(exit) if exit.status.is_ok() => Ok(Parsed::Help(exit.output)),
        Err(exit) => {
            let message = format!("{}; see {} --help", exit.output.trim_end(), command.join(" "));
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

/// Writes a result to standard output. A reader that has seen enough (`| head`) is no failure.
///
/// # Errors
/// The disk behind standard output is full.
pub fn print(process: &mut Process<'_>, text: &str) -> Result<(), Failure> {
    match process.out.write_all(text.as_bytes()).and_then(|()| process.out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            let message = format!("cannot write to standard output: {e}");
            Err(Failure::new(Exit::Unexpected, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
