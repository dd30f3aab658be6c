use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use lightning_data::DataError;
use lightning_data::indexed::IndexedDataset;
use lightning_data::inspect::{show_sequence, summarize_indexed};
use lightning_data::prep::{
    BadRows, BlendFile, FileShare, InputFile, PretrainPrep, RlPrep, find_files, plan_shards, prepare_pretrain,
    prepare_rl,
};
use lightning_data::tokenizer::{TextTokenizer, TrainingSettings, train_on_texts};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Scratch, error};

/// A small tokenizer in `scratch/tokenizer`.
pub fn tokenizer(scratch: &Scratch) -> PathBuf {
    let directory = scratch.path("tokenizer");
    let mut settings = TrainingSettings::new(300);
    settings.special_tokens.extend(["<|im_start|>", "<|im_end|>"].map(String::from));
    let texts = (0..40).map(|i| Ok(format!("the cat sat on the mat {i} and then the other cat sat too")));
    train_on_texts(texts, &settings).unwrap().save(&directory).unwrap();
    directory
}

fn text(i: usize) -> String {
    format!("document {i}: {}", "the cat sat on the mat. ".repeat(i % 7))
}

fn write_inputs(scratch: &Scratch) -> PathBuf {
    let directory = scratch.path("raw");
    std::fs::create_dir_all(&directory).unwrap();
    for f in 0..5usize {
        let rows: String = (0..40).map(|r| format!("{}\n", json!({"id": r, "text": text(f * 40 + r)}))).collect();
        std::fs::write(directory.join(format!("part{f}.jsonl")), rows).unwrap();
    }
    directory
}

fn blend(entries: &[(&str, &Path, f64)]) -> BlendFile {
    let datasets: Vec<Value> = entries.iter().map(|(n, p, w)| json!({"name": n, "path": p, "weight": w})).collect();
    serde_json::from_value(json!({ "datasets": datasets })).unwrap()
}

fn settings(scratch: &Scratch, blend: BlendFile) -> PretrainPrep {
    let mut s = PretrainPrep::new(blend, scratch.path("out"), scratch.path("tokenizer"));
    s.num_shards = 4;
    s.threads = 3;
    s
}

