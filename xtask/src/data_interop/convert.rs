//! From the ranks of a byte-level BPE to a `tokenizer.json`.
//!
//! Ranks say in which order pairs are merged: the two parts of a token are what merging its bytes gives when only lower
//! ranks may be used.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result, read_text, write_file};

/// Writes `tokenizer.json` and `tokenizer_config.json` into `folder`.
pub fn convert(ranks: &Path, folder: &Path) -> Result<()> {
    let bad = |what: &str| Failure::new(format!("{}: {what}; install the package again", ranks.display()));
    let file: Value = serde_json::from_str(&read_text(ranks)?).map_err(|e| bad(&e.to_string()))?;
    let number = |key: &str| file["config"][key].as_u64().ok_or_else(|| bad(&format!("no number {key}")));
    let special = number("default_num_special_tokens")?;
    let size =
        number("default_vocab_size")?.checked_sub(special).ok_or_else(|| bad("more special tokens than tokens"))?;
    let pattern = file["config"]["pattern"].as_str().ok_or_else(|| bad("no pattern"))?;
    let entries = file["vocab"].as_array().ok_or_else(|| bad("no vocabulary"))?;
    let mut tokens: Vec<Vec<u8>> = Vec::new();
    for (rank, entry) in entries.iter().take(size as usize).enumerate() {
        let bytes = entry["token_bytes"].as_str().and_then(base64);
        match bytes.filter(|b| entry["rank"] == rank && !b.is_empty()) {
            Some(bytes) => tokens.push(bytes),
            None => return Err(bad(&format!("entry {rank} is not what it should be"))),
        }
    }
    let rank_of: HashMap<&[u8], usize> = tokens.iter().enumerate().map(|(i, t)| (t.as_slice(), i)).collect();
    let (mut vocab, mut merges) = (Map::new(), Vec::new());
    let mut added = Vec::new();
    for id in 0..special {
        let text = match id {
            0 => "<unk>".to_string(),
            1 => "<s>".to_string(),
            2 => "</s>".to_string(),
            _ => format!("<special_{id}>"),
        };
        vocab.insert(text.clone(), id.into());
        added.push(json!({
            "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        }));
    }
    for (rank, token) in tokens.iter().enumerate() {
        vocab.insert(visible(token), (rank as u64 + special).into());
        if token.len() > 1
            && let Some((left, right)) = parts(token, rank, &rank_of)
        {
            merges.push(json!([visible(left), visible(right)]));
        }
    }
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    let split = json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [split, bytes] },
        "post_processor": null, "decoder": bytes,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
            "vocab": vocab, "merges": merges,
        },
    });
    write_file(&folder.join("tokenizer.json"), tokenizer.to_string())?;
    write_file(&folder.join("tokenizer_config.json"), json!({ "bos_token": "<s>", "eos_token": "</s>" }).to_string())
}

/// The two parts that a token is merged from, by ranks below its own.
fn parts<'t>(token: &'t [u8], rank: usize, rank_of: &HashMap<&[u8], usize>) -> Option<(&'t [u8], &'t [u8])> {
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    while ends.len() > 3 {
        let pair = |i: usize| rank_of.get(&token[ends[i]..ends[i + 2]]).copied().filter(|&r| r < rank);
        let (_, at) = (0..ends.len() - 2).filter_map(|i| Some((pair(i)?, i))).min()?;
        ends.remove(at + 1);
    }
    Some((&token[..ends[1]], &token[ends[1]..]))
}

/// Bytes in the spelling of byte-level vocabularies: printable Latin-1 as it is, the others from U+0100 on.
fn visible(bytes: &[u8]) -> String {
    let printable = |b: u8| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let character = |b: u8| match printable(b) {
        true => char::from(b),
        false => {
            let before = (0..b).filter(|&c| !printable(c)).count() as u32;
            char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    };
    bytes.iter().map(|&b| character(b)).collect()
}

/// Decodes standard base64.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut n) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        n += 6;
        if n >= 8 {
            n -= 8;
            out.push((bits >> n) as u8);
            bits &= (1 << n) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_and_visible_bytes() {
        assert_eq!(base64("INA=").unwrap(), [0x20, 0xD0]);
        assert_eq!(base64("AA==").unwrap(), [0]);
        assert_eq!(base64("").unwrap(), Vec::<u8>::new());
        assert!(base64("a b").is_none());
        assert_eq!(visible(b" a\n\xAD\xFF"), "\u{120}a\u{10A}\u{143}\u{FF}");
    }

    #[test]
    fn parts_follow_the_ranks() {
        let tokens: [&[u8]; 6] = [b"a", b"b", b"c", b"bc", b"ab", b"abc"];
        let ranks: HashMap<&[u8], usize> = tokens.iter().enumerate().map(|(i, t)| (*t, i)).collect();
        assert_eq!(parts(b"abc", 5, &ranks), Some((&b"a"[..], &b"bc"[..])));
        assert_eq!(parts(b"ab", 4, &ranks), Some((&b"a"[..], &b"b"[..])));
    }
}
