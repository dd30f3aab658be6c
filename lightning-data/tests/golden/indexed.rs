use lightning_data::indexed::{IndexedDataset, IndexedWriter, TokenType, bin_path, idx_path, merge};
use lightning_data::{DataError, ErrorClass};

use super::{int, ints, json, path, scratch, sha256};

fn files(golden: &serde_json::Value) -> impl Iterator<Item = (&String, &serde_json::Value)> {
    golden.as_object().unwrap().iter().filter(|(_, v)| v.get("dtype_code").is_some())
}

// Pitfall B18: codes 6, 7 and 9 mean different floats to different tools.
#[test]
fn golden_data_b18_indexed_files_are_read_and_floats_refused() {
    let golden = json("indexed/indexed.json");
    let (mut read, mut refused) = (0, 0);
    for (name, want) in files(&golden) {
        let prefix = path(&format!("indexed/{name}"));
        let code = int(&want["dtype_code"]) as u8;
        if matches!(code, 6 | 7) {
            let Err(e) = IndexedDataset::open(&prefix) else { panic!("{name} was read") };
            assert!(matches!(e, DataError::TokenType { code: c, .. } if c == code), "{e}");
            assert_eq!(e.class(), ErrorClass::Data);
            assert!(e.to_string().contains("float"), "{e}");
            refused += 1;
            continue;
        }
        read += 1;
        let data = IndexedDataset::open_validated(&prefix).unwrap();
        assert_eq!(data.token_type().code(), code);
        let lengths: Vec<i64> = data.lengths().map(i64::from).collect();
        assert_eq!(lengths, ints(&want["sequence_lengths"]), "{name}");
        let pointers: Vec<i64> = (0..data.len()).map(|s| data.pointer(s)).collect();
        assert_eq!(pointers, ints(&want["sequence_pointers"]), "{name}");
        let boundaries: Vec<i64> = (0..data.document_boundaries()).map(|b| data.document_boundary(b)).collect();
        assert_eq!(boundaries, ints(&want["document_indices"]), "{name}");
        for (s, tokens) in want["sequences"].as_array().unwrap().iter().enumerate() {
            let got: Vec<i64> = data.read(s as u64).unwrap().into_iter().map(i64::from).collect();
            assert_eq!(got, ints(tokens), "{name} sequence {s}");
            assert_eq!(data.mode(s as u64).map(i64::from), want["sequence_modes"].get(s).and_then(|m| m.as_i64()));
        }
        if let Some(get) = want.get("get") {
            let mut out = vec![0; int(&get["length"]) as usize];
            data.read_into(int(&get["idx"]), int(&get["offset"]), &mut out).unwrap();
            assert_eq!(out.into_iter().map(i64::from).collect::<Vec<_>>(), ints(&get["tokens"]));
        }
    }
    assert!(read > 0 && refused > 0);
}

#[test]
fn golden_data_indexed_files_are_written_byte_for_byte() {
    let golden = json("indexed/indexed.json");
    let directory = scratch("indexed");
    for (name, want) in files(&golden) {
        let Ok(kind) = TokenType::from_code(int(&want["dtype_code"]) as u8, &directory) else {
            continue;
        };
        let prefix = directory.join(name);
        let modes = want["sequence_modes"].as_array();
        let mut writer = if modes.is_some() {
            IndexedWriter::create_multimodal(&prefix, kind).unwrap()
        } else {
            IndexedWriter::create(&prefix, kind).unwrap()
        };
        let sequences = want["sequences"].as_array().unwrap();
        for bounds in ints(&want["document_indices"]).windows(2) {
            for s in bounds[0]..bounds[1] {
                let tokens = ints(&sequences[s as usize]);
                match modes {
                    Some(modes) => {
                        let mode = modes[s as usize].as_i64().unwrap() as i8;
                        writer.add_sequence_with_mode(&tokens, mode).unwrap();
                    }
                    None => writer.add_sequence(&tokens).unwrap(),
                }
            }
            writer.end_document();
        }
        let done = writer.finish().unwrap();
        let (bin, idx) = (std::fs::read(bin_path(&prefix)).unwrap(), std::fs::read(idx_path(&prefix)).unwrap());
        assert_eq!((done.bin_bytes, done.idx_bytes), (bin.len() as u64, idx.len() as u64));
        assert_eq!(sha256(&bin), want["bin_sha256"].as_str().unwrap(), "{name}.bin");
        assert_eq!(sha256(&idx), want["idx_sha256"].as_str().unwrap(), "{name}.idx");
    }
    let sources: Vec<_> =
        ["multi", "i32"].map(|n| IndexedDataset::open(path(&format!("indexed/{n}"))).unwrap()).into_iter().collect();
    merge(directory.join("merged"), &sources).unwrap();
    let want = &golden["merged"];
    assert_eq!(sha256(&std::fs::read(directory.join("merged.bin")).unwrap()), want["bin_sha256"].as_str().unwrap());
    assert_eq!(sha256(&std::fs::read(directory.join("merged.idx")).unwrap()), want["idx_sha256"].as_str().unwrap());
    let other = IndexedDataset::open(path("indexed/u16")).unwrap();
    let mixed = [sources.into_iter().next().unwrap(), other];
    assert!(merge(directory.join("mixed"), &mixed).unwrap_err().to_string().contains("uint16"));
    assert!(!directory.join("mixed.bin").exists() && !directory.join("mixed.idx").exists());
    for (vocab, name) in golden["optimal_dtype"].as_object().unwrap() {
        assert_eq!(TokenType::for_vocab(vocab.parse().unwrap()).name(), name.as_str().unwrap());
    }
    std::fs::remove_dir_all(directory).unwrap();
}
