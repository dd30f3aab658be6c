//! The model against the golden values of an independent reference (see tests/golden/README.md). Every size, setting and
//! hyper-parameter comes from the files; another folder of the same layout runs through `LIGHTNING_GOLDEN_MODEL`.

mod support;

use lightning_core::config::ModelConfig;
use lightning_core::model::{AdamConfig, Objective, Routing};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule, StateSlot};
use lightning_core::tensor::DType;
use support::*;

/// Bounds of f32 runs: values, gradients.
const VALUE: f64 = 2e-6;
const GRADIENT: f64 = 1e-5;
/// f64 runs against values stored as f32.
const STORED: f64 = 1e-6;

fn tiny_config() -> ModelConfig {
    lightning_core::config::preset("oracle_tiny").unwrap()
}

fn load_tiny(session: &mut Session) {
    let checkpoint = read_golden("tiny/model.safetensors");
    session.load(|name| checkpoint.tensors.get(name).map(|t| t.values.clone()));
}

fn bounds(act: DType) -> (f64, f64) {
    if act == DType::F64 { (STORED, STORED) } else { (VALUE, GRADIENT) }
}

#[test]
fn golden_model_forward_and_lm_gradients() {
    let (forward, grads) = (read_golden("tiny_forward.safetensors"), read_golden("tiny_grads_lm.safetensors"));
    let shape = &forward.get("input_ids").shape;
    let (rows, row_len) = (shape[0], shape[1]);
    let ids = forward.get("input_ids").ints();
    let label = |t: usize| {
        if (t + 1) % row_len == 0 { 0 } else { ids[t + 1] }
    };
    let labels: Vec<i32> = (0..ids.len()).map(label).collect();
    let mask: Vec<i32> = (0..ids.len()).map(|t| i32::from((t + 1) % row_len != 0)).collect();
    for act in [DType::F64, DType::F32] {
        let (value, gradient) = bounds(act);
        let mut config = tiny_config();
        config.mtp.as_mut().unwrap().depth = 0;
        let mut s = Session::new(&config, &Options::new(act, rows, row_len));
        load_tiny(&mut s);
        s.run_first(&Batch::new(ids.clone(), labels.clone(), mask.clone()));
        for (name, want) in &forward.tensors {
            let name = name.as_str();
            match name {
                "input_ids" => {}
                "loss" => assert_close(name, &s.losses().0[..1], &want.values, value),
                name if name.ends_with("topk_idx") => {
                    assert_eq!(s.output(name), want.values, "{name}")
                }
                name => assert_close(&format!("{act} {name}"), &s.output(name), &want.values, value),
            }
        }
        for (name, want) in &grads.tensors {
            assert_close(&format!("{act} d {name}"), &s.gradient(name), &want.values, gradient);
        }
        for (part, role, _) in s.model.parts() {
            if part.name.starts_with("mtp.") {
                continue;
            }
            if part.name.contains(".experts.") && !grads.tensors.contains_key(&part.name) {
                assert!(s.gradient(&part.name).iter().all(|g| *g == 0.0), "{}: an expert without tokens", part.name);
            } else if role.trains() {
                assert!(grads.tensors.contains_key(&part.name), "{}: no golden gradient", part.name);
            }
        }
    }
}

#[test]
fn golden_model_mtp() {
    let (g, grads) = (read_golden("mtp.safetensors"), read_golden("mtp_grads.safetensors"));
    let shape = &g.get("input_ids").shape;
    for act in [DType::F64, DType::F32] {
        let (value, gradient) = bounds(act);
        let mut s = Session::new(&tiny_config(), &Options::new(act, shape[0], shape[1]));
        load_tiny(&mut s);
        let ints = |n: &str| g.get(n).ints();
        s.run_first(&Batch::new(ints("input_ids"), ints("labels"), ints("loss_mask")));
        let (losses, _) = s.losses();
        assert_close("lm_ce", &s.output("lm_ce"), &g.get("lm_ce").values, value);
        assert_close("lm_loss", &losses[..1], &g.get("lm_loss").values, value);
        let depth = losses.len() - 1;
        for k in 1..=depth {
            assert_close("mtp loss", &losses[k..=k], &g.get(&format!("mtp{k}.loss")).values, value);
            for what in ["hidden", "ce", "mask", "topk_idx"] {
                let name = format!("mtp{k}.{what}");
                let ours = if what == "ce" { format!("mtp{k}_ce") } else { name.clone() };
                assert_close(&format!("{act} {name}"), &s.output(&ours), &g.get(&name).values, value);
            }
        }
        let total = losses[0] + OBJECTIVE.mtp_factor / depth as f64 * losses[1..].iter().sum::<f64>();
        assert_close("total", &[total], &g.get("total").values, value);
        for (name, want) in &grads.tensors {
            assert_close(&format!("{act} d {name}"), &s.gradient(name), &want.values, gradient);
        }
    }
}

