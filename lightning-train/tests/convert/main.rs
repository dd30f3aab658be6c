//! Conversions, layouts of ranks, adapters and kills, in one program.

mod adapters;
mod headers;
mod kills;
mod layouts;
mod loading;
mod memory;
mod refusals;
mod round_trip;
mod saving;

use lightning_core::config::ModelConfig;
use lightning_train::convert::synthetic::{self, Data};
use lightning_train::convert::{ExportArgs, ImportArgs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that is removed at the end of a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lightning-convert-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A checkpoint of random values in `files` files.
    fn checkpoint(&self, name: &str, model: &ModelConfig, files: usize, seed: u64) -> String {
        synthetic::write(&self.path(name), model, files, Data::Random(seed)).unwrap();
        self.text(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The tiny checkpoint that the golden values belong to.
fn tiny() -> PathBuf {
    match std::env::var_os("LIGHTNING_GOLDEN_MODEL") {
        Some(folder) => PathBuf::from(folder).join("tiny"),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/model/tiny"),
    }
}

/// A model with every kind of layer, odd sizes where the family allows them, and 12 experts.
fn small_model() -> ModelConfig {
    use lightning_core::config::{AttentionConfig, MambaConfig, MoeConfig, parse_pattern, preset};
    let base = preset("oracle_tiny").unwrap();
    ModelConfig {
        vocab: 37,
        hidden: 20,
        layers: parse_pattern("ME*-E").unwrap(),
        attention: Some(AttentionConfig { heads: 6, kv_heads: 2, head_dim: 5 }),
        mamba: Some(MambaConfig { heads: 8, head_dim: 3, state: 5, groups: 4, ..base.mamba().clone() }),
        moe: Some(MoeConfig { experts: 12, expert_width: 7, shared_width: 14, ..base.moe().clone() }),
        mlp_width: Some(11),
        ..base
    }
}

fn import_args(hf_model: &str, checkpoint_path: &str) -> ImportArgs {
    ImportArgs {
        hf_model: hf_model.into(),
        hf_revision: None,
        checkpoint_path: checkpoint_path.into(),
        torch_dtype: None,
        overwrite: false,
        not_strict: false,
        low_memory: false,
        workers: Some(2),
        dry_run: false,
        no_progress: true,
        json: true,
    }
}

fn export_args(checkpoint_path: &str, hf_path: &str) -> ExportArgs {
    ExportArgs {
        checkpoint_path: checkpoint_path.into(),
        hf_path: hf_path.into(),
        hf_model: None,
        hf_revision: None,
        torch_dtype: None,
        adapter: None,
        max_shard_size: 5_000_000_000,
        overwrite: false,
        not_strict: false,
        low_memory: false,
        workers: Some(2),
        dry_run: false,
        no_progress: true,
        json: true,
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lightning-train"))
}

fn run(words: &[&str]) -> Output {
    program().args(words).output().expect("the program starts")
}

#[track_caller]
fn expect(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in:\n{text}");
    }
}

/// Numbers for tests from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    fn float(&mut self) -> f32 {
        self.next() as f32 / (1u64 << 30) as f32 - 1.0
    }
}
