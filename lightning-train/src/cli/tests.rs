use super::*;
use proptest::prelude::*;

struct Ran {
    exit: Exit,
    out: String,
    err: String,
}

fn ran(line: &str, environment: &[(&str, &str)], actions: &Actions) -> Ran {
    let words: Vec<String> = line.split_whitespace().map(String::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let environment = |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
    let exit = run(&words, actions, &mut Process { environment: &environment, out: &mut out, err: &mut err });
    Ran { exit, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

fn plain(line: &str) -> Ran {
    ran(line, &[], &Actions::default())
}

/// Actions that only say that they were reached.
fn full() -> Actions {
    Actions {
        train: Some(|request| Err(Failure::new(Exit::Requeue, request.resolved.config.run.mode.name()))),
        verify_parity: Some(|args| Err(Failure::new(Exit::Verification, args.hf + &args.golden))),
        bench_kernels: Some(|args| Err(Failure::new(Exit::Unexpected, args.shapes + &args.filter))),
        bench_step: Some(|args| Err(Failure::new(Exit::Unexpected, format!("{} {}", args.config, args.steps)))),
        ..Actions::default()
    }
}

#[test]
fn every_train_flag_reaches_its_argument() {
    for flag in verbs::TRAIN_FLAGS {
        let value = match flag.takes {
            argv::Takes::Value | argv::Takes::Settings(_) => true,
            argv::Takes::Switch => false,
            _ => continue,
        };
        let long = format!("--{}", flag.long);
        let words: Vec<&str> = if value { vec![long.as_str(), "7"] } else { vec![long.as_str()] };
        let args = verbs::TrainArgs::from_args(&["x"], &words).unwrap_or_else(|e| panic!("{long}: {}", e.output));
        if let argv::Takes::Settings(keys) = flag.takes {
            let found = args.setting_flags();
            assert!(found.len() == 1 && found[0].0.long == flag.long && found[0].1 == "7", "{long}");
            for key in keys {
                assert!(crate::config::RunConfig::field(key).is_some(), "{key}");
            }
        }
    }
    // And every flag that argh knows is in the table.
    let help = verbs::TrainArgs::from_args(&["x"], &["--help"]).unwrap_err().output;
    for name in help.split_whitespace().filter_map(|w| w.strip_prefix("--")).filter(|w| *w != "help") {
        let name = name.trim_end_matches(|c: char| !c.is_ascii_lowercase());
        let known = verbs::TRAIN_FLAGS.iter().chain([&Flag::new("flags", argv::Takes::Switch)]).any(|f| f.long == name);
        assert!(known, "--{name} is not in the table");
    }
}

#[test]
fn tables_of_two_word_verbs_fit_argh() {
    let r = ran("verify parity --hf_model a --golden=b --grads c --dtype bf16 --threads 2 --json", &[], &full());
    assert_eq!((r.exit, r.err.as_str()), (Exit::Verification, "error: ab\n"));
    let r = ran("bench step --config demo --steps=9 -mb 2 -sl 33 --dtype f64 --threads 1 --json", &[], &full());
    assert_eq!((r.exit, r.err.as_str()), (Exit::Unexpected, "error: demo 9\n"));
    let r = ran("verify parity --golden b", &[], &full());
    assert!(r.exit == Exit::Usage && r.err.contains("--hf"), "{}", r.err);
    let r = ran("bench kernels --shapes tiny --filter=linear --tokens 3 --repeats 1 --device sim --json", &[], &full());
    assert_eq!((r.exit, r.err.contains("tinylinear")), (Exit::Unexpected, true), "{}", r.err);
    let r = ran("bench step --steps=many", &[], &full());
    assert!(r.exit == Exit::Usage && r.err.contains("many"), "{}", r.err);
    assert_eq!(ran("bench step a.b=1", &[], &full()).exit, Exit::Usage);
}

#[test]
fn only_verbs_that_exist_are_named() {
    let r = plain("--help");
    assert_eq!(r.exit, Exit::Done);
    assert!(r.out.contains("Exit codes") && r.out.contains("train") && !r.out.contains("verify"), "{}", r.out);
    assert!(ran("help", &[], &full()).out.contains("verify parity"));
    assert_eq!(plain("verify parity --hf a --golden b").exit, Exit::Usage);
    let r = plain("trian --recipe demo_pretrain_config");
    assert!(r.exit == Exit::Usage && r.err.contains("`trian`") && r.err.contains("train"), "{}", r.err);
    let r = ran("verify partiy", &[], &full());
    assert!(r.err.contains("verify parity"), "{}", r.err);
    assert_eq!(plain("").exit, Exit::Usage);
    assert!(plain("--version").out.starts_with("lightning-train 0"));
}

#[test]
fn help_shows_the_grammar_and_the_exit_codes() {
    for line in ["train --help", "sft -h", "lora --recipe x --help"] {
        let r = plain(line);
        assert_eq!(r.exit, Exit::Done);
        for part in ["--recipe", "null  true  false", "[moe, core_attn]", "75 saved on a signal", "--list-settings"] {
            assert!(r.out.contains(part), "{line}: {part}");
        }
    }
    let r = plain("train --list-settings");
    assert!(r.out.contains("optimizer.lr = 0.0003") && r.out.contains("takes a number"), "{}", r.out);
    assert!(plain("train --list-recipes").out.contains("nemotron_3_5_lightning_pretrain_config"));
}

#[test]
fn overrides_win_over_flags_and_flags_over_the_recipe() {
    let r = plain("train --recipe demo_pretrain_config optimizer.lr=5e-3 --lr 4e-3 -ms 7 --dry-run");
    assert_eq!(r.exit, Exit::Done, "{}", r.err);
    assert!(r.out.contains("lr = 0.005  # override"), "{}", r.out);
    assert!(r.out.contains("train_iters = 7  # flag --max-steps"), "{}", r.out);
    assert!(r.out.contains("lr_decay_iters = 7  # derived: train.train_iters"), "{}", r.out);
    assert!(r.err.contains("nothing was written"), "{}", r.err);
    let r = plain("train --recipe demo_pretrain_config --seq_length=128 --dry-run --json");
    let json: serde_json::Value = serde_json::from_str(&r.out).unwrap();
    assert_eq!(json["config"]["dataset"]["seq_length"], 128);
    assert_eq!(json["origins"]["model.seq_length"], "flag --seq-length");
}

#[test]
fn public_commands_run_with_their_launcher_flags() {
    let r = plain(
        "train --recipe nemotron_3_5_lightning_pretrain_config --mode pretrain --dataset megatron-indexed --nodes 2 \
         --gpus-per-node 8 --account A --partition P --time 04:00:00 --container-image img --mount /a:/b --env HF_TOKEN \
         --env SECRET=abc --additional-slurm-params segment=2 --wait --max_steps 20 --lr 3e-4 --min_lr 3e-5 --warmup_iters 8 \
         --save_dir /out --save_interval 10 dataset.blend=[[\"/rp2/middle_01_text_document\"],null] \
         dataset.split=\"9999,8,2\" scheduler.lr_decay_iters=20 validation.eval_interval=0 validation.eval_iters=0 \
         checkpoint.load=null logger.log_interval=1 --dry-run",
    );
    assert_eq!(r.exit, Exit::Done, "{}", r.err);
    assert!(r.err.contains("16 ranks (--nodes 2 --gpus-per-node 8), 8 data-parallel"), "{}", r.err);
    assert!(r.err.contains("--account A: concerns a scheduler") && !r.err.contains("abc"), "{}", r.err);
    assert!(r.out.contains("split = \"9999,8,2\"") && r.out.contains("save = \"/out\""), "{}", r.out);
    for line in [
        "train --recipe nemotron_3_5_lightning_pretrain_8gpu_gb200_bf16_config --max_steps 50 --nodes 2 --gpus-per-node 4 --dry-run",
        "train --recipe nemotron_3_5_lightning_pretrain_16gpu_h100_bf16_config -ms 50 --dry-run",
        "train --model nemotron_3_5_lightning --mode sft --dataset openmathinstruct2 -tp 2 -cp 2 -sl 32768 --dry-run",
        "lora --recipe nemotron_3_5_lightning_peft_config --dataset openmathinstruct2 --seq_length 4096 -tp 2 \
         model.sequence_parallel=true --pretrained_checkpoint /c --dry-run",
    ] {
        let r = plain(line);
        assert_eq!(r.exit, Exit::Done, "{line}: {}", r.err);
    }
}

/// Command, ranks, settings that must come out.
type PublicRun = (&'static str, usize, &'static [(&'static str, &'static str)]);

/// Training commands of the public model page, up to paths.
#[rustfmt::skip]
const PUBLIC_RUNS: &[PublicRun] = &[
    ("--nodes 2 --gpus-per-node 4 --additional-slurm-params segment=2 --recipe nemotron_3_5_lightning_pretrain_8k_fsdp_config \
      --mode pretrain --dataset megatron-indexed --seq_length 8192 --max_steps 100 --lr 3e-4 --min_lr 3e-5 --warmup_iters 8 \
      dataset.blend=[[\"data/middle_01_text_document\"],null] dataset.path_to_cache=cache rng.seed=1234 \
      dataset.random_seed=1234 scheduler.lr_decay_iters=100 validation.eval_iters=0 validation.eval_interval=0 \
      model.moe_router_force_load_balancing=false checkpoint.load=null checkpoint.async_save=false --save_dir out \
      logger.log_interval=1 logger.log_throughput=true logger.tensorboard_dir=null dist.distributed_timeout_minutes=120",
     8, &[("optimizer.lr", "0.0003"), ("scheduler.lr_decay_iters", "100"), ("dataset.blend", "[[data/middle_01_text_document], null]"),
          ("dataset.split", "\"9999,8,2\""), ("checkpoint.save_interval", "50")]),
    ("--nodes 2 --gpus-per-node 8 --recipe nemotron_3_5_lightning_sft_openmathinstruct2_packed_config --mode sft --max_steps 100 \
      --pretrained_checkpoint base --save_dir out",
     16, &[("checkpoint.pretrained_checkpoint", "base"), ("dataset.kind", "openmathinstruct2"), ("dataset.pad_seq_to_mult", "2")]),
    ("--nodes 2 --gpus-per-node 8 --recipe nemotron_3_5_lightning_sft_config --mode sft --dataset openmathinstruct2 \
      --max_steps 100 --seq_length 32768 --lr 5e-6 --min_lr 0 --warmup_iters 10 --tensor_model_parallel_size 2 \
      --context_parallel_size 2 --expert_tensor_parallel_size 1 --expert_model_parallel_size 8 --pretrained_checkpoint base \
      dataset.hf_dataset.load_kwargs={revision:\"a469216e3\"} dataset.enable_offline_packing=true \
      dataset.offline_packing_specs={packed_sequence_size:32768,pad_seq_to_mult:4} model.sequence_parallel=true \
      model.cp_comm_type=p2p model.cross_entropy_loss_fusion=true model.calculate_per_token_loss=true \
      model.recompute_granularity=full model.recompute_modules=null model.recompute_method=uniform model.recompute_num_layers=1 \
      model.moe_router_force_load_balancing=false ddp.average_in_collective=false ddp.overlap_param_gather=false \
      optimizer.overlap_param_gather=false scheduler.lr_decay_iters=100 validation.eval_iters=0 validation.eval_interval=0 \
      checkpoint.load=null checkpoint.save_optim=false checkpoint.save_rng=false checkpoint.async_save=false --save_dir out \
      --save_interval 50 logger.log_interval=1 logger.log_throughput=true logger.tensorboard_dir=null",
     16, &[("dataset.pad_seq_to_mult", "4"), ("dataset.packed_sequence_size", "32768"), ("dataset.hf_revision", "a469216e3"),
           ("mixed_precision.grad_accum_dtype", "f32"), ("model.recompute_modules", "null")]),
    ("--nodes 1 --gpus-per-node 8 --recipe nemotron_3_5_lightning_peft_config --mode lora --dataset openmathinstruct2 \
      --max_steps 100 --seq_length 4096 --lr 1e-4 --min_lr 0 --warmup_iters 10 --tensor_model_parallel_size 2 \
      --expert_tensor_parallel_size 1 --expert_model_parallel_size 8 --pretrained_checkpoint base \
      dataset.offline_packing_specs={packed_sequence_size:4096,pad_seq_to_mult:2} model.sequence_parallel=true \
      scheduler.lr_decay_iters=100 validation.eval_iters=0 validation.eval_interval=0 checkpoint.load=null --save_dir out",
     8, &[("peft.scheme", "lora"), ("peft.dim", "32"), ("dataset.pad_seq_to_mult", "2"), ("model.seq_length", "4096")]),
    ("--wait --nodes 2 --gpus-per-node 4 --additional-slurm-params segment=2 \
      --recipe nemotron_3_5_lightning_pretrain_8gpu_gb200_fp8mx_fsdp_config --mode pretrain --max_steps 20",
     8, &[("train.global_batch_size", "384"), ("scheduler.lr_decay_iters", "50"), ("train.train_iters", "20")]),
];

#[test]
fn commands_of_the_model_page_resolve() {
    for (command, ranks, values) in PUBLIC_RUNS {
        let r = plain(&format!("train {command} --dry-run --json"));
        assert_eq!(r.exit, Exit::Done, "{command}: {}", r.err);
        let json: serde_json::Value = serde_json::from_str(&r.out).unwrap();
        assert_eq!(json["world_size"], *ranks);
        let text = plain(&format!("train {command} --dry-run")).out;
        let path = std::env::temp_dir().join(format!("lightning-run-{}-{ranks}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let mut layers = crate::config::Layers::new();
        layers.file(path.to_str().unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        for (key, value) in *values {
            assert_eq!(layers.config().get(key).unwrap().to_string(), *value, "{command}: {key}");
        }
    }
}

/// A long-context run from its own recipe is the public recipe with the public overrides.
#[test]
fn variants_equal_the_public_commands() {
    let resolve = |line: &str| -> serde_json::Value {
        let r = plain(&format!("{line} --dry-run --json"));
        assert_eq!(r.exit, Exit::Done, "{line}: {}", r.err);
        serde_json::from_str(&r.out).unwrap()
    };
    let mut run = resolve(&format!("train {}", PUBLIC_RUNS[2].0));
    let ours = resolve(
        "train --nodes 2 --gpus-per-node 8 --recipe nemotron_3_5_lightning_sft_long_context_h100_config \
         --pretrained_checkpoint base --save_dir out dataset.hf_revision=a469216e3",
    );
    run["config"]["run"]["recipe"] = ours["config"]["run"]["recipe"].clone();
    assert_eq!(run["config"], ours["config"]);
}

#[test]
fn more_than_one_rank_is_refused_with_the_way_out() {
    let tiny = "train --recipe tiny_pretrain_config";
    let r = ran(tiny, &[], &full());
    assert_eq!(r.exit, Exit::Usage);
    let paste = "model.context_parallel_size=1 model.expert_model_parallel_size=1";
    assert!(r.err.contains(paste), "{}", r.err);
    assert_eq!(ran(&format!("{tiny} {paste}"), &[], &full()).exit, Exit::Requeue);
    for environment in [
        &[("WORLD_SIZE", "4")][..],
        &[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0")],
        &[("OMPI_COMM_WORLD_SIZE", "4")],
    ] {
        let r = ran("train --recipe demo_pretrain_config", environment, &full());
        assert!(r.exit == Exit::Usage && r.err.contains("4 ranks") && r.err.contains(environment[0].0), "{}", r.err);
        let r = ran(&format!("{tiny} train.global_batch_size=8 --dry-run"), environment, &full());
        assert!(r.exit == Exit::Done && r.err.contains("4 ranks"), "{}", r.err);
    }
    let r = ran("train --recipe demo_pretrain_config", &[("SLURM_NTASKS", "4")], &full());
    assert!(r.exit == Exit::Requeue && r.err.contains("srun"), "{}", r.err);
    let r = ran("train --recipe demo_pretrain_config --nodes 1 --gpus-per-node 2", &[], &full());
    assert!(r.exit == Exit::Usage && r.err.contains("--gpus-per-node 2"), "{}", r.err);
    assert_eq!(ran("train --recipe demo_pretrain_config", &[("WORLD_SIZE", "x")], &full()).exit, Exit::Usage);
}

#[test]
fn modes_agree_with_verbs() {
    assert_eq!(ran("pretrain --recipe demo_pretrain_config", &[], &full()).err, "error: pretrain\n");
    let r = plain("sft --recipe demo_pretrain_config --mode pretrain --dry-run");
    assert!(r.exit == Exit::Usage && r.err.contains("contradict"), "{}", r.err);
    let r = plain("train --recipe demo_pretrain_config --mode dora --dry-run");
    assert!(r.exit == Exit::Usage && r.err.contains("pretrain, sft, lora"), "{}", r.err);
    let r = plain("sft --recipe demo_pretrain_config --dry-run");
    assert!(r.exit == Exit::Usage && r.err.contains("dataset.kind = text"), "{}", r.err);
    let r = plain("pretrain --recipe demo_pretrain_config --dataset gsm8k --dry-run");
    assert!(r.exit == Exit::Usage && r.err.contains("dataset.kind = gsm8k"), "{}", r.err);
    let r = plain("sft --recipe demo_pretrain_config --dataset mock --dry-run");
    assert!(r.exit == Exit::Done && r.err.contains("made for pretrain"), "{}", r.err);
    assert_eq!(plain("train --model demo --dry-run").exit, Exit::Usage);
    assert_eq!(plain("train --model demo --mode pretrain --dry-run").exit, Exit::Done);
}

#[test]
fn mistakes_end_with_exit_code_two() {
    for (line, part) in [
        ("train", "--recipe demo_pretrain_config"),
        ("train --recipe demo", "demo_pretrain_config"),
        ("train --recipe demo_pretrain_config --dry-rnu", "--dry-run"),
        ("train --recipe demo_pretrain_config --max_steps 1.5 --dry-run", "--max-steps = 1.5: expected an integer"),
        ("train --recipe demo_pretrain_config --dataset energon --dry-run", "--dataset = energon"),
        ("train --recipe demo_pretrain_config optimizer.rl=1 --dry-run", "optimizer.lr"),
        ("train --recipe demo_pretrain_config model.recompute_modules=[moe --dry-run", "`]` is missing"),
        ("train --recipe demo_pretrain_config --model demo", "one of them"),
        ("train --config /nonexistent.toml", "/nonexistent.toml"),
        ("train --recipe demo_pretrain_config demo", "demo"),
    ] {
        let r = ran(line, &[], &full());
        assert!(r.exit == Exit::Usage && r.err.contains(part), "{line}: {}", r.err);
        assert!(r.out.is_empty(), "{line}");
    }
}

/// A standard output that fails.
struct Broken(std::io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(self.0.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Err(self.0.into())
    }
}

#[test]
fn a_full_disk_fails_and_a_reader_that_left_does_not() {
    for (kind, exit) in
        [(std::io::ErrorKind::BrokenPipe, Exit::Done), (std::io::ErrorKind::StorageFull, Exit::Unexpected)]
    {
        let mut process = Process { environment: &|_| None, out: &mut Broken(kind), err: &mut Vec::new() };
        assert_eq!(run(&["--help".to_string()], &Actions::default(), &mut process), exit);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_command_lines_end_with_an_exit_code(
        words in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    "train", "sft", "verify", "parity", "bench", "step", "--recipe", "demo_pretrain_config", "--dry-run", "-ms",
                    "-ms=3", "--lr", "1e-3", "--", "-", "---", "--=", "=", "a=b", "optimizer.lr=1", "--json", "--mode", "lora",
                    "--gpus-per-node", "99999999999", "--nodes=2", "--list-recipes", "--help", "--threads=0",
                ]).prop_map(String::from),
                proptest::collection::vec(any::<char>(), 0..6).prop_map(|c| c.into_iter().collect::<String>()),
            ],
            0..8,
        ),
    ) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit = run(&words, &full(), &mut Process { environment: &|_| None, out: &mut out, err: &mut err });
        prop_assert_eq!(exit == Exit::Done, !String::from_utf8(err).unwrap().contains("error: "));
    }
}
