//! Boxes, swizzles and matrix descriptors against element-by-element formulas.

use ptx_sim::tensormap::{DataType, L2Promotion, Major, MatrixDescriptor, OobFill, Swizzle, TensorMap};
use std::collections::HashMap;

struct Rng(u64);

impl Rng {
    fn range(&mut self, lo: u64, hi: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        lo + (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20) % (hi - lo + 1)
    }
}

/// The swizzle as a table: chunk `c` of 128-byte row `r` goes to chunk `TABLE[r][c]`.
fn chunk_table(span: u32, row: u64, chunk: u64) -> u64 {
    match span {
        16 => chunk,
        // Two chunks swapped in odd rows.
        32 => [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6]][(row % 2) as usize][chunk as usize],
        64 => [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [3, 2, 1, 0, 7, 6, 5, 4]]
            [(row % 4) as usize][chunk as usize],
        _ => [
            [0, 1, 2, 3, 4, 5, 6, 7],
            [1, 0, 3, 2, 5, 4, 7, 6],
            [2, 3, 0, 1, 6, 7, 4, 5],
            [3, 2, 1, 0, 7, 6, 5, 4],
            [4, 5, 6, 7, 0, 1, 2, 3],
            [5, 4, 7, 6, 1, 0, 3, 2],
            [6, 7, 4, 5, 2, 3, 0, 1],
            [7, 6, 5, 4, 3, 2, 1, 0],
        ][(row % 8) as usize][chunk as usize],
    }
}

fn by_table(s: Swizzle, address: u64) -> u64 {
    let (row, chunk, byte) = (address / 128, address % 128 / 16, address % 16);
    row * 128 + chunk_table(s.span(), row, chunk) * 16 + byte
}

#[test]
fn swizzles_agree_with_their_tables() {
    for s in Swizzle::ALL {
        for address in 0..4096 {
            assert_eq!(s.apply(address), by_table(s, address), "{s:?} {address}");
            assert_eq!(s.apply(s.apply(address)), address);
        }
        assert_eq!(s.apply(s.period() as u64 * 3), s.period() as u64 * 3);
    }
}

fn random_map(rng: &mut Rng, data_type: DataType, rank: u32, swizzle: Swizzle) -> TensorMap {
    let size = data_type.bytes();
    let inner_max = if swizzle == Swizzle::None { 96 } else { swizzle.span() };
    let inner = 16 * rng.range(1, (inner_max / 16) as u64) as u32 / size;
    let mut map = TensorMap {
        address: 0xa000_0000 + 16 * rng.range(0, 100),
        data_type,
        rank,
        dims: [1; 5],
        strides: [0; 4],
        box_dims: [1; 5],
        element_strides: [1; 5],
        swizzle,
        l2_promotion: L2Promotion::None,
        oob_fill: OobFill::Zero,
    };
    map.box_dims[0] = inner;
    map.dims[0] = rng.range(1, 2 * inner as u64);
    let mut stride = (map.dims[0] * size as u64).div_ceil(16) * 16 + 16 * rng.range(0, 3);
    for d in 1..rank as usize {
        map.dims[d] = rng.range(1, 7);
        map.box_dims[d] = rng.range(1, 6) as u32;
        map.element_strides[d] = if rng.range(0, 2) == 0 { rng.range(1, 4) as u32 } else { 1 };
        map.strides[d - 1] = stride;
        stride = stride * map.dims[d] + 16 * rng.range(0, 2);
    }
    map
}

/// Shared byte to (element index bytes) by walking every element with its own coordinates.
fn reference(map: &TensorMap, coords: &[i32], shared: u64) -> HashMap<u64, Option<u64>> {
    let size = map.data_type.bytes() as u64;
    let rank = map.rank as usize;
    let n: Vec<u64> = (0..rank)
        .map(|d| if d == 0 { map.box_dims[0] as u64 } else { map.box_dims[d].div_ceil(map.element_strides[d]) as u64 })
        .collect();
    let pitch = if map.swizzle == Swizzle::None { n[0] * size } else { map.swizzle.span() as u64 };
    let mut out = HashMap::new();
    for linear in 0..n.iter().product::<u64>() {
        let (mut rest, mut inside, mut global, mut row, mut scale) = (linear, true, map.address as i64, 0, 1);
        for d in 0..rank {
            let i = rest % n[d];
            rest /= n[d];
            let step = if d == 0 { 1 } else { map.element_strides[d] as i64 };
            let x = coords[d] as i64 + i as i64 * step;
            inside &= (0..map.dims[d] as i64).contains(&x);
            global += x * if d == 0 { size as i64 } else { map.strides[d - 1] as i64 };
            if d > 0 {
                row += i * scale;
                scale *= n[d];
            }
        }
        for b in 0..size {
            let at = shared + row * pitch + linear % n[0] * size + b;
            out.insert(by_table(map.swizzle, at), inside.then_some(global as u64 + b));
        }
    }
    out
}

