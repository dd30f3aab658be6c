//! Launches of the kernels of the Mamba-2 mixer, for the test of far offsets and for the sampling of planted faults.
//!
//! All matrices of one type are windows of one matrix, as the model has them, so that a far stride costs one allocation.

use kernels_sys::{
    ConvSiluBwdDwParams, ConvSiluBwdParams, ConvSiluFwdParams, GatedRmsNormBwdParams, GatedRmsNormFwdParams,
    SoftplusDtBwdParams, SoftplusDtFwdParams, SsdScanBwdParams, SsdScanFwdParams,
};

use super::{Bf16, Buffer, Element, Random, Trouble, VirtualGpu};

/// How rows lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Elements from one row to the next; 0: as many as the windows take, rounded up to eight.
    pub stride: usize,
    /// Elements by which every window is off a 16-byte boundary.
    pub shift: usize,
}

/// Neighbouring columns of one matrix.
struct Windows<'a, T> {
    buffer: Buffer<'a>,
    stride: usize,
    shift: usize,
    rows: usize,
    next: usize,
    kind: std::marker::PhantomData<T>,
}

/// One window.
#[derive(Clone, Copy)]
struct Window {
    address: u64,
    first: usize,
    cols: usize,
}

impl<'a, T: Element> Windows<'a, T> {
    /// Room for windows of these widths.
    fn new(gpu: &'a VirtualGpu, layout: Layout, rows: usize, widths: &[usize]) -> Self {
        let room = widths.iter().map(|w| (w + layout.shift).next_multiple_of(8)).sum::<usize>();
        let stride = if layout.stride == 0 { room } else { layout.stride };
        assert!(stride >= room);
        let bytes = (rows.max(1) - 1) * stride * size_of::<T>() + room * size_of::<T>();
        let buffer = if layout.stride > 1 << 20 { gpu.sparse_buffer(bytes) } else { gpu.buffer(bytes, 0) };
        Self { buffer, stride, shift: layout.shift, rows, next: 0, kind: std::marker::PhantomData }
    }

    /// The next window; its contents stay as they are without data.
    fn window(&mut self, cols: usize, data: &[T]) -> Window {
        let first = self.next + self.shift;
        self.next += (cols + self.shift).next_multiple_of(8);
        for (row, values) in data.chunks_exact(cols).enumerate() {
            self.buffer.write(row * self.stride + first, values);
        }
        Window { address: self.buffer.address + (first * size_of::<T>()) as u64, first, cols }
    }

    fn bytes(&self, window: Window) -> Vec<u8> {
        let row = |row| self.buffer.read::<T>(row * self.stride + window.first, window.cols);
        (0..self.rows).flat_map(row).flat_map(T::to_bytes).collect()
    }

    fn stride(&self) -> i64 {
        self.stride as i64
    }
}

