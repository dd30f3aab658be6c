//! The set of operations and what every operation can tell about itself.

use crate::cpu::{Cpu, CpuKernel};
use crate::ops::*;
use crate::tensor::{DType, Tensor};

/// How an operation touches an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only read.
    Read,
    /// Wholly overwritten; its old value does not matter.
    Write,
    /// Read and written: accumulated into, or changed in place.
    Update,
}

impl Access {
    /// `Update` when a result is added to what is there, else `Write`.
    pub const fn output(accumulate: bool) -> Self {
        if accumulate { Self::Update } else { Self::Write }
    }
}

/// What planners and devices ask of an operation.
pub trait Operation {
    /// The stem of the operation's name in every layer (kernel, benchmark, document).
    const NAME: &'static str;
    /// Calls `visit` with the name, handle and access of every operand.
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access));
    /// Storage type of the activations; it selects the kernel.
    fn dtype(&self) -> DType;
    /// Multiply-adds count as two; only matrix products and scans are counted.
    fn flops(&self) -> u64 {
        0
    }
    /// Elements of the accumulator type that one worker of the CPU device needs as scratch.
    fn cpu_scratch(&self) -> usize {
        0
    }
    /// Bytes of workspace that the operation needs on the GPU device, beyond its operands.
    #[cfg(feature = "gpu")]
    fn gpu_scratch(&self) -> usize {
        0
    }
}

macro_rules! operations {
    ($($name:ident),+ $(,)?) => {
        /// One operation of a program.
        #[derive(Debug, Clone)]
        #[allow(missing_docs)]
        pub enum Op {
            $($name($name)),+
        }

        $(impl From<$name> for Op {
            fn from(op: $name) -> Self {
                Self::$name(op)
            }
        })+

        impl Op {
            /// The stem of the operation's name.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $name::NAME),+ }
            }
            /// See [`Operation::operands`].
            pub fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
                match self { $(Self::$name(op) => op.operands(visit)),+ }
            }
            /// See [`Operation::dtype`].
            pub fn dtype(&self) -> DType {
                match self { $(Self::$name(op) => op.dtype()),+ }
            }
            /// See [`Operation::flops`].
            pub fn flops(&self) -> u64 {
                match self { $(Self::$name(op) => op.flops()),+ }
            }
            /// See [`Operation::cpu_scratch`].
            pub fn cpu_scratch(&self) -> usize {
                match self { $(Self::$name(op) => op.cpu_scratch()),+ }
            }
            /// See [`Operation::gpu_scratch`].
            #[cfg(feature = "gpu")]
            pub fn gpu_scratch(&self) -> usize {
                match self { $(Self::$name(op) => op.gpu_scratch()),+ }
            }
            /// Adds the operation's launches on the GPU device.
            #[cfg(feature = "gpu")]
            pub(crate) fn lower_gpu(
                &self,
                gpu: &mut crate::gpu::Lowering<'_>,
            ) -> Result<(), crate::error::CoreError> {
                match self { $(Self::$name(op) => crate::gpu::GpuKernel::lower(op, gpu)),+ }
            }
            /// Executes the operation on the CPU device.
            pub(crate) fn run_cpu(&self, cpu: &Cpu<'_>) {
                match self { $(Self::$name(op) => match op.dtype() {
                    DType::F64 => op.run::<f64>(cpu),
                    DType::BF16 => op.run::<half::bf16>(cpu),
                    DType::F32 | DType::I32 => op.run::<f32>(cpu),
                }),+ }
            }
        }
    };
}

operations! {
    Segments, Roll, EmbeddingFwd, EmbeddingBwd, RmsNormFwd, RmsNormBwd, LinearFwd, LinearBwd, ConvSiluFwd, ConvSiluBwd,
    SoftplusDtFwd, SoftplusDtBwd, SsdScanFwd, SsdScanBwd, GatedRmsNormFwd, GatedRmsNormBwd, AttentionFwd, AttentionBwd,
    RouterFwd, RouterBwd, DispatchPlan, ExpertsFwd, ExpertsBwd, CombineFwd, CombineBwd, Relu2Fwd, Relu2Bwd,
    LinearCrossEntropy, StepControl, AdamW, ExpertBiasUpdate, Fill,
}
