//! Dispatch of the instructions that need more than registers.

use super::regs::lanes;
use super::run::Flow;
use super::unit::{Step, Unit, stop};
use super::warp::{Wait, Warp};
use crate::check::fault::FaultKind;
use crate::ptx::decode::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::ptx::program::{Builtin, Clock, Fence, Op};
use crate::ptx::types::Space;
use std::sync::atomic::Ordering;

impl Unit<'_> {
    /// Executes the instruction at `pc` for the lanes `m`, which are not empty.
    pub(crate) fn step(&mut self, c: usize, w: &mut Warp, pc: u32, m: u32) -> Step<Flow> {
        let env = self.env;
        match &env.program.insts[pc as usize].op {
            Op::Lane(..)
            | Op::SetP(_)
            | Op::Map(_)
            | Op::Bra { .. }
            | Op::BraIndex { .. }
            | Op::Call { .. }
            | Op::Ret
            | Op::Exit => {}
            Op::ReadClock(clock, d) => {
                let t = self.instructions;
                let v = match clock {
                    Clock::Counter32 | Clock::GlobalTimerLo => t & 0xffff_ffff,
                    Clock::CounterHi | Clock::GlobalTimerHi => t >> 32,
                    Clock::Counter64 | Clock::GlobalTimer => t,
                };
                w.regs.put_wide(*d, m, &[v; 32]);
            }
            Op::CallBuiltin { builtin, args, ret } => match builtin {
                Builtin::Vprintf => self.printf(c, w, m, args, ret.as_ref())?,
                Builtin::AssertFail => return self.assert_failed(c, w, m, args),
            },
            Op::Trap => return stop(FaultKind::Trap, "the kernel executed trap"),

            Op::Nop | Op::Nanosleep => {}
            Op::Load(l) => self.load(c, w, pc, l, m)?,
            Op::Store(s) => self.store(c, w, pc, s, m)?,
            Op::Atomic(a) => self.atomic(c, w, pc, a, m)?,
            Op::Hint { addr, kind } => self.hint(c, w, pc, addr, *kind, m)?,
            Op::IsSpace { d, a, space, cluster } => {
                let v = *w.regs.r64(*a);
                let mut bits = 0;
                for l in lanes(m) {
                    let (s, x) = window(v[l]);
                    let own = s != Space::Shared || *cluster || (x >> 24) as usize == c;
                    bits |= ((s == *space && own) as u32) << l;
                }
                w.regs.put_pred(*d, m, bits);
            }
            Op::Mapa { d, a, rank, generic } => {
                for l in lanes(m) {
                    let r = w.regs.get(*rank, l);
                    if r as usize >= self.ctas.len() {
                        return stop(
                            FaultKind::IllegalInstruction,
                            format!("mapa to rank {r}, the cluster has {} blocks", self.ctas.len()),
                        );
                    }
                    let x = w.regs.get(*a, l);
                    let low = if *generic { x - SHARED_WINDOW.min(x) } else { x };
                    let v = (low & 0xff_ffff) | r << 24;
                    w.regs.set(*d, l, if *generic { v + SHARED_WINDOW } else { v });
                }
            }
            Op::CtaRank { d, a, generic } => {
                for l in lanes(m) {
                    let x = w.regs.get(*a, l);
                    let low = if *generic { x - SHARED_WINDOW.min(x) } else { x };
                    w.regs.set(*d, l, low >> 24 & 0xff);
                }
            }
            Op::Warp { op, .. } => self.warp_op(w, op, m),
            Op::ActiveMask(d) => w.regs.put_wide(*d, m, &[m as u64; 32]),
            Op::Barrier(b) => return self.barrier(c, w, pc, b, m),
            Op::ClusterArrive { relaxed } => return self.cluster_arrive(c, w, *relaxed),
            Op::ClusterWait => return self.cluster_wait(c, w),
            Op::Fence(f) => self.fence(w, *f),
            Op::CpAsync { dst, src, bytes, src_bytes, ignore } => {
                self.cp_async(c, w, pc, m, (dst, src), *bytes as usize, *src_bytes, *ignore)?
            }
            Op::CpAsyncCommit => self.cp_async_commit(w, m),
            Op::CpAsyncWait { keep } => self.cp_async_wait(c, w, m, *keep),
            Op::Mbar(b) => return self.mbarrier(c, w, pc, b, m),
            Op::MbarPending { d, state } => {
                for l in lanes(m) {
                    let v = w.regs.get(*state, l) & 0xfffff;
                    w.regs.set(*d, l, v);
                }
            }
            Op::Bulk(b) => self.bulk(c, w, pc, b, m)?,
            Op::TensormapReplace { map, field, value } => self.tensormap_replace(c, w, pc, m, map, *field, *value)?,
            Op::TensormapCopy { dst, src, bytes } => self.tensormap_copy(c, w, pc, m, dst, src, *bytes as usize)?,
            Op::LdMatrix { addr, d, trans } => self.ldmatrix(c, w, pc, addr, d, *trans)?,
            Op::StMatrix { addr, s, trans } => self.stmatrix(c, w, pc, addr, s, *trans)?,
            Op::MovMatrix { d, a } => {
                let v = *w.regs.r32(*a);
                let half = |row: usize, col: usize| v[row * 4 + col / 2] >> (16 * (col & 1)) & 0xffff;
                let out: [u32; 32] = std::array::from_fn(|l| {
                    let (row, col) = (l / 4, l % 4 * 2);
                    half(col, row) | half(col + 1, row) << 16
                });
                w.regs.put32(*d, m, &out);
            }
            Op::Mma(x) => self.mma(w, x),
            Op::Wgmma(x) => self.wgmma_issue(w, pc, x)?,
            Op::WgmmaFence => {
                w.dirty.fill(false);
                w.fenced_once = true;
            }
            Op::WgmmaCommit => {
                let open = std::mem::take(&mut w.wgmma_open);
                w.wgmma_groups.push_back(open);
            }
            Op::WgmmaWait { keep } => return self.wgmma_wait(c, w, *keep as usize),
            Op::SetMaxNreg { inc, count } => return self.set_max_registers(c, w, *inc, *count),
            Op::GridDepLaunch => env.launched_dependents.store(true, Ordering::Relaxed),
            Op::GridDepWait => {}
        }
        Ok(Flow::Next)
    }

    fn fence(&mut self, w: &mut Warp, f: Fence) {
        if !self.checks {
            return;
        }
        match f {
            Fence::Thread { wide } => {
                if wide && (self.env.orders || self.env.cluster_size > 1) {
                    if let Some(p) = w.pending_acquire.take() {
                        w.vc.join(&p);
                    }
                    w.at_fence = Some(w.vc.clone());
                    self.tick(w);
                }
            }
            Fence::MbarrierInit => {
                let e = self.env.init_entity(w.entity);
                w.vc.own[e] = w.clock();
                self.tick(w);
            }
            Fence::ProxyAsync => {
                let v = w.vc.clone();
                w.fenced.join(&v);
                self.tick(w);
            }
            Fence::ProxyOther => {}
        }
    }

    fn set_max_registers(&mut self, c: usize, w: &mut Warp, inc: bool, count: u32) -> Step<Flow> {
        // All warps of a warpgroup must agree; registers move when each of them gets here.
        let per_thread = w.registers;
        if inc {
            if count < per_thread && !self.env.registers_known {
                // Without the compiled register count the start is an estimate; nothing has to be waited for.
                self.ctas[c].free_registers += (per_thread - count) as i64;
                w.registers = count;
                return Ok(Flow::Next);
            }
            if count < per_thread {
                return stop(
                    FaultKind::OverSubscription,
                    format!("setmaxnreg.inc {count} below the {per_thread} registers that the warp has"),
                );
            }
            let need = (count - per_thread) as i64;
            if self.ctas[c].free_registers < need {
                w.wait = Wait::Registers(count);
                return Ok(Flow::Block);
            }
            self.ctas[c].free_registers -= need;
        } else {
            if count > per_thread && self.env.registers_known {
                return stop(
                    FaultKind::OverSubscription,
                    format!("setmaxnreg.dec {count} above the {per_thread} registers that the warp has"),
                );
            }
            self.ctas[c].free_registers += per_thread as i64 - count as i64;
        }
        w.registers = count;
        self.progress += 1;
        Ok(Flow::Next)
    }

    /// Lets a warp that waits for registers go on when there are enough.
    pub(crate) fn try_registers(&mut self, c: usize, w: &mut Warp, count: u32) {
        let need = (count - w.registers) as i64;
        if self.ctas[c].free_registers >= need {
            self.ctas[c].free_registers -= need;
            w.registers = count;
            w.wait = Wait::No;
            self.progress += 1;
        }
    }
}

/// Space of a generic address and the address within it.
#[inline(always)]
pub(crate) fn window(a: u64) -> (Space, u64) {
    if a < SHARED_WINDOW {
        (Space::Global, a)
    } else if a < LOCAL_WINDOW {
        (Space::Shared, a - SHARED_WINDOW)
    } else if a < PARAM_WINDOW {
        (Space::Local, a - LOCAL_WINDOW)
    } else {
        (Space::Param, a - PARAM_WINDOW)
    }
}
