//! Typed access to the keys of one `config.json`, with errors that name file, key and value.

use lightning_core::CoreError;
use lightning_core::config::{LayerKind, parse_pattern};
use serde_json::{Map, Value};

use super::HfConfigError;

/// The keys of one file, with errors that name it.
pub(super) struct Keys<'a> {
    pub(super) file: &'a str,
    pub(super) map: &'a Map<String, Value>,
}

pub(super) type Read<T> = Result<T, HfConfigError>;

/// A value for a message, cut when it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 80 { text.chars().take(77).collect::<String>() + "..." } else { text }
}

impl Keys<'_> {
    pub(super) fn error<T>(&self, key: &str, value: impl Into<String>, reason: impl Into<String>) -> Read<T> {
        let (value, reason) = (value.into(), reason.into());
        Err(HfConfigError { file: self.file.into(), key: Some(key.into()), value, reason })
    }

    /// The value of a key; null counts as absent.
    pub(super) fn find(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    pub(super) fn need(&self, key: &str) -> Read<&Value> {
        match self.find(key) {
            Some(value) => Ok(value),
            None => {
                self.error(key, "missing", "the field is needed; take the config.json that belongs to the checkpoint")
            }
        }
    }

    fn wrong<T>(&self, key: &str, value: &Value, expected: &str) -> Read<T> {
        self.error(
            key,
            shown(value),
            format!("expected {expected}; take the config.json that belongs to the checkpoint"),
        )
    }

    fn size_of(&self, key: &str, value: &Value) -> Read<usize> {
        // Far above any model, and products of two sizes stay inside 64 bits.
        const LARGEST: u64 = 1 << 24;
        match value.as_u64().filter(|n| *n <= LARGEST) {
            Some(n) => Ok(n as usize),
            None => self.wrong(key, value, "a whole number from 0 to 2^24"),
        }
    }

    pub(super) fn size(&self, key: &str) -> Read<usize> {
        self.size_of(key, self.need(key)?)
    }

    pub(super) fn size_or(&self, key: &str, default: usize) -> Read<usize> {
        self.find(key).map_or(Ok(default), |v| self.size_of(key, v))
    }

    fn number_of(&self, key: &str, value: &Value) -> Read<f64> {
        match value.as_f64() {
            Some(x) => Ok(x),
            None => self.wrong(key, value, "a number"),
        }
    }

    pub(super) fn number_or(&self, key: &str, default: f64) -> Read<f64> {
        self.find(key).map_or(Ok(default), |v| self.number_of(key, v))
    }

    pub(super) fn number(&self, key: &str) -> Read<f64> {
        self.number_of(key, self.need(key)?)
    }

    pub(super) fn flag(&self, key: &str) -> Read<bool> {
        self.need(key)?;
        self.flag_or(key, false)
    }

    pub(super) fn text_or(&self, key: &str, default: &str) -> Read<String> {
        match self.find(key) {
            None => Ok(default.into()),
            Some(Value::String(s)) => Ok(s.clone()),
            Some(other) => self.wrong(key, other, "a string"),
        }
    }

    pub(super) fn flag_or(&self, key: &str, default: bool) -> Read<bool> {
        match self.find(key) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(other) => self.wrong(key, other, "true or false"),
        }
    }

    /// A token id; the first of a list.
    pub(super) fn token(&self, key: &str) -> Read<Option<u64>> {
        let first = match self.find(key) {
            Some(Value::Array(items)) => items.first(),
            other => other,
        };
        match first {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(id) => Ok(Some(id)),
                None => self.wrong(key, value, "a token id"),
            },
        }
    }

    /// Layer kinds from a list of names or, without it, from a pattern.
    pub(super) fn layers(&self, list: &str, pattern: &str) -> Read<Option<(Vec<LayerKind>, String)>> {
        if let Some(value) = self.find(list) {
            let Value::Array(items) = value else {
                return self.wrong(list, value, "a list of layer kinds");
            };
            let mut kinds = Vec::with_capacity(items.len());
            for (i, item) in items.iter().enumerate() {
                match item.as_str().and_then(LayerKind::from_name) {
                    Some(kind) => kinds.push(kind),
                    None => {
                        let key = format!("{list}[{i}]");
                        return self.error(
                            &key,
                            shown(item),
                            "layer kinds are mamba (or linear_attention), attention (or full_attention), moe and mlp",
                        );
                    }
                }
            }
            return Ok(Some((kinds, list.to_string())));
        }
        match self.find(pattern) {
            None => Ok(None),
            Some(Value::String(text)) => match parse_pattern(text) {
                Ok(kinds) => Ok(Some((kinds, pattern.to_string()))),
                Err(CoreError::Pattern { position, found, reason, .. }) => {
                    self.error(pattern, format!("\"{text}\""), format!("`{found}` at position {position}: {reason}"))
                }
                Err(other) => self.error(pattern, format!("\"{text}\""), other.to_string()),
            },
            Some(other) => self.wrong(pattern, other, "a string such as \"MEM*E\""),
        }
    }

    /// Refuses what the family has and this program does not.
    pub(super) fn refuse_other_models(&self) -> Read<()> {
        let model_type = self.need("model_type")?;
        if model_type.as_str() != Some("nemotron_h") {
            return self.error("model_type", shown(model_type), "only \"nemotron_h\" is supported");
        }
        if let Some(value) = self.find("moe_latent_size") {
            let reason = "latent mixture-of-experts models (Nemotron 3 Super and Ultra) are not supported";
            return self.error("moe_latent_size", shown(value), reason);
        }
        for (key, wanted) in [
            ("tie_word_embeddings", false),
            ("attention_bias", false),
            ("mamba_proj_bias", false),
            ("use_bias", false),
            ("mlp_bias", false),
            ("use_conv_bias", true),
        ] {
            let found = self.flag_or(key, wanted)?;
            if found != wanted {
                return self.error(key, found.to_string(), format!("only {wanted} is supported"));
            }
        }
        for (key, wanted) in [("mamba_hidden_act", "silu"), ("mlp_hidden_act", "relu2")] {
            let found = self.text_or(key, wanted)?;
            if found != wanted {
                return self.error(key, format!("\"{found}\""), format!("only \"{wanted}\" is supported"));
            }
        }
        for key in ["n_group", "topk_group"] {
            let found = self.size_or(key, 1)?;
            if found != 1 {
                return self.error(key, found.to_string(), "group-limited routing is not supported, only 1");
            }
        }
        for key in ["attention_dropout", "hidden_dropout"] {
            let found = self.number_or(key, 0.0)?;
            if found != 0.0 {
                return self.error(key, found.to_string(), "only 0 is supported");
            }
        }
        if let Some(value) = self.find("sliding_window") {
            return self.error("sliding_window", shown(value), "only null is supported");
        }
        Ok(())
    }

    pub(super) fn norm_eps(&self) -> Read<f64> {
        let (first, second) = (self.find("layer_norm_epsilon"), self.find("norm_eps"));
        let first = first.map(|v| self.number_of("layer_norm_epsilon", v)).transpose()?;
        let second = second.map(|v| self.number_of("norm_eps", v)).transpose()?;
        match (first, second) {
            (Some(a), Some(b)) if a != b => self.error(
                "norm_eps",
                b.to_string(),
                format!("differs from layer_norm_epsilon = {a}; they must be equal"),
            ),
            (Some(eps), _) | (None, Some(eps)) => Ok(eps),
            (None, None) => {
                self.error("layer_norm_epsilon", "missing", "the epsilon of the norms has no default; add the field")
            }
        }
    }
}
