//! Arithmetic of the PTX machine: pure functions over bit patterns, without state.
//!
//! Everything here follows the PTX ISA 9.0 chapters on data movement and on integer, floating-point,
//! half-precision and logic instructions. Values of `f16`, `bf16`, `tf32` and the narrow formats are raw
//! codes (`u16`, `u32`, `u8`); `f32` and `f64` are native.
//!
//! * [`mod@format`]: the number formats and the exact value of each code.
//! * [`round`]: one correctly rounded encoder for all formats and rounding modifiers.
//! * [`float_cvt`], [`packed_cvt`], [`int_cvt`]: `cvt` between floats, to and from packed narrow formats,
//!   and between integers and floats.
//! * [`soft_fma`], [`rounded`], [`half_math`], [`min_max`]: arithmetic with one rounding.
//! * [`approx`], [`trig`]: the approximate functions, within the error that the PTX ISA documents.
//! * [`int_math`], [`bits`], [`permute`]: integer, bit-field and byte helpers.

pub mod approx;
pub mod bits;
pub mod float_cvt;
pub mod format;
pub mod half_math;
pub mod int_cvt;
pub mod int_math;
pub mod min_max;
pub mod packed_cvt;
pub mod permute;
pub mod round;
pub mod rounded;
pub mod soft_fma;
pub mod trig;

pub use format::Format;
pub use round::Rounding;
