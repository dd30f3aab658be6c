//! The CUDA kernels of `csrc/` as data: parameter blocks, compiled images and a table of what there is to launch.
//!
//! This crate calls no driver and needs no GPU, no CUDA and no standard library. A device picks the image that fits
//! its architecture, loads it, and launches a kernel with one parameter block:
//!
//! ```
//! use kernels_sys::{Arch, KernelParams, RmsNormFwdParams};
//!
//! let kernel = kernels_sys::kernel("rms_norm_fwd_bf16", Arch::Sm90a).expect("a kernel of this name");
//! assert_eq!(kernel.params, RmsNormFwdParams::NAME);
//! assert_eq!(kernel.params_bytes, size_of::<RmsNormFwdParams>());
//! match kernels_sys::image(kernel.module, Arch::Sm90a) {
//!     Some(image) => assert!(image.ptx().to_bytes().starts_with(b"//")),
//!     None => println!("{}", kernels_sys::absent().unwrap_or("built for other architectures")),
//! }
//! ```
//!
//! The images are made by the build script with nvcc. Where it is missing the crate still builds, has no images, and
//! [`absent`] says why and how to get them.

#![no_std]

pub mod params;
mod table;

pub use params::*;
pub use table::{Arch, DType, Image, Kernel, KernelParams, absent, image, images, kernel, kernels};
