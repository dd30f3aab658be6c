//! What must not be converted, and what must not be destroyed.

use super::*;
use lightning_train::convert::{ConvertError, Report, Weights, export, import};
use lightning_train::hf::{HfConfig, header};
use lightning_train::verify::same::compare;
use safetensors::Dtype;
use std::os::unix::ffi::OsStrExt;

#[track_caller]
fn refused(result: Result<Report, ConvertError>, words: &[&str]) {
    let error = result.expect_err("it was accepted").to_string();
    for word in words {
        assert!(error.contains(word), "`{word}` is missing in: {error}");
    }
}

/// A source in two files with a changed index, configuration or set of files.
fn source(s: &Scratch, name: &str) -> PathBuf {
    s.checkpoint(name, &small_model(), 2, 1);
    s.path(name)
}

const SECOND: &str = "model-00002-of-00002.safetensors";
const INDEX: &str = "model.safetensors.index.json";

fn edit_index(folder: &Path, change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) {
    let path = folder.join(INDEX);
    let mut index: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(index["weight_map"].as_object_mut().unwrap());
    fs::write(path, index.to_string()).unwrap();
}

#[test]
fn sources_that_are_not_whole_are_refused_by_name() {
    let s = Scratch::new("sources");
    let import = |folder: &Path| import::run(&import_args(&folder.display().to_string(), &s.text("ours")));
    let folder = source(&s, "missing-file");
    fs::remove_file(folder.join(SECOND)).unwrap();
    refused(import(&folder), &[INDEX, SECOND, "missing"]);
    let folder = source(&s, "missing-tensor");
    edit_index(&folder, |map| drop(map.insert("backbone.layers.9.norm.weight".into(), SECOND.into())));
    refused(import(&folder), &[INDEX, "backbone.layers.9.norm.weight", SECOND]);
    let folder = source(&s, "unlisted");
    edit_index(&folder, |map| drop(map.remove("lm_head.weight")));
    refused(import(&folder), &["lm_head.weight", "does not name"]);
    let folder = source(&s, "elsewhere");
    edit_index(&folder, |map| drop(map.insert("lm_head.weight".into(), "../../x.safetensors".into())));
    refused(import(&folder), &["plain file name", "lm_head.weight"]);
    let folder = source(&s, "truncated");
    let bytes = fs::read(folder.join(SECOND)).unwrap();
    fs::write(folder.join(SECOND), &bytes[..bytes.len() - 1]).unwrap();
    refused(import(&folder), &[SECOND, "not complete"]);
    let folder = source(&s, "unreadable");
    fs::remove_file(folder.join(SECOND)).unwrap();
    fs::create_dir(folder.join(SECOND)).unwrap();
    refused(import(&folder), &[SECOND, "cannot be read"]);
    fs::write(folder.join(INDEX), "{}").unwrap();
    refused(import(&folder), &[INDEX, "weight_map"]);
    fs::write(folder.join(INDEX), "{").unwrap();
    refused(import(&folder), &[INDEX, "not JSON"]);
    let folder = source(&s, "no-config");
    fs::remove_file(folder.join("config.json")).unwrap();
    refused(import(&folder), &["config.json"]);
    refused(import(&s.path("nowhere")), &["nowhere"]);
    fs::create_dir(s.path("empty")).unwrap();
    fs::copy(folder.join(INDEX), s.path("empty/x")).unwrap();
    refused(import(&s.path("empty")), &["config.json"]);
    assert!(!s.path("ours/iter_0000000").exists());
}

#[test]
fn tensors_and_shapes_that_the_model_does_not_have_are_refused() {
    let s = Scratch::new("shapes");
    let folder = source(&s, "source");
    let mut other = small_model();
    other.hidden = 18;
    fs::write(folder.join("config.json"), HfConfig::for_model(&other).to_text()).unwrap();
    let path = folder.display().to_string();
    refused(import::run(&import_args(&path, &s.text("ours"))), &["has shape [37, 20], the model needs [37, 18]"]);
    let mut relaxed = import_args(&path, &s.text("ours"));
    relaxed.not_strict = true;
    refused(import::run(&relaxed), &["has shape"]);
    let mut fewer = small_model();
    fewer.layers.pop();
    fs::write(folder.join("config.json"), HfConfig::for_model(&fewer).to_text()).unwrap();
    refused(
        import::run(&import_args(&path, &s.text("ours"))),
        &["backbone.layers.4.mixer.experts.0.down_proj.weight is not in the model", "--not-strict"],
    );
    let report = import::run(&relaxed).unwrap();
    assert!(report.notes.iter().any(|n| n.contains("left out")), "{:?}", report.notes);
}

