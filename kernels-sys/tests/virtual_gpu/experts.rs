//! Launches of the kernels of the routed experts.

use kernels_sys::{ExpertsActivationBwdParams, ExpertsGatherParams, ExpertsProductParams, ExpertsWeightBwdParams};

use super::{Bf16, Element, Random, Rows, Trouble, VirtualGpu};

/// Experts per token.
const TOP_K: usize = 2;

/// Which slots belong to which expert, and which pair is in which slot.
pub struct Routing<'a> {
    experts: usize,
    slots: usize,
    offsets: Rows<'a>,
    pair_of_slot: Rows<'a>,
}

impl<'a> Routing<'a> {
    /// `counts` slots for every expert, an even number in all; pairs are in slots in descending order.
    pub fn new(gpu: &'a VirtualGpu, counts: &[i32]) -> Self {
        let mut offsets = vec![0];
        for count in counts {
            offsets.push(offsets[offsets.len() - 1] + count);
        }
        let slots = offsets[counts.len()];
        let pairs: Vec<i32> = (0..slots).rev().collect();
        Self {
            experts: counts.len(),
            slots: slots as usize,
            offsets: Rows::input(gpu, 1, offsets.len(), 0, &offsets),
            pair_of_slot: Rows::input(gpu, 1, pairs.len(), 0, &pairs),
        }
    }
}

/// Columns and inner length, and the elements between rows of each matrix in turn.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub n: usize,
    pub depth: usize,
    pub pads: [usize; 4],
}

/// Gathered rows of `n` columns.
pub fn gather(gpu: &VirtualGpu, random: &mut Random, routing: &Routing<'_>, s: Sizes) -> Result<Vec<Bf16>, Trouble> {
    let x = Rows::random::<Bf16>(gpu, random, (routing.slots / TOP_K, s.n, s.pads[0]), 1.0);
    let xs = Rows::poisoned::<Bf16>(gpu, routing.slots, s.n, s.pads[1]);
    let params = ExpertsGatherParams {
        x: x.address,
        xs: xs.address,
        pair_of_slot: routing.pair_of_slot.address,
        offsets: routing.offsets.address,
        x_stride: x.stride,
        xs_stride: xs.stride,
        d: s.n as i32,
        k: TOP_K as i32,
        experts: routing.experts as i32,
        reserved: 0,
    };
    gpu.launch("experts_gather_bf16", routing.slots.div_ceil(4) as u64, &params)?;
    xs.get("xs")
}

/// Product and, if asked for, activated product of every expert's slots; `form` is `nt` or `nn`.
pub fn product(
    gpu: &VirtualGpu,
    random: &mut Random,
    routing: &Routing<'_>,
    (form, naive, activate): (&str, bool, bool),
    s: Sizes,
) -> Result<Vec<Bf16>, Trouble> {
    let (slots, experts) = (routing.slots, routing.experts);
    let (b_rows, b_cols) = if form == "nt" { (s.n, s.depth) } else { (s.depth, s.n) };
    let a = Rows::random::<Bf16>(gpu, random, (slots, s.depth, s.pads[0]), 1.0);
    let b = Rows::random::<Bf16>(gpu, random, (experts * b_rows, b_cols, s.pads[1]), 1.0);
    let c = Rows::poisoned::<Bf16>(gpu, slots, s.n, s.pads[2]);
    let activated = Rows::poisoned::<Bf16>(gpu, slots, s.n, s.pads[3]);
    let weight = Rows::input(gpu, 1, slots, 0, &random.elements::<f32>(slots, 1.0, 0.5));
    let params = ExpertsProductParams {
        a: a.address,
        b: b.address,
        c: c.address,
        activated: if activate { activated.address } else { 0 },
        weight: weight.address,
        offsets: routing.offsets.address,
        pair_of_slot: routing.pair_of_slot.address,
        a_stride: a.stride,
        b_stride: b.stride,
        c_stride: c.stride,
        activated_stride: activated.stride,
        n: s.n as i32,
        depth: s.depth as i32,
        experts: experts as i32,
        reserved: 0,
    };
    let (name, grid) = if naive {
        (format!("experts_product_{form}_naive_bf16"), [slots.div_ceil(8), s.n.div_ceil(32), 1])
    } else {
        (format!("experts_product_{form}_bf16"), [slots.div_ceil(64) + experts, s.n.div_ceil(64), 1])
    };
    gpu.launch_grid(&name, grid, &params)?;
    let mut left = c.get("c")?;
    if activate {
        left.extend(activated.get::<Bf16>("activated")?);
    }
    Ok(left)
}

