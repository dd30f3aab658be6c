//! What the four warps of a warpgroup do together: `wgmma` operations complete for all of them at once.
//!
//! The warps run independently of each other here. An operation exists once each of the four has issued it: a wait
//! blocks until then, takes the operands for the whole group, and speaks for the reads of the whole group.

use super::run::Flow;
use super::unit::{Step, Unit, stop};
use super::warp::{PendingWgmma, Wait, Warp};
use crate::check::fault::FaultKind;

impl Warp {
    /// `wgmma` operations that were issued.
    fn wgmma_issued(&self) -> u32 {
        let pending = self.wgmma_open.len() + self.wgmma_groups.iter().map(Vec::len).sum::<usize>();
        self.wgmma_retired + pending as u32
    }

    /// The operation with a number, counted from 0, that was not waited for.
    fn wgmma_at(&mut self, number: u32) -> Option<&mut PendingWgmma> {
        let at = number.checked_sub(self.wgmma_retired)? as usize;
        self.wgmma_groups.iter_mut().flatten().chain(&mut self.wgmma_open).nth(at)
    }
}

impl Unit<'_> {
    pub(crate) fn wgmma_wait(&mut self, c: usize, w: &mut Warp, keep: usize) -> Step<Flow> {
        if self.wgmma_complete(c, w, keep)? {
            return Ok(Flow::Next);
        }
        w.wait = Wait::Wgmma(keep as u32);
        Ok(Flow::Block)
    }

    /// Lets a warp go on that waited for the others of its group.
    pub(crate) fn try_wgmma(&mut self, c: usize, w: &mut Warp, keep: u32) -> Step<()> {
        if self.wgmma_complete(c, w, keep as usize)? {
            w.wait = Wait::No;
        }
        Ok(())
    }

    /// Completes all but the last `keep` committed groups of a warp, unless another warp of its group has not issued
    /// what they hold.
    fn wgmma_complete(&mut self, c: usize, w: &mut Warp, keep: usize) -> Step<bool> {
        let groups = w.wgmma_groups.len().saturating_sub(keep);
        let end = w.wgmma_retired + w.wgmma_groups.iter().take(groups).map(Vec::len).sum::<usize>() as u32;
        if end > w.wgmma_retired {
            let first = w.id / 4 * 4;
            for i in (first..first + 4).filter(|i| *i != w.id) {
                if self.ctas[c].warps[i].as_deref().is_none_or(|o| o.wgmma_issued() < end) {
                    return Ok(false);
                }
            }
            for i in first..first + 4 {
                if i == w.id {
                    self.wgmma_run(c, w, end, None)?;
                } else if let Some(mut other) = self.ctas[c].warps[i].take() {
                    let result = self.wgmma_run(c, &mut other, end, Some(w));
                    self.ctas[c].warps[i] = Some(other);
                    result?;
                }
            }
            if self.checks {
                let e = self.group_entity(c, w.id / 4);
                let known = &mut w.vc.own[e];
                *known = (*known).max(self.start_clock + end);
                self.max_clock = self.max_clock.max(self.start_clock + end);
            }
            w.wgmma_groups.drain(..groups);
            w.wgmma_retired = end;
        } else {
            w.wgmma_groups.drain(..groups);
        }
        // Operations that were never committed complete no earlier than a wait for everything.
        if keep == 0 && !w.wgmma_open.is_empty() && self.checks {
            return stop(FaultKind::WgmmaMisuse, "wgmma operations were issued but not committed before the wait");
        }
        self.progress += 1;
        Ok(true)
    }

    /// Executes the operations of a warp before number `end`; `leader` waits for them and holds the same ones.
    fn wgmma_run(&mut self, c: usize, w: &mut Warp, end: u32, mut leader: Option<&mut Warp>) -> Step<()> {
        while w.wgmma_executed < end {
            let number = w.wgmma_executed;
            let Some(slot) = w.wgmma_at(number) else {
                return Ok(());
            };
            let a = std::mem::take(&mut slot.a);
            let p = PendingWgmma { a, ..slot.clone() };
            if let Some(other) = leader.as_deref_mut().and_then(|l| l.wgmma_at(number)) {
                let line = |pc: u32| self.env.program.insts.get(pc as usize).map_or(0, |i| i.line);
                if other.pc != p.pc {
                    return stop(
                        FaultKind::Divergence,
                        format!(
                            "the warps of a warpgroup execute different wgmma: lines {} and {}",
                            line(other.pc),
                            line(p.pc)
                        ),
                    );
                }
                if (other.desc_a, other.desc_b) != (p.desc_a, p.desc_b) {
                    return stop(
                        FaultKind::IllegalDescriptor,
                        format!("the matrix descriptors of the wgmma at line {} differ between warps", line(p.pc)),
                    );
                }
            }
            w.wgmma_executed += 1;
            self.wgmma_execute(c, w, &p, self.start_clock + w.wgmma_executed)?;
        }
        Ok(())
    }
}
