//! The data verbs as a user runs them: files in, files out, exit codes, kills.

#[path = "data/support.rs"]
mod support;

#[path = "data/bad_input.rs"]
mod bad_input;
#[path = "data/inspect.rs"]
mod inspect;
#[path = "data/kill.rs"]
mod kill;
#[path = "data/prep.rs"]
mod prep;
