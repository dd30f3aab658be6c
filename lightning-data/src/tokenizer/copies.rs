//! Copies of a tokenizer for workers.

use std::sync::Mutex;

use super::TextTokenizer;

/// One copy per worker at a time, kept for the next. A tokenizer remembers words behind a lock that workers would fight for,
/// and a copy of a large vocabulary is not made lightly.
pub(crate) struct TokenizerCopies {
    original: TextTokenizer,
    idle: Mutex<Vec<TextTokenizer>>,
}

impl TokenizerCopies {
    pub(crate) fn new(original: TextTokenizer) -> TokenizerCopies {
        TokenizerCopies { original, idle: Mutex::new(Vec::new()) }
    }

    /// Lends a copy to `work`.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&TextTokenizer) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(|e| e.into_inner());
        let copy = idle().pop().unwrap_or_else(|| self.original.clone());
        let result = work(&copy);
        idle().push(copy);
        result
    }
}
