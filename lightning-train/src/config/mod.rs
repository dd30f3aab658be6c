//! The configuration of a run.
//!
//! | module               | subject                                                             |
//! |----------------------|---------------------------------------------------------------------|
//! | [`run`]              | the typed configuration: every setting, its meaning, its default    |
//! | [`model_section`]    | its `model` section and the way to and from the model's description |
//! | [`choices`]          | settings that are one of a few names                                |
//! | [`data_setting`]     | settings that name data                                             |
//! | [`setting`]          | what a setting is, and the macros that declare sections             |
//! | [`value`]            | untyped values and the grammar of overrides                         |
//! | [`resolve`]          | layers to one configuration, with the origin of every value         |
//! | [`file`](mod@file)   | configuration files                                                 |
//! | [`launch`]           | ranks of a launch                                                   |
//! | [`schedule_samples`] | the schedule counted in samples                                     |
//! | [`aliases`]          | other names of settings                                             |
//! | [`nearest`](mod@nearest) | the nearest known names, for messages                           |
//! | [`error`]            | what can be wrong                                                   |

pub mod aliases;
mod check;
pub mod choices;
pub mod data_setting;
mod derive;
pub mod error;
pub mod file;
pub mod launch;
pub mod model_section;
pub mod nearest;
pub mod resolve;
pub mod run;
pub mod schedule_samples;
pub mod setting;
pub mod value;

pub use error::ConfigError;
pub use resolve::{Layers, Origin, Resolved};
pub use run::RunConfig;

#[cfg(test)]
mod tests;
