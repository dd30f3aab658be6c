//! Accounting for every tensor on both sides: what the model needs, and what a checkpoint has (pitfall B10).

use lightning_core::config::{LayerKind, ModelConfig};
use lightning_core::layout::Layout;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Tensors of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// Number of tensors.
    pub tensors: usize,
    /// Number of elements.
    pub parameters: u64,
    /// Bytes of the elements.
    pub bytes: u64,
    /// Number of tensors by element type.
    pub dtypes: BTreeMap<String, usize>,
}

impl Row {
    fn add(&mut self, dtype: Dtype, shape: &[usize]) {
        let elements = shape.iter().map(|d| *d as u64).product::<u64>();
        self.tensors += 1;
        self.parameters += elements;
        self.bytes += elements * dtype.bitsize() as u64 / 8;
        *self.dtypes.entry(dtype.to_string()).or_default() += 1;
    }

    fn dtypes(&self) -> String {
        let parts: Vec<String> = self.dtypes.iter().map(|(t, n)| format!("{t} {n}")).collect();
        parts.join(", ")
    }
}

/// The tensors of a checkpoint by kind, and the differences from its model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// Kinds in the order of the model.
    pub rows: Vec<(String, Row)>,
    /// All tensors that belong to the model.
    pub total: Row,
    /// Tensors that the model needs and the checkpoint does not have.
    pub missing: Vec<String>,
    /// Tensors that the model does not know.
    pub unexpected: Vec<String>,
    /// Tensors with another shape, one sentence each.
    pub shapes: Vec<String>,
}

/// The kind of a tensor: its layer's kind, or the block outside the layers.
fn kind_of(config: &ModelConfig, name: &str) -> String {
    let layer = |prefix: &str, layers: &[LayerKind]| {
        let index: usize = name.strip_prefix(prefix)?.split('.').next()?.parse().ok()?;
        layers.get(index).copied()
    };
    if let Some(kind) = layer("backbone.layers.", &config.layers) {
        return format!("{} layers ({})", kind.name(), kind.symbol());
    }
    if let Some(rest) = name.strip_prefix("mtp.layers.") {
        return format!("mtp.layers.{}", rest.split('.').next().unwrap_or_default());
    }
    "embeddings, head, final norm".into()
}

impl Census {
    /// Counts tensors (name, type, shape) against a model.
    pub fn take<'t>(config: &ModelConfig, found: impl Iterator<Item = (&'t str, Dtype, &'t [usize])>) -> Self {
        let layout = Layout::new(config);
        let found: BTreeMap<&str, (Dtype, &[usize])> = found.map(|(n, t, s)| (n, (t, s))).collect();
        let mut census = Self::default();
        let mut known = BTreeSet::new();
        for (_, part) in layout.parts() {
            known.insert(part.name.as_str());
            let Some((dtype, shape)) = found.get(part.name.as_str()) else {
                census.missing.push(part.name.clone());
                continue;
            };
            if **shape != part.shape {
                census.shapes.push(format!("{} has shape {shape:?}, the model needs {:?}", part.name, part.shape));
            }
            let kind = kind_of(config, &part.name);
            let position = census.rows.iter().position(|(k, _)| *k == kind).unwrap_or_else(|| {
                census.rows.push((kind, Row::default()));
                census.rows.len() - 1
            });
            census.rows[position].1.add(*dtype, shape);
            census.total.add(*dtype, shape);
        }
        census.unexpected = found.keys().filter(|n| !known.contains(*n)).map(|n| n.to_string()).collect();
        census
    }

    /// Whether both sides have the same tensors.
    pub fn agrees(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.shapes.is_empty()
    }

    /// Every difference, one line each.
    pub fn differences(&self) -> Vec<String> {
        let missing = self.missing.iter().map(|n| format!("{n} is missing"));
        let unexpected = self.unexpected.iter().map(|n| format!("{n} is not in the model"));
        missing.chain(unexpected).chain(self.shapes.iter().cloned()).collect()
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut line = |kind: &str, tensors: &str, parameters: &str, bytes: &str, dtypes: &str| {
            let row = format!("{kind:30} {tensors:>8} {parameters:>16} {bytes:>16}  {dtypes}");
            writeln!(text, "{}", row.trim_end()).expect("text grows");
        };
        line("kind", "tensors", "parameters", "bytes", "types");
        for (kind, row) in &self.rows {
            line(kind, &row.tensors.to_string(), &grouped(row.parameters), &grouped(row.bytes), &row.dtypes());
        }
        let t = &self.total;
        line("total", &grouped(t.tensors as u64), &grouped(t.parameters), &grouped(t.bytes), &t.dtypes());
        text
    }

    /// The same for machines.
    pub fn to_json(&self) -> Value {
        let row = |kind: &str, row: &Row| {
            json!({
                "kind": kind, "tensors": row.tensors, "parameters": row.parameters, "bytes": row.bytes,
                "dtypes": row.dtypes,
            })
        };
        json!({
            "rows": self.rows.iter().map(|(k, r)| row(k, r)).collect::<Vec<_>>(),
            "total": row("total", &self.total),
            "missing": self.missing, "unexpected": self.unexpected, "shapes": self.shapes,
        })
    }
}

/// A number with commas between thousands.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
