//! Prefetches, priorities and discards: what they name must exist, and a discard takes the values away.

use super::access::Agent;
use super::memory::PAGE_BYTES;
use super::memory_ops::memory_fault;
use super::regs::lanes;
use super::step::window;
use super::unit::{Step, Unit, stop};
use super::warp::Warp;
use crate::check::fault::FaultKind;
use crate::check::global::Scope;
use crate::ptx::program::Addr;
use crate::ptx::types::{HintKind, Space};

/// Bytes that `discard` and `applypriority` work on.
const LINE_BYTES: usize = 128;

impl Unit<'_> {
    pub(crate) fn hint(&mut self, c: usize, w: &mut Warp, pc: u32, a: &Addr, kind: HintKind, m: u32) -> Step<()> {
        for l in lanes(m) {
            let address = self.lane_address(w, a, l);
            if kind == HintKind::TensorMap {
                self.tensor_map_bytes(c, w, pc, address, a.space)?;
                continue;
            }
            let space = if a.space == Space::Generic { window(address).0 } else { a.space };
            if space != Space::Global {
                // A prefetch of shared or local memory is no operation.
                continue;
            }
            if kind == HintKind::Prefetch {
                self.global_bounds(address, 1)?;
                continue;
            }
            if !address.is_multiple_of(LINE_BYTES as u64) {
                return stop(
                    FaultKind::Misaligned,
                    format!("hint for {LINE_BYTES} bytes at {address:#x} (lane {l}), which is not a multiple of that"),
                );
            }
            self.global_bounds(address, LINE_BYTES)?;
            if kind == HintKind::Discard {
                let env = self.env;
                let located = env.view.locate(address, LINE_BYTES, &mut w.last_range).map_err(memory_fault)?;
                let agent = Agent::of(c, w, pc);
                self.global_check(&agent, located.page, address, LINE_BYTES, true, Scope::Weak);
                if self.checks
                    && let Some((page, off)) = located.page
                {
                    page.forget(off, LINE_BYTES);
                }
            }
        }
        Ok(())
    }

    /// Checks that a range of global memory exists.
    pub(crate) fn global_bounds(&mut self, address: u64, n: usize) -> Step<()> {
        let mut done = 0;
        while done < n {
            let at = address.wrapping_add(done as u64);
            let k = (PAGE_BYTES - (at as usize & (PAGE_BYTES - 1))).min(n - done);
            self.env.view.locate(at, k, &mut self.last_range).map_err(memory_fault)?;
            done += k;
        }
        Ok(())
    }
}
