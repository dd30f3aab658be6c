//! State of the process: devices, contexts, and the tables of everything that has a handle.

use super::allocations::Allocations;
use super::entry::explain;
use super::event::Event;
use super::graph::{Graph, GraphExec, NodeRef};
use super::handles::{Table, lock};
use super::image::{Function, Library, LibraryKernel, LoadedImage};
use super::pointers::Handle;
use super::pool::Pool;
use super::status::{Outcome, Status};
use super::stream::Stream;
use super::virtual_memory::VirtualMemory;
use crate::exec::{GlobalMemory, Machine, Settings};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// One visible device.
pub struct Device {
    /// Ordinal in this process.
    pub ordinal: usize,
    /// Ordinal before `CUDA_VISIBLE_DEVICES`.
    pub physical: usize,
    /// The machine that executes its kernels.
    pub machine: Machine,
    /// Primary context.
    pub primary: Mutex<Primary>,
    /// The default memory pool.
    pub default_pool: Handle,
    /// The pool that `cuMemAllocAsync` takes from.
    pub current_pool: Mutex<Handle>,
    /// Held by the launch that runs: launches of one device happen one after the other, which keeps traces equal.
    pub running: Mutex<()>,
}

/// The primary context of a device.
#[derive(Default)]
pub struct Primary {
    /// Context, while retained.
    pub context: Option<Handle>,
    /// Number of retains.
    pub count: usize,
    /// Flags for its creation.
    pub flags: u32,
}

/// A context.
pub struct Context {
    /// Its handle.
    pub handle: Handle,
    /// Device ordinal.
    pub device: usize,
    /// Whether it is a primary context.
    pub primary: bool,
    /// Creation flags.
    pub flags: Mutex<u32>,
    /// Why the context is lost, once it is.
    pub lost: Mutex<Option<Status>>,
    /// Limits set by the program.
    pub limits: Mutex<BTreeMap<i32, usize>>,
    /// Cache preference, returned as set.
    pub cache_config: Mutex<i32>,
    /// Devices to which peer access is enabled.
    pub peers: Mutex<BTreeSet<usize>>,
    /// Set when the context is destroyed while somebody still holds it.
    pub destroyed: AtomicBool,
}

impl Context {
    /// Marks the context as lost and prints why. The first reason stays.
    pub fn lose(&self, status: Status, why: &str) {
        let mut lost = lock(&self.lost);
        if lost.is_none() {
            *lost = Some(status);
            eprintln!("ptx-sim: {why}\nptx-sim: the context of device {} is lost", self.device);
        }
    }

    /// The sticky error, if the context is lost.
    pub fn usable(&self) -> Outcome {
        if self.destroyed.load(Ordering::Acquire) {
            return Err(Status::CONTEXT_IS_DESTROYED);
        }
        (*lock(&self.lost)).map_or(Ok(()), Err)
    }
}

/// Everything.
pub struct Driver {
    /// Settings from the environment.
    pub settings: Settings,
    /// Memory of all devices.
    pub memory: Arc<GlobalMemory>,
    /// Visible devices.
    pub devices: Vec<Device>,
    /// What was allocated, by whom.
    pub allocations: Allocations,
    /// Reserved ranges and physical handles.
    pub virtual_memory: VirtualMemory,
    /// Contexts.
    pub contexts: Table<Context>,
    /// Streams.
    pub streams: Table<Stream>,
    /// Events.
    pub events: Table<Event>,
    /// Modules.
    pub modules: Table<LoadedImage>,
    /// Libraries.
    pub libraries: Table<Library>,
    /// Functions of modules, and of library kernels in a context.
    pub functions: Table<Function>,
    /// Kernels of libraries.
    pub kernels: Table<LibraryKernel>,
    /// Graphs.
    pub graphs: Table<Graph>,
    /// Nodes of graphs.
    pub nodes: Table<NodeRef>,
    /// Executable graphs.
    pub execs: Table<GraphExec>,
    /// Memory pools.
    pub pools: Table<Pool>,
    /// Legacy stream of each context.
    pub legacy_streams: Mutex<BTreeMap<Handle, Handle>>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

thread_local! {
    static CONTEXT_STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// The driver, once `cuInit` has been called.
pub fn driver() -> Outcome<&'static Driver> {
    DRIVER.get().ok_or(Status::NOT_INITIALIZED)
}

/// `cuInit`: reads the settings and makes the devices. Later calls change nothing.
pub fn initialise() -> Outcome<&'static Driver> {
    if let Some(d) = DRIVER.get() {
        return Ok(d);
    }
    let settings = Settings::from_env().map_err(|e| {
        explain(&e.to_string());
        Status::INVALID_VALUE
    })?;
    let visible = visible_devices(settings.devices, std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref());
    if visible.is_empty() {
        explain("CUDA_VISIBLE_DEVICES leaves no device; unset it or raise LIGHTNING_SIM_DEVICES");
        return Err(Status::NO_DEVICE);
    }
    Ok(DRIVER.get_or_init(|| build(settings, &visible)))
}

