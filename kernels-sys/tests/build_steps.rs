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

/// A program that prints this.
#[cfg(unix)]
fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\necho '{text}'\n")).expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("an executable script");
}

#[cfg(unix)]
#[test]
fn the_first_compiler_that_is_new_enough_is_taken() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compilers");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let (old, broken, new) = (folder.join("nvcc-12"), folder.join("nvcc-broken"), folder.join("nvcc-13"));
    script(&old, "Cuda compilation tools, release 12.9, V12.9.86");
    script(&broken, "no release");
    script(&new, "Cuda compilation tools, release 13.1, V13.1.2");
    let absent = folder.join("nowhere");
    let found = nvcc::first_usable([absent.clone(), old.clone(), broken.clone(), new.clone()]).expect("the last");
    assert_eq!(found.path, new);
    let error = |list: &[&std::path::PathBuf]| {
        nvcc::first_usable(list.iter().map(|p| p.to_path_buf())).err().expect("none is usable")
    };
    let text = error(&[&absent]);
    for part in ["no nvcc of CUDA 13.0 or newer", "cargo xtask setup-cuda", "set CUDA_HOME"] {
        assert!(text.contains(part), "{text}");
    }
    let text = error(&[&old, &broken]);
    for part in ["nvcc-12 is CUDA 12.9", "nvcc-broken does not run"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn declarations_that_the_ptx_contradicts_are_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("csrc-entries");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("a")).expect("a folder");
    std::fs::write(folder.join("a/one.cu"), KERNEL).expect("a source");
    let source = &sources::find_sources(&folder).expect("a source")[0];
    let check = |name: &str, threads: u32| {
        nvcc::check_entries(source, "sm_90a", &format!(".visible .entry {name}(\n)\n.maxntid {threads}\n{{\n}}\n"))
    };
    assert_eq!(check("scale_bf16", 256), Ok(()));
    assert!(check("scale_bf16", 128).unwrap_err().contains("scale_bf16 has 256 threads, the PTX says Some(128)"));
    assert!(check("other", 256).unwrap_err().contains("declares scale_bf16, the PTX has no such entry"));
    let both = ".visible .entry scale_bf16(\n)\n.maxntid 256\n{\n}\n.visible .entry other()\n{\n}\n";
    assert!(nvcc::check_entries(source, "sm_90a", both).unwrap_err().contains("other is not declared"));
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
