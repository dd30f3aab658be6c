//! Inner products of matrix instructions, in the layout of the accumulator registers.
//!
//! A warp's accumulator of 16 rows and 8 columns is four rows of 32 lanes: register `2 h + e`, lane `l` holds row
//! `l / 4 + 8 h`, column `2 (l % 4) + e`. With A spread over lanes once per instruction and B stored as groups of four
//! columns, the product needs no gathering: `acc[2h+e][l] += a[h][k][l] * b[k][e][l % 4]`.

/// A of one warp: for each half, each k, the value of every lane.
#[derive(Default)]
pub(crate) struct SpreadA {
    pub(crate) k: usize,
    pub(crate) data: Vec<[f32; 32]>,
}

impl SpreadA {
    /// From a row-major matrix of 16 rows.
    #[cfg(test)]
    fn new(k: usize, a: &[f32]) -> SpreadA {
        let mut data = vec![[0f32; 32]; 2 * k];
        for h in 0..2 {
            for kk in 0..k {
                let row = &mut data[h * k + kk];
                for (r, four) in row.chunks_exact_mut(4).enumerate() {
                    four.fill(a[(r + 8 * h) * k + kk]);
                }
            }
        }
        SpreadA { k, data }
    }

    /// With the opposite sign.
    pub(crate) fn negated(&self) -> SpreadA {
        SpreadA { k: self.k, data: self.data.iter().map(|r| r.map(|x| -x)).collect() }
    }
}

/// Accumulator rows of one group of eight columns, as register contents (bits of f32).
pub(crate) type Rows<'a> = [&'a mut [u32; 32]; 4];

/// Multiplies into the accumulators of one group of eight columns. `b` is `[k][2][4]`.
pub(crate) type Mac = fn(&SpreadA, &[[f32; 8]], Rows<'_>);

/// The widest version that this CPU can run.
pub(crate) fn select() -> Mac {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the features were just detected.
            return |a, b, acc| unsafe { mac_avx512(a, b, acc) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the features were just detected.
            return |a, b, acc| unsafe { mac_avx2(a, b, acc) };
        }
    }
    mac
}

fn mac(a: &SpreadA, b: &[[f32; 8]], mut acc: Rows<'_>) {
    for (kk, b) in b.iter().enumerate().take(a.k) {
        for (i, row) in acc.iter_mut().enumerate() {
            let row: &mut [u32; 32] = row;
            let x = &a.data[(i >> 1) * a.k + kk];
            let y = &b[(i & 1) * 4..(i & 1) * 4 + 4];
            for l in 0..32 {
                row[l] = x[l].mul_add(y[l & 3], f32::from_bits(row[l])).to_bits();
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,fma")]
fn mac_avx512(a: &SpreadA, b: &[[f32; 8]], acc: Rows<'_>) {
    use std::arch::x86_64::*;
    assert!(a.data.len() >= 2 * a.k && b.len() >= a.k);
    // SAFETY: all pointers stay within the arrays: rows have 32 floats, `b` has 8 per k; both lengths are checked above.
    unsafe {
        let p: [*mut f32; 4] = acc.map(|r| r.as_mut_ptr().cast::<f32>());
        let mut r: [__m512; 8] = std::array::from_fn(|i| _mm512_loadu_ps(p[i / 2].add(16 * (i & 1))));
        let (lo, hi) = (a.data.as_ptr().cast::<f32>(), a.data.as_ptr().add(a.k).cast::<f32>());
        for (kk, b) in b.iter().enumerate().take(a.k) {
            let b0 = _mm512_broadcast_f32x4(_mm_loadu_ps(b.as_ptr()));
            let b1 = _mm512_broadcast_f32x4(_mm_loadu_ps(b.as_ptr().add(4)));
            let a00 = _mm512_loadu_ps(lo.add(32 * kk));
            let a01 = _mm512_loadu_ps(lo.add(32 * kk + 16));
            let a10 = _mm512_loadu_ps(hi.add(32 * kk));
            let a11 = _mm512_loadu_ps(hi.add(32 * kk + 16));
            r[0] = _mm512_fmadd_ps(a00, b0, r[0]);
            r[1] = _mm512_fmadd_ps(a01, b0, r[1]);
            r[2] = _mm512_fmadd_ps(a00, b1, r[2]);
            r[3] = _mm512_fmadd_ps(a01, b1, r[3]);
            r[4] = _mm512_fmadd_ps(a10, b0, r[4]);
            r[5] = _mm512_fmadd_ps(a11, b0, r[5]);
            r[6] = _mm512_fmadd_ps(a10, b1, r[6]);
            r[7] = _mm512_fmadd_ps(a11, b1, r[7]);
        }
        for (i, x) in r.iter().enumerate() {
            _mm512_storeu_ps(p[i / 2].add(16 * (i & 1)), *x);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn mac_avx2(a: &SpreadA, b: &[[f32; 8]], acc: Rows<'_>) {
    use std::arch::x86_64::*;
    assert!(a.data.len() >= 2 * a.k && b.len() >= a.k);
    // SAFETY: all pointers stay within the arrays: rows have 32 floats, `b` has 8 per k; both lengths are checked above.
    unsafe {
        let p: [*mut f32; 4] = acc.map(|r| r.as_mut_ptr().cast::<f32>());
        for h in 0..2 {
            let at = |i: usize| p[2 * h + i / 4].add(8 * (i & 3));
            let mut r: [__m256; 8] = std::array::from_fn(|i| _mm256_loadu_ps(at(i)));
            let x = a.data.as_ptr().add(h * a.k).cast::<f32>();
            for (kk, b) in b.iter().enumerate().take(a.k) {
                let b0 = _mm256_broadcast_ps(&_mm_loadu_ps(b.as_ptr()));
                let b1 = _mm256_broadcast_ps(&_mm_loadu_ps(b.as_ptr().add(4)));
                for i in 0..4 {
                    let a = _mm256_loadu_ps(x.add(32 * kk + 8 * i));
                    r[i] = _mm256_fmadd_ps(a, b0, r[i]);
                    r[4 + i] = _mm256_fmadd_ps(a, b1, r[4 + i]);
                }
            }
            for (i, v) in r.iter().enumerate() {
                _mm256_storeu_ps(at(i), *v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_agree_with_a_plain_product() {
        let k = 16;
        let a: Vec<f32> = (0..16 * k).map(|i| ((i * 37 % 101) as f32 - 50.0) / 8.0).collect();
        let b: Vec<f32> = (0..k * 8).map(|i| ((i * 53 % 97) as f32 - 48.0) / 4.0).collect();
        let spread = SpreadA::new(k, &a).negated();
        let grouped: Vec<[f32; 8]> =
            (0..k).map(|kk| std::array::from_fn(|i| b[kk * 8 + 2 * (i % 4) + i / 4])).collect();
        for f in [select(), mac] {
            let mut acc = [[1f32.to_bits(); 32]; 4];
            f(&spread, &grouped, acc.each_mut());
            for (i, row) in acc.iter().enumerate() {
                for (l, x) in row.iter().enumerate() {
                    let x = f32::from_bits(*x);
                    let (r, c) = (l / 4 + 8 * (i >> 1), 2 * (l % 4) + (i & 1));
                    let want: f32 = 1.0 - (0..k).map(|kk| a[r * k + kk] * b[kk * 8 + c]).sum::<f32>();
                    assert!((x - want).abs() <= 1e-3 * want.abs().max(1.0), "{x} {want}");
                }
            }
        }
    }
}
