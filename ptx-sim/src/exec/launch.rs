//! Launches: what is asked for, what comes back.

use super::env::Env;
use super::memory::GlobalMemory;
use super::settings::Settings;
use crate::check::fault::{Fault, FaultKind};
use crate::count::Counts;
use crate::ptx::module::{Kernel, Module};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A module whose `.global` and `.const` variables have been placed in device memory.
pub struct LoadedModule {
    /// The decoded module.
    pub module: Arc<Module>,
    /// Device address of each variable, by name.
    pub addresses: HashMap<String, u64>,
    memory: Arc<GlobalMemory>,
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        for a in self.addresses.values() {
            // The address space may outlive the variable only as a freed range; a second free cannot happen.
            let _ = self.memory.free(*a);
        }
    }
}

/// One kernel launch.
#[derive(Clone)]
pub struct Launch<'a> {
    /// The module.
    pub module: &'a LoadedModule,
    /// Kernel name.
    pub kernel: &'a str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y, z; `None` takes what the kernel requires, or 1.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared: u32,
    /// Largest dynamic shared memory that the kernel was opted in to (`cuFuncSetAttribute`); `None`: no limit but the device's.
    pub max_dynamic_shared: Option<u32>,
    /// The parameter block, as [`crate::exec::Kernel::params`] lays it out.
    pub params: Vec<u8>,
    /// Registers per thread when known from a cubin, for occupancy and `setmaxnreg`.
    pub registers: Option<u32>,
    /// All blocks must be resident at once (`cuLaunchCooperativeKernel`).
    pub cooperative: bool,
    /// Programmatic stream serialisation: the launch may start before its predecessor has finished, which makes
    /// `griddepcontrol.wait` matter. Execution itself is always in order.
    pub programmatic: bool,
}

impl<'a> Launch<'a> {
    /// A launch of one block of one thread without parameters, to be completed with struct update syntax.
    pub fn new(module: &'a LoadedModule, kernel: &'a str) -> Launch<'a> {
        Launch {
            module,
            kernel,
            grid: [1; 3],
            block: [1; 3],
            cluster: None,
            dynamic_shared: 0,
            max_dynamic_shared: None,
            params: Vec::new(),
            registers: None,
            cooperative: false,
            programmatic: false,
        }
    }
}

/// What a launch leaves besides its memory.
#[derive(Clone, Debug, Default)]
pub struct LaunchReport {
    /// Counts, when [`Settings::counts`] is on.
    pub counts: Counts,
    /// Hash of every block's sequence of executed instructions; equal for equal seeds.
    pub trace: u64,
    /// Output of `printf`.
    pub printed: String,
    /// Whether the kernel allowed its dependents to start early (`griddepcontrol.launch_dependents`).
    pub launched_dependents: bool,
}

/// One virtual device.
pub struct Machine {
    settings: Settings,
    memory: Arc<GlobalMemory>,
    device: usize,
}

