//! Capture over several streams, and the errors of capture.

mod driver_process;

use cudarc::driver::sys::{CUresult, CUstreamCaptureMode as Mode, *};
use driver_process::{event, isolated, ok, start, stream, word, words};
use std::ffi::c_void;
use std::ptr::null_mut;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn capture_follows_events_to_other_streams() {
    if isolated("capture_follows_events_to_other_streams", &[]).is_some() {
        return;
    }
    start();
    let (a, b, fork, back) = (stream(), stream(), event(), event());
    let p = words(4);
    // SAFETY: places of this function.
    unsafe {
        ok(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL));
        ok(cuMemsetD32Async(p, 1, 1, a));
        ok(cuEventRecord(fork, a));
        ok(cuStreamWaitEvent(b, fork, 0));
        ok(cuMemcpyDtoDAsync_v2(p + 4, p, 4, b));
        ok(cuMemsetD32Async(p + 8, 3, 1, a));
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        ok(cuStreamIsCapturing(b, &mut status));
        assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        ok(cuEventRecord(back, b));
        ok(cuStreamWaitEvent(a, back, 0));
        ok(cuMemcpyDtoDAsync_v2(p + 12, p + 4, 4, a));
        let (mut id, mut inner, mut deps, mut edges, mut n) = (0, null_mut(), std::ptr::null(), std::ptr::null(), 0);
        ok(cuStreamGetCaptureInfo_v3(a, &mut status, &mut id, &mut inner, &mut deps, &mut edges, &mut n));
        assert_eq!((n, deps.is_null()), (1, false));
        let mut g = null_mut();
        ok(cuStreamEndCapture(a, &mut g));
        assert_eq!(g, inner);
        assert_eq!([0, 4, 8, 12].map(|o| word(p + o)), [0; 4]);
        ok(cuGraphGetEdges_v2(g, null_mut(), null_mut(), null_mut(), &mut n));
        assert_eq!(n, 4);
        let mut x = null_mut();
        ok(cuGraphInstantiateWithFlags(&mut x, g, 0));
        ok(cuGraphLaunch(x, b));
        assert_eq!([0, 4, 8, 12].map(|o| word(p + o)), [1, 1, 3, 1]);
        ok(cuStreamIsCapturing(b, &mut status));
        assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
        // Memory allocated in a capture has a fixed address that lives with the graph.
        ok(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_RELAXED));
        let mut t = 0;
        ok(cuMemAllocAsync(&mut t, 4, a));
        ok(cuMemsetD32Async(t, 8, 1, a));
        ok(cuMemcpyDtoDAsync_v2(p, t, 4, a));
        ok(cuMemFreeAsync(t, a));
        ok(cuStreamEndCapture(a, &mut g));
        ok(cuGraphInstantiateWithFlags(&mut x, g, 0));
        ok(cuGraphDestroy(g));
        for _ in 0..2 {
            ok(cuMemsetD32_v2(p, 0, 1));
            ok(cuGraphLaunch(x, a));
            assert_eq!(word(p), 8);
        }
        ok(cuGraphExecDestroy(x));
        assert_eq!(cuMemsetD32_v2(t, 1, 1), INVALID);
    }
}

/// What must fail during a capture, with the code that it must fail with.
type Mistake = (&'static str, fn(CUstream, CUstream) -> CUresult, CUresult);

#[test]
fn mistakes_during_capture_have_their_codes_and_invalidate_it() {
    if isolated("mistakes_during_capture_have_their_codes_and_invalidate_it", &[]).is_some() {
        return;
    }
    start();
    const UNSUPPORTED: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    let mistakes: Vec<Mistake> = vec![
        (
            "synchronise",
            |a, _| {
                // SAFETY: a live stream.
                unsafe { cuStreamSynchronize(a) }
            },
            UNSUPPORTED,
        ),
        (
            "query",
            |a, _| {
                // SAFETY: a live stream.
                unsafe { cuStreamQuery(a) }
            },
            UNSUPPORTED,
        ),
        (
            "context",
            |_, _| {
                // SAFETY: no arguments.
                unsafe { cuCtxSynchronize() }
            },
            UNSUPPORTED,
        ),
        (
            "allocate",
            |_, _| {
                // SAFETY: a place of the closure.
                unsafe { cuMemAlloc_v2(&mut 0, 4) }
            },
            UNSUPPORTED,
        ),
        (
            "synchronous fill",
            |_, _| {
                // SAFETY: an address that is refused before it is used.
                unsafe { cuMemsetD8_v2(1 << 44, 0, 1) }
            },
            UNSUPPORTED,
        ),
        (
            "callback",
            |a, _| {
                // SAFETY: a live stream and a function.
                unsafe { cuStreamAddCallback(a, Some(ignore), null_mut(), 0) }
            },
            UNSUPPORTED,
        ),
        (
            "captured event",
            |a, _| {
                let e = event();
                // SAFETY: live handles.
                unsafe {
                    ok(cuEventRecord(e, a));
                    cuEventSynchronize(e)
                }
            },
            CUresult::CUDA_ERROR_CAPTURED_EVENT,
        ),
        (
            "outside event",
            |a, b| {
                let e = event();
                // SAFETY: live handles.
                unsafe {
                    ok(cuEventRecord(e, b));
                    cuStreamWaitEvent(a, e, 0)
                }
            },
            CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
        ),
        (
            "two captures",
            |a, b| {
                let e = event();
                // SAFETY: live handles.
                unsafe {
                    ok(cuStreamBeginCapture_v2(b, Mode::CU_STREAM_CAPTURE_MODE_RELAXED));
                    ok(cuEventRecord(e, b));
                    let r = cuStreamWaitEvent(a, e, 0);
                    cuStreamEndCapture(b, &mut null_mut());
                    r
                }
            },
            CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE,
        ),
    ];
    let p = words(1);
    for (name, mistake, code) in mistakes {
        let (a, b) = (stream(), stream());
        // SAFETY: places of this function, live handles.
        unsafe {
            ok(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL));
            ok(cuMemsetD32Async(p, 1, 1, a));
            assert_eq!(mistake(a, b), code, "{name}");
            let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
            ok(cuStreamIsCapturing(a, &mut status));
            assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED, "{name}");
            assert_eq!(cuMemsetD32Async(p, 1, 1, a), CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "{name}");
            let mut g: CUgraph = std::ptr::dangling_mut();
            assert_eq!(cuStreamEndCapture(a, &mut g), CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "{name}");
            assert!(g.is_null());
            ok(cuMemsetD32Async(p, 2, 1, a));
            ok(cuStreamSynchronize(a));
        }
    }
}

