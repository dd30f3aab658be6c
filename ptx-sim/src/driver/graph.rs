//! Graphs: nodes with dependencies, and their executable form.

use super::handles::lock;
use super::pointers::Handle;
use super::state::{Context, Driver, driver};
use super::status::{Outcome, Status};
use super::work::{Side, Work};
use crate::exec::GlobalMemory;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Where a node handle belongs.
pub struct NodeRef {
    /// Handle of the graph.
    pub graph: Handle,
    /// Parameter block and pointers into it, as last handed out by `cuGraphKernelNodeGetParams`.
    pub arguments: Mutex<(Vec<u8>, Vec<usize>)>,
}

/// A node.
#[derive(Clone)]
pub struct Node {
    /// What it does.
    pub work: Work,
    /// Nodes that precede it.
    pub deps: Vec<Handle>,
}

/// Memory of allocation nodes; it lives as long as the graph or an executable made from it.
pub struct GraphMemory {
    memory: Arc<GlobalMemory>,
    address: u64,
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        if let Ok(d) = driver() {
            d.allocations.take(self.address, |_| true);
        }
        // Nobody else frees this address: free nodes only end its use.
        let _ = self.memory.free(self.address);
    }
}

/// A graph.
pub struct Graph {
    /// Its handle.
    pub handle: Handle,
    nodes: Mutex<BTreeMap<Handle, Node>>,
    owned: Mutex<Vec<Arc<GraphMemory>>>,
}

/// `CUgraphNodeType` of a piece of work.
pub fn node_type(work: &Work) -> i32 {
    match work {
        Work::Kernel(_) => 0,
        Work::Copy(_) => 1,
        Work::Fill(_) => 2,
        Work::Host(..) | Work::Callback(..) => 3,
        Work::Child(_) => 4,
        Work::Empty => 5,
        Work::Wait(_) => 6,
        Work::Record(_) => 7,
        Work::Alloc(..) => 10,
        Work::Free(_) => 11,
        Work::WriteValue(..) | Work::WaitValue(..) => 12,
    }
}

impl Graph {
    /// An empty graph.
    pub fn new(handle: Handle) -> Graph {
        Graph { handle, nodes: Mutex::default(), owned: Mutex::default() }
    }

    /// Adds a node.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for dependencies that are not nodes of this graph or that are given twice.
    pub fn add(&self, work: Work, deps: &[Handle]) -> Outcome<Handle> {
        let mut nodes = lock(&self.nodes);
        let distinct: BTreeSet<&Handle> = deps.iter().collect();
        if distinct.len() != deps.len() || deps.iter().any(|d| !nodes.contains_key(d)) {
            return Err(Status::INVALID_VALUE);
        }
        let (h, _) = driver()?.nodes.add(|_| NodeRef { graph: self.handle, arguments: Mutex::default() });
        nodes.insert(h, Node { work, deps: deps.to_vec() });
        Ok(h)
    }

    /// Reserves device memory for an allocation node.
    pub fn reserve(&self, d: &Driver, device: usize, bytes: u64) -> Outcome<u64> {
        let physical = d.devices[device].physical;
        let address = d.memory.allocate(physical, bytes).map_err(|e| super::work::refuse("graph memory", &e))?;
        lock(&self.owned).push(Arc::new(GraphMemory { memory: d.memory.clone(), address }));
        Ok(address)
    }

    /// Whether a handle is a node of this graph.
    pub fn contains(&self, node: Handle) -> bool {
        lock(&self.nodes).contains_key(&node)
    }

    /// A node.
    pub fn node(&self, h: Handle) -> Outcome<Node> {
        lock(&self.nodes).get(&h).cloned().ok_or(Status::INVALID_VALUE)
    }

    /// Changes a node.
    pub fn update(&self, h: Handle, change: impl FnOnce(&mut Work) -> Outcome) -> Outcome {
        let mut nodes = lock(&self.nodes);
        change(&mut nodes.get_mut(&h).ok_or(Status::INVALID_VALUE)?.work)
    }

