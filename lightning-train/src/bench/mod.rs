//! Benchmarks of the verb `bench`.

mod step;

pub use step::step;
