//! Stream capture: work on a capturing stream becomes nodes of a graph; events carry the dependencies to other streams.

use super::graph::Graph;
use super::handles::lock;
use super::pointers::Handle;
use super::state::Driver;
use super::status::{Outcome, Status};
use super::stream::{NON_BLOCKING, Stream};
use super::work::Work;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// `CUstreamCaptureMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Unsafe calls are refused on every thread.
    Global,
    /// Unsafe calls are refused on the thread that began the capture.
    ThreadLocal,
    /// Nothing is refused.
    Relaxed,
}

impl Mode {
    /// From the C value.
    pub fn from_c(v: i32) -> Outcome<Mode> {
        match v {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

/// A capture in progress.
pub struct Capture {
    /// Number in the process.
    pub id: u64,
    mode: Mode,
    origin: Handle,
    thread: ThreadId,
    /// The graph that grows.
    pub graph: Arc<Graph>,
    /// Whether the capture made the graph, which then is lost when the capture fails.
    owns_graph: bool,
    state: Mutex<State>,
}

struct State {
    /// For every stream that takes part, the nodes that its next node depends on.
    tails: BTreeMap<Handle, Vec<Handle>>,
    invalid: bool,
    ended: bool,
}

static ACTIVE: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

thread_local! {
    static THREAD_MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Exchanges the calling thread's mode.
pub fn exchange_thread_mode(mode: Mode) -> Mode {
    THREAD_MODE.with(|m| m.replace(mode))
}

/// Begins a capture on a stream into `graph`, whose nodes `first` precede what is captured.
pub fn begin(d: &Driver, stream: &Arc<Stream>, mode: Mode, graph: Option<Arc<Graph>>, first: Vec<Handle>) -> Outcome {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if stream.legacy {
        return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut slot = lock(&stream.capture);
    if slot.is_some() {
        return Err(Status::ILLEGAL_STATE);
    }
    let owns_graph = graph.is_none();
    let graph = graph.unwrap_or_else(|| d.graphs.add(Graph::new).1);
    let capture = Arc::new(Capture {
        id: NEXT.fetch_add(1, Ordering::Relaxed),
        mode,
        origin: stream.handle,
        thread: std::thread::current().id(),
        graph,
        owns_graph,
        state: Mutex::new(State { tails: BTreeMap::from([(stream.handle, first)]), invalid: false, ended: false }),
    });
    lock(&ACTIVE).push(capture.clone());
    *slot = Some(capture);
    Ok(())
}

/// Ends the capture of a stream and returns its graph.
pub fn end(d: &Driver, stream: &Arc<Stream>) -> Outcome<Arc<Graph>> {
    let capture = stream.capturing().ok_or(Status::ILLEGAL_STATE)?;
    if capture.origin != stream.handle {
        capture.invalidate();
        return Err(Status::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
        return Err(Status::STREAM_CAPTURE_WRONG_THREAD);
    }
    for s in d.streams.all() {
        let mut slot = lock(&s.capture);
        if slot.as_ref().is_some_and(|c| Arc::ptr_eq(c, &capture)) {
            *slot = None;
        }
    }
    lock(&ACTIVE).retain(|c| !Arc::ptr_eq(c, &capture));
    let outcome = capture.finish(stream.handle);
    if outcome.is_err() && capture.owns_graph {
        super::api_graph::destroy(d, capture.graph.handle)?;
    }
    outcome.map(|()| capture.graph.clone())
}

/// A stream that waits for a captured event takes part in that capture from there on.
pub fn join(stream: &Arc<Stream>, capture: &Arc<Capture>, nodes: Vec<Handle>) -> Outcome {
    if stream.legacy {
        capture.invalidate();
        return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut state = lock(&capture.state);
    if state.ended {
        return Err(Status::CAPTURED_EVENT);
    }
    if state.invalid {
        return Err(Status::STREAM_CAPTURE_INVALIDATED);
    }
    state.tails.insert(stream.handle, nodes);
    *lock(&stream.capture) = Some(capture.clone());
    Ok(())
}

/// For calls that a capture forbids (synchronous copies, allocations): an error that also invalidates the capture.
pub fn refuse_unsafe_call() -> Outcome {
    let me = std::thread::current().id();
    let thread_mode = THREAD_MODE.with(Cell::get);
    if thread_mode == Mode::Relaxed {
        return Ok(());
    }
    let hit = lock(&ACTIVE)
        .iter()
        .find(|c| match c.mode {
            Mode::Relaxed => false,
            Mode::Global => thread_mode == Mode::Global || c.thread == me,
            Mode::ThreadLocal => c.thread == me,
        })
        .cloned();
    match hit {
        Some(c) => {
            c.invalidate();
            Err(Status::STREAM_CAPTURE_UNSUPPORTED)
        }
        None => Ok(()),
    }
}

/// Work on the legacy stream would depend on every blocking stream; with a capture on one of them it is refused.
pub fn refuse_implicit(d: &Driver, legacy: &Stream) -> Outcome {
    for s in d.streams.all() {
        if s.context.handle == legacy.context.handle
            && s.flags & NON_BLOCKING == 0
            && let Some(c) = s.capturing()
        {
            c.invalidate();
            return Err(Status::STREAM_CAPTURE_IMPLICIT);
        }
    }
    Ok(())
}

/// Whether any stream of a context captures; then the context cannot be synchronised.
pub fn refuse_context_wait(d: &Driver, context: Handle) -> Outcome {
    for s in d.streams.all() {
        if s.context.handle == context {
            s.refuse_if_capturing()?;
        }
    }
    Ok(())
}

impl Capture {
    /// Makes the capture unusable.
    pub fn invalidate(&self) {
        lock(&self.state).invalid = true;
    }

    /// Closes the capture: it must be valid, and all that other streams captured must have been joined.
    fn finish(&self, origin: Handle) -> Outcome {
        let mut state = lock(&self.state);
        state.ended = true;
        if state.invalid {
            return Err(Status::STREAM_CAPTURE_INVALIDATED);
        }
        let last = state.tails.get(&origin).cloned().unwrap_or_default();
        let joined: BTreeSet<Handle> = self.graph.ancestors(&last);
        if state.tails.values().flatten().any(|n| !joined.contains(n)) {
            return Err(Status::STREAM_CAPTURE_UNJOINED);
        }
        Ok(())
    }

    /// 1 active, 2 invalidated, as `CUstreamCaptureStatus`.
    pub fn status(&self) -> i32 {
        if lock(&self.state).invalid { 2 } else { 1 }
    }

    fn usable(&self) -> Outcome<std::sync::MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.invalid { Err(Status::STREAM_CAPTURE_INVALIDATED) } else { Ok(state) }
    }

    /// The nodes that the next node of a stream depends on.
    pub fn tails_of(&self, stream: Handle) -> Outcome<Vec<Handle>> {
        Ok(self.usable()?.tails.get(&stream).cloned().unwrap_or_default())
    }

    /// Replaces or extends the dependencies of a stream's next node.
    pub fn set_tails(&self, stream: Handle, nodes: Vec<Handle>, extend: bool) -> Outcome {
        if nodes.iter().any(|n| !self.graph.contains(*n)) {
            return Err(Status::INVALID_VALUE);
        }
        let mut state = self.usable()?;
        let tails = state.tails.entry(stream).or_default();
        if !extend {
            tails.clear();
        }
        for n in nodes {
            if !tails.contains(&n) {
                tails.push(n);
            }
        }
        Ok(())
    }

    /// Adds dependencies to a stream's next node.
    pub fn merge(&self, stream: Handle, nodes: &[Handle]) -> Outcome {
        self.set_tails(stream, nodes.to_vec(), true)
    }

    /// Adds a node behind what the stream has captured so far.
    pub fn append(&self, stream: Handle, work: Work) -> Outcome<Handle> {
        let mut state = self.usable()?;
        let deps = state.tails.get(&stream).cloned().unwrap_or_default();
        let node = self.graph.add(work, &deps)?;
        state.tails.insert(stream, vec![node]);
        Ok(node)
    }
}
