//! With the `bindgen` feature: generate the checked-in files and write or compare them.

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

/// Head of the generated header.
const HEADER_HEAD: &str = "\
// The operations of lightning's GPU device by raw device pointer and stream. Generated from the crate `capi` by
// `cargo xtask bindgen`; the rules for callers are at the head of capi/src/lib.rs.";

/// Generates or checks the files.
pub fn run(check: bool) -> Result<()> {
    let params = generate(&root().join("csrc/include/lightning/params.h"))?;
    settle(check, &root().join("kernels-sys/src/params.rs"), "params.h", &params)?;
    settle(check, &root().join("capi/include/lightning.h"), "capi", &c_header()?)
}

/// Writes a generated file, or holds the one that is there against it.
fn settle(check: bool, path: &Path, source: &str, generated: &str) -> Result<()> {
    if !check {
        write_file(path, generated)?;
        eprintln!("wrote {}", path.display());
        return Ok(());
    }
    let present = read_text(path)?;
    if present == generated {
        return Ok(());
    }
    let same = present.lines().zip(generated.lines()).take_while(|(a, b)| a == b).count();
    Err(Failure::new(format!(
        "{} is not what {source} generates (line {} differs): run `cargo xtask bindgen` and check the result in",
        path.display(),
        same + 1
    )))
}

fn c_header() -> Result<String> {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        cpp_compat: true,
        header: Some(HEADER_HEAD.to_string()),
        include_guard: Some("LIGHTNING_H".to_string()),
        usize_is_size_t: true,
        documentation_style: cbindgen::DocumentationStyle::C99,
        enumeration: cbindgen::EnumConfig {
            rename_variants: cbindgen::RenameRule::QualifiedScreamingSnakeCase,
            ..Default::default()
        },
        ..Default::default()
    };
    let bindings = cbindgen::Builder::new()
        .with_crate(root().join("capi"))
        .with_config(config)
        .generate()
        .map_err(|e| Failure::new(format!("cbindgen cannot read capi: {e}")))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).map_err(|e| Failure::new(format!("cbindgen wrote no UTF-8: {e}")))
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
        // Zeros are no tensor map; blocks that hold one are named so.
        .no_default("LightningTensorMap|.*TmaParams")
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
