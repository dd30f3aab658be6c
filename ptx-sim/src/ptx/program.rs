//! Decoded kernels: flat instructions over register slots, ready to be executed.

pub(crate) use super::class::Class;
pub(crate) use super::slot::{File, Init, MaskKind, Slot, Special};
use super::types::{HintKind, Space, Ty};

/// Comparison of `setp` and `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Lane operations with a specialised loop. Operands: destination and up to three sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneOp {
    Mov32,
    Mov64,
    MovPred,
    Add32,
    Sub32,
    Mul32,
    Mad32,
    MinS32,
    MaxS32,
    MinU32,
    MaxU32,
    And32,
    Or32,
    Xor32,
    Not32,
    Neg32,
    Shl32,
    ShrU32,
    ShrS32,
    Lop3(u8),
    Prmt,
    BfeU32,
    Add64,
    Sub64,
    Mul64,
    Mad64,
    And64,
    Or64,
    Xor64,
    Shl64,
    ShrU64,
    ShrS64,
    MulWideU,
    MulWideS,
    MadWideU,
    MadWideS,
    AndPred,
    OrPred,
    XorPred,
    NotPred,
    Selp32,
    Selp64,
    FAdd,
    FSub,
    FMul,
    FFma,
    FMin,
    FMax,
    FNeg,
    FAbs,
    DAdd,
    DSub,
    DMul,
    DFma,
    /// 32 to 64 bits, zero extended.
    Zext,
    /// 32 to 64 bits, sign extended.
    Sext,
    /// 64 to 32 bits.
    Trunc,
    /// 64 to 16 bits or 32 to 16 bits.
    Low16,
    F32FromS32,
    F32FromU32,
    F32FromBf16,
    F32FromF16,
    Bf16FromF32,
    F16FromF32,
    Bf16x2FromF32,
    F16x2FromF32,
    /// Two 16-bit halves to 32 bits.
    Pack16,
    /// Two 32-bit halves to 64 bits.
    Pack32,
    /// Low or high 16 bits of 32.
    Half(bool),
    /// Low or high 32 bits of 64.
    Word(bool),
}

/// `setp` of the common types, with an optional second predicate and combination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetP {
    pub(crate) cmp: Cmp,
    pub(crate) ty: Ty,
    pub(crate) p: Slot,
    pub(crate) q: Slot,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    /// Predicate to combine with, and how.
    pub(crate) combine: Option<(BoolOp, Slot)>,
}

/// Combination of a comparison with a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

type Scalar<const N: usize> = Box<dyn Fn([u64; N]) -> u64 + Send + Sync>;

/// Function of one lane for everything without a specialised loop. Values are zero-extended register contents.
pub(crate) enum MapFn {
    F1(Scalar<1>),
    F2(Scalar<2>),
    F3(Scalar<3>),
    F4(Scalar<4>),
    /// Two results.
    Two(Box<dyn Fn([u64; 3]) -> (u64, u64) + Send + Sync>),
}

/// A lane function with its operands.
pub(crate) struct Map {
    pub(crate) f: MapFn,
    pub(crate) d: [Slot; 2],
    pub(crate) s: [Slot; 4],
}

/// Memory model strength of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    Volatile,
}

impl Strength {
    pub(crate) fn acquires(self) -> bool {
        matches!(self, Strength::Acquire | Strength::AcqRel)
    }

    pub(crate) fn releases(self) -> bool {
        matches!(self, Strength::Release | Strength::AcqRel)
    }

    pub(crate) fn strong(self) -> bool {
        self != Strength::Weak
    }
}

/// An address: base register plus constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addr {
    pub(crate) space: Space,
    pub(crate) base: Slot,
    pub(crate) offset: i64,
}

/// `ld`
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) addr: Addr,
    /// Bytes of an element: 1, 2, 4, 8.
    pub(crate) bytes: usize,
    pub(crate) signed: bool,
    pub(crate) d: Vec<Slot>,
    pub(crate) strength: Strength,
    /// Whether the scope is the block.
    pub(crate) narrow: bool,
}