#[test]
fn boxes_of_every_rank_type_and_swizzle() {
    let mut rng = Rng(0x7e5);
    for rank in 1..=5 {
        for data_type in DataType::ALL {
            for swizzle in Swizzle::ALL {
                for _ in 0..6 {
                    let map = random_map(&mut rng, data_type, rank, swizzle);
                    map.validate().unwrap();
                    let coords: Vec<i32> = (0..rank as usize)
                        .map(|d| rng.range(0, 3 * map.box_dims[d] as u64) as i32 - 2 * map.box_dims[d] as i32 / 2)
                        .collect();
                    let shared = 128 * rng.range(0, 20);
                    let want = reference(&map, &coords, shared);
                    let mut got = HashMap::new();
                    map.for_each_run(&coords, shared, |r| {
                        for b in 0..r.bytes as u64 {
                            let old = got.insert(r.shared + b, r.global.map(|g| g + b));
                            assert!(old.is_none(), "a shared byte was written twice");
                        }
                    });
                    assert_eq!(got, want, "{map:?} {coords:?}");
                    assert_eq!(got.len() as u32, map.transaction_bytes());
                    assert!(got.keys().all(|&a| a >= shared
                        && a < shared / 1024 * 1024 + (shared % 1024 + map.shared_bytes() as u64).div_ceil(128) * 128));
                }
            }
        }
    }
}

#[test]
fn boxes_far_outside_touch_nothing() {
    let mut rng = Rng(1);
    let map = random_map(&mut rng, DataType::Bf16, 3, Swizzle::B64);
    for far in [i32::MIN, -100_000, 100_000, i32::MAX] {
        for d in 0..3 {
            let mut coords = [0; 3];
            coords[d] = far;
            map.for_each_run(&coords, 0, |r| assert_eq!(r.global, None));
            map.for_each_row(&coords, 0, |r| assert_eq!(r.valid, 0));
        }
    }
}

/// Element address by the description of the layouts in terms of core matrices of 8 x 16 bytes.
fn operand(d: &MatrixDescriptor, major: Major, bytes: u32, mn: u32, k: u32) -> u64 {
    let per = 16 / bytes;
    let w = d.swizzle.span();
    let plain = d.swizzle == Swizzle::None;
    let linear = match major {
        Major::K => {
            let (core_row, row, core_col, col) = (mn / 8, mn % 8, k / per, k % per);
            if plain {
                core_row * d.stride + core_col * d.leading + row * 16 + col * bytes
            } else {
                core_row * d.stride + row * w + core_col * 16 + col * bytes
            }
        }
        Major::Mn => {
            let (core_k, row) = (k / 8, k % 8);
            if plain {
                (mn / per) * d.stride + core_k * d.leading + row * 16 + mn % per * bytes
            } else {
                let per_span = w / bytes;
                (mn / per_span) * d.leading + core_k * d.stride + row * w + mn % per_span * bytes
            }
        }
    };
    let a = (d.start + linear) as u64;
    // Displace the pattern by whole rows, look the chunk up, displace back.
    let shift = d.base_offset as u64 * 128;
    by_table(d.swizzle, a + 8192 - shift) + shift - 8192
}

#[test]
fn descriptors_of_every_mode_and_major() {
    let mut rng = Rng(0xde5c);
    for swizzle in Swizzle::ALL {
        for major in [Major::K, Major::Mn] {
            for bytes in [1, 2, 4] {
                for _ in 0..20 {
                    let d = MatrixDescriptor {
                        start: 16 * rng.range(0, 2000) as u32,
                        leading: 16 * rng.range(0, 500) as u32,
                        stride: 16 * rng.range(0, 500) as u32,
                        base_offset: if swizzle == Swizzle::None { 0 } else { rng.range(0, 7) as u32 },
                        swizzle,
                    };
                    assert_eq!(MatrixDescriptor::decode(d.encode()), Ok(d));
                    for mn in (0..256).step_by(3) {
                        for k in 0..32 / bytes {
                            assert_eq!(
                                d.element(major, bytes, mn, k) as u64,
                                operand(&d, major, bytes, mn, k),
                                "{d:?} {major:?} {bytes} {mn} {k}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_a_tensor_copy_writes_a_k_major_descriptor_reads() {
    // A box of 64 rows of one span: row r, byte b of the tensor must be at the operand's (r, b).
    for swizzle in [Swizzle::B32, Swizzle::B64, Swizzle::B128] {
        let map = TensorMap {
            address: 0,
            data_type: DataType::Bf16,
            rank: 2,
            dims: [1024, 64, 1, 1, 1],
            strides: [2048, 0, 0, 0],
            box_dims: [swizzle.span() / 2, 64, 1, 1, 1],
            element_strides: [1; 5],
            swizzle,
            l2_promotion: L2Promotion::B128,
            oob_fill: OobFill::Zero,
        };
        let base = 3 * swizzle.period() as u64;
        let mut at = HashMap::new();
        map.for_each_run(&[0, 0], base, |r| {
            for b in 0..r.bytes as u64 {
                at.insert(r.global.unwrap() + b, r.shared + b);
            }
        });
        let steps = swizzle.span() / 32;
        for step in 0..steps {
            let d = MatrixDescriptor {
                start: base as u32 + step * 32,
                leading: 16,
                stride: 8 * swizzle.span(),
                base_offset: 0,
                swizzle,
            };
            for mn in 0..64 {
                for k in 0..16 {
                    let global = mn as u64 * 2048 + (step * 16 + k) as u64 * 2;
                    assert_eq!(
                        at[&global],
                        d.element(Major::K, 2, mn, k) as u64,
                        "{swizzle:?} step {step} ({mn}, {k})"
                    );
                }
            }
        }
    }
}

#[test]
fn malformed_descriptors_are_refused() {
    for bit in 0..64 {
        let in_field = matches!(bit, 0..14 | 16..30 | 32..46 | 62..64);
        assert_eq!(MatrixDescriptor::decode(1 << bit).is_ok(), in_field, "bit {bit}");
    }
    assert!(MatrixDescriptor::decode(1 << 49 | 1 << 62).is_ok());
    assert!(MatrixDescriptor::decode(1 << 47).unwrap_err().to_string().contains("0x3ffff"));
}
