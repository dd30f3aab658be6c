//! Settings that name training data: blends and data paths (data.md §3.1).

use super::setting::Setting;
use super::value::Value;

/// Prefixes of token files and their weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Blend {
    /// Prefixes (paths without `.bin` and `.idx`).
    pub prefixes: Vec<String>,
    /// One weight per prefix, any positive scale; `None` weighs by length.
    pub weights: Option<Vec<f64>>,
}

impl Setting for Blend {
    fn expected() -> String {
        "[[prefix, ...], [weight, ...]] or [[prefix, ...], null], with one weight per prefix".into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        let Value::List(items) = value else {
            return None;
        };
        let [prefixes, weights] = items.as_slice() else {
            return None;
        };
        let prefixes: Vec<String> = Setting::from_value(prefixes)?;
        let weights: Option<Vec<f64>> = Setting::from_value(weights)?;
        let fits = weights.as_ref().is_none_or(|w| w.len() == prefixes.len() && w.iter().all(|w| *w > 0.0));
        (!prefixes.is_empty() && fits).then_some(Self { prefixes, weights })
    }

    fn to_value(&self) -> Value {
        Value::List(vec![self.prefixes.to_value(), self.weights.to_value()])
    }
}

/// A blend for each of training, validation and test.
#[derive(Debug, Clone, PartialEq)]
pub struct BlendPerSplit(pub [Option<Blend>; 3]);

impl Setting for BlendPerSplit {
    fn expected() -> String {
        "[train, valid, test], each null or [[prefix, ...], [weight, ...] or null]".into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        let blends: Vec<Option<Blend>> = Setting::from_value(value)?;
        blends.try_into().ok().map(Self)
    }

    fn to_value(&self) -> Value {
        Value::List(self.0.iter().map(Setting::to_value).collect())
    }
}

/// The words of a data path: prefixes, or weights and prefixes in turn. What the words mean is decided when the data is
/// opened.
#[derive(Debug, Clone, PartialEq)]
pub struct DataPath(pub Vec<String>);

impl Setting for DataPath {
    fn expected() -> String {
        "prefixes, or weights and prefixes in turn: \"30 a 70 b\" or [30, a, 70, b]".into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        let words: Vec<String> = match value {
            Value::Str(text) => text.split_whitespace().map(String::from).collect(),
            Value::List(items) => items
                .iter()
                .map(|item| match item {
                    Value::Str(s) => Some(s.trim().to_string()),
                    Value::Int(_) | Value::Float(_) => Some(item.to_string()),
                    _ => None,
                })
                .collect::<Option<_>>()?,
            _ => return None,
        };
        (!words.is_empty()).then_some(Self(words))
    }

    fn to_value(&self) -> Value {
        Value::List(self.0.iter().map(|w| Value::Str(w.clone())).collect())
    }

    fn takes_text() -> bool {
        true
    }
}
