//! Input that cannot be right: the file and the place are named, and the exit code says whose problem it is.

use super::support::*;
use std::fs;

const PREP: &str = "--tokenizer tok --output out --num-shards 3";

#[test]
fn rows_that_cannot_be_read_stop_or_are_counted() {
    let s = Scratch::new("rows");
    tokenizer(&s);
    let good = "{\"text\": \"one two\"}\n";
    let bad: [(&str, &[u8], &[&str]); 5] = [
        ("malformed", b"{\"text\": \"one\n", &["entry 2"]),
        ("cut", b"{\"text\": ", &["entry 2"]),
        ("type", b"{\"text\": [1]}\n", &["entry 2", "text"]),
        ("list", b"[1, 2]\n", &["entry 2"]),
        ("utf8", b"{\"text\": \"\xFF\xFE\"}\n", &["entry 2"]),
    ];
    for (name, row, words) in bad {
        let file = format!("{name}.jsonl");
        s.write(&file, [good.as_bytes(), row, &good.repeat(20).into_bytes()].concat());
        let line = format!("data prep pretrain {file} {PREP}/{name}");
        let line = line.replace("--output out --num-shards 3", "--num-shards 3 --output out");
        let out = run(&s, &line);
        let text = expect(&out, 3, &[&file, "on_bad_row=skip"]);
        assert!(text.is_empty());
        expect(&out, 3, words);
        let done = json_of(&s, &format!("{line} on_bad_row=skip --json"));
        // A cut line swallows the row behind it.
        assert!(done["counts"]["num_errors"].as_u64().unwrap() >= 1, "{name}: {done}");
        assert!(done["counts"]["num_documents"].as_u64().unwrap() >= 20);
    }
    expect(
        &run(&s, &format!("data prep pretrain type.jsonl {PREP} --on-bad-row maybe")),
        2,
        &["stop or skip", "maybe"],
    );
}

#[test]
fn files_that_are_damaged_are_named() {
    let s = Scratch::new("files");
    tokenizer(&s);
    let mut random = Random::fresh();
    corpus(&s, "a.jsonl", 400, &mut random);
    let line = |input: &str| format!("data prep pretrain {input} {PREP}");
    expect(&run(&s, &line("missing.jsonl")), 3, &["missing.jsonl", "check the path"]);
    expect(&run(&s, &line("hf://org/repo")), 2, &["org/repo", "hf download"]);
    s.write("empty.jsonl", "");
    expect(&run(&s, &line("empty.jsonl")), 3, &["a data set with a weight has documents", "empty.jsonl"]);
    s.write("field.jsonl", "{\"content\": \"one\"}\n".repeat(9));
    expect(&run(&s, &line("field.jsonl")), 3, &["field.jsonl", "text field"]);
    let gzip = std::process::Command::new("gzip").arg("-k").arg(s.path("a.jsonl")).status();
    if gzip.is_ok_and(|s| s.success()) {
        let whole = fs::read(s.path("a.jsonl.gz")).unwrap();
        s.write("cut.jsonl.gz", &whole[..whole.len() / 2]);
        expect(&run(&s, &line("cut.jsonl.gz")), 3, &["cut.jsonl.gz", "compress the file again"]);
        expect(&run(&s, &line("a.jsonl.gz")), 0, &[]);
    }
    if cfg!(feature = "parquet") {
        s.write("cut.parquet", b"PAR1 this is not a table PAR1");
        expect(&run(&s, &line("cut.parquet")), 3, &["cut.parquet"]);
        expect(&run(&s, "data inspect cut.parquet"), 3, &["cut.parquet"]);
        let row = "{\"input\": \"one\", \"output\": \"two\"}\n";
        s.write("rows.jsonl", row.repeat(50));
        let pack =
            "data prep prompt-completion rows.jsonl --rows input-output --tokenizer tok --output pc --pack-size 64";
        let packed = json_of(&s, &format!("{pack} --json"))["directory"].as_str().unwrap().to_string();
        let whole = fs::read(s.path(&packed).join("training_64.idx.parquet")).unwrap();
        s.write("half.idx.parquet", &whole[..whole.len() / 2]);
        expect(&run(&s, "data inspect half.idx.parquet"), 3, &["half.idx.parquet", "again"]);
    }
    s.write("a.csv", "x,y\n");
    expect(&run(&s, &line("a.csv")), 3, &["a.csv", ".jsonl"]);
}

#[test]
fn tokenizers_that_cannot_be_used_are_named() {
    let s = Scratch::new("tokenizers");
    tokenizer(&s);
    s.write("a.jsonl", "{\"text\": \"one\"}\n");
    let line = |tok: &str| format!("data prep pretrain a.jsonl --tokenizer {tok} --output out --num-shards 3");
    expect(&run(&s, &line("nowhere")), 3, &["nowhere"]);
    s.write("slow/tokenizer.json", "{\"model\": {\"type\": \"Unheard\"}}");
    expect(&run(&s, &line("slow")), 3, &["slow", "fast tokenizer"]);
    s.write("noeos/tokenizer.json", fs::read(s.path("tok/tokenizer.json")).unwrap());
    expect(&run(&s, &line("noeos")), 3, &["eos_token"]);
    expect(&run(&s, &format!("{} --add-bos", line("tok"))), 3, &["bos_token"]);
}

