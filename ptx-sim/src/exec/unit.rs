//! A unit of execution: the blocks of one cluster with their warps, barriers and asynchronous work.

use super::env::{Env, MBARRIER_ENTITIES};
use super::mma_rows::MmaScratch;
use super::queue::AsyncOp;
use super::random::Random;
use super::warp::{Wait, Warp};
use super::wgmma::TileCache;
use crate::check::clock::Clock;
use crate::check::fault::{Fault, FaultKind, Place, Report};
use crate::check::shared::SharedShadow;
use crate::count::Counts;
use crate::ptx::decode::SHARED_START;
use crate::ptx::program::{Init, MaskKind, Special};
use std::collections::HashMap;

/// Why an instruction could not be completed.
pub(crate) struct Stop {
    pub(crate) kind: FaultKind,
    pub(crate) message: String,
}

pub(crate) fn stop<T>(kind: FaultKind, message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop { kind, message: message.into() })
}

pub(crate) type Step<T> = Result<T, Stop>;

/// An mbarrier.
pub(crate) struct Mbarrier {
    pub(crate) address: u32,
    pub(crate) live: bool,
    pub(crate) expected: u32,
    pub(crate) pending: i64,
    pub(crate) transactions: i64,
    pub(crate) phase: u64,
    pub(crate) entity: usize,
    /// Clock of the current phase for operations that complete on the barrier.
    pub(crate) clock: u32,
    pub(crate) arriving: Clock,
    pub(crate) arriving_fenced: Clock,
    pub(crate) done: Clock,
    pub(crate) done_fenced: Clock,
    /// Warp that initialised it, and its clock then.
    pub(crate) initialised: (usize, u32),
}

/// A named barrier of a block.
#[derive(Default)]
pub(crate) struct NamedBarrier {
    /// Warps expected in this phase; 0 before the first arrival, `u32::MAX` for "all".
    pub(crate) expected: u32,
    pub(crate) arrived: u32,
    pub(crate) waiting: Vec<usize>,
    pub(crate) arrived_only: Vec<usize>,
    pub(crate) vc: Clock,
    pub(crate) fenced: Clock,
    pub(crate) any: u32,
    pub(crate) all: bool,
    pub(crate) count: u32,
    /// Where the first arrival of the phase was.
    pub(crate) line: u32,
}

/// One block.
pub(crate) struct Cta {
    pub(crate) index: [u32; 3],
    pub(crate) rank: usize,
    pub(crate) shared: Vec<u8>,
    pub(crate) warps: Vec<Option<Box<Warp>>>,
    pub(crate) live_warps: usize,
    pub(crate) barriers: Vec<NamedBarrier>,
    pub(crate) mbarriers: Vec<Mbarrier>,
    /// Index + 1 of the mbarrier at each eight bytes.
    pub(crate) mbarrier_at: Vec<u16>,
    pub(crate) shadow: SharedShadow,
    /// Changes of each KiB of shared memory, for the tile cache.
    pub(crate) versions: Vec<u32>,
    pub(crate) tiles: TileCache,
    /// Registers free for `setmaxnreg.inc`, in registers of a whole warp.
    pub(crate) free_registers: i64,
    /// Asynchronous operations in flight that use this block's shared memory.
    pub(crate) in_flight: u32,
}

/// Barrier of the cluster.
#[derive(Default)]
pub(crate) struct ClusterBarrier {
    pub(crate) arrived: usize,
    /// Warps that exited after they had arrived.
    pub(crate) departed: usize,
    pub(crate) phase: u64,
    pub(crate) vc: Clock,
    pub(crate) fenced: Clock,
    pub(crate) waiting: Vec<(usize, usize)>,
    pub(crate) done: Clock,
    pub(crate) done_fenced: Clock,
}

/// The blocks of a cluster in execution.
pub(crate) struct Unit<'a> {
    pub(crate) env: &'a Env<'a>,
    pub(crate) id: u32,
    pub(crate) ctas: Vec<Cta>,
    pub(crate) cluster: ClusterBarrier,
    pub(crate) queue: Vec<AsyncOp>,
    pub(crate) next_op: u64,
    /// Clocks of the bulk operations issued so far.
    pub(crate) op_clocks: HashMap<u64, u32>,
    /// Buffers of the `mma` in execution.
    pub(crate) scratch: MmaScratch,
    /// What the last atomic on each shared word released.
    pub(crate) atomics: HashMap<u64, Clock>,
    /// Allocation of the last asynchronous access.
    pub(crate) last_range: usize,
    pub(crate) random: Random,
    /// Clock at which this unit started; later than all clocks in its shadows.
    pub(crate) start_clock: u32,
    pub(crate) max_clock: u32,
    pub(crate) progress: u64,
    pub(crate) reports: Vec<Report>,
    pub(crate) counts: Counts,
    pub(crate) trace: u64,
    pub(crate) printed: String,
    pub(crate) instructions: u64,
    pub(crate) checks: bool,
    pub(crate) live_warps: usize,
}

