//! `lightning-core`: the hybrid Mamba-2 / attention / mixture-of-experts model of the Nemotron 3 family with manual
//! backward passes, written once as *programs* that any device can run.
//!
//! * [`config`] says what a model is; [`layout`] lists its parameters.
//! * [`model`] is the model: every block's forward and backward side by side, recorded into a program.
//! * [`ops`] are the operations, each with its formula, contract and CPU kernel.
//! * [`program`] records, checks and places; [`device`] executes; [`cpu`] is the device that runs anywhere, `gpu`
//!   (feature `gpu`) launches CUDA kernels.
//! * [`optim`] is AdamW, its schedules and the step control.
//!
//! Without the feature `std` the crate is `no_std` + `alloc` and runs on the calling thread.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod config;
pub mod cpu;
pub mod device;
pub mod element;
pub mod error;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod layout;
pub mod model;
pub mod ops;
pub mod optim;
pub mod program;
pub mod rng;
pub mod tensor;

pub use error::CoreError;
