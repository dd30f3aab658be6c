//! Fills.

use super::compare::{Bound, Case, check_with_gaps};
use lightning_core::ops::Fill;

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
