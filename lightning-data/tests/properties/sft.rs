use lightning_data::batch::{Batch, BatchSource};
use lightning_data::context_parallel::{MtpTargets, ZigzagMap};
use lightning_data::sampler::FineTuningSampler;
use lightning_data::sft::{
    Algorithm, Bins, CollateSettings, Collator, MemoryPacks, OfflinePacks, Pack, PackMetadata, PackedBatches,
    first_fit, pack_examples, pad_to_multiple, plan_offline, plan_prepared,
};
use lightning_data::{DataError, PhysicalOffsets};
use proptest::prelude::*;

use super::error;

const EOS: i32 = 2;

fn settings(pack_size: u32, multiple: u32) -> CollateSettings {
    CollateSettings { pack_size, pad_seq_to_mult: multiple, eos: EOS, pad_to_max_length: true, pad_cu_seqlens: None }
}

/// A pack of examples of these runtime lengths, tokens counting up from 10, everything trained.
fn pack_of(runtime: &[usize]) -> Pack {
    let mut pack = Pack::default();
    let mut next = 10;
    for &n in runtime {
        pack.seq_start_id.push(pack.input_ids.len() as u32);
        pack.input_ids.extend(next..next + n as i32 + 1);
        pack.loss_mask.extend(std::iter::repeat_n(1, n));
        pack.loss_mask.push(0);
        next += n as i32 + 1;
    }
    pack
}