/// `st`
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) addr: Addr,
    pub(crate) bytes: usize,
    pub(crate) s: Vec<Slot>,
    pub(crate) strength: Strength,
    /// Whether the scope is the block.
    pub(crate) narrow: bool,
    /// `st.async`: mbarrier to complete on.
    pub(crate) mbar: Option<Slot>,
}

/// `atom` and `red`. The function takes the old value and the operands.
pub(crate) struct Atomic {
    pub(crate) addr: Addr,
    pub(crate) bytes: usize,
    pub(crate) f: Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>,
    /// Empty for `red`.
    pub(crate) d: Vec<Slot>,
    pub(crate) b: Vec<Slot>,
    pub(crate) c: Slot,
    pub(crate) strength: Strength,
    /// Whether the scope is the block.
    pub(crate) narrow: bool,
    /// `red.async`: mbarrier to complete on.
    pub(crate) mbar: Option<Slot>,
}

/// Mode of `shfl.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// Warp-wide operations that name their lanes with a mask.
#[derive(Debug)]
pub(crate) enum WarpOp {
    Shfl {
        mode: ShflMode,
        d: Slot,
        p: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    VoteAll {
        d: Slot,
        a: Slot,
    },
    VoteAny {
        d: Slot,
        a: Slot,
    },
    VoteUni {
        d: Slot,
        a: Slot,
    },
    Ballot {
        d: Slot,
        a: Slot,
    },
    MatchAny {
        d: Slot,
        a: Slot,
    },
    MatchAll {
        d: Slot,
        p: Slot,
        a: Slot,
    },
    Redux {
        op: ReduxOp,
        d: Slot,
        a: Slot,
    },
    Elect {
        d: Slot,
        p: Slot,
    },
    /// `bar.warp.sync`
    Sync,
}

/// Operation of `redux.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduxOp {
    Add,
    MinS,
    MaxS,
    MinU,
    MaxU,
    And,
    Or,
    Xor,
}

/// Reduction of `barrier.red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarRed {
    Popc,
    And,
    Or,
}

/// Named barriers of a block.
#[derive(Debug)]
pub(crate) struct Barrier {
    pub(crate) id: Slot,
    pub(crate) count: Option<Slot>,
    pub(crate) arrive_only: bool,
    pub(crate) reduce: Option<(BarRed, Slot, Slot)>,
}

/// What an mbarrier instruction does.
#[derive(Debug)]
pub(crate) enum MbarKind {
    Init {
        count: Slot,
    },
    Inval,
    Arrive {
        count: Option<Slot>,
        expect: Option<Slot>,
        drop: bool,
        no_complete: bool,
    },
    ExpectTx {
        bytes: Slot,
    },
    CompleteTx {
        bytes: Slot,
    },
    /// `phase`: a state token, or a parity.
    Wait {
        phase: Slot,
        parity: bool,
        blocking: bool,
    },
    /// `cp.async.mbarrier.arrive`
    CpAsyncArrive {
        noinc: bool,
    },
}

/// An mbarrier instruction.
#[derive(Debug)]
pub(crate) struct Mbar {
    pub(crate) kind: MbarKind,
    pub(crate) addr: Addr,
    pub(crate) d: Slot,
    pub(crate) relaxed: bool,
}

/// Element-wise operation of a bulk reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BulkReduce {
    pub(crate) op: ReduceOp,
    pub(crate) ty: Ty,
}

/// Operation of a bulk reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduceOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
}

