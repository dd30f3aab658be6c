//! Lists the documents that are built into the program: what `dataset.kind = text` trains on outside a clone.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("..");
    let mut files = Vec::new();
    for name in ["README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        println!("cargo:rerun-if-changed={}", root.join(name).display());
        if root.join(name).is_file() {
            files.push(name.to_string());
        }
    }
    let source = root.join("lightning-core/src");
    println!("cargo:rerun-if-changed={}", source.display());
    collect(&source, &root, &mut files);
    let mut text = String::from("pub static DOCUMENTS: &[(&str, &str)] = &[\n");
    for name in files {
        let path = root.join(&name);
        writeln!(text, "    ({name:?}, include_str!({:?})),", path.display().to_string()).expect("a string grows");
    }
    text.push_str("];\n");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo"));
    std::fs::write(out.join("embedded_documents.rs"), text).expect("OUT_DIR can be written");
}

fn collect(folder: &Path, root: &Path, files: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).expect("the core crate lies beside this one");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, root, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let name = path.strip_prefix(root).expect("below the root");
            files.push(name.to_string_lossy().into_owned());
        }
    }
}
