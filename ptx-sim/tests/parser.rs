//! The front end on hostile text: an error or a module, never a panic, and errors name their line.

use ptx_sim::check::mutate;
use ptx_sim::exec::{Module, Random};
use std::panic::catch_unwind;

const NORM: &str = include_str!("ptx/norm_gemm.ptx");
const HOPPER: &str = include_str!("ptx/hopper_gemm.ptx");

fn survives(text: &str) {
    let copy = text.to_string();
    let read = move || {
        let _ = Module::load(&copy);
        let _ = mutate::sites(&copy);
    };
    if catch_unwind(read).is_err() {
        panic!("the loader panics on:\n{}", text.chars().take(2000).collect::<String>());
    }
}

#[test]
fn cut_flipped_and_shuffled_texts_do_not_panic() {
    let mut r = Random::new(0x5eed);
    let short = include_str!("ptx/good/bulk_round_trip.ptx");
    for text in [short, NORM] {
        let rounds = if text.len() < 10_000 { 1500 } else { 60 };
        for _ in 0..rounds {
            let mut bytes = text.as_bytes().to_vec();
            match r.below(5) {
                0 => bytes.truncate(r.below(bytes.len())),
                1 => {
                    for _ in 0..1 + r.below(8) {
                        let i = r.below(bytes.len());
                        bytes[i] = (r.next_u64() & 0x7f) as u8;
                    }
                }
                2 => {
                    let (a, n) = (r.below(bytes.len()), r.below(40));
                    bytes.drain(a..(a + n).min(text.len()));
                }
                3 => {
                    let (a, n, b) = (r.below(bytes.len()), r.below(60), r.below(bytes.len()));
                    let piece = bytes[a..(a + n).min(bytes.len())].to_vec();
                    bytes.splice(b..b, piece);
                }
                _ => {
                    let nasty: [&[u8]; 8] = [
                        b"{",
                        b"}",
                        b"[",
                        b"9999999999999999999999",
                        b"%r99999999",
                        b".align 3",
                        b"\xc3\xa9",
                        b"<4294967295>",
                    ];
                    let i = r.below(bytes.len());
                    bytes.splice(i..i, nasty[r.below(8)].iter().copied());
                }
            }
            survives(&String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn random_bytes_do_not_panic() {
    let mut r = Random::new(9);
    for n in [0, 1, 2, 17, 300, 5000] {
        for _ in 0..50 {
            let bytes: Vec<u8> = (0..n).map(|_| r.next_u64() as u8).collect();
            survives(&String::from_utf8_lossy(&bytes));
            let ascii: String = (0..n).map(|_| (32 + r.below(96)) as u8 as char).collect();
            survives(&format!(".version 9.0\n.target sm_90a\n.address_size 64\n{ascii}"));
        }
    }
    survives(&"{".repeat(100_000));
    survives(&format!(".version 9.0\n.target sm_90a\n.entry k() {{ {} }}", "[".repeat(10_000)));
}

fn kernel(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() {{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n{body}\nret;\n}}\n"
    )
}

#[test]
fn errors_name_line_and_cause() {
    for (body, part, unsupported) in [
        ("add.s32 %r1, %r2;", "operands", false),
        ("add.sat.u64 %rd1, %rd2, %rd3;", "sat", true),
        ("add.s32.fast %r1, %r2, %r3;", ".fast", true),
        ("frobnicate.b32 %r1, %r2;", "frobnicate", true),
        ("mov.u32 %r9, 1;", "%r9", false),
        ("mov.u32 %rd1, %r1;", "width", false),
        ("bra NOWHERE;", "NOWHERE", false),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", "tcgen05", true),
        ("@%r1 bra X;", "predicate", false),
        ("call nothing, (%r1);", "nothing", true),
        ("ld.global.u32 %r1, %rd1;", "bracket", false),
        ("setmaxnreg.inc.sync.aligned.u32 37;", "multiple of 8", false),
    ] {
        let e = Module::load(&kernel(body)).err().unwrap_or_else(|| panic!("`{body}` was accepted"));
        assert_eq!(e.line, 8, "{body}: {e}");
        assert!(e.message.contains(part), "{body}: {e}");
        assert_eq!(e.unsupported, unsupported, "{body}: {e}");
    }
    for (text, part) in [
        ("", "not PTX"),
        (".version 9.3\n.target sm_90a\n", "newer than 9.0"),
        (".version 9.0\n.target sm_100a\n", "newer than the virtual device"),
        (".version 9.0\n.target sm_80a\n", "sm_80a"),
        (".version 9.0\n.target gpu\n", "gpu"),
    ] {
        let e = Module::load(text).err().unwrap();
        assert!(e.message.contains(part), "{e}");
    }
    let recursive = ".version 9.0\n.target sm_90a\n.func f() { call f; ret; }\n.entry k() { call f; ret; }\n";
    assert!(Module::load(recursive).err().unwrap().message.contains("recursion"));
}

#[test]
fn mutation_sites_of_hostile_lines_do_not_panic() {
    for line in [
        "st.shared.u32 ], [%r1;",
        "ld.global.u32 %r1, [%rd1+9223372036854775807];",
        "add.s64 %rd1, %rd1, 9223372036854775807;",
        "mbarrier.init.shared.b64 [%r1], 18446744073709551615;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 18446744073709551615;",
        "wgmma.wait_group.sync.aligned 18446744073709551615;",
        "shfl.sync.bfly.b32 ;",
        "@%p;",
    ] {
        survives(line);
    }
    assert_eq!(mutate::sites("st.shared.u32 ], [%r1];").unwrap().len(), 1);
}

#[test]
fn mutants_are_texts_that_load_or_say_why_not() {
    for text in [NORM, HOPPER] {
        let all = mutate::sites(text).unwrap();
        assert!(all.len() > 100);
        let some = mutate::sample(&all, 5, 40);
        assert_eq!(some, mutate::sample(&all, 5, 40));
        assert_ne!(some, mutate::sample(&all, 6, 40));
        for s in some {
            let mutant = s.apply(text);
            assert_ne!(mutant, text, "{s:?}");
            if let Err(e) = Module::load(&mutant) {
                panic!("{s:?}: {e}");
            }
        }
    }
}
