use lightning_data::DataError;
use lightning_data::inspect::{show_pack, summarize_packs};
use lightning_data::prep::{BadRows, BlendFile, SftPrep, prepare_sft};
use lightning_data::sft::{
    MemoryPacks, OfflinePacks, Pack, PackStore, ParquetPacks, PreparedPacks, read_offline, read_prepared,
    write_offline, write_prepared,
};
use lightning_data::tokenizer::TextTokenizer;
use proptest::prelude::*;
use serde_json::json;

use super::{Scratch, error, prep::tokenizer};

fn packs() -> impl Strategy<Value = Vec<Pack>> {
    let example = prop::collection::vec((0i32..200_000, 0u8..2), 1..9);
    let pack = prop::collection::vec(example, 1..5).prop_map(|examples| {
        let mut pack = Pack::default();
        for e in examples {
            pack.seq_start_id.push(pack.input_ids.len() as u32);
            pack.input_ids.extend(e.iter().map(|t| t.0));
            pack.loss_mask.extend(e.iter().map(|t| t.1));
        }
        pack
    });
    prop::collection::vec(pack, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packs_round_trip_in_both_conventions(packs in packs(), group in 1usize..12) {
        let scratch = Scratch::new("round");
        let (a, b) = (scratch.path("a.parquet"), scratch.path("b.parquet"));
        write_offline(&a, &OfflinePacks(packs.clone())).unwrap();
        write_prepared(&b, &PreparedPacks(packs.clone()), group).unwrap();
        prop_assert_eq!(&read_offline(&a).unwrap().0, &packs);
        prop_assert_eq!(&read_prepared(&b).unwrap().0, &packs);
        prop_assert!(read_prepared(&a).is_err() && read_offline(&b).is_err());
        prop_assert!(ParquetPacks::prepared(&[a]).is_err());
    }

    // Flipped bytes and cuts: an error or some packs that obey the rules; never a panic.
    #[test]
    fn hostile_parquet_bytes_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5), cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let scratch = Scratch::new("hostile");
        let path = scratch.path("x.parquet");
        let pack = Pack { input_ids: (0..50).collect(), loss_mask: vec![1; 50], seq_start_id: vec![0, 20] };
        write_prepared(&path, &PreparedPacks(vec![pack; 20]), 7).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::write(&path, &bytes).unwrap();
        std::panic::set_hook(Box::new(|_| {})); // the library's own panics are caught; keep them quiet
        let whole = read_prepared(&path);
        let _ = std::panic::take_hook();
        if let Ok(packs) = whole {
            for (row, pack) in packs.0.iter().enumerate() {
                pack.check(&path, row as u64).unwrap();
            }
        }
    }
}

fn chat(i: usize) -> serde_json::Value {
    json!({
        "used_in": ["nano_v3"],
        "messages": [
            {"role": "user", "content": format!("the cat {i}")},
            {"role": "assistant", "content": "sat on the mat ".repeat(i % 9 + 1)},
        ],
    })
}

#[test]
fn chats_become_split_directories_and_the_run_resumes() {
    let scratch = Scratch::new("sft");
    tokenizer(&scratch);
    let raw = scratch.path("chats.jsonl");
    std::fs::write(&raw, (0..200).map(|i| format!("{}\n", chat(i))).collect::<String>()).unwrap();
    let blend: BlendFile = serde_json::from_value(json!({"datasets": [{"name": "c", "path": raw}]})).unwrap();
    let mut s = SftPrep::new(blend, scratch.path("out"), scratch.path("tokenizer"));
    (s.num_shards, s.pack_size, s.threads) = (5, 128, 2);
    let run = prepare_sft(&s, &|_| {}).unwrap();
    assert_eq!(run.stats["num_output_sequences"], 200);
    let list = |split: &str| {
        let mut paths: Vec<_> =
            std::fs::read_dir(scratch.path("out/splits").join(split)).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        paths
    };
    assert_eq!((list("train").len(), list("valid").len(), list("test").len()), (3, 1, 1));
    let link = std::fs::read_link(&list("train")[0]).unwrap();
    assert!(link.is_relative() && list("train")[0].to_str().unwrap().contains("000000__c__shard_"));
    let store = ParquetPacks::prepared(&list("train")).unwrap();
    let summary = summarize_packs(&store).unwrap();
    assert_eq!(summary.documents, 120);
    assert!(summary.trained_tokens.unwrap() > 0 && summary.trained_tokens.unwrap() < summary.tokens);
    let tokenizer = TextTokenizer::load(scratch.path("tokenizer")).unwrap();
    let shown = show_pack(&tokenizer, &store.pack(0).unwrap()).unwrap();
    assert!(shown.contains("[[sat on the mat") && shown.contains("<|im_start|>user\nthe cat "), "{shown}");
    assert!(!shown.contains("[[the cat"));
    let bytes = || list("train").iter().map(|p| std::fs::read(p).unwrap()).collect::<Vec<_>>();
    let before = bytes();
    std::fs::remove_file(std::fs::canonicalize(&list("train")[1]).unwrap()).unwrap();
    prepare_sft(&s, &|_| {}).unwrap();
    assert_eq!(bytes(), before);
    // The ratios count the shards of one dataset; two shards or fewer hold nothing out.
    assert_eq!([1, 2, 3, 128, 250].map(|n| s.held_out(n)), [(0, 0), (0, 0), (1, 1), (1, 1), (2, 2)]);
    s.chat.used_in_filter = Some("other".into());
    let none = prepare_sft(&s, &|_| {}).unwrap();
    assert_eq!(none.stats["num_filtered"], 200);
    assert_eq!(list("train").len(), 0, "empty shards are not linked");
    s.chat_template = "chatml".into();
    assert!(error(prepare_sft(&s, &|_| {}), "an unknown template").to_string().contains("lightning35"));
}

