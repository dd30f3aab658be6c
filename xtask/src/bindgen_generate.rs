//! With the `bindgen` feature: generate the parameter blocks and write or compare the checked-in file.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, read_text, write_file};
use crate::process::{root, text};

/// Head of the generated file.
const HEAD: &str = "\
//! Parameter blocks of the kernels, generated from `csrc/include/lightning/params.h` by `cargo xtask bindgen`.
//! Device addresses are `u64`; 0 stands for an absent buffer where a field says that it may be absent.

// Shapes such as [h] are not links.
#![allow(rustdoc::broken_intra_doc_links)]";

/// Generates or checks the parameter blocks.
pub fn run(check: bool) -> Result<()> {
    let path = root().join("kernels-sys/src/params.rs");
    let generated = generate(&root().join("csrc/include/lightning/params.h"))?;
    if !check {
        write_file(&path, &generated)?;
        eprintln!("wrote {}", path.display());
        return Ok(());
    }
    let present = read_text(&path)?;
    if present == generated {
        return Ok(());
    }
    let same = present.lines().zip(generated.lines()).take_while(|(a, b)| a == b).count();
    Err(Failure::new(format!(
        "{} is not what params.h generates (line {} differs): run `cargo xtask bindgen` and check the result in",
        path.display(),
        same + 1
    )))
}

fn generate(header: &Path) -> Result<String> {
    let bindings = bindgen::Builder::default()
        .header(header.to_string_lossy())
        // Plain comments of the header become the documentation.
        .clang_args(["-x", "c", "-std=c11", "-fparse-all-comments"])
        .clang_arg(format!("-I{}", header.ancestors().nth(2).unwrap_or(header).display()))
        .clang_arg(format!("-isystem{}", compiler_headers()?.display()))
        .raw_line(HEAD)
        .disable_header_comment()
        .use_core()
        .derive_default(true)
        .derive_partialeq(true)
        .allowlist_type(".*Params")
        .layout_tests(true)
        .formatter(bindgen::Formatter::Rustfmt)
        .generate()
        .map_err(|e| Failure::new(format!("bindgen cannot read {}: {e}", header.display())))?;
    Ok(bindings.to_string())
}

/// The folder of `stddef.h`, which the libclang wheel does not bring: the C compiler's.
fn compiler_headers() -> Result<PathBuf> {
    let said = text(Command::new("cc").arg("-print-file-name=include"))?;
    let folder = PathBuf::from(said.trim());
    if folder.join("stddef.h").is_file() {
        Ok(folder)
    } else {
        Err(Failure::new(format!("the C compiler's headers are not in {}: install gcc", folder.display())))
    }
}
