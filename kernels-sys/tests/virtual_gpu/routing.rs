//! Launches of the router, the dispatch plan, combination and squared ReLU; each gives the words that it leaves.

use kernels_sys::{
    CombineParams, Relu2BwdParams, Relu2FwdParams, RouteParams, RouterBwdParams, RouterNoiseParams,
    RouterProductParams, RouterStatsParams, SortPassParams,
};

use super::embed::bits;
use super::{Bf16, Random, Rows, Trouble, VirtualGpu};

/// Squared ReLU forward, or backward when `backward`, of `t` rows of `f` columns. Operand `odd` starts one element beside
/// where its first allows 16-byte accesses.
pub fn relu2(
    gpu: &VirtualGpu,
    random: &mut Random,
    (t, f): (usize, usize),
    pads: [usize; 3],
    odd: Option<usize>,
    backward: bool,
) -> Result<Vec<u8>, Trouble> {
    let size = |i: usize| beside((t, f, pads[i]), odd == Some(i));
    let x = Rows::random::<Bf16>(gpu, random, size(0), 1.0);
    let dy = Rows::random::<Bf16>(gpu, random, size(1), 1.0);
    let (rows, cols, pad) = size(2);
    let out = Rows::poisoned::<Bf16>(gpu, rows, cols, pad);
    let at = |i: usize, rows: &Rows<'_>| rows.address + if odd == Some(i) { 2 } else { 0 };
    let (x_at, dy_at, out_at) = (at(0, &x), at(1, &dy), at(2, &out));
    let (x_stride, dy_stride, dx_stride) = (x.stride, dy.stride, out.stride);
    let (t, f) = (t as i64, f as i64);
    if backward {
        let (x, dy, dx) = (x_at, dy_at, out_at);
        gpu.launch("relu2_bwd_bf16", 3, &Relu2BwdParams { x, dy, dx, x_stride, dy_stride, dx_stride, t, f })?;
    } else {
        let (x, y) = (x_at, out_at);
        gpu.launch("relu2_fwd_bf16", 3, &Relu2FwdParams { x, y, x_stride, y_stride: dx_stride, t, f })?;
    }
    Ok(bits(&out.get::<Bf16>("out")?))
}

/// Rows, columns and padding of a matrix with one more column in front and the same distance between rows modulo 8.
pub fn beside((rows, cols, pad): (usize, usize, usize), odd: bool) -> (usize, usize, usize) {
    if odd { (rows, cols + 1, pad + 7) } else { (rows, cols, pad) }
}

/// Sums of `k` rows per token, with or without what is added before and after. Rows of these, of the result and of what
/// is summed have `pads` elements between them; operand `odd` of them starts one element beside where its first allows
/// 16-byte accesses.
pub fn combine(
    gpu: &VirtualGpu,
    random: &mut Random,
    (t, k, h): (usize, usize, usize),
    pads: [usize; 4],
    odd: Option<usize>,
    (before, after): (bool, bool),
) -> Result<Vec<u8>, Trouble> {
    let size = |i: usize, rows: usize| beside((rows, h, pads[i]), odd == Some(i));
    let at = |i: usize, rows: &Rows<'_>| rows.address + if odd == Some(i) { 2 } else { 0 };
    let first = Rows::random::<Bf16>(gpu, random, size(0, t), 1.0);
    let last = Rows::random::<Bf16>(gpu, random, size(1, t), 1.0);
    let (rows, cols, between) = size(2, t);
    let out = Rows::output::<Bf16>(gpu, rows, cols, between, &random.elements(rows * cols, 0.0, 1.0));
    let y = Rows::random::<Bf16>(gpu, random, size(3, t * k), 1.0);
    let slots: Vec<i32> = (0..(t * k) as i32).rev().collect();
    let slot = gpu.upload(&slots);
    let params = CombineParams {
        y: at(3, &y),
        slot: slot.address,
        before: if before { at(0, &first) } else { 0 },
        after: if after { at(1, &last) } else { 0 },
        out: at(2, &out),
        y_stride: y.stride,
        slot_stride: k as i64,
        before_stride: first.stride,
        after_stride: last.stride,
        out_stride: out.stride,
        t: t as i64,
        k: k as i32,
        h: h as i32,
    };
    gpu.launch("combine_bf16", 3, &params)?;
    Ok(bits(&out.get::<Bf16>("out")?))
}

