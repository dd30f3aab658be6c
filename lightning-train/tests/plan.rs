//! The verb `plan` and the promise behind it: the run allocates what was planned.

use lightning_core::cpu::CpuDevice;
use lightning_core::model::{Model, ProgramKind, Trace};
use lightning_core::rng::Philox;
use lightning_train::checkpoint::{Snapshot, TrainState};
use lightning_train::cli::Failure;
use lightning_train::config::launch::Launch;
use lightning_train::config::resolve::{Layers, Resolved};
use lightning_train::plan::advice;
use lightning_train::plan::estimate::{Estimate, Planner, cpu_bytes, sampler_bytes, snapshot_bytes};
use lightning_train::plan::kernel_table::{KernelTable, KernelTime};
use lightning_train::plan::{communication, targets};
use lightning_train::recipes;
use lightning_train::train::device::DeviceChoice;
use lightning_train::train::engine::Engine;
use lightning_train::train::settings;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const GIB: f64 = 1_073_741_824.0;

/// What the process may hold beside the planned memory: code, stacks, tokenizer, data and the allocator's own.
const OUTSIDE_THE_PLAN: u64 = 128 << 20;

fn resolve(recipe: &str, world: usize, overrides: &[&str]) -> Resolved {
    let mut layers = Layers::new();
    layers.recipe(recipe).unwrap();
    for text in overrides {
        layers.set_override(text).unwrap();
    }
    let launch = Launch { world_size: world, source: "test".into(), assumed: true, warning: None };
    layers.finish(launch, &|_| None).unwrap()
}

fn estimate(recipe: &str, world: usize, target: &str, overrides: &[&str]) -> Result<Estimate, Failure> {
    let resolved = resolve(recipe, world, overrides);
    let target = targets::find(target).unwrap();
    let planner = Planner::new(&resolved.config, world, target, None)?;
    planner.estimate(&planner.shape())
}

fn program(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightning-train"));
    for name in ["WORLD_SIZE", "RANK", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_ID"] {
        command.env_remove(name);
    }
    command.args(args).output().expect("the program starts")
}

#[test]
fn static_memory_is_that_of_the_specification() {
    // recipes.md §3.6: weights, gradients, optimizer, sum, in GiB as printed there.
    let h100 = "nemotron_3_5_lightning_pretrain_16gpu_h100_bf16_config";
    let gb200 = "nemotron_3_5_lightning_pretrain_8gpu_gb200_bf16_config";
    let fp32 = [
        "optimizer.use_precision_aware_optimizer=false",
        "optimizer.exp_avg_dtype=f32",
        "optimizer.exp_avg_sq_dtype=f32",
    ];
    let split = ["optimizer.use_precision_aware_optimizer=true"];
    for (recipe, world, overrides, optimizer, sum) in [
        (h100, 16, &fp32[..], "22.99", "45.7"),
        (h100, 16, &[][..], "11.49", "34.2"),
        (gb200, 8, &fp32[..], "45.98", "68.7"),
        (gb200, 8, &split[..], "38.32", "61.0"),
    ] {
        let s = estimate(recipe, world, "h100", overrides).unwrap().statics;
        assert_eq!(format!("{:.2}", s.weights / GIB), "11.35", "{recipe}");
        assert_eq!(format!("{:.2}", s.gradients / GIB), "11.35", "{recipe}");
        // The page prints 38.3 for the last row.
        assert_eq!(format!("{:.2}", s.optimizer() / GIB), optimizer, "{recipe} {overrides:?}");
        let all = s.weights + s.gradients + s.optimizer();
        assert_eq!(format!("{:.1}", all / GIB), sum, "{recipe} {overrides:?}");
    }
}

