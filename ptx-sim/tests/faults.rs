//! Every class of planted fault is found, at its line; correct kernels of the same kind are not accused.
//!
//! The kernels are in `tests/ptx/faults` and `tests/ptx/good`. The first two lines of each say what is expected and how
//! to launch it; `//!` marks the line that must be named.

use ptx_sim::exec::{Fault, FaultKind, GlobalMemory, Launch, LaunchReport, Machine, Module, Schedule, Settings};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn kind_of(name: &str) -> FaultKind {
    use FaultKind::*;
    let all = [
        InvalidLaunch,
        InvalidParameters,
        OutOfBounds,
        UseAfterFree,
        Misaligned,
        Uninitialised,
        SharedRace,
        MissingProxyFence,
        GlobalRace,
        BarrierMisuse,
        MbarrierMisuse,
        Deadlock,
        Divergence,
        WgmmaMisuse,
        IllegalDescriptor,
        IllegalTensorMap,
        IllegalInstruction,
        OverSubscription,
        Trap,
        EarlyExit,
    ];
    all.into_iter().find(|k| format!("{k:?}") == name).unwrap_or_else(|| panic!("unknown kind {name}"))
}

struct Case {
    path: PathBuf,
    text: String,
    kind: String,
    numbers: [u32; 4],
    marked: Vec<u32>,
}

fn cases(folder: &str) -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ptx").join(folder);
    let mut out = Vec::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        let kind = lines.next().unwrap().trim_start_matches("// ").to_string();
        let words: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        let number = |name: &str| words[words.iter().position(|w| *w == name).unwrap() + 1].parse().unwrap();
        let numbers = [number("grid"), number("block"), number("cluster"), number("dynamic")];
        let marked = text.lines().enumerate().filter(|(_, l)| l.contains("//!")).map(|(i, _)| i as u32 + 1).collect();
        out.push(Case { path, text, kind, numbers, marked });
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    out
}

fn run(c: &Case, settings: Settings) -> Result<LaunchReport, Fault> {
    let memory = Arc::new(GlobalMemory::new(1, 1 << 30));
    let machine = Machine::new(settings, memory.clone(), 0);
    let module = Module::load(&c.text).unwrap_or_else(|e| panic!("{}: {e}", c.path.display()));
    let loaded = machine.load(Arc::new(module)).unwrap();
    let buf = memory.allocate(0, 4096).unwrap();
    memory.write(buf, &(0..4096u32).map(|i| i as u8).collect::<Vec<_>>()).unwrap();
    memory.write(buf + 512, &[0; 4]).unwrap();
    let raw = memory.allocate(0, 4096).unwrap();
    let gone = memory.allocate(0, 4096).unwrap();
    memory.free(gone).unwrap();
    let mut params = Vec::new();
    for p in [buf, raw, gone] {
        params.extend(p.to_le_bytes());
    }
    let [grid, block, cluster, dynamic] = c.numbers;
    machine.launch(&Launch {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: (cluster > 1).then_some([cluster, 1, 1]),
        dynamic_shared: dynamic,
        params,
        ..Launch::new(&loaded, "k")
    })
}

fn settings(seed: u64, schedule: Schedule) -> Settings {
    Settings { seed, schedule, host_threads: 2, ..Settings::default() }
}

#[test]
fn planted_faults_are_found_at_their_line() {
    let mut wrong = Vec::new();
    for c in cases("faults") {
        let want = kind_of(&c.kind);
        match run(&c, settings(3, Schedule::Random)) {
            Ok(_) => wrong.push(format!("{}: not found", c.path.display())),
            Err(f) => {
                let hit = f.reports.iter().find(|r| r.kind == want);
                match hit {
                    None => wrong.push(format!("{}: expected {}, found {f}", c.path.display(), c.kind)),
                    Some(r) if !c.marked.is_empty() && !c.marked.contains(&r.place.ptx_line) => {
                        wrong.push(format!("{}: expected line {:?}, found {r}", c.path.display(), c.marked))
                    }
                    Some(r) => assert!(r.to_string().contains("kernel k"), "{r}"),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn correct_kernels_are_not_accused() {
    let mut wrong = Vec::new();
    for c in cases("good") {
        for seed in 0..5 {
            for schedule in [Schedule::Random, Schedule::RoundRobin] {
                if let Err(f) = run(&c, settings(seed, schedule)) {
                    wrong.push(format!("{} seed {seed}: {f}", c.path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn faults_of_addresses_are_found_without_checks() {
    for c in cases("faults")
        .iter()
        .filter(|c| ["OutOfBounds", "UseAfterFree", "Misaligned", "Deadlock", "Trap"].contains(&c.kind.as_str()))
    {
        let fast = Settings { checks: false, counts: false, ..settings(1, Schedule::Random) };
        let f = run(c, fast).expect_err(&c.path.display().to_string());
        assert!(f.has(kind_of(&c.kind)), "{}: {f}", c.path.display());
    }
}

#[test]
fn same_seed_same_trace() {
    for c in cases("good") {
        let trace = |seed| run(&c, settings(seed, Schedule::Random)).unwrap().trace;
        assert_eq!(trace(11), trace(11), "{}", c.path.display());
    }
}
