//! Text while training: a second, small engine gets the current weights and writes on, token by token.
//!
//! Every token is a whole forward pass over the window: correct and slow, which is what a look at a run every few hundred
//! steps needs. The training engine is only read, so samples change no bit of a run. The size of the second engine follows
//! from the configuration alone, so that it is part of the plan.

use super::device::DeviceChoice;
use super::engine::Engine;
use crate::cli::{Exit, Failure};
use crate::config::run::RunConfig;
use lightning_core::device::Device;
use lightning_core::model::{MicroBatch, ModelSpec, Objective, Trace, Training};
use lightning_core::ops::LossScale;
use lightning_core::program::Recompute;
use lightning_core::rng::Philox;
use lightning_data::Batch;
use lightning_data::tokenizer::TextTokenizer;

/// How text is written.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleSettings {
    /// Tokens to write.
    pub tokens: usize,
    /// 0 takes the likeliest token; else probabilities are softmax(logits / temperature).
    pub temperature: f64,
    /// Text to go on from; empty begins a document.
    pub prompt: String,
    /// Seed of the choices.
    pub seed: u64,
}

impl SampleSettings {
    /// What a configuration asks for, and every how many steps; `None` is no samples.
    pub fn of(config: &RunConfig) -> Option<(u64, Self)> {
        let l = &config.logger;
        let every = l.sample_interval.filter(|n| *n > 0)?;
        let settings = Self {
            tokens: l.sample_tokens,
            temperature: l.sample_temperature,
            prompt: l.sample_prompt.clone(),
            seed: config.rng.seed,
        };
        Some((every, settings))
    }

    /// The second engine beside a training engine of `spec`: a forward pass of one row. A token stands for at least one byte
    /// of the prompt, so that its length bounds the row before there is a tokenizer.
    pub fn spec(&self, spec: &ModelSpec) -> ModelSpec {
        let row_len = (1 + self.prompt.len() + self.tokens).min(spec.batch.row_len);
        let mut config = spec.config.clone();
        config.mtp = None;
        ModelSpec {
            config,
            batch: MicroBatch { rows: 1, row_len, max_offsets: 2, padding: false },
            objective: Objective { scale: LossScale::MeanOfMeans(1), ..spec.objective },
            training: Training::Off,
            recompute: Recompute::NONE,
            ..spec.clone()
        }
    }
}

/// Writes text with the weights of a training engine.
pub struct Sampler {
    engine: Engine,
    settings: SampleSettings,
    prompt: Vec<i32>,
    eos: i32,
    vocab: usize,
}

impl Sampler {
    /// Plans a forward pass of one row that fits the prompt and the text.
    ///
    /// # Errors
    /// A prompt longer than the model's sequence; memory that the system refuses.
    pub fn new(
        spec: &ModelSpec,
        settings: SampleSettings,
        tokenizer: &TextTokenizer,
        choice: &DeviceChoice,
    ) -> Result<Self, Failure> {
        let eos = tokenizer.eos()? as i32;
        let mut prompt = vec![eos];
        prompt.extend(tokenizer.encode(&settings.prompt)?.iter().map(|t| *t as i32));
        let spec = settings.spec(spec);
        if prompt.len() >= spec.batch.row_len {
            let message = format!(
                "logger.sample_prompt has {} tokens, the model sees {}; shorten it, or set logger.sample_tokens above 0",
                prompt.len() - 1,
                spec.batch.row_len
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        let vocab = spec.config.vocab.min(tokenizer.vocab_size() as usize);
        let engine = Engine::new(spec, None, choice, Trace::Full)?;
        Ok(Self { engine, settings, prompt, eos, vocab })
    }

    /// Bytes that the second engine holds.
    pub fn allocated_bytes(&self) -> usize {
        self.engine.allocated_bytes()
    }

    fn copy_weights(&mut self, from: &Engine) -> Result<(), Failure> {
        let buffers = from.model.persistent.buffers();
        let mut bytes = Vec::new();
        for (param, to) in self.engine.model.layout.params.iter().zip(&self.engine.model.params) {
            let at = from.model.layout.params.iter().position(|p| p.name == param.name);
            let at =
                at.ok_or_else(|| Failure::new(Exit::Unexpected, format!("`{}` is not in the model", param.name)))?;
            let weight = from.model.params[at].weight;
            bytes.resize(weight.bytes(), 0);
            from.device.read(buffers, weight, &mut bytes)?;
            self.engine.device.write(self.engine.model.persistent.buffers(), to.weight, &bytes)?;
        }
        Ok(())
    }

    /// Text with the weights of `from`; `step` decides the random choices. `go_on` is asked before every token.
    ///
    /// # Errors
    /// What the device or the tokenizer reports.
    pub fn sample(
        &mut self,
        from: &Engine,
        step: u64,
        tokenizer: &TextTokenizer,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<String, Failure> {
        self.copy_weights(from)?;
        let window = self.engine.model.spec.batch.row_len;
        let mut ids = self.prompt.clone();
        let mut rng = Philox::new(self.settings.seed, step);
        let logits = self.engine.evaluate.output("logits").expect("a traced program keeps its logits");
        let mut batch = Batch::default();
        let end = window.min(ids.len() + self.settings.tokens);
        while ids.len() < end && go_on() {
            batch.reset(1, window, false, false);
            batch.tokens[..ids.len()].copy_from_slice(&ids);
            batch.documents.physical.0.push(window as i32);
            self.engine.load(&batch)?;
            self.engine.evaluate()?;
            let row = logits.row_range(ids.len() - 1, 1);
            let values = self.engine.device.read_f64(&self.engine.evaluate.buffers, row)?;
            let next = choose(&values[..self.vocab.min(values.len())], self.settings.temperature, rng.uniform());
            ids.push(next as i32);
            if next as i32 == self.eos {
                break;
            }
        }
        let text: Vec<u32> = ids[1..].iter().map(|t| *t as u32).collect();
        Ok(tokenizer.decode(&text)?)
    }
}

/// The index of the largest value, or one drawn with `u` in [0, 1) from softmax(values / temperature). Values that are not
/// finite are never drawn.
fn choose(values: &[f64], temperature: f64, u: f64) -> usize {
    let score = |v: f64| if v.is_nan() { f64::NEG_INFINITY } else { v };
    let best = (0..values.len()).fold(0, |b, i| if score(values[i]) > score(values[b]) { i } else { b });
    let largest = score(values[best]);
    if temperature <= 0.0 || !largest.is_finite() {
        return best;
    }
    let weight = |v: f64| ((score(v) - largest) / temperature).exp();
    let total: f64 = values.iter().map(|v| weight(*v)).sum();
    let mut left = u * total;
    for (i, v) in values.iter().enumerate() {
        left -= weight(*v);
        if left < 0.0 {
            return i;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_the_probabilities() {
        assert_eq!(choose(&[0.0, 3.0, 1.0], 0.0, 0.9), 1);
        assert_eq!(choose(&[f64::NAN, -1.0, f64::NEG_INFINITY], 0.0, 0.0), 1);
        let logits = [0.0, f64::ln(2.0), f64::NEG_INFINITY, 0.0];
        let mut seen = [0; 4];
        for i in 0..4000 {
            seen[choose(&logits, 1.0, f64::from(i) / 4000.0)] += 1;
        }
        assert_eq!(seen[2], 0);
        assert!((seen[1] - 2000i32).abs() <= 1 && (seen[0] - 1000i32).abs() <= 1, "{seen:?}");
        let cold = (1..100).map(|i| choose(&logits, 0.01, f64::from(i) / 100.0));
        assert!(cold.into_iter().all(|i| i == 1));
    }
}