#[test]
fn quantised_sources_and_other_families_are_refused_by_name() {
    let s = Scratch::new("quantised");
    let folder = source(&s, "source");
    let path = folder.display().to_string();
    let import = || import::run(&import_args(&path, &s.text("ours")));
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    let with = |key: &str, value: &str| config.replacen('{', &format!("{{\"{key}\": {value},"), 1);
    fs::write(folder.join("config.json"), with("quantization_config", "{\"quant_algo\": \"NVFP4\"}")).unwrap();
    refused(import(), &["NVFP4", "not supported yet"]);
    fs::write(folder.join("config.json"), config.replace("nemotron_h", "llama")).unwrap();
    refused(import(), &["model_type", "llama"]);
    fs::write(folder.join("config.json"), &config).unwrap();
    fs::write(folder.join("hf_quant_config.json"), "{\"quantization\": {\"quant_algo\": \"FP8\"}}").unwrap();
    refused(import(), &["FP8", "hf_quant_config.json"]);
    fs::remove_file(folder.join("hf_quant_config.json")).unwrap();
    // No word about it but in the tensors.
    let one = s.path("one");
    fs::create_dir(&one).unwrap();
    fs::write(one.join("config.json"), &config).unwrap();
    let entries = [("lm_head.weight".to_string(), Dtype::U8, vec![37, 10])];
    let mut bytes = header::text(&entries, &[]);
    bytes.extend([0; 370]);
    fs::write(one.join("model.safetensors"), bytes).unwrap();
    refused(import::run(&import_args(&s.text("one"), &s.text("ours"))), &["NVFP4", "lm_head.weight"]);
}

#[test]
fn b12_pipeline_cuts_and_prediction_patterns_are_refused_with_their_position() {
    let s = Scratch::new("b12");
    let folder = source(&s, "source");
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    let start = config.find("\"layers_block_type\"").unwrap();
    let end = start + config[start..].find(']').unwrap() + 1;
    for (pattern, position) in [("M|E*M/E", "`|` at position 1"), ("ME/E", "`/` at position 2")] {
        let text = format!("{}\"hybrid_override_pattern\": \"{pattern}\"{}", &config[..start], &config[end..]);
        fs::write(folder.join("config.json"), text).unwrap();
        let path = folder.display().to_string();
        refused(import::run(&import_args(&path, &s.text("ours"))), &["hybrid_override_pattern", position]);
    }
}

#[test]
fn b03_b04_an_export_that_misses_tensors_leaves_no_folder() {
    let s = Scratch::new("b03");
    let folder = source(&s, "source");
    let path = folder.display().to_string();
    import::run(&import_args(&path, &s.text("ours"))).unwrap();
    // The reference has one layer more (B03), or another width (B04).
    let mut larger = small_model();
    larger.layers.push(lightning_core::config::LayerKind::Mamba);
    s.checkpoint("larger", &larger, 2, 1);
    let mut args = export_args(&s.text("ours"), &s.text("out"));
    args.hf_model = Some(s.text("larger"));
    refused(export::run(&args), &["backbone.layers.5.norm.weight of the reference is missing"]);
    let mut wider = small_model();
    wider.hidden = 40;
    s.checkpoint("wider", &wider, 2, 1);
    args.hf_model = Some(s.text("wider"));
    refused(export::run(&args), &["backbone.embeddings.weight has shape [37, 20], the reference [37, 40]"]);
    args.not_strict = true;
    refused(export::run(&args), &["embeddings.weight has shape"]);
    // The checkpoint itself lacks a tensor.
    let index = s.path("ours/iter_0000000/index.json");
    let text = fs::read_to_string(&index).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["tensors"].as_object_mut().unwrap().remove("model/backbone.norm_f.weight");
    fs::write(&index, json.to_string()).unwrap();
    let args = export_args(&s.text("ours"), &s.text("out"));
    refused(export::run(&args), &["backbone.norm_f.weight is missing"]);
    assert!(!s.path("out").exists() && !s.path(".out.export").exists());
}

