//! Places arena buffers: two buffers share bytes only when their lifetimes do not meet.

use super::Buffer;
use alloc::vec::Vec;

/// Alignment of every buffer, in bytes: what asynchronous copies and vector loads of all devices ask for.
pub const ARENA_ALIGNMENT: usize = 256;

/// Assigns offsets, largest buffer first, each at the lowest offset that no buffer alive at the same time covers.
/// Returns the size of the arena. The result depends on nothing but the sizes, the lifetimes and their order.
pub fn place(buffers: &mut [Buffer]) -> usize {
    let mut order: Vec<usize> = (0..buffers.len()).filter(|&i| buffers[i].lifetime.0 != usize::MAX).collect();
    order.sort_by_key(|&i| (core::cmp::Reverse(buffers[i].bytes()), i));
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    let mut taken: Vec<(usize, usize)> = Vec::new();
    let mut end = 0;
    for i in order {
        let (first, last) = buffers[i].lifetime;
        taken.clear();
        for &j in &placed {
            let (f, l) = buffers[j].lifetime;
            if first <= l && f <= last {
                taken.push((buffers[j].offset, buffers[j].offset + buffers[j].bytes()));
            }
        }
        taken.sort_unstable();
        let bytes = buffers[i].bytes();
        let mut offset = 0;
        for &(start, stop) in &taken {
            if offset + bytes <= start {
                break;
            }
            offset = offset.max(stop.next_multiple_of(ARENA_ALIGNMENT));
        }
        buffers[i].offset = offset;
        end = end.max(offset + bytes);
        placed.push(i);
    }
    end.next_multiple_of(ARENA_ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Space;
    use crate::rng::Philox;
    use crate::tensor::DType;
    use alloc::string::String;

    #[test]
    fn no_two_live_buffers_share_a_byte_and_disjoint_lifetimes_share() {
        for seed in 0..50 {
            let mut rng = Philox::new(seed, 7);
            let mut buffers: Vec<Buffer> = (0..60)
                .map(|_| {
                    let first = rng.below(40) as usize;
                    Buffer {
                        name: String::new(),
                        space: Space::Arena,
                        dtype: DType::F32,
                        len: rng.below(3000) as usize,
                        offset: 0,
                        lifetime: (first, first + rng.below(10) as usize),
                    }
                })
                .collect();
            let end = place(&mut buffers);
            let total: usize = buffers.iter().map(Buffer::bytes).sum();
            assert!(end < total, "nothing was shared");
            for (i, a) in buffers.iter().enumerate() {
                assert!(a.offset % ARENA_ALIGNMENT == 0 && a.offset + a.bytes() <= end);
                for b in &buffers[i + 1..] {
                    let alive = a.lifetime.0 <= b.lifetime.1 && b.lifetime.0 <= a.lifetime.1;
                    let meet = a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
                    assert!(!(alive && meet && a.len > 0 && b.len > 0), "seed {seed}: {a:?} and {b:?}");
                }
            }
        }
    }
}
