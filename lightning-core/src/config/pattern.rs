//! Layer patterns: one character per layer.

use crate::error::CoreError;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Kind of a layer; each is one mixer behind one norm on the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// `M`: Mamba-2 mixer.
    Mamba,
    /// `E`: mixture of experts with a shared expert.
    Moe,
    /// `*`: grouped-query attention.
    Attention,
    /// `-`: dense squared-ReLU MLP.
    Mlp,
}

impl LayerKind {
    /// The character of the kind.
    pub const fn symbol(self) -> char {
        match self {
            Self::Mamba => 'M',
            Self::Moe => 'E',
            Self::Attention => '*',
            Self::Mlp => '-',
        }
    }

    /// The kind of a character.
    pub const fn from_symbol(symbol: char) -> Option<Self> {
        match symbol {
            'M' => Some(Self::Mamba),
            'E' => Some(Self::Moe),
            '*' => Some(Self::Attention),
            '-' => Some(Self::Mlp),
            _ => None,
        }
    }

    /// Spelling in the public `config.json` (`mamba`, `moe`, `attention`, `mlp`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mamba => "mamba",
            Self::Moe => "moe",
            Self::Attention => "attention",
            Self::Mlp => "mlp",
        }
    }

    /// The kind of a spelling of `config.json`, including those that transformers 5 writes.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "mamba" | "linear_attention" => Some(Self::Mamba),
            "moe" => Some(Self::Moe),
            "attention" | "full_attention" => Some(Self::Attention),
            "mlp" => Some(Self::Mlp),
            _ => None,
        }
    }
}

/// Reads a pattern such as `MEM*E`.
///
/// # Errors
/// `Pattern` with the position of the first character that is not one of `M E * -`. Megatron's internal separators (`|`
/// for pipeline cuts, `/` before the MTP pattern) are refused too: they do not belong into a model's description.
pub fn parse_pattern(pattern: &str) -> Result<Vec<LayerKind>, CoreError> {
    pattern
        .chars()
        .enumerate()
        .map(|(position, found)| {
            LayerKind::from_symbol(found).ok_or_else(|| CoreError::Pattern {
                pattern: pattern.to_string(),
                position,
                found,
                reason: match found {
                    '|' => "pipeline separators are not part of a model; remove them".to_string(),
                    '/' => "give the MTP pattern as `mtp_hybrid_override_pattern`".to_string(),
                    _ => "layer kinds are M (Mamba-2), E (MoE), * (attention) and - (dense MLP)".to_string(),
                },
            })
        })
        .collect()
}

/// Writes a pattern.
pub fn format_pattern(layers: &[LayerKind]) -> String {
    layers.iter().map(|k| k.symbol()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b12_separators_are_refused_with_their_position() {
        let error = parse_pattern("M|E*M/E").unwrap_err();
        assert!(matches!(error, CoreError::Pattern { position: 1, found: '|', .. }), "{error}");
        assert!(matches!(parse_pattern("ME/E").unwrap_err(), CoreError::Pattern { position: 2, found: '/', .. }));
        assert!(matches!(parse_pattern("MEx").unwrap_err(), CoreError::Pattern { position: 2, found: 'x', .. }));
    }

    #[test]
    fn patterns_survive_a_round_trip() {
        for p in ["", "M", "MEM*E", "M-M-M-MM-M-M*-"] {
            assert_eq!(format_pattern(&parse_pattern(p).unwrap()), p);
        }
    }
}
