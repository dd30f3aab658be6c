//! Checkpoints of any layout of ranks load into any other: ranks are simulated one after the other.

use super::*;
use lightning_core::config::{AttentionConfig, LayerKind, MambaConfig, MoeConfig};
use lightning_core::layout::Layout;
use lightning_train::checkpoint::parallel::{Distribution, RankLayout, Sharding};
use lightning_train::checkpoint::region::{Rect, Region, copy_shared};
use lightning_train::checkpoint::{Checkpoint, HeldPiece, Snapshot, TrainState};
use lightning_train::convert::{Weights, export, import};
use lightning_train::hf::config_json;
use lightning_train::verify::same::compare;
use proptest::prelude::*;
use safetensors::Dtype;
use std::collections::BTreeMap;

/// Global tensors by `SECTION/NAME`.
type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Random bytes for every tensor of a model and its optimizer.
fn random_tensors(model: &ModelConfig, random: &mut Random) -> Tensors {
    let layout = Layout::new(model);
    let mut tensors = Tensors::new();
    for (index, part) in layout.parts() {
        let mut add = |section: &str, dtype: Dtype| {
            let n = part.shape.iter().product::<usize>() * dtype.bitsize() / 8;
            let bytes = (0..n).map(|_| random.next() as u8).collect();
            tensors.insert(format!("{section}/{}", part.name), (dtype, part.shape.clone(), bytes));
        };
        add("model", Dtype::BF16);
        if layout.params[index].role.trains() {
            add("optim.m", Dtype::F32);
        }
    }
    tensors
}

fn cut_out(shape: &[usize], bytes: &[u8], size: usize, rect: &Rect) -> Vec<u8> {
    let mut out = vec![0; rect.len() * size];
    assert_eq!(copy_shared(&Rect::whole(shape), bytes, rect, &mut out, size), rect.len());
    out
}

fn cut_region(shape: &[usize], bytes: &[u8], size: usize, region: &Region) -> Vec<u8> {
    region.rects(shape).iter().flat_map(|r| cut_out(shape, bytes, size, r)).collect()
}

/// What one rank holds, from global tensors.
type Held = Vec<(HeldPiece, bool)>;

fn scatter(tensors: &Tensors, distribution: &Distribution) -> Vec<Held> {
    let piece = |section: &str, held: &lightning_train::checkpoint::parallel::Held, region: &Region| {
        let name = format!("{section}/{}", held.name);
        let (dtype, shape, bytes) = &tensors[&name];
        let bytes = cut_region(shape, bytes, dtype.bitsize() / 8, region);
        HeldPiece { name, dtype: *dtype, shape: shape.clone(), region: region.clone(), bytes }
    };
    let rank = |r: usize| {
        let mut all = Held::new();
        for section in ["model", "optim.m"] {
            for held in distribution.held(section, r) {
                all.extend(held.regions.iter().map(|region| (piece(section, &held, region), held.writes)));
            }
        }
        all
    };
    (0..distribution.world()).map(rank).collect()
}

fn save(model: &ModelConfig, ranks: &[Held], folder: &Path, iteration: u64) -> PathBuf {
    let written = |held: &Held| held.iter().filter(|(_, writes)| *writes).map(|(p, _)| p.clone()).collect();
    Snapshot {
        state: TrainState { iteration, ..TrainState::default() },
        run_config: String::new(),
        model_config: config_json::to_text(model),
        writers: ranks.iter().map(written).collect(),
    }
    .write(folder)
    .unwrap()
}

