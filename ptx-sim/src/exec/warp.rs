//! State of one warp: registers, groups of lanes, pending asynchronous work.

use super::regs::Regs;
use crate::check::clock::Clock;
use std::collections::VecDeque;

/// Whether a group of lanes can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupState {
    Ready,
    /// Waits at its instruction for other lanes of the warp.
    Together,
    /// Failed to get on; runs again in the warp's next turn.
    Spin,
}

/// Lanes that share a program counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) state: GroupState,
}

/// What the whole warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    Barrier(u32),
    Cluster,
    Registers(u32),
    /// For the other warps of its group to issue what it waits for; keeps some groups pending.
    Wgmma(u32),
}

/// One `cp.async` of a lane whose data has not arrived.
pub(crate) struct PendingCopy {
    pub(crate) lane: u8,
    /// Group of the lane, counted from its first.
    pub(crate) group: u32,
    pub(crate) shared: u32,
    pub(crate) bytes: u8,
    pub(crate) clock: u32,
    pub(crate) data: [u8; 16],
}

/// A `wgmma` that was issued and not waited for.
#[derive(Clone)]
pub(crate) struct PendingWgmma {
    pub(crate) pc: u32,
    pub(crate) desc_a: u64,
    pub(crate) desc_b: u64,
    pub(crate) scale_d: bool,
    /// A from registers, as it was at issue.
    pub(crate) a: Vec<[u32; 32]>,
}

/// State of a warp.
pub(crate) struct Warp {
    pub(crate) id: usize,
    /// Warp within the unit: entity of its vector clock.
    pub(crate) entity: usize,
    pub(crate) regs: Regs,
    /// Groups in order of their program counters.
    pub(crate) groups: Vec<Group>,
    /// Lanes that exist and have not exited.
    pub(crate) live: u32,
    pub(crate) wait: Wait,
    /// Quanta that one group ran while others were ready.
    pub(crate) stale: u32,
    /// Whether the last turn ended because nothing could get on.
    pub(crate) spun: bool,
    pub(crate) local: Vec<u8>,
    pub(crate) local_bytes: usize,
    pub(crate) last_range: usize,
    // Clocks.
    pub(crate) vc: Clock,
    /// What the asynchronous proxy may rely on.
    pub(crate) fenced: Clock,
    /// Knowledge at the last wide fence: what relaxed operations release.
    pub(crate) at_fence: Option<Clock>,
    /// Knowledge read by relaxed operations: acquired by the next fence.
    pub(crate) pending_acquire: Option<Clock>,
    // cp.async
    pub(crate) copies: Vec<PendingCopy>,
    pub(crate) committed: [u32; 32],
    pub(crate) copy_clock: u32,
    // Bulk groups: operations issued since the last commit, and sizes of committed groups.
    pub(crate) bulk_open: Vec<u64>,
    pub(crate) bulk_groups: VecDeque<Vec<u64>>,
    // wgmma
    pub(crate) wgmma_open: Vec<PendingWgmma>,
    pub(crate) wgmma_groups: VecDeque<Vec<PendingWgmma>>,
    /// Operations that were waited for, and those whose results exist: some other warp of the group waited.
    pub(crate) wgmma_retired: u32,
    pub(crate) wgmma_executed: u32,
    /// Rows written since the last `wgmma.fence`, which a `wgmma` may not use; empty without `wgmma`.
    pub(crate) dirty: Vec<bool>,
    pub(crate) fenced_once: bool,
    /// Registers per thread after `setmaxnreg`.
    pub(crate) registers: u32,
    pub(crate) cluster_arrived: bool,
    /// Phase of the cluster barrier that the warp has waited for last.
    pub(crate) cluster_seen: u64,
}

impl Warp {
    pub(crate) fn new() -> Warp {
        Warp {
            id: 0,
            entity: 0,
            regs: Regs::default(),
            groups: Vec::new(),
            live: 0,
            wait: Wait::No,
            stale: 0,
            spun: false,
            local: Vec::new(),
            local_bytes: 0,
            last_range: 0,
            vc: Clock::default(),
            fenced: Clock::default(),
            at_fence: None,
            pending_acquire: None,
            copies: Vec::new(),
            committed: [0; 32],
            copy_clock: 0,
            bulk_open: Vec::new(),
            bulk_groups: VecDeque::new(),
            wgmma_open: Vec::new(),
            wgmma_groups: VecDeque::new(),
            wgmma_retired: 0,
            wgmma_executed: 0,
            dirty: Vec::new(),
            fenced_once: false,
            registers: 0,
            cluster_arrived: false,
            cluster_seen: 0,
        }
    }

    /// Makes the warp ready to start at `pc` with `live` lanes. Constant rows are filled by the caller.
    pub(crate) fn start(&mut self, id: usize, entity: usize, pc: u32, live: u32) {
        self.id = id;
        self.entity = entity;
        self.groups.clear();
        self.groups.push(Group { pc, mask: live, state: GroupState::Ready });
        self.live = live;
        self.wait = Wait::No;
        self.stale = 0;
        self.spun = false;
        self.last_range = 0;
        self.at_fence = None;
        self.pending_acquire = None;
        self.copies.clear();
        self.committed = [0; 32];
        self.bulk_open.clear();
        self.bulk_groups.clear();
        self.wgmma_open.clear();
        self.wgmma_groups.clear();
        self.wgmma_retired = 0;
        self.wgmma_executed = 0;
        self.dirty.clear();
        self.fenced_once = false;
        self.cluster_arrived = false;
        self.cluster_seen = 0;
    }

    pub(crate) fn done(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether some lanes can run now.
    pub(crate) fn runnable(&self) -> bool {
        self.wait == Wait::No && !self.groups.is_empty()
    }

    /// Puts lanes at a program counter, merging with a group that is there already.
    pub(crate) fn insert(&mut self, pc: u32, mask: u32) {
        if mask == 0 {
            return;
        }
        match self.groups.binary_search_by_key(&pc, |g| g.pc) {
            Ok(i) => {
                self.groups[i].mask |= mask;
                self.groups[i].state = GroupState::Ready;
            }
            Err(i) => self.groups.insert(i, Group { pc, mask, state: GroupState::Ready }),
        }
    }

    /// This warp's own clock.
    #[inline(always)]
    pub(crate) fn clock(&self) -> u32 {
        self.vc.own.get(self.entity).copied().unwrap_or(0)
    }

    pub(crate) fn wgmma_pending(&self) -> bool {
        !self.wgmma_open.is_empty() || !self.wgmma_groups.is_empty()
    }
}
