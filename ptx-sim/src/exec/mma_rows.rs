//! The product of one `mma.sync` from its fragment registers.
//!
//! A lane of a fragment holds `per` neighbouring elements of one row of A or one column of B, four lanes a row. Registers
//! are converted to f32 as they are, element by element of a register; the product then takes the value that a row needs
//! from its lane by a permutation. Sums run over ascending K, one fused multiply-add at a time, in all versions.

use super::tile_math::{Rows, SpreadA};

/// Registers of a fragment as f32: `[register * per + element][lane]`.
pub(crate) type Decoded = [[f32; 32]];

/// Operands of a product of 16 rows, 8 columns and `registers` times `4 * per` values of K.
#[derive(Clone, Copy)]
pub(crate) struct Fragments<'a> {
    /// Two registers (rows 0 to 7, rows 8 to 15) for each register of B.
    pub(crate) a: &'a Decoded,
    pub(crate) b: &'a Decoded,
    /// Elements of a 32-bit register.
    pub(crate) per: usize,
    /// Registers of B.
    pub(crate) registers: usize,
}

/// Buffers of the version without permutations.
#[derive(Default)]
pub(crate) struct MmaScratch {
    a: SpreadA,
    b: Vec<[f32; 8]>,
}

/// Adds a product to accumulator rows, which hold bits of f32.
pub(crate) type MmaRows = fn(Fragments<'_>, Rows<'_>, &mut MmaScratch);

/// The widest version that this CPU can run.
pub(crate) fn select() -> MmaRows {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was just detected.
        return |f, acc, _| unsafe { rows_avx512(f, acc) };
    }
    rows
}

/// Spreads both operands and uses the product of operand tiles.
fn rows(f: Fragments<'_>, acc: Rows<'_>, scratch: &mut MmaScratch) {
    let (per, k) = (f.per, f.registers * 4 * f.per);
    scratch.a.k = k;
    scratch.a.data.resize(2 * k, [0f32; 32]);
    scratch.b.resize(k, [0f32; 8]);
    for i in 0..f.registers {
        for t in 0..4 {
            for e in 0..per {
                let kk = (i * 4 + t) * per + e;
                for h in 0..2 {
                    let (from, to) = (&f.a[(2 * i + h) * per + e], &mut scratch.a.data[h * k + kk]);
                    for (to, from) in to.chunks_exact_mut(4).zip(from.chunks_exact(4)) {
                        to.fill(from[t]);
                    }
                }
                let from = &f.b[i * per + e];
                for n in 0..8 {
                    scratch.b[kk][(n & 1) * 4 + n / 2] = from[4 * n + t];
                }
            }
        }
    }
    super::tile_math::select()(&scratch.a, &scratch.b, acc);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn rows_avx512(f: Fragments<'_>, acc: Rows<'_>) {
    use std::arch::x86_64::*;
    assert!(f.a.len() >= 2 * f.registers * f.per && f.b.len() >= f.registers * f.per);
    // SAFETY: all pointers stay within the rows of 32 floats; the number of rows is checked above.
    unsafe {
        let p: [*mut f32; 4] = acc.map(|r| r.as_mut_ptr().cast::<f32>());
        let mut r: [__m512; 8] = std::array::from_fn(|i| _mm512_loadu_ps(p[i / 2].add(16 * (i & 1))));
        // Lane of B for lane l, at the first value of K: column 2 (l % 4), four lanes a column.
        let even = _mm512_set_epi32(24, 16, 8, 0, 24, 16, 8, 0, 24, 16, 8, 0, 24, 16, 8, 0);
        for i in 0..f.registers {
            for t in 0..4 {
                // Lane t of each row of A; lanes of even and odd columns of B.
                let row = _mm512_set1_epi32(t);
                let b0 = _mm512_add_epi32(even, row);
                let b1 = _mm512_add_epi32(b0, _mm512_set1_epi32(4));
                for e in 0..f.per {
                    let a = |h: usize, half: usize| {
                        let from = f.a.as_ptr().add((2 * i + h) * f.per + e).cast::<f32>();
                        _mm512_permutevar_ps(_mm512_loadu_ps(from.add(16 * half)), row)
                    };
                    let from = f.b.as_ptr().add(i * f.per + e).cast::<f32>();
                    let (low, high) = (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16)));
                    let even = _mm512_permutex2var_ps(low, b0, high);
                    let odd = _mm512_permutex2var_ps(low, b1, high);
                    for h in 0..2 {
                        let (a0, a1) = (a(h, 0), a(h, 1));
                        r[4 * h] = _mm512_fmadd_ps(a0, even, r[4 * h]);
                        r[4 * h + 1] = _mm512_fmadd_ps(a1, even, r[4 * h + 1]);
                        r[4 * h + 2] = _mm512_fmadd_ps(a0, odd, r[4 * h + 2]);
                        r[4 * h + 3] = _mm512_fmadd_ps(a1, odd, r[4 * h + 3]);
                    }
                }
            }
        }
        for (i, x) in r.iter().enumerate() {
            _mm512_storeu_ps(p[i / 2].add(16 * (i & 1)), *x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_agree_with_a_plain_product() {
        let mut state = std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64);
        let seed = state;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 40) as i32 % 1001 - 500) as f32 / 64.0
        };
        for (per, registers) in [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (4, 2)] {
            let k = registers * 4 * per;
            let mut row = || -> [f32; 32] { std::array::from_fn(|_| next()) };
            let a: Vec<[f32; 32]> = (0..2 * registers * per).map(|_| row()).collect();
            let b: Vec<[f32; 32]> = (0..registers * per).map(|_| row()).collect();
            let f = Fragments { a: &a, b: &b, per, registers };
            let place = |kk: usize| (kk / (4 * per), kk / per % 4, kk % per);
            for version in [select(), rows] {
                let mut acc = [[1f32.to_bits(); 32]; 4];
                version(f, acc.each_mut(), &mut MmaScratch::default());
                for (j, got) in acc.iter().enumerate() {
                    for (l, got) in got.iter().enumerate() {
                        let (r, c) = (l / 4, 2 * (l % 4) + (j & 1));
                        let want = (0..k).fold(1f32, |s, kk| {
                            let (i, t, e) = place(kk);
                            a[(2 * i + j / 2) * per + e][4 * r + t].mul_add(b[i * per + e][4 * c + t], s)
                        });
                        assert_eq!(f32::from_bits(*got), want, "seed {seed}, per {per}, register {j}, lane {l}");
                    }
                }
            }
        }
    }
}
