//! PTX front end: text to decoded kernels.
//!
//! [`module::Module::load`] runs the whole way: tokens, statements, decoded instructions. Whatever is not understood is
//! an error with its line, never a silent no-op.

pub(crate) mod class;
pub(crate) mod decode;
pub(crate) mod lexer;
pub mod module;
pub(crate) mod operands;
pub(crate) mod program;
pub(crate) mod slot;
pub(crate) mod syntax;
mod tree;
pub mod types;