/// What the ranks of a layout read from a checkpoint.
fn load(checkpoint: &Checkpoint, distribution: &Distribution) -> Vec<Held> {
    let rank = |r: usize| {
        let mut all = Held::new();
        for section in ["model", "optim.m"] {
            for held in distribution.held(section, r) {
                let name = format!("{section}/{}", held.name);
                let dtype = if section == "model" { Dtype::BF16 } else { Dtype::F32 };
                for region in &held.regions {
                    let mut bytes = vec![0xa5; region.len() * dtype.bitsize() / 8];
                    checkpoint.read(&name, &region.rects(&held.shape), &mut bytes).unwrap();
                    let (shape, region) = (held.shape.clone(), region.clone());
                    all.push((HeldPiece { name: name.clone(), dtype, shape, region, bytes }, held.writes));
                }
            }
        }
        all
    };
    (0..distribution.world()).map(rank).collect()
}

fn through(model: &ModelConfig, layouts: &[RankLayout], seed: u64) {
    let s = Scratch::new(&format!("layout-{seed}"));
    let tensors = random_tensors(model, &mut Random(seed));
    let distributions: Vec<Distribution> = layouts.iter().map(|l| Distribution::new(model, *l).unwrap()).collect();
    let mut held = scatter(&tensors, &distributions[0]);
    for (i, next) in distributions.iter().enumerate().skip(1).chain([(0, &distributions[0])]) {
        let folder = save(model, &held, &s.path("save"), i as u64 + 1);
        let checkpoint = Checkpoint::open(&folder, &[]).unwrap_or_else(|e| panic!("{:?}: {e}", layouts[i]));
        assert_eq!(checkpoint.index.tensors.len(), tensors.len());
        held = load(&checkpoint, next);
        assert_eq!(held, scatter(&tensors, next), "{layouts:?}");
        for (name, (_, _, bytes)) in tensors.iter().step_by(5) {
            let mut stream = checkpoint.stream(name);
            let mut found = vec![0; bytes.len()];
            // In odd portions, as a conversion that cuts rows.
            let size = bytes.len() / tensors[name].1.iter().product::<usize>();
            for portion in found.chunks_mut(7 * size) {
                stream.read(portion).unwrap();
            }
            assert_eq!(found, *bytes, "{name} as a stream");
        }
    }
}

const ONE: RankLayout = RankLayout::SINGLE;

#[test]
fn the_public_layouts_exchange_checkpoints() {
    let mut model = small_model();
    model.moe.as_mut().unwrap().experts = 16;
    let ep8 = RankLayout { dp: 8, ep: 8, sharding: Sharding::Optimizer, ..ONE };
    let tp2 = RankLayout { tp: 2, cp: 2, dp: 4, ep: 8, sharding: Sharding::Optimizer, ..ONE };
    let fsdp8 = RankLayout { dp: 8, ep: 4, sharding: Sharding::Everything, ..ONE };
    let stages = RankLayout { tp: 2, dp: 2, pp: 3, ep: 2, etp: 2, ..ONE };
    through(&model, &[ep8, tp2, ONE, fsdp8, stages], 1);
}

#[test]
fn b78_the_optimizer_moves_between_four_and_three_ranks_without_padding() {
    let ranks = |dp| RankLayout { dp, sharding: Sharding::Optimizer, ..ONE };
    through(&small_model(), &[ranks(4), ranks(3), ONE, ranks(7)], 2);
}

#[test]
fn each_element_has_one_writer_and_the_writers_share_the_work() {
    let model = small_model();
    let layout = RankLayout { tp: 2, dp: 4, ep: 4, ..ONE };
    let distribution = Distribution::new(&model, layout).unwrap();
    let written: Vec<usize> = (0..8)
        .map(|r| {
            let held = distribution.held("model", r);
            held.iter().filter(|h| h.writes).flat_map(|h| &h.regions).map(Region::len).sum()
        })
        .collect();
    assert_eq!(written.iter().sum::<usize>() as u64, Layout::new(&model).element_count());
    let mean = written.iter().sum::<usize>() / 8;
    assert!(written.iter().all(|n| *n < 2 * mean && *n > mean / 2), "{written:?}");
}

