//! LoRA adapters in both of PEFT's spellings, and their merge.

use super::*;
use lightning_core::layout::{Layout, Role};
use lightning_train::adapters::{Adapter, Delta, Flavour, Pair};
use lightning_train::convert::{export, import};
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;

const RANK: usize = 3;

fn pair(rows: usize, columns: usize, random: &mut Random) -> Pair {
    // Values that bf16 holds exactly.
    let mut values = |n: usize| (0..n).map(|_| (random.float() * 16.0).round() / 16.0).collect();
    Pair { rank: RANK, rows, columns, a: values(RANK * columns), b: values(rows * RANK) }
}

/// An adapter of every projection of a model; experts have their own pairs.
fn adapter(model: &ModelConfig, seed: u64) -> Adapter {
    let mut random = Random(seed);
    let mut adapter = Adapter::new(RANK, 6.0, "some/model");
    let layout = Layout::new(model);
    for (index, part) in layout.parts() {
        let role = layout.params[index].role;
        let projection = matches!(role, Role::InputProjection | Role::OutputProjection);
        if projection && !part.name.ends_with("eh_proj.weight") {
            let pair = pair(part.shape[0], part.shape[1], &mut random);
            adapter.pairs.insert(part.name.clone(), pair.into());
        }
    }
    adapter
}

fn bf16(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(2).map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)).collect()
}

#[test]
fn both_flavours_are_read_as_they_were_written() {
    let s = Scratch::new("flavours");
    let model = small_model();
    let whole = adapter(&model, 1);
    assert_eq!(whole.write(&s.path("each"), Flavour::PerModule, Dtype::BF16).unwrap(), Vec::<String>::new());
    assert_eq!(Adapter::read(&s.path("each")).unwrap(), whole);
    let left_out = whole.write(&s.path("fused"), Flavour::TargetParameters, Dtype::F32).unwrap();
    assert!(!left_out.is_empty() && left_out.iter().all(|n| n.starts_with("mtp.")));
    let mut without = whole.clone();
    without.pairs.retain(|n, _| !n.starts_with("mtp."));
    assert_eq!(Adapter::read(&s.path("fused")).unwrap(), without);
    let config: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(s.path("each/adapter_config.json")).unwrap()).unwrap();
    let modules: Vec<&str> = config["target_modules"].as_array().unwrap().iter().map(|m| m.as_str().unwrap()).collect();
    assert_eq!(modules, ["down_proj", "in_proj", "k_proj", "o_proj", "out_proj", "q_proj", "up_proj", "v_proj"]);
    assert_eq!((config["r"].as_u64(), config["lora_alpha"].as_f64()), (Some(3), Some(6.0)));
}

#[test]
fn b81_every_pair_is_merged_once_or_nothing_is() {
    let s = Scratch::new("b81");
    let model = small_model();
    let source = s.checkpoint("source", &model, 1, 1);
    import::run(&import_args(&source, &s.text("ours"))).unwrap();
    let whole = adapter(&model, 2);
    whole.write(&s.path("adapter"), Flavour::PerModule, Dtype::BF16).unwrap();
    let mut args = export_args(&s.text("ours"), &s.text("merged"));
    args.adapter = Some(s.text("adapter"));
    export::run(&args).unwrap();
    let (before, after) =
        (fs::read(s.path("source/model.safetensors")).unwrap(), fs::read(s.path("merged/model.safetensors")).unwrap());
    let (before, after) = (SafeTensors::deserialize(&before).unwrap(), SafeTensors::deserialize(&after).unwrap());
    for (name, tensor) in after.iter() {
        let base = before.tensor(name).unwrap();
        match whole.pairs.get(name) {
            None => assert_eq!(base.data(), tensor.data(), "{name} has no adapter"),
            Some(_) => assert!(base.data() != tensor.data(), "{name} did not change"),
        }
    }
    // A pair for a weight that is not there, or has another shape, stops everything.
    for (name, rows) in [("backbone.layers.77.mixer.q_proj.weight", 30), ("backbone.layers.2.mixer.q_proj.weight", 31)]
    {
        let mut wrong = whole.clone();
        wrong.pairs.insert(name.into(), pair(rows, 20, &mut Random(3)).into());
        wrong.write(&s.path("wrong"), Flavour::PerModule, Dtype::BF16).unwrap();
        let mut args = export_args(&s.text("ours"), &s.text("never"));
        args.adapter = Some(s.text("wrong"));
        let error = export::run(&args).unwrap_err().to_string();
        assert!(error.contains(name) && !s.path("never").exists(), "{error}");
        fs::remove_dir_all(s.path("wrong")).unwrap();
    }
}