impl<'a> Unit<'a> {
    pub(crate) fn new(env: &'a Env<'a>) -> Unit<'a> {
        let cta = |rank| Cta {
            index: [0; 3],
            rank,
            shared: Vec::new(),
            warps: (0..env.warps).map(|_| Some(Box::new(Warp::new()))).collect(),
            live_warps: 0,
            barriers: (0..16).map(|_| NamedBarrier::default()).collect(),
            mbarriers: Vec::new(),
            mbarrier_at: Vec::new(),
            shadow: SharedShadow::default(),
            versions: Vec::new(),
            tiles: TileCache::default(),
            free_registers: 0,
            in_flight: 0,
        };
        Unit {
            env,
            id: 0,
            ctas: (0..env.cluster_size).map(cta).collect(),
            cluster: ClusterBarrier::default(),
            queue: Vec::new(),
            next_op: 0,
            op_clocks: HashMap::new(),
            scratch: MmaScratch::default(),
            atomics: HashMap::new(),
            last_range: 0,
            random: Random::new(0),
            start_clock: 1,
            max_clock: 1,
            progress: 0,
            reports: Vec::new(),
            counts: Counts::default(),
            trace: 0,
            printed: String::new(),
            instructions: 0,
            checks: env.settings.checks,
            live_warps: 0,
        }
    }

    /// Prepares the blocks of cluster `id`.
    pub(crate) fn start(&mut self, id: u32) {
        let env = self.env;
        self.id = id;
        self.random = Random::new(env.settings.seed ^ (id as u64).wrapping_mul(0xd134_2543_de82_ef95));
        self.start_clock = self.max_clock + 1;
        if self.start_clock > u32::MAX / 4 {
            // Clocks are about to run out: forget all shadows and begin again.
            for c in &mut self.ctas {
                c.shadow = SharedShadow::default();
                c.tiles = TileCache::default();
            }
            self.start_clock = 1;
        }
        self.max_clock = self.start_clock + 1;
        self.queue.clear();
        self.op_clocks.clear();
        self.atomics.clear();
        self.trace = id as u64;
        let n = env.clusters();
        let at = [id % n[0], id / n[0] % n[1], id / n[0] / n[1]];
        let entities = if self.checks { env.entities() } else { 0 };
        self.cluster = ClusterBarrier::default();
        self.cluster.vc = Clock::at(entities, self.start_clock);
        self.cluster.fenced = self.cluster.vc.clone();
        self.live_warps = env.cluster_size * env.warps;
        for rank in 0..env.cluster_size {
            let [cx, cy, _] = env.cluster;
            let r = rank as u32;
            let inner = [r % cx, r / cx % cy, r / cx / cy];
            let index = std::array::from_fn(|i| at[i] * env.cluster[i] + inner[i]);
            self.start_cta(rank, index, inner, at, entities);
        }
    }

    fn start_cta(&mut self, rank: usize, index: [u32; 3], inner: [u32; 3], cluster: [u32; 3], entities: usize) {
        let env = self.env;
        let start = self.start_clock;
        let cta = &mut self.ctas[rank];
        cta.index = index;
        cta.live_warps = env.warps;
        cta.in_flight = 0;
        cta.shared.clear();
        cta.shared.resize(env.shared_end, 0xcd);
        cta.versions.resize(env.shared_end.div_ceil(1024) + 1, 0);
        // Tiles of the block before are stale.
        cta.versions.iter_mut().for_each(|v| *v = v.wrapping_add(1));
        cta.mbarriers.clear();
        cta.mbarrier_at.clear();
        cta.mbarrier_at.resize(env.shared_end / 8 + 1, 0);
        cta.free_registers = 0;
        for b in &mut cta.barriers {
            *b = NamedBarrier {
                vc: Clock::at(entities, start),
                fenced: Clock::at(entities, start),
                all: true,
                ..NamedBarrier::default()
            };
        }
        if self.checks {
            let groups = env.group_entity(rank, 0);
            cta.shadow.reset(env.shared_end, env.warps, rank * env.warps, groups);
        }
        let p = env.program;
        for (id, w) in cta.warps.iter_mut().enumerate() {
            let w = w.get_or_insert_with(|| Box::new(Warp::new()));
            let first = id as u32 * 32;
            let n = env.threads.saturating_sub(first).min(32);
            let live = if n == 32 { u32::MAX } else { (1 << n) - 1 };
            w.start(id, rank * env.warps + id, p.entry, live);
            w.registers = env.registers;
            w.regs.reset(p.rows32, p.rows64, p.rows_pred);
            w.local_bytes = env.kernel.local_bytes;
            w.local.clear();
            w.local.resize(32 * w.local_bytes, 0xcd);
            w.vc = Clock::at(entities, start);
            w.fenced = Clock::at(entities, start);
            w.copy_clock = start;
            if self.checks {
                w.vc.own[w.entity] = start + 1;
            }
            for (slot, init) in &p.inits {
                let row = init_row(env, init, id, rank, index, inner, cluster);
                w.regs.put_wide(*slot, u32::MAX, &row);
            }
        }
    }

    /// Entity of the `cp.async` writes of a warp.
    pub(crate) fn copy_entity(&self, warp: usize) -> usize {
        self.env.warps * self.env.cluster_size + warp
    }

    /// Entity of the bulk copies of a warp.
    pub(crate) fn bulk_entity(&self, warp: usize) -> usize {
        2 * self.env.warps * self.env.cluster_size + warp
    }

    /// Entity of an mbarrier of a block.
    pub(crate) fn mbarrier_entity(&self, rank: usize, index: usize) -> usize {
        3 * self.env.warps * self.env.cluster_size + rank * MBARRIER_ENTITIES + index % MBARRIER_ENTITIES
    }

    /// Entity of the `wgmma` operations of a warpgroup.
    pub(crate) fn group_entity(&self, rank: usize, group: usize) -> usize {
        self.env.group_entity(rank, group)
    }

    /// What an entity is, for reports.
    pub(crate) fn entity_name(&self, e: usize) -> String {
        let n = self.env.warps * self.env.cluster_size;
        let warp = |w: usize| {
            let (rank, w) = (w / self.env.warps, w % self.env.warps);
            if self.env.cluster_size > 1 { format!("warp {w} of block rank {rank}") } else { format!("warp {w}") }
        };
        if e < n {
            warp(e)
        } else if e < 2 * n {
            format!("cp.async of {}", warp(e - n))
        } else if e < 3 * n {
            format!("bulk copy of {}", warp(e - 2 * n))
        } else if let Some(g) = e.checked_sub(self.env.group_entity(0, 0)) {
            let first = g / self.env.warpgroups() * self.env.warps + g % self.env.warpgroups() * 4;
            format!("wgmma of the warpgroup of {}", warp(first))
        } else {
            let i = e - 3 * n;
            format!("bulk copy to mbarrier {} of block rank {}", i % MBARRIER_ENTITIES, i / MBARRIER_ENTITIES)
        }
    }

    /// Starts a new clock tick of a warp: what it did so far may have been released.
    #[inline]
    pub(crate) fn tick(&mut self, w: &mut Warp) {
        if self.checks {
            let c = &mut w.vc.own[w.entity];
            *c += 1;
            self.max_clock = self.max_clock.max(*c);
        }
    }

    pub(crate) fn place(&self, cta: usize, warp: Option<usize>, pc: Option<u32>) -> Place {
        let inst = pc.and_then(|p| self.env.program.insts.get(p as usize));
        Place {
            kernel: self.env.kernel.name.clone(),
            ptx_line: inst.map_or(0, |i| i.line),
            instruction: inst.map_or(String::new(), |i| self.env.module.line(i.line).to_string()),
            source: inst
                .and_then(|i| i.loc)
                .map(|(f, l)| (self.env.module.files.get(&f).cloned().unwrap_or_else(|| format!("file {f}")), l)),
            cta: self.ctas[cta].index,
            warp: warp.map(|w| w as u32),
        }
    }

    /// Records a finding; the same kind at the same line is kept once per unit.
    #[cold]
    pub(crate) fn find(&mut self, kind: FaultKind, cta: usize, warp: Option<usize>, pc: Option<u32>, message: String) {
        let line = pc.and_then(|p| self.env.program.insts.get(p as usize)).map_or(0, |i| i.line);
        if self.reports.len() >= Fault::MAX_REPORTS
            || self.reports.iter().any(|r| r.kind == kind && r.place.ptx_line == line)
        {
            return;
        }
        let place = self.place(cta, warp, pc);
        self.reports.push(Report { kind, place, message });
    }

    /// State of every warp that has not exited, for a deadlock report.
    pub(crate) fn waiters(&self) -> String {
        let mut out = Vec::new();
        for c in &self.ctas {
            for w in c.warps.iter().flatten().filter(|w| !w.done()) {
                let mut s = String::new();
                if self.ctas.len() > 1 {
                    s += &format!("rank {} ", c.rank);
                }
                s += &format!("warp {}: ", w.id);
                let at = |pc: u32| self.env.program.insts.get(pc as usize).map_or(0, |i| i.line);
                match w.wait {
                    Wait::Barrier(id) => {
                        let b = &c.barriers[id as usize];
                        let all = if b.expected == u32::MAX { c.live_warps as u32 } else { b.expected };
                        s += &format!("barrier {id} ({} of {all} warps arrived)", b.arrived);
                    }
                    Wait::Cluster => {
                        s += &format!("cluster barrier ({} of {} warps arrived)", self.cluster.arrived, self.live_warps)
                    }
                    Wait::Registers(n) => s += &format!("setmaxnreg.inc {n} ({} registers free)", c.free_registers),
                    Wait::Wgmma(_) => s += "wgmma.wait_group, another warp of the group has not issued the same wgmma",
                    Wait::No => s += "spinning",
                }
                let lines: Vec<String> = w
                    .groups
                    .iter()
                    .map(|g| {
                        if g.mask == w.live {
                            format!("line {}", at(g.pc))
                        } else {
                            format!("lanes {:#010x} line {}", g.mask, at(g.pc))
                        }
                    })
                    .collect();
                s += &format!(" at {}", lines.join(", "));
                for g in &w.groups {
                    if let Some(m) = self.waited_mbarrier(c, w, g.pc, g.mask) {
                        s += &format!(" {m}");
                    }
                }
                out.push(s);
            }
        }
        out.join("; ")
    }
}

