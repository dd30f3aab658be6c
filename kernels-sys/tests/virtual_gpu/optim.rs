//! Launches of the optimizer step; each gives the words that it leaves.

use kernels_sys::{AdamWParams, ExpertBiasUpdateParams, GradSquaresParams, StepControlParams};

use super::embed::bits;
use super::{Bf16, Element, Random, Rows, Trouble, VirtualGpu};

/// Slots of the state block.
const SLOTS: usize = 13;

/// Sums of squares of `n` gradients.
pub fn squares<G: Element>(gpu: &VirtualGpu, random: &mut Random, n: usize) -> Result<Vec<u8>, Trouble> {
    let blocks = n.div_ceil(16_384);
    let gradients = Rows::random::<G>(gpu, random, (1, n, 0), 1.0);
    let partial = Rows::poisoned::<f64>(gpu, 1, blocks, 0);
    let params = GradSquaresParams { gradients: gradients.address, partial: partial.address, n: n as i64 };
    gpu.launch(&format!("grad_squares_{}", G::SUFFIX), blocks.div_ceil(16) as u64, &params)?;
    Ok(bits(&partial.get::<f64>("partial")?))
}

/// What a step control decides after so many samples, with as many loss tokens (without per-token loss: none).
pub fn control(
    gpu: &VirtualGpu,
    random: &mut Random,
    (blocks, samples): (usize, u32),
    tokens: Option<f64>,
    (decay, wsd_style, clip): (i32, i32, f64),
) -> Result<Vec<u8>, Trouble> {
    let squares: Vec<f64> = random.elements::<f32>(blocks, 4.0, 0.5).into_iter().map(f64::from).collect();
    let partial = gpu.upload(&squares);
    let mut before = vec![0.0f64; SLOTS];
    before[..5].copy_from_slice(&[f64::from(samples), 12.0, 2.0, 1.0, 7.0]);
    let state = Rows::output::<f64>(gpu, 1, SLOTS, 0, &before);
    let count = tokens.map(|tokens| gpu.upload(&[tokens]));
    let params = StepControlParams {
        partial: partial.address,
        state: state.address,
        tokens: count.as_ref().map_or(0, |count| count.address),
        blocks: blocks as i64,
        warmup_samples: 100,
        decay_samples: 1000,
        wsd_samples: 300,
        init_lr: 1e-6,
        max_lr: 1e-3,
        min_lr: 1e-5,
        start_weight_decay: 0.01,
        end_weight_decay: 0.1,
        clip,
        beta1: 0.9,
        beta2: 0.95,
        decay,
        wsd_style,
    };
    gpu.launch("step_control", 1, &params)?;
    Ok(bits(&state.get::<f64>("state")?))
}

/// Moments, masters and weights after a step on `n` elements.
pub fn adamw<G: Element>(
    gpu: &VirtualGpu,
    random: &mut Random,
    n: usize,
    (with_param, decay, skip): (bool, bool, bool),
) -> Result<Vec<u8>, Trouble> {
    let gradient = Rows::random::<G>(gpu, random, (1, n, 0), 1.0);
    let [master, m] = [1.0, 0.1].map(|spread| Rows::random::<f32>(gpu, random, (1, n, 0), spread));
    let v = Rows::output::<f32>(gpu, 1, n, 0, &random.elements(n, 3.0, 0.1));
    let param = Rows::random::<Bf16>(gpu, random, (1, n, 0), 1.0);
    let state = gpu.upload(&[0.0, 5.0, 0.0, 0.0, 7.0, 3e-3, 2e-3, 0.1, 1.5, 0.37, f64::from(u8::from(skip)), 0.4, 0.2]);
    let params = AdamWParams {
        gradient: gradient.address,
        master: master.address,
        param: if with_param { param.address } else { 0 },
        m: m.address,
        v: v.address,
        state: state.address,
        n: n as i64,
        beta1: 0.9,
        beta2: 0.95,
        rest1: 0.1,
        rest2: 0.05,
        eps: 1e-3,
        decay: i32::from(decay),
    };
    gpu.launch(&format!("adamw_{}", G::SUFFIX), 2, &params)?;
    let mut left = bits(&param.get::<Bf16>("param")?);
    for (name, rows) in [("master", &master), ("m", &m), ("v", &v)] {
        left.extend(bits(&rows.get::<f32>(name)?));
    }
    Ok(left)
}

/// Biases and counts after an update.
pub fn expert_bias(gpu: &VirtualGpu, random: &mut Random, counts: &[i32]) -> Result<Vec<u8>, Trouble> {
    let experts = counts.len();
    let bias = Rows::random::<f32>(gpu, random, (1, experts, 0), 0.1);
    let (now, last) = (Rows::output::<i32>(gpu, 1, experts, 0, counts), Rows::poisoned::<i32>(gpu, 1, experts, 0));
    let params = ExpertBiasUpdateParams {
        counts: now.address,
        bias: bias.address,
        last: last.address,
        rate: 1e-3,
        e: experts as i32,
    };
    gpu.launch("expert_bias_update", 1, &params)?;
    let (bias, now) = (bias.get::<f32>("bias")?, now.get::<i32>("counts")?);
    Ok([bits(&bias), bits(&now), bits(&last.get::<i32>("last")?)].concat())
}
