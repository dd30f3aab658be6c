use lightning_data::rng::{Mt19937, Pcg64, randperm_torch, shuffle_python};

use super::{int, json, sha_i32, sha_i64, tensors};

/// "seed5678/n1000" as numbers.
fn key(name: &str) -> Option<(u64, usize)> {
    let (seed, n) = name.strip_prefix("seed")?.split_once("/n")?;
    Some((seed.parse().ok()?, n.parse().ok()?))
}

fn signed(values: Vec<u64>) -> impl Iterator<Item = i64> {
    values.into_iter().map(|v| v as i64)
}

#[test]
fn golden_data_shuffles() {
    let golden = json("rng.json");
    let tensors = tensors::load("rng.safetensors");
    let mut seen = 0;
    for (name, want) in golden["shuffles"].as_object().unwrap() {
        let Some((seed, n)) = key(name) else { continue };
        seen += 1;
        let mut mt = Mt19937::from_seed(seed as u32);
        let numpy = mt.permutation_numpy(n);
        assert_eq!(u64::from(mt.next_u32()), int(&want["numpy_next_u32"]), "{name}: state after the shuffle");
        let torch = randperm_torch(n, seed);
        let mut python: Vec<u64> = (0..n as u64).collect();
        shuffle_python(seed, &mut python);
        for (kind, got) in [("numpy_shuffle", numpy), ("torch_randperm", torch), ("python_shuffle", python)] {
            if let Some(t) = tensors.get(&format!("{name}/{kind}")) {
                assert!(t.values.iter().copied().eq(signed(got.clone())), "{name}/{kind}");
            }
            assert_eq!(sha_i64(signed(got)), want[kind].as_str().unwrap(), "{name}/{kind}");
        }
    }
    assert!(seen > 0);
}

#[test]
fn golden_data_raw_words_and_chained_shuffles() {
    let tensors = tensors::load("rng.safetensors");
    let mut seen = 0;
    for (name, want) in &tensors {
        let seed = |rest: &str| rest.split('/').next().and_then(|s| s.strip_prefix("seed")?.parse::<u64>().ok());
        if let Some(rest) = name.strip_prefix("pcg64/") {
            let mut rng = Pcg64::from_seed(seed(rest).unwrap());
            if name.ends_with("raw_u64") {
                assert!(want.values.iter().all(|&w| w as u64 == rng.next_u64()), "{name}");
            } else {
                let (_, range) = name.rsplit_once("integers_").unwrap();
                let (low, high) = range.split_once('_').unwrap();
                let (low, high) = (low.parse().unwrap(), high.parse().unwrap());
                assert!(want.values.iter().all(|&w| w == i64::from(rng.integer(low, high))), "{name}");
            }
            seen += 1;
        } else if name.ends_with("/mt19937_u32") {
            let mut rng = Mt19937::from_seed(seed(name).unwrap() as u32);
            assert!(want.values.iter().all(|&w| w == i64::from(rng.next_u32())), "{name}");
            seen += 1;
        } else if let Some(base) = name.strip_suffix("/chained/first") {
            let mut rng = Mt19937::from_seed(seed(name).unwrap() as u32);
            for part in ["first", "second"] {
                let want = &tensors[&format!("{base}/chained/{part}")].values;
                let mut got: Vec<i64> = (0..want.len() as i64).collect();
                rng.shuffle_numpy(&mut got);
                assert_eq!(&got, want, "{name} {part}");
            }
            seen += 1;
        }
    }
    assert!(seen > 0);
    for (name, want) in json("rng.json")["shuffles"].as_object().unwrap() {
        let Some((seed, n)) = name.strip_prefix("pcg64/seed").and_then(|r| r.split_once('/')) else {
            continue;
        };
        let mut rng = Pcg64::from_seed(seed.parse().unwrap());
        let n: usize = n.parse().unwrap();
        assert_eq!(sha_i32((0..n).map(|_| rng.integer(1, 4096))), want.as_str().unwrap(), "{name}");
    }
}

#[test]
fn golden_data_generator_permutation() {
    for (name, want) in json("rng.json")["hf_train_test_split_005"].as_object().unwrap() {
        let (seed, n) = key(name).unwrap();
        let p: Vec<i64> = signed(Pcg64::from_seed(seed).permutation(n)).collect();
        let test = super::ints(&want["test"]);
        assert_eq!(p[..test.len()], test, "{name}");
        assert_eq!(p.len() - test.len(), int(&want["train_len"]) as usize);
        assert_eq!(sha_i64(p[test.len()..].iter().copied()), want["train_sha256"].as_str().unwrap(), "{name}");
    }
}
