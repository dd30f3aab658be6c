//! Killed at any moment and started again, a preparation ends with the same bytes and redoes little.

use super::support::*;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of all results, receipts included.
fn results(s: &Scratch, folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = files(&s.path(folder));
    // Locks and what a killed writer left beside its target are not results.
    all.retain(|(name, _)| !name.rsplit('/').next().is_some_and(|n| n.starts_with('.')));
    for (_, bytes) in &mut all {
        // Prefixes hold the folder's name.
        let text = String::from_utf8_lossy(bytes);
        if text.contains(folder) {
            *bytes = text.replace(folder, "FOLDER").into_bytes();
        }
    }
    all
}

/// Receipts, by path and text. They appear whole, so that they can be read at any moment.
fn receipts(s: &Scratch, folder: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, out: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.display().to_string().contains("receipts/shard_") {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                out.push((path, text));
            }
        }
    }
    let mut out = Vec::new();
    walk(&s.path(folder), &mut out);
    out
}

/// Shards with a completed receipt, by path and time of their last change.
fn finished(s: &Scratch, folder: &str) -> Vec<(String, std::time::SystemTime)> {
    let time = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    receipts(s, folder)
        .iter()
        .filter(|r| r.1.contains("\"completed\""))
        .map(|(path, _)| (path.display().to_string(), time(path)))
        .collect()
}

#[test]
fn a_killed_preparation_ends_with_the_same_bytes() {
    let s = Scratch::new("kill");
    tokenizer(&s);
    let mut random = Random::fresh();
    corpus(&s, "raw/a.jsonl", 9000, &mut random);
    corpus(&s, "raw/b.jsonl", 6000, &mut random);
    let line =
        |folder: &str| format!("data prep pretrain raw --tokenizer tok --output {folder} --num-shards 30 --threads 2");
    expect(&run(&s, &line("whole")), 0, &[]);
    let mut kills = 0;
    for round in 0..12 {
        let before = finished(&s, "parts");
        let mut child = program(&s, &line("parts"))
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Killed when a few more shards are finished, and a random moment later; in the first round before any is.
        let wanted = before.len() + random.below(3) as usize;
        while finished(&s, "parts").len() < wanted && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        kills += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        // What was finished stays as it was: only shards in work are redone, at most one for each of the two workers.
        let after = finished(&s, "parts");
        for shard in &before {
            assert!(after.contains(shard), "round {round}: {} was made again", shard.0);
        }
        let started = receipts(&s, "parts").iter().filter(|r| r.1.contains("\"started\"")).count();
        assert!(started <= 2, "round {round}: {started} shards in work");
    }
    assert!(kills >= 2, "only {kills} of 12 were killed in work: give it more to do");
    println!("{kills} of 12 were killed in work");
    expect(&run(&s, &line("parts")), 0, &[]);
    let (a, b) = (results(&s, "whole"), results(&s, "parts"));
    let names = |r: &[(String, Vec<u8>)]| r.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b));
    for ((name, x), (_, y)) in a.iter().zip(&b) {
        assert!(x == y, "{name} differs");
    }
    no_leftovers(&s, "parts");
}

/// Nothing but locks is left beside the results.
fn no_leftovers(s: &Scratch, folder: &str) {
    let hidden = |name: &String| name.split('/').any(|part| part.starts_with('.') || part.ends_with(".spool"));
    let left: Vec<String> =
        files(&s.path(folder)).into_iter().map(|f| f.0).filter(hidden).filter(|n| !n.ends_with(".lock")).collect();
    assert!(left.is_empty(), "leftovers of killed writers: {left:?}");
}

