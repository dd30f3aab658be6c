//! The kinds of integers a token file can hold.

use std::path::Path;

use crate::error::{DataError, Result};

/// Element type of a `.bin` file. Codes 6, 7 and 9 mean floats (and not the same ones everywhere) and are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenType {
    /// Code 1.
    U8,
    /// Code 2.
    I8,
    /// Code 3.
    I16,
    /// Code 4.
    I32,
    /// Code 5.
    I64,
    /// Code 8.
    U16,
}

impl TokenType {
    /// The code in the index.
    pub fn code(self) -> u8 {
        match self {
            TokenType::U8 => 1,
            TokenType::I8 => 2,
            TokenType::I16 => 3,
            TokenType::I32 => 4,
            TokenType::I64 => 5,
            TokenType::U16 => 8,
        }
    }

    /// The type of a code; `idx` names the file in the error.
    pub fn from_code(code: u8, idx: &Path) -> Result<TokenType> {
        let name = match code {
            1 => return Ok(TokenType::U8),
            2 => return Ok(TokenType::I8),
            3 => return Ok(TokenType::I16),
            4 => return Ok(TokenType::I32),
            5 => return Ok(TokenType::I64),
            8 => return Ok(TokenType::U16),
            6 => "float64 in Megatron-LM, float32 in older forks",
            7 => "float32 in Megatron-LM, float64 in older forks",
            9 => "float16 in some forks",
            _ => "unknown",
        };
        Err(DataError::TokenType { path: idx.to_path_buf(), code, name })
    }

    /// Bytes of one token.
    pub fn bytes(self) -> u64 {
        match self {
            TokenType::U8 | TokenType::I8 => 1,
            TokenType::I16 | TokenType::U16 => 2,
            TokenType::I32 => 4,
            TokenType::I64 => 8,
        }
    }

    /// What the public writers choose for a vocabulary: uint16 below 65,500 entries, int32 from there.
    pub fn for_vocab(vocab_size: u64) -> TokenType {
        if vocab_size < 65_500 { TokenType::U16 } else { TokenType::I32 }
    }

    /// NumPy's name.
    pub fn name(self) -> &'static str {
        match self {
            TokenType::U8 => "uint8",
            TokenType::I8 => "int8",
            TokenType::I16 => "int16",
            TokenType::I32 => "int32",
            TokenType::I64 => "int64",
            TokenType::U16 => "uint16",
        }
    }

    /// The type with NumPy's name `name`.
    pub fn from_name(name: &str) -> Option<TokenType> {
        [TokenType::U8, TokenType::I8, TokenType::I16, TokenType::I32, TokenType::I64, TokenType::U16]
            .into_iter()
            .find(|t| t.name() == name)
    }

    /// Largest id this type can hold, limited to what a token can be (0 to 2^31 - 1).
    pub fn largest(self) -> i64 {
        match self {
            TokenType::U8 => 255,
            TokenType::I8 => 127,
            TokenType::I16 => 32_767,
            TokenType::U16 => 65_535,
            TokenType::I32 | TokenType::I64 => i64::from(i32::MAX),
        }
    }
}
