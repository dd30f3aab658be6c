use lightning_data::DataError;
use lightning_data::tokenizer::{TextTokenizer, TrainingSettings, train_on_files, train_on_texts};

use super::{Scratch, error};

const TEXT: &str = "The quick brown fox jumps over the lazy dog. Die Straße ist naß. 東京 🙂\n\tfn main() {}\n";

fn texts() -> impl Iterator<Item = lightning_data::Result<String>> + Send {
    (0..50).map(|i| Ok(format!("{TEXT}{i} {}", "low lower lowest ".repeat(i % 5))))
}

#[test]
fn training_is_repeatable_and_files_equal_texts() {
    let scratch = Scratch::new("bpe");
    let settings = TrainingSettings::new(320);
    let files: Vec<_> = texts()
        .enumerate()
        .map(|(i, text)| {
            let path = scratch.path(&format!("{i}.txt"));
            std::fs::write(&path, text.unwrap()).unwrap();
            path
        })
        .collect();
    train_on_texts(texts(), &settings).unwrap().save(&scratch.path("a")).unwrap();
    train_on_texts(texts(), &settings).unwrap().save(&scratch.path("b")).unwrap();
    train_on_files(&files, &settings).unwrap().save(&scratch.path("c")).unwrap();
    let read = |d: &str| std::fs::read(scratch.path(d).join("tokenizer.json")).unwrap();
    assert_eq!(read("a"), read("b"));
    let tokenizer = TextTokenizer::load(scratch.path("a")).unwrap();
    assert_eq!(tokenizer.vocab_size(), 320);
    assert_eq!(tokenizer.eos().unwrap(), 0);
    assert_eq!(tokenizer.special_ids(), [0]);
    assert!(tokenizer.is_space_sensitive().unwrap());
    let by_lines = TextTokenizer::load(scratch.path("c")).unwrap();
    for text in [TEXT, "", " ", "\u{0}\u{fffd}", "never seen: ツ"] {
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        assert_eq!(by_lines.decode(&by_lines.encode(text).unwrap()).unwrap(), text);
        assert!(ids.iter().all(|&i| i < 320));
    }
    assert_eq!(tokenizer.encode("a<|endoftext|>b").unwrap()[1], 0, "text that spells a special token is that token");
}

#[test]
fn bad_training_input_is_refused() {
    let scratch = Scratch::new("bpe-bad");
    let settings = TrainingSettings::new(300);
    let none: Vec<lightning_data::Result<String>> = vec![Ok(String::new())];
    assert!(matches!(error(train_on_texts(none.into_iter(), &settings), "no text"), DataError::Tokenizer { .. }));
    assert!(matches!(error(train_on_texts(texts(), &TrainingSettings::new(256)), "256"), DataError::Setting { .. }));
    let bad = scratch.path("latin1.txt");
    std::fs::write(&bad, b"fine\nna\xefve\n").unwrap();
    let e = error(train_on_files(&[bad], &settings), "latin 1").to_string();
    assert!(e.contains("latin1.txt") && e.contains("entry 2") && e.contains("0xef at column 3"), "{e}");
    let e = error(train_on_files(&[scratch.path("absent.txt")], &settings), "absence");
    assert!(matches!(e, DataError::Io { .. }));
}

#[test]
fn bad_tokenizer_files_are_refused() {
    let scratch = Scratch::new("bpe-files");
    let settings = TrainingSettings::new(300);
    train_on_texts(texts(), &settings).unwrap().save(&scratch.0).unwrap();
    let config = scratch.path("tokenizer_config.json");
    std::fs::write(&config, r#"{"eos_token": {"content": "<|endoftext|>"}}"#).unwrap();
    assert_eq!(TextTokenizer::load(&scratch.0).unwrap().eos().unwrap(), 0);
    std::fs::write(&config, r#"{"eos_token": "<|gone|>"}"#).unwrap();
    assert!(error(TextTokenizer::load(&scratch.0), "a lost token").to_string().contains("<|gone|>"));
    std::fs::write(&config, "{}").unwrap();
    assert!(error(TextTokenizer::load(&scratch.0).unwrap().eos(), "no end").to_string().contains("eos_token"));
    std::fs::write(scratch.path("tokenizer.json"), r#"{"model": {"type": "Novel"}}"#).unwrap();
    assert!(error(TextTokenizer::load(&scratch.0), "an unknown model").to_string().contains("tokenizer.json"));
    assert!(TextTokenizer::load(scratch.path("nowhere")).is_err());
}

// Pitfall B90: rendered text already holds its special tokens. A tokenizer file that adds more of them by itself (a template
// as post-processor, padding, truncation) must not get to do so.
#[test]
fn b90_nothing_is_added_to_rendered_text() {
    let scratch = Scratch::new("b90");
    let settings = TrainingSettings::new(300);
    train_on_texts(texts(), &settings).unwrap().save(&scratch.0).unwrap();
    let plain = TextTokenizer::load(&scratch.0).unwrap();
    let file = scratch.path("tokenizer.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let piece = |kind: &str, id: &str| serde_json::json!({kind: {"id": id, "type_id": 0}});
    json["post_processor"] = serde_json::json!({
        "type": "TemplateProcessing",
        "single": [piece("SpecialToken", "<|endoftext|>"), piece("Sequence", "A")],
        "pair": [piece("Sequence", "A"), piece("Sequence", "B")],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}},
    });
    json["truncation"] = serde_json::json!(
        {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
    std::fs::write(&file, json.to_string()).unwrap();
    let adding = TextTokenizer::load(&scratch.0).unwrap();
    for text in ["", "one", "<|endoftext|>the quick brown fox jumps", TEXT] {
        let ids = adding.encode(text).unwrap();
        assert_eq!(ids, plain.encode(text).unwrap());
        assert!(!ids.starts_with(&[0, 0]), "no doubled start in {text:?}");
    }
}
