//! Libraries, and images that cannot be loaded.

mod driver_process;

use cudarc::driver::sys::{CUfunction_attribute as FunctionAttribute, CUresult, *};
use driver_process::{isolated, load, ok, start};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const PTX: &str = concat!(include_str!("driver_data/kernels.ptx"), "\0");
const LZ4: &[u8] = include_bytes!("driver_data/kernels_lz4.fatbin");
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn libraries_belong_to_no_context() {
    if isolated("libraries_belong_to_no_context", &[]).is_some() {
        return;
    }
    // SAFETY: places of this function and whole images.
    unsafe {
        ok(cuInit(0));
        let mut library = null_mut();
        ok(cuLibraryLoadData(&mut library, LZ4.as_ptr().cast(), null_mut(), null_mut(), 0, null_mut(), null_mut(), 0));
        let (mut n, mut kernel) = (0, null_mut());
        ok(cuLibraryGetKernelCount(&mut n, library));
        assert_eq!(n, 7);
        ok(cuLibraryGetKernel(&mut kernel, library, c"saxpy".as_ptr()));
        assert_eq!(cuLibraryGetKernel(&mut kernel, library, c"nothing".as_ptr()), CUresult::CUDA_ERROR_NOT_FOUND);
        let mut name = std::ptr::null();
        ok(cuKernelGetName(&mut name, kernel));
        assert_eq!(CStr::from_ptr(name), c"saxpy");
        let mut f = null_mut();
        assert_eq!(cuKernelGetFunction(&mut f, kernel), CUresult::CUDA_ERROR_INVALID_CONTEXT);
        start();
        ok(cuKernelGetFunction(&mut f, kernel));
        let mut v = 0;
        ok(cuKernelGetAttribute(&mut v, FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0));
        assert_eq!(v, 10);
        ok(cuKernelSetAttribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1000, kernel, 0));
        ok(cuFuncGetAttribute(&mut v, FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
        assert_eq!(v, 1000);
        let (mut p, mut bytes) = (0, 0);
        ok(cuLibraryGetGlobal(&mut p, &mut bytes, library, c"counter".as_ptr()));
        let mut counter = 0u32;
        ok(cuMemcpyDtoH_v2((&raw mut counter).cast(), p, bytes));
        assert_eq!((counter, bytes), (7, 4));
        ok(cuLibraryUnload(library));
        assert_eq!(cuLibraryGetKernelCount(&mut n, library), CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(cuMemcpyDtoH_v2((&raw mut counter).cast(), p, bytes), INVALID);
    }
}

#[test]
fn images_that_cannot_be_loaded() {
    let me = "images_that_cannot_be_loaded";
    if let Some(err) = isolated(me, &[]) {
        assert!(err.contains("-gencode arch=compute_90a") && err.contains("newer than 9.0"), "{err}");
        return;
    }
    start();
    let try_load = |image: &[u8]| {
        let mut log = vec![0u8; 300];
        let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        // SAFETY: the images below end where their format says, text with a zero byte.
        let r = unsafe {
            cuModuleLoadDataEx(&mut null_mut(), image.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
        };
        (r, CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap().to_string())
    };
    let (r, log) = try_load(b".version 9.2\n.target sm_90a\n\0");
    assert_eq!(r, CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    assert!(log.contains("9.2"));
    assert_eq!(try_load(b".version 9.0\n.target sm_100a\n\0").0, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    let (r, log) =
        try_load(b".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { frobnicate.u32 %r1; }\n\0");
    assert_eq!(r, CUresult::CUDA_ERROR_INVALID_PTX);
    assert!(log.contains("line 4"), "{log}");
    assert_eq!(try_load(b"hello, this is not an image\0").0, CUresult::CUDA_ERROR_INVALID_IMAGE);
    assert_eq!(try_load(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0").0, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    let mut broken = LZ4.to_vec();
    broken[20] = 7;
    assert_eq!(try_load(&broken).0, CUresult::CUDA_ERROR_INVALID_IMAGE);
    // SAFETY: places of this function.
    unsafe {
        let mut m = null_mut();
        assert_eq!(cuModuleLoadData(&mut m, std::ptr::null()), INVALID);
        assert_eq!(cuModuleLoad(&mut m, c"no/such/file.ptx".as_ptr()), CUresult::CUDA_ERROR_FILE_NOT_FOUND);
        m = load(PTX.as_bytes());
        assert_eq!(cuModuleGetFunction(&mut null_mut(), m, c"nothing".as_ptr()), CUresult::CUDA_ERROR_NOT_FOUND);
        assert_eq!(cuModuleGetGlobal_v2(&mut 0, &mut 0, m, c"nothing".as_ptr()), CUresult::CUDA_ERROR_NOT_FOUND);
    }
}

#[test]
fn images_from_files_and_from_the_wrapper_of_host_objects() {
    let me = "images_from_files_and_from_the_wrapper_of_host_objects";
    if isolated(me, &[]).is_some() {
        return;
    }
    start();
    let folder = std::env::temp_dir().join(format!("ptx-sim-images-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in [("k.ptx", &PTX.as_bytes()[..PTX.len() - 1]), ("k.fatbin", LZ4)] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: places of this function.
        unsafe {
            let (mut m, mut l, mut n) = (null_mut(), null_mut(), 0);
            ok(cuModuleLoad(&mut m, path.as_ptr()));
            ok(cuModuleGetFunctionCount(&mut n, m));
            assert_eq!(n, 7);
            let mut list = [null_mut(); 7];
            ok(cuModuleEnumerateFunctions(list.as_mut_ptr(), 7, m));
            assert!(list.iter().all(|f| !f.is_null()));
            ok(cuLibraryLoadFromFile(&mut l, path.as_ptr(), null_mut(), null_mut(), 0, null_mut(), null_mut(), 0));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    // What nvcc puts into host objects: magic number, version, address of the fat binary.
    let wrapper: [u64; 3] = [0x4662_43b1 | 1 << 32, LZ4.as_ptr() as u64, 0];
    // SAFETY: the wrapper points to a whole fat binary.
    unsafe {
        let mut m = null_mut();
        ok(cuModuleLoadFatBinary(&mut m, wrapper.as_ptr().cast()));
        ok(cuModuleUnload(m));
    }
}
