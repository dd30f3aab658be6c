//! The enumerator of mutation sites: every kind is found, what comes out is again an instruction, nothing else changes.

#[path = "../examples/sim_mutants/sites.rs"]
mod sites;

#[path = "../examples/sim_mutants/equivalent.rs"]
mod equivalent;

use equivalent::{EQUIVALENT, Equivalent, proven};
use sites::{Kind, mutated, sites};

const HEAD: &str = ".version 9.0\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n\t.reg .b32 %r<4>;\n";

/// (kind, mutated line) of one instruction in a kernel.
fn of(instruction: &str) -> Vec<(Kind, String)> {
    let ptx = format!("{HEAD}\t{instruction}\n\tret;\n}}\n");
    sites(&ptx).into_iter().map(|s| (s.kind, s.after)).collect()
}

fn one(kind: Kind, after: &str) -> Vec<(Kind, String)> {
    vec![(kind, after.to_string())]
}

#[test]
fn barriers_fences_and_commits_are_removed() {
    assert_eq!(of("bar.sync \t0;"), one(Kind::Barrier, ""));
    assert_eq!(of("barrier.cluster.wait.acquire.aligned;"), one(Kind::Barrier, ""));
    assert_eq!(of("fence.proxy.async.shared::cta;"), one(Kind::Fence, ""));
    assert_eq!(of("wgmma.fence.sync.aligned;"), one(Kind::Fence, ""));
    assert_eq!(of("cp.async.commit_group;"), one(Kind::Commit, ""));
}

#[test]
fn waits_are_removed_and_relaxed() {
    assert_eq!(
        of("cp.async.wait_group 2;"),
        [(Kind::Wait, String::new()), (Kind::Wait, "cp.async.wait_group 3;".to_string())]
    );
    let waits = of("mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;");
    assert_eq!(waits[0], (Kind::Wait, "setp.eq.u32 p, 0, 0;".to_string()));
    assert_eq!(
        waits[1].1,
        "{ .reg .b32 other; xor.b32 other, %r2, 1; mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], other; }"
    );
}

#[test]
fn counts_and_masks_are_off() {
    assert_eq!(
        of("mbarrier.init.shared::cta.b64 [%r1], 4;"),
        [
            (Kind::Count, "mbarrier.init.shared::cta.b64 [%r1], 5;".to_string()),
            (Kind::Count, "mbarrier.init.shared::cta.b64 [%r1], 3;".to_string())
        ]
    );
    assert_eq!(
        of("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;")[0].1,
        "{ .reg .b32 larger; add.s32 larger, %r2, 16; \
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], larger; }"
    );
    assert_eq!(of("bar.sync 1, 128;")[1], (Kind::Count, "bar.sync 1, 160;".to_string()));
    assert_eq!(
        of("@%p1 shfl.sync.bfly.b32 \t%r1|%p2, %r2, 16, 31, -1;"),
        one(Kind::Mask, "@%p1 shfl.sync.bfly.b32 %r1|%p2, %r2, 16, 31, 0x7fffffff;")
    );
}

#[test]
fn bounds_offsets_and_permutations_are_off() {
    assert_eq!(of("setp.lt.s64 %p1, %rd1, %rd2;"), one(Kind::Bound, "setp.le.s64 %p1, %rd1, %rd2;"));
    assert_eq!(of("setp.ne.s32 %p1, %r1, 0;"), one(Kind::Bound, "setp.eq.s32 %p1, %r1, 0;"));
    assert_eq!(
        of("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];"),
        one(Kind::Offset, "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+16];")
    );
    assert_eq!(of("st.shared.b16 [%r1+6], %rs1;"), one(Kind::Offset, "st.shared.b16 [%r1+8], %rs1;"));
    assert_eq!(of("add.s32 %r1, %r2, 3;"), one(Kind::Offset, "add.s32 %r1, %r2, 4;"));
    assert_eq!(of("add.s32 %r1, %r2, 384;"), one(Kind::Offset, "add.s32 %r1, %r2, 512;"));
    assert_eq!(of("xor.b32 %r1, %r2, %r3;"), one(Kind::Swizzle, "mov.b32 %r1, %r2;"));
    let descriptor = of("or.b64 %rd1, %rd2, 4611686293305360384;");
    assert!(descriptor.iter().all(|(kind, _)| *kind == Kind::Descriptor) && descriptor.len() == 2);
}

#[test]
fn what_decides_nothing_is_left_alone() {
    for line in ["mov.u32 %r1, %tid.x;", "setp.lt.f32 %p1, %f2, %f3;", "ld.param.u64 %rd1, [k_param_0];", "ret;"] {
        assert!(of(line).is_empty(), "{line}");
    }
    assert!(sites(".version 9.0\nbar.sync 0;\n").is_empty(), "outside a kernel");
    assert!(of("// bar.sync 0;").is_empty(), "a comment");
}

#[test]
fn a_mutant_differs_in_one_line_alone() {
    let ptx = format!("{HEAD}\tbar.sync 0;\n\tbar.sync 0;\n\tret;\n}}\n");
    let all = sites(&ptx);
    assert_eq!(all.len(), 2);
    for site in &all {
        let mutant = mutated(&ptx, site);
        let differing: Vec<usize> =
            ptx.lines().zip(mutant.lines()).enumerate().filter(|(_, (a, b))| a != b).map(|(n, _)| n).collect();
        assert_eq!(differing, [site.line]);
        assert_eq!(site.kernel, "k");
        assert_eq!(site.before, "bar.sync 0;");
    }
}

#[test]
fn proofs_belong_to_one_place_each_and_stale_ones_fail() {
    let ptx = format!("{HEAD}\twgmma.wait_group.sync.aligned \t1;\n\twgmma.wait_group.sync.aligned 1;\n\tret;\n}}\n");
    let all = sites(&ptx);
    let entry = |before, place| Equivalent {
        kernel: "k",
        before,
        after: "wgmma.wait_group.sync.aligned 2;",
        place,
        reason: "it is the last",
    };
    let good = [entry("wgmma.wait_group.sync.aligned 1;", (1, 2))];
    let marked: Vec<usize> =
        proven(&all, &good).unwrap().iter().enumerate().filter_map(|(i, proof)| proof.map(|_| all[i].line)).collect();
    assert_eq!(marked, [7]);
    for stale in [
        entry("wgmma.wait_group.sync.aligned 1;", (1, 3)),
        entry("wgmma.wait_group.sync.aligned 1;", (2, 2)),
        entry("wgmma.wait_group.sync.aligned 3;", (0, 1)),
    ] {
        assert!(proven(&all, &[stale]).is_err_and(|why| why.contains("prove it anew")));
    }
    // Entries of kernels that the module does not have are no concern of it.
    assert!(proven(&all, EQUIVALENT).unwrap().iter().all(Option::is_none));
    assert!(EQUIVALENT.iter().all(|e| !e.reason.is_empty()));
}
