//! Mutants that leave a kernel's meaning as it is, each with its proof.
//!
//! An entry is the text of the mutant, and which of the places with that text is meant. One that matches nothing, or
//! whose mutant is found after all, is wrong and ends the run: the kernel changed, or the proof was none.

use crate::sites::Site;

/// One proven mutant.
pub struct Equivalent {
    /// Kernel that it belongs to.
    pub kernel: &'static str,
    /// The line as it is, blanks aside.
    pub before: &'static str,
    /// The line as it becomes.
    pub after: &'static str,
    /// Which of the sites with this text, from 0, and how many there are.
    pub place: (usize, usize),
    /// Why nothing changes.
    pub reason: &'static str,
}

const NOBODY_WAITS: &str = "in the last step of an odd number: the stage that is released here is loaded no more, so that nobody waits for \
     the release, and wgmma.wait_group 0 follows before anything else";
const MULTIPLE_OF_8: &str =
    "k is a multiple of 8, because the row stride of a tensor map is a multiple of 16 bytes: it is never 1 or 193";
const COMPARED_WITH_ZERO: &str =
    "the start of a step is only ever compared with zero, and the first two steps are told apart by code";
const SAME_IN_EVERY_LANE: &str = "lane 0 is to store the sum of its warp; the butterfly leaves the same sum in every lane, and the 31 others store it";

/// All that is proven.
pub const EQUIVALENT: &[Equivalent] = &[
    Equivalent {
        kernel: "gemm_pipeline",
        before: "setp.lt.s32 %p4, %r49, 1;",
        after: "setp.le.s32 %p4, %r49, 1;",
        place: (0, 1),
        reason: MULTIPLE_OF_8,
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "setp.lt.s32 %p23, %r49, 1;",
        after: "setp.le.s32 %p23, %r49, 1;",
        place: (0, 1),
        reason: MULTIPLE_OF_8,
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "setp.lt.u32 %p24, %r326, 192;",
        after: "setp.le.u32 %p24, %r326, 192;",
        place: (0, 1),
        reason: MULTIPLE_OF_8,
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "wgmma.fence.sync.aligned;",
        after: "",
        place: (1, 3),
        reason: "nothing touches the accumulators after the wgmma of the same shape before it, which PTX orders by default",
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "add.s32 %r445, %r445, 128;",
        after: "add.s32 %r445, %r445, 256;",
        place: (0, 1),
        reason: COMPARED_WITH_ZERO,
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "wgmma.wait_group.sync.aligned 1;",
        after: "",
        place: (2, 3),
        reason: NOBODY_WAITS,
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "wgmma.wait_group.sync.aligned 1;",
        after: "wgmma.wait_group.sync.aligned 2;",
        place: (2, 3),
        reason: NOBODY_WAITS,
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "setp.gt.u32 %p18, %r3, 1;",
        after: "setp.ge.u32 %p18, %r3, 1;",
        place: (0, 1),
        reason: NOBODY_WAITS,
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "setp.eq.s32 %p19, %r445, 0;",
        after: "setp.ne.s32 %p19, %r445, 0;",
        place: (0, 1),
        reason: NOBODY_WAITS,
    },
    Equivalent {
        kernel: "gemm_pipeline",
        before: "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];",
        after: "",
        place: (2, 3),
        reason: NOBODY_WAITS,
    },
    Equivalent {
        kernel: "rms_norm_fwd_bf16",
        before: "setp.ne.s32 %p50, %r144, 0;",
        after: "setp.eq.s32 %p50, %r144, 0;",
        place: (0, 1),
        reason: SAME_IN_EVERY_LANE,
    },
    Equivalent {
        kernel: "rms_norm_fwd_bf16",
        before: "setp.ne.s32 %p96, %r381, 0;",
        after: "setp.eq.s32 %p96, %r381, 0;",
        place: (0, 1),
        reason: SAME_IN_EVERY_LANE,
    },
    Equivalent {
        kernel: "rms_norm_fwd_f32",
        before: "setp.ne.s32 %p50, %r97, 0;",
        after: "setp.eq.s32 %p50, %r97, 0;",
        place: (0, 1),
        reason: SAME_IN_EVERY_LANE,
    },
    Equivalent {
        kernel: "rms_norm_fwd_f32",
        before: "setp.ne.s32 %p96, %r24, 0;",
        after: "setp.eq.s32 %p96, %r24, 0;",
        place: (0, 1),
        reason: SAME_IN_EVERY_LANE,
    },
    Equivalent {
        kernel: "rms_norm_bwd_bf16",
        before: "setp.ne.s32 %p39, %r179, 0;",
        after: "setp.eq.s32 %p39, %r179, 0;",
        place: (0, 1),
        reason: SAME_IN_EVERY_LANE,
    },
    Equivalent {
        kernel: "rms_norm_bwd_bf16",
        before: "setp.ne.s32 %p81, %r375, 0;",
        after: "setp.eq.s32 %p81, %r375, 0;",
        place: (0, 1),
        reason: SAME_IN_EVERY_LANE,
    },
    Equivalent {
        kernel: "rms_norm_bwd_f32",
        before: "setp.ne.s32 %p44, %r12, 0;",
        after: "setp.eq.s32 %p44, %r12, 0;",
        place: (0, 1),
        reason: SAME_IN_EVERY_LANE,
    },
    Equivalent {
        kernel: "rms_norm_bwd_f32",
        before: "setp.ne.s32 %p84, %r270, 0;",
        after: "setp.eq.s32 %p84, %r270, 0;",
        place: (0, 1),
        reason: SAME_IN_EVERY_LANE,
    },
];

/// The entry of every site of a module that has one, by index of the site.
///
/// # Errors
/// An entry for a kernel of the module that matches no site, or not as many as it says.
pub fn proven<'e>(sites: &[Site], entries: &'e [Equivalent]) -> Result<Vec<Option<&'e Equivalent>>, String> {
    let mut out: Vec<Option<&Equivalent>> = sites.iter().map(|_| None).collect();
    for entry in entries {
        if sites.iter().all(|site| site.kernel != entry.kernel) {
            continue;
        }
        let found: Vec<usize> = (0..sites.len())
            .filter(|i| {
                let site = &sites[*i];
                site.kernel == entry.kernel && plain(&site.before) == entry.before && plain(&site.after) == entry.after
            })
            .collect();
        let (index, count) = entry.place;
        if found.len() != count || index >= count {
            return Err(format!(
                "the mutant `{}` -> `{}` of {} is listed as equivalent at place {index} of {count}, the kernel has {} such places: prove it anew or take it off the list",
                entry.before,
                entry.after,
                entry.kernel,
                found.len()
            ));
        }
        out[found[index]] = Some(entry);
    }
    Ok(out)
}

/// A line with single blanks.
fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