#[test]
fn b02_b03_without_the_prediction_block_every_real_tensor_is_exported() {
    let s = Scratch::new("b02-b03");
    // The reference's second file has the last layer and the prediction block.
    let whole = small_model();
    s.checkpoint("reference", &whole, 2, 1);
    let without = ModelConfig { mtp: None, ..small_model() };
    let source = s.checkpoint("source", &without, 1, 1);
    import::run(&import_args(&source, &s.text("ours"))).unwrap();
    let mut args = export_args(&s.text("ours"), &s.text("out"));
    args.hf_model = Some(s.text("reference"));
    refused(export::run(&args), &["mtp.layers.0.eh_proj.weight of the reference is missing"]);
    assert!(!s.path("out").exists());
    (args.not_strict, args.max_shard_size) = (true, 4000);
    export::run(&args).unwrap();
    // Opening compares the index with the union of the headers.
    let (ours, theirs) = (Weights::open(&s.path("out")).unwrap(), Weights::open(Path::new(&source)).unwrap());
    let result = compare(&theirs, &ours).unwrap();
    assert!(result.is_same() && s.path("out").join(INDEX).exists(), "{}", result.text());
}

#[test]
fn b14_a_target_that_holds_the_source_is_refused() {
    let s = Scratch::new("b14");
    let folder = source(&s, "source");
    let path = folder.display().to_string();
    let before = fs::read(folder.join(SECOND)).unwrap();
    let mut args = import_args(&path, &path);
    args.overwrite = true;
    refused(import::run(&args), &["would replace the source"]);
    import::run(&import_args(&path, &s.text("ours"))).unwrap();
    let mut args = export_args(&s.text("ours"), &path);
    (args.overwrite, args.hf_model) = (true, Some(path.clone()));
    refused(export::run(&args), &["would replace the source"]);
    // Through a link, and from above.
    std::os::unix::fs::symlink(&folder, s.path("link")).unwrap();
    args.hf_path = s.text("link");
    refused(export::run(&args), &["would replace the source"]);
    args.hf_path = s.text("ours");
    refused(export::run(&args), &["would replace the source"]);
    assert_eq!(fs::read(folder.join(SECOND)).unwrap(), before);
}

#[test]
fn what_is_there_is_replaced_only_when_asked() {
    let s = Scratch::new("exists");
    let folder = source(&s, "source");
    let path = folder.display().to_string();
    import::run(&import_args(&path, &s.text("ours"))).unwrap();
    refused(import::run(&import_args(&path, &s.text("ours"))), &["iter_0000000", "--overwrite"]);
    let mut args = import_args(&path, &s.text("ours"));
    args.overwrite = true;
    import::run(&args).unwrap();
    fs::create_dir(s.path("out")).unwrap();
    fs::write(s.path("out/precious"), "x").unwrap();
    let mut args = export_args(&s.text("ours"), &s.text("out"));
    refused(export::run(&args), &["out", "--overwrite"]);
    assert!(s.path("out/precious").exists());
    args.overwrite = true;
    export::run(&args).unwrap();
    assert!(!s.path("out/precious").exists() && s.path("out/model.safetensors").exists());
    args.workers = Some(17);
    refused(export::run(&args), &["--workers 17", "1 to 16"]);
    args.workers = None;
    args.torch_dtype = Some("int8".into());
    refused(export::run(&args), &["int8", "bfloat16"]);
}

#[test]
fn a_full_disk_leaves_nothing_that_looks_complete() {
    let s = Scratch::new("full-disk");
    let path = s.checkpoint("source", &synthetic::family_member(256), 2, 1);
    let ours = s.text("ours");
    let words = ["import", "--hf-model", &path, "--checkpoint-path", &ours];
    // A limit on file sizes: the write fails in the middle, as on a full disk.
    let output = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 500; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_lightning-train"))
        .args(words)
        .output()
        .unwrap();
    expect(&output, 3, &["cannot write"]);
    assert!(!s.path("ours/iter_0000000").exists() && !s.path("ours/latest_checkpointed_iteration.txt").exists());
    expect(&run(&words), 0, &["wrote"]);
}

#[test]
fn links_to_paths_that_are_not_utf8_and_such_side_files_are_taken() {
    let s = Scratch::new("odd-names");
    let folder = source(&s, "source");
    let odd = s.0.join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    fs::rename(&folder, &odd).unwrap();
    std::os::unix::fs::symlink(&odd, &folder).unwrap();
    let note = std::ffi::OsStr::from_bytes(b"note-\xff.txt");
    fs::write(folder.join(note), "side").unwrap();
    let path = folder.display().to_string();
    import::run(&import_args(&path, &s.text("ours"))).unwrap();
    let mut args = export_args(&s.text("ours"), &s.text("out"));
    args.hf_model = Some(path);
    export::run(&args).unwrap();
    assert_eq!(fs::read(s.path("out").join(note)).unwrap(), b"side");
    let same = compare(&Weights::open(&folder).unwrap(), &Weights::open(&s.path("out")).unwrap()).unwrap();
    assert!(same.is_same());
    // A cache in such a place is not found; the message says where.
    let output = program()
        .args(["import", "--hf-model", "some/model", "--checkpoint-path", &s.text("y")])
        .env("HF_HUB_CACHE", &odd)
        .output()
        .unwrap();
    expect(&output, 2, &["some/model", "odd-\u{fffd}", "give a folder"]);
}

