//! Training of a byte-level BPE tokenizer: every text can be encoded, no unknown token is needed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

use super::TextTokenizer;
use crate::atomic::write_atomically;
use crate::error::{DataError, Result};

/// Settings of a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainingSettings {
    /// Size of the vocabulary, special tokens and the 256 bytes included.
    pub vocab_size: usize,
    /// Special tokens; they get the first ids, in this order.
    pub special_tokens: Vec<String>,
    /// Which special token ends a document.
    pub eos: String,
    /// Pairs seen less often are not merged.
    pub min_frequency: u64,
}

impl TrainingSettings {
    /// `vocab_size` entries with one special token, `<|endoftext|>`, which ends documents.
    pub fn new(vocab_size: usize) -> TrainingSettings {
        let eos = "<|endoftext|>".to_string();
        TrainingSettings { vocab_size, special_tokens: vec![eos.clone()], eos, min_frequency: 2 }
    }

    fn check(&self) -> Result<()> {
        let least = 256 + self.special_tokens.len();
        if self.vocab_size < least {
            return Err(DataError::Setting {
                name: "vocab_size",
                expected: format!("at least {least}: 256 bytes and {} special tokens", self.special_tokens.len()),
                found: self.vocab_size.to_string(),
                hint: "raise it",
            });
        }
        if !self.special_tokens.contains(&self.eos) || self.special_tokens.iter().any(String::is_empty) {
            return Err(DataError::Setting {
                name: "special_tokens",
                expected: format!("texts that are not empty, {:?} among them", self.eos),
                found: format!("{:?}", self.special_tokens),
                hint: "add the end-of-document token",
            });
        }
        Ok(())
    }
}

/// A tokenizer fresh from training.
pub struct TrainedTokenizer {
    inner: Tokenizer,
    config: Value,
}

impl TrainedTokenizer {
    /// Writes `tokenizer.json` and `tokenizer_config.json` into `directory`, each atomically.
    pub fn save(&self, directory: &Path) -> Result<()> {
        let text = self.inner.to_string(true).map_err(|e| DataError::Tokenizer {
            what: directory.display().to_string(),
            message: e.to_string(),
            hint: "train again",
        })?;
        write_atomically(&directory.join("tokenizer.json"), text.as_bytes())?;
        write_atomically(&directory.join("tokenizer_config.json"), format!("{:#}\n", self.config).as_bytes())
    }

    /// The tokenizer ready for use.
    pub fn into_tokenizer(self) -> Result<TextTokenizer> {
        TextTokenizer::from_parts(self.inner, &self.config, PathBuf::from("(just trained)"))
    }
}

/// Trains on `texts`. A text that holds many lines is fine. The result depends on the multiset of words alone, so the same
/// texts give the same tokenizer. With little text the vocabulary can come out smaller than asked for.
///
/// # Errors
/// The first error that the iterator yields; no text at all; impossible settings.
pub fn train_on_texts<I, S>(texts: I, settings: &TrainingSettings) -> Result<TrainedTokenizer>
where
    I: Iterator<Item = Result<S>> + Send,
    S: AsRef<str> + Send,
{
    settings.check()?;
    let failed =
        |e: tokenizers::Error, hint| DataError::Tokenizer { what: "training".into(), message: e.to_string(), hint };
    let mut inner = Tokenizer::new(BPE::default());
    inner.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    inner.with_decoder(Some(ByteLevel::default()));
    let special: Vec<AddedToken> = settings.special_tokens.iter().map(|t| AddedToken::from(t.clone(), true)).collect();
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(settings.vocab_size)
        .min_frequency(settings.min_frequency)
        .special_tokens(special)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let mut failure = None;
    let mut any = false;
    let good = texts.map_while(|text| match text {
        Ok(text) => {
            any |= !text.as_ref().is_empty();
            Some(text)
        }
        Err(e) => {
            failure = Some(e);
            None
        }
    });
    let outcome = inner.train(&mut TrainerWrapper::BpeTrainer(trainer), good).map(|_| ());
    if let Some(e) = failure {
        return Err(e);
    }
    outcome.map_err(|e| failed(e, "check the texts and the settings"))?;
    if !any {
        return Err(DataError::Tokenizer {
            what: "training".into(),
            message: "there is no text to train on".into(),
            hint: "name files that are not empty",
        });
    }
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": settings.eos,
        "clean_up_tokenization_spaces": false,
        "model_max_length": 1_000_000_000_000u64,
    });
    Ok(TrainedTokenizer { inner, config })
}

/// Trains on the lines of text files.
///
/// # Errors
/// A file that cannot be read or is not UTF-8 (file and line are named), and those of [`train_on_texts`].
pub fn train_on_files(files: &[PathBuf], settings: &TrainingSettings) -> Result<TrainedTokenizer> {
    train_on_texts(files.iter().flat_map(|path| Lines::open(path)), settings)
}

/// Lines of a UTF-8 file with their line feeds.
pub(super) struct Lines<'a> {
    path: &'a Path,
    reader: Option<BufReader<std::fs::File>>,
    opening: Option<DataError>,
    line: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn open(path: &'a Path) -> Lines<'a> {
        match std::fs::File::open(path) {
            Ok(file) => Lines { path, reader: Some(BufReader::with_capacity(1 << 18, file)), opening: None, line: 0 },
            Err(e) => Lines { path, reader: None, opening: Some(DataError::io("open", path, e)), line: 0 },
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        if let Some(e) = self.opening.take() {
            return Some(Err(e));
        }
        let mut bytes = Vec::new();
        self.line += 1;
        match self.reader.as_mut()?.read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => Some(String::from_utf8(bytes).map_err(|e| DataError::Invalid {
                path: self.path.to_path_buf(),
                rule: "text is UTF-8",
                entry: Some(self.line),
                expected: "UTF-8 in every line".into(),
                found: format!("byte {:#04x} at column {}", e.as_bytes()[e.utf8_error().valid_up_to()], {
                    e.utf8_error().valid_up_to() + 1
                }),
                hint: "convert the file, or leave it out",
            })),
            Err(e) => Some(Err(DataError::io("read", self.path, e))),
        }
    }
}
