//! The one error type of this crate.
//!
//! Every variant carries the thing that is wrong by name, what was expected and what was found, and its text ends with
//! what to try. [`DataError::class`] says whose problem it is, so that a program can choose its exit code.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, DataError>;

/// Whose problem an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// A setting or a command line (exit code 2).
    Usage,
    /// Contents of a file (exit code 3).
    Data,
    /// The operating system said no (exit code 3 as well: the disk, a permission, a missing file).
    Io,
}

/// What can go wrong between a file and a batch.
#[derive(Debug)]
pub enum DataError {
    /// An operating-system call failed.
    Io {
        /// What was being done, as a verb phrase: "open", "write".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file breaks a rule of its format.
    Invalid {
        /// The file.
        path: PathBuf,
        /// The rule, in words.
        rule: &'static str,
        /// Which entry, row or line breaks it, where there is one.
        entry: Option<u64>,
        /// What the rule asks for.
        expected: String,
        /// What the file holds.
        found: String,
        /// What to try.
        hint: &'static str,
    },
    /// A setting has an impossible value.
    Setting {
        /// The setting's name as a user writes it.
        name: &'static str,
        /// What is accepted.
        expected: String,
        /// What was given.
        found: String,
        /// What to try.
        hint: &'static str,
    },
    /// A token file holds a kind of number that cannot be a token.
    TokenType {
        /// The index file.
        path: PathBuf,
        /// The type code in the index.
        code: u8,
        /// The code's name.
        name: &'static str,
    },
    /// A token id lies outside the vocabulary (or is negative).
    TokenRange {
        /// The token file.
        path: PathBuf,
        /// The sequence that holds it.
        sequence: u64,
        /// Position in the sequence.
        position: u64,
        /// The id.
        id: i64,
        /// Size of the vocabulary.
        vocab_size: u64,
    },
    /// A split of a source has too few tokens to make one sample.
    EmptySplit {
        /// "train", "valid" or "test".
        split: String,
        /// The source's prefix.
        prefix: String,
        /// Sequences of the whole source.
        sequences: u64,
        /// Sequences that fall to this split.
        in_split: u64,
        /// Their tokens.
        tokens: u64,
    },
    /// A blend asks a source for a sample that it does not have.
    Oversampled {
        /// The source's prefix or name.
        source: String,
        /// The sample asked for.
        wanted: u64,
        /// How many samples the source has.
        available: u64,
    },
    /// The data ends before the position asked for.
    Exhausted {
        /// What ended: "train", "valid", ...
        what: String,
        /// Samples consumed when the batch was asked for.
        consumed: u64,
        /// Samples there are.
        available: u64,
    },
    /// A tokenizer could not be read, trained or applied.
    Tokenizer {
        /// Its file or directory, or a name.
        what: String,
        /// What the tokenizer library said.
        message: String,
        /// What to try.
        hint: &'static str,
    },
    /// A thread of this crate ended without handing over its result.
    Worker {
        /// Which one.
        what: &'static str,
    },
}

impl DataError {
    /// Wraps an operating-system error.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> DataError {
        DataError::Io { action, path: path.to_path_buf(), source }
    }

    /// Whose problem this is.
    pub fn class(&self) -> ErrorClass {
        match self {
            DataError::Io { .. } => ErrorClass::Io,
            DataError::Setting { .. } => ErrorClass::Usage,
            _ => ErrorClass::Data,
        }
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataError::Io { action, path, source } => {
                write!(f, "cannot {action} {}: {source}", path.display())?;
                let advice = match source.kind() {
                    io::ErrorKind::NotFound => "check the path",
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        "check the permissions, or choose another directory"
                    }
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        "free some space and start again: finished files are kept"
                    }
                    _ => "check the file and the disk",
                };
                write!(f, "; {advice}")
            }
            DataError::Invalid { path, rule, entry, expected, found, hint } => {
                write!(f, "{}: {rule}", path.display())?;
                if let Some(entry) = entry {
                    write!(f, " (entry {entry})")?;
                }
                write!(f, ": expected {expected}, found {found}; {hint}")
            }
            DataError::Setting { name, expected, found, hint } => {
                write!(f, "{name}: expected {expected}, found {found}; {hint}")
            }
            DataError::TokenType { path, code, name } => write!(
                f,
                "{}: dtype code {code} ({name}) holds no tokens: expected one of 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64), \
                 8 (uint16); write the token file again with an integer type",
                path.display()
            ),
            DataError::TokenRange { path, sequence, position, id, vocab_size } => write!(
                f,
                "{}: token {id} at position {position} of sequence {sequence} is outside the vocabulary of {vocab_size}; \
                 use the tokenizer that wrote this file, or a model whose vocabulary covers it",
                path.display()
            ),
            DataError::EmptySplit { split, prefix, sequences, in_split, tokens } => write!(
                f,
                "{split} split of {prefix}: {in_split} of its {sequences} sequences with {tokens} tokens, expected at least 2 tokens; \
                 give this source more documents, change `split`, or ask for no {split} samples"
            ),
            DataError::Oversampled { source, wanted, available } => write!(
                f,
                "the blend wants sample {wanted} of {source}, which has {available}; lower its weight or the number of samples"
            ),
            DataError::Exhausted { what, consumed, available } => write!(
                f,
                "{what} data ends: {consumed} samples consumed of {available}; lower the number of iterations or add data"
            ),
            DataError::Tokenizer { what, message, hint } => write!(f, "tokenizer {what}: {message}; {hint}"),
            DataError::Worker { what } => {
                write!(f, "the {what} thread stopped without a result; run again, and report it if it repeats")
            }
        }
    }
}

impl std::error::Error for DataError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DataError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