#[test]
fn the_pretraining_recipe_is_planned_by_name() {
    let output = program(&["plan", "--recipe", "nemotron_3_5_lightning_pretrain_config"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for words in [
        "32,913,266,240 parameters in 6,513 tensors",
        "16 ranks on h100: TP1 CP2 EP8 ETP1 DP8 EDP2",
        "28,147,236,864 FLOP per token charged",
        "68.55  allocated, 73.89 reserved: recorded with the public stack, not with this program",
        "expert dispatch",
        "  fits",
    ] {
        assert!(text.contains(words), "`{words}` is missing:\n{text}");
    }
    let output =
        program(&["plan", "--recipe", "nemotron_3_5_lightning_pretrain_config", "--json", "--ops", "--target=h200"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["parameters"], 32_913_266_240_u64);
    assert_eq!(json["target"], "h200");
    let honest = json["flops_per_token"]["honest"].as_f64().unwrap();
    assert!((honest / 26.9e9 - 1.0).abs() < 0.01, "{honest}");
    assert!(json["ops"].as_array().unwrap().len() > 500);
}

#[test]
fn bad_input_is_named() {
    let recipe = ["plan", "--recipe", "nemotron_3_5_lightning_pretrain_config"];
    for (more, words) in [
        (&["--target", "h300"][..], "known are cpu, h100, h200, gb200"),
        (&["--target"], "--target needs a value"),
        (&["model.pipeline_model_parallel_size=2"], "pipeline"),
        (&["--measured", "/nonexistent.json"], "--measured /nonexistent.json"),
    ] {
        let output = program(&[&recipe[..], more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(words), "{more:?}: {text}");
    }
}

/// Time that this thread had a processor: what else the machine does plays no part.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn every_recipe_plans_in_half_a_second_with_its_advice() {
    for recipe in recipes::all() {
        let plan = || {
            let begin = processor_time();
            let resolved = resolve(recipe.name, recipe.gpus, &[]);
            let target = targets::of_recipe(Some(recipe));
            let planner = Planner::new(&resolved.config, recipe.gpus, target, None).unwrap();
            let e = planner.estimate(&planner.shape()).unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
            advice::recomputation(&planner, &e).unwrap();
            advice::knobs(&planner).unwrap();
            (e, processor_time() - begin)
        };
        let (e, took) = plan();
        assert!(took < Duration::from_millis(500), "{}: {took:?}", recipe.name);
        assert!(e.total() > 0.0 && e.total().is_finite() && e.honest > 0.0, "{}", recipe.name);
    }
}

#[test]
fn every_knob_does_what_it_says() {
    // Typed on the command line, a knob makes the very plan that it promised; derived settings change nothing about it.
    let mut kinds = std::collections::BTreeSet::new();
    for recipe in recipes::all().filter(|r| r.mode == lightning_train::config::choices::Mode::Pretrain) {
        let resolved = resolve(recipe.name, recipe.gpus, &[]);
        let target = targets::find("h100").unwrap();
        let planner = Planner::new(&resolved.config, recipe.gpus, target, None).unwrap();
        let base = planner.estimate(&planner.shape()).unwrap();
        for knob in advice::knobs(&planner).unwrap() {
            let words: Vec<String> = knob.setting.split(' ').map(|w| w.trim_matches('\'').to_string()).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let turned = resolve(recipe.name, recipe.gpus, &words);
            let again = Planner::new(&turned.config, recipe.gpus, target, None).unwrap();
            let e = again.estimate(&again.shape()).unwrap();
            assert_eq!(base.total() - e.total(), knob.saves, "{} {}", recipe.name, knob.setting);
            assert!(knob.saves > 0.0 && knob.fits == e.fits(), "{} {}", recipe.name, knob.setting);
            kinds.insert(words[0].split('=').next().unwrap().to_string());
        }
    }
    for key in [
        "model.recompute_granularity",
        "train.micro_batch_size",
        "model.context_parallel_size",
        "ddp.use_megatron_fsdp",
        "optimizer.use_precision_aware_optimizer",
        "model.seq_length",
    ] {
        assert!(kinds.contains(key), "no recipe gets {key}: {kinds:?}");
    }
    // A recipe with fp32 gradients and an optimizer on every rank gets both knobs.
    let wide = ["mixed_precision.grad_accum_dtype=f32", "optimizer.use_distributed_optimizer=false"];
    let resolved = resolve("nemotron_3_5_lightning_pretrain_config", 16, &wide);
    let planner = Planner::new(&resolved.config, 16, targets::find("h100").unwrap(), None).unwrap();
    let knobs = advice::knobs(&planner).unwrap();
    for setting in ["mixed_precision.grad_accum_dtype=bf16", "optimizer.use_distributed_optimizer=true"] {
        assert!(knobs.iter().any(|k| k.setting == setting), "{setting}: {knobs:?}");
    }
}

#[test]
fn low_precision_keeps_casts_where_nothing_else_needs_the_values() {
    let recipe = "nemotron_3_5_lightning_pretrain_8gpu_gb200_bf16_config";
    let with = |class: &str, more: &[&str]| {
        let class = format!("mixed_precision.precision={class}");
        estimate(recipe, 8, "gb200", &[&[class.as_str()], more].concat()).unwrap()
    };
    let slots =
        |e: &Estimate| e.program.buffers.iter().find(|b| b.name == "layers.1/forward/xs").unwrap().bytes() as f64;
    let (bf16, mx, fp4) = (with("bf16", &[]), with("fp8_mx", &[]), with("nvfp4", &[]));
    // Inputs of routed experts, 2 x 8192 tokens to 6 experts each.
    assert_eq!(slots(&bf16), 2.0 * 16384.0 * 6.0 * 2688.0);
    assert!(
        (slots(&mx) / slots(&bf16) - 33.0 / 64.0).abs() < 1e-6
            && (slots(&fp4) / slots(&bf16) - 9.0 / 32.0).abs() < 1e-6
    );
    let moe = |e: &Estimate| e.activations.saved.iter().find(|(k, _)| *k == "moe").unwrap().1;
    assert!(moe(&fp4) < moe(&mx) && moe(&mx) < moe(&bf16));
    // What the router reads stays in bf16 and is cast for the shared expert besides.
    let normed =
        mx.program.buffers.iter().filter(|b| b.name.starts_with("layers.1") && b.name.contains("(cast)")).count();
    assert!(normed >= 1 || mx.program.buffers.iter().any(|b| b.name.contains("normed (cast)")));
    // The MTP block stays in bf16 unless it is told otherwise.
    let mtp = |e: &Estimate| e.program.buffers.iter().find(|b| b.name == "mtp1.1/forward/xs").unwrap().bytes();
    assert_eq!(mtp(&mx), mtp(&bf16));
    assert!(mtp(&with("fp8_mx", &["model.keep_mtp_spec_in_bf16=false"])) < mtp(&bf16));
    assert!(mx.compute_seconds < bf16.compute_seconds && fp4.compute_seconds < mx.compute_seconds);
    assert!(mx.moved > bf16.moved, "casts pass through memory");
}

#[test]
fn measured_kernels_replace_the_roofs() {
    let resolved = resolve("nemotron_3_5_lightning_pretrain_config", 16, &[]);
    let target = targets::find("h100").unwrap();
    let seconds = |kernels: Vec<KernelTime>| {
        let table = Some(KernelTable::new("h100", "test", 0, kernels));
        let planner = Planner::new(&resolved.config, 16, target, table).unwrap();
        let e = planner.estimate(&planner.shape()).unwrap();
        let linear =
            |op: &str| e.program.nodes.iter().filter(|n| n.op.name() == op).map(|n| n.op.flops() as f64).sum::<f64>();
        (e.compute_seconds, linear("linear_fwd") * e.micro_batches / target.flops)
    };
    let (roofs, linear) = seconds(vec![]);
    // One call that reaches half the roof: all of its kind take twice as long, and nothing else changes.
    let half = |op: &str, precision: &str| KernelTime {
        op: op.into(),
        precision: Some(precision.into()),
        flops: 1e12,
        bytes: 1e6,
        seconds: 2.0 * 1e12 / target.flops,
    };
    let (measured, _) = seconds(vec![half("linear_fwd", "bf16")]);
    assert!((measured - roofs) / linear > 0.999 && (measured - roofs) / linear < 1.3, "{roofs} {measured} {linear}");
    assert_eq!(seconds(vec![half("linear_fwd", "fp8"), half("no_such_op", "bf16")]).0, roofs);
}

#[test]
fn a_token_reaches_4_47_of_8_ranks() {
    // kernels.md §1.4: 3.91 remote ranks, 172 MB per dispatch of 8192 tokens.
    let remote = communication::remote_ranks(128, 6, 8);
    assert!((remote - 3.91).abs() < 0.01, "{remote}");
    assert!((8192.0 * remote * 2688.0 * 2.0 / 172e6 - 1.0).abs() < 0.01);
    assert_eq!(communication::remote_ranks(128, 6, 1), 0.0);
}

#[test]
fn the_longest_sequence_fits_and_the_next_does_not() {
    let resolved = resolve("nemotron_3_5_lightning_pretrain_config", 16, &[]);
    let planner = Planner::new(&resolved.config, 16, targets::find("h100").unwrap(), None).unwrap();
    let longest = lightning_train::plan::advice::longest_sequence(&planner).unwrap().unwrap();
    let fits = |row_len: usize| {
        let shape = lightning_train::plan::ranks::Shape { row_len, ..planner.shape() };
        planner.estimate(&shape).unwrap().fits()
    };
    assert!(longest >= 8192 && fits(longest) && !fits(longest + 128), "{longest}");
}

/// A small random run of the family.
fn random_overrides(rng: &mut Philox) -> Vec<String> {
    let patterns = ["M*E", "ME", "M-*E", "EM*", "*-M", "MEM*E"];
    let mut list = vec![
        format!("model.hybrid_layer_pattern={}", patterns[rng.below(6) as usize]),
        format!("model.num_layers={}", 0),
        "model.hidden_size=64".into(),
        "model.ffn_hidden_size=96".into(),
        format!("model.vocab_size={}", 300 + rng.below(50)),
        format!("model.mtp_num_layers={}", rng.below(3)),
        format!("model.moe_ffn_hidden_size={}", 16 + rng.below(40)),
        format!("train.micro_batch_size={}", 1 + rng.below(2)),
        "train.global_batch_size=4".into(),
        format!("device.threads={}", 1 + rng.below(3)),
        format!("mixed_precision.precision={}", ["f32", "bf16"][rng.below(2) as usize]),
        format!("dataset.inter_document_masking={}", rng.below(2) == 1),
    ];
    if rng.below(2) == 1 {
        list.push("logger.sample_interval=2".into());
        list.push(format!("logger.sample_tokens={}", 1 + rng.below(40)));
        list.push(format!("logger.sample_prompt=\"{}\"", "a word ".repeat(rng.below(4) as usize)));
    }
    let length = 17 + rng.below(60);
    list.push(format!("model.seq_length={length}"));
    list.push(format!("dataset.seq_length={length}"));
    match rng.below(3) {
        0 => {
            list.push("model.recompute_granularity=selective".into());
            list.push("model.recompute_modules=[moe, layernorm, core_attn]".into());
        }
        1 => {
            list.push("model.recompute_granularity=full".into());
            list.push("model.recompute_method=uniform".into());
            list.push("model.recompute_num_layers=2".into());
        }
        _ => {}
    }
    let pattern = list[0].rsplit('=').next().unwrap().len();
    list[1] = format!("model.num_layers={pattern}");
    list
}

#[test]
fn the_plan_is_what_the_run_allocates() {
    let mut rng = Philox::new(1630, 11);
    for round in 0..12 {
        let overrides = random_overrides(&mut rng);
        let texts: Vec<&str> = overrides.iter().map(String::as_str).collect();
        let resolved = resolve("demo_pretrain_config", 1, &texts);
        let config = &resolved.config;
        let planner = Planner::new(config, 1, targets::find("cpu").unwrap(), None).unwrap();
        assert!(planner.exact());
        let e = planner.estimate(&planner.shape()).unwrap();
        let (spec, adam) = (settings::model_spec(config).unwrap(), settings::adam(config).unwrap());
        let threads = config.device.threads.unwrap();
        let mut engine = Engine::new(spec.clone(), Some(&adam), &DeviceChoice::Cpu { threads }, Trace::Off).unwrap();
        let run = engine.allocated_bytes();
        assert_eq!(cpu_bytes(&spec, &adam, threads).unwrap(), run, "round {round}: {overrides:?}");
        let planned = e.statics.total() + e.arena + e.scratch;
        assert_eq!(planned as usize, run, "round {round}: {overrides:?}");
        // The second engine of samples.
        let sampler = lightning_train::train::sample::SampleSettings::of(config).map_or(0, |(_, settings)| {
            Engine::new(settings.spec(&spec), None, &DeviceChoice::Cpu { threads }, Trace::Full)
                .unwrap()
                .allocated_bytes()
        });
        assert_eq!(
            sampler_bytes(config, &spec, &DeviceChoice::Cpu { threads }).unwrap(),
            sampler,
            "round {round}: {overrides:?}"
        );
        let held = Snapshot::take(&engine, &TrainState::default(), "", true).unwrap().bytes();
        assert_eq!(e.total() as usize, run + sampler + held, "round {round}: {overrides:?}");
        assert_eq!(sampler > 0, overrides.iter().any(|o| o.contains("sample_interval")));
        // One step runs in it and adds nothing.
        engine.model.clone().initialize(&mut engine.device, 3).unwrap();
        engine.micro_batch(true).unwrap();
        engine.micro_batch(false).unwrap();
        engine.step(4).unwrap();
        assert_eq!(engine.allocated_bytes(), run);
        assert!(e.activations.peak as f64 <= e.arena);
    }
}

#[test]
fn a_plan_of_one_program_bounds_its_arena() {
    let resolved = resolve("demo_pretrain_config", 1, &[]);
    let model = Model::new(settings::model_spec(&resolved.config).unwrap()).unwrap();
    let program = model.micro_batch(ProgramKind::TrainFirst, Trace::Off).unwrap();
    let device = CpuDevice::new(&model.persistent, &[&program], 1).unwrap();
    let peak = program.peak();
    assert!(peak.bytes <= program.arena_bytes && program.arena_bytes < 2 * peak.bytes);
    assert!(device.allocated_bytes() > program.arena_bytes);
    let alive: usize =
        program.alive_at(peak.node).iter().map(|id| program.buffer(*id).bytes().next_multiple_of(256)).sum();
    assert_eq!(alive, peak.bytes);
}

#[test]
fn a_run_that_cannot_fit_is_refused_before_it_begins() {
    let begin = Instant::now();
    let output = program(&[
        "train",
        "--recipe",
        "demo_pretrain_config",
        "dataset.kind=mock",
        "--seq-length",
        "1000000",
        "train.micro_batch_size=16",
        "train.global_batch_size=16",
        "train.train_iters=1",
        "model.max_position_embeddings=1000000",
    ]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("nothing was allocated") && text.contains("train.micro_batch_size=8"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_process_outside_the_plan_stays_under_its_bound() {
    let folder = std::env::temp_dir().join(format!("lightning-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let settings = [
        "dataset.kind=mock",
        "train.train_iters=3",
        "train.global_batch_size=4",
        "train.micro_batch_size=4",
        "checkpoint.save_interval=null",
        "device.threads=2",
    ];
    let resolved = resolve("demo_pretrain_config", 1, &settings);
    let planned =
        cpu_bytes(&settings::model_spec(&resolved.config).unwrap(), &settings::adam(&resolved.config).unwrap(), 2)
            .unwrap() as u64;
    // The run saves at its end.
    let model = Model::new(settings::model_spec(&resolved.config).unwrap()).unwrap();
    let planned = planned + snapshot_bytes(&model, true) as u64;
    let mut child = Command::new(env!("CARGO_BIN_EXE_lightning-train"))
        .args(["train", "--recipe", "demo_pretrain_config"])
        .args(settings)
        .current_dir(&folder)
        .env("LIGHTNING_CACHE", folder.join("cache"))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|l| l.starts_with("VmHWM:"));
        let kb = line.and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse::<u64>().ok());
        most = most.max(kb.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = child.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(ended.success());
    assert!(most > planned / 4, "the high-water mark was not seen: {most}");
    assert!(most < planned + OUTSIDE_THE_PLAN, "{most} bytes, {planned} planned");
}