#[test]
fn b84_the_merged_weight_is_the_exact_sum_rounded_once() {
    let s = Scratch::new("b84");
    let model = small_model();
    let source = s.checkpoint("source", &model, 1, 4);
    import::run(&import_args(&source, &s.text("ours"))).unwrap();
    let mut random = Random(8);
    let mut whole = adapter(&model, 4);
    for pair in whole.pairs.values_mut() {
        let mut values = |n: usize| (0..n).map(|_| random.float() * 0.3).collect();
        *pair = Pair { a: values(pair.a.len()), b: values(pair.b.len()), ..(**pair).clone() }.into();
    }
    whole.write(&s.path("adapter"), Flavour::PerModule, Dtype::F32).unwrap();
    let mut args = export_args(&s.text("ours"), &s.text("merged"));
    args.adapter = Some(s.text("adapter"));
    export::run(&args).unwrap();
    let (before, after) =
        (fs::read(s.path("source/model.safetensors")).unwrap(), fs::read(s.path("merged/model.safetensors")).unwrap());
    let (before, after) = (SafeTensors::deserialize(&before).unwrap(), SafeTensors::deserialize(&after).unwrap());
    let (mut elements, mut discriminating) = (0, 0);
    for (name, pair) in &whole.pairs {
        let (old, new) = (bf16(before.tensor(name).unwrap().data()), bf16(after.tensor(name).unwrap().data()));
        for at in 0..old.len() {
            let (row, column) = (at / pair.columns, at % pair.columns);
            let product: f64 = (0..RANK)
                .map(|k| f64::from(pair.b[row * RANK + k]) * f64::from(pair.a[k * pair.columns + column]))
                .sum();
            let exact = f64::from(old[at]) + 2.0 * product;
            // Half a unit in the last of the 8 bits, and what f32 sums of a few terms below 2 add to it.
            let error = (f64::from(new[at]) - exact).abs();
            assert!(error <= exact.abs() / 256.0 + 2e-6, "{name}[{at}]: {} instead of {exact}", new[at]);
            // The change rounded to bf16 before it is added.
            let twice = half::bf16::from_f32(old[at] + half::bf16::from_f64(2.0 * product).to_f32()).to_f32();
            elements += 1;
            discriminating += usize::from(twice != new[at]);
        }
    }
    assert!(discriminating * 50 > elements, "{discriminating} of {elements} would show a second rounding");
}

