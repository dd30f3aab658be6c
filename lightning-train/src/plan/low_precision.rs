//! What 8- and 4-bit classes keep and cast: recipes.md §3.1 to §3.3.
//!
//! A matrix product in such a class reads a cast copy of its input along the rows in the forward pass, and one along the
//! columns for the weight gradient. The second one is what stays for the backward pass, in place of the bf16 values unless
//! something else needs those too (the router, the attention core). Gradients are cast both ways and kept nowhere.
//!
//! | class    | bytes of a value in a cast copy                      |
//! |----------|------------------------------------------------------|
//! | `fp8_cs` | 1, and a scale per tensor                            |
//! | `fp8_mx` | 1 + 1/32: blocks of 32 with a scale of one byte      |
//! | `nvfp4`  | 1/2 + 1/16: blocks of 16 with a scale of one byte    |

use crate::config::choices::Precision as Class;
use crate::config::run::RunConfig;
use lightning_core::program::{Access, Buffer, Op, Program, Space};
use lightning_core::tensor::Tensor;

/// Bytes of a value in a cast copy; `None` for classes that cast nothing.
pub fn bytes_per_value(class: Class) -> Option<f64> {
    match class {
        Class::Fp8Cs => Some(1.0),
        Class::Fp8Mx => Some(1.0 + 1.0 / 32.0),
        Class::Nvfp4 => Some(0.5 + 1.0 / 16.0),
        _ => None,
    }
}

/// Whether the MTP block stays in bf16: always with NVFP4, else by its setting (recipes.md §3.3).
pub fn mtp_stays(config: &RunConfig) -> bool {
    config.mixed_precision.precision == Class::Nvfp4 || config.model.keep_mtp_spec_in_bf16
}

/// What casting adds to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Casts {
    /// Bytes of the largest copies that are in flight at once.
    pub in_flight: f64,
    /// Bytes read and written by casts in a micro-batch.
    pub moved: f64,
}

/// The precision class in which a program's products run.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    bytes: Option<f64>,
    mtp_stays: bool,
    attention: bool,
}

impl Rules {
    /// Of a configuration.
    pub fn of(config: &RunConfig) -> Self {
        let section = &config.mixed_precision;
        Self {
            bytes: bytes_per_value(section.precision),
            mtp_stays: mtp_stays(config),
            attention: section.fp8_dot_product_attention,
        }
    }

    /// Whether the products of an operation in `region` are in the low class. The loss heads, the router and the join of
    /// the MTP block never are.
    pub fn apply(&self, region: &str, op: &Op) -> bool {
        let product = matches!(op, Op::LinearFwd(_) | Op::LinearBwd(_) | Op::ExpertsFwd(_) | Op::ExpertsBwd(_));
        // Layers have a number behind a dot: `mtp1.0/forward` is a layer, `mtp1/forward` the join.
        let join = region.starts_with("mtp") && !region.split('/').next().is_some_and(|stack| stack.contains('.'));
        self.bytes.is_some() && product && !join && !(self.mtp_stays && region.starts_with("mtp"))
    }

    /// Resizes what the program keeps, and counts the casts.
    pub fn cast(&self, program: &mut Program) -> Casts {
        let Some(bytes) = self.bytes else { return Casts::default() };
        let start = program.backward_start();
        let mut casts = Casts::default();
        let mut cast = vec![false; program.buffers.len()];
        let mut exact = vec![false; program.buffers.len()];
        for (index, node) in program.nodes.iter().enumerate() {
            let low = self.apply(&program.regions[node.region], &node.op);
            let attention = self.attention && matches!(node.op, Op::AttentionBwd(_));
            let mut in_flight = 0.0;
            node.op.operands(&mut |name, tensor: Tensor, access| {
                let id = tensor.buffer.0 as usize;
                let values = tensor.len() as f64;
                let input = low && matches!(name, "x" | "xs" | "dy" | "dys");
                // Forward: the input along rows and columns. Backward: the gradient, both ways.
                if input && (index < start) == matches!(name, "x" | "xs") {
                    casts.moved += values * (program.buffers[id].dtype.size() as f64 + 2.0 * bytes);
                    in_flight += values * 2.0 * bytes;
                }
                if index >= start && access == Access::Read {
                    let by_cast = low && matches!(name, "x" | "xs") || attention && matches!(name, "q" | "k" | "v");
                    if by_cast { cast[id] = true } else { exact[id] = true }
                }
            });
            casts.in_flight = casts.in_flight.max(in_flight);
        }
        let mut copies = Vec::new();
        for (buffer, (cast, exact)) in program.buffers.iter_mut().zip(cast.into_iter().zip(exact)) {
            let kept = buffer.lifetime.0 < start && buffer.lifetime.1 >= start && buffer.lifetime.0 != usize::MAX;
            if buffer.space != Space::Arena || !kept || !cast {
                continue;
            }
            let low = (buffer.len as f64 * bytes / buffer.dtype.size() as f64).ceil() as usize;
            if exact {
                copies.push(Buffer { name: format!("{} (cast)", buffer.name), len: low, ..buffer.clone() });
            } else {
                // The values themselves live until they are cast.
                casts.in_flight = casts.in_flight.max(buffer.bytes() as f64);
                buffer.len = low;
            }
        }
        program.buffers.extend(copies);
        casts
    }
}
