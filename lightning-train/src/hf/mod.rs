//! Hugging Face folders.

pub mod config_json;
pub mod tensors;

pub use config_json::{HfConfig, HfConfigError};
pub use tensors::TensorFiles;
