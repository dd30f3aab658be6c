use super::*;

#[test]
fn b92_every_kind_of_value_is_read() {
    use Value::*;
    let s = |t: &str| Str(t.into());
    let cases = [
        ("null", Null),
        (" true ", Bool(true)),
        ("false", Bool(false)),
        ("12", Int(12)),
        ("-3", Int(-3)),
        ("+3", Int(3)),
        ("0", Int(0)),
        ("1e-4", Float(1e-4)),
        ("1.", Float(1.0)),
        (".5", Float(0.5)),
        ("-1.5E+3", Float(-1500.0)),
        ("99999999999999999999", Float(1e20)),
        ("007", s("007")),
        ("1e999", s("1e999")),
        ("nan", s("nan")),
        ("None", s("None")),
        ("Null", s("Null")),
        ("1.2.3", s("1.2.3")),
        ("e5", s("e5")),
        ("-", s("-")),
        (".", s(".")),
        ("", s("")),
        ("30 a 70 b", s("30 a 70 b")),
        ("9999,8,2", s("9999,8,2")),
        ("\"null\"", s("null")),
        ("\"a\\n\\\"\\u0041\"", s("a\n\"A")),
        ("'a\\n'", s("a\\n")),
        ("[]", List(vec![])),
        ("{}", Map(vec![])),
        ("[a, b]", List(vec![s("a"), s("b")])),
        ("[ a b , 1,null ]", List(vec![s("a b"), Int(1), Null])),
        ("[[\"x,y\"], [0.5]]", List(vec![List(vec![s("x,y")]), List(vec![Float(0.5)])])),
        ("{a: 1, b = c:/d}", Map(vec![("a".into(), Int(1)), ("b".into(), s("c:/d"))])),
    ];
    for (text, value) in cases {
        assert_eq!(Value::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")), value, "{text}");
    }
}

#[test]
fn b92_broken_values_say_where() {
    let cases = [
        ("[a, b", 5),
        ("[a,, b]", 3),
        ("[a,]", 3),
        ("[,]", 1),
        ("[a] b", 4),
        ("\"open", 0),
        ("{a}", 2),
        ("{a = 1, a = 2}", 8),
        ("[a\"b\"]", 2),
        ("\"\\q\"", 2),
        ("\"\\u00g0\"", 3),
        ("\"\\ud800\"", 3),
        ("[a]]", 3),
    ];
    for (text, position) in cases {
        let error = Value::parse(text).expect_err(text);
        assert_eq!(error.position, position, "{text}: {error}");
    }
    assert!(Value::parse(&"[".repeat(100_000)).is_err());
    assert!(Value::parse(&"{a=".repeat(100_000)).is_err());
}

#[test]
fn b92_null_is_not_the_string_none() {
    assert_eq!(set("checkpoint.load=null").unwrap().checkpoint.load, None);
    assert_eq!(set("checkpoint.load=\"null\"").unwrap().checkpoint.load.as_deref(), Some("null"));
    assert_eq!(set("checkpoint.load=None").unwrap().checkpoint.load.as_deref(), Some("None"));
    let error = set("tokenizer.tokenizer_type=null").unwrap_err().to_string();
    assert!(error.contains("tokenizer.tokenizer_type = null") && error.contains("null"), "{error}");
}

#[test]
fn values_are_read_by_the_type_of_the_setting() {
    assert_eq!(set("dataset.split=9999,8,2").unwrap().dataset.split.as_deref(), Some("9999,8,2"));
    assert_eq!(set("dataset.split=1").unwrap().dataset.split.as_deref(), Some("1"));
    assert_eq!(set("checkpoint.save=007").unwrap().checkpoint.save.as_deref(), Some("007"));
    assert_eq!(set("optimizer.lr=1").unwrap().optimizer.lr, 1.0);
    assert_eq!(set(" optimizer.lr = 1e-4 ").unwrap().optimizer.lr, 1e-4);
    assert_eq!(
        set("model.recompute_modules=[moe, core_attn]").unwrap().model.recompute_modules,
        Some(vec![RecomputeModule::Moe, RecomputeModule::CoreAttn])
    );
    assert_eq!(set("mixed_precision=bf16_mixed").unwrap().mixed_precision.precision, Precision::Bf16);
    assert_eq!(set("scheduler.lr_decay_style=wsd").unwrap().scheduler.lr_decay_style, LrDecayStyle::Wsd);
    let kwargs = set("tokenizer.hf_tokenizer_kwargs={revision: abc, n: 1}").unwrap().tokenizer.hf_tokenizer_kwargs;
    assert_eq!(kwargs.get("n").map(String::as_str), Some("1"));
    let blend = set("dataset.blend=[[\"p 1\", p2], [0.3, 1]]").unwrap().dataset.blend.unwrap();
    assert_eq!((blend.prefixes, blend.weights), (vec!["p 1".to_string(), "p2".into()], Some(vec![0.3, 1.0])));
    for text in
        ["dataset.data_path=30 p1 70 p2", "dataset.data_path=[30, p1, 70, p2]", "dataset.data_path=\"30 p1 70 p2\""]
    {
        assert_eq!(set(text).unwrap().dataset.data_path.unwrap().0, ["30", "p1", "70", "p2"], "{text}");
    }
}

#[test]
fn wrong_types_name_setting_value_and_type() {
    for (text, parts) in [
        ("train.train_iters=1.5", ["train.train_iters = 1.5", "an integer from 0"]),
        ("train.train_iters=-1", ["train.train_iters = -1", "an integer from 0"]),
        ("train.train_iters=1e3", ["train.train_iters = 1000.0", "an integer from 0"]),
        ("train.train_iters=", ["train.train_iters = \"\"", "an integer from 0"]),
        ("train.train_iters=null", ["train.train_iters = null", "an integer from 0"]),
        ("optimizer.lr=high", ["optimizer.lr = high", "a number"]),
        ("optimizer.lr=nan", ["optimizer.lr = nan", "a number"]),
        ("model.sequence_parallel=1", ["model.sequence_parallel = 1", "true or false"]),
        ("scheduler.lr_decay_style=cosinus", ["scheduler.lr_decay_style = cosinus", "one of cosine, constant"]),
        ("model.recompute_modules=moe", ["model.recompute_modules = moe", "a list"]),
        ("model.recompute_modules=[moe, x]", ["model.recompute_modules = [moe, x]", "core_attn"]),
        ("dataset.blend=[[a, b], [1]]", ["dataset.blend = [[a, b], [1]]", "one weight per prefix"]),
        ("dataset.blend=[[], null]", ["dataset.blend = [[], null]", "prefix"]),
        ("checkpoint.save=true", ["checkpoint.save = true", "quotes"]),
    ] {
        let error = set(text).expect_err(text).to_string();
        assert!(parts.iter().all(|p| error.contains(p)), "{text}: {error}");
    }
}

#[test]
fn b92_unknown_settings_name_the_nearest() {
    for (text, near) in [
        ("optimizer.rl=1", "optimizer.lr"),
        ("model.lr=1", "optimizer.lr"),
        ("train.seq_length=1", "model.seq_length"),
        ("model.tensor_parallel_size=2", "model.tensor_model_parallel_size"),
        ("train_iters=3", "train.train_iters"),
        ("=3", ""),
    ] {
        let ConfigError::Unknown { what: "setting", nearest, .. } = set(text).expect_err(text) else {
            panic!("{text}")
        };
        assert_eq!(nearest.len(), 3, "{text}");
        assert!(near.is_empty() || nearest.iter().any(|n| n == near), "{text}: {nearest:?}");
    }
    assert!(set("optimizer.lr").is_err());
    assert!(set("+train.x=1").unwrap_err().to_string().contains("neither added nor removed"));
    assert!(set("~optimizer.lr=1").is_err());
}

#[test]
fn maps_set_groups_of_settings() {
    let config = set("dataset.offline_packing_specs={packed_sequence_size:32768,pad_seq_to_mult:4}").unwrap();
    assert_eq!((config.dataset.packed_sequence_size, config.dataset.pad_seq_to_mult), (Some(32768), 4));
    let config = set("dataset.hf_dataset.load_kwargs={revision:\"469216\"}").unwrap();
    assert_eq!(config.dataset.hf_revision.as_deref(), Some("469216"));
    let config = set("dataset.hf_dataset={load_kwargs = {revision: main}}").unwrap();
    assert_eq!(config.dataset.hf_revision.as_deref(), Some("main"));
    let config = set("optimizer={lr = 1, min_lr = 0.5}").unwrap();
    assert_eq!((config.optimizer.lr, config.optimizer.min_lr), (1.0, 0.5));
    assert_eq!(set("peft={dim = 4}").unwrap().peft.dim, 4);
    assert_eq!(set("env_vars={A = 1}").unwrap().env.vars["A"], "1");
    assert!(set("optimizer={rl = 1}").unwrap_err().to_string().contains("optimizer.lr"));
    for text in ["optimizer=3", "optimizer=adam", "optimizer=null", "dataset.hf_dataset=x", "optimizer={lr = x}"] {
        assert!(set(text).is_err(), "{text}");
    }
}
