//! Hugging Face folders.

pub mod cache;
pub mod config_json;
pub mod folder;
pub mod header;
pub mod tensors;

pub use config_json::{HfConfig, HfConfigError};
pub use folder::{FolderError, HfFolder, HfTensor};
pub use tensors::TensorFiles;
