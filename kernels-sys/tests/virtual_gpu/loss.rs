//! Launches of the cross-entropy kernels.

use kernels_sys::{LossMetricParams, LossRowsParams, LossScaleParams};

use super::{Bf16, Element, Random, Rows, Trouble, VirtualGpu};

/// What is left of rows of logits: gradients or logits, losses, hits.
pub struct Left {
    pub logits: Vec<Bf16>,
    pub ce: Vec<f32>,
    pub hits: Vec<i32>,
}

/// Labels in and outside of the vocabulary, masks of 0 and 1.
fn labels(random: &mut Random, rows: usize, v: usize) -> (Vec<i32>, Vec<i32>) {
    let label = (0..rows).map(|_| (random.bits() % (v as u64 + 2)) as i32 - 1).collect();
    let mask = (0..rows).map(|_| i32::from(random.bits() % 3 != 0)).collect();
    (label, mask)
}

/// Cross entropy of random logits. Each of the first eight rows has one largest logit, in the columns of another warp;
/// in the others the largest are often equal. Labels are outside, at both ends, and the largest.
pub fn rows(
    gpu: &VirtualGpu,
    random: &mut Random,
    (rows, v, pad): (usize, usize, usize),
    with_gradient: bool,
) -> Result<Left, Trouble> {
    let mut values: Vec<Bf16> =
        (0..rows * v).map(|_| Bf16::from_f32((random.bits() % 17) as f32 / 2.0 - 4.0)).collect();
    let (mut label, mask) = labels(random, rows, v);
    let aligned = v.is_multiple_of(8) && pad.is_multiple_of(8);
    let columns_of_warp = if aligned { 256 } else { 32 };
    for row in 0..rows.min(8) {
        let peak = row * columns_of_warp + random.bits() as usize % columns_of_warp;
        if peak < v {
            values[row * v + peak] = Bf16::from_f32(5.0);
            label[row] = peak as i32;
        }
    }
    for (label, edge) in label.iter_mut().zip([-1, 0, v as i32 - 1, v as i32]) {
        *label = edge;
    }
    let logits = Rows::output(gpu, rows, v, pad, &values);
    let [label, mask] = [label, mask].map(|values| Rows::input(gpu, 1, rows, 0, &values));
    let scale = Rows::input(gpu, 1, 1, 0, &[0.75f32]);
    let ce = Rows::poisoned::<f32>(gpu, 1, rows, 0);
    let hit = Rows::output::<i32>(gpu, 1, rows, 0, &vec![-7; rows]);
    let params = LossRowsParams {
        logits: logits.address,
        label: label.address,
        mask: mask.address,
        scale: scale.address,
        ce: ce.address,
        hit: hit.address,
        stride: logits.stride,
        rows: rows as i64,
        v: v as i32,
        with_gradient: i32::from(with_gradient),
    };
    gpu.launch("linear_cross_entropy_rows_bf16", rows as u64, &params)?;
    Ok(Left { logits: logits.get("logits")?, ce: ce.get("ce")?, hits: hit.get("hit")? })
}

/// Scale and number of tokens of a head, then its metrics after `t` tokens.
pub fn scale_and_metric(
    gpu: &VirtualGpu,
    random: &mut Random,
    (t, lm_t): (usize, usize),
    share: f64,
) -> Result<(f32, i32, Vec<u64>), Trouble> {
    let mask = Rows::input(gpu, 1, t, 0, &labels(random, t, 1).1);
    let lm_mask = Rows::input(gpu, 1, lm_t, 0, &labels(random, lm_t, 1).1);
    let tokens = Rows::output::<i32>(gpu, 1, 1, 0, &[-7]);
    let scale = Rows::poisoned::<f32>(gpu, 1, 1, 0);
    let params = LossScaleParams {
        mask: mask.address,
        lm_mask: lm_mask.address,
        tokens: tokens.address,
        scale: scale.address,
        t: t as i64,
        lm_t: lm_t as i64,
        factor: 0.15,
        share,
    };
    gpu.launch("linear_cross_entropy_scale", 1, &params)?;
    let ce = Rows::input(gpu, 1, t, 0, &random.elements::<f32>(t, 3.0, 1.0));
    let hit: Vec<i32> = (0..t).map(|_| (random.bits() % 2) as i32).collect();
    let hit = Rows::input(gpu, 1, t, 0, &hit);
    let metric = Rows::output::<f64>(gpu, 1, 4, 0, &[0.5, 2.0, 3.0, 4.0]);
    let params = LossMetricParams {
        ce: ce.address,
        mask: mask.address,
        hit: hit.address,
        tokens: tokens.address,
        metric: metric.address,
        t: t as i64,
    };
    gpu.launch("linear_cross_entropy_metric", 1, &params)?;
    let bits = metric.get::<f64>("metric")?.into_iter().map(f64::to_bits).collect();
    Ok((scale.get::<f32>("scale")?[0], tokens.get::<i32>("tokens")?[0], bits))
}
