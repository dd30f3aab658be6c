//! `cargo xtask tensorboard-check`: the event files of a short run, stop and resume included, read by the tensorboard package.

use std::fs;
use std::path::Path;

use argh::FromArgs;

use crate::failure::{Failure, Result, write_file};
use crate::process::{cargo, remove_folder, root, run, target_dir};
use crate::python::Python;

/// What `event_accumulator` of the tensorboard package needs, and no more.
const REQUIREMENTS: &str = "tensorboard==2.21.0\nprotobuf==7.36.2\nnumpy==2.4.6\nabsl-py==2.5.1\ngrpcio==1.85.3\n\
                            typing_extensions==4.16.0\npackaging==26.4\nWerkzeug==3.1.9\nMarkupSafe==3.0.4\nMarkdown==3.11.3\n";
const STAMP: &str = "environment-complete.txt";
const BY_HAND: &str = "this check cannot run; the byte-exact test against a stored file still does.";

/// read the event files of a short run with the tensorboard package and compare every point with metrics.jsonl
#[derive(FromArgs)]
#[argh(subcommand, name = "tensorboard-check")]
pub struct TensorboardCheck {}

impl TensorboardCheck {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let folder = target_dir().join("tensorboard-check");
        let packages = environment(&folder)?;
        let run_folder = folder.join("run");
        remove_folder(&run_folder)?;
        let text = folder.join("text.txt");
        let line = |i: usize| format!("{i} and {} are {}\n{}", i % 7, i + i % 7, if i % 9 == 0 { "\n" } else { "" });
        write_file(&text, (0..3000).map(line).collect::<String>())?;
        for stop in ["train.exit_interval=3", "train.exit_interval=null"] {
            let mut train = cargo();
            train.args(["run", "--release", "--quiet", "--package", "lightning-train", "--", "train"]);
            train.args(["--recipe", "demo_pretrain_config", "model.vocab_size=320", "dataset.vocab_size=320", stop]);
            train.args([
                "model.hidden_size=64",
                "model.seq_length=64",
                "train.train_iters=6",
                "validation.eval_interval=3",
            ]);
            train.arg(format!("logger.dir={}", run_folder.display())).arg("--data").arg(&text);
            run(train.env("LIGHTNING_CACHE", folder.join("cache")))?;
        }
        let mut check = Python::find(BY_HAND)?.command();
        check.args(["-B", "tensorboard_events.py", "check"]).arg(&run_folder);
        run(check.current_dir(root().join("xtask/interop")).env("PYTHONPATH", packages))
    }
}

/// The Python packages, installed once.
fn environment(folder: &Path) -> Result<std::path::PathBuf> {
    let packages = folder.join("packages");
    if fs::read_to_string(packages.join(STAMP)).is_ok_and(|stamp| stamp == REQUIREMENTS) {
        return Ok(packages);
    }
    remove_folder(&packages)?;
    Python::find(BY_HAND)?.install_into(&packages, REQUIREMENTS, BY_HAND)?;
    write_file(&packages.join(STAMP), REQUIREMENTS).map_err(|e| Failure::new(e.to_string()))?;
    Ok(packages)
}
