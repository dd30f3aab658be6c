//! NumPy's `default_rng`: `SeedSequence` into PCG64 (XSL-RR 128/64).
//!
//! Sources: O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms" (2014) for the
//! generator; the seeding and the bounded draws follow the observable behaviour of NumPy's `Generator`.

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// PCG64 with NumPy's 32-bit word stream (low half of each 64-bit output first).
#[derive(Clone)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    high_half: Option<u32>,
}

/// Spreads an integer over eight 32-bit words, as NumPy's `SeedSequence(seed).generate_state` does.
fn seed_sequence(seed: u64) -> [u32; 8] {
    let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut hash = 0x43b0_d7e5u32;
    let mut hash_mix = |value: u32| {
        let mut v = value ^ hash;
        hash = hash.wrapping_mul(0x931e_8875);
        v = v.wrapping_mul(hash);
        v ^ (v >> 16)
    };
    let mix = |x: u32, y: u32| {
        let r = 0xca01_f9ddu32.wrapping_mul(x).wrapping_sub(0x4973_f715u32.wrapping_mul(y));
        r ^ (r >> 16)
    };
    let mut pool = entropy.map(&mut hash_mix);
    for from in 0..4 {
        for to in 0..4 {
            if from != to {
                let h = hash_mix(pool[from]);
                pool[to] = mix(pool[to], h);
            }
        }
    }
    let mut hash = 0x8b51_f9ddu32;
    std::array::from_fn(|i| {
        let mut v = pool[i % 4] ^ hash;
        hash = hash.wrapping_mul(0x58f3_8ded);
        v = v.wrapping_mul(hash);
        v ^ (v >> 16)
    })
}

impl Pcg64 {
    /// `numpy.random.default_rng(seed)`.
    pub fn from_seed(seed: u64) -> Pcg64 {
        let w = seed_sequence(seed).map(u128::from);
        let quad = |i: usize| w[2 * i] | w[2 * i + 1] << 32;
        let initial = quad(0) << 64 | quad(1);
        let increment = (quad(2) << 64 | quad(3)) << 1 | 1;
        let state = increment.wrapping_add(initial).wrapping_mul(MULTIPLIER).wrapping_add(increment);
        Pcg64 { state, increment, high_half: None }
    }

    /// The next 64-bit output.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// The next 32-bit word: the low, then the high half of each 64-bit output.
    pub fn next_u32(&mut self) -> u32 {
        if let Some(high) = self.high_half.take() {
            return high;
        }
        let word = self.next_u64();
        self.high_half = Some((word >> 32) as u32);
        word as u32
    }

    /// One draw of `integers(low, high, dtype=int32)`: uniform in `low..high` by Lemire's method on 32-bit words.
    ///
    /// # Panics
    /// When `low >= high`.
    pub fn integer(&mut self, low: i32, high: i32) -> i32 {
        assert!(low < high, "an empty range has no integers");
        let range = (i64::from(high) - i64::from(low)) as u64;
        let threshold = (1u64 << 32).wrapping_sub(range) % range;
        loop {
            let product = u64::from(self.next_u32()) * range;
            if (product & 0xffff_ffff) >= threshold {
                return (i64::from(low) + (product >> 32) as i64) as i32;
            }
        }
    }

    /// `permutation(n)`: Fisher-Yates from the end with masked rejection on 32-bit words (64-bit above 2^32).
    pub fn permutation(&mut self, n: usize) -> Vec<u64> {
        let mut values: Vec<u64> = (0..n as u64).collect();
        for i in (1..n).rev() {
            let max = i as u64;
            let mask = u64::MAX >> max.leading_zeros();
            let draw = |rng: &mut Pcg64| {
                if max <= u64::from(u32::MAX) { u64::from(rng.next_u32()) & mask } else { rng.next_u64() & mask }
            };
            let mut j = draw(self);
            while j > max {
                j = draw(self);
            }
            values.swap(i, j as usize);
        }
        values
    }
}
