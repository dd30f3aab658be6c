//! Graphs of explicit nodes: order, parameters, update.

mod driver_process;

use cudarc::driver::sys::{CUresult, *};
use driver_process::{function, isolated, load, ok, start, stream, word, words};
use std::ffi::c_void;
use std::ptr::null_mut;

const PTX: &str = concat!(include_str!("driver_data/kernels.ptx"), "\0");
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

fn fill(to: CUdeviceptr, value: u32) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS { dst: to, pitch: 0, value, elementSize: 4, width: 1, height: 1 }
}

fn copy(to: CUdeviceptr, from: CUdeviceptr) -> CUDA_MEMCPY3D {
    let device = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: device,
        srcHost: std::ptr::null(),
        srcDevice: from,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: 0,
        srcHeight: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: device,
        dstHost: null_mut(),
        dstDevice: to,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: 0,
        dstHeight: 0,
        WidthInBytes: 4,
        Height: 1,
        Depth: 1,
    }
}

unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: the tests pass a counter that outlives the graph.
    unsafe { *data.cast::<u32>() += 1 };
}

#[test]
fn explicit_nodes_run_in_the_order_of_their_edges() {
    if isolated("explicit_nodes_run_in_the_order_of_their_edges", &[]).is_some() {
        return;
    }
    start();
    let (p, q, s) = (words(1), words(1), stream());
    let mut calls = 0u32;
    // SAFETY: places of this function, which outlive the graph.
    unsafe {
        let mut g = null_mut();
        ok(cuGraphCreate(&mut g, 0));
        let (mut set, mut cp, mut host, mut over, mut empty) =
            (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
        ok(cuGraphAddEmptyNode(&mut empty, g, std::ptr::null(), 0));
        // The node that must run last is added before those that precede it.
        ok(cuGraphAddMemsetNode(&mut over, g, std::ptr::null(), 0, &fill(p, 99), null_mut()));
        ok(cuGraphAddMemsetNode(&mut set, g, &empty, 1, &fill(p, 5), null_mut()));
        ok(cuGraphAddMemcpyNode(&mut cp, g, &set, 1, &copy(q, p), null_mut()));
        let h = CUDA_HOST_NODE_PARAMS { fn_: Some(count), userData: (&raw mut calls).cast() };
        ok(cuGraphAddHostNode(&mut host, g, &cp, 1, &h));
        ok(cuGraphAddDependencies_v2(g, &cp, &over, std::ptr::null(), 1));
        assert_eq!(cuGraphAddDependencies_v2(g, &cp, &over, std::ptr::null(), 1), INVALID, "twice");
        let mut n = 0;
        ok(cuGraphGetNodes(g, null_mut(), &mut n));
        assert_eq!(n, 5);
        ok(cuGraphGetEdges_v2(g, null_mut(), null_mut(), null_mut(), &mut n));
        assert_eq!(n, 4);
        let (mut from, mut to) = ([null_mut(); 9], [null_mut(); 9]);
        n = 9;
        ok(cuGraphGetEdges_v2(g, from.as_mut_ptr(), to.as_mut_ptr(), null_mut(), &mut n));
        assert_eq!(n, 4);
        assert!((0..4).any(|i| (from[i], to[i]) == (cp, over)) && from[4].is_null());
        n = 0;
        ok(cuGraphNodeGetDependentNodes_v2(cp, null_mut(), null_mut(), &mut n));
        assert_eq!(n, 2);
        let mut roots = [null_mut(); 4];
        n = 4;
        ok(cuGraphGetRootNodes(g, roots.as_mut_ptr(), &mut n));
        assert_eq!((n, roots[0]), (1, empty));
        let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        ok(cuGraphNodeGetType(cp, &mut kind));
        assert_eq!(kind, CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY);
        let mut x = null_mut();
        ok(cuGraphInstantiateWithFlags(&mut x, g, 0));
        for k in 1..=3 {
            ok(cuGraphLaunch(x, s));
            assert_eq!((word(p), word(q), calls), (99, 5, k));
        }
        // New parameters in the executable, then in the graph with an update.
        ok(cuGraphExecMemsetNodeSetParams(x, set, &fill(p, 6), null_mut()));
        ok(cuGraphLaunch(x, s));
        assert_eq!(word(q), 6);
        ok(cuGraphMemsetNodeSetParams(set, &fill(p, 7)));
        let mut old = fill(0, 0);
        ok(cuGraphMemsetNodeGetParams(set, &mut old));
        assert_eq!((old.dst, old.value), (p, 7));
        let mut info: CUgraphExecUpdateResultInfo = std::mem::zeroed();
        ok(cuGraphExecUpdate_v2(x, g, &mut info));
        ok(cuGraphLaunch(x, s));
        assert_eq!(word(q), 7);
        ok(cuGraphNodeSetEnabled(x, over, 0));
        ok(cuGraphLaunch(x, s));
        assert_eq!(word(p), 7);
        assert_eq!(cuGraphNodeSetEnabled(x, host, 0), INVALID);
        // A cycle cannot be instantiated, a changed shape not taken over.
        ok(cuGraphAddDependencies_v2(g, &over, &empty, std::ptr::null(), 1));
        let mut y = null_mut();
        assert_eq!(cuGraphInstantiateWithFlags(&mut y, g, 0), INVALID);
        ok(cuGraphRemoveDependencies_v2(g, &over, &empty, std::ptr::null(), 1));
        ok(cuGraphDestroyNode(host));
        assert_eq!(cuGraphExecUpdate_v2(x, g, &mut info), CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        assert_eq!(info.result, CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
        // A child graph, and a copy of a graph.
        let (mut parent, mut child, mut copied) = (null_mut(), null_mut(), null_mut());
        ok(cuGraphCreate(&mut parent, 0));
        ok(cuGraphAddChildGraphNode(&mut child, parent, std::ptr::null(), 0, g));
        ok(cuGraphClone(&mut copied, parent));
        ok(cuGraphDestroy(parent));
        ok(cuGraphInstantiateWithFlags(&mut y, copied, 0));
        ok(cuMemsetD32_v2(q, 0, 1));
        ok(cuGraphLaunch(y, s));
        assert_eq!((word(p), word(q)), (99, 7));
        assert_eq!(cuGraphDestroy(parent), INVALID);
        ok(cuGraphExecDestroy(x));
        assert_eq!(cuGraphLaunch(x, s), INVALID);
        assert_eq!(cuGraphAddEmptyNode(&mut empty, g, &child, 1), INVALID, "a node of another graph");
    }
}

#[test]
fn kernel_nodes_keep_and_change_their_arguments() {
    if isolated("kernel_nodes_keep_and_change_their_arguments", &[]).is_some() {
        return;
    }
    start();
    let (p, q, s) = (words(4), words(4), stream());
    // SAFETY: places of this function.
    unsafe {
        let f = function(load(PTX.as_bytes()), c"add_counter");
        let mut target = p;
        let mut pointers = [(&raw mut target).cast::<c_void>()];
        let mut k: CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        (k.func, k.gridDimX, k.gridDimY, k.gridDimZ) = (f, 1, 1, 1);
        (k.blockDimX, k.blockDimY, k.blockDimZ, k.kernelParams) = (32, 1, 1, pointers.as_mut_ptr());
        let (mut g, mut node, mut x) = (null_mut(), null_mut(), null_mut());
        ok(cuGraphCreate(&mut g, 0));
        ok(cuGraphAddKernelNode_v2(&mut node, g, std::ptr::null(), 0, &k));
        // The node has its own copy of the arguments.
        *pointers[0].cast::<u64>() = 0;
        ok(cuGraphInstantiateWithFlags(&mut x, g, 0));
        ok(cuGraphLaunch(x, s));
        assert_eq!(word(p), 15);
        let mut now: CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        ok(cuGraphKernelNodeGetParams_v2(node, &mut now));
        assert_eq!((now.func, now.blockDimX), (f, 32));
        assert_eq!(*(*now.kernelParams).cast::<u64>(), p);
        *pointers[0].cast::<u64>() = q;
        ok(cuGraphExecKernelNodeSetParams_v2(x, node, &k));
        ok(cuGraphLaunch(x, s));
        assert_eq!(word(q), 15);
        k.blockDimX = 2000;
        assert_eq!(cuGraphKernelNodeSetParams_v2(node, &k), INVALID);
    }
}

#[test]
fn cluster_attributes_of_kernel_nodes() {
    if isolated("cluster_attributes_of_kernel_nodes", &[]).is_some() {
        return;
    }
    start();
    let (p, s) = (words(8), stream());
    // SAFETY: places of this function.
    unsafe {
        let f = function(load(PTX.as_bytes()), c"bounded");
        let mut target = p;
        let mut pointers = [(&raw mut target).cast::<c_void>()];
        let mut k: CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        (k.func, k.gridDimX, k.gridDimY, k.gridDimZ) = (f, 4, 1, 1);
        (k.blockDimX, k.blockDimY, k.blockDimZ, k.kernelParams) = (2, 1, 1, pointers.as_mut_ptr());
        let (mut g, mut node, mut other, mut x) = (null_mut(), null_mut(), null_mut(), null_mut());
        ok(cuGraphCreate(&mut g, 0));
        ok(cuGraphAddKernelNode_v2(&mut node, g, std::ptr::null(), 0, &k));
        ok(cuGraphAddKernelNode_v2(&mut other, g, &node, 1, &k));
        const CLUSTER: CUlaunchAttributeID = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        let mut value: CUlaunchAttributeValue = std::mem::zeroed();
        value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x: 2, y: 1, z: 1 };
        ok(cuGraphKernelNodeSetAttribute(node, CLUSTER, &value));
        ok(cuGraphKernelNodeCopyAttributes(other, node));
        value.clusterDim.x = 3;
        assert_eq!(cuGraphKernelNodeSetAttribute(node, CLUSTER, &value), CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
        ok(cuGraphKernelNodeGetAttribute(other, CLUSTER, &mut value));
        assert_eq!(value.clusterDim.x, 2);
        ok(cuGraphInstantiateWithFlags(&mut x, g, 0));
        ok(cuGraphLaunch(x, s));
        assert_eq!((0..8).map(|i| word(p + 4 * i)).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 3]);
    }
}

#[test]
fn values_in_streams() {
    let me = "values_in_streams";
    if isolated(me, &[]).is_some() {
        return;
    }
    start();
    let (p, s) = (words(4), stream());
    // SAFETY: device addresses and places of this function.
    unsafe {
        ok(cuStreamWriteValue32_v2(s, p, 7, 0));
        ok(cuStreamWaitValue32_v2(s, p, 7, 1));
        ok(cuStreamWaitValue32_v2(s, p, 5, 0));
        ok(cuStreamWriteValue64_v2(s, p + 8, 1 << 40, 0));
        ok(cuStreamWaitValue64_v2(s, p + 8, 1 << 40, 2));
        assert_eq!((word(p), word(p + 12)), (7, 256));
        assert_eq!(cuStreamWriteValue64_v2(s, p + 4, 1, 0), INVALID);
        assert_eq!(cuStreamWriteValue32_v2(s, p, 1, 2), INVALID);
        assert_eq!(cuStreamWaitValue32_v2(s, 4096, 1, 0), INVALID);
        // Another thread satisfies a wait.
        let waiting = std::thread::spawn(move || {
            start();
            std::thread::sleep(std::time::Duration::from_millis(20));
            ok(cuMemsetD32_v2(p, 9, 1));
        });
        ok(cuStreamWaitValue32_v2(s, p, 9, 1));
        waiting.join().unwrap();
        // Copies in a batch.
        let (mut to, mut from, mut bytes) = ([p, p + 4], [p + 8, p + 12], [4usize, 4]);
        ok(cuMemcpyBatchAsync_v2(
            to.as_mut_ptr(),
            from.as_mut_ptr(),
            bytes.as_mut_ptr(),
            2,
            null_mut(),
            null_mut(),
            0,
            s,
        ));
        assert_eq!((word(p), word(p + 4)), (0, 256));
        assert_eq!(
            cuMemcpyBatchAsync_v2(
                to.as_mut_ptr(),
                from.as_mut_ptr(),
                bytes.as_mut_ptr(),
                0,
                null_mut(),
                null_mut(),
                0,
                s
            ),
            INVALID
        );
    }
}
