//! The load of every expert of every router in one line of `metrics.jsonl`.
//!
//! TensorBoard does not survive thousands of series, and a step's counts as numbers would be most of the file. So the counts
//! of an interval become one byte each, base64 in the record:
//!
//!   load byte = 0 when the expert got no token, else clamp(round(32 count / mean of its router), 1, 255)
//!   bias byte = 128 + round(127 bias / largest |bias|)
//!
//! so 32 is a balanced expert, 255 is eight times the mean or more, and zero says dead and nothing else.

use serde_json::{Value, json};

/// The byte of an expert that gets exactly the mean.
pub const BALANCED: f64 = 32.0;

/// Loads of the experts of every router over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpertMatrix {
    /// Names of the routers, in order of rows.
    pub routers: Vec<String>,
    /// Experts per router.
    pub experts: usize,
    /// Load over the mean of the router, `[routers, experts]`.
    pub load: Vec<f64>,
    /// Expert bias of the router, `[routers, experts]`; empty when it is not used.
    pub bias: Vec<f64>,
}

impl ExpertMatrix {
    /// From token counts, `[routers, experts]`. A router without a token has load 0 everywhere.
    pub fn from_counts(routers: Vec<String>, experts: usize, counts: &[f64], bias: Vec<f64>) -> Self {
        let mut load = Vec::with_capacity(counts.len());
        for row in counts.chunks(experts.max(1)) {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            load.extend(row.iter().map(|c| if mean > 0.0 { c / mean } else { 0.0 }));
        }
        Self { routers, experts, load, bias }
    }

    /// The record of an interval that ends with step `iteration`.
    pub fn to_json(&self, iteration: u64) -> Value {
        let byte = |x: &f64| if *x == 0.0 { 0 } else { (BALANCED * x).round().clamp(1.0, 255.0) as u8 };
        let load: Vec<u8> = self.load.iter().map(byte).collect();
        let mut record = json!({
            "event": "experts", "iteration": iteration, "routers": self.routers, "experts": self.experts,
            "load": to_base64(&load),
        });
        let largest = self.bias.iter().fold(0.0f64, |a, b| a.max(b.abs()));
        if largest > 0.0 && largest.is_finite() {
            let bias: Vec<u8> = self.bias.iter().map(|b| (128.0 + (127.0 * b / largest).round()) as u8).collect();
            record["bias"] = to_base64(&bias).into();
            record["bias_scale"] = json!(largest);
        }
        record
    }

    /// Reads a record; `None` when it is not one.
    pub fn from_json(record: &Value) -> Option<Self> {
        let routers: Vec<String> =
            record.get("routers")?.as_array()?.iter().map(|r| r.as_str().map(String::from)).collect::<Option<_>>()?;
        let experts = record.get("experts")?.as_u64()? as usize;
        let cells = routers.len().checked_mul(experts)?;
        let load = from_base64(record.get("load")?.as_str()?).filter(|b| b.len() == cells)?;
        let bias = match (record.get("bias").and_then(Value::as_str), record.get("bias_scale").and_then(Value::as_f64))
        {
            (Some(text), Some(scale)) => {
                let bytes = from_base64(text).filter(|b| b.len() == cells)?;
                bytes.iter().map(|b| scale * (f64::from(*b) - 128.0) / 127.0).collect()
            }
            _ => Vec::new(),
        };
        Some(Self { routers, experts, load: load.iter().map(|b| f64::from(*b) / BALANCED).collect(), bias })
    }

    /// Share of experts without a token, over all routers.
    pub fn dead_share(&self) -> f64 {
        self.load.iter().filter(|l| **l == 0.0).count() as f64 / self.load.len().max(1) as f64
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding (RFC 4648 §4).
pub fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                text.push(char::from(ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The bytes of a base64 text; `None` when it is not one.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if bytes.len() % 4 != 0 {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    for (at, chunk) in bytes.chunks(4).enumerate() {
        let padding = chunk.iter().rev().take_while(|c| **c == b'=').count();
        if padding > 2 || (padding > 0 && at + 1 != bytes.len() / 4) {
            return None;
        }
        let mut word = 0u32;
        for (i, c) in chunk.iter().enumerate() {
            let value = if i >= 4 - padding { Some(0) } else { ALPHABET.iter().position(|a| a == c) };
            word = word << 6 | value? as u32;
        }
        out.extend_from_slice(&word.to_be_bytes()[1..4 - padding]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightning_core::rng::Philox;

    #[test]
    fn base64_matches_the_vectors_of_rfc_4648_and_returns_every_length() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(to_base64(plain.as_bytes()), coded);
        }
        let mut rng = Philox::new(5, 1);
        for n in 0..40 {
            let bytes: Vec<u8> = (0..n).map(|_| rng.next_u64() as u8).collect();
            assert_eq!(from_base64(&to_base64(&bytes)), Some(bytes));
        }
        for bad in ["a", "ab=c", "====", "Zg==Zg==", "Zg!="] {
            assert_eq!(from_base64(bad), None, "{bad}");
        }
    }

    #[test]
    fn zero_is_dead_and_a_starved_expert_is_not() {
        let mut counts = vec![0.0; 16];
        counts[0] = 1e6;
        counts[1] = 1.0;
        let matrix = ExpertMatrix::from_counts(vec!["layers.1".into(), "layers.3".into()], 8, &counts, vec![]);
        let read = ExpertMatrix::from_json(&matrix.to_json(7)).unwrap();
        assert!(read.load[1] > 0.0 && read.load[2] == 0.0 && read.load[0] > 7.9);
        assert_eq!(read.dead_share(), 14.0 / 16.0);
        assert!(read.load[8..].iter().all(|l| *l == 0.0), "a router without tokens has no load");
    }

    #[test]
    fn loads_and_biases_come_back_within_half_a_step() {
        let mut rng = Philox::new(9, 2);
        let counts: Vec<f64> = (0..3 * 16).map(|_| (1 + rng.below(200)) as f64).collect();
        let bias: Vec<f64> = (0..3 * 16).map(|_| rng.normal() * 1e-3).collect();
        let names = vec!["a".to_string(), "b".into(), "c".into()];
        let matrix = ExpertMatrix::from_counts(names, 16, &counts, bias.clone());
        let read = ExpertMatrix::from_json(&matrix.to_json(1)).unwrap();
        let largest = bias.iter().fold(0.0f64, |a, b| a.max(b.abs()));
        for i in 0..48 {
            assert!((read.load[i] - matrix.load[i]).abs() <= 0.5 / BALANCED + 1e-12);
            assert!((read.bias[i] - bias[i]).abs() <= 0.51 * largest / 127.0);
        }
    }
}