/// Bulk asynchronous copies.
#[derive(Debug)]
pub(crate) enum Bulk {
    /// Global to shared, linear.
    Load {
        dst: Addr,
        src: Addr,
        bytes: Slot,
        mbar: Addr,
        mask: Option<Slot>,
    },
    /// Shared to shared of the cluster, linear.
    Peer {
        dst: Addr,
        src: Addr,
        bytes: Slot,
        mbar: Addr,
    },
    /// Shared to global, linear.
    Store {
        dst: Addr,
        src: Addr,
        bytes: Slot,
        reduce: Option<BulkReduce>,
    },
    Prefetch {
        src: Addr,
        bytes: Slot,
    },
    TensorLoad {
        dst: Addr,
        map: Addr,
        coords: Vec<Slot>,
        mbar: Addr,
        mask: Option<Slot>,
    },
    TensorStore {
        map: Addr,
        coords: Vec<Slot>,
        src: Addr,
        reduce: Option<ReduceOp>,
    },
    TensorPrefetch {
        map: Addr,
        coords: Vec<Slot>,
    },
    Commit,
    /// With `read` for the reads of the groups only.
    Wait {
        keep: u32,
        read: bool,
    },
}

/// Element type of a matrix operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Elem {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    F64,
}

impl Elem {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Elem::F16 | Elem::Bf16 => 2,
            Elem::Tf32 => 4,
            Elem::F64 => 8,
            _ => 1,
        }
    }
}

/// `mma.sync` of shape m16nNkK or m8n8k4.
#[derive(Debug)]
pub(crate) struct Mma {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Elem,
    pub(crate) b: Elem,
    /// Accumulator: f32, f16, s32 or f64.
    pub(crate) acc: Ty,
    pub(crate) satfinite: bool,
    pub(crate) d: Vec<Slot>,
    pub(crate) ra: Vec<Slot>,
    pub(crate) rb: Vec<Slot>,
    pub(crate) rc: Vec<Slot>,
}

/// `wgmma.mma_async`
#[derive(Debug)]
pub(crate) struct Wgmma {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Elem,
    pub(crate) b: Elem,
    pub(crate) acc: Ty,
    pub(crate) d: Vec<Slot>,
    /// Descriptor, or four registers.
    pub(crate) ra: Vec<Slot>,
    pub(crate) a_in_shared: bool,
    pub(crate) desc_b: Slot,
    pub(crate) scale_d: Slot,
    pub(crate) neg_a: bool,
    pub(crate) neg_b: bool,
    pub(crate) trans_a: bool,
    pub(crate) trans_b: bool,
    pub(crate) satfinite: bool,
}

/// Field of `tensormap.replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapField {
    GlobalAddress,
    Rank,
    BoxDim(usize),
    GlobalDim(usize),
    GlobalStride(usize),
    ElementStride(usize),
    ElemType,
    InterleaveLayout,
    SwizzleMode,
    FillMode,
}

/// Kinds of fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// `fence.*`, `membar.*` of the generic proxy; whether other blocks may be meant (gpu or sys scope, cluster).
    Thread { wide: bool },
    /// `fence.proxy.async` in all its forms.
    ProxyAsync,
    /// `fence.proxy.alias`, `.tensormap`
    ProxyOther,
    /// `fence.mbarrier_init`
    MbarrierInit,
}

/// Registers that change while a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Counter32,
    CounterHi,
    Counter64,
    GlobalTimer,
    GlobalTimerLo,
    GlobalTimerHi,
}

/// Functions that the device runtime provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// `vprintf(format, arguments)`
    Vprintf,
    /// `__assertfail(message, file, line, function, char size)`
    AssertFail,
}

