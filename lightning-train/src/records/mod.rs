//! What a run leaves behind besides weights: TensorBoard event files, the run card, locks, expert loads.
//!
//! `metrics.jsonl` itself is written by [`crate::train::metrics`]. Absent and zero are different everywhere: a value that was
//! not measured has no key and no event; one that is not finite is `null` in JSON and a NaN in an event file.

pub mod clock;
pub mod expert_matrix;
pub mod lock;
pub mod run_card;
pub mod tensorboard;