#[test]
fn damage_to_a_checkpoint_of_ours_is_found() {
    let s = Scratch::new("damage");
    let folder = source(&s, "source");
    import::run(&import_args(&folder.display().to_string(), &s.text("ours"))).unwrap();
    let ours = s.text("ours");
    expect(&run(&["verify", "checkpoint", &ours]), 0, &["complete"]);
    let shard = s.path("ours/iter_0000000/shard-00000-of-00001.safetensors");
    let bytes = fs::read(&shard).unwrap();
    let mut changed = bytes.clone();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    fs::write(&shard, &changed).unwrap();
    expect(&run(&["verify", "checkpoint", &ours]), 7, &["checksum of `", "1 problems"]);
    // An export reads the checksums too: damage does not travel on.
    let output = run(&["export", "--checkpoint-path", &ours, "--hf-path", &s.text("out")]);
    expect(&output, 3, &["checksum of `"]);
    assert!(!s.path("out").exists());
    fs::write(&shard, &bytes[..last]).unwrap();
    expect(&run(&["verify", "checkpoint", &ours]), 3, &["shard-00000-of-00001.safetensors", "not complete"]);
    fs::remove_file(&shard).unwrap();
    expect(&run(&["verify", "checkpoint", &ours]), 3, &["shard-00000-of-00001.safetensors"]);
    fs::write(&shard, &bytes).unwrap();
    fs::write(s.path("ours/iter_0000000/train_state.json"), "{\"iteration\": 9}").unwrap();
    expect(&run(&["verify", "checkpoint", &ours]), 7, &["train_state.json is of step 9"]);
    fs::remove_file(s.path("ours/iter_0000000/train_state.json")).unwrap();
    expect(&run(&["verify", "checkpoint", &ours]), 7, &["cannot read", "train_state.json"]);
}

#[test]
fn paths_that_are_not_utf8_are_refused_and_exit_codes_tell_the_kind() {
    let s = Scratch::new("paths");
    let odd = std::ffi::OsStr::from_bytes(b"/tmp/\xff");
    let output = program().args(["import", "--checkpoint-path", "x", "--hf-model"]).arg(odd).output().unwrap();
    expect(&output, 2, &["not UTF-8"]);
    for verb in
        [&["import", "--hf-model", "x", "--checkpoint-path"][..], &["export", "--checkpoint-path", "x", "--hf-path"]]
    {
        expect(&program().args(verb).arg(odd).output().unwrap(), 2, &["not UTF-8"]);
    }
    let ours = s.text("ours");
    expect(&run(&["import", "--hf-model", "nowhere", "--checkpoint-path", &ours]), 2, &["nowhere"]);
    expect(&run(&["export", "--checkpoint-path", &ours, "--hf-path", "x"]), 3, &["ours"]);
    expect(&run(&["verify", "same", &ours]), 2, &["--b"]);
    expect(&run(&["verify", "checkpoint"]), 2, &["checkpoint-path"]);
    expect(&run(&["import", "--hf-model"]), 2, &["needs a value"]);
    let tiny = tiny().display().to_string();
    expect(&run(&["verify", "checkpoint", &tiny]), 0, &["every value finite"]);
    expect(&run(&["verify", "same", &tiny, &tiny]), 0, &[]);
    let other = s.checkpoint("other", &small_model(), 1, 1);
    let third = s.checkpoint("third", &small_model(), 1, 2);
    let output = run(&["verify", "same", &other, &third, "--json"]);
    expect(&output, 7, &["differ"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["max_difference"].as_f64().unwrap() > 0.0 && json["same"] == false);
    // A weight that is not a number.
    let file = s.path("other/model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 2;
    bytes[last..].copy_from_slice(&0x7fc0u16.to_le_bytes());
    fs::write(&file, bytes).unwrap();
    expect(&run(&["verify", "checkpoint", &other]), 7, &["1 NaN"]);
    let help = run(&["import", "--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("not Megatron's"));
}
