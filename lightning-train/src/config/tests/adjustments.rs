use super::*;

#[test]
fn the_origin_of_every_value_is_kept() {
    let resolved = resolve(Some("demo_pretrain_config"), &["optimizer.lr=1e-3", "n_groups=1"]);
    assert!(resolved.is_err());
    let r = resolve(Some("demo_pretrain_config"), &["optimizer.lr=3e-3", "model.n_groups=2"]).unwrap();
    assert_eq!(r.origin("optimizer.lr"), &Origin::Override);
    assert_eq!(r.origin("model.mamba_num_groups"), &Origin::Override);
    assert_eq!(r.origin("optimizer.min_lr"), &Origin::Recipe("demo_pretrain_config"));
    assert_eq!(r.origin("optimizer.adam_eps"), &Origin::Default);
    assert!(matches!(r.origin("scheduler.lr_decay_iters"), Origin::Derived(_)));
}

#[test]
fn lengths_of_model_and_dataset_are_one() {
    let r = resolve(None, &["model.seq_length=96"]).unwrap();
    assert_eq!(r.config.dataset.seq_length, 96);
    let r = resolve(None, &["dataset.seq_length=97"]).unwrap();
    assert_eq!(r.config.model.seq_length, 97);
    let error = resolve(None, &["dataset.seq_length=97", "model.seq_length=96"]).unwrap_err().to_string();
    assert!(error.contains("model.seq_length = 96") && error.contains("dataset.seq_length = 97"), "{error}");
}

#[test]
fn schedules_follow_the_steps_of_the_run() {
    let r = resolve(None, &["train.train_iters=20", "scheduler.lr_warmup_iters=333"]).unwrap();
    assert_eq!(r.config.scheduler.lr_decay_iters, Some(20));
    assert!(r.notes.iter().any(|n| n.contains("lr_warmup_iters = 333")), "{:?}", r.notes);
    let r = resolve(None, &["train.train_iters=20", "scheduler.max_steps=100"]).unwrap();
    assert_eq!(r.config.scheduler.lr_decay_iters, Some(100));
    let r = resolve(None, &["train.train_iters=20", "scheduler.lr_decay_iters=50"]).unwrap();
    assert_eq!((r.config.scheduler.lr_decay_iters, r.notes.len()), (Some(50), 0));
    assert!(resolve(None, &["train.train_iters=20", "scheduler.max_steps=19"]).is_err());
    let wsd = "scheduler.lr_decay_style=WSD";
    assert!(resolve(None, &[wsd]).unwrap_err().to_string().contains("lr_wsd_decay_iters"));
    assert!(resolve(None, &[wsd, "scheduler.lr_wsd_decay_iters=100"]).is_ok());
    assert!(resolve(None, &[wsd, "scheduler.lr_wsd_decay_iters=1001"]).is_err());
}

#[test]
fn b69_the_scheduler_decides_the_weight_decay() {
    let r = resolve(Some("nemotron_3_5_lightning_pretrain_config"), &["optimizer.weight_decay=0.2"]).unwrap();
    assert_eq!(r.config.scheduler.start_weight_decay, 0.033);
    assert!(r.notes.iter().any(|n| n.contains("scheduler.start_weight_decay = 0.033")), "{:?}", r.notes);
}

#[test]
fn fine_tuning_with_context_parallelism_forces_its_loss() {
    let r = resolve(
        Some("nemotron_3_5_lightning_sft_config"),
        &[
            "model.context_parallel_size=2",
            "model.tensor_model_parallel_size=2",
            "model.sequence_parallel=true",
            "model.calculate_per_token_loss=false",
            "ddp.average_in_collective=true",
            "dataset.pad_seq_to_mult=3",
        ],
    )
    .unwrap();
    assert!(r.config.model.calculate_per_token_loss && !r.config.ddp.average_in_collective);
    assert_eq!(r.config.dataset.pad_seq_to_mult, 12);
    assert_eq!(r.config.dataset.packed_sequence_size, Some(2048));
}