/// Every file under a directory with its bytes, receipts and locks apart.
fn files_under(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if !path.to_str().unwrap().ends_with(".lock") {
                all.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    all
}

#[test]
fn a_preparation_goes_on_after_any_interruption_with_the_same_bytes() {
    let scratch = Scratch::new("resume");
    tokenizer(&scratch);
    let raw = write_inputs(&scratch);
    let s = settings(&scratch, blend(&[("a", &raw, 1.0), ("zero", &raw, 0.0)]));
    let reports = Mutex::new(Vec::new());
    let run = prepare_pretrain(&s, &|r| reports.lock().unwrap().push(*r)).unwrap();
    let last = *reports.lock().unwrap().last().unwrap();
    assert_eq!((last.shards_done, last.shards_total, last.rows), (8, 8, 400));
    assert_eq!(last.bytes_read, last.bytes_total);
    assert!(last.tokens > 0 && last.tokens_per_second() > 0.0);
    assert_eq!(run.stats["num_documents"], 400);
    assert_eq!(run.stats["total_tokens"], last.tokens);
    // A dataset of weight 0 is prepared and left out; one shard each is held out.
    let lists = (run.splits.train.len(), run.splits.valid.len(), run.splits.test.len());
    assert_eq!(lists, (2, 1, 1));
    let before = files_under(&run.directory);
    let plan = run.directory.join("datasets/a").read_dir().unwrap().next().unwrap().unwrap().path();
    let wound: [&dyn Fn(); 4] = [
        // Killed while writing: a started receipt, a leftover, no files.
        &|| {
            let receipt = plan.join("receipts/shard_000000.json");
            let text = std::fs::read_to_string(&receipt).unwrap().replace("completed", "started");
            std::fs::write(receipt, text).unwrap();
            std::fs::write(plan.join(".shard_000000.bin.99.0.tmp"), "half").unwrap();
            std::fs::remove_file(plan.join("shard_000000.bin")).unwrap();
        },
        // Killed between the two files.
        &|| {
            std::fs::remove_file(plan.join("shard_000001.idx")).unwrap();
            std::fs::remove_file(plan.join("receipts/shard_000001.json")).unwrap();
        },
        // A flipped bit.
        &|| {
            let bin = plan.join("shard_000002.bin");
            let mut bytes = std::fs::read(&bin).unwrap();
            bytes[5] ^= 4;
            std::fs::write(bin, bytes).unwrap();
        },
        // A receipt cut short.
        &|| std::fs::write(plan.join("receipts/shard_000003.json"), "{\"status\": \"comp").unwrap(),
    ];
    for (i, wound) in wound.iter().enumerate() {
        let untouched = plan.join(format!("shard_{:06}.bin", (i + 1) % 4));
        let changed = || std::fs::metadata(&untouched).unwrap().modified().unwrap();
        let stamp = changed();
        wound();
        let again = prepare_pretrain(&s, &|_| {}).unwrap();
        assert_eq!(again.directory, run.directory);
        assert_eq!(files_under(&run.directory), before, "wound {i}");
        assert_eq!(changed(), stamp, "only the wounded shard is made again");
    }
    // All documents are there, in the order of rows, whatever the number of threads.
    let mut one = s.clone();
    one.threads = 1;
    one.output = scratch.path("other");
    let other = prepare_pretrain(&one, &|_| {}).unwrap();
    let strip = |run: &Path| -> Vec<Vec<u8>> {
        files_under(&run.join("datasets"))
            .into_iter()
            .filter(|f| f.0.extension().is_some_and(|e| e == "bin"))
            .map(|f| f.1)
            .collect()
    };
    assert_eq!(strip(&other.directory), strip(&run.directory));
    let prefix = PathBuf::from(&run.splits.train[0].1);
    assert_eq!(summarize_indexed(&prefix).unwrap().sequences, IndexedDataset::open(&prefix).unwrap().len());
    let mut force = s;
    force.force = true;
    assert_ne!(prepare_pretrain(&force, &|_| {}).unwrap().directory, run.directory);
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Documents of a preparation of one directory in one shard, as text.
fn documents(
    scratch: &Scratch,
    raw: &Path,
    change: impl Fn(&mut PretrainPrep),
) -> lightning_data::Result<(Vec<String>, Value)> {
    let mut s = settings(scratch, blend(&[("d", raw, 1.0)]));
    (s.num_shards, s.valid_shards, s.test_shards, s.force) = (1, 0, 0, true);
    s.output = scratch.path(&format!("out{}", std::fs::read_dir(&scratch.0).unwrap().count()));
    change(&mut s);
    let run = prepare_pretrain(&s, &|_| {})?;
    let data = IndexedDataset::open_validated(&run.splits.train[0].1)?;
    let tokenizer = TextTokenizer::load(scratch.path("tokenizer"))?;
    let show = |d| -> lightning_data::Result<String> {
        Ok(show_sequence(&tokenizer, &data.read(d)?)?.replace("<|endoftext|>", "$"))
    };
    Ok(((0..data.len()).map(show).collect::<lightning_data::Result<_>>()?, run.stats))
}

#[test]
fn all_kinds_of_files_are_read() {
    let scratch = Scratch::new("kinds");
    tokenizer(&scratch);
    let raw = scratch.path("kinds");
    std::fs::create_dir_all(raw.join("deep")).unwrap();
    let line = |t: &str| format!("{{\"text\": \"{t}\"}}\n").into_bytes();
    std::fs::write(
        raw.join("a.jsonl"),
        b"\n{\"x\": [1, {\"text\": \"no\"}], \"text\": \"one\"}\r\n\n{\"text\":\"zwei\"}",
    )
    .unwrap();
    // Two members and two frames, with a skippable frame between.
    std::fs::write(raw.join("b.jsonl.gz"), [gz(&line("gz1")), gz(&line("gz2"))].concat()).unwrap();
    let skip = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9].to_vec();
    std::fs::write(raw.join("c.jsonl.zst"), [zst(&line("zst1")), skip, zst(&line("zst2"))].concat()).unwrap();
    std::fs::write(raw.join("deep/d.txt"), "plain\ntext").unwrap();
    std::fs::write(raw.join("README.md"), "not data").unwrap();
    std::fs::write(raw.join("empty.jsonl"), "").unwrap();
    let (docs, stats) = documents(&scratch, &raw, |_| {}).unwrap();
    assert_eq!(docs, ["one$", "zwei$", "gz1$", "gz2$", "zst1$", "zst2$", "plain\ntext$"]);
    assert_eq!(stats["num_input_rows"], 7);
    let (docs, _) = documents(&scratch, &raw, |s| s.sample = Some(3)).unwrap();
    assert_eq!(docs, ["one$", "zwei$", "gz1$"]);
    let (docs, stats) = documents(&scratch, &raw, |s| {
        (s.min_doc_chars, s.max_doc_tokens) = (Some(4), Some(2));
    })
    .unwrap();
    assert_eq!(docs.len(), 4);
    assert_eq!((&stats["num_filtered"], &stats["num_truncated"]), (&json!(3), &json!(4)));
    assert!(docs.iter().all(|d| !d.contains('$')), "a cut document has no end");
}

#[test]
fn bad_rows_stop_the_run_by_name_or_are_counted() {
    let scratch = Scratch::new("bad-rows");
    tokenizer(&scratch);
    let good = b"{\"text\": \"good\"}\n".to_vec();
    let with = |bad: &[u8]| [good.clone(), b"\n".to_vec(), bad.to_vec(), good.clone()].concat();
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("json", with(b"{\"text\": \"cut\n"), "entry 3"),
        ("type", with(b"{\"text\": [\"list\"]}\n"), "sequence"),
        ("object", with(b"{\"text\": {\"a\": 1}}\n"), "map"),
        ("array", with(b"[1, 2]\n"), "entry 3"),
        ("utf8", with(b"{\"text\": \"na\xefve\"}\n"), "entry 3"),
        ("twice", with(b"{\"text\": \"a\"} {\"text\": \"b\"}\n"), "entry 3"),
    ];
    for (name, bytes, says) in cases {
        let raw = scratch.path(name);
        std::fs::create_dir_all(&raw).unwrap();
        std::fs::write(raw.join("rows.jsonl"), bytes).unwrap();
        let e = error(documents(&scratch, &raw, |_| {}), name).to_string();
        assert!(e.contains("rows.jsonl") && e.contains(says) && e.contains("on_bad_row"), "{e}");
        let (docs, stats) = documents(&scratch, &raw, |s| s.on_bad_row = BadRows::Skip).unwrap();
        assert_eq!((docs.len(), &stats["num_errors"]), (2, &json!(1)), "{name}");
    }
    // Scalars become text as Python prints them.
    let raw = scratch.path("scalars");
    std::fs::create_dir_all(&raw).unwrap();
    std::fs::write(raw.join("x.jsonl"), "{\"text\": 1.5e16}\n{\"text\": true}\n{\"text\": -3}\n{\"text\": null}\n{}\n")
        .unwrap();
    let (docs, stats) = documents(&scratch, &raw, |_| {}).unwrap();
    assert_eq!(docs, ["1.5e+16$", "True$", "-3$"]);
    assert_eq!(stats["num_filtered"], 2);
    // Compressed files cut short.
    for (name, whole) in [("cut.jsonl.gz", gz(&good.repeat(900))), ("cut.jsonl.zst", zst(&good.repeat(900)))] {
        let raw = scratch.path(&format!("{name}.d"));
        std::fs::create_dir_all(&raw).unwrap();
        std::fs::write(raw.join(name), &whole[..whole.len() - 9]).unwrap();
        let e = error(documents(&scratch, &raw, |_| {}), name).to_string();
        assert!(e.contains(name) && e.contains("whole"), "{e}");
    }
}

