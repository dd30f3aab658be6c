use std::fs::OpenOptions;
use std::io::Write;

use lightning_data::indexed::{IndexedDataset, IndexedWriter, MAGIC, TokenType, bin_path, idx_path};
use lightning_data::{DataError, ErrorClass};
use proptest::prelude::*;

use super::{Scratch, error};

fn kinds() -> impl Strategy<Value = TokenType> {
    prop::sample::select(vec![
        TokenType::U8,
        TokenType::I8,
        TokenType::I16,
        TokenType::I32,
        TokenType::I64,
        TokenType::U16,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    // Pitfall B20: documents of no sequences, sequences of no tokens, and everything else come back as written.
    #[test]
    fn b20_any_documents_round_trip(
        kind in kinds(),
        documents in prop::collection::vec(prop::collection::vec(prop::collection::vec(0u8..128, 0..40), 0..4), 0..12),
    ) {
        let scratch = Scratch::new("round");
        let prefix = scratch.path("docs.v1");
        let mut writer = IndexedWriter::create(&prefix, kind).unwrap();
        for document in &documents {
            for sequence in document {
                writer.add_sequence(sequence).unwrap();
            }
            writer.end_document();
        }
        let done = writer.finish().unwrap();
        let data = IndexedDataset::open_validated(&prefix).unwrap();
        let flat: Vec<&Vec<u8>> = documents.iter().flatten().collect();
        prop_assert_eq!(done.documents, documents.len() as u64);
        prop_assert_eq!(data.len(), flat.len() as u64);
        prop_assert_eq!(data.validation().tokens, flat.iter().map(|s| s.len() as u64).sum::<u64>());
        for (i, want) in flat.iter().enumerate() {
            let got: Vec<u8> = data.read(i as u64).unwrap().into_iter().map(|t| t as u8).collect();
            prop_assert_eq!(&got, *want);
        }
        let mut boundary = 0;
        for (d, document) in documents.iter().enumerate() {
            boundary += document.len() as i64;
            prop_assert_eq!(data.document_boundary(d as u64 + 1), boundary);
        }
    }

    // Any bytes: an error or a reader whose every answer stays inside the files. Nothing is allocated by counts in the
    // header: reading is bounded by the token file.
    #[test]
    fn hostile_index_bytes_never_panic(
        damage in prop::collection::vec((0usize..200, any::<u8>()), 0..6),
        cut in 0usize..200,
        bin in prop::collection::vec(any::<u8>(), 0..64),
        n in 0u64..8,
        m in 0u64..8,
        tail in prop::collection::vec(any::<u8>(), 0..160),
    ) {
        let scratch = Scratch::new("hostile");
        let prefix = scratch.path("x");
        let mut idx = MAGIC.to_vec();
        idx.extend(1u64.to_le_bytes());
        idx.push(4);
        idx.extend(n.to_le_bytes());
        idx.extend(m.to_le_bytes());
        idx.extend(tail);
        idx.resize(34 + 12 * n as usize + 8 * m as usize, 0);
        for (at, byte) in damage {
            if let Some(b) = idx.get_mut(at) {
                *b = byte;
            }
        }
        if cut < 40 {
            idx.truncate(cut);
        }
        std::fs::write(idx_path(&prefix), &idx).unwrap();
        std::fs::write(bin_path(&prefix), &bin).unwrap();
        if let Ok(data) = IndexedDataset::open(&prefix) {
            let _ = data.validate();
            for s in 0..data.len() {
                if let Ok(tokens) = data.read(s) {
                    prop_assert!(tokens.len() as u64 * data.token_type().bytes() <= bin.len() as u64);
                }
                let _ = data.read_into(s, u64::MAX, &mut [0; 3]);
                let _ = data.read_into(s, 1, &mut [0; 2]);
            }
            for b in 0..data.document_boundaries() {
                let _ = data.document_boundary(b);
            }
            prop_assert!(data.read(data.len()).is_err());
        }
    }
}

fn three(scratch: &Scratch) -> std::path::PathBuf {
    let prefix = scratch.path("three");
    let mut writer = IndexedWriter::create(&prefix, TokenType::I32).unwrap();
    for tokens in [&[1, 2, 3][..], &[], &[4, 5]] {
        writer.add_document(tokens).unwrap();
    }
    writer.finish().unwrap();
    prefix
}

fn patch(path: &std::path::Path, at: usize, bytes: &[u8]) {
    let mut all = std::fs::read(path).unwrap();
    all[at..at + bytes.len()].copy_from_slice(bytes);
    std::fs::write(path, all).unwrap();
}

#[test]
fn validation_names_the_rule_and_the_entry() {
    let cases: [(&str, usize, Vec<u8>, u64); 4] = [
        ("not negative", 34 + 8, (-1i32).to_le_bytes().to_vec(), 2),
        ("sum of the lengths", 34 + 12 + 8, 13i64.to_le_bytes().to_vec(), 1),
        ("start with 0", 34 + 36, 1i64.to_le_bytes().to_vec(), 0),
        ("last document boundary", 34 + 36 + 24, 9i64.to_le_bytes().to_vec(), 3),
    ];
    for (rule, at, bytes, entry) in cases {
        let scratch = Scratch::new("rules");
        let prefix = three(&scratch);
        IndexedDataset::open_validated(&prefix).unwrap();
        patch(&idx_path(&prefix), at, &bytes);
        let e = error(IndexedDataset::open_validated(&prefix), rule);
        assert!(matches!(&e, DataError::Invalid { entry: Some(x), .. } if *x == entry), "{e}");
        assert!(e.to_string().contains(rule), "{e}");
    }
    let scratch = Scratch::new("short");
    let prefix = three(&scratch);
    std::fs::write(bin_path(&prefix), [0; 19]).unwrap();
    let e = error(IndexedDataset::open_validated(&prefix), "a short .bin").to_string();
    assert!(e.contains("three.bin") && e.contains("20 bytes") && e.contains("19 bytes"), "{e}");
}

#[test]
fn bad_headers_and_ids_are_refused_by_name() {
    let scratch = Scratch::new("headers");
    let prefix = three(&scratch);
    let fresh = std::fs::read(idx_path(&prefix)).unwrap();
    for (at, bytes, says) in
        [(0, &b"MMAP"[..], "MMIDIDX"), (9, &[2], "version"), (17, &[9], "float16"), (17, &[77], "unknown")]
    {
        patch(&idx_path(&prefix), at, bytes);
        let e = error(IndexedDataset::open(&prefix), says).to_string();
        assert!(e.contains(says), "{e}");
        std::fs::write(idx_path(&prefix), &fresh).unwrap();
    }
    patch(&idx_path(&prefix), 18, &u64::MAX.to_le_bytes());
    assert!(IndexedDataset::open(&prefix).is_err());
    assert!(matches!(error(IndexedDataset::open(scratch.path("absent")), "absence"), DataError::Io { .. }));
    let mut writer = IndexedWriter::create(scratch.path("ids"), TokenType::U16).unwrap();
    assert!(matches!(error(writer.add_document(&[1, 65_536]), "65536"), DataError::TokenRange { position: 1, .. }));
    assert!(writer.add_document(&[-1]).is_err());
    drop(writer);
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 2, "an unfinished pair leaves nothing behind");
    let mut file = OpenOptions::new().append(true).open(idx_path(&prefix)).unwrap();
    file.write_all(&[0]).unwrap();
    let e = error(IndexedDataset::open(&prefix), "a longer index");
    assert_eq!(e.class(), ErrorClass::Data);
}

// Pitfall B17: counts beyond 2^31 and 2^32. The file is sparse: nothing of it is stored.
#[test]
fn b17_three_billion_documents_open_lazily() {
    let scratch = Scratch::new("billions");
    let prefix = scratch.path("huge");
    let n = 3_000_000_000u64;
    let mut head = MAGIC.to_vec();
    head.extend(1u64.to_le_bytes());
    head.push(4);
    head.extend(n.to_le_bytes());
    head.extend((n + 1).to_le_bytes());
    let mut file = std::fs::File::create(idx_path(&prefix)).unwrap();
    file.write_all(&head).unwrap();
    if file.set_len(34 + 12 * n + 8 * (n + 1)).is_err() {
        return; // a file system without sparse files of this size
    }
    std::fs::write(bin_path(&prefix), []).unwrap();
    let data = IndexedDataset::open(&prefix).unwrap();
    assert_eq!(data.len(), n);
    assert_eq!((data.length(n - 1), data.pointer(n - 1)), (0, 0));
    assert_eq!(data.read(n - 1).unwrap(), Vec::<i32>::new());
    assert!(data.read(n).is_err());
    assert_eq!(data.document_boundary(n), 0);
}
