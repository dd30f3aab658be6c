//! Hostile safetensors headers: clear errors, no panic, no memory that the file does not have.

use super::*;
use lightning_train::hf::HfConfig;
use lightning_train::hf::header::{HeaderProblem, of_bytes, open, parse};
use proptest::prelude::*;

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![0; data]);
    bytes
}

fn problem(name: &str, bytes: &[u8]) -> HeaderProblem {
    let s = Scratch::new(&format!("header-{name}"));
    fs::write(s.path("x.safetensors"), bytes).unwrap();
    let error = open(&s.path("x.safetensors")).unwrap_err();
    assert!(error.to_string().contains("x.safetensors"));
    error.problem
}

const A: &str = r#""a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}"#;

#[test]
fn every_lie_of_a_header_is_told() {
    use HeaderProblem as P;
    let with_b = |b: &str| format!("{{{A},\"b\":{b}}}");
    let entry = |dtype: &str, shape: &str, from: u64, to: u64| {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let case = |name: &str, header: &str, data: usize| problem(name, &file(header, data));
    assert!(matches!(case("gap", &with_b(&entry("F32", "[1]", 8, 12)), 12), P::Gap { name, .. } if name == "b"));
    assert!(matches!(case("overlap", &with_b(&entry("F32", "[1]", 2, 6)), 6), P::Overlap { name, .. } if name == "b"));
    assert!(matches!(case("size", &with_b(&entry("F32", "[2]", 4, 8)), 8), P::Size { name, .. } if name == "b"));
    assert!(matches!(case("reversed", &with_b(&entry("F32", "[2]", 8, 4)), 8), P::Size { .. }));
    let huge = entry("F32", "[4294967296,4294967296,16]", 4, 8);
    assert!(matches!(case("product", &with_b(&huge), 8), P::Size { .. }));
    let far = entry("U8", "[1]", u64::MAX - 1, u64::MAX);
    assert!(matches!(case("far", &with_b(&far), 8), P::Size { .. } | P::Gap { .. }));
    assert!(matches!(case("twice", &format!("{{{A},{A}}}"), 4), P::Duplicate(name) if name == "a"));
    assert!(matches!(case("type", &with_b(&entry("Q9", "[1]", 4, 5)), 5), P::Json(text) if text.contains("`b`")));
    assert!(matches!(case("json", "{\"a\":", 0), P::Json(_)));
    assert!(matches!(case("list", "[1]", 0), P::Json(_)));
    assert!(matches!(case("negative", &with_b(r#"{"dtype":"U8","shape":[-1],"data_offsets":[4,5]}"#), 5), P::Json(_)));
    assert!(matches!(case("short", &format!("{{{A}}}"), 3), P::FileLength { .. }));
    assert!(matches!(case("long", &format!("{{{A}}}"), 5), P::FileLength { .. }));
    assert!(matches!(problem("empty", &[]), P::Short { bytes: 0 }));
    assert!(matches!(problem("huge", &[0xff; 16]), P::Length { claimed: u64::MAX, .. }));
    let mut bytes = 90_000_000u64.to_le_bytes().to_vec();
    bytes.extend([b'{'; 100]);
    assert!(matches!(problem("claims", &bytes), P::Length { claimed: 90_000_000, bytes: 108 }));
    let mut bytes = file(&format!("{{{A}}}"), 4);
    bytes[9] = 0xff;
    assert!(matches!(problem("utf8", &bytes), P::NotUtf8));
    let deep = "[".repeat(100_000);
    assert!(matches!(problem("deep", &file(&deep, 0)), P::Json(_)));
}

#[test]
fn what_is_right_is_read() {
    let text = format!("{{\"__metadata__\":{{\"format\":\"pt\"}},{A}}}  ");
    let length = text.len() as u64;
    let header = parse(text.as_bytes(), 8 + length + 4).unwrap();
    assert_eq!(header.metadata["format"], "pt");
    assert_eq!((header.entries[0].start, header.entries[0].len), (8 + length, 4));
    assert!(parse(b"{}", 10).unwrap().entries.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..200), length in any::<u64>()) {
        let _ = parse(&text, length);
        // What the fuzz targets of `fuzz/` do.
        let _ = of_bytes(&text);
        let _ = of_bytes(&[&(text.len() as u64).to_le_bytes()[..], &text].concat());
        let _ = HfConfig::parse("c", &String::from_utf8_lossy(&text));
    }

    /// Headers that are JSON of the right form with any numbers in them: what is accepted covers the file exactly.
    #[test]
    fn accepted_headers_cover_the_file_once(
        entries in prop::collection::vec((0usize..3, prop::collection::vec(0u64..5, 0..3), 0u64..40, 0u64..40), 0..4),
        data in 0usize..64,
    ) {
        let types = [("BF16", 2), ("F32", 4), ("Q9", 1)];
        let mut at = 0;
        let lines: Vec<String> = entries.iter().enumerate().map(|(i, (t, shape, from, to))| {
            // Every other entry tells the truth about itself.
            let size = shape.iter().product::<u64>() * types[*t].1;
            let (from, to) = if i % 2 == 0 { (at, at + size) } else { (*from, *to) };
            at = to;
            format!("\"t{i}\":{{\"dtype\":\"{}\",\"shape\":{shape:?},\"data_offsets\":[{from},{to}]}}", types[*t].0)
        }).collect();
        let bytes = file(&format!("{{{}}}", lines.join(",")), data);
        if let Ok(header) = of_bytes(&bytes) {
            prop_assert_eq!(header.entries.len(), entries.len());
            let covered: u64 = header.entries.iter().map(|e| e.len).sum();
            prop_assert_eq!(covered, data as u64);
        }
    }

    #[test]
    fn damaged_headers_never_panic(place in 0usize..60, byte in any::<u8>(), cut in 0usize..60) {
        let text = format!("{{{A},\"b\":{{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[4,16]}}}}");
        let mut bytes = text.clone().into_bytes();
        bytes[place] = byte;
        let _ = parse(&bytes, 8 + bytes.len() as u64 + 16);
        let _ = parse(&bytes[..cut], 8 + cut as u64 + 16);
    }
}