#[test]
fn bad_settings_are_refused_before_any_work() {
    let scratch = Scratch::new("bad-settings");
    tokenizer(&scratch);
    let raw = write_inputs(&scratch);
    let base = || settings(&scratch, blend(&[("a", &raw, 1.0)]));
    let fails = |change: &dyn Fn(&mut PretrainPrep), says: &str| {
        let mut s = base();
        change(&mut s);
        let e = error(prepare_pretrain(&s, &|_| {}), says).to_string();
        assert!(e.contains(says), "{e}");
    };
    fails(&|s| s.num_shards = 0, "num_shards");
    fails(&|s| s.sample = Some(10), "valid_shards=0"); // one shard, and it would all go to test
    fails(&|s| s.blend.datasets[0].name = "../up".into(), "directory name");
    fails(&|s| s.blend.datasets[0].weight = f64::NAN, "finite");
    fails(&|s| s.blend.datasets.clear(), "at least one");
    fails(&|s| s.blend.datasets[0].path = scratch.path("nowhere").display().to_string(), "nowhere");
    fails(&|s| s.blend.datasets[0].path = "hf://nobody/nothing".into(), "hf download");
    fails(&|s| s.blend.datasets[0].subset = Some("x".into()), "subset");
    fails(&|s| s.tokenizer = scratch.path("none"), "none");
    fails(&|s| s.add_bos = true, "bos_token");
    fails(&|s| s.output = raw.join("part0.jsonl"), "part0.jsonl");
    let mut twice = base();
    twice.blend.datasets.push(twice.blend.datasets[0].clone());
    assert!(error(prepare_pretrain(&twice, &|_| {}), "one name twice").to_string().contains("twice"));
    for (text, says) in [
        ("{", "JSON"),
        ("{\"train\": []}", "raw datasets"),
        ("{\"datasets\": [{\"name\": \"a\"}]}", "path"),
        ("{\"datasets\": [{\"name\": \"a\", \"path\": \"b\", \"wight\": 1}]}", "wight"),
        ("{\"datasets\": []}", "at least one"),
    ] {
        let path = scratch.path("blend.json");
        std::fs::write(&path, text).unwrap();
        let e = error(BlendFile::read(&path), text).to_string();
        assert!(e.contains(says) && e.contains("blend.json"), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    // Every row of every file is read by exactly one shard.
    #[test]
    fn plans_cover_every_row_once(sizes in prop::collection::vec(0u64..1000, 1..9), shards in 1usize..14) {
        let files: Vec<InputFile> =
            sizes.iter().enumerate().map(|(i, &size)| InputFile { path: format!("f{i}").into(), size }).collect();
        let plan = plan_shards(&files, shards);
        prop_assert_eq!(plan.len(), shards);
        let reads = |s: &FileShare, file: &InputFile, row: u64| {
            s.file == *file && s.rows.is_none_or(|(n, k)| row % n == k)
        };
        for file in &files {
            for row in 0..30 {
                let n = plan.iter().flatten().filter(|s| reads(s, file, row)).count();
                prop_assert_eq!(n, 1, "{:?} row {}", file, row);
            }
        }
    }
}

#[test]
fn placeholders_are_filled_from_local_rows() {
    let scratch = Scratch::new("rl");
    let write = |name: &str, rows: &[Value]| {
        let path = scratch.path(name);
        std::fs::write(&path, rows.iter().map(|r| format!("{r}\n")).collect::<String>()).unwrap();
        path
    };
    let wrapped = "Solve the following math problem step by step. The last line of your response should be of the form \
                   Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\nWhat is 1+1?\n\n\
                   Remember to put your answer on its own line after \"Answer:\".";
    let dapo = write("dapo.jsonl", &[json!({"prompt": [{"content": wrapped}], "reward_model": {"ground_truth": "2"}})]);
    let skywork = write(
        "skywork.jsonl",
        &[
            json!({"prompt": [{"content": "no"}], "reward_model": {"ground_truth": "[\"0\"]"}}),
            json!({"prompt": [{"content": "Half?"}], "reward_model": {"ground_truth": "[\"1/2\", \"0.5\"]"}}),
        ],
    );
    let rows = [
        json!({"id": 1, "dataset": "nano_v3_sft_profiled_dapo17k",
               "_hf_placeholder": {"row": 0, "question_template": {"prefix": "", "suffix": ""}}}),
        json!({"id": 2, "dataset": "nano_v3_sft_profiled_skywork_no_omni",
               "_hf_placeholder": {"row": 1, "question_template": "Q: {question}!"}}),
        json!({"id": 3, "expected_answer": "kept"}),
    ];
    let train = write("train.jsonl", &rows);
    let mut s = RlPrep {
        name: "blend".into(),
        splits: vec![("train".into(), train.display().to_string())],
        dapo: Some(dapo),
        skywork: Some(skywork),
        output: scratch.path("out"),
        on_bad_row: BadRows::Stop,
    };
    let run = prepare_rl(&s, &|_| {}).unwrap();
    let manifest: Value = serde_json::from_slice(&std::fs::read(run.blend).unwrap()).unwrap();
    let file = manifest["train"].as_str().unwrap();
    assert!(Path::new(file).is_absolute() && file.ends_with("blend__train/shard_000000.jsonl"));
    let out: Vec<Value> =
        std::fs::read_to_string(file).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(out[0]["question"], "What is 1+1?");
    assert_eq!((&out[0]["expected_answer"], &out[1]["expected_answer"]), (&json!(2), &json!("1/2")));
    assert_eq!(out[1]["question"], "Half?");
    assert_eq!(out[1]["responses_create_params"]["input"][0]["content"], "Q: Half?!");
    assert_eq!(out[2], rows[2]);
    s.skywork = None;
    assert!(error(prepare_rl(&s, &|_| {}), "no Skywork rows").to_string().contains("skywork"));
    s.splits[0].0 = "validation".into();
    assert!(error(prepare_rl(&s, &|_| {}), "an unknown split").to_string().contains("`val`"));
}

#[test]
fn the_hub_cache_is_found_by_subset_and_split() {
    let scratch = Scratch::new("files");
    let root = scratch.path("repo");
    for name in [
        "data/math/train-00000-of-00001.jsonl",
        "data/math/test-00000-of-00001.jsonl",
        "other/x.jsonl",
        ".hidden/y.jsonl",
    ] {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "{}\n").unwrap();
    }
    let names = |subset, split| -> Vec<String> {
        find_files(root.to_str().unwrap(), subset, split)
            .unwrap()
            .iter()
            .map(|f| f.path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    };
    assert_eq!(names(None, None), ["test-00000-of-00001.jsonl", "train-00000-of-00001.jsonl", "x.jsonl"]);
    assert_eq!(names(Some("math"), Some("train")), ["train-00000-of-00001.jsonl"]);
    assert_eq!(names(Some("other"), Some("train")), ["x.jsonl"]);
    let e = error(find_files(scratch.path("repo/.hidden").to_str().unwrap(), Some("z"), None), "no subset");
    assert!(matches!(e, DataError::Invalid { .. }));
}
