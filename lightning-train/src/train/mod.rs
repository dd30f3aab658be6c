//! Training: from a resolved configuration to steps, logs and checkpoints.

mod anomaly;
pub mod batches;
pub mod console;
pub mod corpus;
pub mod data;
pub mod device;
mod ending;
pub mod engine;
pub mod finite;
pub mod flops;
pub mod metrics;
pub mod provenance;
mod run;
pub mod sample;
pub mod settings;
mod start;
mod step;
pub mod stop;
mod validation;

#[cfg(test)]
mod tests;

pub use run::train;