unsafe extern "C" fn ignore(_: CUstream, _: CUresult, _: *mut c_void) {}

#[test]
fn ends_of_captures() {
    if isolated("ends_of_captures", &[]).is_some() {
        return;
    }
    start();
    let (a, b, e) = (stream(), stream(), event());
    let mut blocking = null_mut();
    let p = words(2);
    // SAFETY: places of this function, live handles.
    unsafe {
        let mut g = null_mut();
        assert_eq!(cuStreamEndCapture(a, &mut g), CUresult::CUDA_ERROR_ILLEGAL_STATE);
        assert_eq!(
            cuStreamBeginCapture_v2(null_mut(), Mode::CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        );
        // Work on a forked stream that was not joined.
        ok(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL));
        assert_eq!(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL), CUresult::CUDA_ERROR_ILLEGAL_STATE);
        ok(cuMemsetD32Async(p, 1, 1, a));
        ok(cuEventRecord(e, a));
        ok(cuStreamWaitEvent(b, e, 0));
        ok(cuMemsetD32Async(p, 2, 1, b));
        assert_eq!(cuStreamEndCapture(a, &mut g), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        // The end on another stream than the beginning.
        ok(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL));
        ok(cuEventRecord(e, a));
        ok(cuStreamWaitEvent(b, e, 0));
        assert_eq!(cuStreamEndCapture(b, &mut g), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        assert_eq!(cuStreamEndCapture(a, &mut g), CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        // Another thread.
        ok(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        let handle = a as usize;
        let other = std::thread::spawn(move || {
            // The primary context is retained by the main thread.
            let mut c = null_mut();
            ok(cuDevicePrimaryCtxRetain(&mut c, 0));
            ok(cuCtxSetCurrent(c));
            let mut unrelated = 0;
            ok(cuMemAlloc_v2(&mut unrelated, 4));
            cuStreamEndCapture(handle as CUstream, &mut null_mut())
        });
        assert_eq!(other.join().unwrap(), CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        ok(cuStreamEndCapture(a, &mut g));
        // The legacy stream and a capturing blocking stream.
        ok(cuStreamCreate(&mut blocking, 0));
        ok(cuStreamBeginCapture_v2(blocking, Mode::CU_STREAM_CAPTURE_MODE_RELAXED));
        assert_eq!(cuMemsetD32Async(p, 1, 1, null_mut()), CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        assert_eq!(cuStreamEndCapture(blocking, &mut g), CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        // In relaxed mode allocations are allowed; a thread may relax itself.
        ok(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL));
        let mut mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
        ok(cuThreadExchangeStreamCaptureMode(&mut mode));
        assert_eq!(mode, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL);
        let mut q = 0;
        ok(cuMemAlloc_v2(&mut q, 4));
        ok(cuStreamEndCapture(a, &mut g));
        // External events are nodes.
        ok(cuStreamBeginCapture_v2(a, Mode::CU_STREAM_CAPTURE_MODE_RELAXED));
        ok(cuStreamWaitEvent(a, e, 1));
        ok(cuEventRecordWithFlags(e, a, 1));
        ok(cuStreamEndCapture(a, &mut g));
        let mut n = 0;
        ok(cuGraphGetNodes(g, null_mut(), &mut n));
        assert_eq!(n, 2);
    }
}