/// One large file whose rows are dealt, packed input and chats: the other ways through the preparations.
#[test]
fn other_inputs_survive_kills_too() {
    let s = Scratch::new("kill-others");
    tokenizer(&s);
    let mut random = Random::fresh();
    corpus(&s, "one.jsonl", 6000, &mut random);
    let mut lines = vec![("pretrain one.jsonl", "one")];
    if std::process::Command::new("gzip").arg("-k").arg(s.path("one.jsonl")).status().is_ok_and(|s| s.success()) {
        lines.push(("pretrain one.jsonl.gz", "gz"));
    }
    if cfg!(feature = "parquet") {
        let row = |r: &mut Random| {
            serde_json::json!({"used_in": ["nano_v3"], "messages": [
                {"role": "user", "content": sentence(r, 9)}, {"role": "assistant", "content": sentence(r, 60)}]})
        };
        s.write("chats.jsonl", (0..1500).map(|_| format!("{}\n", row(&mut random))).collect::<String>());
        lines.push(("sft chats.jsonl --pack-size 512", "sft"));
    }
    for (words, name) in lines {
        let line = |folder: &str| {
            format!("data prep {words} --tokenizer tok --output {folder}-{name} --num-shards 12 --threads 2")
        };
        expect(&run(&s, &line("whole")), 0, &[]);
        for _ in 0..6 {
            let mut child = program(&s, &line("parts"))
                .stderr(std::process::Stdio::null())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(5 + random.below(120)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        expect(&run(&s, &line("parts")), 0, &[]);
        let (mut a, mut b) = (results(&s, &format!("whole-{name}")), results(&s, &format!("parts-{name}")));
        // Links and files of the splits are compared as what they lead to.
        for (name, bytes) in a.iter_mut().chain(&mut b) {
            *name = name.replace("whole", "FOLDER").replace("parts", "FOLDER");
            let text = String::from_utf8_lossy(bytes);
            if text.contains("whole") || text.contains("parts") {
                *bytes = text.replace("whole", "FOLDER").replace("parts", "FOLDER").into_bytes();
            }
        }
        assert_eq!(a.len(), b.len(), "{words}");
        for ((name, x), (other, y)) in a.iter().zip(&b) {
            assert!(name == other && x == y, "{words}: {name} differs from {other}");
        }
        no_leftovers(&s, &format!("parts-{name}"));
    }
}

/// Largest resident memory of a child that has ended, in KiB, by the shell's own measure.
fn peak_kib(s: &Scratch, line: &str) -> Option<u64> {
    let mut child =
        program(s, line).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().ok()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().ok()?.is_none() {
        // Memory of files that are mapped belongs to the system's cache: only our own counts.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let of =
            |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(of("RssAnon:").unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait().ok()?.success().then_some(peak)
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_input() {
    let s = Scratch::new("memory");
    tokenizer(&s);
    let mut random = Random::fresh();
    let row = |r: &mut Random| {
        format!(
            "{}\n",
            serde_json::json!({"input": sentence(r, 20), "output": sentence(r, 400), "text": sentence(r, 300)})
        )
    };
    for (name, rows) in [("small.jsonl", 1000), ("large.jsonl", 8000)] {
        let block: Vec<String> = (0..500).map(|_| row(&mut random)).collect();
        s.write(name, (0..rows).map(|i| block[i % 500].as_str()).collect::<String>());
    }
    let mut verbs = vec!["data prep pretrain INPUT --tokenizer tok --output out-INPUT --num-shards 3 --threads 2"];
    if cfg!(feature = "parquet") {
        verbs.push(
            "data prep prompt-completion INPUT --rows input-output --tokenizer tok --output pc-INPUT --pack-size 256",
        );
    }
    for verb in verbs {
        let peak = |input: &str| peak_kib(&s, &verb.replace("INPUT", input)).expect("the preparation succeeds");
        let (small, large) = (peak("small.jsonl"), peak("large.jsonl"));
        println!("{verb}: {small} KiB, {large} KiB");
        // Eight times the input (30 MB more), both beyond one row group of packs.
        assert!(large < small + 12 * 1024, "{verb}: {small} KiB became {large} KiB");
    }
}
