//! Launches of fills, sums of blocks, document bounds, rolls and the token embedding; each gives the words that it leaves.

use kernels_sys::{EmbeddingBwdParams, EmbeddingFwdParams, FillParams, RollParams, SegmentsParams, SumBlocksParams};

use super::routing::beside;
use super::{Bf16, Element, Random, Rows, Trouble, VirtualGpu};

/// The bits of elements, for comparison and hashing.
pub fn bits<T: Element>(elements: &[T]) -> Vec<u8> {
    elements.iter().flat_map(|e| e.to_bytes()).collect()
}

/// A fill of rows whose elements have `size` bytes.
pub fn fill(gpu: &VirtualGpu, (rows, cols, pad): (usize, usize, usize), size: usize) -> Result<Vec<u8>, Trouble> {
    // Counted in bf16, whatever the elements are.
    let halves = size / 2;
    let dst = Rows::poisoned::<Bf16>(gpu, rows, cols * halves, pad * halves);
    let params = FillParams {
        dst: dst.address,
        value: 0x0102_0304_0506_0708,
        stride: (cols + pad) as i64,
        rows: rows as i64,
        cols: cols as i64,
        size: size as i32,
        reserved: 0,
    };
    gpu.launch("fill", 3, &params)?;
    Ok(bits(&dst.get::<Bf16>("dst")?))
}

/// A sum of `blocks` rows of `n` columns, with elements between rows.
pub fn sum_blocks<G: Element>(
    gpu: &VirtualGpu,
    random: &mut Random,
    (blocks, n, pad): (usize, usize, usize),
    accumulate: bool,
) -> Result<Vec<u8>, Trouble> {
    let partial = Rows::random::<f32>(gpu, random, (blocks, n, pad), 1.0);
    let dst = Rows::random::<G>(gpu, random, (1, n, 0), 1.0);
    let params = SumBlocksParams {
        partial: partial.address,
        dst: dst.address,
        partial_stride: partial.stride,
        blocks: blocks as i64,
        n: n as i64,
        accumulate: i32::from(accumulate),
        reserved: 0,
    };
    gpu.launch(&format!("sum_blocks_{}", G::SUFFIX), n.div_ceil(32) as u64, &params)?;
    Ok(bits(&dst.get::<G>("dst")?))
}

/// Bounds of the documents that `cuts` make of `t` tokens in rows of `row_len`.
pub fn segments(gpu: &VirtualGpu, t: usize, row_len: usize, cuts: &[i32]) -> Result<Vec<u8>, Trouble> {
    let cu_seqlens = gpu.upload(cuts);
    let (start, end) = (Rows::poisoned::<i32>(gpu, 1, t, 0), Rows::poisoned::<i32>(gpu, 1, t, 0));
    let params = SegmentsParams {
        cu_seqlens: cu_seqlens.address,
        start: start.address,
        end: end.address,
        m: cuts.len() as i64,
        row_len: row_len as i64,
        t: t as i64,
    };
    gpu.launch("segments", t.div_ceil(256) as u64, &params)?;
    Ok([bits(&start.get::<i32>("start")?), bits(&end.get::<i32>("end")?)].concat())
}

/// A roll of `t` values in documents of `length`.
pub fn roll(gpu: &VirtualGpu, t: usize, length: usize) -> Result<Vec<u8>, Trouble> {
    let values: Vec<i32> = (0..t as i32).map(|i| i + 100).collect();
    let ends: Vec<i32> = (0..t).map(|i| ((i / length + 1) * length).min(t) as i32).collect();
    let (src, end, dst) = (gpu.upload(&values), gpu.upload(&ends), Rows::poisoned::<i32>(gpu, 1, t, 0));
    let params = RollParams { src: src.address, end: end.address, dst: dst.address, t: t as i64 };
    gpu.launch("roll", t.div_ceil(256) as u64, &params)?;
    Ok(bits(&dst.get::<i32>("dst")?))
}

/// Tokens, vocabulary, width, and elements between the rows of the table and of the activations.
#[derive(Debug, Clone, Copy)]
pub struct Lookup {
    pub t: usize,
    pub v: usize,
    pub h: usize,
    pub pads: [usize; 2],
    /// The table (0) or the activations (1) start one element beside where their first allows 16-byte accesses.
    pub odd: Option<usize>,
}

impl Lookup {
    fn size(&self, i: usize) -> (usize, usize, usize) {
        beside(([self.v, self.t][i], self.h, self.pads[i]), self.odd == Some(i))
    }

    fn at<T>(&self, i: usize, rows: &Rows<'_>) -> u64 {
        rows.address + if self.odd == Some(i) { size_of::<T>() as u64 } else { 0 }
    }

    /// Ids of which some are outside of the table.
    fn ids(&self, random: &mut Random) -> Vec<i32> {
        let mut ids = random.integers(self.t, self.v);
        for (i, id) in ids.iter_mut().enumerate() {
            match i % 9 {
                4 => *id = -1,
                7 => *id = self.v as i32,
                _ => {}
            }
        }
        ids
    }

    /// The looked-up rows.
    pub fn forward(&self, gpu: &VirtualGpu, random: &mut Random) -> Result<Vec<u8>, Trouble> {
        let ids = gpu.upload(&self.ids(random));
        let table = Rows::random::<Bf16>(gpu, random, self.size(0), 1.0);
        let (rows, cols, pad) = self.size(1);
        let y = Rows::poisoned::<Bf16>(gpu, rows, cols, pad);
        let params = EmbeddingFwdParams {
            ids: ids.address,
            table: self.at::<Bf16>(0, &table),
            y: self.at::<Bf16>(1, &y),
            table_stride: table.stride,
            y_stride: y.stride,
            t: self.t as i64,
            h: self.h as i32,
            v: self.v as i32,
        };
        gpu.launch("embedding_fwd_bf16", 3, &params)?;
        Ok(bits(&y.get::<Bf16>("y")?))
    }

    /// The gradient of the table, in whose type the kernel differs.
    pub fn backward<G: Element>(
        &self,
        gpu: &VirtualGpu,
        random: &mut Random,
        accumulate: bool,
    ) -> Result<Vec<u8>, Trouble> {
        let ids = self.ids(random);
        let mut order: Vec<i32> = (0..self.t as i32).collect();
        let key = |i: &i32| usize::try_from(ids[*i as usize]).map_or(self.v, |id| id.min(self.v));
        order.sort_by_key(key);
        let (ids, order) = (gpu.upload(&ids), gpu.upload(&order));
        let dtable = Rows::random::<G>(gpu, random, self.size(0), 1.0);
        let dy = Rows::random::<Bf16>(gpu, random, self.size(1), 1.0);
        let params = EmbeddingBwdParams {
            ids: ids.address,
            order: order.address,
            dy: self.at::<Bf16>(1, &dy),
            dtable: self.at::<G>(0, &dtable),
            dy_stride: dy.stride,
            dtable_stride: dtable.stride,
            t: self.t as i64,
            h: self.h as i32,
            v: self.v as i32,
            accumulate: i32::from(accumulate),
            reserved: 0,
        };
        gpu.launch(&format!("embedding_bwd_{}", G::SUFFIX), self.t as u64, &params)?;
        Ok(bits(&dtable.get::<G>("dtable")?))
    }
}