/// Gate names (`<layer>gate`) in the order of the model's counters.
fn gates(s: &Session) -> Vec<String> {
    let bias = s.model.parts().filter(|(part, _, _)| part.name.ends_with("e_score_correction_bias"));
    bias.map(|(part, _, _)| part.name.trim_end_matches(".e_score_correction_bias").to_string()).collect()
}

fn constant_schedule(lr: f64, weight_decay: f64) -> Schedule {
    Schedule {
        decay: Decay::Constant,
        init_lr: 0.0,
        max_lr: lr,
        min_lr: 0.0,
        warmup_samples: 0,
        decay_samples: 1,
        wsd_samples: 0,
        start_weight_decay: weight_decay,
        end_weight_decay: weight_decay,
    }
}

fn check_counts_and_biases(s: &mut Session, g: &GoldenFile, bound: f64) {
    let experts = s.model.metrics.counts.cols;
    let counts = s.read(s.model.metrics.counts);
    let gates = gates(s);
    for (i, gate) in gates.iter().enumerate() {
        let want = &g.get(&format!("counts.{gate}")).values;
        assert_eq!(&counts[i * experts..(i + 1) * experts], &want[..], "{gate}: counts");
    }
    s.step(1);
    for gate in &gates {
        let after = s.weight(&format!("{gate}.e_score_correction_bias"));
        assert_close(&format!("bias of {gate}"), &after, &g.get(&format!("bias_after.{gate}")).values, bound);
    }
    assert!(s.read(s.model.metrics.counts).iter().all(|c| *c == 0.0), "counts are reset");
    assert_eq!(s.read(s.model.metrics.last_counts), counts, "counts are kept for the log");
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

fn packed_batch(g: &GoldenFile) -> Batch {
    let ints = |n: &str| g.get(n).ints();
    let mut batch = Batch::new(ints("input_ids"), ints("labels"), ints("loss_mask"));
    batch.offsets = ints("cu_seqlens");
    batch
}

fn frozen_adam() -> AdamConfig {
    AdamConfig { betas: (0.9, 0.95), eps: 1e-8, clip: 1.0, schedule: constant_schedule(0.0, 0.0) }
}

#[test]
fn golden_model_packed_row_with_everything() {
    let g = read_golden("packed_all.safetensors");
    let batch = packed_batch(&g);
    let tokens = batch.ids.len();
    let n: i32 = batch.mask.iter().sum();
    for act in [DType::F64, DType::F32] {
        let (value, gradient) = bounds(act);
        let mut options = Options::new(act, 1, tokens);
        options.objective = Objective { scale: LossScale::PerToken, aux_coefficient: g.meta("aux_coeff"), ..OBJECTIVE };
        options.adam = Some(frozen_adam());
        let mut s = Session::new(&tiny_config(), &options);
        load_tiny(&mut s);
        s.run_first(&batch);
        for (name, want) in &g.tensors {
            let ours = match name.as_str() {
                "lm_ce" | "final_hidden" => name.clone(),
                n if n.starts_with("hidden.") || n.ends_with(".mask") => name.clone(),
                n if n.ends_with(".ce") => n.replace(".ce", "_ce"),
                _ => continue,
            };
            assert_close(&format!("{act} {name}"), &s.output(&ours), &want.values, value);
        }
        let (losses, aux) = s.losses();
        let mut total = losses[0] + aux * tokens as f64 / f64::from(n);
        assert_close("lm_loss", &losses[..1], &g.get("lm_loss").values, value);
        for k in 1..losses.len() {
            assert_close("mtp loss", &losses[k..=k], &g.get(&format!("mtp{k}.loss")).values, value);
            total += OBJECTIVE.mtp_factor / (losses.len() - 1) as f64 * losses[k];
        }
        assert_close("aux_loss", &[aux], &g.get("aux_loss").values, value);
        assert_close("total", &[total], &g.get("total").values, value);
        // The program's gradients are sums over tokens; the division by N belongs to the step.
        let per_token = |values: Vec<f64>| values.iter().map(|v| v / f64::from(n)).collect::<Vec<_>>();
        let mut compared = 0;
        for (name, want) in &g.tensors {
            if let Some(name) = name.strip_prefix("grad.") {
                assert_close(&format!("{act} d {name}"), &per_token(s.gradient(name)), &want.values, gradient);
                compared += 1;
            } else if let Some(name) = name.strip_prefix("gradnorm.") {
                let got = norm(&per_token(s.gradient(name)));
                assert_close(&format!("{act} norm of d {name}"), &[got], &want.values, gradient);
                compared += 1;
            }
        }
        assert!(compared > 20, "only {compared} gradients in the file");
        check_counts_and_biases(&mut s, &g, value);
        let tokens_slot = s.read(s.model.metrics.losses)[1];
        assert_eq!(tokens_slot, f64::from(n));
    }
}

#[test]
fn golden_model_padding_mask() {
    let (all, g) = (read_golden("packed_all.safetensors"), read_golden("packed_pad.safetensors"));
    let mut batch = packed_batch(&all);
    batch.padding = Some(g.get("padding_mask").ints());
    let (tokens, n) = (batch.ids.len(), batch.mask.iter().sum::<i32>());
    let real = tokens as i32 - batch.padding.iter().flatten().sum::<i32>();
    for act in [DType::F64, DType::F32] {
        let (value, gradient) = bounds(act);
        for (mode, scale) in [("token", LossScale::PerToken), ("microbatch", LossScale::MeanOfMeans(1))] {
            let mut options = Options::new(act, 1, tokens);
            options.padding = true;
            options.objective = Objective { scale, aux_coefficient: g.meta("aux_coeff"), ..OBJECTIVE };
            options.adam = Some(frozen_adam());
            let mut s = Session::new(&tiny_config(), &options);
            load_tiny(&mut s);
            s.run_first(&batch);
            let divisor = if mode == "token" { f64::from(n) } else { 1.0 };
            for (name, want) in &g.tensors {
                let Some(name) = name.strip_prefix(&format!("{mode}.")) else {
                    continue;
                };
                let scaled = |name: &str| s.gradient(name).iter().map(|v| v / divisor).collect::<Vec<_>>();
                if let Some(name) = name.strip_prefix("grad.") {
                    assert_close(&format!("{act} {mode} d {name}"), &scaled(name), &want.values, gradient);
                } else if let Some(name) = name.strip_prefix("gradnorm.") {
                    let label = format!("{act} {mode} norm of d {name}");
                    assert_close(&label, &[norm(&scaled(name))], &want.values, gradient);
                }
            }
            let (losses, aux) = s.losses();
            let by_router = s.read(s.model.metrics.aux);
            let (backbone, mtp) = by_router.split_at(by_router.len() - 1);
            let weight = |t: f64| {
                if mode == "token" { t / f64::from(n) } else { 1.0 }
            };
            let mtp_mean = losses[1..].iter().sum::<f64>() / (losses.len() - 1) as f64;
            let total = losses[0]
                + OBJECTIVE.mtp_factor * mtp_mean
                + backbone.iter().sum::<f64>() * weight(f64::from(real))
                + mtp.iter().sum::<f64>() * weight(tokens as f64);
            assert_close("aux_loss", &[aux], &g.get(&format!("{mode}.aux_loss")).values, value);
            assert_close(&format!("{mode} total"), &[total], &g.get(&format!("{mode}.total")).values, value);
            check_counts_and_biases(&mut s, &g, value);
        }
    }
}

#[test]
fn golden_model_four_training_steps() {
    let g = read_golden("train.safetensors");
    let shape = &g.get("input_ids").shape;
    let (rows, row_len) = (shape[0], shape[1]);
    let (ids, labels) = (g.get("input_ids").ints(), g.get("labels").ints());
    let row = |v: &[i32], r: usize| v[r * row_len..(r + 1) * row_len].to_vec();
    let batches: Vec<Batch> = (0..rows).map(|r| Batch::new(row(&ids, r), row(&labels, r), vec![1; row_len])).collect();
    for act in [DType::F64, DType::F32] {
        let mut options = Options::new(act, 1, row_len);
        options.objective = Objective {
            scale: LossScale::MeanOfMeans(rows),
            aux_coefficient: g.meta("aux_coeff"),
            bias_rate: g.meta("bias_rate"),
            ..OBJECTIVE
        };
        options.adam = Some(AdamConfig {
            betas: (g.meta("beta1"), g.meta("beta2")),
            eps: g.meta("eps"),
            clip: g.meta("clip"),
            schedule: constant_schedule(g.meta("lr"), g.meta("weight_decay")),
        });
        let mut s = Session::new(&tiny_config(), &options);
        load_tiny(&mut s);
        for step in 0..g.meta::<usize>("steps") {
            for (i, batch) in batches.iter().enumerate() {
                if i == 0 { s.run_first(batch) } else { s.run_later(batch) }
            }
            let (losses, aux) = s.losses();
            s.step(rows);
            let mean = |x: f64| x / rows as f64;
            let mtp = losses[1..].iter().sum::<f64>() / (losses.len() - 1) as f64;
            let total = mean(losses[0] + OBJECTIVE.mtp_factor * mtp + aux);
            let mut history =
                vec![("lm".to_string(), mean(losses[0])), ("aux".into(), mean(aux)), ("total".into(), total)];
            history.push(("grad_norm".into(), s.state(StateSlot::GradNorm)));
            history.extend((1..losses.len()).map(|k| (format!("mtp{k}"), mean(losses[k]))));
            let bound = if step == 0 { 1e-5 } else { 1e-3 };
            for (name, got) in history {
                let want = g.get(&format!("history.{name}")).values[step];
                assert_close(&format!("{act} step {} {name}", step + 1), &[got], &[want], bound);
            }
        }
        for (name, want) in &g.tensors {
            if let Some(name) = name.strip_prefix("final.") {
                assert_close(&format!("{act} final {name}"), &s.weight(name), &want.values, 1e-3);
            } else if let Some(name) = name.strip_prefix("final_norm.") {
                assert_close(&format!("{act} final norm of {name}"), &[norm(&s.weight(name))], &want.values, 1e-3);
            }
        }
    }
}

/// bf16 program against the f64 reference with the reference's routing: bounds of the specification (model.md §14).
#[test]
fn golden_model_bf16_with_forced_routing() {
    let g = read_golden("tiny_forward.safetensors");
    let shape = &g.get("input_ids").shape;
    let (rows, row_len) = (shape[0], shape[1]);
    let mut config = tiny_config();
    config.mtp.as_mut().unwrap().depth = 0;
    let ids = g.get("input_ids").ints();
    let labels: Vec<i32> = (0..ids.len()).map(|t| if (t + 1) % row_len == 0 { 0 } else { ids[t + 1] }).collect();
    let mask: Vec<i32> = (0..ids.len()).map(|t| i32::from((t + 1) % row_len != 0)).collect();
    let batch = Batch::new(ids, labels, mask);
    let mut options = Options::new(DType::BF16, rows, row_len);
    options.routing = Routing::Forced;
    let mut s = Session::new(&config, &options);
    load_tiny(&mut s);
    let mut routers = g.tensors.keys().filter(|n| n.ends_with("topk_idx")).collect::<Vec<_>>();
    routers.sort_by_key(|n| n.split('.').nth(1).and_then(|i| i.parse::<usize>().ok()));
    for (name, tensor) in routers.iter().zip(s.model.inputs.forced.clone()) {
        s.write_ints(tensor, &g.get(name).ints());
    }
    s.run_first(&batch);
    for i in 0..=config.layers.len() {
        let name = format!("hidden.{i}");
        println!("{name} {:.3e}", relative_l2(&s.output(&name), &g.get(&name).values));
    }
    for i in 0..=config.layers.len() {
        let name = format!("hidden.{i}");
        assert_close(&name, &s.output(&name), &g.get(&name).values, if i <= 1 { 5e-3 } else { 1e-2 });
    }
    assert_close("logits", &s.output("logits"), &g.get("logits").values, 1e-2);
    assert_close("loss", &s.losses().0, &g.get("loss").values, 2e-3);
    let grads = read_golden("tiny_grads_lm.safetensors");
    for (name, want) in &grads.tensors {
        let bound = if name.ends_with("A_log") || name.ends_with("dt_bias") { 5e-2 } else { 3e-2 };
        assert_close(&format!("d {name}"), &s.gradient(name), &want.values, bound);
    }
}
