//! Scalar types and state spaces.

/// A scalar type of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ty {
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    F16,
    BF16,
    B32,
    U32,
    S32,
    F32,
    TF32,
    F16x2,
    BF16x2,
    B64,
    U64,
    S64,
    F64,
    B128,
    Pred,
    E4M3,
    E5M2,
    E4M3x2,
    E5M2x2,
    E2M1x2,
    E2M3x2,
    E3M2x2,
    UE8M0x2,
    E4M3x4,
    E5M2x4,
    E2M1x4,
    E2M3x4,
    E3M2x4,
    U16x2,
    S16x2,
    F32x2,
}

impl Ty {
    /// The type of a modifier or directive word without its dot.
    pub fn parse(s: &str) -> Option<Ty> {
        use Ty::*;
        Some(match s {
            "b8" => B8,
            "u8" => U8,
            "s8" => S8,
            "b16" => B16,
            "u16" => U16,
            "s16" => S16,
            "f16" => F16,
            "bf16" => BF16,
            "b32" => B32,
            "u32" => U32,
            "s32" => S32,
            "f32" => F32,
            "tf32" => TF32,
            "f16x2" => F16x2,
            "bf16x2" => BF16x2,
            "b64" => B64,
            "u64" => U64,
            "s64" => S64,
            "f64" => F64,
            "b128" => B128,
            "pred" => Pred,
            "e4m3" => E4M3,
            "e5m2" => E5M2,
            "e4m3x2" => E4M3x2,
            "e5m2x2" => E5M2x2,
            "e2m1x2" => E2M1x2,
            "e2m3x2" => E2M3x2,
            "e3m2x2" => E3M2x2,
            "ue8m0x2" => UE8M0x2,
            "e4m3x4" => E4M3x4,
            "e5m2x4" => E5M2x4,
            "e2m1x4" => E2M1x4,
            "e2m3x4" => E2M3x4,
            "e3m2x4" => E3M2x4,
            "u16x2" => U16x2,
            "s16x2" => S16x2,
            "f32x2" => F32x2,
            _ => return None,
        })
    }

    /// Size in bytes of a register of this type.
    pub fn size(self) -> usize {
        use Ty::*;
        match self {
            B8 | U8 | S8 | E4M3 | E5M2 | E2M1x2 => 1,
            B16 | U16 | S16 | F16 | BF16 | E4M3x2 | E5M2x2 | E2M3x2 | E3M2x2 | UE8M0x2 | E2M1x4 => 2,
            B64 | U64 | S64 | F64 | F32x2 => 8,
            B128 => 16,
            Pred => 1,
            _ => 4,
        }
    }

    /// Whether the value is a signed integer.
    pub fn signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64 | Ty::S16x2)
    }

    /// Whether the value is an integer or untyped bits.
    pub fn integer(self) -> bool {
        use Ty::*;
        matches!(self, B8 | U8 | S8 | B16 | U16 | S16 | B32 | U32 | S32 | B64 | U64 | S64)
    }
}

/// State space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Resolved at run time from the address.
    Generic,
    /// Device memory, including constants.
    Global,
    /// Shared memory of the block, or with a peer's address of the cluster.
    Shared,
    /// Memory of a thread.
    Local,
    /// Kernel parameters.
    Param,
}

/// What a hint does besides being fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HintKind {
    /// Nothing; the address must exist.
    Prefetch,
    /// Nothing; the address must hold a tensor map.
    TensorMap,
    /// Nothing; 128 aligned bytes must exist.
    Line,
    /// The values of 128 aligned bytes are lost.
    Discard,
}
