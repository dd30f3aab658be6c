//! Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a counter-based generator, so
//! that a value is a pure function of (seed, stream, index) and nothing has to be saved or replayed.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Ten rounds of Philox on one counter.
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let p0 = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let p1 = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter =
            [(p1 >> 32) as u32 ^ counter[1] ^ key[0], p1 as u32, (p0 >> 32) as u32 ^ counter[3] ^ key[1], p0 as u32];
    }
    counter
}

/// A stream of a seed: `stream` tells purposes apart (a hash of a parameter's name, a step, ...).
#[derive(Debug, Clone)]
pub struct Philox {
    key: [u32; 2],
    stream: u64,
    index: u64,
}

impl Philox {
    /// The start of stream `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], stream, index: 0 }
    }

    /// The four words of block `index`, wherever the stream stands.
    pub fn block(&self, index: u64) -> [u32; 4] {
        let counter = [index as u32, (index >> 32) as u32, self.stream as u32, (self.stream >> 32) as u32];
        philox4x32(counter, self.key)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let words = self.block(self.index / 2);
        let half = (self.index % 2) as usize * 2;
        self.index += 1;
        u64::from(words[half]) | u64::from(words[half + 1]) << 32
    }

    /// Uniform in [0, 1) with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Uniform in 0 .. n (n > 0), by multiplication; the bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Standard normal numbers 2 `block` and 2 `block` + 1 of the stream, by the Box-Muller transform on the four words of
    /// one block.
    pub fn normal_pair(&self, block: u64) -> (f64, f64) {
        let w = self.block(block);
        let u1 = (f64::from(w[0]) + 0.5 + f64::from(w[1]) / 4_294_967_296.0) / 4_294_967_296.0;
        let u2 = (f64::from(w[2]) + f64::from(w[3]) / 4_294_967_296.0) / 4_294_967_296.0;
        let radius = libm::sqrt(-2.0 * libm::log(u1));
        let angle = 2.0 * core::f64::consts::PI * u2;
        (radius * libm::cos(angle), radius * libm::sin(angle))
    }

    /// Standard normal number `index` of the stream.
    pub fn normal_at(&self, index: u64) -> f64 {
        let (even, odd) = self.normal_pair(index / 2);
        if index % 2 == 0 { even } else { odd }
    }

    /// Uniform number `index` of the stream in [0, 1).
    pub fn uniform_at(&self, index: u64) -> f64 {
        let w = self.block(index / 2);
        let half = (index % 2) as usize * 2;
        let bits = u64::from(w[half]) | u64::from(w[half + 1]) << 32;
        (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// The next standard normal number (draws whole blocks of its own; do not mix with the other draws).
    pub fn normal(&mut self) -> f64 {
        let value = self.normal_at(self.index);
        self.index += 1;
        value
    }
}

/// 64-bit FNV-1a of a name: the stream of everything that is keyed by a name.
pub fn name_stream(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known-answer vectors published with the Random123 library (kat_vectors, philox4x32 with 10 rounds).
    #[test]
    fn known_answers() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn normals_have_the_moments_of_a_normal() {
        let p = Philox::new(3, 5);
        let n = 200_000;
        let (mut s1, mut s2, mut s4) = (0.0, 0.0, 0.0);
        for i in 0..n {
            let x = p.normal_at(i);
            s1 += x;
            s2 += x * x;
            s4 += x * x * x * x;
        }
        let n = n as f64;
        assert!((s1 / n).abs() < 0.01 && (s2 / n - 1.0).abs() < 0.02 && (s4 / n - 3.0).abs() < 0.1);
    }
}