fn layouts() -> impl Strategy<Value = RankLayout> {
    let sharding = prop_oneof![Just(Sharding::Replicated), Just(Sharding::Optimizer), Just(Sharding::Everything)];
    let sizes = (1usize..4, 1usize..3, 1usize..4, 1usize..3, 1usize..7, 1usize..3);
    (sizes, sharding).prop_map(|((tp, cp, dp, pp, ep, etp), sharding)| {
        let layout = RankLayout { tp, cp, dp, pp, ep, etp, sharding };
        if layout.check().is_ok() { layout } else { RankLayout { ep: 1, etp: 1, ..layout } }
    })
}

fn models() -> impl Strategy<Value = ModelConfig> {
    let kinds = prop::collection::vec(0usize..4, 1..4);
    (kinds, 1usize..10, 1usize..4, 1usize..4, any::<bool>()).prop_map(|(kinds, hidden, groups, width, mtp)| {
        let base = small_model();
        let all = [LayerKind::Mamba, LayerKind::Attention, LayerKind::Moe, LayerKind::Mlp];
        ModelConfig {
            vocab: 2 + hidden,
            hidden,
            layers: kinds.into_iter().map(|k| all[k]).collect(),
            attention: Some(AttentionConfig { heads: 2 * groups, kv_heads: groups, head_dim: width }),
            mamba: Some(MambaConfig {
                heads: 2 * groups,
                head_dim: width,
                state: width,
                groups,
                ..base.mamba().clone()
            }),
            moe: Some(MoeConfig {
                experts: 2 + width,
                expert_width: width,
                shared_width: 2 * width,
                ..base.moe().clone()
            }),
            mlp_width: Some(width),
            mtp: base.mtp.clone().filter(|_| mtp),
            ..base
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_layout_loads_any_other(model in models(), a in layouts(), b in layouts(), seed in 10u64..1_000_000) {
        prop_assume!(model.check().is_ok());
        through(&model, &[a, b], seed);
    }
}

/// The divisor of the widths in the chain below; `cargo xtask test` runs it at 16 as well.
fn chain_scale() -> usize {
    std::env::var("LIGHTNING_FAMILY_SCALE").map_or(256, |scale| scale.parse().expect("a number"))
}

/// Every rank of a layout reads its part of a checkpoint, and writes what it is the writer of.
fn resaved(folder: &Path, model: &ModelConfig, layout: RankLayout, target: &Path, iteration: u64) -> PathBuf {
    let checkpoint = Checkpoint::open(folder, &["model"]).unwrap();
    let distribution = Distribution::new(model, layout).unwrap();
    let mut writers = Vec::new();
    for rank in 0..distribution.world() {
        let mut pieces = Vec::new();
        for held in distribution.held("model", rank).into_iter().filter(|h| h.writes) {
            let name = format!("model/{}", held.name);
            let dtype = if checkpoint.entry(&name).unwrap().dtype == "F32" { Dtype::F32 } else { Dtype::BF16 };
            for region in held.regions {
                let mut bytes = vec![0; region.len() * dtype.bitsize() / 8];
                checkpoint.read(&name, &region.rects(&held.shape), &mut bytes).unwrap();
                pieces.push(HeldPiece { name: name.clone(), dtype, shape: held.shape.clone(), region, bytes });
            }
        }
        writers.push(pieces);
    }
    let snapshot = Snapshot {
        state: TrainState { iteration, ..TrainState::default() },
        run_config: String::new(),
        model_config: config_json::to_text(model),
        writers,
    };
    snapshot.write(target).unwrap()
}

#[test]
fn a_checkpoint_survives_import_the_simulated_layouts_and_export_byte_for_byte() {
    let s = Scratch::new("chain");
    let model = synthetic::family_member(chain_scale());
    let source = s.checkpoint("source", &model, 14, 21);
    import::run(&import_args(&source, &s.text("ours"))).unwrap();
    let mut folder = s.path("ours/iter_0000000");
    let layouts = [
        RankLayout { dp: 8, ep: 8, ..ONE },
        RankLayout { tp: 2, dp: 1, ..ONE },
        RankLayout { dp: 8, sharding: Sharding::Everything, ..ONE },
    ];
    for (i, layout) in layouts.into_iter().enumerate() {
        let next = resaved(&folder, &model, layout, &s.path(&format!("moved{i}")), 1 + i as u64);
        fs::remove_dir_all(folder).unwrap();
        folder = next;
    }
    export::run(&export_args(&folder.display().to_string(), &s.text("out"))).unwrap();
    let open = |path: &Path| Weights::open(path).unwrap();
    let result = compare(&open(Path::new(&source)), &open(&s.path("out"))).unwrap();
    assert!(result.is_same() && result.tensors == 6513, "{}", result.text());
}

#[test]
fn an_index_that_lies_is_refused() {
    let s = Scratch::new("lies");
    let model = small_model();
    let tensors = random_tensors(&model, &mut Random(5));
    let two = Distribution::new(&model, RankLayout { tp: 2, ..ONE }).unwrap();
    let folder = save(&model, &scatter(&tensors, &two), &s.path("save"), 3);
    let text = fs::read_to_string(folder.join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&text).unwrap();
    let attempt = |change: &dyn Fn(&mut serde_json::Value), words: &[&str]| {
        let mut changed = index.clone();
        change(&mut changed["tensors"]["model/lm_head.weight"]);
        fs::write(folder.join("index.json"), changed.to_string()).unwrap();
        let error = match Checkpoint::open(&folder, &[]) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("accepted: {words:?}"),
        };
        for word in words {
            assert!(error.contains(word), "`{word}` is missing in {error}");
        }
    };
    attempt(
        &|t| {
            t["pieces"].as_array_mut().unwrap().pop();
        },
        &["lm_head", "elements"],
    );
    attempt(&|t| t["pieces"][1]["offsets"][0] = 17.into(), &["lm_head", "overlap"]);
    attempt(&|t| t["pieces"][1]["offsets"][0] = 36.into(), &["leaves its shape"]);
    attempt(&|t| t["pieces"][1]["key"] = "model/other".into(), &["does not"]);
    attempt(&|t| t["pieces"][1]["file"] = "../x".into(), &["plain file name"]);
    attempt(&|t| t["dtype"] = "F32".into(), &["the index says F32"]);
    attempt(&|t| t["dtype"] = "F99".into(), &["F99"]);
    fs::write(folder.join("index.json"), &text).unwrap();
    // A flipped bit is found by whoever reads the piece, and only then.
    let shard = folder.join("shard-00001-of-00002.safetensors");
    let mut bytes = fs::read(&shard).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let checkpoint = Checkpoint::open(&folder, &[]).unwrap();
    let damaged = tensors.iter().filter(|(name, (_, shape, bytes))| {
        let mut out = vec![0; bytes.len()];
        checkpoint.read(name, &[Rect::whole(shape)], &mut out).is_err()
    });
    assert_eq!(damaged.count(), 1);
}

#[test]
fn b11_a_newer_layout_is_refused_by_its_version() {
    let s = Scratch::new("b11-version");
    let model = small_model();
    let one = Distribution::new(&model, ONE).unwrap();
    let folder = save(&model, &scatter(&random_tensors(&model, &mut Random(6)), &one), &s.path("save"), 1);
    let text = fs::read_to_string(folder.join("index.json")).unwrap();
    for (from, to) in [("\"version\":1", "\"version\":2"), ("lightning-checkpoint", "other-checkpoint")] {
        assert!(text.contains(from));
        fs::write(folder.join("index.json"), text.replacen(from, to, 1)).unwrap();
        let error = Checkpoint::open(&folder, &[]).err().expect("it was accepted").to_string();
        assert!(error.contains("up to version 1") && error.contains("use a newer program"), "{error}");
    }
}
