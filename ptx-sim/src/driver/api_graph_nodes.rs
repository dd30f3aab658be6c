//! Nodes of graphs: adding them, reading and changing their parameters, in graphs and in executables.

use super::api_copy::{Memcpy3D, strided};
use super::api_fill::fill;
use super::api_graph::{exec, graph, graph_of};
use super::api_stream::EdgeData;
use super::graph::{compatible, node_type};
use super::handles::lock;
use super::launch::{Arguments, Attributes, Shape, prepare};
use super::pointers::{Handle, HostFn, In, Out};
use super::state::driver;
use super::status::{Outcome, Status};
use super::work::{CopyWork, FillWork, KernelWork, Side, Work};

/// Attributes of a fresh kernel node.
const NODE: Attributes = Attributes { cluster: None, cooperative: false, programmatic: false, node: true, event: None };

/// `CUDA_KERNEL_NODE_PARAMS` (version 1) and the beginning of the later versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParams {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    pointers: In<usize>,
    extra: In<usize>,
}

/// `CUDA_KERNEL_NODE_PARAMS` (versions 2 and 3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParams2 {
    first: KernelParams,
    kernel: Handle,
    context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FillParams {
    to: u64,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostParams {
    function: HostFn,
    data: usize,
}

/// The head of `CUgraphNodeParams`; its union follows at byte 16.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeParams {
    kind: i32,
    reserved: [i32; 3],
    union: [u64; 29],
}

impl KernelParams {
    fn work(self, attributes: Attributes) -> Outcome<Work> {
        let shape = Shape { grid: self.grid, block: self.block, shared: self.shared, attributes };
        Ok(Work::Kernel(prepare(self.function, shape, Arguments { pointers: self.pointers, extra: self.extra })?))
    }

    /// Keeps the attributes that the node has already.
    fn work_like(self, old: &Work) -> Outcome<Work> {
        let Work::Kernel(k) = old else {
            return Err(Status::INVALID_VALUE);
        };
        self.work(Attributes {
            cluster: k.cluster,
            cooperative: k.cooperative,
            programmatic: k.programmatic,
            node: true,
            event: None,
        })
    }

    /// Parameters of a node; the argument block belongs to the node until it is asked for again.
    fn of(node: Handle, k: &KernelWork) -> Outcome<KernelParams> {
        let d = driver()?;
        let slot = d.nodes.find(node).ok_or(Status::INVALID_VALUE)?;
        let mut kept = lock(&slot.arguments);
        kept.0 = k.params.clone();
        let base = kept.0.as_ptr() as usize;
        kept.1 = k.function.kernel()?.params.iter().map(|p| base + p.offset).collect();
        Ok(KernelParams {
            function: k.handle,
            grid: k.grid,
            block: k.block,
            shared: k.dynamic_shared,
            pointers: In::of_slice(&kept.1),
            extra: In::null(),
        })
    }
}

impl KernelParams2 {
    /// The first part, with `kern` in place of `func` when that is null.
    fn merged(self) -> KernelParams {
        let function = if self.first.function == Handle::NULL { self.kernel } else { self.first.function };
        KernelParams { function, ..self.first }
    }
}

pub(super) fn kernel_of(node: Handle) -> Outcome<KernelWork> {
    match graph_of(node)?.node(node)?.work {
        Work::Kernel(k) => Ok(k),
        _ => Err(Status::INVALID_VALUE),
    }
}

impl FillParams {
    fn work(self) -> Outcome<Work> {
        if !matches!(self.element, 1 | 2 | 4) || self.width == 0 || self.height == 0 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Work::Fill(fill(self.to, self.pitch, self.value, self.element, self.width, self.height)?))
    }

    fn of(f: &FillWork) -> FillParams {
        FillParams { to: f.to, pitch: f.pitch, value: f.value, element: f.element, width: f.width, height: f.height }
    }
}

/// C description of a copy.
fn copy_params(c: &CopyWork) -> Memcpy3D {
    let parts = |s: Side| match s {
        Side::Host(a) => (1, a, 0),
        Side::Device(a) => (2, 0, a),
    };
    let ((src_type, src_host, src_device), (dst_type, dst_host, dst_device)) = (parts(c.from), parts(c.to));
    Memcpy3D {
        src_type,
        src_host,
        src_device,
        src_pitch: c.pitch[1],
        src_height: c.slice[1].checked_div(c.pitch[1]).unwrap_or(0),
        dst_type,
        dst_host,
        dst_device,
        dst_pitch: c.pitch[0],
        dst_height: c.slice[0].checked_div(c.pitch[0]).unwrap_or(0),
        width: c.width,
        height: c.height,
        depth: c.depth,
        ..Memcpy3D::default()
    }
}