fn build(settings: Settings, visible: &[usize]) -> Driver {
    let memory = Arc::new(GlobalMemory::new(settings.devices, settings.memory_bytes));
    let pools = Table::default();
    let devices = visible
        .iter()
        .enumerate()
        .map(|(ordinal, &physical)| {
            let (pool, _) = pools.add(|h| Pool::new(h, ordinal, true));
            Device {
                ordinal,
                physical,
                machine: Machine::new(settings.clone(), memory.clone(), physical),
                primary: Mutex::default(),
                default_pool: pool,
                current_pool: Mutex::new(pool),
                running: Mutex::new(()),
            }
        })
        .collect();
    Driver {
        settings,
        memory,
        devices,
        allocations: Allocations::default(),
        virtual_memory: VirtualMemory::default(),
        contexts: Table::default(),
        streams: Table::default(),
        events: Table::default(),
        modules: Table::default(),
        libraries: Table::default(),
        functions: Table::default(),
        kernels: Table::default(),
        graphs: Table::default(),
        nodes: Table::default(),
        execs: Table::default(),
        pools,
        legacy_streams: Mutex::default(),
    }
}

/// The devices that `CUDA_VISIBLE_DEVICES` leaves, in its order: numbers up to the first that is not a device.
fn visible_devices(count: usize, variable: Option<&str>) -> Vec<usize> {
    let Some(list) = variable else {
        return (0..count).collect();
    };
    let mut out = Vec::new();
    for item in list.split(',') {
        match item.trim().parse::<usize>() {
            Ok(i) if i < count && !out.contains(&i) => out.push(i),
            _ => break,
        }
    }
    out
}

impl Driver {
    /// A device by `CUdevice`.
    pub fn device(&self, ordinal: i32) -> Outcome<&Device> {
        usize::try_from(ordinal).ok().and_then(|i| self.devices.get(i)).ok_or(Status::INVALID_DEVICE)
    }

    /// The device of a context.
    pub fn device_of(&self, context: &Context) -> &Device {
        &self.devices[context.device]
    }

    /// Makes a context and does not make it current.
    pub fn create_context(&self, device: usize, flags: u32, primary: bool) -> Arc<Context> {
        let (_, c) = self.contexts.add(|handle| Context {
            handle,
            device,
            primary,
            flags: Mutex::new(flags),
            lost: Mutex::new(None),
            limits: Mutex::default(),
            cache_config: Mutex::new(0),
            peers: Mutex::default(),
            destroyed: AtomicBool::new(false),
        });
        c
    }

    /// Destroys a context with everything that belongs to it.
    pub fn destroy_context(&self, handle: Handle) -> Outcome {
        let context = self.contexts.remove(handle).map_err(|_| Status::INVALID_CONTEXT)?;
        context.destroyed.store(true, Ordering::Release);
        CONTEXT_STACK.with(|s| s.borrow_mut().retain(|&h| h != handle));
        self.execs.retain(|e| e.context != handle);
        self.functions.retain(|f| f.image.context != handle);
        self.modules.retain(|m| m.context != handle);
        for library in self.libraries.all() {
            lock(&library.loaded).remove(&handle);
        }
        self.events.retain(|e| e.context != handle);
        self.streams.retain(|s| s.context.handle != handle);
        lock(&self.legacy_streams).remove(&handle);
        for address in self.allocations.take_all_of(handle) {
            // The table says that it is live, so it can only have been freed already by a race of the program.
            let _ = self.memory.free(address);
        }
        Ok(())
    }
}

/// The current context of the calling thread, lost or not.
pub fn current_even_if_lost() -> Outcome<Arc<Context>> {
    let d = driver()?;
    let handle = CONTEXT_STACK.with(|s| s.borrow().last().copied()).filter(|h| *h != Handle::NULL);
    handle.and_then(|h| d.contexts.find(h)).ok_or(Status::INVALID_CONTEXT)
}

/// The current context; an error when there is none or when it is lost.
pub fn current() -> Outcome<Arc<Context>> {
    let c = current_even_if_lost()?;
    c.usable()?;
    Ok(c)
}

/// The context on top of the calling thread's stack, null if there is none.
pub fn stack_top() -> Handle {
    CONTEXT_STACK.with(|s| s.borrow().last().copied().unwrap_or(Handle::NULL))
}

/// Pushes a context.
pub fn push(handle: Handle) {
    CONTEXT_STACK.with(|s| s.borrow_mut().push(handle));
}

/// Pops a context.
pub fn pop() -> Outcome<Handle> {
    CONTEXT_STACK.with(|s| s.borrow_mut().pop()).ok_or(Status::INVALID_CONTEXT)
}

/// Replaces the top of the stack.
pub fn set_top(handle: Handle) {
    CONTEXT_STACK.with(|s| {
        let mut s = s.borrow_mut();
        s.pop();
        if handle != Handle::NULL {
            s.push(handle);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::visible_devices;

    #[test]
    fn visible_devices_stop_at_the_first_bad_entry() {
        assert_eq!(visible_devices(3, None), [0, 1, 2]);
        assert_eq!(visible_devices(3, Some("2, 0")), [2, 0]);
        assert_eq!(visible_devices(3, Some("1,7,2")), [1]);
        assert_eq!(visible_devices(3, Some("")), []);
        assert_eq!(visible_devices(3, Some("-1")), []);
        assert_eq!(visible_devices(3, Some("1,1")), [1]);
    }
}
