//! The random generators that decide the order of data in the public stack, reproduced bit for bit.
//!
//! | generator                                  | used for                                             |
//! |--------------------------------------------|------------------------------------------------------|
//! | [`Mt19937`] with [`Mt19937::shuffle_numpy`]  | GPT document and sample shuffles, offline SFT packing |
//! | [`shuffle_python`]                           | shards to splits, packing in the data preparation    |
//! | [`randperm_torch`]                           | cyclic validation sampler, fine-tuning sampler       |
//! | [`Pcg64`]                                    | mock dataset lengths, train/validation split         |

mod mt19937;
mod pcg64;

pub use mt19937::{Mt19937, randperm_torch, shuffle_python};
pub use pcg64::Pcg64;
