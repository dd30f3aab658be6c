//! Named recipes: settings laid over the defaults, as data.
//!
//! Each recipe names where its values come from. Values are written in the override grammar; a recipe may build on
//! another. Public recipes keep their public names and values; where a public *run* changed them on its command line, the
//! variant with those values is a recipe of its own.

mod benchmark;
mod fine_tuning;
mod ours;
mod pretraining;

use crate::config::choices::Mode;
use crate::config::error::ConfigError;
use crate::config::launch;
use crate::config::nearest::nearest;
use crate::config::resolve::{Layers, Origin};
use crate::config::run::RunConfig;
use crate::config::setting::Section;
use lightning_core::config::preset;

/// A named set of settings.
#[derive(Debug)]
pub struct Recipe {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    /// Where the values come from.
    pub source: &'static str,
    /// What it does.
    pub mode: Mode,
    /// Machine it is made for.
    pub machine: &'static str,
    /// Ranks of that machine.
    pub gpus: usize,
    /// Whether it is a benchmark: mock data, and a global batch that scales with the ranks.
    pub benchmark: bool,
    /// Recipe that it builds on.
    pub base: Option<&'static str>,
    /// Model of the family (`lightning_core::config::PRESETS`).
    pub preset: Option<&'static str>,
    /// Settings in the override grammar.
    pub settings: &'static [(&'static str, &'static str)],
}

impl Recipe {
    /// Lays the recipe, with everything it builds on, over `layers`. All values get the name of this recipe as origin.
    ///
    /// # Errors
    /// A setting that the recipe names does not exist or has another type; a test rules that out for the recipes here.
    pub fn apply(&'static self, layers: &mut Layers) -> Result<(), ConfigError> {
        self.apply_as(layers, self.name)
    }

    fn apply_as(&'static self, layers: &mut Layers, name: &'static str) -> Result<(), ConfigError> {
        if let Some(base) = self.base {
            let base = parts().chain(all()).find(|r| r.name == base).ok_or_else(|| unknown(base))?;
            base.apply_as(layers, name)?;
        }
        if let Some(model) = self.preset.and_then(preset) {
            let mut section = RunConfig::default().model;
            section.set_model_config(&model);
            // Every size of a preset is set, also those that equal a default, so that no earlier recipe shines through.
            for field in crate::config::run::ModelSection::fields().iter().filter(|f| is_model_size(f.name)) {
                if let Some(value) = section.get(field.name) {
                    layers.set(&format!("model.{}", field.name), &value, Origin::Recipe(name))?;
                }
            }
        }
        for (key, text) in self.settings {
            layers.set_text(key, text, Origin::Recipe(name))?;
        }
        Ok(())
    }

    /// Data-parallel ranks of the machine that the recipe is made for.
    pub fn data_parallel_size(&'static self) -> usize {
        let mut layers = Layers::new();
        match self.apply(&mut layers) {
            Ok(()) => self.gpus / launch::model_parallel_size(layers.config()).max(1),
            Err(_) => self.gpus,
        }
    }
}

/// Whether a setting of the `model` section is part of the model's description.
fn is_model_size(name: &str) -> bool {
    matches!(
        name,
        "vocab_size"
            | "hidden_size"
            | "num_layers"
            | "hybrid_layer_pattern"
            | "num_attention_heads"
            | "num_query_groups"
            | "kv_channels"
            | "ffn_hidden_size"
            | "mamba_num_heads"
            | "mamba_head_dim"
            | "mamba_state_dim"
            | "mamba_num_groups"
            | "mamba_conv_kernel"
            | "mamba_chunk_size"
            | "mamba_dt_min"
            | "time_step_min"
            | "time_step_max"
            | "time_step_floor"
            | "num_moe_experts"
            | "moe_router_topk"
            | "moe_ffn_hidden_size"
            | "moe_shared_expert_intermediate_size"
            | "moe_num_shared_experts"
            | "moe_router_topk_scaling_factor"
            | "moe_router_norm_topk_prob"
            | "mtp_num_layers"
            | "mtp_hybrid_override_pattern"
            | "layernorm_epsilon"
            | "init_method_std"
            | "max_position_embeddings"
    )
}

/// Parts that recipes build on; not recipes themselves.
fn parts() -> impl Iterator<Item = &'static Recipe> {
    pretraining::PARTS.iter().chain(fine_tuning::PARTS).chain(benchmark::PARTS)
}

/// All recipes, ours first.
pub fn all() -> impl Iterator<Item = &'static Recipe> {
    ours::RECIPES.iter().chain(pretraining::RECIPES).chain(fine_tuning::RECIPES).chain(benchmark::RECIPES)
}

/// The recipe of a name; `-` counts as `_`.
///
/// # Errors
/// Unknown name, with the nearest.
pub fn find(name: &str) -> Result<&'static Recipe, ConfigError> {
    let plain = name.trim().replace('-', "_");
    all().find(|r| r.name == plain).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> ConfigError {
    ConfigError::Unknown {
        what: "recipe",
        name: name.into(),
        nearest: nearest(name, all().map(|r| r.name), 3),
        hint: "`train --list-recipes` lists all".into(),
    }
}

/// The recipe name of a model stem and a mode: `<STEM>_<task>_config`.
pub fn name_of(stem: &str, mode: Mode) -> String {
    let task = match mode {
        Mode::Pretrain => "pretrain",
        Mode::Sft => "sft",
        Mode::Lora => "peft",
    };
    format!("{}_{task}_config", stem.trim().replace('-', "_"))
}

/// A table of all recipes.
pub fn table() -> String {
    let width = all().map(|r| r.name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}  {:8}  {:12}  about\n", "recipe", "mode", "made for");
    for r in all() {
        text.push_str(&format!("{:width$}  {:8}  {:12}  {}\n", r.name, r.mode.name(), r.machine, r.about));
        text.push_str(&format!("{:width$}  {:8}  {:12}    {}\n", "", "", "", r.source));
    }
    text
}

#[cfg(test)]
mod tests;