/// A pass of the counting sort over keys of which some are outside of `limit`; digits as the dispatch plan has them, or
/// `bits_of_digit` from `shift` on, of items that have an order already. A block takes `tile` items.
pub fn sort(
    gpu: &VirtualGpu,
    random: &mut Random,
    (n, limit): (usize, usize),
    digit: Option<(i32, i32)>,
    tile: usize,
) -> Result<Vec<u8>, Trouble> {
    let mut keys = random.integers(n, limit);
    keys.iter_mut().step_by(13).for_each(|key| *key = -1);
    keys.iter_mut().skip(5).step_by(17).for_each(|key| *key = limit as i32);
    let order: Vec<i32> = (0..n as i32).rev().collect();
    let (digits, tiles) = (digit.map_or(limit + 1, |(_, wide)| 1 << wide), n.div_ceil(tile).max(1));
    let (key, from) = (gpu.upload(&keys), gpu.upload(&order));
    let [out, inverse] = [n, n].map(|n| Rows::poisoned::<i32>(gpu, 1, n, 0));
    let start = Rows::poisoned::<i32>(gpu, 1, digits, 0);
    let count = Rows::input::<i32>(gpu, digits, tiles, 0, &vec![-1; digits * tiles]);
    let params = SortPassParams {
        key: key.address,
        from: if digit.is_some() { from.address } else { 0 },
        out: out.address,
        inverse: if digit.is_some() { 0 } else { inverse.address },
        start: if digit.is_some() { 0 } else { start.address },
        count: count.address,
        n: n as i64,
        tile: tile as i32,
        tiles: tiles as i32,
        digits: digits as i32,
        limit: limit as i32,
        shift: digit.map_or(0, |(shift, _)| shift),
        mask: digit.map_or(i32::MAX, |(_, wide)| (1 << wide) - 1),
    };
    for (kernel, grid) in [("sort_count", tiles), ("sort_scan", 1), ("sort_scatter", tiles)] {
        gpu.launch(kernel, grid as u64, &params)?;
    }
    count.get::<i32>("count")?;
    let mut left = bits(&out.get::<i32>("out")?);
    left.extend(bits(&inverse.get::<i32>("inverse")?));
    left.extend(bits(&start.get::<i32>("start")?));
    Ok(left)
}

/// A product of the router: `kernel` says which operands are transposed and what the elements are.
pub fn product(
    gpu: &VirtualGpu,
    random: &mut Random,
    kernel: &str,
    (m, n, k): (usize, usize, usize),
    accumulate: bool,
) -> Result<Vec<u8>, Trouble> {
    let (a_transposed, b_transposed) = (kernel.starts_with("router_dw"), !kernel.starts_with("router_logits"));
    let sizes = |transposed: bool, i: usize| if transposed { (k, i, 3) } else { (i, k, 3) };
    let a = if kernel.starts_with("router_logits") {
        Rows::random::<Bf16>(gpu, random, sizes(a_transposed, m), 1.0)
    } else {
        Rows::random::<f32>(gpu, random, sizes(a_transposed, m), 1.0)
    };
    let b = Rows::random::<Bf16>(gpu, random, sizes(b_transposed, n), 1.0);
    let wide = kernel.starts_with("router_logits") || kernel.ends_with("f32");
    let c = if wide {
        Rows::output::<f32>(gpu, m, n, 1, &random.elements(m * n, 0.0, 1.0))
    } else {
        Rows::output::<Bf16>(gpu, m, n, 1, &random.elements(m * n, 0.0, 1.0))
    };
    let params = RouterProductParams {
        a: a.address,
        b: b.address,
        c: c.address,
        a_stride: a.stride,
        b_stride: b.stride,
        c_stride: c.stride,
        m: m as i64,
        n: n as i64,
        k: k as i64,
        accumulate: i32::from(accumulate),
        reserved: 0,
    };
    gpu.launch_grid(kernel, [m.div_ceil(32), n.div_ceil(32), 1], &params)?;
    Ok(if wide { bits(&c.get::<f32>("c")?) } else { bits(&c.get::<Bf16>("c")?) })
}

/// Noise logits of `t` tokens.
pub fn noise(gpu: &VirtualGpu, (t, e): (usize, usize)) -> Result<Vec<u8>, Trouble> {
    let (counter, logits) = (gpu.upload(&[-3, 9]), Rows::poisoned::<f32>(gpu, t, e, 2));
    let params = RouterNoiseParams {
        counter: counter.address,
        logits: logits.address,
        stream: 7 << 33 | 5,
        logits_stride: logits.stride,
        t: t as i64,
        e: e as i32,
        reserved: 0,
    };
    gpu.launch("router_noise", (t * e).div_ceil(256) as u64, &params)?;
    Ok(bits(&logits.get::<f32>("logits")?))
}

/// Sizes and settings of a routing.
#[derive(Debug, Clone, Copy)]
pub struct Router {
    pub rows: usize,
    pub row_len: usize,
    pub e: usize,
    pub k: usize,
    pub normalize: bool,
    pub aux: bool,
    pub padding: bool,
    pub forced: bool,
    pub per_token: bool,
}

