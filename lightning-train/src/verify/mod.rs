//! Checks of the verb `verify`.

mod parity;

pub use parity::parity;