fn init_row(
    env: &Env<'_>,
    init: &Init,
    warp: usize,
    rank: usize,
    index: [u32; 3],
    inner: [u32; 3],
    cluster: [u32; 3],
) -> [u64; 32] {
    let special = |s: &Special| -> [u64; 32] {
        let thread = |l: usize| (warp * 32 + l) as u32;
        let [bx, by, _] = env.block;
        let n = env.clusters();
        let all = |v: u64| [v; 32];
        match s {
            Special::Tid(0) => std::array::from_fn(|l| (thread(l) % bx) as u64),
            Special::Tid(1) => std::array::from_fn(|l| (thread(l) / bx % by) as u64),
            Special::Tid(_) => std::array::from_fn(|l| (thread(l) / bx / by) as u64),
            Special::Ntid(i) => all(env.block[*i as usize] as u64),
            Special::Ctaid(i) => all(index[*i as usize] as u64),
            Special::Nctaid(i) => all(env.grid[*i as usize] as u64),
            Special::ClusterId(i) => all(cluster[*i as usize] as u64),
            Special::NclusterId(i) => all(n[*i as usize] as u64),
            Special::ClusterCtaid(i) => all(inner[*i as usize] as u64),
            Special::ClusterNctaid(i) => all(env.cluster[*i as usize] as u64),
            Special::ClusterCtarank => all(rank as u64),
            Special::ClusterNctarank => all(env.cluster_size as u64),
            Special::ExplicitCluster => all(env.explicit_cluster as u64),
            Special::LaneId => std::array::from_fn(|l| l as u64),
            Special::WarpId => all(warp as u64),
            Special::NwarpId => all(env.warps as u64),
            Special::SmId => {
                let linear =
                    index[0] as u64 + env.grid[0] as u64 * (index[1] as u64 + env.grid[1] as u64 * index[2] as u64);
                all(linear % env.settings.architecture.multiprocessors() as u64)
            }
            Special::NsmId => all(env.settings.architecture.multiprocessors() as u64),
            Special::GridId => all(env.grid_id),
            Special::LaneMask(k) => std::array::from_fn(|l| {
                let eq = 1u64 << l;
                let v = match k {
                    MaskKind::Eq => eq,
                    MaskKind::Lt => eq - 1,
                    MaskKind::Le => eq | (eq - 1),
                    MaskKind::Gt => !(eq | (eq - 1)),
                    MaskKind::Ge => !(eq - 1),
                };
                v & 0xffff_ffff
            }),
            Special::DynamicShared => all(env.dynamic_shared as u64),
            Special::TotalShared => all(env.shared_end as u64 - SHARED_START + 1024),
        }
    };
    match init {
        Init::Bits(v) => [*v; 32],
        Init::Special(s) => special(s),
        Init::Shared(a) => [*a | (rank as u64) << 24; 32],
        Init::Variable(i, o) => [env.variables.get(*i).copied().unwrap_or(0).wrapping_add(*o); 32],
    }
}
