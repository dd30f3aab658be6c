//! `data inspect` of a run: what a rank sees is what training reads.

use super::support::*;
use serde_json::Value;

const RECIPE: &str = "data inspect --recipe demo_pretrain_config model.seq_length=24 dataset.seq_length=24 \
    train.global_batch_size=8 train.micro_batch_size=2 dataset.kind=mock dataset.path=null";

fn batches(s: &Scratch, line: &str) -> Vec<Value> {
    expect(&run(s, line), 0, &[]).lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn ranks_together_see_what_one_rank_sees() {
    let s = Scratch::new("ranks");
    let rows = |all: &[Value]| -> Vec<Vec<u64>> {
        all.iter()
            .flat_map(|b| {
                let ids: Vec<u64> = b["tokens"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
                ids.chunks(24).map(<[u64]>::to_vec).collect::<Vec<_>>()
            })
            .collect()
    };
    let alone = batches(&s, &format!("{RECIPE} --batches 1..3 --json"));
    assert_eq!(alone.len(), 8);
    let mut together: Vec<Vec<u64>> = Vec::new();
    for rank in 0..2 {
        let one = batches(&s, &format!("{RECIPE} --batches 1..=2 --json --dp 2 --rank {rank}"));
        assert_eq!(one.len(), 4);
        // Micro-batches are dealt out in turn.
        for (k, batch) in one.iter().enumerate() {
            assert_eq!(batch["tokens"], alone[2 * k + rank]["tokens"]);
        }
        together.extend(rows(&one));
    }
    let mut all = rows(&alone);
    all.sort();
    together.sort();
    assert_eq!(all, together);
    for batch in &alone {
        let (ids, labels) = (batch["tokens"].as_array().unwrap(), batch["labels"].as_array().unwrap());
        assert_eq!(ids[1..24], labels[..23]);
    }
}

#[test]
fn context_parallel_ranks_see_their_slices() {
    let s = Scratch::new("context");
    let whole = batches(&s, &format!("{RECIPE} --batches 0..1 --json"));
    let slices: Vec<Vec<Value>> =
        (0..3).map(|c| batches(&s, &format!("{RECIPE} --batches 0..1 --json --cp 3 --cp-rank {c}"))).collect();
    let numbers = |v: &Value| -> Vec<i64> { v.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect() };
    for (m, whole) in whole.iter().enumerate() {
        for key in ["tokens", "labels", "loss_mask"] {
            let whole = numbers(&whole[key]);
            let mut seen = vec![0; whole.len()];
            for (c, slice) in slices.iter().map(|s| &s[m]).enumerate() {
                assert_eq!((slice["rows"].as_u64(), slice["seq_length"].as_u64()), (Some(2), Some(8)));
                assert_eq!(numbers(&slice["cu_seqlens_padded"]), [0, 8, 16]);
                let positions = numbers(&slice["positions"]);
                // Of six chunks of four, rank c holds chunks c and 5 - c.
                let c = c as i64;
                let chunks: Vec<i64> = (4 * c..4 * c + 4).chain(4 * (5 - c)..4 * (5 - c) + 4).collect();
                assert_eq!(positions, [chunks.clone(), chunks].concat());
                for (i, (value, position)) in numbers(&slice[key]).into_iter().zip(positions).enumerate() {
                    let at = i / 8 * 24 + position as usize;
                    assert_eq!(value, whole[at], "{key} at {at}");
                    seen[at] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{key}: {seen:?}");
        }
    }
    let accounts =
        |all: &[Value]| -> u64 { all.iter().map(|b| b["accounting"]["trained_tokens"].as_u64().unwrap()).sum() };
    assert_eq!(slices.iter().map(|s| accounts(s)).sum::<u64>(), accounts(&whole));
    expect(&run(&s, &format!("{RECIPE} --batches 0 --cp 2 --cp-rank 2")), 2, &["--cp-rank"]);
    expect(&run(&s, &format!("{RECIPE} --batches 0 --cp 5 --cp-rank 0")), 2, &["pad_seq_to_mult", "multiples of 10"]);
}

#[test]
fn batches_are_text_or_tensors() {
    let s = Scratch::new("forms");
    let text = expect(&run(&s, &format!("{RECIPE} --batches 0")), 0, &["in all:", "real tokens"]);
    assert!(text.contains("step 0 micro-batch 3 rank 0") && text.contains("    labels "), "{text}");
    let json = batches(&s, &format!("{RECIPE} --batches 0 --json"));
    expect(&run(&s, &format!("{RECIPE} --batches 0 --output b.safetensors")), 0, &[]);
    let bytes = std::fs::read(s.path("b.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for (m, batch) in json.iter().enumerate() {
        let tensor = file.tensor(&format!("step.0.micro_batch.{m}.labels")).unwrap();
        assert_eq!(tensor.shape(), [2, 24]);
        let values: Vec<i64> =
            tensor.data().chunks(4).map(|c| i64::from(i32::from_le_bytes(c.try_into().unwrap()))).collect();
        assert_eq!(serde_json::json!(values), batch["labels"]);
    }
    let about = json_of(&s, &format!("{RECIPE} --json"));
    assert_eq!((about["kind"].as_str(), about["global_batch_size"].as_u64()), (Some("run"), Some(8)));
}

#[test]
fn questions_without_an_answer_are_refused() {
    let s = Scratch::new("questions");
    for (words, said) in [
        ("--batches 2..2", "--batches"),
        ("--batches x", "--batches"),
        ("--batches 0 --rank 1", "--rank"),
        ("--batches 0 --dp 3", "multiple"),
        ("--output x", "--batches"),
        ("train.global_batch_sise=3", "global_batch_size"),
    ] {
        expect(&run(&s, &format!("{RECIPE} {words}")), 2, &[said]);
    }
    expect(&run(&s, "data inspect"), 2, &["missing"]);
    expect(&run(&s, "data inspect a b"), 2, &["one thing at a time"]);
    std::fs::create_dir(s.path("empty")).unwrap();
    expect(&run(&s, "data inspect empty"), 2, &["run_config.toml"]);
}
