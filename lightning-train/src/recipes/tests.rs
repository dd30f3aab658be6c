use super::*;
use crate::config::launch::Launch;
use crate::config::resolve::Resolved;

fn resolve(name: &str, world_size: usize) -> Resolved {
    let mut layers = Layers::new();
    layers.recipe(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let launch = Launch { world_size, source: "test".into(), assumed: false, warning: None };
    layers.finish(launch, &|_| None).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn expect(resolved: &Resolved, values: &[(&str, &str)]) {
    for (key, text) in values {
        let found = resolved.config.get(key).unwrap_or_else(|| panic!("no setting {key}")).to_string();
        let name = resolved.recipe.map_or("", |r| r.name);
        assert_eq!(found, *text, "{name}: {key}");
    }
}

#[test]
fn every_recipe_resolves_on_its_machine_and_on_one_rank() {
    for recipe in all() {
        for world in [recipe.gpus, 1] {
            let resolved = resolve(recipe.name, world);
            assert_eq!(resolved.config.run.mode, recipe.mode);
            assert!(!recipe.source.is_empty() && !recipe.about.is_empty() && !recipe.machine.is_empty());
        }
    }
}

#[test]
fn every_name_is_there_once_and_bases_exist() {
    let names: Vec<&str> = parts().chain(all()).map(|r| r.name).collect();
    for (i, name) in names.iter().enumerate() {
        assert!(!names[i + 1..].contains(name), "{name} is there twice");
    }
    for recipe in parts().chain(all()) {
        assert!(recipe.base.is_none_or(|b| names.contains(&b)), "{}", recipe.name);
        assert!(recipe.preset.is_none_or(|p| preset(p).is_some()), "{}", recipe.name);
    }
}

#[test]
fn pretraining_values_are_the_public_ones() {
    let h100 = resolve("nemotron_3_5_lightning_pretrain_config", 16);
    expect(
        &h100,
        &[
            ("model.hidden_size", "2688"),
            ("model.num_layers", "52"),
            ("model.vocab_size", "131072"),
            ("model.mtp_num_layers", "2"),
            ("model.init_method_std", "0.0173"),
            ("model.context_parallel_size", "2"),
            ("model.cp_comm_type", "p2p"),
            ("model.expert_model_parallel_size", "8"),
            ("model.recompute_modules", "[moe, layernorm, core_attn]"),
            ("model.cuda_graph_scope", "[mamba]"),
            ("model.calculate_per_token_loss", "false"),
            ("train.train_iters", "39735"),
            ("train.global_batch_size", "512"),
            ("train.micro_batch_size", "1"),
            ("optimizer.lr", "0.0016"),
            ("optimizer.min_lr", "1.6e-5"),
            ("optimizer.weight_decay", "0.1"),
            ("scheduler.start_weight_decay", "0.033"),
            ("scheduler.end_weight_decay", "0.033"),
            ("scheduler.lr_warmup_iters", "333"),
            ("scheduler.lr_decay_iters", "39735"),
            ("checkpoint.save_interval", "200"),
            ("mixed_precision.grad_accum_dtype", "bf16"),
            ("ddp.grad_reduce_in_fp32", "false"),
            ("ddp.average_in_collective", "true"),
            ("validation.eval_interval", "500"),
            ("validation.eval_iters", "32"),
            ("dataset.kind", "mock"),
            ("dataset.random_seed", "1234"),
        ],
    );
    assert_eq!(h100.data_parallel_size(), 8);
    let gb200 = resolve("nemotron_3_5_lightning_pretrain_8k_config", 8);
    expect(
        &gb200,
        &[
            ("model.context_parallel_size", "1"),
            ("model.cp_comm_type", "null"),
            ("model.recompute_granularity", "null"),
            ("model.cross_entropy_fusion_impl", "te"),
            ("train.micro_batch_size", "2"),
            ("ddp.average_in_collective", "false"),
            ("checkpoint.save_interval", "50"),
        ],
    );
    assert_eq!(gb200.data_parallel_size(), 8);
    let fsdp = resolve("nemotron_3_5_lightning_pretrain_8k_fsdp_config", 8);
    expect(
        &fsdp,
        &[
            ("ddp.data_parallel_sharding_strategy", "optim_grads_params"),
            ("ddp.megatron_fsdp_grad_comm_dtype", "bf16"),
            ("mixed_precision.grad_accum_dtype", "f32"),
            ("checkpoint.ckpt_format", "fsdp_dtensor"),
        ],
    );
}

#[test]
fn fine_tuning_values_are_the_public_ones() {
    let shared = [
        ("train.global_batch_size", "128"),
        ("train.micro_batch_size", "1"),
        ("model.calculate_per_token_loss", "true"),
        ("optimizer.adam_beta2", "0.95"),
        ("optimizer.min_lr", "0.0"),
        ("scheduler.start_weight_decay", "0.1"),
        ("dataset.random_seed", "5678"),
        ("dataset.dataloader_type", "batch"),
        ("rng.seed", "1234"),
        ("ddp.average_in_collective", "false"),
    ];
    type Values = &'static [(&'static str, &'static str)];
    let rows: &[(&str, usize, usize, Values)] = &[
        (
            "nemotron_3_5_lightning_sft_openmathinstruct2_packed_config",
            16,
            8,
            &[
                ("model.tensor_model_parallel_size", "2"),
                ("model.sequence_parallel", "true"),
                ("dataset.packed_sequence_size", "4096"),
                ("dataset.pad_seq_to_mult", "2"),
                ("mixed_precision.grad_accum_dtype", "bf16"),
                ("model.recompute_modules", "[moe, layernorm, core_attn, mlp]"),
                ("optimizer.lr", "5e-6"),
                ("train.empty_unused_memory_level", "2"),
                ("checkpoint.save_optim", "false"),
            ],
        ),
        (
            "nemotron_3_5_lightning_sft_openmathinstruct2_packed_tp1_config",
            8,
            8,
            &[
                ("model.tensor_model_parallel_size", "1"),
                ("model.sequence_parallel", "false"),
                ("model.moe_hybridep_num_sms", "32"),
                ("model.recompute_granularity", "null"),
                ("ddp.overlap_param_gather", "true"),
            ],
        ),
        (
            "nemotron_3_5_lightning_sft_long_context_h100_config",
            16,
            4,
            &[
                ("model.seq_length", "32768"),
                ("dataset.pad_seq_to_mult", "4"),
                ("model.cp_comm_type", "p2p"),
                ("model.recompute_granularity", "full"),
                ("mixed_precision.grad_accum_dtype", "f32"),
            ],
        ),
        (
            "nemotron_3_5_lightning_sft_long_context_gb200_config",
            8,
            4,
            &[
                ("model.cp_comm_type", "a2a"),
                ("model.cross_entropy_loss_fusion", "false"),
                ("dataset.pad_seq_to_mult", "4"),
                ("model.recompute_method", "null"),
            ],
        ),
        (
            "nemotron_3_5_lightning_peft_openmathinstruct2_h100_config",
            8,
            4,
            &[("peft.dim", "32"), ("optimizer.lr", "0.0001"), ("model.recompute_granularity", "null")],
        ),
        (
            "nemotron_3_5_lightning_sft_config",
            8,
            8,
            &[
                ("model.seq_length", "2048"),
                ("dataset.kind", "squad"),
                ("train.train_iters", "1000"),
                ("scheduler.lr_warmup_iters", "50"),
                ("scheduler.lr_decay_iters", "1000"),
            ],
        ),
    ];
    for (name, world, data_parallel, values) in rows {
        let resolved = resolve(name, *world);
        expect(&resolved, &shared);
        expect(&resolved, values);
        assert_eq!(resolved.data_parallel_size(), *data_parallel, "{name}");
    }
}

#[test]
fn benchmark_values_are_the_public_ones() {
    let rows = [
        ("16gpu_h100_bf16", 16, "512", "1", "true", "bf16"),
        ("16gpu_h100_fp8cs", 16, "1024", "1", "false", "f32"),
        ("8gpu_gb200_bf16", 8, "512", "2", "true", "f32"),
        ("8gpu_gb200_fp8mx", 8, "512", "2", "false", "f32"),
        ("8gpu_gb200_fp8mx_fsdp", 8, "384", "3", "false", "f32"),
        ("8gpu_gb200_nvfp4", 8, "512", "2", "false", "f32"),
        ("8gpu_gb300_bf16", 8, "512", "4", "true", "f32"),
        ("8gpu_gb300_fp8mx", 8, "512", "4", "false", "f32"),
        ("8gpu_gb300_fp8mx_fsdp", 8, "384", "3", "false", "f32"),
        ("8gpu_gb300_nvfp4", 8, "512", "4", "false", "f32"),
    ];
    for (stem, world, batch, micro, aware, moments) in rows {
        let resolved = resolve(&format!("nemotron_3_5_lightning_pretrain_{stem}_config"), world);
        expect(
            &resolved,
            &[
                ("train.global_batch_size", batch),
                ("train.micro_batch_size", micro),
                ("optimizer.use_precision_aware_optimizer", aware),
                ("optimizer.exp_avg_dtype", moments),
                ("model.moe_router_force_load_balancing", "true"),
                ("scheduler.lr_decay_iters", "50"),
                ("scheduler.lr_warmup_iters", "10"),
                ("dataset.split", "\"1,1,1\""),
            ],
        );
    }
}

#[test]
fn benchmarks_scale_their_batch_with_the_ranks() {
    let half = resolve("nemotron_3_5_lightning_pretrain_8gpu_gb200_bf16_config", 16);
    expect(&half, &[("train.global_batch_size", "1024")]);
    let mut layers = Layers::new();
    layers.recipe("nemotron_3_5_lightning_pretrain_16gpu_h100_bf16_config").unwrap();
    for text in ["model.expert_model_parallel_size=1", "optimizer.use_precision_aware_optimizer=false"] {
        layers.set_override(text).unwrap();
    }
    let one = layers.finish(Launch::single(), &|_| None).unwrap();
    expect(&one, &[("train.global_batch_size", "32"), ("optimizer.use_precision_aware_optimizer", "false")]);
}

#[test]
fn a_model_stem_and_a_mode_name_a_recipe() {
    for (mode, name) in [
        (Mode::Pretrain, "nemotron_3_5_lightning_pretrain_config"),
        (Mode::Sft, "nemotron_3_5_lightning_sft_config"),
        (Mode::Lora, "nemotron_3_5_lightning_peft_config"),
    ] {
        assert_eq!(find(&name_of("nemotron_3_5_lightning", mode)).unwrap().name, name);
    }
    assert_eq!(find("demo-pretrain-config").unwrap().name, "demo_pretrain_config");
    let error = find("nemotron_35_lightning_pretrain").unwrap_err().to_string();
    assert!(error.contains("nemotron_3_5_lightning_pretrain_config"), "{error}");
    // Parts are not recipes.
    assert!(find("lightning_shared").is_err());
}

#[test]
fn the_table_names_every_recipe() {
    let table = table();
    for recipe in all() {
        assert!(table.contains(recipe.name) && table.contains(recipe.source));
    }
}
