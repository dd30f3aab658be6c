//! Shared-memory swizzles: 16-byte chunks are permuted within a span by the number of their 128-byte row.
//!
//! The permutation works on addresses, not on offsets in a tile: with chunk bits `[4..4 + n]` and row bits
//! `[7..7 + n]`, `chunk ^= row`, `n` being 1, 2 or 3 for spans of 32, 64 and 128 bytes (PTX ISA 9.0, "Swizzling
//! modes" of tensor copies and "Strides" of `wgmma` operands).

/// A swizzle mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Addresses as they are.
    None,
    /// 16-byte chunks within 32 bytes.
    B32,
    /// 16-byte chunks within 64 bytes.
    B64,
    /// 16-byte chunks within 128 bytes.
    B128,
}

impl Swizzle {
    /// All modes.
    pub const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

    /// Span in bytes, 16 without a swizzle.
    #[inline(always)]
    pub const fn span(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    /// Bytes after which the pattern repeats; its base must be aligned to them for a base offset of zero.
    pub const fn period(self) -> u32 {
        match self {
            Swizzle::None => 16,
            _ => self.span() * 8,
        }
    }

    /// Mask of the row bits that move chunks, before the shift: 0, 1, 3 or 7.
    #[inline(always)]
    pub const fn mask(self) -> u64 {
        (self.span() / 16 - 1) as u64
    }

    /// Where the byte of linear address `address` lies.
    #[inline(always)]
    pub const fn apply(self, address: u64) -> u64 {
        address ^ ((address >> 7) & self.mask()) << 4
    }

    /// As [`Swizzle::apply`] for a pattern that begins `base_offset` rows of 128 bytes after the alignment.
    #[inline(always)]
    pub const fn apply_from(self, address: u64, base_offset: u32) -> u64 {
        address ^ ((address >> 7).wrapping_sub(base_offset as u64) & self.mask()) << 4
    }
}
