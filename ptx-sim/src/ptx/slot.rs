//! Register slots, special registers, and what rows hold at the start.

/// A register slot: a row of 32 lanes in one of three files (32-bit and narrower, 64-bit, predicates).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Slot(u32);

/// Register file of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum File {
    R32,
    R64,
    Pred,
}

impl Slot {
    /// No register: a sink as destination, zero as source.
    pub(crate) const NONE: Slot = Slot(u32::MAX);
    const INDEX: u32 = (1 << 29) - 1;

    pub(crate) fn new(file: File, index: usize) -> Slot {
        Slot((file as u32) << 30 | (index as u32 & Slot::INDEX))
    }

    pub(crate) fn is_none(self) -> bool {
        self == Slot::NONE
    }

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        (self.0 & Slot::INDEX) as usize
    }

    #[inline(always)]
    pub(crate) fn file(self) -> File {
        match self.0 >> 30 {
            0 => File::R32,
            1 => File::R64,
            _ => File::Pred,
        }
    }

    /// The predicate with its opposite meaning.
    pub(crate) fn not(self) -> Slot {
        Slot(self.0 ^ 1 << 29)
    }

    #[inline(always)]
    pub(crate) fn negated(self) -> bool {
        self.0 >> 29 & 1 == 1
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_none() { f.write_str("_") } else { write!(f, "{:?}[{}]", self.file(), self.index()) }
    }
}

/// Registers whose value is fixed for a thread at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    ClusterId(u8),
    NclusterId(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    ExplicitCluster,
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LaneMask(MaskKind),
    DynamicShared,
    TotalShared,
}

/// `%lanemask_*`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MaskKind {
    Eq,
    Le,
    Lt,
    Ge,
    Gt,
}

/// How a constant row is filled before a thread starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Init {
    Bits(u64),
    Special(Special),
    /// Address within the block's shared memory.
    Shared(u64),
    /// Address of a module variable: index and offset.
    Variable(usize, u64),
}
