//! Reads a LoRA adapter of either of PEFT's flavours and writes it in one of them: `rewrite_adapter FROM TO FLAVOUR`.

use lightning_train::adapters::{Adapter, Flavour};
use safetensors::Dtype;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let flavour = match words.get(2).map(String::as_str) {
        Some("per-module") => Flavour::PerModule,
        Some("target-parameters") => Flavour::TargetParameters,
        _ => {
            eprintln!("usage: rewrite_adapter FROM TO per-module|target-parameters");
            return ExitCode::from(2);
        }
    };
    let written = Adapter::read(Path::new(&words[0]))
        .and_then(|adapter| adapter.write(Path::new(&words[1]), flavour, Dtype::F32));
    match written {
        Ok(left_out) => {
            eprintln!("{} pairs have no name in this flavour", left_out.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