/// Semantics of one instruction. A place for the fifth-generation tensor core (`tcgen05`) would be one more variant
/// here, one more file of the decoder and one of the executor.
pub(crate) enum Op {
    Lane(LaneOp, Slot, [Slot; 3]),
    SetP(SetP),
    Map(Box<Map>),
    ReadClock(Clock, Slot),
    Bra {
        target: u32,
    },
    BraIndex {
        index: Slot,
        targets: Box<[u32]>,
    },
    /// Call of a function by its index; copies of arguments and results are instructions around it.
    Call {
        function: u32,
    },
    CallBuiltin {
        builtin: Builtin,
        args: Vec<Addr>,
        ret: Option<Addr>,
    },
    Ret,
    Exit,
    Trap,
    Nop,
    Nanosleep,
    Load(Box<Load>),
    Store(Box<Store>),
    Atomic(Box<Atomic>),
    /// Prefetch and discard hints.
    Hint {
        addr: Addr,
        kind: HintKind,
    },
    /// `isspacep`, as predicate
    IsSpace {
        d: Slot,
        a: Slot,
        space: Space,
        cluster: bool,
    },
    /// `mapa`: address of a peer's shared memory; `generic` says which form of address.
    Mapa {
        d: Slot,
        a: Slot,
        rank: Slot,
        generic: bool,
    },
    /// `getctarank`
    CtaRank {
        d: Slot,
        a: Slot,
        generic: bool,
    },
    Warp {
        mask: Slot,
        op: WarpOp,
    },
    ActiveMask(Slot),
    Barrier(Box<Barrier>),
    ClusterArrive {
        relaxed: bool,
    },
    ClusterWait,
    Fence(Fence),
    CpAsync {
        dst: Addr,
        src: Addr,
        bytes: u32,
        src_bytes: Option<Slot>,
        ignore: Option<Slot>,
    },
    CpAsyncCommit,
    CpAsyncWait {
        keep: u32,
    },
    Mbar(Box<Mbar>),
    /// `mbarrier.pending_count`
    MbarPending {
        d: Slot,
        state: Slot,
    },
    Bulk(Box<Bulk>),
    TensormapReplace {
        map: Addr,
        field: MapField,
        value: Slot,
    },
    /// Copy of a tensor map with a fence: generic to tensormap proxy.
    TensormapCopy {
        dst: Addr,
        src: Addr,
        bytes: u32,
    },
    LdMatrix {
        addr: Addr,
        d: Vec<Slot>,
        trans: bool,
    },
    StMatrix {
        addr: Addr,
        s: Vec<Slot>,
        trans: bool,
    },
    MovMatrix {
        d: Slot,
        a: Slot,
    },
    Mma(Box<Mma>),
    Wgmma(Box<Wgmma>),
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait {
        keep: u32,
    },
    SetMaxNreg {
        inc: bool,
        count: u32,
    },
    GridDepLaunch,
    GridDepWait,
}

/// How lanes must come together before an instruction executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    No,
    /// All lanes that have not exited; an exited lane is tolerated.
    Live,
    /// All 32 lanes.
    All,
    /// The lanes of the mask operand.
    Mask,
}

/// One decoded instruction.
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) guard: Slot,
    pub(crate) together: Together,
    pub(crate) class: Class,
    /// Whether it reads or writes a register that some `wgmma` uses.
    pub(crate) touches_wgmma: bool,
    pub(crate) line: u32,
    pub(crate) loc: Option<(u32, u32)>,
}

/// A function of a program.
#[derive(Clone, Debug)]
pub(crate) struct FunctionEntry {
    pub(crate) entry: u32,
    /// Row of the return addresses (32-bit file).
    pub(crate) return_row: usize,
}

/// A kernel with everything it calls.
pub(crate) struct Program {
    pub(crate) insts: Vec<Inst>,
    /// First instruction of the kernel.
    pub(crate) entry: u32,
    pub(crate) functions: Vec<FunctionEntry>,
    pub(crate) rows32: usize,
    pub(crate) rows64: usize,
    pub(crate) rows_pred: usize,
    pub(crate) inits: Vec<(Slot, Init)>,
    /// Address of the first byte after static shared memory where dynamic shared memory starts.
    pub(crate) dynamic_shared: u64,
    /// Whether blocks can see each other through global memory.
    pub(crate) communicates: bool,
}
