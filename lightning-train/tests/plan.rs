//! The verb `plan` and the promise behind it: the run allocates what was planned.

use lightning_core::cpu::CpuDevice;
use lightning_core::model::{Model, ProgramKind, Trace};
use lightning_core::rng::Philox;
use lightning_train::cli::Failure;
use lightning_train::config::launch::Launch;
use lightning_train::config::resolve::{Layers, Resolved};
use lightning_train::plan::estimate::{Estimate, Measured, Planner, cpu_bytes};
use lightning_train::plan::{communication, targets};
use lightning_train::recipes;
use lightning_train::train::device::DeviceChoice;
use lightning_train::train::engine::Engine;
use lightning_train::train::settings;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const GIB: f64 = 1_073_741_824.0;

/// What the process may hold beside the planned memory: code, stacks, tokenizer, data and the allocator's own.
const OUTSIDE_THE_PLAN: u64 = 256 << 20;

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
    let planner = Planner::new(&resolved.config, world, target, Measured::new())?;
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

#[test]
fn every_recipe_plans_in_two_seconds() {
    for recipe in recipes::all() {
        let begin = Instant::now();
        let resolved = resolve(recipe.name, recipe.gpus, &[]);
        let target = targets::of_recipe(Some(recipe));
        let planner = Planner::new(&resolved.config, recipe.gpus, target, Measured::new()).unwrap();
        let e = planner.estimate(&planner.shape()).unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(2), "{}: {took:?}", recipe.name);
        assert!(e.total() > 0.0 && e.total().is_finite() && e.honest > 0.0, "{}", recipe.name);
        println!("{:68} {:6.1} GiB  {took:?}", recipe.name, e.total() / GIB);
    }
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
    let planner = Planner::new(&resolved.config, 16, targets::find("h100").unwrap(), Measured::new()).unwrap();
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
        let planner = Planner::new(config, 1, targets::find("cpu").unwrap(), Measured::new()).unwrap();
        assert!(planner.exact());
        let e = planner.estimate(&planner.shape()).unwrap();
        let (spec, adam) = (settings::model_spec(config).unwrap(), settings::adam(config).unwrap());
        let threads = config.device.threads.unwrap();
        let mut engine = Engine::new(spec.clone(), Some(&adam), &DeviceChoice::Cpu { threads }, Trace::Off).unwrap();
        let run = engine.allocated_bytes();
        assert_eq!(cpu_bytes(&spec, &adam, threads).unwrap(), run, "round {round}: {overrides:?}");
        let planned = e.statics.total() + e.arena + e.scratch;
        assert_eq!(planned as usize, run, "round {round}: {overrides:?}");
        // One step runs in it and adds nothing.
        engine.model.clone().initialize(&mut engine.device, 3).unwrap();
        engine.micro_batch(true).unwrap();
        engine.micro_batch(false).unwrap();
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