fn one(collator: &Collator, pack: &Pack, length: usize) -> Batch {
    let mut batch = Batch::default();
    collator.fill(&[(pack, false)], length, &mut batch).unwrap();
    batch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn first_fit_equals_the_obvious_loop(lengths in prop::collection::vec(0u32..40, 0..300), capacity in 1u32..40) {
        let mut left: Vec<u32> = Vec::new();
        let slow: Vec<u32> = lengths
            .iter()
            .map(|&n| {
                let n = n.min(capacity);
                let bin = left.iter().position(|&l| l >= n).unwrap_or_else(|| {
                    left.push(capacity);
                    left.len() - 1
                });
                left[bin] -= n;
                bin as u32
            })
            .collect();
        prop_assert_eq!(first_fit(lengths.iter().copied(), capacity), (slow, left.len()));
    }

    // Nothing lost, nothing twice, nothing over-full; the fuller packers are at least as full as one example per pack.
    #[test]
    fn packing_is_a_partition(
        lengths in prop::collection::vec(0u32..90, 0..200), pack_size in 1u32..80, seed in any::<u64>(), which in 0usize..3,
    ) {
        let algorithm = [Algorithm::FirstFitShuffle, Algorithm::FirstFitDecreasing, Algorithm::Concatenative][which];
        let (bins, statistics) = plan_prepared(&lengths, pack_size, algorithm, seed).unwrap();
        partition(&bins, lengths.len());
        for bin in bins.iter() {
            prop_assert!(!bin.is_empty());
            let sum: u32 = bin.iter().map(|&i| lengths[i as usize].min(pack_size)).sum();
            prop_assert!(sum <= pack_size);
        }
        prop_assert!(statistics.packs <= lengths.len() as u64);
    }

    #[test]
    fn offline_packing_is_a_partition_of_rows_that_fit(
        stored in prop::collection::vec(2u32..70, 1..150), pack_size in 8u32..64, multiple in 1usize..6, decreasing in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let padded: Vec<u32> =
            stored.iter().map(|&n| pad_to_multiple(n as usize, pack_size as usize, multiple) as u32).collect();
        if multiple > 1 {
            prop_assert!(padded.iter().all(|n| (n - 1).is_multiple_of(multiple as u32) && n - 1 <= pack_size));
        }
        let algorithm = if decreasing { Algorithm::FirstFitDecreasing } else { Algorithm::FirstFitShuffle };
        let fits: Vec<u32> = (0..padded.len() as u32).filter(|&i| padded[i as usize] - 1 <= pack_size).collect();
        let plan = plan_offline(&padded, pack_size, algorithm, seed);
        if fits.is_empty() {
            prop_assert!(plan.is_err());
            return Ok(());
        }
        let plan = plan.unwrap();
        prop_assert_eq!(plan.skipped as usize, padded.len() - fits.len());
        let mut rows = plan.packs.items.clone();
        rows.sort_unstable();
        prop_assert_eq!(rows, fits);
        for bin in plan.packs.iter() {
            prop_assert!(bin.iter().map(|&r| padded[r as usize] - 1).sum::<u32>() <= pack_size);
        }
    }

    // Every position of every row, by a slow oracle: token, label, mask, offsets.
    #[test]
    fn packed_rows_align_labels_and_masks(
        examples in prop::collection::vec(prop::collection::vec((3i32..50, 0u8..2), 1..12), 1..8), slack in 0usize..20,
    ) {
        let ids: Vec<Vec<i32>> = examples.iter().map(|e| e.iter().map(|t| t.0).collect()).collect();
        let masks: Vec<Vec<u8>> = examples.iter().map(|e| e.iter().map(|t| t.1).collect()).collect();
        let bins = Bins { items: (0..examples.len() as u32).collect(), starts: vec![0, examples.len()] };
        let packs = pack_examples(&bins, usize::MAX, |i| (&ids[i as usize], &masks[i as usize]));
        packs[0].check(std::path::Path::new("memory"), 0).unwrap();
        let length = packs[0].runtime_length() + slack;
        let collator = Collator::new(settings(length.max(1) as u32, 1)).unwrap();
        let batch = one(&collator, &packs[0], length);
        let mut at = 0;
        for (e, example) in examples.iter().enumerate() {
            let document = batch.documents.physical.0[e] as usize..batch.documents.physical.0[e + 1] as usize;
            prop_assert_eq!(document, at..at + example.len() - 1);
            for j in 0..example.len() - 1 {
                prop_assert_eq!(batch.tokens[at], example[j].0);
                prop_assert_eq!(batch.labels[at], example[j + 1].0);
                // Pitfall B30: the mask belongs to the label, one position before the trained token.
                prop_assert_eq!(batch.loss_mask[at], f32::from(example[j + 1].1));
                prop_assert!(!batch.padding_mask[at]);
                at += 1;
            }
        }
        for i in at..length {
            prop_assert_eq!((batch.tokens[i], batch.labels[i], batch.loss_mask[i], batch.padding_mask[i]), (EOS, EOS, 0.0, true));
        }
        prop_assert_eq!(*batch.documents.physical.0.last().unwrap() as usize, length);
    }

    // Any rank's slice of any layout, put together again, is the batch; MTP targets survive the slicing.
    #[test]
    fn b27_b36_zigzag_slices_cover_and_mtp_is_shifted_before(
        chunks in prop::collection::vec(0usize..5, 1..6), cp in 1usize..5, depth in 1usize..4,
    ) {
        let lengths: Vec<usize> = chunks.iter().map(|c| c * 2 * cp).collect();
        let total: usize = lengths.iter().sum();
        let mut batch = Batch::default();
        batch.reset(1, total, false, false);
        for (i, t) in batch.tokens.iter_mut().enumerate() {
            *t = i as i32;
        }
        batch.labels = batch.tokens.iter().map(|t| t + 1).collect();
        batch.loss_mask.fill(1.0);
        let mut end = 0;
        for n in &lengths {
            end += *n as i32;
            batch.documents.physical.0.push(end);
        }
        let mut seen = vec![0; total];
        let targets = MtpTargets::new(&batch, depth);
        for rank in 0..cp {
            let map = ZigzagMap::new(&batch.documents.physical, cp, rank).unwrap();
            prop_assert_eq!(map.global().len(), total / cp);
            prop_assert_eq!(map.local_offsets().0.len(), lengths.len() + 1);
            let (labels, mask) = (map.slice(&targets.labels), map.slice(&targets.loss_mask));
            for (i, &g) in map.global().iter().enumerate() {
                seen[g as usize] += 1;
                let document = batch.documents.physical.ranges().find(|r| r.contains(&(g as usize))).unwrap();
                let inside = g as usize + depth < document.end;
                let want = if inside { (g as i32 + depth as i32 + 1, 1.0) } else { (0, 0.0) };
                prop_assert_eq!((labels[i], mask[i]), want);
            }
        }
        prop_assert!(seen.iter().all(|&n| n == 1));
        prop_assert_eq!(batch.mtp_tokens(depth), targets.loss_mask.iter().filter(|&&m| m == 1.0).count() as u64);
    }

    // Pitfalls B74 and B75 for fine-tuning: over two epochs and more, resuming anywhere changes nothing, and no epoch
    // skips its head.
    #[test]
    fn b74_b75_fine_tuning_resume_is_exact(
        total in 1u64..60, per_rank in 1u64..4, dp in 1u64..4, seed in any::<u64>(), drop_last in any::<bool>(), max in prop::option::of(1u64..150),
    ) {
        let gbs = per_rank * dp;
        let build = || {
            let s = FineTuningSampler::new("train", total, gbs, dp, seed, drop_last)?;
            Ok::<_, DataError>(match max { Some(max) => s.with_max_samples(max), None => s })
        };
        let Ok(sampler) = build() else { return Ok(()) };
        let epoch = sampler.epoch_samples();
        if epoch == 0 {
            prop_assert!(sampler.step(0, 0).is_err());
            return Ok(());
        }
        let straight: Vec<_> = (0..3 * epoch).step_by(gbs as usize).map(|c| sampler.step(c, dp - 1).unwrap()).collect();
        for (i, step) in straight.iter().enumerate().rev() {
            let fresh = build().unwrap();
            prop_assert_eq!(&fresh.step(i as u64 * gbs, dp - 1).unwrap(), step);
        }
        prop_assert!(gbs == 1 || sampler.step(1, 0).is_err());
    }
}

