//! An unmodified `cudarc` program on the library: contexts, modules, launches, streams, events, pools, graphs, devices.

mod driver_process;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use driver_process::isolated;

const PTX: &str = include_str!("driver_data/kernels.ptx");
const LZ4: &[u8] = include_bytes!("driver_data/kernels_lz4.fatbin");
const ZSTD: &[u8] = include_bytes!("driver_data/kernels_zstd.fatbin");

fn config(grid: u32, block: u32, shared: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (block, 1, 1), shared_mem_bytes: shared }
}

#[test]
fn devices_report_what_they_pretend_to_be() {
    for (arch, name, bus) in [("h100", "NVIDIA H100 80GB HBM3", 5120), ("h200", "NVIDIA H200", 6144)] {
        let variables = [("LIGHTNING_SIM_ARCH", arch), ("LIGHTNING_SIM_DEVICES", "3"), ("LIGHTNING_SIM_MEMORY", "2G")];
        let me = "devices_report_what_they_pretend_to_be";
        if driver_process::child(me, &variables).is_none() {
            let (arch, name, bus) = match std::env::var("LIGHTNING_SIM_ARCH").as_deref() {
                Ok("h200") => ("h200", "NVIDIA H200", 6144),
                _ => (arch, name, bus),
            };
            assert!(!arch.is_empty());
            assert_eq!(CudaContext::device_count().unwrap(), 3);
            let ctx = CudaContext::new(2).unwrap();
            assert_eq!(ctx.name().unwrap(), name);
            assert_eq!(ctx.compute_capability().unwrap(), (9, 0));
            assert_eq!(ctx.total_mem().unwrap(), 2 << 30);
            let a = |n| ctx.attribute(n).unwrap();
            assert_eq!(a(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
            assert_eq!(a(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 227 << 10);
            assert_eq!(a(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH), bus);
            assert_eq!(a(Attribute::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED), 1);
            assert_ne!(ctx.uuid().unwrap(), CudaContext::new(0).unwrap().uuid().unwrap());
            return;
        }
        let output = driver_process::child(me, &variables).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn kernels_compute_what_the_host_computes() {
    if isolated("kernels_compute_what_the_host_computes", &[]).is_some() {
        return;
    }
    let ctx = CudaContext::new(0).unwrap();
    let stream = ctx.new_stream().unwrap();
    for image in [Ptx::from_src(PTX), Ptx::from_binary(LZ4.to_vec()), Ptx::from_binary(ZSTD.to_vec())] {
        let module = ctx.load_module(image).unwrap();
        let saxpy = module.load_function("saxpy").unwrap();
        for n in [1u32, 31, 33, 1000] {
            let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.5 - 7.0).collect();
            let y: Vec<f32> = (0..n).map(|i| 3.0 - i as f32).collect();
            let (dx, mut dy) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&y).unwrap());
            let a = 1.25f32;
            // SAFETY: the arguments are those of the kernel, and the slices hold `n` elements.
            unsafe {
                stream
                    .launch_builder(&saxpy)
                    .arg(&n)
                    .arg(&a)
                    .arg(&dx)
                    .arg(&mut dy)
                    .launch(config(n.div_ceil(128), 128, 0))
                    .unwrap()
            };
            let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a.mul_add(*x, *y)).collect();
            assert_eq!(stream.clone_dtoh(&dy).unwrap(), want);
        }
        let counter = module.load_function("add_counter").unwrap();
        let mut out = stream.alloc_zeros::<u32>(1).unwrap();
        // SAFETY: the kernel writes one element.
        unsafe { stream.launch_builder(&counter).arg(&mut out).launch(config(1, 32, 0)).unwrap() };
        assert_eq!(stream.clone_dtoh(&out).unwrap(), [15]);
        let global = module.get_global("counter", &stream).unwrap();
        assert_eq!(global.len(), 4);
        let reverse = module.load_function("reverse_in_shared").unwrap();
        let mut data = stream.clone_htod(&(0..96u32).collect::<Vec<_>>()).unwrap();
        // SAFETY: one block of 96 threads with four bytes of shared memory each.
        unsafe { stream.launch_builder(&reverse).arg(&mut data).launch(config(1, 96, 96 * 4)).unwrap() };
        assert_eq!(stream.clone_dtoh(&data).unwrap(), (0..96u32).rev().collect::<Vec<_>>());
        let clustered = module.load_function("clustered").unwrap();
        let mut ranks = stream.alloc_zeros::<u32>(6).unwrap();
        // SAFETY: six blocks write one element each.
        unsafe { stream.launch_builder(&clustered).arg(&mut ranks).launch(config(6, 32, 0)).unwrap() };
        assert_eq!(stream.clone_dtoh(&ranks).unwrap(), [0, 1, 0, 1, 0, 1]);
    }
    stream.synchronize().unwrap();
    ctx.check_err().unwrap();
}

#[test]
fn streams_events_and_host_functions_keep_their_order() {
    if isolated("streams_events_and_host_functions_keep_their_order", &[]).is_some() {
        return;
    }
    let ctx = CudaContext::new(0).unwrap();
    let (a, b) = (ctx.new_stream().unwrap(), ctx.new_stream().unwrap());
    let module = ctx.load_module(Ptx::from_src(PTX)).unwrap();
    let saxpy = module.load_function("saxpy").unwrap();
    let n = 100u32;
    let x = a.clone_htod(&vec![1.0f32; 100]).unwrap();
    let mut y = a.alloc_zeros::<f32>(100).unwrap();
    for s in [&a, &b, &a] {
        // SAFETY: the arguments are those of the kernel; streams are ordered by the slices' events.
        unsafe { s.launch_builder(&saxpy).arg(&n).arg(&2.0f32).arg(&x).arg(&mut y).launch(config(1, 128, 0)).unwrap() };
    }
    let start = a.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
    b.wait(&start).unwrap();
    let end = b.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
    assert!(end.is_complete());
    assert!(start.elapsed_ms(&end).unwrap().is_nan());
    let plain = b.record_event(None).unwrap();
    assert_eq!(start.elapsed_ms(&plain).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_HANDLE);
    let (send, receive) = std::sync::mpsc::channel::<i32>();
    // SAFETY: the function owns its sender.
    unsafe {
        cudarc::driver::result::stream::launch_host_function(
            b.cu_stream(),
            set_flag,
            (&raw const send).cast_mut().cast(),
        )
        .unwrap()
    };
    assert_eq!(receive.recv().unwrap(), 42);
    assert_eq!(b.clone_dtoh(&y).unwrap(), vec![6.0; 100]);
}

unsafe extern "C" fn set_flag(data: *mut std::ffi::c_void) {
    // SAFETY: the test passes a sender that lives until the value has arrived.
    let send = unsafe { &*data.cast::<std::sync::mpsc::Sender<i32>>() };
    send.send(42).unwrap();
}

#[test]
fn a_captured_graph_repeats_its_work() {
    if isolated("a_captured_graph_repeats_its_work", &[]).is_some() {
        return;
    }
    let ctx = CudaContext::new(0).unwrap();
    // SAFETY: everything in this test runs on one stream.
    unsafe { ctx.disable_event_tracking() };
    let stream = ctx.new_stream().unwrap();
    let module = ctx.load_module(Ptx::from_src(PTX)).unwrap();
    let saxpy = module.load_function("saxpy").unwrap();
    let n = 50u32;
    let x = stream.clone_htod(&vec![1.0f32; 50]).unwrap();
    let mut y = stream.alloc_zeros::<f32>(50).unwrap();
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    assert_eq!(stream.capture_status().unwrap(), sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    for _ in 0..3 {
        // SAFETY: the arguments are those of the kernel.
        unsafe {
            stream.launch_builder(&saxpy).arg(&n).arg(&1.0f32).arg(&x).arg(&mut y).launch(config(1, 64, 0)).unwrap()
        };
    }
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap().unwrap();
    assert_eq!(stream.clone_dtoh(&y).unwrap(), vec![0.0; 50]);
    graph.upload().unwrap();
    for k in 1..4 {
        graph.launch().unwrap();
        assert_eq!(stream.clone_dtoh(&y).unwrap(), vec![3.0 * k as f32; 50]);
    }
}

#[test]
fn memory_is_counted_and_can_run_out() {
    if isolated("memory_is_counted_and_can_run_out", &[("LIGHTNING_SIM_MEMORY", "64M")]).is_some() {
        return;
    }
    let ctx = CudaContext::new(0).unwrap();
    let stream = ctx.default_stream();
    assert!(ctx.has_async_alloc());
    let (free, total) = ctx.mem_get_info().unwrap();
    assert_eq!((free, total), (64 << 20, 64 << 20));
    let half = stream.alloc_zeros::<u8>(32 << 20).unwrap();
    assert_eq!(ctx.mem_get_info().unwrap().0, 32 << 20);
    let error = stream.alloc_zeros::<u8>(40 << 20).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    drop(half);
    assert_eq!(ctx.mem_get_info().unwrap().0, 64 << 20);
    // SAFETY: the memory is written before it is read.
    let mut pinned = unsafe { ctx.alloc_pinned::<u32>(1000).unwrap() };
    pinned.as_mut_slice().unwrap().copy_from_slice(&(0..1000).collect::<Vec<u32>>());
    let d = stream.clone_htod(&pinned).unwrap();
    let copy = stream.clone_dtod(&d).unwrap();
    assert_eq!(stream.clone_dtoh(&copy).unwrap(), (0..1000).collect::<Vec<u32>>());
}

#[test]
fn peers_share_memory() {
    if isolated("peers_share_memory", &[("LIGHTNING_SIM_DEVICES", "2")]).is_some() {
        return;
    }
    let (a, b) = (CudaContext::new(0).unwrap(), CudaContext::new(1).unwrap());
    let (sa, sb) = (a.default_stream(), b.default_stream());
    let x = sa.clone_htod(&[1.5f32; 64]).unwrap();
    let mut y = sb.alloc_zeros::<f32>(64).unwrap();
    sb.memcpy_dtod(&x, &mut y).unwrap();
    let module = b.load_module(Ptx::from_src(PTX)).unwrap();
    let saxpy = module.load_function("saxpy").unwrap();
    // SAFETY: the arguments are those of the kernel; `x` lies on the other device, which any device may read.
    unsafe { sb.launch_builder(&saxpy).arg(&64u32).arg(&1.0f32).arg(&x).arg(&mut y).launch(config(1, 64, 0)).unwrap() };
    assert_eq!(sb.clone_dtoh(&y).unwrap(), vec![3.0f32; 64]);
}

#[test]
fn a_kernel_fault_is_told_once_and_loses_the_context() {
    let me = "a_kernel_fault_is_told_once_and_loses_the_context";
    if let Some(err) = isolated(me, &[]) {
        assert_eq!(err.matches("kernel write_at with grid (1, 1, 1)").count(), 1, "{err}");
        assert!(err.contains("kernels.cu:33") && err.contains("PTX line"), "{err}");
        assert!(err.contains("context of device 0 is lost"), "{err}");
        return;
    }
    let ctx = CudaContext::new(0).unwrap();
    let stream = ctx.new_stream().unwrap();
    let module = ctx.load_module(Ptx::from_src(PTX)).unwrap();
    let f = module.load_function("write_at").unwrap();
    let mut out = stream.alloc_zeros::<u32>(4).unwrap();
    // SAFETY: the index is outside on purpose; the virtual device refuses the access.
    let launched = unsafe { stream.launch_builder(&f).arg(&mut out).arg(&1000i64).launch(config(1, 1, 0)) };
    let lost = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    // The launch itself succeeds; `cudarc` then records an event, which already reports the fault.
    assert_eq!(launched.err().map(|e| e.0), Some(lost));
    assert_eq!(stream.synchronize().unwrap_err().0, lost);
    assert_eq!(ctx.synchronize().unwrap_err().0, lost);
    assert_eq!(ctx.mem_get_info().unwrap_err().0, lost);
    assert_eq!(stream.alloc_zeros::<u32>(1).unwrap_err().0, lost);
    // After a reset the device can be used again.
    // SAFETY: the old context's objects are leaked, so nothing of it is used after the reset.
    unsafe {
        std::mem::forget((out, f, module));
        sys::cuDevicePrimaryCtxReset_v2(0).result().unwrap();
    }
    std::mem::forget((stream, ctx));
    let again = CudaContext::new(0).unwrap();
    again.default_stream().clone_htod(&[1u8, 2, 3]).unwrap();
}

#[test]
fn a_trap_and_a_misaligned_access_have_their_own_codes() {
    if isolated("a_trap_and_a_misaligned_access_have_their_own_codes", &[("LIGHTNING_SIM_DEVICES", "2")]).is_some() {
        return;
    }
    for (device, name) in [(0, "stop"), (1, "write_at")] {
        let ctx = CudaContext::new(device).unwrap();
        let stream = ctx.new_stream().unwrap();
        let module = ctx.load_module(Ptx::from_src(PTX)).unwrap();
        let f = module.load_function(name).unwrap();
        let out = stream.alloc_zeros::<u32>(4).unwrap();
        let odd = {
            use cudarc::driver::DevicePtr;
            out.device_ptr(&stream).0 + 2
        };
        let mut launch = stream.launch_builder(&f);
        if name == "write_at" {
            launch.arg(&odd).arg(&0i64);
        }
        // SAFETY: the kernels fail on purpose.
        let launched = unsafe { launch.launch(config(1, 32, 0)) };
        let want =
            if name == "stop" { CUresult::CUDA_ERROR_LAUNCH_FAILED } else { CUresult::CUDA_ERROR_MISALIGNED_ADDRESS };
        assert!(launched.is_ok() || launched.is_err_and(|e| e.0 == want));
        assert_eq!(stream.synchronize().unwrap_err().0, want);
        std::mem::forget((out, f, module, stream, ctx));
    }
}

#[test]
fn counts_go_to_the_file_that_is_named() {
    let me = "counts_go_to_the_file_that_is_named";
    let file = std::env::temp_dir().join(format!("ptx-sim-counts-{}.jsonl", std::process::id()));
    let variables = [("LIGHTNING_SIM_COUNTS_FILE", file.to_str().unwrap())];
    if isolated(me, &variables).is_some() {
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        for (line, n) in lines.iter().zip([1, 3]) {
            assert!(
                line.starts_with(&format!(
                    "{{\"kernel\":\"saxpy\",\"device\":0,\"grid\":[{n},1,1],\"block\":[64,1,1],\"counts\":{{"
                )),
                "{line}"
            );
            assert!(line.ends_with("}}") && line.contains("thread_instructions"), "{line}");
        }
        return;
    }
    let ctx = CudaContext::new(0).unwrap();
    let stream = ctx.new_stream().unwrap();
    let module = ctx.load_module(Ptx::from_src(PTX)).unwrap();
    let saxpy = module.load_function("saxpy").unwrap();
    let x = stream.clone_htod(&[1.0f32; 150]).unwrap();
    let mut y = stream.alloc_zeros::<f32>(150).unwrap();
    for n in [40u32, 150] {
        // SAFETY: the arguments are those of the kernel.
        unsafe {
            stream
                .launch_builder(&saxpy)
                .arg(&n)
                .arg(&1.0f32)
                .arg(&x)
                .arg(&mut y)
                .launch(config(n.div_ceil(64), 64, 0))
                .unwrap()
        };
    }
}
