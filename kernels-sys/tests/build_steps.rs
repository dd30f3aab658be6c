//! The build script's own steps: declarations, architectures, dependencies, paths.

#[allow(dead_code, reason = "the build script uses what these tests do not")]
#[path = "../build/nvcc.rs"]
mod nvcc;
#[allow(dead_code, reason = "the build script uses what these tests do not")]
#[path = "../build/sources.rs"]
mod sources;

use std::path::Path;

const KERNEL: &str = "LIGHTNING_KERNEL(scale_bf16, ScaleParams, bf16, 256, 2, 1024) { body(p); }\n";

#[test]
fn declarations_are_read_with_all_their_parts() {
    let text =
        format!("// LIGHTNING_KERNEL(in a comment) is none\n{KERNEL}LIGHTNING_KERNEL(b,\n  P, any, 32, 1, 0) {{}}");
    let kernels = sources::parse_declarations(&text).expect("two declarations");
    assert_eq!(kernels.len(), 2);
    let k = &kernels[0];
    assert_eq!((k.name.as_str(), k.params.as_str(), k.dtype), ("scale_bf16", "ScaleParams", "Bf16"));
    assert_eq!((k.threads, k.min_blocks, k.dynamic_shared), (256, 2, 1024));
    assert_eq!((kernels[1].name.as_str(), kernels[1].dtype, kernels[1].threads), ("b", "Any", 32));
}

#[test]
fn wrong_declarations_are_errors_that_name_the_kernel() {
    let error = |text: &str| sources::parse_declarations(text).err().unwrap_or_default();
    assert!(error("int x;").contains("declares no kernel"));
    assert!(error(&KERNEL.replace("bf16, 256", "fp4, 256")).contains("scale_bf16: dtype `fp4`"));
    assert!(error(&KERNEL.replace("256", "250")).contains("scale_bf16: 250 threads"));
    assert!(error(&KERNEL.replace("256", "2048")).contains("2048 threads"));
    assert!(error(&KERNEL.replace("256", "kThreads")).contains("threads is `kThreads`, not a number"));
    assert!(error(&KERNEL.replace(", 1024", "")).contains("5 arguments, not 6"));
}

#[test]
fn unknown_architectures_are_refused_with_a_list_of_the_known() {
    assert_eq!(sources::chosen_archs("").unwrap(), ["sm_90a"]);
    assert_eq!(sources::chosen_archs(" sm_100a, sm_90a,sm_100a ").unwrap(), ["sm_100a", "sm_90a"]);
    let error = sources::chosen_archs("sm_90a,sm_80").unwrap_err();
    for part in ["`sm_80`", "sm_90a", "sm_100a", "LIGHTNING_CUDA_ARCHS"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn every_source_declares_kernels_once_and_lies_in_a_family() {
    let csrc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../csrc");
    let found = sources::find_sources(&csrc).expect("csrc is in order");
    assert!(found.iter().any(|s| s.module == "norm/rms_norm" && s.family == "norm" && s.arch.is_none()));
}

#[test]
fn duplicate_kernels_and_unknown_suffixes_are_found() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("csrc-duplicates");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("a")).unwrap();
    std::fs::write(folder.join("a/one.cu"), KERNEL).unwrap();
    std::fs::write(folder.join("a/two.sm_90a.cu"), KERNEL.replace("scale", "other")).unwrap();
    let found = sources::find_sources(&folder).expect("both are in order");
    assert_eq!(found.len(), 2);
    assert_eq!((found[1].module.as_str(), found[1].arch), ("a/two", Some("sm_90a")));
    std::fs::write(folder.join("a/three.cu"), KERNEL).unwrap();
    assert!(sources::find_sources(&folder).err().unwrap().contains("kernel scale_bf16 is in"));
    std::fs::remove_file(folder.join("a/three.cu")).unwrap();
    std::fs::write(folder.join("a/three.sm_12.cu"), KERNEL).unwrap();
    assert!(sources::find_sources(&folder).err().unwrap().contains("`sm_12` is no architecture"));
}

#[test]
fn makefile_rules_and_releases_are_read() {
    let rule = "out.ptx : norm/a.cu \\\n    include/lightning/b.cuh \\\n    /usr/include/stdint.h\n";
    assert_eq!(nvcc::make_dependencies(rule), ["norm/a.cu", "include/lightning/b.cuh", "/usr/include/stdint.h"]);
    assert_eq!(nvcc::parse_release("tools, release 13.0, V13.0.88"), Some((13, 0)));
    assert_eq!(nvcc::parse_release("no such line"), None);
}

#[test]
fn line_information_names_no_machine() {
    let ptx = "\t.file\t1 \"/home/a/csrc/norm/k.cu\"\n\t.file\t2 \"/opt/cuda/bin/..//include/crt/math.hpp\"\n\tret;\n";
    let shown = nvcc::without_machine_paths(ptx, Path::new("/home/a/csrc"));
    assert_eq!(shown, "\t.file\t1 \"csrc/norm/k.cu\"\n\t.file\t2 \"cuda/include/crt/math.hpp\"\n\tret;\n");
}

#[test]
fn entry_points_are_found_with_block_size_and_parameter_bytes() {
    let ptx = ".visible .entry k_f32(\n\t.param .align 8 .b8 k_f32_param_0[96]\n)\n.maxntid 384\n.minnctapersm 2\n{\n\tret;\n}\n\
               .visible .entry bare()\n{\n\tret;\n}\n";
    let entries = nvcc::parse_entries(ptx);
    assert_eq!(entries["k_f32"], (Some(384), Some(96)));
    assert_eq!(entries["bare"], (None, None));
}
