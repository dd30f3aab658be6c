//! Saving: in the background, keeping some, failing without damage.

use super::*;
use lightning_train::checkpoint::{
    BackgroundSaver, Checkpoint, HeldPiece, Snapshot, TRACKER, TrainState, move_into_place, prune, recover,
    region::{Rect, Region},
    resolve,
};
use lightning_train::convert::Weights;
use lightning_train::hf::config_json;
use lightning_train::verify::examine;
use safetensors::Dtype;

/// A checkpoint of `iteration` whose every weight says which one it is.
fn snapshot(iteration: u64) -> Snapshot {
    let layout = lightning_core::layout::Layout::new(&small_model());
    let pieces = layout.parts().map(|(_, part)| {
        let n: usize = part.shape.iter().product();
        HeldPiece {
            name: format!("model/{}", part.name),
            dtype: Dtype::F32,
            shape: part.shape.clone(),
            region: Region::whole(&part.shape),
            bytes: (iteration as f32).to_le_bytes().repeat(n),
        }
    });
    Snapshot {
        state: TrainState { iteration, ..TrainState::default() },
        run_config: String::new(),
        model_config: config_json::to_text(&small_model()),
        writers: vec![pieces.collect()],
    }
}

#[track_caller]
fn is_whole(folder: &Path) {
    let findings = examine(&Weights::open(folder).unwrap());
    assert!(findings.is_sound(), "{:?}", findings.problems());
}

#[test]
fn saves_in_the_background_follow_each_other() {
    let s = Scratch::new("background");
    let mut saver = BackgroundSaver::new();
    assert_eq!(saver.start(snapshot(1), &s.path("save")).unwrap(), None);
    let first = saver.start(snapshot(2), &s.path("save")).unwrap();
    assert_eq!(first, Some(s.path("save/iter_0000001")));
    assert_eq!(saver.wait().unwrap(), Some(s.path("save/iter_0000002")));
    assert_eq!(saver.poll().unwrap(), None);
    is_whole(&s.path("save"));
    assert_eq!(fs::read_to_string(s.path("save").join(TRACKER)).unwrap(), "2");
    // The end of a run waits for what it has begun.
    saver.start(snapshot(3), &s.path("save")).unwrap();
    drop(saver);
    is_whole(&s.path("save/iter_0000003"));
}

#[test]
fn a_failure_in_the_background_is_told_at_the_next_call_and_damages_nothing() {
    let s = Scratch::new("failure");
    snapshot(1).write(&s.path("save")).unwrap();
    let mut saver = BackgroundSaver::new();
    // A folder that cannot be made: its parent is a file.
    fs::write(s.path("file"), "").unwrap();
    saver.start(snapshot(2), &s.path("file/save")).unwrap();
    let error = loop {
        match saver.poll() {
            Ok(None) => std::thread::yield_now(),
            Ok(Some(folder)) => panic!("wrote {}", folder.display()),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("file/save"), "{error}");
    saver.start(snapshot(3), &s.path("save")).unwrap();
    assert!(saver.wait().unwrap().is_some());
    is_whole(&s.path("save/iter_0000001"));
    is_whole(&s.path("save/iter_0000003"));
}

#[test]
fn weights_load_where_the_optimizer_is_not_there() {
    let s = Scratch::new("sections");
    let mut both = snapshot(1);
    let optimizer =
        both.writers[0].iter().map(|p| HeldPiece { name: p.name.replace("model/", "optim.m/"), ..p.clone() });
    let optimizer: Vec<HeldPiece> = optimizer.collect();
    both.writers.push(optimizer);
    let folder = both.write(&s.path("save")).unwrap();
    fs::remove_file(folder.join("shard-00001-of-00002.safetensors")).unwrap();
    let weights = Checkpoint::open(&folder, &["model"]).unwrap();
    let (name, entry) = weights.section("model").next().unwrap();
    let mut bytes = vec![0; 4 * entry.shape.iter().product::<usize>()];
    weights.read(&format!("model/{name}"), &[Rect::whole(&entry.shape)], &mut bytes).unwrap();
    assert!(bytes.chunks(4).all(|b| b == 1f32.to_le_bytes()));
    let error = Checkpoint::open(&folder, &[]).err().expect("it was accepted").to_string();
    assert!(error.contains("shard-00001-of-00002.safetensors"), "{error}");
}

#[test]
fn old_checkpoints_go_and_every_nth_stays() {
    let s = Scratch::new("prune");
    for iteration in [5, 10, 15, 20, 25] {
        snapshot(iteration).write(&s.path("save")).unwrap();
    }
    prune(&s.path("save"), 2, Some(10)).unwrap();
    let mut left: Vec<u64> = fs::read_dir(s.path("save"))
        .unwrap()
        .flatten()
        .filter_map(|e| lightning_train::checkpoint::iteration_of(&e.path()))
        .collect();
    left.sort();
    assert_eq!(left, [10, 20, 25]);
}

#[test]
fn a_checkpoint_that_is_replaced_is_never_away() {
    let s = Scratch::new("replace");
    let save = s.path("save");
    snapshot(4).write(&save).unwrap();
    snapshot(4).write(&save).unwrap();
    is_whole(&save);
    // Killed between the two renames: the old one is set aside and comes back.
    fs::rename(save.join("iter_0000004"), save.join(".iter_0000004.replaced")).unwrap();
    assert_eq!(resolve(&save, None).unwrap(), save.join("iter_0000004"));
    is_whole(&save);
    // Killed after them: the old one is a left-over.
    fs::create_dir(save.join(".iter_0000004.replaced")).unwrap();
    recover(&save.join("iter_0000004")).unwrap();
    assert!(!save.join(".iter_0000004.replaced").exists());
    // A draft that is not there changes nothing.
    assert!(move_into_place(&save.join("nothing"), &save.join("iter_0000004")).is_err());
    is_whole(&save);
}

#[test]
fn left_over_drafts_of_ended_processes_are_removed() {
    let s = Scratch::new("drafts");
    fs::create_dir_all(s.path("save/.iter_0000001.999999999")).unwrap();
    snapshot(2).write(&s.path("save")).unwrap();
    let mut names: Vec<_> = fs::read_dir(s.path("save")).unwrap().flatten().map(|e| e.file_name()).collect();
    names.sort();
    assert_eq!(names, ["iter_0000002", TRACKER]);
}
