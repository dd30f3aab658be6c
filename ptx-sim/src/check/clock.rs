//! Vector clocks.
//!
//! Within a unit (the blocks of one cluster) the entities are dense: every warp; for every warp its `cp.async` writes and
//! its bulk copies; every mbarrier (standing for the copies that complete on it). Other units are known only as far as
//! something was acquired from them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of other units: per unit, the clock of each of its warps.
pub(crate) type Foreign = BTreeMap<u32, Arc<[u32]>>;

/// A vector clock. Empty when checks are off.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    pub(crate) own: Vec<u32>,
    pub(crate) foreign: Option<Arc<Foreign>>,
}

impl Clock {
    pub(crate) fn at(entities: usize, start: u32) -> Clock {
        Clock { own: vec![start; entities], foreign: None }
    }

    #[inline]
    pub(crate) fn join(&mut self, other: &Clock) {
        for (a, b) in self.own.iter_mut().zip(&other.own) {
            *a = (*a).max(*b);
        }
        if let Some(f) = &other.foreign {
            self.join_foreign(f);
        }
    }

    pub(crate) fn join_foreign(&mut self, other: &Arc<Foreign>) {
        let mine = match &self.foreign {
            None => {
                self.foreign = Some(other.clone());
                return;
            }
            Some(f) if Arc::ptr_eq(f, other) => return,
            Some(f) => f,
        };
        let mut merged = (**mine).clone();
        for (unit, clocks) in other.iter() {
            merged
                .entry(*unit)
                .and_modify(|c| {
                    if !Arc::ptr_eq(c, clocks) {
                        *c = c.iter().zip(clocks.iter()).map(|(a, b)| *a.max(b)).collect();
                    }
                })
                .or_insert_with(|| clocks.clone());
        }
        self.foreign = Some(Arc::new(merged));
    }
}

/// What a release on an address left behind: the clocks of all units that released there.
#[derive(Clone, Default)]
pub(crate) struct SyncObject {
    pub(crate) clocks: Option<Arc<Foreign>>,
}

impl SyncObject {
    /// Adds what a unit knows: its own warps (relative clocks) and its foreign knowledge.
    pub(crate) fn release(&mut self, unit: u32, own: Arc<[u32]>, foreign: Option<&Arc<Foreign>>) {
        let mut c = Clock { own: Vec::new(), foreign: self.clocks.take() };
        if let Some(f) = foreign {
            c.join_foreign(f);
        }
        let mut single = Foreign::new();
        single.insert(unit, own);
        c.join_foreign(&Arc::new(single));
        self.clocks = c.foreign;
    }
}
