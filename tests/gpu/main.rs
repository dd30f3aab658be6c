//! The GPU device on the virtual GPU: every operation against the CPU device, with all of the simulator's checks on.
//!
//! `compare::check` says what is compared with what. Without nvcc there are no kernels to test; the test command
//! requires them.

#[path = "../support/mod.rs"]
mod support;

mod compare;
mod conv;
mod driver;
mod embed;
mod experts;
mod linear;
mod mamba;
mod model;
mod moe;
mod norm;
mod reduce;
mod ssd;
