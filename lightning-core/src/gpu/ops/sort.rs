//! Stable counting sort: csrc/sort/counting_sort.cu.

use crate::error::CoreError;
use crate::gpu::Lowering;
use alloc::format;
use kernels_sys::SortPassParams;

/// Digits that a pass can tell apart (`kMaxDigits` of the kernels).
const MAX_DIGITS: usize = 1024;
/// Bits of a digit where keys need several passes.
const DIGIT_BITS: u32 = 9;

/// How n items are cut for a pass with so many digits.
#[derive(Debug, Clone, Copy)]
struct Tiles {
    tile: usize,
    tiles: usize,
}

impl Tiles {
    /// At most 1024 tiles, so that one block can scan the counts; a function of the number of items alone.
    fn of(n: usize) -> Self {
        let tile = n.div_ceil(1024).next_multiple_of(32).max(256);
        Self { tile, tiles: n.div_ceil(tile).max(1) }
    }
}

/// Bytes of workspace of [`pass`].
pub(super) fn pass_scratch(n: usize, digits: usize) -> usize {
    4 * Tiles::of(n).tiles * digits
}

/// Addresses of the buffers of a pass, see `SortPassParams`; 0 where absent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Buffers {
    pub key: u64,
    pub from: u64,
    pub out: u64,
    pub inverse: u64,
    pub start: u64,
    pub count: u64,
}

/// Which digit of the keys a pass sorts by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digit {
    pub digits: usize,
    pub limit: usize,
    pub shift: u32,
    pub mask: usize,
}

/// Adds the launches of one pass.
///
/// # Errors
/// `Shape` with more digits than a pass can tell apart, else as [`Lowering::launch`].
pub(super) fn pass(gpu: &mut Lowering<'_>, n: usize, digit: Digit, buffers: Buffers) -> Result<(), CoreError> {
    if digit.digits > MAX_DIGITS || n > i32::MAX as usize {
        return Err(CoreError::Shape {
            what: "counting sort".into(),
            expected: format!("at most {MAX_DIGITS} digits and {} items", i32::MAX),
            found: format!("{} digits and {n} items; use --device cpu or a smaller micro-batch", digit.digits),
        });
    }
    let Tiles { tile, tiles } = Tiles::of(n);
    let params = SortPassParams {
        key: buffers.key,
        from: buffers.from,
        out: buffers.out,
        inverse: buffers.inverse,
        start: buffers.start,
        count: buffers.count,
        n: n as i64,
        tile: tile as i32,
        tiles: tiles as i32,
        digits: digit.digits as i32,
        limit: digit.limit as i32,
        shift: digit.shift as i32,
        mask: digit.mask as i32,
    };
    gpu.launch("sort_count", tiles, params)?;
    gpu.launch("sort_scan", 1, params)?;
    gpu.launch("sort_scatter", tiles, params)
}

/// Passes that sort by keys of 0 ..= `limit`: (number, bits of each).
fn passes(limit: usize) -> (u32, u32) {
    let bits = (usize::BITS - limit.leading_zeros()).max(1);
    let passes = bits.div_ceil(DIGIT_BITS);
    (passes, bits.div_ceil(passes))
}

/// Bytes of workspace of [`by_key`].
pub(super) fn by_key_scratch(n: usize, limit: usize) -> usize {
    2 * 4 * n + pass_scratch(n, 1 << passes(limit).1)
}

/// Adds the launches that sort 0 .. n by `key`, stable; keys outside 0 .. `limit` come last. `scratch` is the address of
/// [`by_key_scratch`] bytes, and the result is the address of the sorted items in it.
///
/// # Errors
/// As [`pass`].
pub(super) fn by_key(gpu: &mut Lowering<'_>, n: usize, limit: usize, key: u64, scratch: u64) -> Result<u64, CoreError> {
    let (passes, bits) = passes(limit);
    let orders = [scratch, scratch + 4 * n as u64];
    let count = scratch + 2 * 4 * n as u64;
    let mut from = 0;
    for i in 0..passes {
        let digit = Digit { digits: 1 << bits, limit, shift: i * bits, mask: (1 << bits) - 1 };
        let out = orders[i as usize % 2];
        pass(gpu, n, digit, Buffers { key, from, out, count, ..Buffers::default() })?;
        from = out;
    }
    Ok(from)
}
