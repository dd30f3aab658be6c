//! The trainer around `lightning-core`: command line, configuration, recipes, data, checkpoints and logs.

pub mod adapters;
pub mod bench;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod convert;
pub mod data_verbs;
pub mod doctor;
pub mod hf;
pub mod plan;
pub mod plot;
pub mod recipes;
pub mod records;
pub mod train;
pub mod verify;
#[cfg(feature = "gpu")]
pub mod virtual_gpu;
