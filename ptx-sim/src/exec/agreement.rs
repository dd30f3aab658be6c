//! Lanes of one store that contradict each other.

use super::regs::lanes;
use super::step::window;
use super::unit::Unit;
use super::warp::Warp;
use crate::check::fault::FaultKind;
use crate::ptx::decode::SHARED_START;
use crate::ptx::program::Store;
use crate::ptx::types::Space;

impl Unit<'_> {
    /// Reports lanes that store different values to one address: which one stays is not defined. Accesses are aligned
    /// to their size, so that two of them are the same bytes or disjoint. Equal values are what replicated work stores.
    #[inline]
    pub(crate) fn lanes_agree(&mut self, c: usize, w: &Warp, pc: u32, st: &Store, addr: &[u64; 32], m: u32) {
        let ascending = (1..32).all(|l| addr[l] > addr[l - 1]);
        if !ascending && m.count_ones() > 1 && !matches!(st.addr.space, Space::Local | Space::Param) {
            self.compare_lanes(c, w, pc, st, addr, m);
        }
    }

    fn compare_lanes(&mut self, c: usize, w: &Warp, pc: u32, st: &Store, addr: &[u64; 32], m: u32) {
        let space = |a: u64| if st.addr.space == Space::Generic { window(a).0 } else { st.addr.space };
        let mut order = [0usize; 32];
        let mut n = 0;
        for l in lanes(m).filter(|l| space(addr[*l]) != Space::Local) {
            order[n] = l;
            n += 1;
        }
        let order = &mut order[..n];
        order.sort_unstable_by_key(|l| (addr[*l], *l));
        let keep = u64::MAX >> (64 - 8 * st.bytes as u32);
        for pair in order.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let differ = || st.s.iter().any(|s| (w.regs.get(*s, a) ^ w.regs.get(*s, b)) & keep != 0);
            if addr[a] != addr[b] || !differ() {
                continue;
            }
            let (kind, at) = match space(addr[a]) {
                Space::Shared => {
                    let offset = (addr[a] & 0xff_ffff) as i64 - SHARED_START as i64;
                    (FaultKind::SharedRace, format!("offset {offset} of shared memory"))
                }
                _ => (FaultKind::GlobalRace, format!("global memory {:#x}", addr[a])),
            };
            let message = format!(
                "lanes {a} and {b} store different values to {at} in one instruction; which stays is not defined"
            );
            return self.find(kind, c, Some(w.id), Some(pc), message);
        }
    }
}
