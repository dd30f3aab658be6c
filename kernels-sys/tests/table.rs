//! The kernel table and the embedded images agree with each other.

use kernels_sys::{Arch, DType, KernelParams, RmsNormBwdParams, RmsNormFwdParams, SumBlocksParams};

#[test]
fn kernels_are_found_by_name_and_architecture() {
    let k = kernels_sys::kernel("rms_norm_bwd_f32", Arch::Sm90a).expect("a kernel");
    assert_eq!((k.family, k.module, k.dtype, k.arch), ("norm", "norm/rms_norm", DType::F32, None));
    assert_eq!(k.params_bytes, size_of::<RmsNormBwdParams>());
    assert!(kernels_sys::kernel("rms_norm", Arch::Sm90a).is_none(), "a part of a name is no name");
    for kernel in kernels_sys::kernels() {
        assert!(kernel.block_threads.is_multiple_of(32) && (32..=1024).contains(&kernel.block_threads));
        assert!(kernel.module.starts_with(kernel.family));
        let same = kernels_sys::kernels().iter().filter(|k| k.name == kernel.name && k.arch == kernel.arch);
        assert_eq!(same.count(), 1, "{} is there twice", kernel.name);
    }
}

#[test]
fn parameter_blocks_carry_their_names() {
    assert_eq!(RmsNormFwdParams::NAME, "RmsNormFwdParams");
    assert_eq!(RmsNormBwdParams::NAME, "RmsNormBwdParams");
    assert_eq!(SumBlocksParams::NAME, "SumBlocksParams");
}

#[test]
fn every_image_has_machine_code_and_the_kernels_of_its_module() {
    if let Some(why) = kernels_sys::absent() {
        assert!(kernels_sys::images().is_empty());
        assert!(why.contains("cargo xtask setup-cuda") || why.contains("LIGHTNING_CUDA=off"), "{why}");
        return;
    }
    assert!(!kernels_sys::images().is_empty());
    for image in kernels_sys::images() {
        assert!(image.cubin.starts_with(b"\x7fELF"), "{image:?}");
        assert_eq!(image.cubin.as_ptr() as usize % 16, 0, "{image:?}");
        let ptx = image.ptx().to_str().expect("PTX is ASCII");
        assert!(ptx.contains(&format!(".target {}", image.arch)), "{image:?}");
        let of_module = |k: &&kernels_sys::Kernel| k.module == image.module && k.arch.is_none_or(|a| a == image.arch);
        let kernels: Vec<_> = kernels_sys::kernels().iter().filter(of_module).collect();
        assert_eq!(ptx.matches(".entry ").count(), kernels.len(), "{image:?}");
        for kernel in kernels {
            assert!(ptx.contains(&format!(".entry {}(", kernel.name)), "{} in {image:?}", kernel.name);
        }
        assert_eq!(kernels_sys::image(image.module, image.arch).map(|i| i.cubin.as_ptr()), Some(image.cubin.as_ptr()));
    }
}

#[test]
fn architectures_are_found_by_compute_capability() {
    for arch in Arch::ALL {
        let (major, minor) = arch.compute_capability();
        assert_eq!(Arch::of_compute_capability(major, minor), Some(arch));
        assert!(arch.to_string().starts_with("sm_"));
    }
    assert_eq!(Arch::of_compute_capability(8, 0), None);
    assert_eq!(Arch::of_compute_capability(10, 3), None, "sm_100a images run on 10.0 alone");
}
