//! Kernels of the Mamba-2 mixer: rows so far apart that offsets pass 2^31 and 2^32 elements (pitfall B56; kernels.md §3,
//! row 1), and other schedules of the warps (pitfall B57), change no bit of the results.

mod virtual_gpu;

use virtual_gpu::mixer::{Layout, Left, Scan, conv, norm_and_steps, scan};
use virtual_gpu::{Random, Trouble, VirtualGpu};

/// With five rows, the last lies past 2^32 elements and the third past 2^31.
const FAR: usize = (1 << 30) + 8;

fn near_and_far(what: &str, run: impl Fn(&VirtualGpu, &mut Random, Layout) -> Result<Left, Trouble>) {
    let mut random = Random::fresh();
    let seed = random.bits();
    for shift in [0, 3] {
        let left = [0, FAR].map(|stride| {
            let gpu = VirtualGpu::new(seed)?;
            let left = run(&gpu, &mut Random::seeded(seed), Layout { stride, shift });
            Some(left.unwrap_or_else(|trouble| panic!("{what}, stride {stride}, shift {shift}: {trouble}")))
        });
        let [Some(near), Some(far)] = left else { return };
        for ((name, near), (_, far)) in near.iter().zip(&far) {
            assert!(near == far, "{what}, shift {shift}: {name} of far rows differs");
            assert!(near.iter().any(|b| *b != 0), "{what}: {name} is zero");
        }
    }
}

#[test]
fn b56_row01_convolution_of_far_rows() {
    near_and_far("conv", |gpu, random, layout| conv(gpu, random, (16, 4), &[3, 2], false, layout));
}

#[test]
fn b56_row01_gated_norm_and_time_steps_of_far_rows() {
    near_and_far("norm", |gpu, random, layout| norm_and_steps(gpu, random, (5, 2, 16), 0.0, layout));
}

#[test]
fn b56_row01_scan_of_far_rows() {
    let s = Scan { heads: 2, head_dim: 8, state: 16, groups: 2, chunk: 1, documents: &[2, 3], with_state: true };
    near_and_far("scan", |gpu, random, layout| scan(gpu, random, s, layout));
    near_and_far("scan, one chunk", |gpu, random, layout| scan(gpu, random, Scan { chunk: 8, ..s }, layout));
}

#[test]
fn b57_no_bit_depends_on_the_schedule() {
    let mut random = Random::fresh();
    let inputs = random.bits();
    let near = Layout { stride: 0, shift: 0 };
    let s =
        Scan { heads: 4, head_dim: 24, state: 40, groups: 2, chunk: 70, documents: &[100, 1, 49], with_state: true };
    let mut first: Option<Vec<Left>> = None;
    for _ in 0..3 {
        let Some(gpu) = VirtualGpu::new(random.bits()) else { return };
        let mut same = Random::seeded(inputs);
        let ok = |left: Result<Left, Trouble>| left.unwrap_or_else(|trouble| panic!("{trouble}"));
        let left = vec![
            ok(scan(&gpu, &mut same, s, near)),
            ok(conv(&gpu, &mut same, (72, 4), &[60, 2, 90], true, near)),
            ok(norm_and_steps(&gpu, &mut same, (70, 3, 40), 0.5, near)),
        ];
        match &first {
            None => first = Some(left),
            Some(first) => assert!(*first == left, "results differ from schedule to schedule"),
        }
    }
}
