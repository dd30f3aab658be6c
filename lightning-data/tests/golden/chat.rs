use lightning_data::prep::{ChatOutcome, ChatTemplate, RenderOptions, chat_sequences, tokenize_chunks};
use lightning_data::tokenizer::TextTokenizer;
use serde_json::{Value, json};

use super::{json, path};

#[test]
fn golden_data_chats_render_and_split() {
    let golden = json("prep/chat.json");
    let template = ChatTemplate::named("lightning35").unwrap();
    let tokenizer = TextTokenizer::load(path("tokenizer")).unwrap();
    for (row, want) in golden["input_rows"].as_array().unwrap().iter().zip(golden["chats"].as_array().unwrap()) {
        let name = &want["name"];
        let tools = row.get("tools");
        let outcome = chat_sequences(&template, &row["messages"], tools);
        assert_eq!(outcome == ChatOutcome::StrayToolCall, want["valid"] == false, "{name}");
        if want.get("error").is_some() {
            assert!(matches!(outcome, ChatOutcome::Failed(_)), "{name}: {outcome:?}");
            continue;
        }
        let Some(sequences) = want.get("sequences").and_then(Value::as_array) else {
            assert!(!matches!(outcome, ChatOutcome::Sequences(_)), "{name}: {outcome:?}");
            continue;
        };
        if let Some(text) = want["rendered"].as_str() {
            // Tool arguments are objects when the reference renders.
            let mut messages = row["messages"].as_array().unwrap().clone();
            for m in &mut messages {
                for call in m.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Some(s) = call["function"]["arguments"].as_str() {
                        call["function"]["arguments"] = serde_json::from_str(s).unwrap();
                    }
                }
            }
            assert_eq!(template.render(&messages, tools, RenderOptions::default()).unwrap(), text, "{name}");
        }
        let got = match outcome {
            ChatOutcome::Sequences(s) => s,
            ChatOutcome::Empty => Vec::new(),
            other => panic!("{name}: {other:?}"),
        };
        let got: Vec<Value> = got
            .iter()
            .map(|s| {
                let (ids, mask) = tokenize_chunks(&tokenizer, &s.chunks).unwrap();
                let chunks: Vec<[&str; 2]> = s.chunks.iter().map(|c| [c.role.as_str(), c.text.as_str()]).collect();
                json!({"messages": s.messages, "chunks": chunks, "input_ids": ids, "loss_mask": mask})
            })
            .collect();
        assert_eq!(json!(got), json!(sequences), "{name}");
    }
}

#[test]
fn golden_data_generation_prompts() {
    let golden = json("prep/chat.json");
    let template = ChatTemplate::named("lightning35").unwrap();
    let mut messages = golden["input_rows"][0]["messages"].as_array().unwrap().clone();
    messages.push(json!({"role": "user", "content": "And?"}));
    for case in golden["generation_prompts"].as_array().unwrap() {
        let flag = |name: &str, default: bool| case["options"].get(name).map_or(default, |v| v.as_bool().unwrap());
        let options = RenderOptions {
            add_generation_prompt: true,
            enable_thinking: flag("enable_thinking", true),
            medium_effort: flag("medium_effort", false),
            truncate_history_thinking: flag("truncate_history_thinking", true),
        };
        assert_eq!(template.render(&messages, None, options).unwrap(), case["rendered"].as_str().unwrap(), "{case}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn golden_data_fine_tuning_shards() {
    use super::{int, scratch};
    use lightning_data::prep::{BlendFile, DealtRows, FileShare, InputFile, Progress, SftPrep, spool_and_pack};
    use lightning_data::sft::read_prepared;

    let golden = json("prep/chat.json");
    let directory = scratch("chat-shards");
    let input = directory.join("rows.jsonl");
    let lines = golden["input_rows"].as_array().unwrap().iter().map(|row| {
        let mut row = row.clone();
        row.as_object_mut().unwrap().remove("name");
        format!("{row}\n")
    });
    std::fs::write(&input, lines.collect::<String>()).unwrap();
    let tokenizer = TextTokenizer::load(path("tokenizer")).unwrap();
    let template = ChatTemplate::named("lightning35").unwrap();
    let seed = int(&json("prep/packing.json")["seed"]);
    for (name, want) in golden["shards"].as_object().unwrap() {
        let mut settings = SftPrep::new(BlendFile { datasets: Vec::new() }, directory.clone(), path("tokenizer"));
        settings.pack_size = int(&want["pack_size"]) as u32;
        settings.seed = seed;
        settings.max_doc_tokens = want["max_doc_tokens"].as_u64().map(|n| n as usize);
        settings.chat.used_in_filter = want["used_in_filter"].as_str().map(str::to_string);
        settings.row_group = 2; // several row groups; their size changes nothing
        let files = [FileShare { file: InputFile { path: input.clone(), size: 1 }, rows: None }];
        let prefix = directory.join(name).join("shard_000000");
        let (receipts, stats) = spool_and_pack(
            &settings,
            &tokenizer,
            &template,
            &files,
            &DealtRows::new(&directory),
            &prefix,
            &Progress::default(),
        )
        .unwrap();
        let got = serde_json::to_value(&stats).unwrap();
        for (key, n) in want["spool_stats"].as_object().unwrap() {
            assert_eq!(got[key], *n, "{name} {key}");
        }
        assert_eq!(stats.num_packed_sequences, int(&want["num_packed"]), "{name}");
        assert_eq!(stats.total_tokens, int(&want["total_tokens"]), "{name}");
        assert_eq!(stats.num_truncated_to_pack_size, int(&want["truncated_to_pack"]), "{name}");
        let packs = read_prepared(&prefix.with_extension("parquet")).unwrap();
        let rows: Vec<Value> = packs.0.iter().map(super::sft::pack_json).collect();
        assert_eq!(json!(rows), want["rows"], "{name}");
        let left: Vec<_> = std::fs::read_dir(directory.join(name)).unwrap().collect();
        assert_eq!(left.len(), receipts.len(), "the spool is gone");
    }
    std::fs::remove_dir_all(directory).unwrap();
}
