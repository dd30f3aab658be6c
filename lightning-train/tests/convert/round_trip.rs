use super::*;
use lightning_core::config::preset;
use lightning_train::checkpoint::{Checkpoint, HeldPiece, Snapshot, TrainState, region::Region};
use lightning_train::convert::{Weights, export, import};
use lightning_train::hf::{HfConfig, HfFolder};
use lightning_train::verify::examine;
use lightning_train::verify::same::compare;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;

#[track_caller]
fn assert_same(a: &str, b: &str) {
    let open = |p: &str| Weights::open(Path::new(p)).unwrap_or_else(|e| panic!("{p}: {e}"));
    let result = compare(&open(a), &open(b)).unwrap();
    assert!(result.is_same() && result.tensors > 0, "{}", result.text());
}

/// Tensors of a file by name, read with another reader than ours.
fn tensors(path: &Path) -> BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter().map(|(n, v)| (n.to_string(), (v.dtype(), v.shape().to_vec(), v.data().to_vec()))).collect()
}

#[test]
fn the_tiny_checkpoint_comes_back_bit_by_bit_with_its_side_files() {
    let s = Scratch::new("tiny");
    let source = s.text("source");
    fs::create_dir_all(&source).unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(tiny().join(file), s.path("source").join(file)).unwrap();
    }
    for (name, text) in
        [("tokenizer.json", "{\"a\":1}\r\n"), ("chat_template.jinja", "{{ x }}"), ("nano_reasoning_parser.py", "#")]
    {
        fs::write(s.path("source").join(name), text).unwrap();
    }
    import::run(&import_args(&source, &s.text("ours"))).unwrap();
    let report = export::run(&export_args(&s.text("ours"), &s.text("out"))).unwrap();
    assert!(report.census.agrees() && report.saturated.is_empty());
    assert_same(&source, &s.text("out"));
    assert_eq!(tensors(&s.path("source/model.safetensors")), tensors(&s.path("out/model.safetensors")));
    let config = |dir: &str| HfConfig::read(&s.path(dir).join("config.json")).unwrap();
    let (a, b) = (config("source"), config("out"));
    assert_eq!((a.model, a.dtype, a.eos_token_id), (b.model, b.dtype, b.eos_token_id));
    for name in ["tokenizer.json", "chat_template.jinja", "nano_reasoning_parser.py"] {
        assert_eq!(fs::read(s.path("source").join(name)).unwrap(), fs::read(s.path("out").join(name)).unwrap());
    }
    let left: Vec<_> = fs::read_dir(&s.0).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), 3, "drafts are left: {left:?}");
    assert!(examine(&Weights::open(&s.path("ours")).unwrap()).is_sound());
}

#[test]
fn the_result_does_not_depend_on_files_or_workers() {
    let s = Scratch::new("workers");
    let source = s.checkpoint("source", &small_model(), 5, 3);
    let mut one = import_args(&source, &s.text("one"));
    one.low_memory = true;
    import::run(&one).unwrap();
    let mut many = import_args(&source, &s.text("many"));
    many.workers = Some(7);
    import::run(&many).unwrap();
    assert_same(&s.text("one"), &s.text("many"));
    for (i, limit) in [1, 3000, 5_000_000_000].into_iter().enumerate() {
        let out = format!("out{i}");
        let mut args = export_args(&s.text("many"), &s.text(&out));
        args.max_shard_size = limit;
        export::run(&args).unwrap();
        assert_same(&source, &s.text(&out));
    }
}

#[test]
fn b02_the_index_is_the_union_of_the_headers() {
    let s = Scratch::new("b02");
    let source = s.checkpoint("source", &small_model(), 3, 4);
    import::run(&import_args(&source, &s.text("ours"))).unwrap();
    let mut args = export_args(&s.text("ours"), &s.text("out"));
    args.max_shard_size = 4000;
    export::run(&args).unwrap();
    let text = fs::read_to_string(s.path("out/model.safetensors.index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&text).unwrap();
    let map = index["weight_map"].as_object().unwrap();
    let keys: Vec<&String> = map.keys().collect();
    assert!(keys.is_sorted() && keys.len() > 50);
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    for entry in fs::read_dir(s.path("out")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if !name.ends_with(".safetensors") {
            continue;
        }
        let inside = tensors(&entry.path());
        let size: usize = inside.values().map(|t| t.2.len()).sum();
        assert!(size <= 4000 || inside.len() == 1, "{name} has {size} bytes");
        bytes += size;
        for key in inside.into_keys() {
            assert!(found.insert(key, name.clone()).is_none(), "twice");
        }
    }
    assert_eq!(index["metadata"]["total_size"].as_u64(), Some(bytes as u64));
    let listed: BTreeMap<String, String> =
        map.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_string())).collect();
    assert_eq!(listed, found);
}

