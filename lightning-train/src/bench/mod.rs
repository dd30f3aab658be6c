//! Benchmarks of the verb `bench`.

#[cfg(feature = "gpu")]
mod kernels;
mod step;

#[cfg(feature = "gpu")]
pub use kernels::kernels;
pub use step::step;

/// Refuses: there is no GPU device in this program.
///
/// # Errors
/// Always.
#[cfg(not(feature = "gpu"))]
pub fn kernels(_: crate::cli::BenchKernelsArgs) -> Result<(), crate::cli::Failure> {
    let message = "bench kernels: this program was built without the feature `gpu`";
    Err(crate::cli::Failure::new(crate::cli::Exit::Device, message))
}
