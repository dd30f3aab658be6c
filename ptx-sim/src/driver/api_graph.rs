//! Graphs: creation, structure, instantiation, launch and update.

use super::api_stream::EdgeData;
use super::graph::{Graph, GraphExec, node_type};
use super::handles::lock;
use super::pointers::{Handle, In, Out, Text};
use super::state::{Driver, current, driver};
use super::status::{Outcome, Status};
use super::stream::submit_on;
use super::work::Work;
use std::fmt::Write;
use std::sync::Arc;

/// Flags of instantiation: free on launch, upload, device launch, node priorities.
const INSTANTIATE_FLAGS: u64 = 15;
const INSTANTIATE_DEVICE_LAUNCH: u64 = 4;

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct InstantiateParams {
    flags: u64,
    stream: Handle,
    error_node: Handle,
    result: i32,
}

/// `CUgraphExecUpdateResultInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UpdateResult {
    result: i32,
    error_node: Handle,
    error_from_node: Handle,
}

/// A graph, or `CUDA_ERROR_INVALID_VALUE`, which is what graph functions document for handles that are none.
pub fn graph(h: Handle) -> Outcome<Arc<Graph>> {
    driver()?.graphs.find(h).ok_or(Status::INVALID_VALUE)
}

/// The graph of a node.
pub fn graph_of(node: Handle) -> Outcome<Arc<Graph>> {
    let d = driver()?;
    graph(d.nodes.find(node).ok_or(Status::INVALID_VALUE)?.graph)
}

/// An executable graph.
pub fn exec(h: Handle) -> Outcome<Arc<GraphExec>> {
    driver()?.execs.find(h).ok_or(Status::INVALID_VALUE)
}

/// Destroys a graph and forgets its nodes. Executables made from it live on.
pub fn destroy(d: &Driver, h: Handle) -> Outcome {
    let g = d.graphs.remove(h).map_err(|_| Status::INVALID_VALUE)?;
    for n in g.handles() {
        // Every node of a graph is in the table of nodes.
        let _ = d.nodes.remove(n);
    }
    Ok(())
}

fn instantiate(out: Out<Handle>, h: Handle, flags: u64) -> Outcome {
    out.check()?;
    if flags & !INSTANTIATE_FLAGS != 0 {
        return Err(Status::INVALID_VALUE);
    }
    if flags & INSTANTIATE_DEVICE_LAUNCH != 0 {
        super::entry::explain(
            "graphs for launch from the device are not available on a virtual device; launch from the host",
        );
        return Err(Status::NOT_SUPPORTED);
    }
    let context = current()?;
    let e = GraphExec::new(&*graph(h)?, context.handle, flags)?;
    out.set(driver()?.execs.add(|_| e).0)
}

/// Writes a list under the protocol of the query functions: without an array only the count is given; a longer array
/// is filled up with nulls.
fn write_list(items: &[Handle], array: Out<Handle>, count: Out<usize>) -> Outcome {
    count.check()?;
    if array.is_null() {
        return count.set(items.len());
    }
    let room = count.get()?;
    for i in 0..room {
        array.set_at(i, items.get(i).copied().unwrap_or(Handle::NULL))?;
    }
    count.set(room.min(items.len()))
}

fn edges(g: &Graph, from: Out<Handle>, to: Out<Handle>, data: Option<Out<EdgeData>>, count: Out<usize>) -> Outcome {
    let list = g.edges();
    if from.is_null() != to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let (a, b): (Vec<Handle>, Vec<Handle>) = list.into_iter().unzip();
    if let Some(data) = data.filter(|e| !e.is_null() && !from.is_null()) {
        for i in 0..count.get()?.min(a.len()) {
            data.set_at(i, EdgeData::DEFAULT)?;
        }
    }
    if !from.is_null() {
        let room = count.get()?;
        write_list(&b, to, count)?;
        count.set(room)?;
    }
    write_list(&a, from, count)
}

fn change_edges(h: Handle, from: In<Handle>, to: In<Handle>, count: usize, add: bool) -> Outcome {
    let g = graph(h)?;
    from.to_vec(count)?.into_iter().zip(to.to_vec(count)?).try_for_each(|(a, b)| g.set_edge(a, b, add))
}

