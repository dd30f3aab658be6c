//! Tests of the grammar, the layers, the adjustments and the file.

mod adjustments;
mod files;
mod grammar;
mod random;

use super::choices::*;
use super::launch::Launch;
use super::value::Value;
use super::*;

fn resolve(recipe: Option<&str>, overrides: &[&str]) -> Result<Resolved, ConfigError> {
    let mut layers = Layers::new();
    if let Some(recipe) = recipe {
        layers.recipe(recipe)?;
    }
    for text in overrides {
        layers.set_override(text)?;
    }
    layers.finish(Launch::single(), &|_| None)
}

fn set(text: &str) -> Result<RunConfig, ConfigError> {
    let mut layers = Layers::new();
    layers.set_override(text)?;
    Ok(layers.config().clone())
}
