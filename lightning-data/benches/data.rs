//! Speed of index building, blending, packing and data preparation.
//!
//! `cargo bench -p lightning-data --bench data`. Beside ours stands a C++ program with the same loops (needs `c++`).
//! With `LIGHTNING_BENCH_TEXT=FILE.jsonl` (field `text`) the preparation is measured against the bare tokenizer, with
//! `LIGHTNING_BENCH_TOKENIZER=DIR` or a tokenizer of 8,192 entries trained on the beginning of the file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lightning_data::blend::pick_by_weight;
use lightning_data::gpt::{DocumentRange, GptIndices, GptOptions, Split, sample_rows};
use lightning_data::prep::{BlendFile, PretrainPrep, prepare_pretrain};
use lightning_data::rng::Mt19937;
use lightning_data::sft::{Algorithm, plan_prepared};
use lightning_data::tokenizer::{TextTokenizer, TrainingSettings, train_on_texts};

const DOCUMENTS: u64 = 10_000_000;
const SEQUENCE_LENGTH: u64 = 8192;
const PICKS: u64 = 10_000_000;
const SOURCES: [usize; 3] = [3, 24, 256];

struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed().as_secs_f64(), value)
}

/// Lines of the C++ yardstick by name: (seconds, checksum).
fn yardstick() -> std::collections::HashMap<String, (f64, u64)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/index_yardstick.cpp");
    let program = std::env::temp_dir().join(format!("lightning-index-yardstick-{}", std::process::id()));
    let built = Command::new("c++").args(["-O3", "-std=c++17", "-o"]).arg(&program).arg(source).status();
    if !built.is_ok_and(|s| s.success()) {
        return Default::default();
    }
    let mut command = Command::new(&program);
    command.args([DOCUMENTS, SEQUENCE_LENGTH, PICKS].map(|n| n.to_string())).args(SOURCES.map(|n| n.to_string()));
    let out = command.output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let _ = std::fs::remove_file(program);
    let line = |l: &str| {
        let mut parts = l.split(' ');
        Some((parts.next()?.to_string(), (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?)))
    };
    out.lines().filter_map(line).collect()
}

fn main() {
    let cpp = yardstick();
    let row = |name: &str, seconds: f64, checksum: Option<u64>| match cpp.get(name) {
        Some(&(theirs, sum)) => {
            assert!(checksum.is_none_or(|c| c == sum), "{name}: another result than the C++ program");
            println!("{name:<28} {seconds:8.3} s   C++ {theirs:8.3} s   ratio {:.2}", theirs / seconds);
        }
        None => println!("{name:<28} {seconds:8.3} s"),
    };
    let mut lengths_stream = Stream(1);
    let lengths: Vec<u32> = (0..DOCUMENTS).map(|_| lengths_stream.next() % 2000 + 1).collect();
    let mut order_stream = Stream(2);
    let order: Vec<i32> = (0..DOCUMENTS).map(|_| (u64::from(order_stream.next()) % DOCUMENTS) as i32).collect();
    // As in the C++ program, the sum of the lengths is taken before the clock starts.
    let tokens: u64 = order.iter().map(|&d| u64::from(lengths[d as usize])).sum();
    let (seconds, rows) = timed(|| sample_rows(&lengths, &order, tokens, SEQUENCE_LENGTH));
    let sum = rows.iter().flatten().fold(0u64, |s, &v| s.wrapping_mul(31).wrapping_add(u64::from(v as u32)));
    row("sample_index", seconds, Some(sum));
    for sources in SOURCES {
        let raw: Vec<f64> = (0..sources).map(|i| (i % 7 + 1) as f64).collect();
        let total: f64 = raw.iter().sum();
        let weights: Vec<f64> = raw.iter().map(|w| w / total).collect();
        let (seconds, picks) = timed(|| pick_by_weight(&weights, PICKS).expect("few sources"));
        let pairs = picks.source.iter().zip(picks.sample.iter());
        let sum = pairs.fold(0u64, |s, (&a, &b)| s.wrapping_mul(31).wrapping_add(a as u64).wrapping_add(b as u64));
        row(&format!("picks_{sources}"), seconds, Some(sum));
    }
    let range = DocumentRange { begin: 0, end: DOCUMENTS };
    let options = GptOptions::new(SEQUENCE_LENGTH, 1234, 0);
    let build = || GptIndices::from_lengths(&lengths, range, Split::Train, None, &options, "bench");
    row("all three indices, 1 epoch", timed(build).0, None);
    let mut shuffled: Vec<u32> = (0..DOCUMENTS as u32).collect();
    row("shuffle of 10 M", timed(|| Mt19937::from_seed(1).shuffle_numpy(&mut shuffled)).0, None);
    let packed: Vec<u32> = lengths.iter().map(|n| n * 2).collect();
    for algorithm in [Algorithm::FirstFitShuffle, Algorithm::FirstFitDecreasing, Algorithm::Concatenative] {
        let (seconds, result) = timed(|| plan_prepared(&packed, 4096, algorithm, 42).expect("a pack size"));
        println!("pack 10 M {algorithm:<18} {seconds:8.3} s   {} packs", result.1.packs);
    }
    if let Some(text) = std::env::var_os("LIGHTNING_BENCH_TEXT") {
        preparation(&PathBuf::from(text));
    }
}

