//! Build script: the one at the root of the repository, whose steps are the modules here.

#[path = "build/nvcc.rs"]
mod nvcc;
#[path = "build/sources.rs"]
mod sources;
#[path = "build/table.rs"]
mod table;

include!("../build.rs");
