//! LoRA adapters as PEFT stores them, and their merge into weights.
//!
//! Two flavours exist, because one model has two module trees (model.md §10):
//!
//! | flavour                      | routed experts                                    | prefix      |
//! |------------------------------|---------------------------------------------------|-------------|
//! | [`Flavour::PerModule`]       | a module per expert and matrix, as in the files    | `backbone.` |
//! | [`Flavour::TargetParameters`] | one fused parameter per matrix: `target_parameters` | `model.`    |
//!
//! A fused parameter is [E, out, in]. PEFT (0.21, checked by `cargo xtask interop`) stores its A as [r·E, in], expert by
//! expert, and its B as [out, r·E] with the *rank* as the slower index of the columns: column `k·E + e` belongs to row `k`
//! of expert `e`. Of two parameters of a module the first, `up_proj`, is wrapped first and has `.base_layer` in its keys.
//! Orientation is never guessed from sizes: a pair fits its weight or is refused.

mod error;
mod files;
mod merge;

pub use error::AdapterError;
pub use merge::Delta;

use std::collections::BTreeMap;
use std::sync::Arc;

/// How the routed experts are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Names of the checkpoint: a module per expert.
    PerModule,
    /// Names of transformers' own class: fused parameters.
    TargetParameters,
}

/// A low-rank change of one weight [out, in]: `scale · B · A`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Rows of A, columns of B.
    pub rank: usize,
    /// Rows of the weight.
    pub rows: usize,
    /// Columns of the weight.
    pub columns: usize,
    /// A [rank, in], row by row.
    pub a: Vec<f32>,
    /// B [out, rank], row by row.
    pub b: Vec<f32>,
}

/// An adapter: pairs by the name of the weight that they change.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// Rank of every pair.
    pub rank: usize,
    /// `lora_alpha`.
    pub alpha: f64,
    /// Whether the scale is alpha / √rank instead of alpha / rank.
    pub rank_stabilised: bool,
    /// What it was trained from; may be empty.
    pub base_model: String,
    /// Pairs; one that several experts share is stored once in memory.
    pub pairs: BTreeMap<String, Arc<Pair>>,
}

impl Adapter {
    /// An adapter without pairs.
    pub fn new(rank: usize, alpha: f64, base_model: &str) -> Self {
        Self { rank, alpha, rank_stabilised: false, base_model: base_model.into(), pairs: BTreeMap::new() }
    }

    /// The factor of B · A.
    pub fn scale(&self) -> f32 {
        let rank = self.rank as f64;
        (self.alpha / if self.rank_stabilised { rank.sqrt() } else { rank }) as f32
    }

    /// Adds pairs for the routed experts of a layer: each is shared by `experts / groups.len()` consecutive experts.
    /// `stem` ends before `.experts`, `matrix` is `up_proj` or `down_proj`.
    ///
    /// # Errors
    /// A number of groups that does not divide the number of experts.
    pub fn add_expert_groups(
        &mut self,
        stem: &str,
        matrix: &str,
        experts: usize,
        groups: Vec<Pair>,
    ) -> Result<(), AdapterError> {
        if groups.is_empty() || !experts.is_multiple_of(groups.len()) {
            return Err(AdapterError::Groups { groups: groups.len(), experts });
        }
        let share = experts / groups.len();
        for (g, pair) in groups.into_iter().enumerate() {
            let pair = Arc::new(pair);
            for e in g * share..(g + 1) * share {
                self.pairs.insert(format!("{stem}.experts.{e}.{matrix}.weight"), pair.clone());
            }
        }
        Ok(())
    }
}