fn preparation(text: &Path) {
    let scratch = std::env::temp_dir().join(format!("lightning-bench-{}", std::process::id()));
    let field = |l: &str| serde_json::from_str::<serde_json::Value>(l).ok()?["text"].as_str().map(str::to_string);
    let documents: Vec<String> =
        std::fs::read_to_string(text).expect("a readable file").lines().filter_map(field).collect();
    let directory = match std::env::var_os("LIGHTNING_BENCH_TOKENIZER") {
        Some(directory) => PathBuf::from(directory),
        None => {
            let some = documents.iter().take(2000).map(|d| Ok(d.as_str()));
            let trained = train_on_texts(some, &TrainingSettings::new(8192)).expect("a trained tokenizer");
            trained.save(&scratch.join("tokenizer")).expect("a writable directory");
            scratch.join("tokenizer")
        }
    };
    let bytes: usize = documents.iter().map(String::len).sum();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("text: {} documents, {:.1} MB; {threads} threads", documents.len(), bytes as f64 / 1e6);
    for round in 0..3 {
        let inner = tokenizers::Tokenizer::from_file(directory.join("tokenizer.json")).expect("a tokenizer");
        let encode = || -> usize {
            let batches = documents.chunks(1000);
            batches
                .map(|b| {
                    let batch: Vec<&str> = b.iter().map(String::as_str).collect();
                    let encoded = inner.encode_batch_fast(batch, false).expect("encoded text");
                    encoded.iter().map(|e| e.get_ids().len()).sum::<usize>()
                })
                .sum()
        };
        let (bare, tokens) = timed(encode);
        let blend: BlendFile =
            serde_json::from_value(serde_json::json!({"datasets": [{"name": "text", "path": text}]})).expect("a blend");
        let mut settings = PretrainPrep::new(blend, scratch.join("out"), directory.clone());
        settings.force = true;
        let (ours, run) = timed(|| prepare_pretrain(&settings, &|_| {}).expect("a preparation"));
        let written = run.stats["total_tokens"].as_u64().unwrap_or(0) as f64;
        println!(
            "round {round}: encode_batch alone {:.3} M tokens/s, data prep pretrain {:.3} M tokens/s ({:.0} %)",
            tokens as f64 / bare / 1e6,
            written / ours / 1e6,
            100.0 * (written / ours) / (tokens as f64 / bare)
        );
        std::thread::sleep(std::time::Duration::from_millis(1100)); // forced runs are named by the second
    }
    let tokenizer = TextTokenizer::load(&directory).expect("a tokenizer");
    println!("vocabulary {}", tokenizer.vocab_size());
    let _ = std::fs::remove_dir_all(scratch);
}
