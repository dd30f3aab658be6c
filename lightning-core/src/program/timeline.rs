//! What a program holds and moves, operation by operation.
//!
//! A buffer is alive from the first operation that touches it to the last. The sum of what is alive at an operation is
//! the least that any placement needs there; the arena is at least the largest such sum.

use super::{ARENA_ALIGNMENT, Access, Op, Program, Space};
use crate::tensor::BufferId;
use alloc::vec;
use alloc::vec::Vec;

/// The operation at which most bytes are alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    /// Index of the operation.
    pub node: usize,
    /// Bytes of the arena buffers that are alive there.
    pub bytes: usize,
}

/// Bytes that an operation reads and writes when every operand passes through memory once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Traffic {
    /// Read and written together.
    pub const fn total(&self) -> u64 {
        self.read + self.written
    }
}

impl Op {
    /// Bytes of the operands: an updated operand counts as read and as written.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        self.operands(&mut |_, tensor, access| {
            let bytes = tensor.bytes() as u64;
            if access != Access::Write {
                sum.read += bytes;
            }
            if access != Access::Read {
                sum.written += bytes;
            }
        });
        sum
    }
}

impl Program {
    /// Arena buffers that some operation touches, with their ids.
    fn arena_buffers(&self) -> impl Iterator<Item = (BufferId, &super::Buffer)> {
        let all = self.buffers.iter().enumerate();
        all.filter(|(_, b)| b.space == Space::Arena && b.lifetime.0 != usize::MAX).map(|(i, b)| (BufferId(i as u32), b))
    }

    /// Bytes of the arena buffers that are alive at every operation, each rounded up to the arena's alignment.
    pub fn live_bytes(&self) -> Vec<usize> {
        let n = self.nodes.len();
        let mut change = vec![0_i64; n + 2];
        for (_, b) in self.arena_buffers() {
            let bytes = b.bytes().next_multiple_of(ARENA_ALIGNMENT) as i64;
            change[b.lifetime.0] += bytes;
            change[(b.lifetime.1 + 1).min(n + 1)] -= bytes;
        }
        let mut live = 0;
        change[..n]
            .iter()
            .map(|c| {
                live += c;
                live as usize
            })
            .collect()
    }

    /// The fullest operation; the first one where several are equal.
    pub fn peak(&self) -> Peak {
        let mut peak = Peak { node: 0, bytes: 0 };
        for (node, bytes) in self.live_bytes().into_iter().enumerate() {
            if bytes > peak.bytes {
                peak = Peak { node, bytes };
            }
        }
        peak
    }

    /// The arena buffers that are alive at an operation, largest first.
    pub fn alive_at(&self, node: usize) -> Vec<BufferId> {
        let alive = |b: &super::Buffer| b.lifetime.0 <= node && node <= b.lifetime.1;
        let mut ids: Vec<BufferId> = self.arena_buffers().filter(|(_, b)| alive(b)).map(|(id, _)| id).collect();
        ids.sort_by_key(|id| (core::cmp::Reverse(self.buffer(*id).bytes()), *id));
        ids
    }

    /// Index of the first operation behind the losses: where the backward pass begins. The number of operations when
    /// there is none.
    pub fn backward_start(&self) -> usize {
        let loss = self.nodes.iter().position(|n| matches!(n.op, Op::LinearCrossEntropy(_)));
        loss.map_or(self.nodes.len(), |i| i + 1)
    }

    /// Name of the region of an operation.
    pub fn region_of(&self, node: usize) -> &str {
        &self.regions[self.nodes[node].region]
    }
}
