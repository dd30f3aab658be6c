//! The verb `plan` up to the point where planning begins: the line of `train` with flags of its own.

use super::argv::normalise;
use super::verbs::{TRAIN_FLAGS, TrainArgs};
use super::{Exit, Failure, Parsed, Process, exit, help, parse, print, train};
use crate::plan::PlanRequest;

const ABOUT: &str = "\
Usage: lightning-train plan [--target NAME] [--ops] [--max-seq] [--measured FILE] [--json] [flags of train] [section.key=value ...]

Plan a training: bytes by kind and by point in the step, FLOPs, traffic and time at the roofs, per rank.

  --target NAME    cpu, h100, h200 or gb200; the machine of the recipe when absent
  --ops            list the operations of the micro-batch program
  --max-seq        how long a sequence fits
  --measured FILE  table of measured kernels (JSON), used in place of the roofs
  --json           print machine-readable results

The configuration comes from the flags of train (train --help): --recipe, --config, --seq-length, --nodes, ...
A plan that does not fit names the first knobs to turn; train refuses such a run with exit code 4.

";

/// Runs the verb on the words behind it.
pub(super) fn plan(
    words: &[String],
    act: fn(PlanRequest) -> Result<(), Failure>,
    process: &mut Process<'_>,
) -> Result<(), Failure> {
    let (mut target, mut measured, mut ops, mut max_seq) = (None, None, false, false);
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => (name, Some(value.to_string())),
            _ => (word.as_str(), None),
        };
        let slot = match name.replace('_', "-").as_str() {
            "--help" | "-h" => {
                return print(process, &format!("{ABOUT}{}\n{}", help::GRAMMAR, exit::EXIT_CODES));
            }
            "--ops" if value.is_none() => {
                ops = true;
                continue;
            }
            "--max-seq" if value.is_none() => {
                max_seq = true;
                continue;
            }
            "--target" => &mut target,
            "--measured" => &mut measured,
            _ => {
                rest.push(word.clone());
                continue;
            }
        };
        let value = value.or_else(|| words.next().cloned());
        *slot = Some(value.ok_or_else(|| {
            Failure::new(Exit::Usage, format!("{name} needs a value; see lightning-train plan --help"))
        })?);
    }
    let line = normalise(&rest, TRAIN_FLAGS)?;
    let mut args: TrainArgs = match parse(&["lightning-train", "plan"], &line)? {
        Parsed::Help(text) => return print(process, &text),
        Parsed::Args(args) => args,
    };
    // Nothing runs here: a layout of many ranks is welcome.
    args.dry_run = true;
    let resolved = train::resolve("plan", &args, &line, process.environment)?;
    for note in &resolved.notes {
        let _ = writeln!(process.err, "note: {note}");
    }
    act(PlanRequest { resolved, target, ops, max_seq, measured, json: args.json })
}
