//! Adding `scale · B · A` to weights: in fp32, rounded once by the caller (pitfall B84).

use super::{Adapter, AdapterError, Pair};
use lightning_core::config::ModelConfig;
use lightning_core::layout::Layout;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is added to one weight.
#[derive(Debug, Clone)]
pub struct Delta {
    pair: Arc<Pair>,
    scale: f32,
}

impl Delta {
    /// Columns of the weight.
    pub fn columns(&self) -> usize {
        self.pair.columns
    }

    /// Adds to whole rows of the weight, the first of which is `first`.
    pub fn add(&self, rows: &mut [f32], first: usize) {
        let Pair { rank, columns, a, b, .. } = &*self.pair;
        let mut change = vec![0f32; *columns];
        for (i, row) in rows.chunks_mut(*columns).enumerate() {
            change.fill(0.0);
            for k in 0..*rank {
                let factor = b[(first + i) * rank + k];
                for (sum, x) in change.iter_mut().zip(&a[k * columns..(k + 1) * columns]) {
                    *sum += factor * x;
                }
            }
            for (w, d) in row.iter_mut().zip(&change) {
                *w += self.scale * d;
            }
        }
    }
}

impl Adapter {
    /// What the adapter adds to each weight of a model.
    ///
    /// # Errors
    /// A pair whose weight the model does not have or has with another shape: every pair is used, or nothing is merged
    /// (pitfall B81).
    pub fn deltas(&self, config: &ModelConfig) -> Result<BTreeMap<String, Delta>, AdapterError> {
        let layout = Layout::new(config);
        let shapes: BTreeMap<&str, &[usize]> =
            layout.parts().map(|(_, part)| (part.name.as_str(), part.shape.as_slice())).collect();
        let mut deltas = BTreeMap::new();
        for (weight, pair) in &self.pairs {
            let problem = match shapes.get(weight.as_str()) {
                None => "the model has no such weight".to_string(),
                Some(shape) if **shape != [pair.rows, pair.columns] => {
                    format!("its shape is {shape:?}, the adapter is made for [{}, {}]", pair.rows, pair.columns)
                }
                Some(_) => {
                    deltas.insert(weight.clone(), Delta { pair: pair.clone(), scale: self.scale() });
                    continue;
                }
            };
            return Err(AdapterError::Target { weight: weight.clone(), problem });
        }
        Ok(deltas)
    }
}
