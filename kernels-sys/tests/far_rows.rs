//! Rows so far apart that offsets in elements pass 2^31 (pitfalls B46 and B63, rows 1 and 11 of the defect list): the
//! kernels of experts, attention and cross entropy leave the same bits as with rows next to each other.

mod virtual_gpu;

use virtual_gpu::{Bf16, Random, Trouble, VirtualGpu, attention, experts, loss};

/// Elements between far rows, in place of eight between near ones.
const FAR: usize = (1 << 31) + 8;

fn ok<V>(what: &str, outcome: Result<V, Trouble>) -> V {
    outcome.unwrap_or_else(|trouble| panic!("{what}: {trouble}"))
}

/// Compares what `run` leaves with all rows near and with those of one matrix after the other far.
fn same<V: PartialEq + std::fmt::Debug>(what: &str, run: impl Fn(&VirtualGpu, [usize; 4]) -> Result<V, Trouble>) {
    let Some(gpu) = VirtualGpu::new(1) else { return };
    let near = ok(what, run(&gpu, [8; 4]));
    for matrix in 0..4 {
        let mut pads = [8; 4];
        pads[matrix] = FAR;
        assert_eq!(near, ok(what, run(&gpu, pads)), "{what}, matrix {matrix}");
    }
}

#[test]
fn pitfall_b46_far_rows_of_experts() {
    let seed = Random::fresh().bits();
    fn routing(gpu: &VirtualGpu) -> experts::Routing<'_> {
        experts::Routing::new(gpu, &[1, 0, 3])
    }
    let sizes = |n, depth, pads| experts::Sizes { n, depth, pads };
    same("gather", |gpu, pads| experts::gather(gpu, &mut Random::seeded(seed), &routing(gpu), sizes(16, 8, pads)));
    same("activation", |gpu, pads| {
        experts::activation_bwd(gpu, &mut Random::seeded(seed), &routing(gpu), sizes(16, 8, pads))
    });
    for naive in [false, true] {
        // Few rows of weights, so that they fit into the memory of a device.
        for (form, n, depth) in [("nt", 2, 8), ("nn", 8, 2)] {
            same(&format!("{form}, naive {naive}"), |gpu, pads| {
                let how = (form, naive, true);
                experts::product(gpu, &mut Random::seeded(seed), &routing(gpu), how, sizes(n, depth, pads))
            });
        }
    }
    same("weight gradient", |gpu, pads| {
        experts::weight_bwd::<Bf16>(gpu, &mut Random::seeded(seed), &routing(gpu), true, sizes(8, 2, pads))
    });
}

#[test]
fn pitfall_b63_far_rows_of_attention() {
    let seed = Random::fresh().bits();
    same("attention", |gpu, pads| {
        let case = attention::Case { t: 4, heads: 2, kv_heads: 1, head_dim: 8, documents: &[3], pads };
        case.run(gpu, &mut Random::seeded(seed))
    });
}

#[test]
fn far_rows_of_logits() {
    let seed = Random::fresh().bits();
    same("loss", |gpu, pads| {
        let left = loss::rows(gpu, &mut Random::seeded(seed), (3, 40, pads[0]), true)?;
        Ok((left.logits, left.ce, left.hits))
    });
}
