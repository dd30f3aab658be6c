use super::*;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::collection::vec(any::<char>(), 0..12).prop_map(|c| c.into_iter().collect()),
        proptest::sample::select(vec![
            "null", "true", "1", "1e3", "-", "a b", " x ", "[", "}", "a=b", "a:b", "\"", "\\", "\n"
        ])
        .prop_map(String::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::Float),
        text().prop_map(Value::Str),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
            proptest::collection::vec((text(), inner), 0..5).prop_map(|mut items| {
                items.sort_by(|a, b| a.0.cmp(&b.0));
                items.dedup_by(|a, b| a.0 == b.0);
                Value::Map(items)
            }),
        ]
    })
}

/// Text made of what the grammar cares about, and of anything else.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(vec![
            "[", "]", "{", "}", ",", "=", ":", "\"", "'", "\\", "\\u", "\\u0", "\\n", " ", "\n", "null", "1", "-", "+",
            ".", "e", "9e9",
        ])
        .prop_map(String::from),
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|p| p.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b92_printed_values_read_back(value in value()) {
        let printed = value.to_string();
        prop_assert_eq!(Value::parse(&printed).map_err(|e| format!("{printed}: {e}")), Ok(value));
    }

    #[test]
    fn b92_hostile_text_is_read_or_refused(text in hostile()) {
        if let Ok(value) = Value::parse(&text) {
            prop_assert_eq!(Value::parse(&value.to_string()), Ok(value));
        }
        let _ = Value::parse_text(&text);
    }

    #[test]
    fn hostile_overrides_are_applied_or_refused(key in hostile(), text in hostile(), which in 0usize..400) {
        let keys: Vec<String> = RunConfig::keys().collect();
        let mut layers = Layers::new();
        let _ = layers.set_override(&format!("{key}={text}"));
        let known = &keys[which % keys.len()];
        if layers.set_override(&format!("{known}={text}")).is_ok() {
            let value = layers.config().get(known).unwrap();
            let mut copy = RunConfig::default();
            prop_assert_eq!(copy.set(known, &value), Ok(()));
            prop_assert_eq!(copy.get(known), Some(value));
            if let Ok(first) = layers.finish(Launch::single(), &|_| None) {
                let mut again = Layers::new();
                prop_assert_eq!(file::apply(&mut again, "x.toml", &file::to_toml(&first)), Ok(()));
                let again = again.finish(Launch::single(), &|_| None);
                prop_assert_eq!(again.map(|r| r.config), Ok(first.config));
            }
        }
    }

    #[test]
    fn hostile_files_are_read_or_refused(text in hostile()) {
        let _ = file::apply(&mut Layers::new(), "x.toml", &text);
    }
}
