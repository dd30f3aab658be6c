//! Fills, and gradients of either type for the tests of other families.

use super::compare::{Bound, Case, check_with_gaps};
use super::support::unit::Unit;
use lightning_core::ops::Fill;
use lightning_core::tensor::Tensor;

#[test]
fn fill_sets_every_element_of_every_type() {
    // 2048 elements of bf16 are a piece of a block, 16 bytes the width of a store.
    for (rows, cols, value) in [(0, 3, 1.0), (1, 1, -2.5), (3, 8, 0.0), (2, 8191, 3.25), (1, 8200, 7.0), (5, 17, -1.0)]
    {
        check_with_gaps(&format!("{rows} x {cols}"), &[0, 8, 1], |u| {
            let (act, acc, ints) = (u.out(rows, cols), u.out_acc(rows, cols), u.out_ints(rows, cols));
            let metric = u.metric(cols);
            let results = vec![
                ("act", act, Bound::Exact),
                ("acc", acc, Bound::Exact),
                ("ints", ints, Bound::Exact),
                ("metric", metric, Bound::Exact),
            ];
            let ops = [act, acc, ints, metric].map(|dst| Fill { dst, value }.into());
            Case { ops: ops.to_vec(), results }
        });
    }
}

/// A weight gradient in f32, or in bf16, that is added to or overwritten.
pub fn gradient(u: &mut Unit, (rows, cols): (usize, usize), bf16: bool, accumulate: bool) -> Tensor {
    match (bf16, accumulate) {
        (false, _) => u.gradient(rows, cols, accumulate),
        (true, false) => u.out(rows, cols),
        (true, true) => u.act(rows, cols, &(0..rows * cols).map(|i| (i % 5) as f64 - 2.0).collect::<Vec<_>>()),
    }
}