#[test]
fn parquet_rows_are_texts_and_chats() {
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::writer::SerializedFileWriter;
    let scratch = Scratch::new("input");
    tokenizer(&scratch);
    let path = scratch.path("t.parquet");
    let schema = "message m { optional binary text (UTF8); required binary raw; }";
    let schema = std::sync::Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(std::fs::File::create(&path).unwrap(), schema, Default::default()).unwrap();
    for _ in 0..2 {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values = [ByteArray::from("first"), ByteArray::from("second"), ByteArray::from(vec![0xff])];
        column.typed::<ByteArrayType>().write_batch(&values, Some(&[1, 0, 1, 1]), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&vec![ByteArray::from("x"); 4], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    let blend: BlendFile = serde_json::from_value(json!({"datasets": [{"name": "t", "path": path}]})).unwrap();
    let mut s = lightning_data::prep::PretrainPrep::new(blend, scratch.path("out"), scratch.path("tokenizer"));
    (s.num_shards, s.valid_shards, s.test_shards) = (1, 0, 0);
    let e = error(lightning_data::prep::prepare_pretrain(&s, &|_| {}), "bytes").to_string();
    assert!(e.contains("UTF-8") && e.contains("entry 4"), "{e}");
    s.on_bad_row = BadRows::Skip;
    s.force = true;
    let run = lightning_data::prep::prepare_pretrain(&s, &|_| {}).unwrap();
    let counts =
        ["num_input_rows", "num_documents", "num_filtered", "num_errors"].map(|k| run.stats[k].as_u64().unwrap());
    assert_eq!(counts, [8, 4, 2, 2]);
    s.blend.datasets[0].text_field = "body".into();
    let e = error(lightning_data::prep::prepare_pretrain(&s, &|_| {}), "a missing column").to_string();
    assert!(e.contains("body") && e.contains("\"text\", \"raw\""), "{e}");
}

#[test]
fn damaged_packs_are_named() {
    let scratch = Scratch::new("damaged");
    let path = scratch.path("bad.parquet");
    let bad = Pack { input_ids: vec![1, 2, 3], loss_mask: vec![0, 1], seq_start_id: vec![0] };
    write_offline(&path, &OfflinePacks(vec![bad])).unwrap();
    let e = error(read_offline(&path), "a short mask");
    assert!(matches!(&e, DataError::Invalid { entry: Some(0), .. }) && e.to_string().contains("bad.parquet"), "{e}");
    std::fs::write(&path, b"PAR1 not really").unwrap();
    assert!(error(read_offline(&path), "no Parquet").to_string().contains("bad.parquet"));
    assert!(matches!(error(read_offline(&scratch.path("none")), "absence"), DataError::Io { .. }));
    let store = MemoryPacks::offline(OfflinePacks(Vec::new()), "nothing");
    assert!(store.pack(0).is_err());
}

#[test]
fn prompts_and_completions_become_offline_packs() {
    use lightning_data::prep::{PromptCompletionPrep, prepare_prompt_completion};
    use lightning_data::sft::PackMetadata;
    let scratch = Scratch::new("openmath");
    tokenizer(&scratch);
    let raw = scratch.path("math.jsonl");
    let row = |i: usize| json!({"problem": format!("the cat {i}"), "generated_solution": "sat ".repeat(i % 5 + 1), "expected_answer": i.to_string()});
    std::fs::write(&raw, (0..101).map(|i| format!("{}\n", row(i))).collect::<String>()).unwrap();
    for multiple in [1, 4] {
        let output = scratch.path(&format!("out{multiple}"));
        let mut s = PromptCompletionPrep::new(raw.display().to_string(), output.clone(), scratch.path("tokenizer"), 96);
        s.pad_seq_to_mult = multiple;
        let run = prepare_prompt_completion(&s, &|_| {}).unwrap();
        assert_eq!((&run.stats["num_rows_training"], &run.stats["num_rows_validation"]), (&json!(95), &json!(6)));
        let metadata: Vec<PackMetadata> = serde_json::from_slice(&std::fs::read(&run.blend).unwrap()).unwrap();
        assert_eq!(metadata.len(), 2);
        let name = run.directory.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with(&format!("tokenizer_pad_seq_to_mult{multiple}_sft_")), "{name}");
        let packs = read_offline(&run.directory.join("training_96.idx.parquet")).unwrap();
        assert_eq!(packs.0.iter().map(|p| p.seq_start_id.len()).sum::<usize>(), 95);
        for pack in &packs.0 {
            assert!(pack.runtime_length() <= 96);
            assert!(pack.ranges().all(|r| (r.len() - 1).is_multiple_of(multiple as usize)));
        }
        let most = packs.0.iter().map(|p| p.seq_start_id.len() as u32).max().unwrap();
        assert_eq!(metadata[0].max_samples_per_bin, most);
        let lines = std::fs::read_to_string(output.join("validation.jsonl")).unwrap();
        assert!(lines.lines().count() == 6 && lines.contains("\"input\": \"Problem: the cat "), "{lines}");
        // No spool is left.
        assert_eq!(std::fs::read_dir(&run.directory).unwrap().count(), 3);
    }
    std::fs::write(&raw, "{\"problem\": \"x\"}\n").unwrap();
    let s = PromptCompletionPrep::new(raw.display().to_string(), scratch.path("o"), scratch.path("tokenizer"), 96);
    let e = error(prepare_prompt_completion(&s, &|_| {}), "a missing column").to_string();
    assert!(e.contains("generated_solution") && e.contains("math.jsonl"), "{e}");
}
