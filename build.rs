// Compiles csrc/ with nvcc and writes the kernel table of kernels-sys, which includes this file as its build script.
//
//   csrc/FAMILY/NAME.cu          is compiled for every architecture of LIGHTNING_CUDA_ARCHS (comma-separated)
//   csrc/FAMILY/NAME.sm_90a.cu   is compiled for that one alone
//
// Each becomes PTX (nvcc) and, from that very PTX, a cubin (ptxas), both with line information. A source is compiled
// again only when it, a header that it includes, the flags or the toolkit has changed.
//
// LIGHTNING_CUDA = auto (default)  without a usable nvcc, build without kernels
//                  require         without a usable nvcc, fail
//                  off             build without kernels
// nvcc is looked for in CUDA_HOME, in target/cuda (`cargo xtask setup-cuda`) and on the path.

use std::path::PathBuf;

fn main() {
    if let Err(message) = build() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}

fn build() -> Result<(), String> {
    let root =
        PathBuf::from(sources::env("CARGO_MANIFEST_DIR")?).parent().expect("a crate of the workspace").to_path_buf();
    let out = PathBuf::from(sources::env("OUT_DIR")?);
    let csrc = root.join("csrc");
    for path in [&csrc, &root.join("build.rs")] {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    for name in ["CUDA_HOME", "LIGHTNING_CUDA", "LIGHTNING_CUDA_ARCHS", "NVCC_CCBIN"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let archs = sources::chosen_archs(&std::env::var("LIGHTNING_CUDA_ARCHS").unwrap_or_default())?;
    let sources = sources::find_sources(&csrc)?;
    let mode = std::env::var("LIGHTNING_CUDA").unwrap_or_default();
    let (compiler, absent) = match mode.as_str() {
        "off" => (None, Some("LIGHTNING_CUDA=off was set when this was built".to_string())),
        "" | "auto" | "require" => match nvcc::find_nvcc(&root, &out) {
            Ok(compiler) => (Some(compiler), None),
            Err(why) if mode == "require" => {
                return Err(format!("LIGHTNING_CUDA=require, but {why}"));
            }
            Err(why) => {
                println!("cargo::warning=built without CUDA kernels: {why}");
                (None, Some(why))
            }
        },
        other => {
            return Err(format!("LIGHTNING_CUDA={other} is none of auto, require, off"));
        }
    };

    let images = match &compiler {
        Some(compiler) => nvcc::compile_all(compiler, &csrc, &out, &sources, &archs)?,
        None => Vec::new(),
    };
    table::write_table(&out, &sources, &images, absent.as_deref())
}