impl Machine {
    /// Device `device` of the address space `memory`.
    pub fn new(settings: Settings, memory: Arc<GlobalMemory>, device: usize) -> Machine {
        Machine { settings, memory, device }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The address space.
    pub fn memory(&self) -> &Arc<GlobalMemory> {
        &self.memory
    }

    /// Places the variables of a module in device memory.
    ///
    /// # Errors
    /// A [`Fault`] when the memory does not suffice.
    pub fn load(&self, module: Arc<Module>) -> Result<LoadedModule, Fault> {
        let fault = |e: super::MemoryError| Fault::launch(FaultKind::InvalidLaunch, "", e.to_string());
        let mut addresses = HashMap::new();
        let mut order = Vec::new();
        for v in &module.variables {
            let a = self.memory.allocate(self.device, v.bytes.max(1) as u64).map_err(fault)?;
            addresses.insert(v.name.clone(), a);
            order.push(a);
            self.memory.write(a, &v.initial).map_err(fault)?;
        }
        for (v, a) in module.variables.iter().zip(&order) {
            for (at, target, offset) in &v.relocations {
                self.memory.write(a + *at as u64, &(order[*target] + offset).to_le_bytes()).map_err(fault)?;
            }
        }
        Ok(LoadedModule { module, addresses, memory: self.memory.clone() })
    }

    /// Executes a launch to its end.
    ///
    /// # Errors
    /// A [`Fault`] with everything that was found, after which device memory is as the kernel left it.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<LaunchReport, Fault> {
        let module = &launch.module.module;
        let Some(kernel) = module.kernel(launch.kernel) else {
            let names: Vec<&str> = module.kernels.iter().map(|k| k.name.as_str()).collect();
            let message = format!("the module has no such kernel; it has {}", names.join(", "));
            return Err(Fault::launch(FaultKind::InvalidLaunch, launch.kernel, message));
        };
        let cluster = validate(launch, kernel, &self.settings)?;
        let number = self.memory.next_launch();
        if number > 1 && number % 1023 == 1 {
            // Launch numbers in the shadow cells begin again.
            self.memory.forget_shadows();
        }
        let _hold = self.memory.hold();
        let program = &kernel.program;
        let threads = launch.block.iter().product::<u32>();
        let warps = threads.div_ceil(32) as usize;
        let units: u64 = (0..3).map(|i| (launch.grid[i] / cluster[i]) as u64).product();
        let estimate = estimated_registers(kernel, threads);
        let shared_end = program.dynamic_shared as usize + launch.dynamic_shared as usize;
        let env = Env {
            module,
            kernel,
            program,
            view: self.memory.view(),
            settings: &self.settings,
            params: &launch.params,
            variables: module
                .variables
                .iter()
                .map(|v| launch.module.addresses.get(&v.name).copied().unwrap_or(0))
                .collect(),
            grid: launch.grid,
            block: launch.block,
            cluster,
            explicit_cluster: launch.cluster.is_some() || kernel.required_cluster.is_some(),
            threads,
            warps,
            cluster_size: cluster.iter().product::<u32>() as usize,
            dynamic_shared: launch.dynamic_shared,
            shared_end: shared_end.div_ceil(16) * 16,
            registers: launch.registers.or(kernel.max_registers).unwrap_or(estimate),
            registers_known: launch.registers.is_some() || kernel.max_registers.is_some(),
            launch: (number - 1) % 1023 + 1,
            grid_id: number,
            lane_fn: super::lanes::select(),
            mac: super::tile_math::select(),
            mma_rows: super::mma_rows::select(),
            global_races: self.settings.checks
                && units < 1 << 24
                && warps * (cluster.iter().product::<u32>() as usize) <= 512,
            orders: self.settings.checks && program.communicates,
            sync: Mutex::new(HashMap::new()),
            stop: AtomicBool::new(false),
            launched_dependents: AtomicBool::new(false),
        };
        super::grid::run(&env, units, resident_units(launch, kernel, &self.settings, threads, &env))
    }
}

/// Registers per thread that the compiler can have used at most.
fn estimated_registers(kernel: &Kernel, threads: u32) -> u32 {
    let threads = kernel.max_threads.or(kernel.required_threads).map_or(threads, |t| t.iter().product()).max(1);
    let warps = threads.div_ceil(32) * kernel.min_blocks.unwrap_or(1).max(1);
    (65_536 / (warps * 32) / 8 * 8).clamp(24, 255)
}

/// Units that are resident at once.
fn resident_units(launch: &Launch<'_>, kernel: &Kernel, settings: &Settings, threads: u32, env: &Env<'_>) -> usize {
    let a = settings.architecture;
    let warps = threads.div_ceil(32);
    let shared = env.shared_end as u32;
    let by_threads = a.threads_per_multiprocessor() / (warps * 32).max(1);
    let by_shared = a.shared_per_multiprocessor() / shared.max(1024);
    let registers = launch.registers.or(kernel.max_registers).unwrap_or(32).div_ceil(8) * 8;
    let by_registers = a.registers_per_multiprocessor() / (registers * warps * 32).max(1);
    let blocks = by_threads.min(by_shared).min(by_registers).min(a.blocks_per_multiprocessor()).max(1);
    ((blocks * a.multiprocessors()) as usize / env.cluster_size).max(1)
}

