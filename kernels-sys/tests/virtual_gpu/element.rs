//! Element types of test buffers, and random elements.

/// An element type of buffers.
pub trait Element: Copy + PartialEq + std::fmt::Debug + 'static {
    /// Suffix of the kernels for this activation type.
    const SUFFIX: &'static str;
    /// The largest relative error of one rounding.
    const HALF_ULP: f64;
    fn from_f32(v: f32) -> Self;
    fn to_f32(self) -> f32;
    fn to_bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;

    fn to_f64(self) -> f64 {
        f64::from(self.to_f32())
    }
}

impl Element for f32 {
    const SUFFIX: &'static str = "f32";
    const HALF_ULP: f64 = 1.0 / (1u64 << 24) as f64;

    fn from_f32(v: f32) -> Self {
        v
    }
    fn to_f32(self) -> f32 {
        self
    }
    fn to_bytes(self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("4 bytes"))
    }
}

/// bfloat16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bf16(pub u16);

impl Element for Bf16 {
    const SUFFIX: &'static str = "bf16";
    const HALF_ULP: f64 = 1.0 / 256.0;

    fn from_f32(v: f32) -> Self {
        let bits = v.to_bits();
        // To nearest, ties to even; the inputs are finite.
        Self(((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16)
    }
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
    fn to_bytes(self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        Self(u16::from_le_bytes(bytes.try_into().expect("2 bytes")))
    }
}

impl Element for i32 {
    const SUFFIX: &'static str = "i32";
    const HALF_ULP: f64 = 0.0;

    fn from_f32(v: f32) -> Self {
        v as i32
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
    fn to_bytes(self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("4 bytes"))
    }
}

impl Element for f64 {
    const SUFFIX: &'static str = "f64";
    const HALF_ULP: f64 = f64::EPSILON / 2.0;

    fn from_f32(v: f32) -> Self {
        v.into()
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
    fn to_bytes(self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("8 bytes"))
    }
}

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// A stream of its own for each run, or that of `LIGHTNING_TEST_SEED`; printed, and shown when a test fails.
    pub fn fresh() -> Self {
        let seed = match std::env::var("LIGHTNING_TEST_SEED") {
            Ok(text) => text.parse().expect("LIGHTNING_TEST_SEED is a number"),
            Err(_) => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                now.map_or(1, |d| d.as_nanos() as u64)
            }
        };
        eprintln!("LIGHTNING_TEST_SEED={seed}");
        Self(seed)
    }

    /// The stream of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Roughly normal with mean 0 and this standard deviation.
    pub fn normal(&mut self, deviation: f32) -> f32 {
        let uniform = |bits: u64| (bits >> 40) as f32 / (1u64 << 24) as f32;
        let sum: f32 = (0..12).map(|_| uniform(self.bits())).sum();
        (sum - 6.0) * deviation
    }

    /// `count` integers below `limit`.
    pub fn integers(&mut self, count: usize, limit: usize) -> Vec<i32> {
        (0..count).map(|_| (self.bits() % limit as u64) as i32).collect()
    }

    /// `count` normal elements.
    pub fn elements<T: Element>(&mut self, count: usize, mean: f32, deviation: f32) -> Vec<T> {
        (0..count).map(|_| T::from_f32(mean + self.normal(deviation))).collect()
    }
}