#[test]
fn b08_experts_keep_their_numbers() {
    let s = Scratch::new("b08");
    let mut model = small_model();
    model.moe.as_mut().unwrap().experts = 128;
    let source = s.checkpoint("source", &model, 2, 9);
    import::run(&import_args(&source, &s.text("ours"))).unwrap();
    export::run(&export_args(&s.text("ours"), &s.text("out"))).unwrap();
    assert_same(&source, &s.text("out"));
    // Every expert has other values, so that a permutation could not hide.
    let out = tensors(&s.path("out/model.safetensors"));
    let expert = |e: usize| &out[&format!("backbone.layers.1.mixer.experts.{e}.up_proj.weight")].2;
    assert!((1..128).all(|e| expert(e) != expert(e - 1)));
}

#[test]
fn b10_the_census_accounts_for_both_sides() {
    let s = Scratch::new("b10");
    let source = s.checkpoint("source", &small_model(), 1, 5);
    let report = import::run(&import_args(&source, &s.text("ours"))).unwrap();
    let folder = HfFolder::open(&s.path("source")).unwrap();
    assert_eq!(report.census.total.tensors, folder.tensors.len());
    assert_eq!(report.census.rows.iter().map(|r| r.1.tensors).sum::<usize>(), folder.tensors.len());
    let bytes: u64 = folder.tensors.values().map(|t| t.len).sum();
    assert_eq!(report.census.total.bytes, bytes);
    let bias = |n: &&String| n.ends_with("e_score_correction_bias");
    assert_eq!(folder.tensors.keys().filter(bias).count(), 3, "two layers and the MTP block");
    let ours = Checkpoint::open(&s.path("ours/iter_0000000"), &["model"]).unwrap();
    for (name, tensor) in &folder.tensors {
        let entry = ours.entry(&format!("model/{name}")).unwrap();
        assert_eq!((&entry.dtype, &entry.shape), (&tensor.dtype.to_string(), &tensor.shape));
    }
}

#[test]
fn b11_the_final_norm_is_there_with_and_without_the_prediction_block() {
    let s = Scratch::new("b11");
    let mut model = small_model();
    for mtp in [true, false] {
        if !mtp {
            model.mtp = None;
        }
        let name = |what: &str| format!("{what}{mtp}");
        let source = s.checkpoint(&name("source"), &model, 1, 6);
        import::run(&import_args(&source, &s.text(&name("ours")))).unwrap();
        export::run(&export_args(&s.text(&name("ours")), &s.text(&name("out")))).unwrap();
        let out = tensors(&s.path(&name("out")).join("model.safetensors"));
        assert!(out.contains_key("backbone.norm_f.weight"));
        assert_eq!(out.contains_key("mtp.layers.1.final_layernorm.weight"), mtp);
    }
}

#[test]
fn a_source_whose_prediction_block_was_dropped_is_taken_when_asked() {
    let s = Scratch::new("dropped");
    let mut model = small_model();
    model.mtp = None;
    let source = s.checkpoint("source", &model, 1, 6);
    // What transformers leaves: the configuration still has the block.
    let config = HfConfig::for_model(&small_model()).to_text().replace("\"mamba\"", "\"linear_attention\"");
    fs::write(s.path("source/config.json"), config).unwrap();
    let error = import::run(&import_args(&source, &s.text("ours"))).unwrap_err().to_string();
    assert!(error.contains("mtp.layers.0") && error.contains("--not-strict"), "{error}");
    let mut args = import_args(&source, &s.text("ours"));
    args.not_strict = true;
    import::run(&args).unwrap();
    assert_same(&source, &s.text("ours"));
    assert!(HfConfig::read(&s.path("ours/iter_0000000/config.json")).unwrap().model.mtp.is_none());
}

/// A checkpoint of ours with one writer from tensors of a Hugging Face folder, changed on the way.
fn ours(s: &Scratch, name: &str, source: &str, change: impl Fn(&mut HeldPiece)) {
    let folder = HfFolder::open(Path::new(source)).unwrap();
    let mut pieces = Vec::new();
    for file in &folder.files {
        for (name, (dtype, shape, bytes)) in tensors(&file.path) {
            let mut piece =
                HeldPiece { name: format!("model/{name}"), dtype, region: Region::whole(&shape), shape, bytes };
            change(&mut piece);
            pieces.push(piece);
        }
    }
    let snapshot = Snapshot {
        state: TrainState::default(),
        run_config: String::new(),
        model_config: folder.config.to_text(),
        writers: vec![pieces],
    };
    snapshot.write(&s.path(name)).unwrap();
}