/// What a case leaves: the bytes of each output.
pub type Left = Vec<(&'static str, Vec<u8>)>;

fn starts(documents: &[usize]) -> Vec<i32> {
    let mut first = 0;
    let mut start = Vec::new();
    for length in documents {
        start.extend(std::iter::repeat_n(first, *length));
        first += *length as i32;
    }
    start
}

fn floats(random: &mut Random, n: usize) -> Vec<Bf16> {
    random.elements(n, 0.0, 1.0)
}

fn words(values: &[i32]) -> Vec<f32> {
    values.iter().map(|v| f32::from_bits(v.cast_unsigned())).collect()
}

/// Convolution forward and backward over documents of these lengths.
pub fn conv(
    gpu: &VirtualGpu,
    random: &mut Random,
    (channels, taps): (usize, usize),
    documents: &[usize],
    accumulate: bool,
    layout: Layout,
) -> Result<Left, Trouble> {
    let t: usize = documents.iter().sum();
    let [x, dy] = [(); 2].map(|()| floats(random, t * channels));
    let (w, b) = (floats(random, channels * taps), floats(random, channels));
    let mut act = Windows::<Bf16>::new(gpu, layout, t, &[channels; 4]);
    let (x, dy) = (act.window(channels, &x), act.window(channels, &dy));
    let (y, dx) = (act.window(channels, &[]), act.window(channels, &[]));
    let (w, b, start) = (gpu.upload(&w), gpu.upload(&b), gpu.upload(&words(&starts(documents))));
    let (stride, t64, c64, taps32) = (act.stride(), t as i64, channels as i64, taps as i32);
    let fwd = ConvSiluFwdParams {
        x: x.address,
        w: w.address,
        b: b.address,
        start: start.address,
        y: y.address,
        x_stride: stride,
        w_stride: taps as i64,
        y_stride: stride,
        t: t64,
        c: c64,
        taps: taps32,
        reserved: 0,
    };
    let grid = |tokens: usize| [t.div_ceil(tokens) as u64, channels.div_ceil(64) as u64, 1];
    gpu.launch_grid("conv_silu_fwd_bf16", grid(32).map(|n: u64| n as usize), &fwd)?;
    let blocks = t.div_ceil(128);
    let partial = gpu.buffer(blocks * (taps + 1) * channels * 4, 0);
    let bwd = ConvSiluBwdParams {
        dy: dy.address,
        x: x.address,
        w: w.address,
        b: b.address,
        start: start.address,
        dx: dx.address,
        partial: partial.address,
        dy_stride: stride,
        x_stride: stride,
        w_stride: taps as i64,
        dx_stride: stride,
        t: t64,
        c: c64,
        taps: taps32,
        reserved: 0,
    };
    gpu.launch_grid("conv_silu_bwd_bf16", grid(128).map(|n: u64| n as usize), &bwd)?;
    let (dw, db) = (gpu.upload(&vec![1.0f32; channels * taps]), gpu.upload(&vec![1.0f32; channels]));
    let sums = ConvSiluBwdDwParams {
        partial: partial.address,
        dw: dw.address,
        db: db.address,
        dw_stride: taps as i64,
        blocks: blocks as i64,
        c: c64,
        taps: taps32,
        out_bf16: 0,
        accumulate: i32::from(accumulate),
        reserved: 0,
    };
    gpu.launch_grid(
        "conv_silu_bwd_dw",
        [channels.div_ceil(32) as u64, taps as u64 + 1, 1].map(|n: u64| n as usize),
        &sums,
    )?;
    partial.check_guards::<f32>("partial", 1, 0, 0)?;
    dw.check_guards::<f32>("dw", 1, 0, 0)?;
    db.check_guards::<f32>("db", 1, 0, 0)?;
    let f32s = |buffer: &Buffer<'_>, n| buffer.read::<f32>(0, n).into_iter().flat_map(f32::to_bytes).collect();
    Ok(vec![
        ("y", act.bytes(y)),
        ("dx", act.bytes(dx)),
        ("dw", f32s(&dw, channels * taps)),
        ("db", f32s(&db, channels)),
    ])
}

/// Gated norm forward and backward of tokens, groups and their width; time steps of as many heads as groups.
pub fn norm_and_steps(
    gpu: &VirtualGpu,
    random: &mut Random,
    (t, groups, width): (usize, usize, usize),
    dt_min: f32,
    layout: Layout,
) -> Result<Left, Trouble> {
    let c = groups * width;
    let [y, z, dout] = [(); 3].map(|()| floats(random, t * c));
    let (w, raw) = (floats(random, c), random.elements::<Bf16>(t * groups, 0.0, 8.0));
    let (bias, ddelta) = (random.elements::<f32>(groups, 0.0, 1.0), random.elements::<f32>(t * groups, 0.0, 1.0));
    let mut act = Windows::<Bf16>::new(gpu, layout, t, &[c, c, c, c, c, c, groups, groups]);
    let (y, z, dout) = (act.window(c, &y), act.window(c, &z), act.window(c, &dout));
    let (o, dy, dz) = (act.window(c, &[]), act.window(c, &[]), act.window(c, &[]));
    let (raw, draw) = (act.window(groups, &raw), act.window(groups, &[]));
    let mut acc = Windows::<f32>::new(gpu, layout, t, &[groups; 3]);
    let (rstd, ddelta, delta) = (acc.window(groups, &[]), acc.window(groups, &ddelta), acc.window(groups, &[]));
    let (w, bias) = (gpu.upload(&w), gpu.upload(&bias));
    let (stride, stride32, blocks) = (act.stride(), acc.stride(), t.div_ceil(64));
    let fwd = GatedRmsNormFwdParams {
        y: y.address,
        z: z.address,
        w: w.address,
        o: o.address,
        rstd: rstd.address,
        y_stride: stride,
        z_stride: stride,
        o_stride: stride,
        rstd_stride: stride32,
        t: t as i64,
        groups: groups as i32,
        width: width as i32,
        eps: 1e-5,
        reserved: 0,
    };
    gpu.launch("gated_rms_norm_fwd_bf16", (t * groups).div_ceil(8) as u64, &fwd)?;
    let dw = gpu.buffer(blocks * c * 4, 0);
    let bwd = GatedRmsNormBwdParams {
        dout: dout.address,
        y: y.address,
        z: z.address,
        w: w.address,
        rstd: rstd.address,
        dy: dy.address,
        dz: dz.address,
        dw_partial: dw.address,
        dout_stride: stride,
        y_stride: stride,
        z_stride: stride,
        rstd_stride: stride32,
        dy_stride: stride,
        dz_stride: stride,
        partial_stride: c as i64,
        t: t as i64,
        groups: groups as i32,
        width: width as i32,
    };
    gpu.launch_grid("gated_rms_norm_bwd_bf16", [blocks as u64, groups as u64, 1].map(|n: u64| n as usize), &bwd)?;
    let steps = SoftplusDtFwdParams {
        raw: raw.address,
        bias: bias.address,
        delta: delta.address,
        raw_stride: stride,
        delta_stride: stride32,
        t: t as i64,
        h: groups as i32,
        dt_min,
    };
    gpu.launch("softplus_dt_fwd_bf16", t.div_ceil(32) as u64, &steps)?;
    let dbias = gpu.buffer(blocks * groups * 4, 0);
    let steps = SoftplusDtBwdParams {
        ddelta: ddelta.address,
        raw: raw.address,
        bias: bias.address,
        draw: draw.address,
        dbias_partial: dbias.address,
        ddelta_stride: stride32,
        raw_stride: stride,
        draw_stride: stride,
        partial_stride: groups as i64,
        t: t as i64,
        h: groups as i32,
        dt_min,
    };
    gpu.launch_grid(
        "softplus_dt_bwd_bf16",
        [blocks as u64, groups.div_ceil(32) as u64, 1].map(|n: u64| n as usize),
        &steps,
    )?;
    dw.check_guards::<f32>("dw", 1, 0, 0)?;
    dbias.check_guards::<f32>("dbias", 1, 0, 0)?;
    let f32s = |buffer: &Buffer<'_>, n| buffer.read::<f32>(0, n).into_iter().flat_map(f32::to_bytes).collect();
    Ok(vec![
        ("o", act.bytes(o)),
        ("rstd", acc.bytes(rstd)),
        ("dy", act.bytes(dy)),
        ("dz", act.bytes(dz)),
        ("dw", f32s(&dw, blocks * c)),
        ("delta", acc.bytes(delta)),
        ("draw", act.bytes(draw)),
        ("dbias", f32s(&dbias, blocks * groups)),
    ])
}

/// Sizes of a scan over one row of tokens.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    pub heads: usize,
    pub head_dim: usize,
    pub state: usize,
    pub groups: usize,
    pub chunk: usize,
    pub documents: &'a [usize],
    /// A state comes in, and its gradient from behind.
    pub with_state: bool,
}

