//! Counts of a launch against numbers worked out by hand.

use ptx_sim::exec::{GlobalMemory, Launch, LaunchReport, Machine, Module, Settings};
use std::sync::Arc;

fn launch(text: &str, kernel: &str, block: u32, grid: u32, make: impl Fn(&GlobalMemory) -> Vec<u8>) -> LaunchReport {
    let memory = Arc::new(GlobalMemory::new(1, 1 << 30));
    let machine = Machine::new(Settings { host_threads: 2, ..Settings::default() }, memory.clone(), 0);
    let loaded = machine.load(Arc::new(Module::load(text).unwrap())).unwrap();
    let params = make(&memory);
    let l = Launch { grid: [grid, 1, 1], block: [block, 1, 1], params, ..Launch::new(&loaded, kernel) };
    machine.launch(&l).unwrap_or_else(|f| panic!("{f}"))
}

#[test]
fn norm_moves_the_minimum() {
    let (rows, d) = (5usize, 264usize);
    let r = launch(include_str!("ptx/norm_gemm.ptx"), "rmsnorm", 64, rows as u32, |m| {
        let mut params = Vec::new();
        for n in [rows * d * 2, d * 2, rows * d * 2] {
            let p = m.allocate(0, n as u64).unwrap();
            m.fill(p, &[0x80, 0x3f], n / 2).unwrap();
            params.extend(p.to_le_bytes());
        }
        params.extend(((d / 8) as u32).to_le_bytes());
        params.extend(1e-6f32.to_le_bytes());
        params
    });
    let c = &r.counts;
    let (x, w) = ((rows * d * 2) as u64, (d * 2) as u64);
    // x is read twice and w once by each block.
    assert_eq!(c.global_read, 2 * x + rows as u64 * w);
    assert_eq!(c.global_written, x);
    assert_eq!(c.global_unique_read, x + w);
    assert_eq!(c.global_unique_written, x);
    assert_eq!(c.shared_conflicts, 0);
    assert_eq!(c.barrier_phases, 2 * rows as u64);
    assert!(c.class("load_global").unwrap() > 0 && c.class("nothing").is_none());
    let json = c.to_json();
    assert!(json.starts_with("{\"warp_instructions\":") && json.ends_with("}}"));
    assert!(json.contains(&format!("\"global_written_bytes\":{x}")));
}

#[test]
fn column_accesses_conflict() {
    let text = ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k(.param .u32 stride) {\n.reg .b32 %r<8>;\n\
        .shared .align 16 .b8 s[65536];\nmov.u32 %r1, %tid.x;\nld.param.u32 %r2, [stride];\nmul.lo.u32 %r3, %r1, %r2;\n\
        mov.u32 %r4, s;\nadd.u32 %r3, %r3, %r4;\nst.shared.u32 [%r3], %r1;\nld.shared.u32 %r5, [%r3];\nret;\n}\n";
    for (stride, extra) in [(4u32, 0u64), (8, 1), (16, 3), (128, 31), (132, 0)] {
        let r = launch(text, "k", 32, 1, |_| stride.to_le_bytes().to_vec());
        assert_eq!(r.counts.shared_conflicts, 2 * extra, "stride {stride}");
        assert_eq!(r.counts.shared_requests, 2);
        assert_eq!((r.counts.shared_read, r.counts.shared_written), (128, 128));
    }
}