/// Checks a launch against the device and the kernel; returns the cluster size.
fn validate(launch: &Launch<'_>, kernel: &Kernel, settings: &Settings) -> Result<[u32; 3], Fault> {
    let a = settings.architecture;
    let fail = |kind, message: String| Err(Fault::launch(kind, &kernel.name, message));
    let bad = |message: String| fail(FaultKind::InvalidLaunch, message);
    let (grid, block) = (launch.grid, launch.block);
    if grid.contains(&0) || block.contains(&0) {
        return bad(format!("grid {grid:?} and block {block:?} must have no zero"));
    }
    if grid[0] > i32::MAX as u32 || grid[1] > 65_535 || grid[2] > 65_535 {
        return bad(format!("grid {grid:?} exceeds [2147483647, 65535, 65535]"));
    }
    let threads = block.iter().map(|b| *b as u64).product::<u64>();
    if block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > 1024 {
        return fail(
            FaultKind::OverSubscription,
            format!("block {block:?} has {threads} threads; 1024 threads, [1024, 1024, 64] are possible"),
        );
    }
    if let Some(max) = kernel.max_threads
        && threads > max.iter().map(|b| *b as u64).product::<u64>()
    {
        return fail(
            FaultKind::OverSubscription,
            format!("block {block:?} exceeds .maxntid {max:?} of the kernel; launch fewer threads"),
        );
    }
    if let Some(required) = kernel.required_threads
        && required != block
    {
        return bad(format!("block {block:?} where the kernel requires {required:?} (.reqntid)"));
    }
    if let Some(r) = launch.registers.or(kernel.max_registers) {
        let need = r.div_ceil(8) as u64 * 8 * threads.div_ceil(32) * 32;
        if need > a.registers_per_multiprocessor() as u64 {
            return fail(
                FaultKind::OverSubscription,
                format!("{r} registers for {threads} threads are {need} of {}", a.registers_per_multiprocessor()),
            );
        }
    }
    let reserved = crate::ptx::decode::SHARED_START;
    let shared = kernel.program.dynamic_shared - reserved + launch.dynamic_shared as u64;
    if shared > a.max_shared_per_block_optin() as u64 {
        return fail(
            FaultKind::OverSubscription,
            format!("{shared} bytes of shared memory, a block has at most {}", a.max_shared_per_block_optin()),
        );
    }
    if let Some(max) = launch.max_dynamic_shared
        && launch.dynamic_shared > max
    {
        return bad(format!(
            "{} bytes of dynamic shared memory, the kernel was opted in to {max}; set CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
            launch.dynamic_shared
        ));
    }
    let cluster = launch.cluster.or(kernel.required_cluster).unwrap_or([1; 3]);
    if kernel.explicit_cluster && launch.cluster.is_none() && kernel.required_cluster.is_none() {
        return bad("the kernel needs a cluster size at launch (.explicitcluster)".to_string());
    }
    if let (Some(asked), Some(required)) = (launch.cluster, kernel.required_cluster)
        && asked != required
    {
        return bad(format!("cluster {asked:?} where the kernel requires {required:?}"));
    }
    let size = cluster.iter().map(|c| *c as u64).product::<u64>();
    let limit = kernel.max_cluster.unwrap_or(16) as u64;
    if size == 0 || size > limit.min(16) || (0..3).any(|i| !grid[i].is_multiple_of(cluster[i].max(1))) {
        return bad(format!("cluster {cluster:?} does not divide grid {grid:?} or has more than {limit} blocks"));
    }
    let want: Vec<(usize, usize)> = kernel.params.iter().map(|p| (p.offset, p.bytes)).collect();
    if launch.params.len() != kernel.param_bytes {
        return fail(
            FaultKind::InvalidParameters,
            format!(
                "{} bytes of parameters where the kernel takes {} (offset, size: {want:?})",
                launch.params.len(),
                kernel.param_bytes
            ),
        );
    }
    Ok(cluster)
}