#[test]
fn b07_padded_vocabulary_rows_are_not_exported() {
    let s = Scratch::new("b07");
    let model = small_model();
    let source = s.checkpoint("source", &model, 1, 7);
    ours(&s, "padded", &source, |piece| {
        if piece.shape[0] == 37 && piece.shape.len() == 2 {
            piece.shape[0] = 40;
            piece.bytes.resize(piece.bytes.len() / 37 * 40, 0);
            piece.region = Region::whole(&piece.shape);
        }
    });
    export::run(&export_args(&s.text("padded"), &s.text("out"))).unwrap();
    assert_same(&source, &s.text("out"));
    // The other way, the rows that a layout pads are zeros.
    import::run(&import_args(&source, &s.text("ours"))).unwrap();
    let checkpoint = Checkpoint::open(&s.path("ours/iter_0000000"), &[]).unwrap();
    let rows = lightning_train::checkpoint::region::Rect::whole(&[40, 20]);
    let mut bytes = vec![1; rows.len() * 2];
    checkpoint.read("model/lm_head.weight", &[rows], &mut bytes).unwrap();
    assert_eq!(bytes[..37 * 40], tensors(&s.path("source/model.safetensors"))["lm_head.weight"].2[..]);
    assert!(bytes[37 * 40..].iter().all(|b| *b == 0));
}

#[test]
fn types_are_remembered_and_converted_only_when_asked() {
    let s = Scratch::new("types");
    let source = s.checkpoint("source", &small_model(), 1, 8);
    // A checkpoint in f32, as a run in f32 saves it, with a value that no bf16 reaches.
    ours(&s, "wide", &source, |piece| {
        if piece.dtype == Dtype::BF16 {
            let values =
                piece.bytes.chunks(2).map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16));
            piece.bytes = values.flat_map(f32::to_le_bytes).collect();
            piece.dtype = Dtype::F32;
        }
        if piece.name == "model/lm_head.weight" {
            piece.bytes[..4].copy_from_slice(&f32::MAX.to_le_bytes());
        }
    });
    let report = export::run(&export_args(&s.text("wide"), &s.text("narrow"))).unwrap();
    assert_eq!(report.saturated, BTreeMap::from([("lm_head.weight".to_string(), 1)]));
    let (before, after) = (tensors(&s.path("source/model.safetensors")), tensors(&s.path("narrow/model.safetensors")));
    for (name, tensor) in &after {
        assert_eq!(tensor.0, before[name].0, "{name}");
        if name != "lm_head.weight" {
            assert_eq!(tensor.2, before[name].2, "{name}");
        }
    }
    let mut args = export_args(&s.text("wide"), &s.text("half"));
    args.torch_dtype = Some("float16".into());
    export::run(&args).unwrap();
    let half = HfFolder::open(&s.path("half")).unwrap();
    assert_eq!(half.config.dtype, "float16");
    for (name, tensor) in &half.tensors {
        let buffer = ["A_log", "D", "e_score_correction_bias"].iter().any(|end| name.ends_with(end));
        assert_eq!(tensor.dtype, if buffer { Dtype::F32 } else { Dtype::F16 }, "{name}");
    }
    // Imported in another type, a checkpoint still goes out in the types that it had.
    let mut args = import_args(&source, &s.text("converted"));
    args.torch_dtype = Some("float32".into());
    import::run(&args).unwrap();
    export::run(&export_args(&s.text("converted"), &s.text("back"))).unwrap();
    assert_same(&source, &s.text("back"));
}