impl Router {
    /// Everything from the logits to the statistics, and the gradient of the logits.
    pub fn run(&self, gpu: &VirtualGpu, random: &mut Random) -> Result<Vec<u8>, Trouble> {
        let Self { rows, row_len, e, k, .. } = *self;
        let (t, chunks) = (rows * row_len, row_len.div_ceil(64));
        // Few different values, so that there are ties.
        let coarse = |v: Vec<i32>| v.into_iter().map(|v| (v - 4) as f32 / 4.0).collect::<Vec<f32>>();
        let logits = Rows::input::<f32>(gpu, t, e, 1, &coarse(random.integers(t * e, 9)));
        let bias = gpu.upload(&coarse(random.integers(e, 3)));
        let forced = Rows::input::<i32>(gpu, t, k, 1, &random.integers(t * k, e));
        let padding = gpu.upload(&random.integers(t, 2));
        let integers = |rows, cols, pad| Rows::poisoned::<i32>(gpu, rows, cols, pad);
        let floats = |rows, cols, pad| Rows::poisoned::<f32>(gpu, rows, cols, pad);
        let (idx, weight) = (integers(t, k, 1), floats(t, k, 1));
        let (plain, total) = (integers(t, k, 0), floats(1, t, 0));
        let of_aux = |rows: &Rows<'_>| if self.aux { rows.address } else { 0 };
        let params = RouteParams {
            logits: logits.address,
            bias: bias.address,
            forced: if self.forced { forced.address } else { 0 },
            idx: idx.address,
            weight: weight.address,
            plain: of_aux(&plain),
            total: of_aux(&total),
            logits_stride: logits.stride,
            forced_stride: forced.stride,
            idx_stride: idx.stride,
            weight_stride: weight.stride,
            t: t as i64,
            e: e as i32,
            k: k as i32,
            scale: 2.5,
            normalize: i32::from(self.normalize),
        };
        gpu.launch("router_select", t.div_ceil(4) as u64, &params)?;

        let parts = rows * chunks;
        let (part_q, part_count, part_plain) = (floats(parts, e, 0), integers(parts, e, 0), integers(parts, e, 0));
        let (part_tokens, row_counts) = (integers(1, parts, 0), integers(rows, e, 1));
        let counts = Rows::output::<i32>(gpu, 1, e, 0, &vec![3; e]);
        let (stats, metric) = (floats(rows, e + 2, 1), Rows::output::<f64>(gpu, 1, 1, 0, &[0.25]));
        let params = RouterStatsParams {
            logits: logits.address,
            idx: idx.address,
            plain: of_aux(&plain),
            total: of_aux(&total),
            padding: if self.padding { padding.address } else { 0 },
            part_q: of_aux(&part_q),
            part_count: part_count.address,
            part_plain: of_aux(&part_plain),
            part_tokens: part_tokens.address,
            row_counts: row_counts.address,
            counts: counts.address,
            stats: of_aux(&stats),
            metric: of_aux(&metric),
            coefficient: 0.8,
            logits_stride: logits.stride,
            idx_stride: idx.stride,
            row_counts_stride: row_counts.stride,
            stats_stride: stats.stride,
            rows: rows as i64,
            row_len: row_len as i64,
            chunks: chunks as i64,
            e: e as i32,
            k: k as i32,
        };
        for (kernel, grid) in [("router_part", parts), ("router_rows", rows), ("router_totals", 1)] {
            gpu.launch(kernel, grid as u64, &params)?;
        }

        let dweight = Rows::random::<f32>(gpu, random, (t, k, 1), 1.0);
        let dlogits = floats(t, e, 1);
        let params = RouterBwdParams {
            logits: logits.address,
            idx: idx.address,
            weight: weight.address,
            dweight: dweight.address,
            padding: if self.padding { padding.address } else { 0 },
            stats: of_aux(&stats),
            dlogits: dlogits.address,
            logits_stride: logits.stride,
            idx_stride: idx.stride,
            weight_stride: weight.stride,
            dweight_stride: dweight.stride,
            stats_stride: stats.stride,
            dlogits_stride: dlogits.stride,
            rows: rows as i64,
            row_len: row_len as i64,
            t: t as i64,
            e: e as i32,
            k: k as i32,
            scale: 2.5,
            coefficient: 0.8 / rows as f32,
            share: if self.per_token { 0.0 } else { 1.0 / 3.0 },
            normalize: i32::from(self.normalize),
        };
        gpu.launch("router_dlogits", t.div_ceil(4) as u64, &params)?;

        let mut left = [bits(&idx.get::<i32>("idx")?), bits(&weight.get::<f32>("weight")?)].concat();
        for (name, rows) in [("plain", &plain), ("row_counts", &row_counts), ("counts", &counts)] {
            left.extend(bits(&rows.get::<i32>(name)?));
        }
        for (name, rows) in [("total", &total), ("stats", &stats), ("dlogits", &dlogits)] {
            left.extend(bits(&rows.get::<f32>(name)?));
        }
        left.extend(bits(&metric.get::<f64>("metric")?));
        Ok(left)
    }
}
