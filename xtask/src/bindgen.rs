//! `cargo xtask bindgen`: what one language knows of another, generated and checked in: the parameter blocks of `params.h`
//! as Rust (`kernels-sys/src/params.rs`), and the C interface of `capi` as a header (`capi/include/lightning.h`).
//!
//! The generators take half a minute to compile and bindgen needs libclang, so neither is part of a build: this verb starts itself
//! again with the `bindgen` feature on, and libclang comes from the system or, where it has none, from the package
//! index into `target/libclang`.

#[cfg(feature = "bindgen")]
#[path = "bindgen_generate.rs"]
mod steps;
#[cfg(not(feature = "bindgen"))]
#[path = "bindgen_restart.rs"]
mod steps;

use argh::FromArgs;

use crate::failure::Result;

/// regenerate kernels-sys/src/params.rs from params.h, and capi/include/lightning.h from capi
#[derive(FromArgs)]
#[argh(subcommand, name = "bindgen")]
pub struct Bindgen {
    /// write nothing; fail if a checked-in file differs from what would be generated
    #[argh(switch)]
    check: bool,
}

impl Bindgen {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        steps::run(self.check)
    }
}
