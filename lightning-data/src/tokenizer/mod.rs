//! Text to ids and back, by Hugging Face `tokenizer.json` files.

mod copies;
mod rows;
mod train;

pub(crate) use copies::TokenizerCopies;
pub use rows::{RowsRead, train_on_rows};
pub use train::{TrainedTokenizer, TrainingSettings, train_on_files, train_on_texts};

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::Tokenizer;

use crate::error::{DataError, Result};

/// A tokenizer with the special ids that its `tokenizer_config.json` names. Special tokens are never added by itself;
/// text that spells one is encoded as that token.
#[derive(Clone)]
pub struct TextTokenizer {
    inner: Tokenizer,
    path: PathBuf,
    eos: Option<u32>,
    bos: Option<u32>,
    pad: Option<u32>,
    special_ids: Vec<u32>,
    vocab_size: u32,
}

impl TextTokenizer {
    /// Loads `path`: a directory with `tokenizer.json`, or such a file; `tokenizer_config.json` beside it is read if there.
    ///
    /// # Errors
    /// Missing or malformed files, features that the library does not know, special tokens outside the vocabulary.
    pub fn load(path: impl AsRef<Path>) -> Result<TextTokenizer> {
        let path = path.as_ref();
        let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_path_buf() };
        let bytes = std::fs::read(&file).map_err(|e| DataError::io("open", &file, e))?;
        let inner = Tokenizer::from_bytes(&bytes).map_err(|e| DataError::Tokenizer {
            what: file.display().to_string(),
            message: e.to_string(),
            hint: "use a fast tokenizer's tokenizer.json (slow and SentencePiece files are not read)",
        })?;
        let config_path = file.with_file_name("tokenizer_config.json");
        let config = match std::fs::read(&config_path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| DataError::Tokenizer {
                what: config_path.display().to_string(),
                message: e.to_string(),
                hint: "the file has to be a JSON object",
            })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Value::Null,
            Err(e) => return Err(DataError::io("open", &config_path, e)),
        };
        TextTokenizer::from_parts(inner, &config, file)
    }

    fn from_parts(mut inner: Tokenizer, config: &Value, path: PathBuf) -> Result<TextTokenizer> {
        let problem = |message: String, hint: &'static str| DataError::Tokenizer {
            what: path.display().to_string(),
            message,
            hint,
        };
        // Files saved after an interactive session can carry these; they would cut documents silently.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| problem(e.to_string(), "remove `truncation` from the file"))?;
        let special = |key: &str| -> Result<Option<u32>> {
            // Either the text itself or an added-token object with its `content`.
            let entry = &config[key];
            let Some(text) = entry.as_str().or_else(|| entry["content"].as_str()) else {
                return Ok(None);
            };
            inner.token_to_id(text).map(Some).ok_or_else(|| {
                problem(
                    format!("{key} {text:?} of tokenizer_config.json is not in the vocabulary"),
                    "take both files from the same checkpoint",
                )
            })
        };
        let (eos, bos, pad) = (special("eos_token")?, special("bos_token")?, special("pad_token")?);
        let added = inner.get_added_tokens_decoder();
        let mut special_ids: Vec<u32> = added.iter().filter(|(_, t)| t.special).map(|(&id, _)| id).collect();
        special_ids.sort_unstable();
        let vocab = inner.get_vocab(true);
        let vocab_size = vocab.values().max().map_or(0, |&id| id + 1);
        Ok(TextTokenizer { inner, path, eos, bos, pad, special_ids, vocab_size })
    }

    /// The file it came from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Id that ends a document.
    ///
    /// # Errors
    /// When `tokenizer_config.json` is missing or names none.
    pub fn eos(&self) -> Result<u32> {
        self.eos.ok_or_else(|| DataError::Tokenizer {
            what: self.path.display().to_string(),
            message: "tokenizer_config.json beside it names no eos_token".into(),
            hint: "add {\"eos_token\": \"...\"} there",
        })
    }

    /// Id that starts a text, if there is one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Id of padding, if there is one.
    pub fn pad(&self) -> Option<u32> {
        self.pad
    }

    /// Ids of all added tokens marked special, ascending.
    pub fn special_ids(&self) -> &[u32] {
        &self.special_ids
    }

    /// Largest id plus one. A model's vocabulary may be larger.
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// Id of a token by its text.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Text of a token by its id.
    pub fn id_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Encodes `text` and appends the ids to `out`.
    pub fn encode_into(&self, text: &str, out: &mut Vec<u32>) -> Result<()> {
        let encoding = self.inner.encode_fast(text, false).map_err(|e| self.failed("encode", &*e))?;
        out.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// Encodes `text`.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut out = Vec::new();
        self.encode_into(text, &mut out)?;
        Ok(out)
    }

    /// Decodes ids, special tokens included as their text.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, false).map_err(|e| self.failed("decode", &*e))
    }

    /// Whether a blank between two words changes the ids, so that "x y" is not "x" followed by "y".
    pub fn is_space_sensitive(&self) -> Result<bool> {
        let mut apart = self.encode("x")?;
        self.encode_into("y", &mut apart)?;
        Ok(self.encode("x y")? != apart)
    }

    fn failed(&self, action: &str, error: &(dyn std::error::Error + Send + Sync)) -> DataError {
        DataError::Tokenizer {
            what: self.path.display().to_string(),
            message: format!("cannot {action}: {error}"),
            hint: "check that the ids or the text belong to this tokenizer",
        }
    }
}
