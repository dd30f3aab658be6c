//! Attributes of kernels, occupancy, and the launch configurations that are refused.

mod driver_process;

use cudarc::driver::sys::{CUfunction_attribute as FunctionAttribute, CUresult, *};
use driver_process::{function, isolated, load, ok, start};
use std::ffi::c_void;
use std::ptr::null_mut;

const PTX: &str = concat!(include_str!("driver_data/kernels.ptx"), "\0");
const LZ4: &[u8] = include_bytes!("driver_data/kernels_lz4.fatbin");
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn attributes_and_occupancy() {
    if isolated("attributes_and_occupancy", &[]).is_some() {
        return;
    }
    start();
    let (text, fat) = (load(PTX.as_bytes()), load(LZ4));
    // SAFETY: places of this function and handles of this test.
    unsafe {
        let get = |f: CUfunction, a| {
            let mut v = -7;
            ok(cuFuncGetAttribute(&mut v, a, f));
            v
        };
        let (plain, bounded) = (function(fat, c"saxpy"), function(fat, c"bounded"));
        assert_eq!(get(plain, FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
        assert_eq!(get(bounded, FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
        assert_eq!(get(plain, FunctionAttribute::CU_FUNC_ATTRIBUTE_PTX_VERSION), 90);
        assert_eq!(get(plain, FunctionAttribute::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES), 16);
        assert_eq!(get(plain, FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS), 10);
        assert_eq!(get(function(text, c"saxpy"), FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
        assert_eq!(get(function(fat, c"clustered"), FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), 2);
        let reverse = function(fat, c"reverse_in_shared");
        const DYNAMIC: FunctionAttribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        assert_eq!(get(reverse, DYNAMIC), 48 << 10);
        ok(cuFuncSetAttribute(reverse, DYNAMIC, 227 << 10));
        assert_eq!(cuFuncSetAttribute(reverse, DYNAMIC, (227 << 10) + 1), INVALID);
        assert_eq!(cuFuncSetAttribute(reverse, FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS, 1), INVALID);
        let blocks = |f, threads, shared| {
            let mut n = -1;
            match cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut n, f, threads, shared) {
                CUresult::CUDA_SUCCESS => Ok(n),
                e => Err(e),
            }
        };
        assert_eq!(blocks(plain, 32, 0), Ok(32));
        assert_eq!(blocks(plain, 1024, 0), Ok(2));
        assert_eq!(blocks(plain, 96, 0), Ok(21));
        assert_eq!(blocks(reverse, 128, 100 << 10), Ok(2));
        assert_eq!(blocks(reverse, 128, 227 << 10), Ok(1));
        assert_eq!(blocks(bounded, 256, 0), Ok(0));
        assert_eq!(blocks(plain, 0, 0), Err(INVALID));
        let mut bytes = 0;
        ok(cuOccupancyAvailableDynamicSMemPerBlock(&mut bytes, reverse, 2, 128));
        assert_eq!(blocks(reverse, 128, bytes), Ok(2));
        assert_eq!(blocks(reverse, 128, bytes + 128), Ok(1));
        let (mut grid, mut block) = (0, 0);
        ok(cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, plain, None, 0, 0));
        assert_eq!((grid, block), (264, 1024));
        let mut attribute: CUlaunchAttribute = std::mem::zeroed();
        attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x: 2, y: 1, z: 1 };
        let config = CUlaunchConfig {
            gridDimX: 2,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1024,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: null_mut(),
            attrs: &mut attribute,
            numAttrs: 1,
        };
        let mut n = 0;
        ok(cuOccupancyMaxActiveClusters(&mut n, plain, &config));
        assert_eq!(n, 132);
        ok(cuOccupancyMaxPotentialClusterSize(&mut n, plain, &config));
        assert_eq!(n, 8);
        ok(cuFuncSetAttribute(plain, FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
        ok(cuOccupancyMaxPotentialClusterSize(&mut n, plain, &config));
        assert_eq!(n, 16);
        let (mut offset, mut size) = (0, 0);
        ok(cuFuncGetParamInfo(plain, 3, &mut offset, &mut size));
        assert_eq!((offset, size), (16, 8));
        assert_eq!(cuFuncGetParamInfo(plain, 4, &mut offset, &mut size), INVALID);
    }
}

/// A launch of `saxpy` or another kernel with everything right but what `change` breaks.
fn launch(f: CUfunction, change: impl Fn(&mut CUlaunchConfig)) -> CUresult {
    let (n, a, x) = (0u32, 0f32, 0u64);
    let mut pointers: [*mut c_void; 4] = [
        (&raw const n).cast_mut().cast(),
        (&raw const a).cast_mut().cast(),
        (&raw const x).cast_mut().cast(),
        (&raw const x).cast_mut().cast(),
    ];
    let mut c = CUlaunchConfig {
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: null_mut(),
        attrs: null_mut(),
        numAttrs: 0,
    };
    change(&mut c);
    // SAFETY: the configuration and the arguments live here; no kernel runs, since every launch is refused.
    unsafe { cuLaunchKernelEx(&c, f, pointers.as_mut_ptr(), null_mut()) }
}

#[test]
fn launches_are_checked_before_they_are_enqueued() {
    let me = "launches_are_checked_before_they_are_enqueued";
    if let Some(err) = isolated(me, &[]) {
        assert!(err.contains("launch of bounded refused") && err.contains("the kernel allows 128"), "{err}");
        return;
    }
    start();
    let m = load(PTX.as_bytes());
    let f = function(m, c"saxpy");
    let cluster = |x| {
        // SAFETY: integers and pointers only.
        let mut a: CUlaunchAttribute = unsafe { std::mem::zeroed() };
        a.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        a.value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y: 1, z: 1 };
        Box::leak(Box::new(a))
    };
    assert_eq!(launch(f, |c| c.gridDimX = 0), INVALID);
    assert_eq!(launch(f, |c| c.gridDimY = 65_536), INVALID);
    assert_eq!(launch(f, |c| c.blockDimX = 1025), INVALID);
    assert_eq!(launch(f, |c| c.blockDimZ = 65), INVALID);
    assert_eq!(launch(f, |c| (c.blockDimX, c.blockDimY) = (512, 3)), INVALID);
    assert_eq!(launch(f, |c| c.sharedMemBytes = (48 << 10) + 1), INVALID);
    assert_eq!(launch(function(m, c"bounded"), |c| c.blockDimX = 129), CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    let with = |size, grid| launch(f, |c| (c.attrs, c.numAttrs, c.gridDimX) = (cluster(size), 1, grid));
    assert_eq!(with(9, 9), CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_eq!(with(0, 9), CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_eq!(with(4, 6), CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
    // SAFETY: arguments are refused before they are used.
    unsafe {
        let none: *mut c_void = null_mut();
        let go = |f, stream, params, extra| cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, params, extra);
        assert_eq!(go(null_mut(), none as CUstream, none.cast(), none.cast()), CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(go(f, 77 as CUstream, none.cast(), none.cast()), CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(go(f, none as CUstream, none.cast(), none.cast()), INVALID);
        let mut holes = [none; 4];
        assert_eq!(go(f, none as CUstream, holes.as_mut_ptr(), none.cast()), INVALID);
        // A packed buffer of the wrong size.
        let (buffer, mut size) = ([0u8; 40], 40usize);
        let mut extra: [*mut c_void; 5] = [
            std::ptr::without_provenance_mut(1),
            buffer.as_ptr().cast_mut().cast(),
            std::ptr::without_provenance_mut(2),
            (&raw mut size).cast(),
            none,
        ];
        assert_eq!(go(f, none as CUstream, none.cast(), extra.as_mut_ptr()), INVALID);
        assert_eq!(cuLaunchKernelEx(std::ptr::null(), f, none.cast(), none.cast()), INVALID);
        let mut cooperative = |grid| {
            cuLaunchCooperativeKernel(
                f,
                grid,
                1,
                1,
                1024,
                1,
                1,
                0,
                none as CUstream,
                [(&raw mut size).cast::<c_void>(); 4].as_mut_ptr(),
            )
        };
        assert_eq!(cooperative(265), CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
        ok(cuCtxSynchronize());
        ok(cuModuleUnload(m));
        assert_eq!(go(f, none as CUstream, holes.as_mut_ptr(), none.cast()), CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(cuModuleUnload(m), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
}
