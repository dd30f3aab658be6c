//! Look-up of functions by name, initialisation, error texts, contexts and devices.

mod driver_process;

use cudarc::driver::sys::{self, CUresult, *};
use driver_process::{isolated, ok, start};
use std::ffi::CStr;
use std::ptr::null_mut;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn every_function_of_the_header_resolves() {
    let me = "every_function_of_the_header_resolves";
    if let Some(err) = isolated(me, &[]) {
        assert!(err.contains("cuMulticastCreate is not available"), "{err}");
        assert_eq!(err.matches("cuTexRefCreate").count(), 1, "said once: {err}");
        return;
    }
    let names: Vec<&str> = include_str!("driver_data/cuda_13_0_functions.txt").lines().collect();
    assert!(names.len() > 500);
    // SAFETY: the loader finds the library of this crate; functions are looked up, and two that take their arguments as
    // they come are called.
    unsafe {
        let lib = sys::culib();
        let find = |name: &str, version: i32| {
            let (mut f, mut status) = (null_mut(), CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS);
            let c = std::ffi::CString::new(name).unwrap();
            ok(cuGetProcAddress_v2(c.as_ptr(), &mut f, version, 0, &mut status));
            (f as usize, status)
        };
        for name in &names {
            assert!(lib.get::<unsafe extern "C" fn()>(name.as_bytes()).is_ok(), "{name} is not exported");
            assert_ne!(find(name, 13_000).0, 0, "{name}");
        }
        let symbol = |name: &str| *lib.get::<usize>(name.as_bytes()).unwrap();
        assert_eq!(find("cuMemAlloc", 13_000).0, symbol("cuMemAlloc_v2"));
        assert_eq!(find("cuGraphInstantiate", 13_000).0, symbol("cuGraphInstantiateWithFlags"));
        assert_eq!(find("cuCtxCreate", 13_000).0, symbol("cuCtxCreate_v4"));
        assert_eq!(
            find("cuNoSuchFunction", 13_000),
            (0, CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
        );
        assert_eq!(cuGetProcAddress_v2(std::ptr::null(), &mut null_mut(), 13_000, 0, null_mut()), INVALID);
        for name in ["cuMulticastCreate", "cuTexRefCreate", "cuTexRefCreate"] {
            let f: unsafe extern "C" fn() -> CUresult = std::mem::transmute(find(name, 13_000).0);
            assert_eq!(f(), CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
    }
}

#[test]
fn nothing_works_before_initialisation() {
    if isolated("nothing_works_before_initialisation", &[]).is_some() {
        return;
    }
    const NOT_INITIALIZED: CUresult = CUresult::CUDA_ERROR_NOT_INITIALIZED;
    let mut n = 0;
    // SAFETY: places of this function.
    unsafe {
        assert_eq!(cuDeviceGetCount(&mut n), NOT_INITIALIZED);
        assert_eq!(cuMemFree_v2(1), NOT_INITIALIZED);
        assert_eq!(cuCtxSynchronize(), NOT_INITIALIZED);
        ok(cuDriverGetVersion(&mut n));
        assert_eq!(n, 13_000);
        assert_eq!(cuInit(1), INVALID);
        ok(cuInit(0));
        assert_eq!(cuCtxSynchronize(), CUresult::CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(cuMemAlloc_v2(&mut 0, 16), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
}

#[test]
fn settings_that_cannot_be_used_stop_initialisation() {
    for (variables, code, text) in [
        (vec![("LIGHTNING_SIM_ARCH", "b200")], INVALID, "LIGHTNING_SIM_ARCH"),
        (vec![("CUDA_VISIBLE_DEVICES", "5")], CUresult::CUDA_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES"),
    ] {
        match isolated("settings_that_cannot_be_used_stop_initialisation", &variables) {
            Some(err) => assert!(err.contains(text), "{err}"),
            None => {
                let want = if std::env::var_os("LIGHTNING_SIM_ARCH").is_some() {
                    INVALID
                } else {
                    CUresult::CUDA_ERROR_NO_DEVICE
                };
                // SAFETY: no pointers.
                assert_eq!(unsafe { cuInit(0) }, want);
                return;
            }
        }
        let _ = code;
    }
}

#[test]
fn error_texts() {
    if isolated("error_texts", &[]).is_some() {
        return;
    }
    let text = |code: i32, f: unsafe fn(CUresult, *mut *const i8) -> CUresult| {
        let mut s = std::ptr::null();
        // SAFETY: the code is one of the enumeration, the place lives here, and the string is static.
        unsafe {
            ok(f(std::mem::transmute::<i32, CUresult>(code), &mut s));
            CStr::from_ptr(s).to_str().unwrap()
        }
    };
    for (code, name, description) in [
        (0, "CUDA_SUCCESS", "no error"),
        (2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
        (700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
        (801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"),
        (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "a kernel launch error has occurred due to cluster misconfiguration"),
    ] {
        assert_eq!(text(code, cuGetErrorName), name);
        assert_eq!(text(code, cuGetErrorString), description);
    }
    for code in ptx_sim::driver::status::all_codes() {
        assert!(text(code, cuGetErrorName).starts_with("CUDA_") && !text(code, cuGetErrorString).is_empty());
    }
    assert_eq!(ptx_sim::driver::status::name(12345), None);
}

#[test]
fn contexts_stack_and_have_limits() {
    if isolated("contexts_stack_and_have_limits", &[("LIGHTNING_SIM_DEVICES", "2")]).is_some() {
        return;
    }
    let primary = start();
    let same = |c: CUcontext| {
        let mut now = null_mut();
        // SAFETY: a place of this function.
        ok(unsafe { cuCtxGetCurrent(&mut now) });
        assert_eq!(now, c);
    };
    // SAFETY: places of this function and handles of this test.
    unsafe {
        let mut own = null_mut();
        ok(cuCtxCreate_v4(&mut own, null_mut(), 0, 1));
        same(own);
        let mut device = 9;
        ok(cuCtxGetDevice(&mut device));
        assert_eq!(device, 1);
        let mut popped = null_mut();
        ok(cuCtxPopCurrent_v2(&mut popped));
        assert_eq!(popped, own);
        same(primary);
        ok(cuCtxPushCurrent_v2(own));
        let mut p = 0;
        ok(cuMemAlloc_v2(&mut p, 4096));
        let (mut least, mut greatest) = (9, 9);
        ok(cuCtxGetStreamPriorityRange(&mut least, &mut greatest));
        assert!(least > greatest);
        ok(cuCtxSetLimit(CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, 12345));
        let mut v = 0;
        ok(cuCtxGetLimit(&mut v, CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE));
        assert_eq!(v, 12345);
        assert_eq!(cuCtxGetLimit(&mut v, CUlimit::CU_LIMIT_SHMEM_SIZE), CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT);
        // A destroyed context takes its memory along and can no longer be used.
        ok(cuCtxDestroy_v2(own));
        same(primary);
        assert_eq!(cuMemcpyDtoH_v2((&raw mut v).cast(), p, 4), INVALID);
        assert_eq!(cuCtxSetCurrent(own), CUresult::CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(cuCtxDestroy_v2(primary), CUresult::CUDA_ERROR_INVALID_CONTEXT);
        let (mut flags, mut active) = (9, 9);
        ok(cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
        assert_eq!((flags, active), (0, 1));
        ok(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), CUresult::CUDA_ERROR_INVALID_CONTEXT);
        same(null_mut());
        assert_eq!(cuCtxPopCurrent_v2(&mut popped), CUresult::CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(cuDeviceGet(&mut device, 2), CUresult::CUDA_ERROR_INVALID_DEVICE);
        assert_eq!(
            cuDeviceGetAttribute(&mut device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1),
            CUresult::CUDA_ERROR_INVALID_DEVICE
        );
        let mut name = [1u8; 8];
        ok(cuDeviceGetName(name.as_mut_ptr().cast(), 8, 0));
        assert_eq!(&name, b"NVIDIA \0");
        assert_eq!(cuCtxCreate_v4(&mut own, null_mut(), 3, 0), INVALID);
        let mut id = [0u8; 16];
        ok(cuDeviceGetPCIBusId(id.as_mut_ptr().cast(), 16, 1));
        ok(cuDeviceGetByPCIBusId(&mut device, id.as_ptr().cast()));
        assert_eq!(device, 1);
        let mut can = 0;
        ok(cuDeviceCanAccessPeer(&mut can, 0, 1));
        assert_eq!(can, 1);
    }
}
