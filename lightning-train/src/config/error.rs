//! What can be wrong with a command line or a configuration. All of it ends with exit code 2.

use std::fmt;

/// A configuration or a command line that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// The text of a value is not in the grammar.
    Grammar {
        /// Setting that the text is for.
        key: String,
        /// The text.
        text: String,
        /// Where and why.
        reason: String,
    },
    /// A value has another type than the setting takes.
    Type {
        /// Setting.
        key: String,
        /// The value, as it was understood.
        value: String,
        /// What the value is.
        found: String,
        /// What the setting takes.
        expected: String,
    },
    /// A value has the right type and cannot work.
    Invalid {
        /// Setting.
        key: String,
        /// Its value.
        value: String,
        /// Why it is refused and what to try.
        reason: String,
    },
    /// A name that is not known.
    Unknown {
        /// Kind of name: setting, flag, verb, recipe.
        what: &'static str,
        /// The name.
        name: String,
        /// The nearest known names, best first.
        nearest: Vec<String>,
        /// How to list all of them.
        hint: String,
    },
    /// A file that cannot be read or does not hold what it should.
    File {
        /// Path of the file.
        path: String,
        /// What is wrong with it and what to try.
        reason: String,
    },
    /// A command line that does not hold together.
    Usage {
        /// What is wrong and what to try.
        message: String,
    },
}

impl ConfigError {
    /// A usage error.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into() }
    }

    /// A refused value.
    pub fn invalid(key: impl Into<String>, value: impl ToString, reason: impl Into<String>) -> Self {
        Self::Invalid { key: key.into(), value: value.to_string(), reason: reason.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grammar { key, text, reason } => {
                write!(f, "{key}={text}: {reason}; `--help` shows how values are written")
            }
            Self::Type { key, value, found, expected } => {
                write!(f, "{key} = {value}: expected {expected}, found {found}")
            }
            Self::Invalid { key, value, reason } => write!(f, "{key} = {value}: {reason}"),
            Self::Unknown { what, name, nearest, hint } => {
                write!(f, "no {what} is named `{name}`")?;
                if !nearest.is_empty() {
                    write!(f, "; nearest: {}", nearest.join(", "))?;
                }
                if !hint.is_empty() {
                    write!(f, "; {hint}")?;
                }
                Ok(())
            }
            Self::File { path, reason } => write!(f, "{path}: {reason}"),
            Self::Usage { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for ConfigError {}
