use lightning_data::tokenizer::TextTokenizer;

use super::{ints, json, path};

#[test]
fn golden_data_tokenizer_encodings() {
    let tokenizer = TextTokenizer::load(path("tokenizer")).unwrap();
    for case in json("tokenizer/encodings.json").as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(ids.iter().map(|&i| i64::from(i)).collect::<Vec<_>>(), ints(&case["ids"]), "{text:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    }
    let eos = json("tokenizer/tokenizer_config.json")["eos_token"].as_str().unwrap().to_string();
    assert_eq!(Some(tokenizer.eos().unwrap()), tokenizer.token_id(&eos));
}
