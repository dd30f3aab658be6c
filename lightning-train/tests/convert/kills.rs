//! Processes that are killed at random moments: nothing is lost, nothing half-complete is taken for complete.

use super::*;
use lightning_train::checkpoint::{BackgroundSaver, HeldPiece, Snapshot, TRACKER, TrainState, region::Region};
use lightning_train::convert::Weights;
use lightning_train::hf::config_json;
use lightning_train::verify::examine;
use lightning_train::verify::same::compare;
use safetensors::Dtype;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Starts a command, kills it after `after`, and says whether it had ended by itself.
fn kill_after(command: &mut Command, after: Duration) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let ended = child.try_wait().unwrap().is_some();
    // SIGKILL; of a process that has ended it is an error without meaning.
    let _ = child.kill();
    child.wait().unwrap();
    ended
}

/// Kills `command` `times` times at random moments of its run; `check` says whether the result is complete, and must be
/// true of a process that ended by itself. Then lets it finish.
fn kill_often(command: impl Fn() -> Command, times: u32, seed: u64, fresh: impl Fn(), check: impl Fn(bool) -> bool) {
    fresh();
    let start = Instant::now();
    assert!(command().output().unwrap().status.success());
    let whole = start.elapsed();
    check(true);
    fresh();
    let mut random = Random(seed);
    for i in 0..times {
        // Every third time from the beginning, otherwise in what the kill before has left.
        if i % 3 == 0 {
            fresh();
        }
        let after = whole.mul_f64(random.below(1000) as f64 / 1000.0);
        let ended = kill_after(&mut command(), after);
        if check(ended) {
            fresh();
        }
    }
    let output = command().output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(true);
}

#[track_caller]
fn same(a: &Path, b: &Path) {
    let open = |p: &Path| Weights::open(p).unwrap_or_else(|e| panic!("{}: {e}", p.display()));
    let result = compare(&open(a), &open(b)).unwrap();
    assert!(result.is_same(), "{}", result.text());
}

#[test]
fn killed_imports_and_exports_leave_nothing_half_complete_and_go_on() {
    let s = Scratch::new("kills");
    let source = s.checkpoint("source", &synthetic::family_member(128), 6, 31);
    let ours = s.path("ours");
    let import = || {
        let mut command = program();
        command.args(["import", "--hf-model", &source, "--workers", "2", "--checkpoint-path"]).arg(&ours);
        command
    };
    kill_often(
        import,
        15,
        1,
        || drop(fs::remove_dir_all(&ours)),
        |ended| {
            let complete = ours.join("iter_0000000").exists();
            if complete {
                same(Path::new(&source), &ours.join("iter_0000000"));
            } else {
                assert!(!ended && !ours.join(TRACKER).exists());
                assert!(Weights::open(&ours).is_err());
            }
            complete
        },
    );
    let out = s.path("out");
    let export = || {
        let mut command = program();
        command.args(["export", "--max-shard-size", "3000000", "--workers", "2", "--checkpoint-path"]).arg(&ours);
        command.arg("--hf-path").arg(&out);
        command
    };
    kill_often(
        export,
        15,
        2,
        || {
            for folder in ["out", ".out.export"] {
                let _ = fs::remove_dir_all(s.path(folder));
            }
        },
        |ended| {
            if out.exists() {
                same(Path::new(&source), &out);
            } else {
                assert!(!ended);
            }
            out.exists()
        },
    );
    assert!(!s.path(".out.export").exists());
}

/// Runs as a process of its own: saves 200 checkpoints, in place or in the background, until it is killed.
#[test]
fn child_saves_until_it_is_killed() {
    let Some(folder) = std::env::var_os("LIGHTNING_TEST_SAVE") else { return };
    let background = std::env::var_os("LIGHTNING_TEST_BACKGROUND").is_some();
    let model = small_model();
    let layout = lightning_core::layout::Layout::new(&model);
    let mut saver = BackgroundSaver::new();
    for iteration in 1..=200u64 {
        let pieces = layout.parts().map(|(_, part)| HeldPiece {
            name: format!("model/{}", part.name),
            dtype: Dtype::F32,
            shape: part.shape.clone(),
            region: Region::whole(&part.shape),
            bytes: (iteration as f32).to_le_bytes().repeat(part.shape.iter().product()),
        });
        let snapshot = Snapshot {
            // Every checkpoint is written twice, so that replacing one is interrupted too.
            state: TrainState { iteration: iteration.div_ceil(2), ..TrainState::default() },
            run_config: String::new(),
            model_config: config_json::to_text(&model),
            writers: vec![pieces.collect()],
        };
        if background {
            saver.start(snapshot, Path::new(&folder)).unwrap();
        } else {
            snapshot.write(Path::new(&folder)).unwrap();
        }
    }
}

#[test]
fn killed_saves_lose_nothing_that_was_complete() {
    let s = Scratch::new("killed-saves");
    let mut random = Random(77);
    for round in 0..20 {
        let folder = s.path(&format!("save{}", round % 4));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["kills::child_saves_until_it_is_killed", "--exact"]).env("LIGHTNING_TEST_SAVE", &folder);
        if round % 2 == 1 {
            command.env("LIGHTNING_TEST_BACKGROUND", "1");
        }
        let before = fs::read_to_string(folder.join(TRACKER)).ok();
        kill_after(&mut command, Duration::from_millis(20 + random.below(120) as u64));
        let Ok(tracker) = fs::read_to_string(folder.join(TRACKER)) else {
            assert_eq!(before, None, "the tracker is gone");
            continue;
        };
        tracker.parse::<u64>().expect("a whole number");
        let weights = Weights::open(&folder).unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert!(examine(&weights).is_sound());
        // Everything that has a final name is complete, newest or not.
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("iter_") {
                let findings = examine(&Weights::open(&entry.path()).unwrap());
                assert!(findings.is_sound(), "{:?}", findings.problems());
            }
        }
    }
}
