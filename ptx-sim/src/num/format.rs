//! Number formats: field widths, special codes, and the exact value of each code.
//!
//! `value = (-1)^s * 1.m * 2^(e - bias)` for `e > 0`, and `(-1)^s * 0.m * 2^(1 - bias)` for `e = 0`.
//! Widths and special codes are those of PTX ISA 9.0, "Alternate Floating-Point Data Formats" and the
//! OCP formats that it names.

/// Which codes of a format are not finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// The largest exponent holds infinity (mantissa 0) and NaN (mantissa not 0), as IEEE 754 has it.
    Ieee,
    /// Only the code of all ones is NaN; there is no infinity (`e4m3`).
    OneNan,
    /// Every code is a finite number (`e2m3`, `e3m2`, `e2m1`).
    None,
}

/// A binary floating-point format with a sign bit on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Name as PTX spells it.
    pub name: &'static str,
    /// Bits of the exponent field.
    pub exp_bits: u32,
    /// Bits of the mantissa field, without the hidden bit.
    pub man_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Codes that are not finite.
    pub specials: Specials,
    /// The code that a NaN result takes: all ones below the sign where the format has NaN, the largest
    /// finite number where it has none.
    pub nan: u64,
}

impl Format {
    /// IEEE binary16.
    pub const F16: Format =
        Format { name: "f16", exp_bits: 5, man_bits: 10, bias: 15, specials: Specials::Ieee, nan: 0x7fff };
    /// The upper half of binary32.
    pub const BF16: Format =
        Format { name: "bf16", exp_bits: 8, man_bits: 7, bias: 127, specials: Specials::Ieee, nan: 0x7fff };
    /// IEEE binary32.
    pub const F32: Format =
        Format { name: "f32", exp_bits: 8, man_bits: 23, bias: 127, specials: Specials::Ieee, nan: 0x7fff_ffff };
    /// IEEE binary64.
    pub const F64: Format = Format {
        name: "f64",
        exp_bits: 11,
        man_bits: 52,
        bias: 1023,
        specials: Specials::Ieee,
        nan: 0x7fff_ffff_ffff_ffff,
    };
    /// The 19 bits of `tf32` that are kept, right-aligned; a register holds them shifted left by 13.
    pub const TF32: Format =
        Format { name: "tf32", exp_bits: 8, man_bits: 10, bias: 127, specials: Specials::Ieee, nan: 0x3_ffff };
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinity, largest number 448.
    pub const E4M3: Format =
        Format { name: "e4m3", exp_bits: 4, man_bits: 3, bias: 7, specials: Specials::OneNan, nan: 0x7f };
    /// 8-bit float, 5 exponent and 2 mantissa bits, largest number 57344.
    pub const E5M2: Format =
        Format { name: "e5m2", exp_bits: 5, man_bits: 2, bias: 15, specials: Specials::Ieee, nan: 0x7f };
    /// 6-bit float, 2 exponent and 3 mantissa bits, largest number 7.5.
    pub const E2M3: Format =
        Format { name: "e2m3", exp_bits: 2, man_bits: 3, bias: 1, specials: Specials::None, nan: 0x1f };
    /// 6-bit float, 3 exponent and 2 mantissa bits, largest number 28.
    pub const E3M2: Format =
        Format { name: "e3m2", exp_bits: 3, man_bits: 2, bias: 3, specials: Specials::None, nan: 0x1f };
    /// 4-bit float, 2 exponent and 1 mantissa bits, largest number 6.
    pub const E2M1: Format =
        Format { name: "e2m1", exp_bits: 2, man_bits: 1, bias: 1, specials: Specials::None, nan: 0x7 };

    /// Width of a code in bits, sign included.
    pub const fn width(&self) -> u32 {
        1 + self.exp_bits + self.man_bits
    }

    /// The sign bit of a code.
    pub const fn sign_bit(&self) -> u64 {
        1 << (self.exp_bits + self.man_bits)
    }

    /// Code of the largest finite number.
    pub const fn max_code(&self) -> u64 {
        match self.specials {
            Specials::Ieee => (((1 << self.exp_bits) - 1) << self.man_bits) - 1,
            Specials::OneNan => self.sign_bit() - 2,
            Specials::None => self.sign_bit() - 1,
        }
    }

    /// Code of positive infinity, where the format has one.
    pub const fn inf_code(&self) -> Option<u64> {
        match self.specials {
            Specials::Ieee => Some(self.max_code() + 1),
            _ => None,
        }
    }

    /// Exponent of the smallest normal number.
    pub const fn min_exp(&self) -> i32 {
        1 - self.bias
    }

    /// Whether `code` is a NaN.
    pub const fn is_nan(&self, code: u64) -> bool {
        let magnitude = code & (self.sign_bit() - 1);
        match self.specials {
            Specials::Ieee => magnitude > self.max_code() + 1,
            Specials::OneNan => magnitude == self.nan,
            Specials::None => false,
        }
    }

    /// Exact value of `code`. Bits above the format's width are ignored. NaN codes give NaN. Exact for
    /// every format here, since each is a subset of binary64.
    #[inline]
    pub fn decode(&self, code: u64) -> f64 {
        let magnitude = code & (self.sign_bit() - 1);
        let negative = code & self.sign_bit() != 0;
        let sign = (negative as u64) << 63;
        if self.is_nan(code) {
            return f64::from_bits(sign | 0x7ff8_0000_0000_0000);
        }
        if Some(magnitude) == self.inf_code() {
            return f64::from_bits(sign | 0x7ff0_0000_0000_0000);
        }
        if self.man_bits == 52 {
            return f64::from_bits(code);
        }
        let exp = (magnitude >> self.man_bits) as i32;
        let man = magnitude & ((1 << self.man_bits) - 1);
        let bits = if exp == 0 {
            // Subnormal: an integer times a power of two that binary64 holds as a normal number.
            let scale = f64::from_bits(((1023 + self.min_exp() - self.man_bits as i32) as u64) << 52);
            (man as f64 * scale).to_bits()
        } else {
            (((exp - self.bias + 1023) as u64) << 52) | (man << (52 - self.man_bits))
        };
        f64::from_bits(sign | bits)
    }
}
