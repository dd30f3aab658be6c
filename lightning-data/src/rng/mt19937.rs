//! MT19937 and the three ways in which NumPy, Python and torch turn its words into permutations.
//!
//! Sources: Matsumoto and Nishimura, "Mersenne Twister" (1998) for the generator and both seedings; the permutations
//! follow the observable behaviour of `numpy.random.RandomState`, `random.Random` and `torch.randperm` on a CPU.

const N: usize = 624;
const M: usize = 397;

/// The 32-bit Mersenne Twister.
#[derive(Clone)]
pub struct Mt19937 {
    state: [u32; N],
    next: usize,
}

impl Mt19937 {
    /// Seeds from one word, as `numpy.random.RandomState(seed)` and torch do.
    pub fn from_seed(seed: u32) -> Mt19937 {
        let mut state = [0u32; N];
        state[0] = seed;
        for i in 1..N {
            let previous = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(i as u32);
        }
        Mt19937 { state, next: N }
    }

    /// Seeds from an array of words, as Python's `random.Random` does. An empty key counts as one zero word.
    pub fn from_key(key: &[u32]) -> Mt19937 {
        let key = if key.is_empty() { &[0u32][..] } else { key };
        let mut s = Mt19937::from_seed(19_650_218).state;
        let (mut i, mut j) = (1, 0);
        for _ in 0..N.max(key.len()) {
            let previous = s[i - 1];
            s[i] = (s[i] ^ (previous ^ (previous >> 30)).wrapping_mul(1_664_525))
                .wrapping_add(key[j])
                .wrapping_add(j as u32);
            i += 1;
            j += 1;
            if i == N {
                s[0] = s[N - 1];
                i = 1;
            }
            if j == key.len() {
                j = 0;
            }
        }
        for _ in 0..N - 1 {
            let previous = s[i - 1];
            s[i] = (s[i] ^ (previous ^ (previous >> 30)).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i == N {
                s[0] = s[N - 1];
                i = 1;
            }
        }
        s[0] = 0x8000_0000;
        Mt19937 { state: s, next: N }
    }

    fn refill(&mut self) {
        let s = &mut self.state;
        let twist = |high: u32, low: u32, far: u32| {
            let y = (high & 0x8000_0000) | (low & 0x7fff_ffff);
            far ^ (y >> 1) ^ (0u32.wrapping_sub(y & 1) & 0x9908_b0df)
        };
        for k in 0..N - M {
            s[k] = twist(s[k], s[k + 1], s[k + M]);
        }
        for k in N - M..N - 1 {
            s[k] = twist(s[k], s[k + 1], s[k + M - N]);
        }
        s[N - 1] = twist(s[N - 1], s[0], s[M - 1]);
        self.next = 0;
    }

    /// The next 32-bit word.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A number in `0..=max` by masked rejection, as NumPy's legacy generator draws it: one word per try up to
    /// `max = 2^32 - 1`, two words (high first) beyond.
    #[inline]
    pub fn below_or_equal_masked(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let mask = u64::MAX >> max.leading_zeros();
        loop {
            let word = if max <= u64::from(u32::MAX) {
                u64::from(self.next_u32())
            } else {
                let high = u64::from(self.next_u32());
                high << 32 | u64::from(self.next_u32())
            };
            let draw = word & mask;
            if draw <= max {
                return draw;
            }
        }
    }

    /// Shuffles in place like `numpy.random.RandomState.shuffle` does with arrays and lists.
    pub fn shuffle_numpy<T>(&mut self, values: &mut [T]) {
        let mut i = values.len();
        // Below 2^32 elements the mask changes only at powers of two: keep it out of the inner loop.
        while i > 1 {
            let top = (i - 1) as u64;
            if top > u64::from(u32::MAX) {
                let j = self.below_or_equal_masked(top) as usize;
                values.swap(i - 1, j);
                i -= 1;
                continue;
            }
            let mask = (u64::MAX >> top.leading_zeros()) as u32;
            let floor = (mask >> 1) as usize + 1; // smallest index that has this mask
            let stop = floor.max(1);
            while i > stop {
                let max = (i - 1) as u32;
                let mut j = self.next_u32() & mask;
                while j > max {
                    j = self.next_u32() & mask;
                }
                values.swap(i - 1, j as usize);
                i -= 1;
            }
        }
    }

    /// `numpy.random.RandomState.permutation(n)`.
    pub fn permutation_numpy(&mut self, n: usize) -> Vec<u64> {
        let mut values: Vec<u64> = (0..n as u64).collect();
        self.shuffle_numpy(&mut values);
        values
    }
}

/// Shuffles in place like Python's `random.Random(seed).shuffle` does.
pub fn shuffle_python<T>(seed: u64, values: &mut [T]) {
    let words = [seed as u32, (seed >> 32) as u32];
    let key = if words[1] == 0 { &words[..1] } else { &words[..] };
    let mut rng = Mt19937::from_key(key);
    for i in (1..values.len()).rev() {
        let bits = u64::BITS - (i as u64 + 1).leading_zeros();
        let draw = |rng: &mut Mt19937| {
            if bits <= 32 {
                u64::from(rng.next_u32() >> (32 - bits))
            } else {
                // Python fills wide draws from the low word up and shortens the last one.
                let low = u64::from(rng.next_u32());
                low | u64::from(rng.next_u32() >> (64 - bits)) << 32
            }
        };
        let mut j = draw(&mut rng);
        while j > i as u64 {
            j = draw(&mut rng);
        }
        values.swap(i, j as usize);
    }
}

/// `torch.randperm(n)` on a CPU with a generator seeded by `seed`. The modulo makes it slightly biased; so is torch.
pub fn randperm_torch(n: usize, seed: u64) -> Vec<u64> {
    let mut rng = Mt19937::from_seed(seed as u32);
    let mut values: Vec<u64> = (0..n as u64).collect();
    for i in 0..n.saturating_sub(1) {
        let left = (n - i) as u64;
        let z = u64::from(rng.next_u32()) % left;
        values.swap(i, i + z as usize);
    }
    values
}