/// Scan forward and backward.
pub fn scan(gpu: &VirtualGpu, random: &mut Random, s: Scan<'_>, layout: Layout) -> Result<Left, Trouble> {
    let t: usize = s.documents.iter().sum();
    let (inner, bc, all) = (s.heads * s.head_dim, s.groups * s.state, s.heads * s.head_dim * s.state);
    let chunks = t.div_ceil(s.chunk);
    let [x, dy] = [(); 2].map(|()| floats(random, t * inner));
    let [b, c] = [(); 2].map(|()| floats(random, t * bc));
    let delta: Vec<f32> = random.elements::<f32>(t * s.heads, 0.0, 0.3).into_iter().map(|v| v.abs() + 0.01).collect();
    let (a_log, d) = (random.elements::<f32>(s.heads, 0.0, 0.5), random.elements::<f32>(s.heads, 0.0, 1.0));
    let [state_in, dstate_out] = [(); 2].map(|()| random.elements::<f32>(all, 0.0, 1.0));

    let mut act = Windows::<Bf16>::new(gpu, layout, t, &[inner, inner, bc, bc, inner, inner, bc, bc]);
    let (x, dy, b, c) = (act.window(inner, &x), act.window(inner, &dy), act.window(bc, &b), act.window(bc, &c));
    let (y, dx, db, dc) = (act.window(inner, &[]), act.window(inner, &[]), act.window(bc, &[]), act.window(bc, &[]));
    let mut acc = Windows::<f32>::new(gpu, layout, t, &[s.heads; 2]);
    let (delta, ddelta) = (acc.window(s.heads, &delta), acc.window(s.heads, &[]));
    let mut slots = Windows::<f32>::new(gpu, layout, chunks, &[all]);
    let states = slots.window(all, &[]);
    let (a_log, d) = (gpu.upload(&a_log), gpu.upload(&d));
    let (state_in, dstate_out) = (gpu.upload(&state_in), gpu.upload(&dstate_out));
    let (state_out, dstate_in) = (gpu.buffer(all * 4, 0), gpu.buffer(all * 4, 0));
    let start = gpu.upload(&words(&starts(s.documents)));
    let per_token = [(); 2].map(|()| gpu.buffer(t * s.heads * 4, 0));
    let per_chunk = [(); 2].map(|()| gpu.buffer(chunks * s.heads * 4, 0));
    let dstates = gpu.buffer(chunks * all * 4, 0);
    let (stride, stride32) = (act.stride(), acc.stride());
    let optional = |buffer: &Buffer<'_>| if s.with_state { buffer.address } else { 0 };

    let fwd = SsdScanFwdParams {
        x: x.address,
        b: b.address,
        c: c.address,
        delta: delta.address,
        a_log: a_log.address,
        d: d.address,
        start: start.address,
        state_in: optional(&state_in),
        y: y.address,
        states: states.address,
        state_out: optional(&state_out),
        log_decay: per_token[0].address,
        x_stride: stride,
        b_stride: stride,
        c_stride: stride,
        delta_stride: stride32,
        state_in_stride: all as i64,
        y_stride: stride,
        states_stride: slots.stride(),
        state_out_stride: all as i64,
        rows: 1,
        row_len: t as i32,
        chunk: s.chunk as i32,
        heads: s.heads as i32,
        head_dim: s.head_dim as i32,
        state: s.state as i32,
        groups: s.groups as i32,
    };
    let bwd = SsdScanBwdParams {
        fwd,
        dy: dy.address,
        dstate_out: optional(&dstate_out),
        dx: dx.address,
        db: db.address,
        dc: dc.address,
        ddelta: ddelta.address,
        dstate_in: optional(&dstate_in),
        dstates: dstates.address,
        dlog_decay: per_token[1].address,
        da_partial: per_chunk[0].address,
        dd_partial: per_chunk[1].address,
        dy_stride: stride,
        dstate_out_stride: all as i64,
        dx_stride: stride,
        db_stride: stride,
        dc_stride: stride,
        ddelta_stride: stride32,
        dstate_in_stride: all as i64,
    };
    let tiles = |n: usize| n.div_ceil(64) as u64;
    let (items, tokens) = ((chunks * s.heads) as u64, tiles(s.chunk.min(t)));
    let groups = (chunks * s.groups) as u64;
    let outer = [items, tiles(s.head_dim) * tiles(s.state), 1];
    gpu.launch("ssd_log_decay", items.div_ceil(128), &fwd)?;
    gpu.launch_grid("ssd_chunk_states_bf16", outer.map(|n: u64| n as usize), &fwd)?;
    gpu.launch("ssd_state_pass", all.div_ceil(256) as u64, &fwd)?;
    gpu.launch_grid("ssd_scan_fwd_bf16", [items, tokens * tiles(s.head_dim), 1].map(|n: u64| n as usize), &fwd)?;
    gpu.launch_grid("ssd_chunk_state_gradients_bf16", outer.map(|n: u64| n as usize), &bwd)?;
    gpu.launch("ssd_state_gradient_pass", all.div_ceil(256) as u64, &bwd)?;
    gpu.launch("ssd_scan_bwd_x_bf16", items, &bwd)?;
    gpu.launch("ssd_scan_bwd_time_steps", items.div_ceil(128), &bwd)?;
    gpu.launch_grid("ssd_scan_bwd_c_bf16", [groups, tokens * tiles(s.state), 1].map(|n: u64| n as usize), &bwd)?;
    gpu.launch_grid("ssd_scan_bwd_b_bf16", [groups, tokens * tiles(s.state), 1].map(|n: u64| n as usize), &bwd)?;
    for (name, buffer) in [("da", &per_chunk[0]), ("dd", &per_chunk[1]), ("dstates", &dstates), ("l", &per_token[0])] {
        buffer.check_guards::<f32>(name, 1, 0, 0)?;
    }
    let f32s = |buffer: &Buffer<'_>, n| buffer.read::<f32>(0, n).into_iter().flat_map(f32::to_bytes).collect();
    let mut left = vec![
        ("y", act.bytes(y)),
        ("states", slots.bytes(states)),
        ("dx", act.bytes(dx)),
        ("db", act.bytes(db)),
        ("dc", act.bytes(dc)),
        ("ddelta", acc.bytes(ddelta)),
        ("da", f32s(&per_chunk[0], chunks * s.heads)),
        ("dd", f32s(&per_chunk[1], chunks * s.heads)),
    ];
    if s.with_state {
        left.extend([("state_out", f32s(&state_out, all)), ("dstate_in", f32s(&dstate_in, all))]);
    }
    Ok(left)
}
