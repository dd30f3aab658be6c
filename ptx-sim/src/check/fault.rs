//! What a check reports: where, what, and how grave.

use std::fmt;

/// Class of a fault. The driver maps it to a `CUresult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// The launch asks for more than the device or the kernel allows (grid, block, shared memory, cluster, registers).
    InvalidLaunch,
    /// Size or layout of the parameter block differs from the kernel's.
    InvalidParameters,
    /// Access outside every allocation, into a red zone, or outside the block's shared, local or parameter memory.
    OutOfBounds,
    /// Access to freed memory.
    UseAfterFree,
    /// Address not a multiple of the access size.
    Misaligned,
    /// Read of memory that nobody wrote.
    Uninitialised,
    /// Two accesses to shared memory, at least one a write, that nothing orders.
    SharedRace,
    /// An asynchronous-proxy access to data of the generic proxy without a proxy fence in between.
    MissingProxyFence,
    /// Two accesses to global memory by different blocks (or warps), at least one a write, that nothing orders.
    GlobalRace,
    /// Misuse of a named barrier.
    BarrierMisuse,
    /// Misuse of an mbarrier.
    MbarrierMisuse,
    /// No warp can make progress.
    Deadlock,
    /// Lanes of a warp diverge where the instruction forbids it.
    Divergence,
    /// Registers of a `wgmma` touched while it is in flight, or a missing `wgmma.fence`.
    WgmmaMisuse,
    /// Matrix descriptor that the hardware does not accept.
    IllegalDescriptor,
    /// Tensor map that is not one, or an operation that does not fit it.
    IllegalTensorMap,
    /// An instruction was given operand values outside its definition.
    IllegalInstruction,
    /// More registers, shared memory or threads than there are.
    OverSubscription,
    /// The kernel executed `trap` or a failed device assertion.
    Trap,
    /// A bulk asynchronous operation was still in flight, or a cluster peer's memory was used, after a block left.
    EarlyExit,
}

impl FaultKind {
    /// Short name, as it stands at the head of a report.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::InvalidLaunch => "invalid launch",
            FaultKind::InvalidParameters => "invalid parameters",
            FaultKind::OutOfBounds => "out of bounds",
            FaultKind::UseAfterFree => "use after free",
            FaultKind::Misaligned => "misaligned access",
            FaultKind::Uninitialised => "uninitialised read",
            FaultKind::SharedRace => "shared-memory race",
            FaultKind::MissingProxyFence => "missing proxy fence",
            FaultKind::GlobalRace => "global-memory race",
            FaultKind::BarrierMisuse => "barrier misuse",
            FaultKind::MbarrierMisuse => "mbarrier misuse",
            FaultKind::Deadlock => "deadlock",
            FaultKind::Divergence => "divergence",
            FaultKind::WgmmaMisuse => "wgmma misuse",
            FaultKind::IllegalDescriptor => "illegal matrix descriptor",
            FaultKind::IllegalTensorMap => "illegal tensor map",
            FaultKind::IllegalInstruction => "illegal instruction",
            FaultKind::OverSubscription => "over-subscription",
            FaultKind::Trap => "trap",
            FaultKind::EarlyExit => "early exit",
        }
    }
}

/// Where in the program a fault was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Kernel name.
    pub kernel: String,
    /// Line of the PTX text, from 1; 0 when the fault is not at an instruction.
    pub ptx_line: u32,
    /// Text of the instruction.
    pub instruction: String,
    /// CUDA source file and line from `.loc`, when the PTX has them.
    pub source: Option<(String, u32)>,
    /// Block index.
    pub cta: [u32; 3],
    /// Warp within the block; `None` when the fault is not of one warp.
    pub warp: Option<u32>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Class of the finding.
    pub kind: FaultKind,
    /// Where it was found.
    pub place: Place,
    /// What happened, with addresses and values.
    pub message: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &self.place;
        write!(f, "{}: {} [kernel {}", self.kind.name(), self.message, p.kernel)?;
        if p.ptx_line > 0 {
            write!(f, ", PTX line {}", p.ptx_line)?;
        }
        if let Some((file, line)) = &p.source {
            write!(f, ", {file}:{line}")?;
        }
        write!(f, ", block ({}, {}, {})", p.cta[0], p.cta[1], p.cta[2])?;
        if let Some(w) = p.warp {
            write!(f, ", warp {w}")?;
        }
        if !p.instruction.is_empty() {
            write!(f, ", `{}`", p.instruction)?;
        }
        write!(f, "]")
    }
}

/// Why a launch failed: one or more findings, the gravest first. The context is lost, as on a real device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The findings; never empty. At most [`Fault::MAX_REPORTS`].
    pub reports: Vec<Report>,
}

impl Fault {
    /// Number of findings kept for one launch.
    pub const MAX_REPORTS: usize = 64;

    /// A fault of one finding that is not tied to an instruction.
    pub fn launch(kind: FaultKind, kernel: &str, message: String) -> Fault {
        let place = Place { kernel: kernel.to_string(), ..Place::default() };
        Fault { reports: vec![Report { kind, place, message }] }
    }

    /// Class of the first finding.
    pub fn kind(&self) -> FaultKind {
        self.reports.first().map_or(FaultKind::IllegalInstruction, |r| r.kind)
    }

    /// Whether any finding is of this class.
    pub fn has(&self, kind: FaultKind) -> bool {
        self.reports.iter().any(|r| r.kind == kind)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in self.reports.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{r}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
