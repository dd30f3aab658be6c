//! Comparison of tensors by name.

use std::collections::BTreeMap;

/// Tensors by name.
pub type Named = BTreeMap<String, Vec<f64>>;

#[track_caller]
pub fn assert_all_close(label: &str, got: &Named, want: &Named, bound: f64) {
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
    // Relative to the whole: a gradient that is zero up to rounding has no relative error.
    let largest = want.values().map(|v| norm(v) / (v.len().max(1) as f64).sqrt()).fold(0.0, f64::max);
    for (name, want) in want {
        // Sums of cancelling terms.
        let bound = if name.ends_with("A_log") || name.ends_with("dt_bias") { 10.0 * bound } else { bound };
        let difference: Vec<f64> = got[name].iter().zip(want).map(|(g, w)| g - w).collect();
        let size = norm(want).max(1e-2 * largest * (want.len() as f64).sqrt());
        let error = if size == 0.0 { norm(&difference) } else { norm(&difference) / size };
        assert!(error <= bound, "{label} {name}: relative error {error:.3e} above {bound:.1e}");
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[track_caller]
pub fn assert_same(label: &str, got: &Named, want: &Named) {
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
    for (name, want) in want {
        let same = got[name].iter().zip(want).all(|(g, w)| g.to_bits() == w.to_bits());
        assert!(same, "{label} {name}: bits differ");
    }
}