fn host_work(p: HostParams) -> Outcome<Work> {
    if p.function.is_none() {
        return Err(Status::INVALID_VALUE);
    }
    Ok(Work::Host(p.function, p.data))
}

pub(super) fn event_work(event: Handle, record: bool) -> Outcome<Work> {
    driver()?.events.get(event)?;
    Ok(if record { Work::Record(event) } else { Work::Wait(event) })
}

fn add(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, work: Work) -> Outcome {
    out.check()?;
    out.set(graph(h)?.add(work, &deps.to_vec(count)?)?)
}

/// Replaces the work of a node by work of the same type.
pub(super) fn set(node: Handle, work: Work) -> Outcome {
    graph_of(node)?.update(node, |old| {
        if node_type(old) != node_type(&work) {
            return Err(Status::INVALID_VALUE);
        }
        *old = work;
        Ok(())
    })
}

/// Replaces the work of a node of an executable.
pub(super) fn set_exec(h: Handle, node: Handle, make: impl FnOnce(&Work) -> Outcome<Work>) -> Outcome {
    let e = exec(h)?;
    let mut nodes = lock(&e.nodes);
    let n = nodes.iter_mut().find(|n| n.source == node).ok_or(Status::INVALID_VALUE)?;
    let work = make(&n.work)?;
    if !compatible(&n.work, &work) {
        return Err(Status::INVALID_VALUE);
    }
    n.work = work;
    Ok(())
}