#[test]
fn the_full_model_is_counted_without_reading_it() {
    let s = Scratch::new("full");
    synthetic::write(&s.path("full"), &preset("nemotron_3_5_lightning").unwrap(), 14, Data::Sparse).unwrap();
    let output = run(&["import", "--hf-model", &s.text("full"), "--checkpoint-path", &s.text("x"), "--dry-run"]);
    expect(&output, 0, &[]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in ["6,513", "32,913,266,240", "65,826,544,512", "29,841,767,680", "mtp.layers.1"] {
        assert!(table.contains(word), "`{word}` is missing in:\n{table}");
    }
    assert!(!s.path("x").exists());
    let words = ["import", "--hf-model", &s.text("full"), "--checkpoint-path", &s.text("x"), "--dry-run", "--json"];
    let output = run(&words);
    expect(&output, 0, &[]);
    let census: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = &census["total"];
    assert_eq!((total["tensors"].as_u64(), total["parameters"].as_u64()), (Some(6513), Some(32_913_266_240)));
    assert_eq!(total["bytes"].as_u64(), Some(65_826_544_512));
    let of_rows = |key: &str| census["rows"].as_array().unwrap().iter().map(|r| r[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((of_rows("tensors"), of_rows("parameters")), (6513, 32_913_266_240));
    assert!(!s.path("x").exists());
}

#[test]
fn the_full_model_is_exported_in_the_fourteen_files_of_the_public_one() {
    use lightning_train::convert::stream::{Job, fill};
    let layout = lightning_core::layout::Layout::new(&preset("nemotron_3_5_lightning").unwrap());
    let jobs = layout.parts().map(|(i, part)| {
        let dtype = if layout.params[i].role.stored_as_f32() { Dtype::F32 } else { Dtype::BF16 };
        Job {
            name: part.name.clone(),
            key: part.name.clone(),
            from: dtype,
            to: dtype,
            stored: part.shape.iter().product(),
            shape: part.shape.clone(),
            delta: None,
        }
    });
    let plans = fill(jobs.collect(), 5_000_000_000, &|i, n| format!("model-{:05}-of-{n:05}.safetensors", i + 1));
    assert_eq!(plans.len(), 14);
    assert_eq!(plans[13].file, "model-00014-of-00014.safetensors");
    assert_eq!(plans.iter().map(|p| p.jobs.len()).sum::<usize>(), 6513);
    let bytes = |i: usize| plans[i].jobs.iter().map(Job::bytes).sum::<u64>();
    // Greedy: the first weight of a file did not fit the one before. (The few F32 tensors in front of it are tiny.)
    let first = |i: usize| plans[i].jobs.iter().find(|j| j.to == Dtype::BF16).expect("a weight").bytes();
    for i in 1..14 {
        let (before, more) = (bytes(i - 1), first(i));
        assert!(before <= 5_000_000_000 && before + more > 4_999_990_000, "file {i}: {before} and {more}");
    }
}

#[test]
fn the_family_member_with_the_full_pattern_makes_the_round_trip() {
    let s = Scratch::new("member");
    let source = s.checkpoint("source", &synthetic::family_member(256), 14, 11);
    let (ours, out) = (s.text("ours"), s.text("out"));
    let words = ["roundtrip", "--hf-model", &source, "--megatron-path", &ours, "--hf-path", &out, "--workers", "3"];
    let output = run(&words);
    expect(&output, 0, &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("identical: 6513 tensors") && text.contains("maximum difference 0e0"), "{text}");
}

#[test]
fn a_repository_id_is_found_in_the_cache_through_its_links() {
    let s = Scratch::new("cache");
    let source = s.checkpoint("blobs", &small_model(), 2, 2);
    let snapshot = s.path("hub/models--some--model/snapshots/0123abc");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(s.path("hub/models--some--model/refs")).unwrap();
    fs::write(s.path("hub/models--some--model/refs/main"), "0123abc").unwrap();
    for entry in fs::read_dir(&source).unwrap().flatten() {
        std::os::unix::fs::symlink(entry.path(), snapshot.join(entry.file_name())).unwrap();
    }
    let command = |words: &[&str]| program().args(words).env("HF_HUB_CACHE", s.path("hub")).output().unwrap();
    let ours = s.text("ours");
    let words = ["import", "--hf-model", "some/model", "--checkpoint-path", &ours];
    expect(&command(&words), 0, &["wrote"]);
    assert_same(&source, &ours);
    let words = ["import", "--hf-model", "some/model", "--hf-revision", "v2", "--checkpoint-path", "y"];
    expect(&command(&words), 2, &["some/model", "revision v2", "fetch it first"]);
    // A branch or tag, and a commit.
    fs::write(s.path("hub/models--some--model/refs/v2"), "0123abc\n").unwrap();
    for (i, revision) in ["v2", "0123abc"].into_iter().enumerate() {
        let ours = s.text(&format!("revision{i}"));
        let words = ["import", "--hf-model", "some/model", "--hf-revision", revision, "--checkpoint-path", &ours];
        expect(&command(&words), 0, &["wrote"]);
        assert_same(&source, &ours);
    }
    let words = ["import", "--hf-model", &source, "--hf-revision", "v2", "--checkpoint-path", "y"];
    expect(&command(&words), 2, &["leave the revision out"]);
    let words = ["import", "--hf-model", "some/model", "--hf-revision", "../v2", "--checkpoint-path", "y"];
    expect(&command(&words), 2, &["fetch it first"]);
    // As reference of an export, and for the comparison of a round trip.
    let (out, again) = (s.text("out"), s.text("again"));
    let words = ["roundtrip", "--hf-model", "some/model", "--checkpoint-path", &again, "--hf-path", &out];
    expect(&command(&words), 0, &[]);
    assert_same(&source, &out);
}
