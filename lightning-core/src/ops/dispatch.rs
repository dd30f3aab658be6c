//! Permutation metadata: which (token, choice) pairs go to which expert.
//!
//!   offsets_e = sum_{e' < e} n_e',  n_e = number of pairs with idx = e
//!   pairs sorted by expert, stable by pair index:  pair_of_slot is the sorted list, slot_of_pair its inverse
//!
//! | buffer       | shape   | dtype | written     |
//! |--------------|---------|-------|-------------|
//! | idx          | [t, k]  | i32   | read        |
//! | offsets      | [e + 1] | i32   | overwritten |
//! | pair_of_slot | [t k]   | i32   | overwritten |
//! | slot_of_pair | [t, k]  | i32   | overwritten |
//!
//! Kernels: csrc/sort/counting_sort.cu

use crate::cpu::{Cpu, CpuKernel};
use crate::element::Element;
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

/// Sorts pairs by expert.
#[derive(Debug, Clone)]
pub struct DispatchPlan {
    /// Selected experts.
    pub idx: Tensor,
    /// First slot of every expert, then the number of pairs.
    pub offsets: Tensor,
    /// Pair in each slot.
    pub pair_of_slot: Tensor,
    /// Slot of each pair.
    pub slot_of_pair: Tensor,
}

impl Operation for DispatchPlan {
    const NAME: &'static str = "dispatch_plan";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("idx", self.idx, Access::Read);
        visit("offsets", self.offsets, Access::Write);
        visit("pair_of_slot", self.pair_of_slot, Access::Write);
        visit("slot_of_pair", self.slot_of_pair, Access::Write);
    }
    fn dtype(&self) -> DType {
        DType::I32
    }
    #[cfg(feature = "gpu")]
    fn gpu_scratch(&self) -> usize {
        crate::gpu::dispatch_plan_scratch(self)
    }
}

impl CpuKernel for DispatchPlan {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let idx = cpu.read_i32(self.idx).as_slice();
        let (mut offsets, mut pairs) = (cpu.write_i32(self.offsets), cpu.write_i32(self.pair_of_slot));
        let mut slots = cpu.write_i32(self.slot_of_pair);
        let (offsets, pairs, slots) = (offsets.as_mut_slice(), pairs.as_mut_slice(), slots.as_mut_slice());
        let experts = offsets.len() - 1;
        // Counting sort: counts one place to the right, then running starts, which end as the starts of the next expert.
        offsets.fill(0);
        for &e in idx {
            offsets[e as usize + 1] += 1;
        }
        for e in 0..experts {
            offsets[e + 1] += offsets[e];
        }
        for (pair, &e) in idx.iter().enumerate() {
            let slot = &mut offsets[e as usize];
            slots[pair] = *slot;
            pairs[*slot as usize] = pair as i32;
            *slot += 1;
        }
        for e in (0..experts).rev() {
            offsets[e + 1] = offsets[e];
        }
        offsets[0] = 0;
    }
}
