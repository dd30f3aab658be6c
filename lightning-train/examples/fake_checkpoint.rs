//! Writes a checkpoint of the family without training one; `cargo xtask fake-checkpoint` runs it.

use argh::FromArgs;
use lightning_train::convert::synthetic::{Data, family_member, write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write a checkpoint with the names of the full model and widths divided by --scale.
#[derive(FromArgs)]
struct Args {
    /// folder to write
    #[argh(option)]
    out: PathBuf,
    /// divisor of the widths; 1 is the full model
    #[argh(option, default = "16")]
    scale: usize,
    /// number of files
    #[argh(option, default = "14")]
    files: usize,
    /// seed of the random values
    #[argh(option, default = "1")]
    seed: u64,
    /// write headers only, in files as long as the real ones that take no space
    #[argh(switch)]
    sparse: bool,
}

fn main() -> ExitCode {
    let args: Args = argh::from_env();
    let data = if args.sparse { Data::Sparse } else { Data::Random(args.seed) };
    match write(&args.out, &family_member(args.scale), args.files, data) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