/// Gradient of the activation for `n` columns: dp, a, and the gradients of the weights.
pub fn activation_bwd(
    gpu: &VirtualGpu,
    random: &mut Random,
    routing: &Routing<'_>,
    s: Sizes,
) -> Result<(Vec<Bf16>, Vec<f32>), Trouble> {
    let size = |pad| (routing.slots, s.n, pad);
    let p = Rows::random::<Bf16>(gpu, random, size(s.pads[0]), 1.0);
    let da: Vec<Bf16> = random.elements(routing.slots * s.n, 0.0, 1.0);
    let dp = Rows::output(gpu, routing.slots, s.n, s.pads[1], &da);
    let a = Rows::poisoned::<Bf16>(gpu, routing.slots, s.n, s.pads[2]);
    let weight = Rows::input(gpu, 1, routing.slots, 0, &random.elements::<f32>(routing.slots, 1.0, 0.5));
    let dweight = Rows::poisoned::<f32>(gpu, 1, routing.slots, 0);
    let params = ExpertsActivationBwdParams {
        p: p.address,
        dp: dp.address,
        a: a.address,
        weight: weight.address,
        dweight: dweight.address,
        offsets: routing.offsets.address,
        pair_of_slot: routing.pair_of_slot.address,
        p_stride: p.stride,
        dp_stride: dp.stride,
        a_stride: a.stride,
        f: s.n as i32,
        experts: routing.experts as i32,
    };
    gpu.launch("experts_activation_bwd_bf16", routing.slots.div_ceil(4) as u64, &params)?;
    let mut left = dp.get("dp")?;
    left.extend(a.get::<Bf16>("a")?);
    Ok((left, dweight.get("dweight")?))
}

/// Gradient of the weights, `depth` x `n` per expert, as f32.
pub fn weight_bwd<T: Element>(
    gpu: &VirtualGpu,
    random: &mut Random,
    routing: &Routing<'_>,
    accumulate: bool,
    s: Sizes,
) -> Result<Vec<f32>, Trouble> {
    let dy = Rows::random::<Bf16>(gpu, random, (routing.slots, s.depth, s.pads[0]), 1.0);
    let x = Rows::random::<Bf16>(gpu, random, (routing.slots, s.n, s.pads[1]), 1.0);
    let rows = routing.experts * s.depth;
    let dw = if accumulate {
        Rows::output::<T>(gpu, rows, s.n, s.pads[2], &random.elements(rows * s.n, 0.0, 1.0))
    } else {
        Rows::poisoned::<T>(gpu, rows, s.n, s.pads[2])
    };
    let params = ExpertsWeightBwdParams {
        dy: dy.address,
        x: x.address,
        dw: dw.address,
        offsets: routing.offsets.address,
        dy_stride: dy.stride,
        x_stride: x.stride,
        dw_stride: dw.stride,
        m: s.depth as i32,
        n: s.n as i32,
        accumulate: i32::from(accumulate),
        dw_f32: i32::from(T::SUFFIX == "f32"),
    };
    let grid = [s.n.div_ceil(64), s.depth.div_ceil(64), routing.experts];
    gpu.launch_grid("experts_weight_bwd_bf16", grid, &params)?;
    Ok(dw.get::<T>("dw")?.into_iter().map(T::to_f32).collect())
}
