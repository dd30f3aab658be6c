//! Training: from a resolved configuration to steps, logs and checkpoints.

pub mod console;
pub mod corpus;
pub mod data;
pub mod engine;
pub mod flops;
pub mod metrics;
mod run;
pub mod settings;

pub use run::train;
