//! Streams: creation, queries, waiting, host functions, capture.

use super::capture::{self, Mode};
use super::event;
use super::pointers::{Handle, HostFn, In, Out, StreamCallback};
use super::state::{current, driver};
use super::status::{Outcome, Status};
use super::stream::{NON_BLOCKING, submit};
use super::work::Work;
use std::cell::RefCell;

/// `CUgraphEdgeData`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EdgeData {
    from_port: u8,
    to_port: u8,
    kind: u8,
    reserved: [u8; 5],
}

impl EdgeData {
    /// A full dependency.
    pub const DEFAULT: EdgeData = EdgeData { from_port: 0, to_port: 0, kind: 0, reserved: [0; 5] };
}

thread_local! {
    /// What `cuStreamGetCaptureInfo` points to until the next call on the thread.
    static CAPTURE_NODES: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

fn create(stream: Out<Handle>, flags: u32, priority: i32) -> Outcome {
    stream.check()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let context = current()?;
    stream.set(driver()?.create_stream(context, flags, priority, false).handle)
}

#[allow(clippy::too_many_arguments)]
fn capture_info(
    stream: Handle,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<Handle>,
    dependencies: Out<usize>,
    edges: Option<Out<usize>>,
    count: Out<usize>,
) -> Outcome {
    status.check()?;
    let s = driver()?.stream(stream)?;
    let Some(c) = s.capturing() else {
        if s.legacy {
            capture::refuse_implicit(driver()?, &s)?;
        }
        return status.set(0);
    };
    status.set(c.status())?;
    if c.status() != 1 {
        return Ok(());
    }
    id.set_if_wanted(c.id);
    graph.set_if_wanted(c.graph.handle);
    let nodes = c.tails_of(s.handle)?;
    count.set_if_wanted(nodes.len());
    if let Some(e) = edges {
        e.set_if_wanted(0);
    }
    CAPTURE_NODES.with(|v| {
        *v.borrow_mut() = nodes;
        dependencies.set_if_wanted(v.borrow().as_ptr() as usize);
    });
    Ok(())
}

super::entry::api! {
    /// Creates a stream.
    fn cuStreamCreate(stream: Out<Handle>, flags: u32) {
        create(stream, flags, 0)
    }

    /// Creates a stream with a priority, which is clamped to the device's range.
    fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, priority: i32) {
        create(stream, flags, priority)
    }

    /// Destroys a stream. A capture on it becomes invalid.
    fn cuStreamDestroy_v2(stream: Handle) {
        let s = driver()?.streams.find(stream).filter(|s| !s.legacy).ok_or(Status::INVALID_HANDLE)?;
        if let Some(c) = s.capturing() {
            c.invalidate();
        }
        driver()?.streams.remove(stream).map(|_| ())
    }

    /// Waits for a stream and reports the sticky error of its context.
    fn cuStreamSynchronize(stream: Handle) {
        driver()?.stream(stream)?.refuse_if_capturing()
    }

    /// Whether a stream has finished: always, since work executes when it is enqueued.
    fn cuStreamQuery(stream: Handle) {
        driver()?.stream(stream)?.refuse_if_capturing()
    }

    /// Makes a stream wait for an event.
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) {
        event::wait(&driver()?.stream(stream)?, event, flags)
    }

    /// Priority of a stream.
    fn cuStreamGetPriority(stream: Handle, priority: Out<i32>) {
        priority.set(driver()?.stream(stream)?.priority)
    }

    /// Creation flags of a stream.
    fn cuStreamGetFlags(stream: Handle, flags: Out<u32>) {
        flags.set(driver()?.stream(stream)?.flags)
    }

    /// Number of a stream, unique in the process.
    fn cuStreamGetId(stream: Handle, id: Out<u64>) {
        id.set(driver()?.stream(stream)?.id)
    }

    /// Context of a stream.
    fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) {
        context.set(driver()?.stream(stream)?.context.handle)
    }

    /// Device of a stream.
    fn cuStreamGetDevice(stream: Handle, device: Out<i32>) {
        device.set(driver()?.stream(stream)?.context.device as i32)
    }

    /// Runs a host function in stream order.
    fn cuLaunchHostFunc(stream: Handle, function: HostFn, data: usize) {
        if function.is_none() {
            return Err(Status::INVALID_VALUE);
        }
        submit(stream, Work::Host(function, data))
    }

    /// Runs a callback in stream order. Not permitted in a capture.
    fn cuStreamAddCallback(stream: Handle, callback: StreamCallback, data: usize, flags: u32) {
        if callback.is_none() || flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        driver()?.stream(stream)?.refuse_if_capturing()?;
        submit(stream, Work::Callback(callback, stream, data))
    }

    /// Attaches managed memory to a stream, which changes nothing here.
    fn cuStreamAttachMemAsync(stream: Handle, address: u64, _bytes: usize, flags: u32) {
        let d = driver()?;
        d.stream(stream)?;
        if !matches!(flags, 1 | 2 | 4) || d.allocations.containing(address).is_none() {
            return Err(Status::INVALID_VALUE);
        }
        Ok(())
    }

    /// Begins a capture.
    fn cuStreamBeginCapture_v2(stream: Handle, mode: i32) {
        let d = driver()?;
        let s = d.stream(stream)?;
        capture::begin(d, &s, Mode::from_c(mode)?, None, Vec::new())
    }

    /// Begins a capture whose nodes are added to an existing graph.
    fn cuStreamBeginCaptureToGraph(stream: Handle, graph: Handle, dependencies: In<Handle>, _edges: In<EdgeData>, count: usize, mode: i32) {
        let d = driver()?;
        let s = d.stream(stream)?;
        let g = d.graphs.find(graph).ok_or(Status::INVALID_VALUE)?;
        let first = dependencies.to_vec(count)?;
        if first.iter().any(|n| !g.contains(*n)) {
            return Err(Status::INVALID_VALUE);
        }
        capture::begin(d, &s, Mode::from_c(mode)?, Some(g), first)
    }

    /// Ends a capture; the graph is null when the capture had become invalid.
    fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) {
        graph.check()?;
        let d = driver()?;
        graph.set(Handle::NULL)?;
        graph.set(capture::end(d, &d.stream(stream)?)?.handle)
    }

    /// 0 not capturing, 1 capturing, 2 invalidated.
    fn cuStreamIsCapturing(stream: Handle, status: Out<i32>) {
        status.check()?;
        let s = driver()?.stream(stream)?;
        if s.legacy {
            capture::refuse_implicit(driver()?, &s)?;
        }
        status.set(s.capturing().map_or(0, |c| c.status()))
    }

    /// Status, number, graph and next dependencies of a capture.
    fn cuStreamGetCaptureInfo_v3(stream: Handle, status: Out<i32>, id: Out<u64>, graph: Out<Handle>, dependencies: Out<usize>, edges: Out<usize>, count: Out<usize>) {
        capture_info(stream, status, id, graph, dependencies, Some(edges), count)
    }

    /// Status, number, graph and next dependencies of a capture.
    fn cuStreamGetCaptureInfo_v2(stream: Handle, status: Out<i32>, id: Out<u64>, graph: Out<Handle>, dependencies: Out<usize>, count: Out<usize>) {
        capture_info(stream, status, id, graph, dependencies, None, count)
    }

    /// Adds (0) or sets (1) the dependencies of the next captured node.
    fn cuStreamUpdateCaptureDependencies_v2(stream: Handle, dependencies: In<Handle>, _edges: In<EdgeData>, count: usize, flags: u32) {
        let s = driver()?.stream(stream)?;
        let c = s.capturing().ok_or(Status::ILLEGAL_STATE)?;
        if flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        c.set_tails(s.handle, dependencies.to_vec(count)?, flags == 0)
    }

    /// Adds (0) or sets (1) the dependencies of the next captured node.
    fn cuStreamUpdateCaptureDependencies(stream: Handle, dependencies: In<Handle>, count: usize, flags: u32) {
        let s = driver()?.stream(stream)?;
        let c = s.capturing().ok_or(Status::ILLEGAL_STATE)?;
        if flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        c.set_tails(s.handle, dependencies.to_vec(count)?, flags == 0)
    }

    /// Exchanges the calling thread's capture mode.
    fn cuThreadExchangeStreamCaptureMode(mode: Out<i32>) {
        let new = Mode::from_c(mode.get()?)?;
        mode.set(capture::exchange_thread_mode(new) as i32)
    }
}
