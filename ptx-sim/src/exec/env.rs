//! What all blocks of a launch share.

use super::lanes::LaneFn;
use super::memory::View;
use super::mma_rows::MmaRows;
use super::settings::Settings;
use super::tile_math::Mac;
use crate::check::clock::SyncObject;
use crate::ptx::module::{Kernel, Module};
use crate::ptx::program::Program;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Launch-wide state; shared by host threads.
pub(crate) struct Env<'a> {
    pub(crate) module: &'a Module,
    pub(crate) kernel: &'a Kernel,
    pub(crate) program: &'a Program,
    pub(crate) view: View<'a>,
    pub(crate) settings: &'a Settings,
    pub(crate) params: &'a [u8],
    /// Device address of each module variable.
    pub(crate) variables: Vec<u64>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) explicit_cluster: bool,
    pub(crate) threads: u32,
    pub(crate) warps: usize,
    /// Blocks of a cluster.
    pub(crate) cluster_size: usize,
    pub(crate) dynamic_shared: u32,
    /// End of a block's shared memory, as an address.
    pub(crate) shared_end: usize,
    /// Registers of a block that `setmaxnreg` moves between warps, per thread of the launch.
    pub(crate) registers: u32,
    /// Whether that number is the compiled one.
    pub(crate) registers_known: bool,
    /// Launch number for the shadow cells, 1 to 1023.
    pub(crate) launch: u64,
    pub(crate) grid_id: u64,
    pub(crate) lane_fn: LaneFn,
    pub(crate) mac: Mac,
    pub(crate) mma_rows: MmaRows,
    /// Whether global memory is checked for races (off for grids beyond the shadow's range).
    pub(crate) global_races: bool,
    /// Whether blocks can order each other through global memory.
    pub(crate) orders: bool,
    /// What releases left, by address and block.
    pub(crate) sync: Mutex<HashMap<(u64, u64), SyncObject>>,
    pub(crate) stop: AtomicBool,
    pub(crate) launched_dependents: AtomicBool,
}

impl Env<'_> {
    /// Number of clusters in each direction.
    pub(crate) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|i| self.grid[i] / self.cluster[i])
    }

    /// Entities of a unit's vector clocks besides the warps: see [`crate::check::clock`].
    pub(crate) fn entities(&self) -> usize {
        let w = self.warps * self.cluster_size;
        4 * w + (MBARRIER_ENTITIES + self.warpgroups()) * self.cluster_size
    }

    /// Warpgroups of a block, the last perhaps of fewer than four warps.
    pub(crate) fn warpgroups(&self) -> usize {
        self.warps.div_ceil(4)
    }

    /// Entity of the `wgmma` operations of a warpgroup.
    pub(crate) fn group_entity(&self, rank: usize, group: usize) -> usize {
        (3 * self.warps + MBARRIER_ENTITIES) * self.cluster_size + rank * self.warpgroups() + group
    }

    /// Entity of the mbarriers that a warp initialised: known where a `fence.mbarrier_init` behind them is known.
    pub(crate) fn init_entity(&self, warp: usize) -> usize {
        self.group_entity(self.cluster_size, 0) + warp
    }
}

/// mbarriers of a block that have a clock entity of their own; more of them share.
pub(crate) const MBARRIER_ENTITIES: usize = 64;
