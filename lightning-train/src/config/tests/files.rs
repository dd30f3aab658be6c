use super::*;

/// A file in the system's folder for such, removed at the end.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lightning-config-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn from_file(scratch: &Scratch, overrides: &[&str]) -> Result<Resolved, ConfigError> {
    let mut layers = Layers::new();
    layers.file(scratch.0.to_str().unwrap())?;
    for text in overrides {
        layers.set_override(text)?;
    }
    layers.finish(Launch::single(), &|_| None)
}

#[test]
fn saved_configurations_read_back() {
    for (i, recipe) in crate::recipes::all().enumerate() {
        let overrides = [
            "dataset.path_to_cache=\"a b\\n# \\\"c\\\"\"",
            "tokenizer.hf_tokenizer_kwargs={a: b}",
            "model.mtp_num_layers=null",
        ];
        let first = resolve(Some(recipe.name), &overrides).unwrap();
        let scratch = Scratch::new(&format!("round-{i}.toml"), &file::to_toml(&first));
        let again = from_file(&scratch, &[]).unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
        assert_eq!(again.config, first.config, "{}", recipe.name);
        assert_eq!(again.notes, first.notes, "{}", recipe.name);
        assert_eq!(again.recipe.map(|r| r.name), Some(recipe.name));
    }
    let blend = resolve(None, &["dataset.blend_per_split=[[[a, 'b c'], [1, 2]], null, [[d], null]]"]).unwrap();
    let scratch = Scratch::new("blend.toml", &file::to_toml(&blend));
    assert_eq!(from_file(&scratch, &[]).unwrap().config, blend.config);
}

#[test]
fn adjustments_are_made_anew_over_a_saved_configuration() {
    let first = resolve(Some("demo_pretrain_config"), &["train.train_iters=20"]).unwrap();
    let scratch = Scratch::new("anew.toml", &file::to_toml(&first));
    let longer = from_file(&scratch, &["train.train_iters=70", "model.seq_length=64"]).unwrap();
    assert_eq!(longer.config.scheduler.lr_decay_iters, Some(70));
    assert_eq!(longer.config.dataset.seq_length, 64);
    assert!(matches!(longer.origin("optimizer.lr"), Origin::File(_)));
}

#[test]
fn files_by_hand_may_use_aliases_and_nested_tables() {
    let text = "[model]\nnum_key_value_heads = 4\n[dataset.offline_packing_specs]\npad_seq_to_mult = 6\n\
                [tokenizer.hf_tokenizer_kwargs]\nrevision = 'x'\n[optimizer]\nlr = 1\n";
    let scratch = Scratch::new("hand.toml", text);
    let config = from_file(&scratch, &[]).unwrap().config;
    assert_eq!((config.model.num_query_groups, config.dataset.pad_seq_to_mult), (4, 6));
    assert_eq!(config.tokenizer.hf_tokenizer_kwargs["revision"], "x");
    assert_eq!(config.optimizer.lr, 1.0);
}

#[test]
fn broken_files_name_themselves() {
    for (i, (text, part)) in [
        ("[model", "not TOML"),
        ("format = 2", "format = 2"),
        ("[optimizer]\nrl = 1", "optimizer.lr"),
        ("[train]\ntrain_iters = 1.5", "an integer from 0"),
        ("[train]\ntrain_iters = 1979-05-27", "date"),
        ("[optimizer]\nlr = inf", "finite"),
        ("nulls = 3", "nulls"),
        ("nulls = ['x.y']", "no setting is named `x.y`"),
        ("[run]\nrecipe = 'x'", "no recipe is named `x`"),
        ("model = 3", "no setting is named `model`"),
    ]
    .into_iter()
    .enumerate()
    {
        let scratch = Scratch::new(&format!("broken-{i}.toml"), text);
        let error = from_file(&scratch, &[]).expect_err(text).to_string();
        assert!(error.contains(part) && error.contains(&format!("broken-{i}.toml")), "{text}: {error}");
    }
    let error = Layers::new().file("/nonexistent.toml").unwrap_err().to_string();
    assert!(error.contains("/nonexistent.toml: cannot be read"), "{error}");
}
