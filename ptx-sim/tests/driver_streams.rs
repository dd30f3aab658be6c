//! Streams, events and peers: properties, and arguments that are refused.

mod driver_process;

use cudarc::driver::sys::{CUresult, *};
use driver_process::{event, isolated, ok, start, stream, words};
use std::ffi::c_void;
use std::ptr::null_mut;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const HANDLE: CUresult = CUresult::CUDA_ERROR_INVALID_HANDLE;

#[test]
fn streams_have_properties() {
    if isolated("streams_have_properties", &[]).is_some() {
        return;
    }
    let context = start();
    // SAFETY: places of this function and handles of this test.
    unsafe {
        let (mut s, mut t) = (null_mut(), null_mut());
        ok(cuStreamCreateWithPriority(&mut s, 1, -100));
        ok(cuStreamCreateWithPriority(&mut t, 0, 100));
        let (mut p, mut flags, mut a, mut b, mut c) = (9, 9, 0, 0, null_mut());
        ok(cuStreamGetPriority(s, &mut p));
        ok(cuStreamGetFlags(s, &mut flags));
        assert_eq!((p, flags), (-5, 1));
        ok(cuStreamGetPriority(t, &mut p));
        assert_eq!(p, 0);
        ok(cuStreamGetId(s, &mut a));
        ok(cuStreamGetId(t, &mut b));
        assert_ne!(a, b);
        ok(cuStreamGetCtx(s, &mut c));
        assert_eq!(c, context);
        ok(cuStreamQuery(s));
        ok(cuStreamDestroy_v2(s));
        assert_eq!(cuStreamDestroy_v2(s), HANDLE);
        assert_eq!(cuStreamSynchronize(s), HANDLE);
        assert_eq!(cuStreamCreate(&mut s, 2), INVALID);
        assert_eq!(cuStreamCreate(null_mut(), 0), INVALID);
        assert_eq!(cuStreamDestroy_v2(null_mut()), HANDLE);
        // The special handles mean the default stream.
        for special in [0usize, 1, 2] {
            ok(cuStreamSynchronize(special as CUstream));
        }
        assert_eq!(cuLaunchHostFunc(t, None, null_mut()), INVALID);
        assert_eq!(cuStreamAddCallback(t, None, null_mut(), 0), INVALID);
        let mut called = 0i32;
        ok(cuStreamAddCallback(t, Some(note), (&raw mut called).cast(), 0));
        assert_eq!(called, 1);
    }
}

unsafe extern "C" fn note(_: CUstream, status: CUresult, data: *mut c_void) {
    assert_eq!(status, CUresult::CUDA_SUCCESS);
    // SAFETY: the test passes a counter.
    unsafe { *data.cast::<i32>() += 1 };
}

#[test]
fn events_refuse_what_they_cannot_do() {
    if isolated("events_refuse_what_they_cannot_do", &[("LIGHTNING_SIM_DEVICES", "2")]).is_some() {
        return;
    }
    let primary = start();
    let (s, e) = (stream(), event());
    // SAFETY: places of this function and handles of this test.
    unsafe {
        let mut timed = null_mut();
        let mut ms = 0f32;
        assert_eq!(cuEventCreate(&mut timed, 8), INVALID);
        assert_eq!(cuEventCreate(&mut timed, 4), INVALID, "between processes, with timing");
        ok(cuEventCreate(&mut timed, 0));
        assert_eq!(cuEventElapsedTime_v2(&mut ms, timed, timed), HANDLE, "not recorded");
        ok(cuEventRecord(timed, s));
        ok(cuEventElapsedTime_v2(&mut ms, timed, timed));
        assert!(ms.is_nan());
        assert_eq!(cuEventElapsedTime_v2(null_mut(), timed, timed), INVALID);
        ok(cuEventRecord(e, s));
        assert_eq!(cuEventElapsedTime_v2(&mut ms, timed, e), HANDLE, "no timing");
        assert_eq!(cuEventRecordWithFlags(e, s, 2), INVALID);
        assert_eq!(cuEventRecordWithFlags(e, s, 1), INVALID, "external outside a capture");
        assert_eq!(cuStreamWaitEvent(s, e, 2), INVALID);
        assert_eq!(cuStreamWaitEvent(s, null_mut(), 0), HANDLE);
        // An event belongs to a context; a stream of any context may wait for it.
        let mut other = null_mut();
        ok(cuCtxCreate_v4(&mut other, null_mut(), 0, 1));
        let foreign = stream();
        assert_eq!(cuEventRecord(e, foreign), HANDLE);
        ok(cuStreamWaitEvent(foreign, e, 0));
        // Peers.
        ok(cuCtxEnablePeerAccess(primary, 0));
        assert_eq!(cuCtxEnablePeerAccess(primary, 0), CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        assert_eq!(cuCtxEnablePeerAccess(other, 0), CUresult::CUDA_ERROR_INVALID_DEVICE);
        ok(cuCtxDisablePeerAccess(primary));
        assert_eq!(cuCtxDisablePeerAccess(primary), CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
        let q = words(1);
        ok(cuCtxPopCurrent_v2(&mut other));
        let p = words(1);
        ok(cuMemcpyPeer(p, primary, q, other, 4));
        assert_eq!(cuMemcpyPeer(p, primary, q, null_mut(), 4), CUresult::CUDA_ERROR_INVALID_CONTEXT);
        ok(cuEventDestroy_v2(e));
        assert_eq!(cuEventDestroy_v2(e), HANDLE);
        assert_eq!(cuEventQuery(e), HANDLE);
    }
}
