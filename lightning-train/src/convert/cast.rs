//! Conversion between floating-point types: to nearest, ties to even; finite values beyond the range become the largest
//! finite one and are counted; infinities and NaN stay what they are.

use half::{bf16, f16};
use safetensors::Dtype;

/// Whether values of a type can be converted to another.
pub fn possible(from: Dtype, to: Dtype) -> bool {
    let float = |t| matches!(t, Dtype::F64 | Dtype::F32 | Dtype::BF16 | Dtype::F16);
    from == to || (float(from) && float(to))
}

/// Little-endian floats as f32; f64 values are rounded to odd, so that a second rounding to a narrower type is the only
/// one that counts. `None` for other types.
pub fn to_f32(dtype: Dtype, bytes: &[u8], out: &mut Vec<f32>) -> Option<()> {
    out.clear();
    match dtype {
        Dtype::F32 => out.extend(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b))),
        Dtype::BF16 => out.extend(bytes.as_chunks::<2>().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32())),
        Dtype::F16 => out.extend(bytes.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f32())),
        Dtype::F64 => out.extend(bytes.as_chunks::<8>().0.iter().map(|b| round_to_odd(f64::from_le_bytes(*b)))),
        _ => return None,
    }
    Some(())
}

/// f64 to f32, towards zero, with the last bit set when anything was lost (the value then lies between two f32, and no
/// tie of a narrower type can arise from it).
fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) == x || x.is_nan() || x.is_infinite() {
        return nearest;
    }
    let mut bits = nearest.to_bits();
    if nearest.is_infinite() || f64::from(nearest).abs() > x.abs() {
        bits -= 1;
    }
    f32::from_bits(bits | 1)
}

/// Appends `values` in type `to`. Returns how many finite values were beyond its range. `to` is a float type.
pub fn from_f32(values: &[f32], to: Dtype, out: &mut Vec<u8>) -> u64 {
    let mut saturated = 0;
    match to {
        Dtype::F32 => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Dtype::F64 => out.extend(values.iter().flat_map(|x| f64::from(*x).to_le_bytes())),
        Dtype::BF16 => out.extend(values.iter().flat_map(|x| {
            let mut y = bf16::from_f32(*x);
            if y.is_infinite() && x.is_finite() {
                saturated += 1;
                y = if *x > 0.0 { bf16::MAX } else { bf16::MIN };
            }
            y.to_le_bytes()
        })),
        _ => out.extend(values.iter().flat_map(|x| {
            let mut y = f16::from_f32(*x);
            if y.is_infinite() && x.is_finite() {
                saturated += 1;
                y = if *x > 0.0 { f16::MAX } else { f16::MIN };
            }
            y.to_le_bytes()
        })),
    }
    saturated
}

/// Appends the values of `bytes` (type `from`) in type `to`. Returns how many finite values were beyond its range.
/// `scratch` is reused between calls. The types satisfy [`possible`].
pub fn convert(from: Dtype, to: Dtype, bytes: &[u8], scratch: &mut Vec<f32>, out: &mut Vec<u8>) -> u64 {
    if from == to {
        out.extend_from_slice(bytes);
        return 0;
    }
    if (from, to) == (Dtype::F64, Dtype::F32) {
        let mut saturated = 0;
        out.extend(bytes.as_chunks::<8>().0.iter().flat_map(|b| {
            let x = f64::from_le_bytes(*b);
            let mut y = x as f32;
            if y.is_infinite() && x.is_finite() {
                saturated += 1;
                y = f32::MAX.copysign(y);
            }
            y.to_le_bytes()
        }));
        return saturated;
    }
    to_f32(from, bytes, scratch).expect("float types");
    // Rounding to odd turns f64 values beyond f32 into its largest finite value, which no narrower type has either.
    from_f32(scratch, to, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(from: Dtype, to: Dtype, bytes: &[u8]) -> (Vec<u8>, u64) {
        let mut out = Vec::new();
        let saturated = convert(from, to, bytes, &mut Vec::new(), &mut out);
        (out, saturated)
    }

    /// The nearest bf16 of a value by search among its neighbours, ties to the even one.
    fn nearest_bf16(x: f64) -> bf16 {
        let guess = bf16::from_f32(x as f32).to_bits();
        let candidates = [guess.wrapping_sub(1), guess, guess.wrapping_add(1)].map(bf16::from_bits);
        let distance = |y: &bf16| (f64::from(y.to_f32()) - x).abs();
        let finite = candidates.into_iter().filter(|y| y.is_finite());
        finite
            .min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a.to_bits() & 1).cmp(&(b.to_bits() & 1))))
            .unwrap()
    }

    proptest! {
        #[test]
        fn wide_values_are_rounded_once(mantissa in 0u64..1 << 52, exponent in 900u64..1100, close in 0u64..4) {
            // Also values that lie beside a tie of bf16, where two roundings go wrong.
            let near_tie = (mantissa & !((1 << 45) - 1)) | 1 << 44;
            let mantissa = match close { 0 => mantissa, 1 => near_tie, 2 => near_tie + 1, _ => near_tie - 1 };
            let x = f64::from_bits(exponent << 52 | mantissa);
            let (bytes, saturated) = one(Dtype::F64, Dtype::BF16, &x.to_le_bytes());
            prop_assert_eq!(saturated, 0);
            prop_assert_eq!(bytes, nearest_bf16(x).to_le_bytes().to_vec(), "{}", x);
        }
    }

    #[test]
    fn ranges_saturate_and_are_counted_and_the_special_values_stay() {
        let (bytes, n) = one(Dtype::F32, Dtype::BF16, &f32::MAX.to_le_bytes());
        assert_eq!((bytes, n), (bf16::MAX.to_le_bytes().to_vec(), 1));
        let (bytes, n) = one(Dtype::F32, Dtype::F16, &(-70000f32).to_le_bytes());
        assert_eq!((bytes, n), (f16::MIN.to_le_bytes().to_vec(), 1));
        let (bytes, n) = one(Dtype::F64, Dtype::F32, &1e300f64.to_le_bytes());
        assert_eq!((bytes, n), (f32::MAX.to_le_bytes().to_vec(), 1));
        let (bytes, n) = one(Dtype::F64, Dtype::BF16, &1e300f64.to_le_bytes());
        assert_eq!((bytes, n), (bf16::MAX.to_le_bytes().to_vec(), 1));
        for to in [Dtype::BF16, Dtype::F16] {
            let (bytes, n) = one(Dtype::F32, to, &f32::NEG_INFINITY.to_le_bytes());
            let back = one(to, Dtype::F32, &bytes).0;
            assert_eq!((back, n), (f32::NEG_INFINITY.to_le_bytes().to_vec(), 0));
            let back = one(to, Dtype::F32, &one(Dtype::F32, to, &f32::NAN.to_le_bytes()).0).0;
            assert!(f32::from_le_bytes(back.try_into().unwrap()).is_nan());
        }
        assert!(!possible(Dtype::I32, Dtype::F32) && possible(Dtype::I32, Dtype::I32));
    }
}
