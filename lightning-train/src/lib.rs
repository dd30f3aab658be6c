//! The trainer around `lightning-core`: command line, configuration, recipes, data, checkpoints and logs.

pub mod adapters;
pub mod bench;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod convert;
pub mod hf;
pub mod recipes;
pub mod train;
pub mod verify;
