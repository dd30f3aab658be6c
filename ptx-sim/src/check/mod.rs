//! Checks: what is found wrong with a kernel, and planted faults to prove that it is found.
//!
//! * [`fault`]: findings as they are reported.
//! * [`mutate`]: planted faults.
//! * `clock`: vector clocks. `shared`, `global`: races in the two memories.

pub(crate) mod clock;
pub mod fault;
pub(crate) mod global;
pub mod mutate;
pub(crate) mod shared;
