//! A folder for a test, the program, and inputs from a seed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// A folder that is removed at the end of a test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lightning-data-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program with a line of words, in the scratch folder.
pub fn program(scratch: &Scratch, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightning-train"));
    command.args(line.split_whitespace()).current_dir(&scratch.0).env("LIGHTNING_CACHE", scratch.path("cache"));
    for name in ["WORLD_SIZE", "RANK", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_ID", "HF_HUB_CACHE"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", scratch.path("hf"));
    command
}

pub fn run(scratch: &Scratch, line: &str) -> Output {
    program(scratch, line).output().expect("the program starts")
}

#[track_caller]
pub fn expect(output: &Output, code: i32, words: &[&str]) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in:\n{text}");
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A run that succeeds and prints JSON.
#[track_caller]
pub fn json_of(scratch: &Scratch, line: &str) -> Value {
    let out = expect(&run(scratch, line), 0, &[]);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// Random numbers that differ from test to test.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    /// A seed from the clock, shown when a test fails.
    pub fn fresh() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = u64::from(now.subsec_nanos());
        println!("seed {seed}");
        Self(seed)
    }
}

pub fn sentence(random: &mut Random, words: u64) -> String {
    let word = |r: &mut Random| ["one", "two", "tree", "Übung", "long", "east", "7", "東"][r.below(8) as usize];
    (0..words).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

/// JSON lines with texts, among them empty and missing ones.
pub fn corpus(scratch: &Scratch, name: &str, rows: u64, random: &mut Random) {
    let row = |r: &mut Random| match r.below(20) {
        0 => json!({"text": null}),
        1 => json!({"text": "", "other": 1}),
        n => json!({"id": n, "text": sentence(r, n * 3)}),
    };
    let lines: String = (0..rows).map(|_| format!("{}\n", row(random))).collect();
    scratch.write(name, lines);
}

/// A tokenizer of 300 entries in `tok`.
pub fn tokenizer(scratch: &Scratch) {
    let mut random = Random(5);
    let text: String = (0..200).map(|_| sentence(&mut random, 9) + "\n").collect();
    scratch.write("tok.txt", text + "<|im_start|>user system assistant\n<think></think><|im_end|>\n");
    expect(&run(scratch, "data tokenizer tok.txt --vocab-size 300 --output tok"), 0, &[]);
}

/// All files below a folder with their bytes, by relative path.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    fn walk(root: &Path, folder: &Path, out: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, out);
            } else {
                out.push((path.strip_prefix(root).unwrap().display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    let mut out = Vec::new();
    walk(folder, folder, &mut out);
    out.sort();
    out
}
