//! What the preparations write, and that training takes it.

use super::support::*;
use serde_json::json;
use std::fs;

#[test]
fn help_names_the_verbs_and_their_flags() {
    let s = Scratch::new("help");
    let top = expect(&run(&s, "--help"), 0, &[]);
    for verb in ["data prep pretrain", "data prep rl", "data inspect", "data tokenizer"] {
        assert!(top.contains(verb), "{verb}");
        let text = expect(&run(&s, &format!("{verb} --help")), 0, &[]);
        assert!(text.contains("--output") && text.contains("Exit codes"), "{text}");
    }
    let text = expect(&run(&s, "data prep pretrain --help"), 0, &[]);
    assert!(text.contains(r#"{"datasets": [{"name""#), "{text}");
    expect(&run(&s, "data prep pretrian"), 2, &["data prep pretrain"]);
    expect(&run(&s, "data"), 2, &["data inspect"]);
    expect(&run(&s, "data prep pretrain x --tokenzier t"), 2, &["--tokenizer"]);
}

#[test]
fn pretraining_data_is_prepared_inspected_and_trained_on() {
    let s = Scratch::new("pretrain");
    tokenizer(&s);
    let mut random = Random::fresh();
    corpus(&s, "raw/a.jsonl", 200, &mut random);
    corpus(&s, "raw/b.jsonl", 37, &mut random);
    s.write("raw/c.txt", sentence(&mut random, 50));
    let line = "data prep pretrain raw --tokenizer tok --output out num_shards=3 --json";
    let first = json_of(&s, line);
    let counts = &first["counts"];
    assert_eq!(counts["num_input_rows"], 238);
    let kept = counts["num_documents"].as_u64().unwrap();
    assert_eq!(kept + counts["num_filtered"].as_u64().unwrap(), 238);
    // Again: nothing is made anew.
    let before = files(&s.path("out"));
    let again = json_of(&s, line);
    assert_eq!(again["counts"], first["counts"]);
    assert!(before == files(&s.path("out")), "a second run changed files");
    // Another number of threads: the same bytes.
    json_of(&s, &format!("{line} --threads 1 force=true"));
    let blend = s.json("out/blend.json");
    let prefixes: Vec<&str> = ["train", "valid", "test"]
        .iter()
        .flat_map(|k| blend[k].as_array().unwrap().iter().skip(1).step_by(2))
        .map(|p| p.as_str().unwrap())
        .collect();
    assert_eq!(prefixes.len(), 3);
    let mut sums = [0, 0];
    for prefix in prefixes {
        let about = json_of(&s, &format!("data inspect {prefix}.idx --tokenizer tok --json --samples 2"));
        sums[0] += about["sequences"].as_u64().unwrap();
        sums[1] += about["tokens"].as_u64().unwrap();
        let lengths = about["length_histogram"].as_array().unwrap();
        let counted: u64 = lengths.iter().map(|h| h[1].as_u64().unwrap()).sum();
        assert_eq!(Some(counted), about["sequences"].as_u64());
        assert!(about["samples"][0]["text"].as_str().unwrap().ends_with("<|endoftext|>"));
    }
    assert_eq!(sums[0], kept);
    assert_eq!(json!(sums[1]), counts["total_tokens"]);
    // A run that reads them says the same, and shows samples of the order that it trains in.
    let train = blend["train"][1].as_str().unwrap();
    let line = format!(
        "data inspect --recipe demo_pretrain_config model.seq_length=24 dataset.seq_length=24 dataset.kind=megatron-indexed \
         dataset.path=null dataset.data_path=[{train}] dataset.split=100,0,0 validation.eval_interval=0 --tokenizer tok --samples 2 --json"
    );
    let run = json_of(&s, &line);
    let file = json_of(&s, &format!("data inspect {train} --json"));
    for key in ["sequences", "tokens", "length_histogram"] {
        assert_eq!(run[key], file[key], "{key}");
    }
    assert_eq!(run["tokens_by_source"][train], file["tokens"]);
    let samples = run["samples"].as_array().unwrap();
    assert!(samples.len() == 2 && samples.iter().all(|s| s["text"].as_str().unwrap().contains("[[")), "{samples:?}");
}

#[test]
fn a_sample_is_one_shard_and_goes_to_a_folder_of_its_own() {
    let s = Scratch::new("sample");
    tokenizer(&s);
    corpus(&s, "a.jsonl", 50, &mut Random::fresh());
    let line = "data prep pretrain a.jsonl --tokenizer tok --output out sample=7 --json";
    // One shard would go to test.
    expect(&run(&s, line), 2, &["valid_shards=0 test_shards=0"]);
    let done = json_of(&s, &format!("{line} valid_shards=0 test_shards=0 --no-eos --max-doc-tokens 4"));
    assert_eq!(done["counts"]["num_input_rows"], 7);
    assert!(done["counts"]["max_length"].as_u64().unwrap() <= 4);
    assert!(s.path("out/sample-7/blend.json").is_file());
}

#[test]
fn shards_without_documents_are_left_out_and_said() {
    let s = Scratch::new("few");
    tokenizer(&s);
    s.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"tree\"}\n");
    let line =
        "data prep pretrain a.jsonl --tokenizer tok --output out --num-shards 6 --valid-shards 0 --test-shards 0";
    let out = run(&s, line);
    expect(&out, 0, &["3 of 6 shards hold no documents"]);
    let blend = s.json("out/blend.json");
    let train = blend["train"].as_array().unwrap();
    assert_eq!(train.len(), 6);
    for prefix in train.iter().skip(1).step_by(2) {
        assert!(fs::metadata(s.path(&format!("{}.bin", prefix.as_str().unwrap()))).is_ok(), "{prefix}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn chats_are_packed_and_shown_with_their_masks() {
    let s = Scratch::new("sft");
    tokenizer(&s);
    let mut random = Random::fresh();
    let rows: String = (0..60)
        .map(|_| {
            let n = 1 + random.below(9);
            let (ask, answer) = (sentence(&mut random, n), sentence(&mut random, n));
            let row = json!({"used_in": ["nano_v3"], "messages": [
                {"role": "user", "content": ask}, {"role": "assistant", "content": answer},
            ]});
            format!("{row}\n")
        })
        .collect();
    s.write("chats.jsonl", rows + "{\"messages\": []}\n");
    let line = "data prep sft chats.jsonl --tokenizer tok --output out --num-shards 4 --pack-size 256 --json";
    let done = json_of(&s, line);
    assert_eq!(done["counts"]["num_output_sequences"], 60);
    assert_eq!(done["counts"]["num_filtered"], 1);
    let about = json_of(&s, "data inspect out/splits/train --tokenizer tok --json --samples 1");
    assert_eq!(about["convention"], "prepared");
    assert_eq!(about["tokens_by_source"], json!({"chats": about["tokens"]}));
    let text = about["samples"][0]["text"].as_str().unwrap();
    assert!(text.contains("[[") && text.contains("<|im_start|>user"), "{text}");
    let line = "data inspect out/splits/train --tokenizer tok --pack-size 256 --batches 0..2 --dp 2 --rank 1 --json";
    let out = expect(&run(&s, line), 0, &["in all:", "trained"]);
    assert_eq!(out.lines().count(), 2);
    for line in out.lines() {
        let batch: serde_json::Value = serde_json::from_str(line).unwrap();
        let n = batch["seq_length"].as_u64().unwrap();
        assert!(n.is_multiple_of(16) && batch["tokens"].as_array().unwrap().len() as u64 == n);
        assert_eq!(batch["cu_seqlens_padded"].as_array().unwrap().last().unwrap(), n);
    }
}

#[cfg(feature = "parquet")]
#[test]
fn prompts_and_completions_are_packed() {
    let s = Scratch::new("prompts");
    tokenizer(&s);
    let mut random = Random::fresh();
    let row =
        |r: &mut Random| json!({"input": sentence(r, 5), "output": sentence(r, 7), "original_answers": [1.5, "é"]});
    let rows: Vec<String> = (0..41).map(|_| format!("{}\n", row(&mut random))).collect();
    s.write("rows.jsonl", rows.concat());
    let line = "data prep prompt-completion rows.jsonl --rows input-output --tokenizer tok --output out --pack-size 128 --json";
    let done = json_of(&s, line);
    assert_eq!((&done["counts"]["num_rows_training"], &done["counts"]["num_rows_validation"]), (&json!(38), &json!(3)));
    let text = |name: &str| fs::read_to_string(s.path(name)).unwrap();
    let mut written: Vec<String> =
        (text("out/training.jsonl") + &text("out/validation.jsonl")).lines().map(String::from).collect();
    let mut given: Vec<String> =
        rows.iter().map(|r| r.trim_end().replace("\":", "\": ").replace(",\"", ", \"")).collect();
    written.sort();
    given.sort();
    assert_eq!(written, given);
    assert!(!files(&s.path("out")).iter().any(|(name, _)| name.contains(".rows") || name.contains("spool")));
    let packed = done["directory"].as_str().unwrap();
    let about = json_of(&s, &format!("data inspect {packed}/training_128.idx.parquet --json"));
    assert_eq!((&about["convention"], &about["documents"]), (&json!("offline"), &json!(38)));
}

#[test]
fn reinforcement_learning_rows_are_completed() {
    let s = Scratch::new("rl");
    s.write(
        "dapo/train.jsonl",
        "{\"prompt\": [{\"content\": \"What is 1+1?\"}], \"reward_model\": {\"ground_truth\": \"2\"}}\n",
    );
    s.write(
        "blend.jsonl",
        "{\"dataset\": \"dapo17k\", \"_hf_placeholder\": {\"row\": 0}}\n{\"question\": \"own\", \"expected_answer\": \"x\"}\n",
    );
    let done = json_of(&s, "data prep rl --train blend.jsonl --dapo dapo --output out --json");
    assert_eq!(done["counts"]["num_rows_train"], 2);
    let manifest = s.json("out/manifest.json");
    let text = fs::read_to_string(manifest["train"].as_str().unwrap()).unwrap();
    assert!(text.contains("What is 1+1?") && text.contains("\"own\"") && !text.contains("_hf_placeholder"), "{text}");
    expect(&run(&s, "data prep rl --train blend.jsonl --output out2"), 2, &["_hf_placeholder", "dapo"]);
    expect(&run(&s, "data prep rl --output out2"), 2, &["--train"]);
}

#[test]
fn a_tokenizer_is_the_same_from_lines_and_fields() {
    let s = Scratch::new("tokenizer");
    let mut random = Random::fresh();
    let lines: Vec<String> = (0..300).map(|_| sentence(&mut random, 12)).collect();
    s.write("a.txt", lines.iter().map(|l| format!("{l}\n")).collect::<String>());
    s.write("b.jsonl", lines.iter().map(|l| format!("{}\n", json!({"words": format!("{l}\n")}))).collect::<String>());
    let from_lines = json_of(&s, "data tokenizer a.txt --vocab-size 280 --output t1 --json");
    let from_fields = json_of(&s, "data tokenizer b.jsonl --text-field words --vocab-size 280 --output t2 --json");
    assert_eq!(from_lines["characters"], from_fields["characters"]);
    assert_eq!(fs::read(s.path("t1/tokenizer.json")).unwrap(), fs::read(s.path("t2/tokenizer.json")).unwrap());
    let out = expect(&run(&s, "data tokenizer a.txt --vocab-size 9000 --output t3"), 0, &["give more text"]);
    assert!(out.contains("vocab_size"), "{out}");
    expect(&run(&s, "data tokenizer a.txt --vocab-size 100 --output t4"), 2, &["vocab_size", "257"]);
}
