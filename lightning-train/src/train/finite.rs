//! Where the first value that is not finite came from: a micro-batch is run again, operation by operation, and what each one
//! wrote is read.
//!
//! Costs nothing until a step is skipped: a skipped step leaves weights and masters as they were, and batches are functions
//! of the samples consumed, so that the same values come again.

use super::engine::Engine;
use lightning_core::CoreError;
use lightning_core::device::Device;
use lightning_core::program::{Access, Program};
use lightning_core::tensor::{DType, Tensor};
use serde_json::{Value, json};

/// The first tensor with a value that is not finite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFinite {
    /// Program.
    pub program: &'static str,
    /// Part of the model, such as `layers.3/forward`.
    pub region: String,
    /// Operation.
    pub operation: &'static str,
    /// Index of the operation in the program.
    pub index: usize,
    /// Operand.
    pub operand: &'static str,
    /// Buffer that the operand is a window of.
    pub buffer: String,
    /// Elements that are NaN.
    pub nans: usize,
    /// Elements that are infinite.
    pub infinities: usize,
    /// Elements of the operand.
    pub elements: usize,
    /// Row and column of the first.
    pub first: (usize, usize),
}

impl NotFinite {
    /// For the metrics file.
    pub fn to_json(&self) -> Value {
        json!({
            "program": self.program, "region": self.region, "operation": self.operation, "index": self.index,
            "operand": self.operand, "buffer": self.buffer, "nans": self.nans, "infinities": self.infinities,
            "elements": self.elements, "first": [self.first.0, self.first.1],
        })
    }
}

/// Runs a program one operation at a time and stops at the first that writes a value that is not finite.
///
/// # Errors
/// What the device reports.
pub fn first_not_finite(engine: &mut Engine, program: &Program) -> Result<Option<NotFinite>, CoreError> {
    for (index, node) in program.nodes.iter().enumerate() {
        engine.device.run_node(program, index)?;
        let mut written = Vec::new();
        node.op.operands(&mut |name, tensor, access| {
            if access != Access::Read && tensor.dtype != DType::I32 && !tensor.is_empty() {
                written.push((name, tensor));
            }
        });
        for (operand, tensor) in written {
            let Some((nans, infinities, first)) = count(engine, program, tensor)? else { continue };
            return Ok(Some(NotFinite {
                program: program.name,
                region: program.regions[node.region].clone(),
                operation: node.op.name(),
                index,
                operand,
                buffer: program.buffer(tensor.buffer).name.clone(),
                nans,
                infinities,
                elements: tensor.len(),
                first,
            }));
        }
    }
    Ok(None)
}

type Count = (usize, usize, (usize, usize));

/// NaNs, infinities and the first of them; `None` when all are finite.
fn count(engine: &Engine, program: &Program, tensor: Tensor) -> Result<Option<Count>, CoreError> {
    let (mut nans, mut infinities, mut first) = (0, 0, None);
    for row in 0..tensor.rows {
        let values = engine.device.read_f64(&program.buffers, tensor.row_range(row, 1))?;
        for (column, value) in values.iter().enumerate().filter(|(_, v)| !v.is_finite()) {
            nans += usize::from(value.is_nan());
            infinities += usize::from(value.is_infinite());
            first.get_or_insert((row, column));
        }
    }
    Ok(first.map(|at| (nans, infinities, at)))
}

/// Gradient norm by part of the model (`embedding`, `layers.3`, ...), in order of layout.
///
/// # Errors
/// What the device reports.
pub fn gradient_norms(engine: &Engine) -> Result<Vec<(String, f64)>, CoreError> {
    let mut norms: Vec<(String, f64)> = Vec::new();
    let buffers = engine.model.persistent.buffers();
    for (param, tensors) in engine.model.layout.params.iter().zip(&engine.model.params) {
        let Some(training) = tensors.training else { continue };
        let values = engine.device.read_f64(buffers, training.gradient)?;
        let sum: f64 = values.iter().map(|v| v * v).sum();
        let part = part_of(&param.name);
        match norms.last_mut().filter(|(name, _)| *name == part) {
            Some((_, total)) => *total += sum,
            None => norms.push((part, sum)),
        }
    }
    Ok(norms.into_iter().map(|(name, sum)| (name, sum.sqrt())).collect())
}

/// The name up to and with its first number, or without its last word.
fn part_of(name: &str) -> String {
    let words: Vec<&str> = name.split('.').collect();
    match words.iter().position(|w| w.parse::<usize>().is_ok()) {
        Some(at) => words[..=at].join("."),
        None => words[..words.len().saturating_sub(1).max(1)].join("."),
    }
}

#[cfg(test)]
mod tests {
    use super::part_of;

    #[test]
    fn parameters_are_grouped_by_layer() {
        assert_eq!(part_of("backbone.layers.12.mixer.in_proj.weight"), "backbone.layers.12");
        assert_eq!(part_of("lm_head.weight"), "lm_head");
        assert_eq!(part_of("weight"), "weight");
    }
}
