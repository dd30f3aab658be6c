//! Properties that hold for any input, and answers to bad input.

mod blend;
mod gpt;
mod indexed;
#[cfg(feature = "parquet")]
mod parquet;
mod prep;
mod sft;
mod tokenizer;

use std::path::PathBuf;

/// A directory of this process for files that a test writes; removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A fresh directory whose name holds `name`.
    pub fn new(name: &str) -> Scratch {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("lightning-properties-{}-{name}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        Scratch(directory)
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Fails with the value that should have been an error.
pub fn error<T>(result: lightning_data::Result<T>, what: &str) -> lightning_data::DataError {
    match result {
        Ok(_) => panic!("{what} was accepted"),
        Err(e) => e,
    }
}