#[test]
fn accumulation_follows_the_reduction_that_the_user_asks_for() {
    let pretrain = Some("nemotron_3_5_lightning_pretrain_config");
    let dtype = |overrides: &[&str]| resolve(pretrain, overrides).unwrap().config.mixed_precision.grad_accum_dtype;
    assert_eq!(dtype(&[]), DType::Bf16);
    assert_eq!(dtype(&["mixed_precision.grad_reduce_in_fp32=true"]), DType::F32);
    assert_eq!(dtype(&["mixed_precision.grad_accum_dtype=f32"]), DType::F32);
    assert_eq!(dtype(&["mixed_precision.precision=f64"]), DType::F64);
    assert_eq!(dtype(&["mixed_precision=f32"]), DType::F32);
    let r = resolve(pretrain, &["ddp.grad_reduce_in_fp32=true"]).unwrap();
    assert!(!r.config.ddp.grad_reduce_in_fp32 && r.notes.len() == 1, "{:?}", r.notes);
}

#[test]
fn data_kinds_follow_the_data_and_fit_the_mode() {
    let kind = |overrides: &[&str]| resolve(None, overrides).map(|r| r.config.dataset.kind);
    assert_eq!(kind(&[]).unwrap(), DatasetKind::Mock);
    assert_eq!(resolve(None, &[]).unwrap().config.dataset.split.as_deref(), Some("1,1,1"));
    assert_eq!(kind(&["dataset.path=/x"]).unwrap(), DatasetKind::Text);
    assert_eq!(kind(&["dataset.data_path=a b"]).unwrap(), DatasetKind::MegatronIndexed);
    assert!(kind(&["dataset.kind=megatron-indexed"]).is_err());
    assert!(kind(&["dataset.kind=mock", "dataset.data_path=a"]).is_err());
    assert!(kind(&["dataset.data_path=a", "dataset.blend=[[b], null]"]).is_err());
    assert!(kind(&["dataset.kind=gsm8k"]).unwrap_err().to_string().contains("--mode sft"));
    assert!(kind(&["dataset.kind=text", "run.mode=sft"]).unwrap_err().to_string().contains("prompts and answers"));
    let per_split = "dataset.per_split_data_args_path=b.json";
    assert_eq!(resolve(None, &[per_split]).unwrap().config.dataset.split, None);
    assert!(resolve(None, &[per_split, "dataset.split=1,1,1"]).is_err());
    assert_eq!(
        resolve(None, &["dataset.path=/x", "model.vocab_size=300"]).unwrap().config.dataset.vocab_size,
        Some(300)
    );
}

#[test]
fn data_that_is_given_wins_over_the_kind_of_a_recipe() {
    let demo = |overrides: &[&str]| resolve(Some("demo_pretrain_config"), overrides).map(|r| r.config);
    assert_eq!(demo(&["dataset.data_path=a"]).unwrap().dataset.kind, DatasetKind::MegatronIndexed);
    assert_eq!(demo(&["dataset.path=/x"]).unwrap().dataset.kind, DatasetKind::Text);
    assert_eq!(demo(&["dataset.kind=mock"]).unwrap().dataset.kind, DatasetKind::Mock);
    let error = demo(&["dataset.kind=mock", "dataset.path=/x"]).unwrap_err().to_string();
    assert!(error.contains("dataset.path = /x"), "{error}");
    // The vocabulary follows whichever of the two sizes was asked for.
    let sizes = |c: RunConfig| (c.model.vocab_size, c.dataset.vocab_size);
    assert_eq!(sizes(demo(&["dataset.vocab_size=512"]).unwrap()), (512, Some(512)));
    assert_eq!(sizes(demo(&["model.vocab_size=640"]).unwrap()), (640, Some(640)));
    assert_eq!(sizes(demo(&["model.vocab_size=640", "dataset.vocab_size=600"]).unwrap()), (640, Some(600)));
    assert!(demo(&["model.vocab_size=640", "dataset.vocab_size=641"]).is_err());
}