#[test]
fn b82_a_one_hot_expert_stays_where_it_is() {
    let s = Scratch::new("b82");
    let model = small_model();
    // 12 experts, rank 3: nothing fits the other way round.
    let layout = Layout::new(&model);
    for (expert, matrix) in [(0, "up_proj"), (7, "up_proj"), (11, "down_proj"), (4, "down_proj")] {
        let mut one = Adapter::new(RANK, 3.0, "");
        for (_, part) in layout.parts().filter(|(_, p)| p.name.starts_with("backbone.layers.1.mixer.experts.")) {
            let hot = part.name.contains(&format!(".experts.{expert}.{matrix}"));
            let mut pair = Pair {
                rank: RANK,
                rows: part.shape[0],
                columns: part.shape[1],
                a: vec![0.0; RANK * part.shape[1]],
                b: vec![0.0; RANK * part.shape[0]],
            };
            if hot {
                pair.a[2 * part.shape[1] + 5] = 1.0;
                pair.b[4 * RANK + 2] = 1.0;
            }
            one.pairs.insert(part.name.clone(), pair.into());
        }
        one.write(&s.path("fused"), Flavour::TargetParameters, Dtype::F32).unwrap();
        let bytes = fs::read(s.path("fused/adapter_model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let place = |key: &str| {
            let tensor = file.tensor(key).unwrap();
            let found = tensor.data().chunks(4).position(|b| b != [0; 4]).unwrap();
            (found / tensor.shape()[1], found % tensor.shape()[1])
        };
        let inner = if matrix == "up_proj" { ".base_layer" } else { "" };
        let module = format!("base_model.model.model.layers.1.mixer.experts{inner}");
        assert_eq!(place(&format!("{module}.lora_A.weight")), (expert * RANK + 2, 5));
        assert_eq!(place(&format!("{module}.lora_B.weight")), (4, 2 * 12 + expert));
        assert!(Adapter::read(&s.path("fused")).unwrap().pairs == one.pairs, "expert {expert} {matrix}");
        fs::remove_dir_all(s.path("fused")).unwrap();
    }
}

#[test]
fn b83_merged_weights_act_as_base_and_adapter() {
    let model = small_model();
    let whole = adapter(&model, 5);
    let deltas: BTreeMap<String, Delta> = whole.deltas(&model).unwrap();
    assert_eq!(deltas.len(), whole.pairs.len());
    let mut random = Random(6);
    for (name, delta) in deltas.iter().step_by(3) {
        let pair = &whole.pairs[name];
        let base: Vec<f32> = (0..pair.rows * pair.columns).map(|_| random.float()).collect();
        let x: Vec<f32> = (0..pair.columns).map(|_| random.float()).collect();
        let mut merged = base.clone();
        // In portions of rows, as a conversion does.
        for (i, rows) in merged.chunks_mut(2 * pair.columns).enumerate() {
            delta.add(rows, 2 * i);
        }
        let dot = |w: &[f32], x: &[f32]| w.iter().zip(x).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        for row in 0..pair.rows {
            let inner: Vec<f64> =
                (0..RANK).map(|k| dot(&pair.a[k * pair.columns..(k + 1) * pair.columns], &x)).collect();
            let low: f64 = (0..RANK).map(|k| f64::from(pair.b[row * RANK + k]) * inner[k]).sum();
            let apart = dot(&base[row * pair.columns..(row + 1) * pair.columns], &x) + 2.0 * low;
            let together = dot(&merged[row * pair.columns..(row + 1) * pair.columns], &x);
            assert!((apart - together).abs() < 1e-4, "{name}: {apart} {together}");
        }
    }
}

#[test]
fn b85_experts_of_a_group_share_one_adapter() {
    let s = Scratch::new("b85");
    let mut random = Random(9);
    let mut grouped = Adapter::new(RANK, 3.0, "");
    for (matrix, rows, columns) in [("up_proj", 7, 20), ("down_proj", 20, 7)] {
        let groups = (0..4).map(|_| pair(rows, columns, &mut random)).collect();
        grouped.add_expert_groups("backbone.layers.1.mixer", matrix, 12, groups).unwrap();
    }
    for flavour in [Flavour::PerModule, Flavour::TargetParameters] {
        grouped.write(&s.path("adapter"), flavour, Dtype::BF16).unwrap();
        let read = Adapter::read(&s.path("adapter")).unwrap();
        assert_eq!(read, grouped);
        for e in 0..12 {
            let name = |e: usize| format!("backbone.layers.1.mixer.experts.{e}.up_proj.weight");
            let first = &read.pairs[&name(e / 3 * 3)];
            assert!(std::sync::Arc::ptr_eq(&read.pairs[&name(e)], first), "expert {e} is a copy");
        }
    }
    let error = grouped.add_expert_groups("x", "up_proj", 12, vec![pair(1, 1, &mut random); 5]).unwrap_err();
    assert!(error.to_string().contains("5 pairs"), "{error}");
}

#[test]
fn settings_that_change_the_arithmetic_are_refused() {
    let s = Scratch::new("settings");
    let model = small_model();
    adapter(&model, 1).write(&s.path("adapter"), Flavour::PerModule, Dtype::F32).unwrap();
    let path = s.path("adapter/adapter_config.json");
    let config: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for (key, value) in [
        ("use_dora", serde_json::json!(true)),
        ("fan_in_fan_out", serde_json::json!(true)),
        ("bias", serde_json::json!("all")),
        ("peft_type", serde_json::json!("IA3")),
        ("modules_to_save", serde_json::json!(["lm_head"])),
        ("rank_pattern", serde_json::json!({ "q_proj": 4 })),
        ("r", serde_json::json!(0)),
        ("r", serde_json::json!(5)),
    ] {
        let mut changed = config.clone();
        changed[key] = value;
        fs::write(&path, changed.to_string()).unwrap();
        let error = Adapter::read(&s.path("adapter")).unwrap_err().to_string();
        assert!(error.contains(key) || error.contains("rank 3"), "{key}: {error}");
    }
    fs::write(&path, config.to_string()).unwrap();
    assert!(Adapter::read(&s.path("adapter")).is_ok());
    fs::remove_file(&path).unwrap();
    assert!(Adapter::read(&s.path("adapter")).unwrap_err().to_string().contains("adapter_config.json"));
}
