//! Launch attributes of kernel nodes, and events of nodes in executables.

use super::api_graph_nodes::{event_work, kernel_of, set, set_exec};
use super::launch::{Attributes, Shape, prepare_packed};
use super::pointers::{Handle, In, Out};
use super::status::{Outcome, Status};
use super::work::{KernelWork, Work};

const COOPERATIVE: i32 = 2;
const CLUSTER_DIMENSION: i32 = 4;
const PROGRAMMATIC_SERIALIZATION: i32 = 6;

/// `CUlaunchAttributeValue`
pub type Value = [u32; 16];

fn attributes_of(k: &KernelWork) -> Attributes {
    Attributes { cluster: k.cluster, cooperative: k.cooperative, programmatic: k.programmatic, node: true, event: None }
}

/// Gives a kernel node new attributes, with the checks of a launch.
fn replace(node: Handle, k: KernelWork, attributes: Attributes) -> Outcome {
    let shape = Shape { grid: k.grid, block: k.block, shared: k.dynamic_shared, attributes };
    set(node, Work::Kernel(prepare_packed(k.handle, k.function, shape, k.params)?))
}

super::entry::api! {
    /// Sets a launch attribute of a kernel node.
    fn cuGraphKernelNodeSetAttribute(node: Handle, attribute: i32, value: In<Value>) {
        let v = value.get()?;
        let k = kernel_of(node)?;
        let mut a = attributes_of(&k);
        match attribute {
            COOPERATIVE => a.cooperative = v[0] != 0,
            CLUSTER_DIMENSION => a.cluster = Some([v[0], v[1], v[2]]),
            PROGRAMMATIC_SERIALIZATION => a.programmatic = v[0] != 0,
            // Hints: access window, cluster scheduling, priority, memory synchronisation domains, preferred cluster, carveout.
            1 | 5 | 8 | 9 | 10 | 11 | 14 => return Ok(()),
            _ => return Err(Status::INVALID_VALUE),
        }
        replace(node, k, a)
    }

    /// A launch attribute of a kernel node.
    fn cuGraphKernelNodeGetAttribute(node: Handle, attribute: i32, value: Out<Value>) {
        value.check()?;
        let k = kernel_of(node)?;
        let mut v = [0; 16];
        match attribute {
            COOPERATIVE => v[0] = k.cooperative as u32,
            CLUSTER_DIMENSION => v[..3].copy_from_slice(&k.cluster.unwrap_or([0; 3])),
            PROGRAMMATIC_SERIALIZATION => v[0] = k.programmatic as u32,
            1 | 5 | 8 | 9 | 10 | 11 | 14 => {}
            _ => return Err(Status::INVALID_VALUE),
        }
        value.set(v)
    }

    /// Copies the launch attributes of a kernel node.
    fn cuGraphKernelNodeCopyAttributes(to: Handle, from: Handle) {
        let a = attributes_of(&kernel_of(from)?);
        replace(to, kernel_of(to)?, a)
    }

    /// Changes the event of a record node of an executable.
    fn cuGraphExecEventRecordNodeSetEvent(h: Handle, node: Handle, event: Handle) {
        let w = event_work(event, true)?;
        set_exec(h, node, |_| Ok(w))
    }

    /// Changes the event of a wait node of an executable.
    fn cuGraphExecEventWaitNodeSetEvent(h: Handle, node: Handle, event: Handle) {
        let w = event_work(event, false)?;
        set_exec(h, node, |_| Ok(w))
    }
}
