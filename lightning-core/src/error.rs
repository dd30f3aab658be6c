//! The one error type of the crate: what was asked, what was found, what to try.

use alloc::string::String;
use core::fmt;

/// Why a configuration, a program or a device call was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoreError {
    /// A model or run setting has a value that cannot work.
    Config {
        /// Name of the setting, as in the configuration file.
        key: String,
        /// The value that was found.
        value: String,
        /// Why it is refused and what would be accepted.
        reason: String,
    },
    /// A layer pattern holds a character that is not a layer kind.
    Pattern {
        /// The whole pattern.
        pattern: String,
        /// Zero-based position of the offending character.
        position: usize,
        /// The character found there.
        found: char,
        /// What stands in the way.
        reason: String,
    },
    /// A tensor has another shape or element type than the operation needs.
    Shape {
        /// Operation or parameter.
        what: String,
        /// What it needs.
        expected: String,
        /// What it got.
        found: String,
    },
    /// No parameter or tensor has this name.
    UnknownTensor {
        /// The name that was looked up.
        name: String,
    },
    /// The device does not have the memory that the plan asks for.
    OutOfMemory {
        /// Space that could not be allocated.
        space: &'static str,
        /// Bytes that the plan needs there.
        bytes: usize,
        /// Bytes that the device has free now, where it tells.
        free: Option<usize>,
    },
    /// A device cannot be used, or failed while it worked.
    Device {
        /// What was being done.
        doing: String,
        /// What went wrong and what to try.
        reason: String,
    },
    /// A host buffer does not fit the tensor that it is copied to or from.
    HostBuffer {
        /// Tensor on the device.
        tensor: String,
        /// Bytes of the tensor.
        expected: usize,
        /// Bytes of the host buffer.
        found: usize,
    },
    /// An input value on the device is outside what an operation accepts.
    Input {
        /// Which input.
        what: String,
        /// What is wrong with it and what would be accepted.
        reason: String,
    },
}

impl fmt::Display for CoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { key, value, reason } => write!(f, "{key} = {value}: {reason}"),
            Self::Pattern { pattern, position, found, reason } => {
                write!(f, "layer pattern `{pattern}`: `{found}` at position {position}: {reason}")
            }
            Self::Shape { what, expected, found } => write!(f, "{what}: expected {expected}, found {found}"),
            Self::UnknownTensor { name } => write!(f, "no tensor is named `{name}` in this model"),
            Self::OutOfMemory { space, bytes, free } => {
                write!(f, "cannot allocate {bytes} bytes for {space}")?;
                if let Some(free) = free {
                    write!(f, " ({free} bytes are free on the device; do other programs use it?)")?;
                }
                write!(f, "; use a smaller micro-batch or sequence length")
            }
            Self::Device { doing, reason } => write!(f, "{doing}: {reason}"),
            Self::HostBuffer { tensor, expected, found } => {
                write!(f, "tensor `{tensor}` holds {expected} bytes but the host buffer holds {found}")
            }
            Self::Input { what, reason } => write!(f, "{what}: {reason}"),
        }
    }
}

impl core::error::Error for CoreError {}
