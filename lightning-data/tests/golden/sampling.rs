use lightning_data::DataError;
use lightning_data::sampler::{BatchShape, CyclicSampler, Sampler, SequentialSampler};
use lightning_data::split::{SampleRequest, SplitMatrix};
use serde_json::Value;

use super::{int, ints, json};

fn shape_of(case: &Value) -> BatchShape {
    BatchShape { micro_batch_size: int(&case["micro_batch"]), dp_size: int(&case["dp"]) }
}

fn as_i64(values: &[u64]) -> Vec<i64> {
    values.iter().map(|&v| v as i64).collect()
}

#[test]
fn golden_data_sequential_sampler() {
    for case in json("samplers.json")["single"].as_array().unwrap() {
        let shape = shape_of(case);
        let sampler = SequentialSampler::new("train", int(&case["total"]), shape).unwrap();
        let consumed = int(&case["consumed"]);
        let mut out = Vec::new();
        for (rank, batches) in case["ranks"].as_array().unwrap().iter().enumerate() {
            let batches = batches.as_array().unwrap();
            for (m, want) in batches.iter().enumerate() {
                // Inside a step and as steps of one micro-batch: the order is the same.
                sampler.positions(consumed, m as u64, rank as u64, &mut out).unwrap();
                assert_eq!(as_i64(&out), ints(want), "{case} rank {rank} micro-batch {m}");
                sampler.positions(consumed + m as u64 * shape.samples(), 0, rank as u64, &mut out).unwrap();
                assert_eq!(as_i64(&out), ints(want));
            }
            let end = sampler.positions(consumed, batches.len() as u64, rank as u64, &mut out);
            assert!(matches!(end, Err(DataError::Exhausted { .. })), "the incomplete tail is dropped");
        }
    }
}

#[test]
fn golden_data_cyclic_sampler() {
    for case in json("samplers.json")["cyclic"].as_array().unwrap() {
        let shape = shape_of(case);
        let sharded = case["data_sharding"].as_bool().unwrap();
        let sampler = CyclicSampler::new("valid", int(&case["total"]), shape, sharded).unwrap();
        let mut out = Vec::new();
        for (rank, epochs) in case["ranks"].as_array().unwrap().iter().enumerate() {
            let mut consumed = int(&case["consumed"]);
            for batches in epochs.as_array().unwrap() {
                for want in batches.as_array().unwrap() {
                    sampler.positions(consumed, 0, rank as u64, &mut out).unwrap();
                    assert_eq!(as_i64(&out), ints(want), "{case} rank {rank} consumed {consumed}");
                    consumed += shape.samples();
                }
                assert_eq!(consumed % sampler.epoch_samples(), 0, "{case}: the reference's epoch ends here");
            }
        }
    }
}

#[test]
fn golden_data_requested_samples() {
    for case in json("samplers.json")["requested_samples"].as_array().unwrap() {
        let request = SampleRequest {
            train_samples: None,
            train_iters: int(&case["train_iters"]),
            global_batch_size: int(&case["gbs"]),
            eval_interval: int(&case["eval_interval"]),
            eval_iters: int(&case["eval_iters"]),
            eval_global_batch_size: case["eval_gbs"].as_u64(),
        };
        assert_eq!(as_i64(&request.samples().unwrap()), ints(&case["train_valid_test"]), "{case}");
    }
}

#[test]
fn golden_data_splits() {
    for (text, want) in json("blend/splits.json").as_object().unwrap() {
        let matrix = SplitMatrix::parse(text).unwrap();
        let float = |v: &Value| v.as_f64().unwrap();
        let vector: Vec<f64> = want["vector"].as_array().unwrap().iter().map(float).collect();
        assert_eq!(matrix.vector[..], vector, "{text}");
        for (got, want) in matrix.bookends.iter().zip(want["matrix"].as_array().unwrap()) {
            let want = want.as_array().map(|pair| (float(&pair[0]), float(&pair[1])));
            assert_eq!(*got, want, "{text}");
        }
        for (count, ranges) in want["ranges"].as_object().unwrap() {
            let got = matrix.ranges(count.parse().unwrap());
            for (got, want) in got.iter().zip(ranges.as_array().unwrap()) {
                match (got, want.is_null()) {
                    (None, true) => {}
                    // The reference's probe shows an empty range as [0, 0].
                    (Some(r), false) if r.is_empty() => {
                        assert_eq!(ints(want), [0, 0], "{text} {count}")
                    }
                    (Some(r), false) => assert_eq!(vec![r.begin as i64, r.end as i64], ints(want), "{text} {count}"),
                    other => panic!("{text} {count}: {other:?} {want}"),
                }
            }
        }
    }
}