#[test]
fn impossible_configurations_name_the_setting() {
    for (text, key) in [
        ("train.train_iters=0", "train.train_iters"),
        ("train.global_batch_size=0", "train.global_batch_size"),
        ("train.micro_batch_size=3", "train.global_batch_size"),
        ("train.micro_batch_size=9223372036854775807", "train.global_batch_size"),
        ("optimizer.lr=-1", "optimizer.lr"),
        ("optimizer.min_lr=1", "optimizer.min_lr"),
        ("optimizer.adam_beta1=1", "optimizer.adam_beta1"),
        ("optimizer.adam_eps=0", "optimizer.adam_eps"),
        ("optimizer.optimizer=muon", "optimizer.optimizer"),
        ("scheduler.end_weight_decay=0.5", "scheduler.end_weight_decay"),
        ("model.layernorm_epsilon=0", "model.layernorm_epsilon"),
        ("model.hidden_size=0", "model.hidden_size"),
        ("model.hidden_size=9223372036854775807", "model.hidden_size"),
        ("model.num_query_groups=3", "model.num_query_groups"),
        ("model.moe_router_topk=17", "model.moe_router_topk"),
        ("model.num_layers=7", "model.num_layers"),
        ("model.moe_latent_size=8", "model.moe_latent_size"),
        ("model.moe_z_loss_coeff=1e-3", "model.moe_z_loss_coeff"),
        ("model.hidden_dropout=0.1", "model.hidden_dropout"),
        ("model.mtp_use_repeated_layer=false", "model.mtp_use_repeated_layer"),
        ("model.mtp_hybrid_override_pattern=null", "model.mtp_num_layers"),
        ("model.tensor_model_parallel_size=0", "model.tensor_model_parallel_size"),
        ("model.tensor_model_parallel_size=3", "model.tensor_model_parallel_size"),
        ("model.expert_model_parallel_size=5", "model.expert_model_parallel_size"),
        ("model.context_parallel_size=3", "model.seq_length"),
        ("model.recompute_granularity=full", "model.recompute_method"),
        ("model.recompute_granularity=selective", "model.recompute_modules"),
        ("peft.scheme=lora", "peft.scheme"),
        ("mixed_precision.grad_accum_dtype=f64", "mixed_precision.grad_accum_dtype"),
        ("logger.log_interval=0", "logger.log_interval"),
        ("validation.eval_interval=5", "validation.eval_iters"),
        ("checkpoint.save_interval=0", "checkpoint.save_interval"),
        ("device.threads=0", "device.threads"),
        ("run.recipe=demo_pretrain_config", "run.recipe"),
        ("run.world_size=2", "run.world_size"),
        ("run.deterministic=false", "run.deterministic"),
    ] {
        match resolve(None, &[text]) {
            Err(ConfigError::Invalid { key: found, reason, .. }) => {
                assert_eq!(found, key, "{text}");
                assert!(!reason.is_empty());
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn b12_patterns_with_separators_are_refused() {
    for text in ["model.hybrid_layer_pattern=M|E*M/E", "model.hybrid_override_pattern=M|E*M/E"] {
        let error = resolve(None, &[text]).unwrap_err().to_string();
        assert!(error.contains("model.hybrid_layer_pattern") && error.contains("position 1"), "{error}");
    }
}

#[test]
fn model_descriptions_survive_the_section() {
    for (name, _) in lightning_core::config::PRESETS {
        let model = lightning_core::config::preset(name).unwrap();
        let mut config = RunConfig::default();
        config.model.set_model_config(&model);
        assert_eq!(config.model.to_model_config().unwrap(), model, "{name}");
    }
}

#[test]
fn variables_that_exist_win() {
    let mut layers = Layers::new();
    layers.recipe("nemotron_3_5_lightning_pretrain_config").unwrap();
    let r = layers.finish(Launch::single(), &|name| (name == "USE_MNNVL").then(|| "5".into())).unwrap();
    assert_eq!(r.config.env.vars["USE_MNNVL"], "5");
    assert_eq!(r.config.env.vars["NVLINK_DOMAIN_SIZE"], "8");
    assert_eq!(r.origin("env.vars"), &Origin::Environment);
}