    /// Removes a node and its edges.
    pub fn remove(&self, h: Handle) -> Outcome {
        let mut nodes = lock(&self.nodes);
        nodes.remove(&h).ok_or(Status::INVALID_VALUE)?;
        for n in nodes.values_mut() {
            n.deps.retain(|d| *d != h);
        }
        Ok(())
    }

    /// All node handles in the order in which they were added.
    pub fn handles(&self) -> Vec<Handle> {
        lock(&self.nodes).keys().copied().collect()
    }

    /// Edges as pairs (from, to).
    pub fn edges(&self) -> Vec<(Handle, Handle)> {
        lock(&self.nodes).iter().flat_map(|(h, n)| n.deps.iter().map(|d| (*d, *h)).collect::<Vec<_>>()).collect()
    }

    /// Adds (`add`) or removes an edge.
    pub fn set_edge(&self, from: Handle, to: Handle, add: bool) -> Outcome {
        let mut nodes = lock(&self.nodes);
        if from == to || !nodes.contains_key(&from) {
            return Err(Status::INVALID_VALUE);
        }
        let deps = &mut nodes.get_mut(&to).ok_or(Status::INVALID_VALUE)?.deps;
        match (deps.iter().position(|d| *d == from), add) {
            (None, true) => deps.push(from),
            (Some(i), false) => {
                deps.remove(i);
            }
            _ => return Err(Status::INVALID_VALUE),
        }
        Ok(())
    }

    /// The given nodes and everything that precedes them.
    pub fn ancestors(&self, of: &[Handle]) -> BTreeSet<Handle> {
        let nodes = lock(&self.nodes);
        let mut seen = BTreeSet::new();
        let mut open = of.to_vec();
        while let Some(h) = open.pop() {
            if seen.insert(h)
                && let Some(n) = nodes.get(&h)
            {
                open.extend(&n.deps);
            }
        }
        seen
    }

    /// Nodes in an order that respects the dependencies, the earliest added first.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` when there is a cycle.
    pub fn ordered(&self) -> Outcome<Vec<(Handle, Node)>> {
        let nodes = lock(&self.nodes);
        let mut waiting: BTreeMap<Handle, usize> = nodes.iter().map(|(h, n)| (*h, n.deps.len())).collect();
        let mut ready: BTreeSet<Handle> = waiting.iter().filter(|(_, n)| **n == 0).map(|(h, _)| *h).collect();
        let mut out = Vec::with_capacity(nodes.len());
        while let Some(h) = ready.pop_first() {
            out.push((h, nodes[&h].clone()));
            for (k, n) in nodes.iter().filter(|(_, n)| n.deps.contains(&h)) {
                if let Some(left) = waiting.get_mut(k) {
                    *left -= n.deps.iter().filter(|d| **d == h).count();
                    if *left == 0 {
                        ready.insert(*k);
                    }
                }
            }
        }
        if out.len() == nodes.len() { Ok(out) } else { Err(Status::INVALID_VALUE) }
    }

    /// The works in execution order, for a child node.
    pub fn snapshot(&self) -> Outcome<Arc<Vec<Work>>> {
        Ok(Arc::new(self.ordered()?.into_iter().map(|(_, n)| n.work).collect()))
    }

    /// A copy with fresh node handles, and the map from old to new.
    pub fn copy_nodes_to(&self, copy: &Graph) -> Outcome {
        let mut map = BTreeMap::new();
        for (h, n) in self.ordered()? {
            let deps: Vec<Handle> = n.deps.iter().map(|d| map[d]).collect();
            map.insert(h, copy.add(n.work, &deps)?);
        }
        lock(&copy.owned).extend(lock(&self.owned).iter().cloned());
        Ok(())
    }
}

/// One node of an executable graph.
#[derive(Clone)]
pub struct ExecNode {
    /// The node that it was made from.
    pub source: Handle,
    /// What it does.
    pub work: Work,
    /// Positions of its predecessors.
    pub deps: Vec<usize>,
    /// Whether it runs.
    pub enabled: bool,
}