fn partition(bins: &Bins, n: usize) {
    let mut all = bins.items.clone();
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..n as u32));
}

// Pitfall B26: lengths 3 and 5 padded to 4 and 8. Shifts go by physical offsets; the last real token has no target beyond.
#[test]
fn b26_mtp_targets_use_physical_offsets() {
    let mut first = vec![10, 11, 12, 13];
    let mut second = vec![20, 21, 22, 23, 24, 25];
    first.resize(pad_to_multiple(4, 16, 4), EOS);
    second.resize(pad_to_multiple(6, 16, 4), EOS);
    let ids = [first, second];
    let masks: Vec<Vec<u8>> = ids.iter().map(|v| v.iter().map(|&t| u8::from(t != EOS)).collect()).collect();
    let bins = Bins { items: vec![0, 1], starts: vec![0, 2] };
    let pack = &pack_examples(&bins, usize::MAX, |i| (&ids[i as usize], &masks[i as usize]))[0];
    let batch = one(&Collator::new(settings(16, 4)).unwrap(), pack, 16);
    assert_eq!(batch.documents.physical.0, [0, 4, 12, 16]);
    assert_eq!(batch.documents.logical.0, [0, 4, 10, 10]);
    let targets = MtpTargets::new(&batch, 1);
    // Stored 4 tokens padded to 5: runtime 4, labels 11, 12, 13, EOS.
    assert_eq!(targets.labels[..4], [12, 13, EOS, 0]);
    assert_eq!(targets.loss_mask[..4], [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(targets.labels[4..9], [22, 23, 24, 25, EOS]);
    assert_eq!(targets.loss_mask[4..12], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

// Pitfalls B28 and B29 on the data's side: one mask for both losses; a mask of zeros counts nothing at any depth.
#[test]
fn b28_b29_a_mask_of_zeros_trains_nothing_at_any_depth() {
    let collator = Collator::new(settings(32, 1)).unwrap();
    let pack = pack_of(&[5, 7]);
    let mut batch = Batch::default();
    collator.fill(&[(&pack, true)], 32, &mut batch).unwrap();
    for depth in 1..4 {
        assert_eq!(batch.mtp_tokens(depth), 0);
        assert!(MtpTargets::new(&batch, depth).loss_mask.iter().all(|&m| m == 0.0));
    }
    assert_eq!((batch.accounting.trained_tokens, batch.accounting.filler_rows), (0, 1));
}

// Pitfall B30: prompt of 3, answer of 2: label position 2 counts; a one-token prompt masks nothing.
#[test]
fn b30_first_answer_token_is_trained() {
    let bins = Bins { items: vec![0, 1], starts: vec![0, 1, 2] };
    let (ids, masks) = ([vec![5, 6, 7, 8, 9], vec![5, 8, 9]], [vec![0, 0, 0, 1, 1], vec![0, 1, 1]]);
    let packs = pack_examples(&bins, usize::MAX, |i| (&ids[i as usize], &masks[i as usize]));
    let collator = Collator::new(settings(8, 1)).unwrap();
    assert_eq!(one(&collator, &packs[0], 8).loss_mask[..4], [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(one(&collator, &packs[1], 8).loss_mask[..2], [1.0, 1.0]);
}

// Pitfall B34: a pack of the most examples needs examples + 2 offsets (start, ends, tail); others get ghosts of length 0.
#[test]
fn b34_offsets_have_a_fixed_number_of_entries() {
    let metadata = PackMetadata {
        dataset_max_seqlen: 5,
        max_samples_per_bin: 3,
        packing_factor: 0.0,
        packing_efficiency: 0.0,
        pack_size: 16,
        min_packed_seqlen: 4,
    };
    let collator = Collator::new(CollateSettings { pad_cu_seqlens: Some(metadata), ..settings(16, 1) }).unwrap();
    let offsets = |runtime: &[usize]| one(&collator, &pack_of(runtime), 16).documents;
    assert_eq!(offsets(&[5, 4, 3]).physical.0, [0, 5, 9, 12, 16]);
    assert_eq!(offsets(&[5]).physical.0, [0, 5, 16, 16, 16]);
    assert_eq!(offsets(&[5, 5, 5]).max_length, 12, "the largest of any length and any tail");
    let mut batch = Batch::default();
    let e = error(collator.fill(&[(&pack_of(&[1, 1, 1, 1]), false)], 16, &mut batch), "a fourth example");
    assert!(e.to_string().contains("max_samples_per_bin"), "{e}");
    assert!(collator.fill(&[(&pack_of(&[17]), false)], 16, &mut batch).is_err(), "longer than the row");
    let dynamic = CollateSettings { pad_to_max_length: false, pad_cu_seqlens: Some(metadata), ..settings(16, 1) };
    assert!(Collator::new(dynamic).is_err());
}

// Pitfall B36: two documents of 4, two ranks: rank 0 owns [0, 3] of each.
#[test]
fn b36_zigzag_goes_by_document() {
    let offsets = PhysicalOffsets(vec![0, 4, 8]);
    assert_eq!(ZigzagMap::new(&offsets, 2, 0).unwrap().global(), [0, 3, 4, 7]);
    assert_eq!(ZigzagMap::new(&offsets, 2, 1).unwrap().global(), [1, 2, 5, 6]);
    let e = error(ZigzagMap::new(&PhysicalOffsets(vec![0, 4, 10]), 2, 0), "a length of 6").to_string();
    assert!(e.contains("pad_seq_to_mult") && e.contains("document 1"), "{e}");
    assert!(ZigzagMap::new(&offsets, 2, 2).is_err());
    let whole = PhysicalOffsets(vec![0, 8192]);
    let map = ZigzagMap::new(&whole, 2, 0).unwrap();
    assert!(map.global().iter().copied().eq((0..2048).chain(6144..8192)));
}

// Pitfall B32 for packs: a filler step shows a real pack and trains nothing; all ranks of a step agree on the row length.
#[test]
fn b32_b25_packed_batches_carry_offsets_and_fillers() {
    let packs: Vec<Pack> = [&[5usize, 9][..], &[30], &[2, 2, 2], &[17], &[1]].iter().map(|r| pack_of(r)).collect();
    let store = MemoryPacks::offline(OfflinePacks(packs.clone()), "memory");
    let sampler = FineTuningSampler::new("valid", 5, 4, 2, 7, false).unwrap();
    let collator = Collator::new(CollateSettings { pad_to_max_length: false, ..settings(64, 1) }).unwrap();
    let source = PackedBatches::new(store, sampler, collator).unwrap();
    let mut fillers = 0;
    for step in 0..2 {
        for rank in 0..2 {
            let rows: Vec<Batch> = (0..2).map(|m| source.batch(step * 4, m, rank).unwrap()).collect();
            assert_eq!(rows[0].seq_length, rows[1].seq_length);
            assert!(rows[0].seq_length.is_multiple_of(16) && rows[0].seq_length <= 64);
            for batch in &rows {
                assert_eq!(batch.documents.physical.0[0], 0);
                assert_eq!(*batch.documents.physical.0.last().unwrap() as usize, batch.seq_length);
                if batch.accounting.filler_rows == 1 {
                    fillers += 1;
                    assert_eq!(batch.accounting.trained_tokens, 0);
                    assert_eq!(batch.tokens[0], packs[4].input_ids[0]);
                }
            }
        }
    }
    assert_eq!(fillers, 3);
    assert!(source.batch(0, 2, 0).is_err());
    let store = MemoryPacks::offline(OfflinePacks(packs), "memory");
    let other = FineTuningSampler::new("valid", 4, 4, 2, 7, false).unwrap();
    assert!(PackedBatches::new(store, other, Collator::new(settings(64, 1)).unwrap()).is_err());
}

#[test]
fn bad_packs_name_their_row_and_rule() {
    let good = pack_of(&[3, 4]);
    type Damage = fn(&mut Pack);
    let cases: [(&str, Damage); 5] = [
        ("mask entry for each token", |p| p.loss_mask.truncate(3)),
        ("starts at 0", |p| p.seq_start_id[0] = 1),
        ("at least one token", |p| p.seq_start_id.push(9)),
        ("0 or 1", |p| p.loss_mask[1] = 7),
        ("not negative", |p| p.input_ids[2] = -5),
    ];
    good.check(std::path::Path::new("x.parquet"), 3).unwrap();
    for (rule, damage) in cases {
        let mut pack = good.clone();
        damage(&mut pack);
        let e = error(pack.check(std::path::Path::new("x.parquet"), 3), rule).to_string();
        assert!(e.contains(rule) && e.contains("x.parquet") && e.contains("entry 3"), "{e}");
    }
    let e = error(plan_offline(&[5, 1, 3], 8, Algorithm::FirstFitShuffle, 1), "a row of one token").to_string();
    assert!(e.contains("row 1"), "{e}");
    assert!(plan_offline(&[5], 8, Algorithm::Concatenative, 1).is_err());
    assert!(plan_offline(&[90], 8, Algorithm::FirstFitShuffle, 1).is_err());
    assert!(plan_prepared(&[5], 0, Algorithm::FirstFitShuffle, 1).is_err());
    assert!(Algorithm::from_name("best_fit").is_err());
}
