//! Classes of instructions.

/// Class of an instruction, for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Class {
    Integer,
    Float,
    Half,
    Double,
    Convert,
    Special,
    Move,
    Predicate,
    Control,
    LoadGlobal,
    StoreGlobal,
    LoadShared,
    StoreShared,
    LoadLocal,
    StoreLocal,
    LoadParam,
    MemoryGeneric,
    Atomic,
    Shuffle,
    Barrier,
    AsyncCopy,
    Mbarrier,
    TensorCopy,
    Matrix,
    MatrixMove,
    Fence,
    Other,
}

impl Class {
    pub(crate) const COUNT: usize = Class::Other as usize + 1;
    pub(crate) const NAMES: [&'static str; Class::COUNT] = [
        "integer",
        "float",
        "half",
        "double",
        "convert",
        "special_function",
        "move",
        "predicate",
        "control",
        "load_global",
        "store_global",
        "load_shared",
        "store_shared",
        "load_local",
        "store_local",
        "load_param",
        "memory_generic",
        "atomic",
        "shuffle",
        "barrier",
        "async_copy",
        "mbarrier",
        "tensor_copy",
        "matrix",
        "matrix_move",
        "fence",
        "other",
    ];
}
