//! Seeded random inputs for tests.

use lightning_core::rng::Philox;

/// Rounded to a number that every storage type holds exactly.
fn exact(value: f64) -> f64 {
    half::bf16::from_f64(value).to_f64()
}

/// A stream of random inputs; vectors of normal and uniform numbers are exact in every storage type.
pub struct Random(Philox);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Philox::new(seed, 0x7e57))
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// Uniform in `low ..= high`.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.0.below((high - low + 1) as u64) as usize
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.range(0, from.len() - 1)]
    }

    /// A standard normal number.
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    pub fn normals(&mut self, n: usize, std: f64) -> Vec<f64> {
        (0..n).map(|_| exact(std * self.normal())).collect()
    }

    pub fn uniforms(&mut self, n: usize, low: f64, high: f64) -> Vec<f64> {
        (0..n).map(|_| exact(low + (high - low) * self.uniform())).collect()
    }

    pub fn ints(&mut self, n: usize, below: usize) -> Vec<i32> {
        (0..n).map(|_| self.range(0, below - 1) as i32).collect()
    }

    /// `n` ones and zeros, ones with probability `p`.
    pub fn mask(&mut self, n: usize, p: f64) -> Vec<i32> {
        (0..n).map(|_| i32::from(self.chance(p))).collect()
    }

    /// Ascending document offsets within `tokens`, some of them repeated (empty documents) or at the very ends.
    pub fn offsets(&mut self, tokens: usize, count: usize) -> Vec<i32> {
        let mut offsets: Vec<i32> = (0..count).map(|_| self.range(0, tokens) as i32).collect();
        if count > 2 {
            offsets[1] = offsets[0];
            offsets[2] = 0;
        }
        offsets.push(0);
        offsets.sort_unstable();
        offsets
    }

    /// `k` different numbers below `n`.
    pub fn distinct(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        for i in 0..k {
            let j = self.range(i, n - 1);
            all.swap(i, j);
        }
        all.truncate(k);
        all
    }
}