#[test]
fn token_files_that_break_a_rule_are_named() {
    let s = Scratch::new("indexed");
    tokenizer(&s);
    corpus(&s, "a.jsonl", 60, &mut Random::fresh());
    let line =
        "data prep pretrain a.jsonl --tokenizer tok --output out --num-shards 1 --valid-shards 0 --test-shards 0";
    expect(&run(&s, line), 0, &[]);
    let prefix = s.json("out/blend.json")["train"][1].as_str().unwrap().to_string();
    expect(
        &run(&s, &format!("data inspect {prefix} --vocab-size 20")),
        3,
        &["outside the vocabulary of 20", "position"],
    );
    let bin = fs::read(s.path(&format!("{prefix}.bin"))).unwrap();
    let idx = fs::read(s.path(&format!("{prefix}.idx"))).unwrap();
    s.write("short.bin", &bin[..bin.len() - 4]);
    s.write("short.idx", &idx);
    expect(&run(&s, "data inspect short"), 3, &["short"]);
    s.write("half.bin", &bin);
    s.write("half.idx", &idx[..idx.len() / 2]);
    expect(&run(&s, "data inspect half.idx"), 3, &["half.idx"]);
    let mut float = idx.clone();
    float[17] = 7;
    s.write("float.bin", &bin);
    s.write("float.idx", float);
    expect(&run(&s, "data inspect float"), 3, &["float32", "integer type"]);
    expect(&run(&s, "data inspect nothing"), 3, &["nothing.idx"]);
    expect(&run(&s, &format!("data inspect {prefix} --batches 0..1")), 2, &["--recipe"]);
}

#[test]
fn blends_that_cannot_be_are_named() {
    let s = Scratch::new("blends");
    tokenizer(&s);
    s.write("a.jsonl", "{\"text\": \"one\"}\n".repeat(9));
    let line = format!("data prep pretrain --blend b.json {PREP}");
    let bad: [(&str, i32, &str); 6] = [
        ("{", 3, "JSON"),
        (r#"{"datasets": []}"#, 3, "at least one"),
        (r#"{"datasets": [{"name": "a"}]}"#, 3, "path"),
        (r#"{"datasets": [{"name": "a", "path": "a.jsonl", "wieght": 1}]}"#, 3, "wieght"),
        (r#"{"datasets": [{"name": "a", "path": "a.jsonl", "weight": -1}]}"#, 2, "weight"),
        (r#"{"train": []}"#, 3, "splits"),
    ];
    for (text, code, word) in bad {
        s.write("b.json", text);
        expect(&run(&s, &line), code, &[word]);
    }
    expect(&run(&s, &format!("data prep pretrain a.jsonl --blend b.json {PREP}")), 2, &["--blend"]);
    expect(&run(&s, &format!("data prep pretrain {PREP}")), 2, &["missing"]);
    let run_of = |words: &str| {
        format!("data inspect --recipe demo_pretrain_config dataset.kind=megatron-indexed dataset.path=null {words}")
    };
    for words in ["dataset.data_path=[0,a]", "dataset.data_path=[-1,a,1,b]", "dataset.data_path=[1,a,b,c]"] {
        let out = run(&s, &run_of(words));
        assert_ne!(out.status.code(), Some(0), "{words}");
        expect(&out, 2, &[]);
    }
}

#[test]
fn disks_that_refuse_are_named() {
    let s = Scratch::new("disk");
    tokenizer(&s);
    corpus(&s, "a.jsonl", 3000, &mut Random::fresh());
    let line = format!("data prep pretrain a.jsonl {PREP}");
    // A file where a folder should be.
    s.write("out", "");
    expect(&run(&s, &line), 3, &["out"]);
    fs::remove_file(s.path("out")).unwrap();
    // A file system that takes no files, whoever asks.
    #[cfg(target_os = "linux")]
    expect(&run(&s, &line.replace("--output out", "--output /proc/self/fdinfo/out")), 3, &["/proc/self/fdinfo/out"]);
    // Files may not grow beyond 8 KiB: what a full disk looks like, for whoever runs this.
    let full = std::process::Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "-"])
        .arg(env!("CARGO_BIN_EXE_lightning-train"))
        .args(line.split_whitespace())
        .current_dir(s.path("."))
        .output()
        .unwrap();
    expect(&full, 3, &["cannot write", "shard", "File too large"]);
    let left = files(&s.path("out"));
    assert!(
        !left.iter().any(|(name, _)| name.ends_with(".bin") || name.ends_with("blend.json")),
        "a cut file has a name"
    );
    // With room again, it goes on and ends.
    expect(&run(&s, &line), 0, &[]);
    assert!(s.path("out/blend.json").is_file());
}