fn neighbours(node: Handle, before: bool) -> Outcome<Vec<Handle>> {
    let g = graph_of(node)?;
    if before {
        return Ok(g.node(node)?.deps);
    }
    Ok(g.edges().into_iter().filter(|e| e.0 == node).map(|e| e.1).collect())
}

fn dot(g: &Graph) -> Outcome<String> {
    let mut s = String::from("digraph graph_1 {\n");
    let ordered = g.ordered()?;
    let number = |h: Handle| ordered.iter().position(|(k, _)| *k == h).unwrap_or(0);
    for (h, n) in &ordered {
        let label = match &n.work {
            Work::Empty => "empty".to_string(),
            Work::Kernel(k) => format!("{} {:?} {:?}", k.function.name, k.grid, k.block),
            Work::Copy(c) => format!("copy {} x {} x {}", c.width, c.height, c.depth),
            Work::Fill(f) => format!("set {} x {}", f.width, f.height),
            Work::Host(..) | Work::Callback(..) => "host".to_string(),
            Work::Record(_) => "record".to_string(),
            Work::Wait(_) => "wait".to_string(),
            Work::Alloc(_, bytes) => format!("allocate {bytes}"),
            Work::Free(_) => "free".to_string(),
            Work::WriteValue(..) => "write value".to_string(),
            Work::WaitValue(..) => "wait for value".to_string(),
            Work::Child(w) => format!("child of {} nodes", w.len()),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(s, "  n{} [label=\"{label}\"];", number(*h));
        for d in &n.deps {
            let _ = writeln!(s, "  n{} -> n{};", number(*d), number(*h));
        }
    }
    s.push_str("}\n");
    Ok(s)
}

super::entry::api! {
    /// Makes an empty graph.
    fn cuGraphCreate(out: Out<Handle>, flags: u32) {
        out.check()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        out.set(driver()?.graphs.add(Graph::new).0)
    }

    /// Destroys a graph.
    fn cuGraphDestroy(h: Handle) {
        destroy(driver()?, h)
    }

    /// Copies a graph.
    fn cuGraphClone(out: Out<Handle>, original: Handle) {
        out.check()?;
        let g = graph(original)?;
        let (h, copy) = driver()?.graphs.add(Graph::new);
        g.copy_nodes_to(&copy)?;
        out.set(h)
    }

    /// Nodes of a graph.
    fn cuGraphGetNodes(h: Handle, nodes: Out<Handle>, count: Out<usize>) {
        write_list(&graph(h)?.handles(), nodes, count)
    }

    /// Nodes without predecessors.
    fn cuGraphGetRootNodes(h: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let g = graph(h)?;
        let mut roots = g.handles();
        let edges = g.edges();
        roots.retain(|n| edges.iter().all(|e| e.1 != *n));
        write_list(&roots, nodes, count)
    }

    /// Edges of a graph.
    fn cuGraphGetEdges_v2(h: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<EdgeData>, count: Out<usize>) {
        edges(&*graph(h)?, from, to, Some(data), count)
    }

    /// Edges of a graph.
    fn cuGraphGetEdges(h: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        edges(&*graph(h)?, from, to, None, count)
    }

    /// Predecessors of a node.
    fn cuGraphNodeGetDependencies_v2(node: Handle, list: Out<Handle>, _data: Out<EdgeData>, count: Out<usize>) {
        write_list(&neighbours(node, true)?, list, count)
    }

    /// Predecessors of a node.
    fn cuGraphNodeGetDependencies(node: Handle, list: Out<Handle>, count: Out<usize>) {
        write_list(&neighbours(node, true)?, list, count)
    }

    /// Successors of a node.
    fn cuGraphNodeGetDependentNodes_v2(node: Handle, list: Out<Handle>, _data: Out<EdgeData>, count: Out<usize>) {
        write_list(&neighbours(node, false)?, list, count)
    }

    /// Successors of a node.
    fn cuGraphNodeGetDependentNodes(node: Handle, list: Out<Handle>, count: Out<usize>) {
        write_list(&neighbours(node, false)?, list, count)
    }

    /// Adds edges.
    fn cuGraphAddDependencies_v2(h: Handle, from: In<Handle>, to: In<Handle>, _data: In<EdgeData>, count: usize) {
        change_edges(h, from, to, count, true)
    }

    /// Adds edges.
    fn cuGraphAddDependencies(h: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        change_edges(h, from, to, count, true)
    }

    /// Removes edges.
    fn cuGraphRemoveDependencies_v2(h: Handle, from: In<Handle>, to: In<Handle>, _data: In<EdgeData>, count: usize) {
        change_edges(h, from, to, count, false)
    }

    /// Removes edges.
    fn cuGraphRemoveDependencies(h: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        change_edges(h, from, to, count, false)
    }

    /// Type of a node.
    fn cuGraphNodeGetType(node: Handle, kind: Out<i32>) {
        kind.check()?;
        kind.set(node_type(&graph_of(node)?.node(node)?.work))
    }

    /// Removes a node.
    fn cuGraphDestroyNode(node: Handle) {
        graph_of(node)?.remove(node)?;
        driver()?.nodes.remove(node).map(|_| ())
    }

    /// Makes a graph executable.
    fn cuGraphInstantiateWithFlags(out: Out<Handle>, h: Handle, flags: u64) {
        instantiate(out, h, flags)
    }

    /// Makes a graph executable.
    fn cuGraphInstantiateWithParams(out: Out<Handle>, h: Handle, params: Out<InstantiateParams>) {
        let p = params.get()?;
        let outcome = instantiate(out, h, p.flags);
        params.set(InstantiateParams { error_node: Handle::NULL, result: outcome.is_err() as i32, ..p })?;
        outcome
    }

    /// Flags of instantiation.
    fn cuGraphExecGetFlags(h: Handle, flags: Out<u64>) {
        flags.check()?;
        flags.set(exec(h)?.flags)
    }

    /// Destroys an executable graph.
    fn cuGraphExecDestroy(h: Handle) {
        driver()?.execs.remove(h).map(|_| ()).map_err(|_| Status::INVALID_VALUE)
    }

    /// Uploads an executable graph: nothing to do.
    fn cuGraphUpload(h: Handle, stream: Handle) {
        exec(h)?;
        driver()?.stream(stream).map(|_| ())
    }

    /// Launches an executable graph on a stream; on a capturing stream it becomes a child node.
    fn cuGraphLaunch(h: Handle, stream: Handle) {
        let d = driver()?;
        let e = exec(h)?;
        let s = d.stream(stream)?;
        if s.capturing().is_some() {
            return submit_on(d, &s, Work::Child(e.works()));
        }
        submit_on(d, &s, Work::Empty)?;
        e.run(d, &s.context)
    }

    /// Takes over the parameters of a graph of the same shape.
    fn cuGraphExecUpdate_v2(h: Handle, g: Handle, info: Out<UpdateResult>) {
        info.check()?;
        match exec(h)?.update(&*graph(g)?) {
            Ok(()) => info.set(UpdateResult { result: 0, error_node: Handle::NULL, error_from_node: Handle::NULL }),
            Err((result, error_node)) => {
                info.set(UpdateResult { result, error_node, error_from_node: Handle::NULL })?;
                Err(Status::GRAPH_EXEC_UPDATE_FAILURE)
            }
        }
    }

    /// Switches a kernel, copy or fill node of an executable graph on or off.
    fn cuGraphNodeSetEnabled(h: Handle, node: Handle, enabled: u32) {
        let e = exec(h)?;
        let mut nodes = lock(&e.nodes);
        let n = nodes.iter_mut().find(|n| n.source == node).ok_or(Status::INVALID_VALUE)?;
        if node_type(&n.work) > 2 {
            return Err(Status::INVALID_VALUE);
        }
        n.enabled = enabled != 0;
        Ok(())
    }

    /// Whether a node of an executable graph runs.
    fn cuGraphNodeGetEnabled(h: Handle, node: Handle, enabled: Out<u32>) {
        enabled.check()?;
        let e = exec(h)?;
        let found = lock(&e.nodes).iter().find(|n| n.source == node).map(|n| n.enabled);
        enabled.set(found.ok_or(Status::INVALID_VALUE)? as u32)
    }

    /// Writes a graph as DOT text to a file.
    fn cuGraphDebugDotPrint(h: Handle, path: Text, _flags: u32) {
        let text = dot(&*graph(h)?)?;
        std::fs::write(path.read()?, text).map_err(|_| Status::OPERATING_SYSTEM)
    }
}