/// Work of a `CUgraphNodeParams`.
fn generic(p: In<NodeParams>) -> Outcome<Work> {
    let head = p.get()?;
    let at = |offset: usize| p.address() + 16 + offset;
    match head.kind {
        0 => In::<KernelParams2>::at(at(0)).get()?.merged().work(NODE),
        1 => Ok(Work::Copy(strided(&In::<Memcpy3D>::at(at(16)).get()?)?)),
        2 => In::<FillParams>::at(at(0)).get()?.work(),
        3 => host_work(In::<HostParams>::at(at(0)).get()?),
        4 => Ok(Work::Child(graph(Handle(head.union[0] as usize))?.snapshot()?)),
        5 => Ok(Work::Empty),
        6 => event_work(Handle(head.union[0] as usize), false),
        7 => event_work(Handle(head.union[0] as usize), true),
        8..=13 => {
            super::entry::explain(&format!("graph nodes of type {} are not available on a virtual device", head.kind));
            Err(Status::NOT_SUPPORTED)
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

super::entry::api! {
    /// Adds a kernel node.
    fn cuGraphAddKernelNode_v2(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, params: In<KernelParams2>) {
        add(out, h, deps, count, params.get()?.merged().work(NODE)?)
    }

    /// Adds a kernel node.
    fn cuGraphAddKernelNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, params: In<KernelParams>) {
        add(out, h, deps, count, params.get()?.work(NODE)?)
    }

    /// Parameters of a kernel node.
    fn cuGraphKernelNodeGetParams_v2(node: Handle, params: Out<KernelParams2>) {
        params.check()?;
        let first = KernelParams::of(node, &kernel_of(node)?)?;
        params.set(KernelParams2 { first, kernel: Handle::NULL, context: Handle::NULL })
    }

    /// Parameters of a kernel node.
    fn cuGraphKernelNodeGetParams(node: Handle, params: Out<KernelParams>) {
        params.check()?;
        params.set(KernelParams::of(node, &kernel_of(node)?)?)
    }

    /// Changes a kernel node.
    fn cuGraphKernelNodeSetParams_v2(node: Handle, params: In<KernelParams2>) {
        let old = graph_of(node)?.node(node)?.work;
        set(node, params.get()?.merged().work_like(&old)?)
    }

    /// Changes a kernel node.
    fn cuGraphKernelNodeSetParams(node: Handle, params: In<KernelParams>) {
        let old = graph_of(node)?.node(node)?.work;
        set(node, params.get()?.work_like(&old)?)
    }

    /// Changes a kernel node of an executable.
    fn cuGraphExecKernelNodeSetParams_v2(h: Handle, node: Handle, params: In<KernelParams2>) {
        let p = params.get()?.merged();
        set_exec(h, node, |old| p.work_like(old))
    }

    /// Changes a kernel node of an executable.
    fn cuGraphExecKernelNodeSetParams(h: Handle, node: Handle, params: In<KernelParams>) {
        let p = params.get()?;
        set_exec(h, node, |old| p.work_like(old))
    }

    /// Adds a copy node.
    fn cuGraphAddMemcpyNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, params: In<Memcpy3D>, _context: Handle) {
        add(out, h, deps, count, Work::Copy(strided(&params.get()?)?))
    }

    /// Parameters of a copy node.
    fn cuGraphMemcpyNodeGetParams(node: Handle, params: Out<Memcpy3D>) {
        params.check()?;
        match graph_of(node)?.node(node)?.work {
            Work::Copy(c) => params.set(copy_params(&c)),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Changes a copy node.
    fn cuGraphMemcpyNodeSetParams(node: Handle, params: In<Memcpy3D>) {
        set(node, Work::Copy(strided(&params.get()?)?))
    }

    /// Changes a copy node of an executable.
    fn cuGraphExecMemcpyNodeSetParams(h: Handle, node: Handle, params: In<Memcpy3D>, _context: Handle) {
        let w = Work::Copy(strided(&params.get()?)?);
        set_exec(h, node, |_| Ok(w))
    }

    /// Adds a fill node.
    fn cuGraphAddMemsetNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, params: In<FillParams>, _context: Handle) {
        add(out, h, deps, count, params.get()?.work()?)
    }

    /// Parameters of a fill node.
    fn cuGraphMemsetNodeGetParams(node: Handle, params: Out<FillParams>) {
        params.check()?;
        match graph_of(node)?.node(node)?.work {
            Work::Fill(f) => params.set(FillParams::of(&f)),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Changes a fill node.
    fn cuGraphMemsetNodeSetParams(node: Handle, params: In<FillParams>) {
        set(node, params.get()?.work()?)
    }

    /// Changes a fill node of an executable.
    fn cuGraphExecMemsetNodeSetParams(h: Handle, node: Handle, params: In<FillParams>, _context: Handle) {
        let w = params.get()?.work()?;
        set_exec(h, node, |_| Ok(w))
    }

    /// Adds a host function.
    fn cuGraphAddHostNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, params: In<HostParams>) {
        add(out, h, deps, count, host_work(params.get()?)?)
    }

    /// Parameters of a host function.
    fn cuGraphHostNodeGetParams(node: Handle, params: Out<HostParams>) {
        params.check()?;
        match graph_of(node)?.node(node)?.work {
            Work::Host(function, data) => params.set(HostParams { function, data }),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Changes a host function.
    fn cuGraphHostNodeSetParams(node: Handle, params: In<HostParams>) {
        set(node, host_work(params.get()?)?)
    }

    /// Changes a host function of an executable.
    fn cuGraphExecHostNodeSetParams(h: Handle, node: Handle, params: In<HostParams>) {
        let w = host_work(params.get()?)?;
        set_exec(h, node, |_| Ok(w))
    }

    /// Adds a graph as a node.
    fn cuGraphAddChildGraphNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, child: Handle) {
        add(out, h, deps, count, Work::Child(graph(child)?.snapshot()?))
    }

    /// Adds a node that only orders others.
    fn cuGraphAddEmptyNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize) {
        add(out, h, deps, count, Work::Empty)
    }

    /// Adds an event record.
    fn cuGraphAddEventRecordNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, event: Handle) {
        add(out, h, deps, count, event_work(event, true)?)
    }

    /// Adds a wait for an event.
    fn cuGraphAddEventWaitNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, event: Handle) {
        add(out, h, deps, count, event_work(event, false)?)
    }

    /// Event of a record node.
    fn cuGraphEventRecordNodeGetEvent(node: Handle, event: Out<Handle>) {
        event.check()?;
        match graph_of(node)?.node(node)?.work {
            Work::Record(e) => event.set(e),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Event of a wait node.
    fn cuGraphEventWaitNodeGetEvent(node: Handle, event: Out<Handle>) {
        event.check()?;
        match graph_of(node)?.node(node)?.work {
            Work::Wait(e) => event.set(e),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Changes the event of a record node.
    fn cuGraphEventRecordNodeSetEvent(node: Handle, event: Handle) {
        set(node, event_work(event, true)?)
    }

    /// Changes the event of a wait node.
    fn cuGraphEventWaitNodeSetEvent(node: Handle, event: Handle) {
        set(node, event_work(event, false)?)
    }

    /// Adds a node of any type.
    fn cuGraphAddNode_v2(out: Out<Handle>, h: Handle, deps: In<Handle>, _edges: In<EdgeData>, count: usize, params: In<NodeParams>) {
        add(out, h, deps, count, generic(params)?)
    }

    /// Adds a node of any type.
    fn cuGraphAddNode(out: Out<Handle>, h: Handle, deps: In<Handle>, count: usize, params: In<NodeParams>) {
        add(out, h, deps, count, generic(params)?)
    }

    /// Changes a node of any type.
    fn cuGraphNodeSetParams(node: Handle, params: In<NodeParams>) {
        set(node, generic(params)?)
    }

    /// Changes a node of any type in an executable.
    fn cuGraphExecNodeSetParams(h: Handle, node: Handle, params: In<NodeParams>) {
        let w = generic(params)?;
        set_exec(h, node, |_| Ok(w))
    }
}
