//! `cargo xtask data-interop`: data preparation with a real tokenizer, compared with what Python makes of the same text.
//!
//! The ranks of a byte-level BPE of 131,072 entries come in a package of the Python index; they are converted to a
//! `tokenizer.json` here and never checked in. The text is an English dictionary from a Debian package (where `apt-get`
//! cannot bring it, Python's own documentation), cut up and mixed by a seed. The program prepares it, is killed and started
//! again, and every document must hold the ids that the Python libraries give.

mod convert;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use argh::FromArgs;

use crate::failure::{Failure, Result, create_folder, write_file};
use crate::process::{capture, cargo, remove_folder, root, run, target_dir};
use crate::python::Python;

/// The tokenizer's ranks, two libraries that apply them, and what these need.
const REQUIREMENTS: &str = "mistral-common==1.13.1\ntokenizers==0.23.3\ntiktoken==0.14.0\nregex==2026.11.19\n";
const STAMP: &str = "environment-complete.txt";
const BY_HAND: &str = "this check cannot run; nothing else needs it.";

/// prepare text with a real tokenizer and compare every id with the Python libraries
#[derive(FromArgs)]
#[argh(subcommand, name = "data-interop")]
pub struct DataInterop {
    /// seed of the text (default: from the clock)
    #[argh(option)]
    seed: Option<u64>,
    /// megabytes of text
    #[argh(option, default = "8")]
    megabytes: u64,
    /// also time a pool of Python processes that does the same work, this many times in turn
    #[argh(option, default = "0")]
    time: u32,
}

impl DataInterop {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let seed = self.seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.map_or(1, |d| d.subsec_nanos().into())
        });
        eprintln!("seed {seed}");
        run(cargo().args(["build", "--release", "--package", "lightning-train", "--bin", "lightning-train"]))?;
        let packages = environment()?;
        let ranks = packages.join("mistral_common/data/tekken_240911.json");
        let work = target_dir().join("interop/data-work");
        remove_folder(&work)?;
        create_folder(&work)?;
        let tokenizer = work.join("tokenizer");
        create_folder(&tokenizer)?;
        convert::convert(&ranks, &tokenizer)?;
        let text = work.join("text.jsonl");
        let script = |args: &[&dyn AsRef<std::ffi::OsStr>]| -> Result<()> {
            let mut command = Python::find(BY_HAND)?.command();
            command.arg(root().join("xtask/interop/data_compare.py")).env("PYTHONPATH", &packages);
            command.args(args.iter().map(|a| a.as_ref()));
            run(&mut command)
        };
        let bytes = (self.megabytes * 1_000_000).to_string();
        let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"text", &text];
        let seed_text = seed.to_string();
        args.extend([&seed_text as &dyn AsRef<std::ffi::OsStr>, &bytes]);
        let dictionary = dictionary()?;
        match &dictionary {
            Some(dictionary) => args.push(dictionary),
            None => eprintln!("no Debian package at hand: the text is Python's documentation"),
        }
        script(&args)?;
        let output = work.join("prepared");
        let start = Instant::now();
        interrupted(&prepare(&text, &tokenizer, &output), seed)?;
        run(&mut prepare(&text, &tokenizer, &output))?;
        eprintln!("prepared in {:.1} s, one kill included", start.elapsed().as_secs_f64());
        script(&[&"compare", &text, &tokenizer, &ranks, &output])?;
        let mut inspect = program();
        inspect.args(["data", "inspect"]).arg(first_shard(&output)?).arg("--tokenizer").arg(&tokenizer);
        run(inspect.args(["--samples", "1"]))?;
        for round in 1..=self.time {
            let again = work.join(format!("timed-{round}"));
            let start = Instant::now();
            run(&mut prepare(&text, &tokenizer, &again))?;
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("round {round}: data prep pretrain: {seconds:.2} s, loading the tokenizer included");
            script(&[&"pool", &text, &tokenizer, &work.join("pool")])?;
        }
        println!("data-interop: all ids are those of the Python libraries");
        Ok(())
    }
}

/// The text of an English dictionary out of a Debian package, brought once; `None` without `apt-get` and `dpkg-deb`.
fn dictionary() -> Result<Option<PathBuf>> {
    const PACKAGE: &str = "dict-gcide";
    let folder = target_dir().join("interop/data-text");
    let text = folder.join("usr/share/dictd/gcide.dict.dz");
    if text.is_file() {
        return Ok(Some(text));
    }
    create_folder(&folder)?;
    let download = capture(Command::new("apt-get").args(["download", PACKAGE]).current_dir(&folder));
    if !download.is_ok_and(|o| o.status.success()) {
        return Ok(None);
    }
    let entries = std::fs::read_dir(&folder).map_err(|e| Failure::io("list", &folder, &e))?;
    let package = entries.flatten().map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "deb"));
    let Some(package) = package else { return Ok(None) };
    let unpacked = capture(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&folder));
    Ok((unpacked.is_ok_and(|o| o.status.success()) && text.is_file()).then_some(text))
}

fn program() -> Command {
    let mut command = Command::new(target_dir().join("release/lightning-train"));
    command.current_dir(root());
    command
}

fn prepare(text: &Path, tokenizer: &Path, output: &Path) -> Command {
    let mut command = program();
    command.args(["data", "prep", "pretrain"]).arg(text).arg("--tokenizer").arg(tokenizer);
    command.arg("--output").arg(output).args(["--num-shards", "8"]);
    command
}

/// Starts the preparation and kills it after a while that the seed chooses.
fn interrupted(command: &Command, seed: u64) -> Result<()> {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args()).current_dir(root());
    let failed = |e: std::io::Error| Failure::new(format!("cannot run the program: {e}; build it first"));
    let mut child = again.spawn().map_err(failed)?;
    std::thread::sleep(std::time::Duration::from_millis(500 + seed % 2000));
    // It may have ended already; then there is nothing to kill.
    let _ = child.kill();
    child.wait().map_err(failed).map(|_| ())
}

/// The prefix of the first shard that the blend file lists for training.
fn first_shard(output: &Path) -> Result<String> {
    let text = crate::failure::read_text(&output.join("blend.json"))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| Failure::new(format!("blend.json is not JSON: {e}; prepare again")))?;
    match value["train"][1].as_str() {
        Some(prefix) => Ok(prefix.to_string()),
        None => Err(Failure::new("blend.json lists no training shard; use more text")),
    }
}

/// Installs the packages once.
fn environment() -> Result<PathBuf> {
    let folder = target_dir().join("interop/data-packages");
    let stamp = folder.join(STAMP);
    if std::fs::read_to_string(&stamp).is_ok_and(|t| t == REQUIREMENTS) {
        return Ok(folder);
    }
    let python = Python::find(BY_HAND)?;
    remove_folder(&folder)?;
    eprintln!("installing {}", REQUIREMENTS.trim_end().replace('\n', ", "));
    python.install_into(&folder, REQUIREMENTS, BY_HAND)?;
    write_file(&stamp, REQUIREMENTS)?;
    Ok(folder)
}