/// An executable graph.
pub struct GraphExec {
    /// Context current at instantiation.
    pub context: Handle,
    /// Instantiation flags.
    pub flags: u64,
    /// Nodes in execution order.
    pub nodes: Mutex<Vec<ExecNode>>,
    owned: Mutex<Vec<Arc<GraphMemory>>>,
}

/// Nodes in execution order with positions for dependencies.
pub fn flatten(graph: &Graph) -> Outcome<Vec<ExecNode>> {
    let ordered = graph.ordered()?;
    let position: BTreeMap<Handle, usize> = ordered.iter().enumerate().map(|(i, (h, _))| (*h, i)).collect();
    let exec = |(h, n): &(Handle, Node)| ExecNode {
        source: *h,
        work: n.work.clone(),
        deps: n.deps.iter().map(|d| position[d]).collect(),
        enabled: true,
    };
    Ok(ordered.iter().map(exec).collect())
}

impl GraphExec {
    /// Instantiates a graph.
    pub fn new(graph: &Graph, context: Handle, flags: u64) -> Outcome<GraphExec> {
        let owned = lock(&graph.owned).clone();
        Ok(GraphExec { context, flags, nodes: Mutex::new(flatten(graph)?), owned: Mutex::new(owned) })
    }

    /// Executes all nodes.
    pub fn run(&self, d: &'static Driver, context: &Arc<Context>) -> Outcome {
        let nodes = lock(&self.nodes).clone();
        nodes.iter().filter(|n| n.enabled).try_for_each(|n| n.work.execute(d, context))
    }

    /// The works of a launch, for a child node of another graph.
    pub fn works(&self) -> Arc<Vec<Work>> {
        Arc::new(lock(&self.nodes).iter().filter(|n| n.enabled).map(|n| n.work.clone()).collect())
    }

    /// Takes over the parameters of a graph of the same shape; `CUgraphExecUpdateResult` and the offending node
    /// otherwise.
    pub fn update(&self, graph: &Graph) -> Result<(), (i32, Handle)> {
        const TOPOLOGY_CHANGED: i32 = 2;
        const TYPE_CHANGED: i32 = 3;
        const PARAMETERS_CHANGED: i32 = 5;
        let fresh = flatten(graph).map_err(|_| (TOPOLOGY_CHANGED, Handle::NULL))?;
        let mut nodes = lock(&self.nodes);
        if fresh.len() != nodes.len() {
            return Err((TOPOLOGY_CHANGED, fresh.get(nodes.len()).map_or(Handle::NULL, |n| n.source)));
        }
        for (old, new) in nodes.iter().zip(&fresh) {
            if old.deps != new.deps {
                return Err((TOPOLOGY_CHANGED, new.source));
            }
            if node_type(&old.work) != node_type(&new.work) {
                return Err((TYPE_CHANGED, new.source));
            }
            if !compatible(&old.work, &new.work) {
                return Err((PARAMETERS_CHANGED, new.source));
            }
        }
        for (old, new) in nodes.iter_mut().zip(fresh) {
            old.work = new.work;
        }
        lock(&self.owned).extend(lock(&graph.owned).iter().cloned());
        Ok(())
    }
}

/// Whether an executable node may take over new parameters: copies must stay of the same kind and one-dimensional
/// shape class, as the driver documents; allocation nodes may not change.
pub fn compatible(old: &Work, new: &Work) -> bool {
    let host = |s: &Side| matches!(s, Side::Host(_));
    match (old, new) {
        (Work::Copy(a), Work::Copy(b)) => {
            host(&a.to) == host(&b.to)
                && host(&a.from) == host(&b.from)
                && (a.height * a.depth == 1) == (b.height * b.depth == 1)
        }
        (Work::Fill(a), Work::Fill(b)) => a.element == b.element && (a.height == 1) == (b.height == 1),
        (Work::Alloc(a, n), Work::Alloc(b, m)) => a == b && n == m,
        _ => node_type(old) == node_type(new),
    }
}
