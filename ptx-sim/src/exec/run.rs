//! Running a unit: turns over its warps, groups of lanes, branches, exits, deadlocks.

use super::regs::lanes;
use super::settings::Schedule;
use super::unit::{Step, Stop, Unit, stop};
use super::warp::{GroupState, Wait, Warp};
use crate::check::fault::FaultKind;
use crate::ptx::program::{Op, Together};
use std::sync::atomic::Ordering;

/// What an instruction does to the flow of its lanes.
pub(crate) enum Flow {
    /// On to the next instruction.
    Next,
    /// On to the next instruction in the warp's next turn: a test failed.
    Spin,
    /// The warp waits; it goes on behind the instruction.
    Block,
}

/// How a turn of a unit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// All warps have exited and nothing is in flight.
    Done,
    /// Something happened.
    Running,
    /// Nothing that another warp or block could see has happened for a long time.
    Idle,
}

/// Instructions of a unit without visible effect after which it counts as idle.
const IDLE_INSTRUCTIONS: u64 = 200_000;
/// Turns without progress after which waiting warps count as deadlocked.
const DEADLOCK_TURNS: u32 = 200;

impl Unit<'_> {
    /// Runs until the unit is done or idle.
    pub(crate) fn run(&mut self) -> Result<Turn, ()> {
        let mut quiet = 0u32;
        let start = self.instructions;
        let mut last = (self.progress, self.instructions);
        loop {
            if self.env.stop.load(Ordering::Relaxed) {
                return Err(());
            }
            if self.live_warps == 0 && self.queue.is_empty() {
                return Ok(Turn::Done);
            }
            let before = self.progress;
            let busy = self.turn()?;
            if self.progress != before {
                quiet = 0;
                last = (self.progress, self.instructions);
                if self.instructions - start > 4_000_000 && self.env.grid != self.env.cluster {
                    return Ok(Turn::Running);
                }
                continue;
            }
            quiet += 1;
            if busy {
                if self.instructions - last.1 > IDLE_INSTRUCTIONS {
                    return Ok(Turn::Idle);
                }
            } else if quiet > DEADLOCK_TURNS {
                let text = self.waiters();
                let (cta, warp, pc) = self.first_waiter();
                self.find(FaultKind::Deadlock, cta, warp, pc, format!("no warp can go on: {text}"));
                return Err(());
            }
        }
    }

    fn first_waiter(&self) -> (usize, Option<usize>, Option<u32>) {
        for c in &self.ctas {
            if let Some(w) = c.warps.iter().flatten().find(|w| !w.done()) {
                let pc = w.groups.first().map(|g| if w.wait == Wait::No { g.pc } else { g.pc.saturating_sub(1) });
                return (c.rank, Some(w.id), pc);
            }
        }
        (0, None, None)
    }

    /// Reports a deadlock across blocks.
    pub(crate) fn report_idle(&mut self) {
        let text = self.waiters();
        let (cta, warp, pc) = self.first_waiter();
        self.find(FaultKind::Deadlock, cta, warp, pc, format!("no block makes progress: {text}"));
    }

    /// One turn over all warps. Returns whether some warp ran code that does not merely test a barrier.
    fn turn(&mut self) -> Result<bool, ()> {
        let env = self.env;
        let warps = env.warps;
        let total = warps * self.ctas.len();
        let random = env.settings.schedule == Schedule::Random;
        let (first, stride) = if random {
            // A stride that is coprime to the number of warps gives a different order each turn.
            let mut s = 1 + self.random.below(total);
            while gcd(s, total) != 1 {
                s += 1;
            }
            (self.random.below(total), s)
        } else {
            (0, 1)
        };
        let mut busy = false;
        for k in 0..total {
            let i = (first + k * stride) % total;
            let (c, id) = (i / warps, i % warps);
            let Some(mut w) = self.ctas[c].warps[id].take() else {
                continue;
            };
            if let Wait::Registers(n) = w.wait {
                self.try_registers(c, &mut w, n);
            } else if let Wait::Wgmma(keep) = w.wait
                && let Err(s) = self.try_wgmma(c, &mut w, keep)
            {
                let pc = w.groups.first().map(|g| g.pc.saturating_sub(1));
                self.find(s.kind, c, Some(id), pc, s.message);
                self.ctas[c].warps[id] = Some(w);
                return Err(());
            }
            if w.runnable() {
                let quantum = if random { 32 + (self.random.next_u64() & 255) as u32 } else { 128 };
                let result = self.run_warp(c, &mut w, quantum);
                busy |= !w.spun && w.wait == Wait::No;
                if let Err((pc, s)) = result {
                    self.find(s.kind, c, Some(id), Some(pc), s.message);
                    self.ctas[c].warps[id] = Some(w);
                    return Err(());
                }
            }
            self.ctas[c].warps[id] = Some(w);
        }
        self.pump(random);
        if self.reports.len() >= crate::check::fault::Fault::MAX_REPORTS {
            return Err(());
        }
        Ok(busy)
    }

    fn run_warp(&mut self, c: usize, w: &mut Warp, quantum: u32) -> Result<(), (u32, Stop)> {
        let env = self.env;
        let insts = env.program.insts.as_slice();
        let counting = env.settings.counts;
        w.spun = false;
        for g in &mut w.groups {
            if g.state == GroupState::Spin {
                g.state = GroupState::Ready;
            }
        }
        let mut left = quantum as i64;
        'group: loop {
            if w.wait != Wait::No || w.groups.is_empty() {
                return Ok(());
            }
            let Some(gi) = w.groups.iter().position(|g| g.state == GroupState::Ready) else {
                if w.groups.iter().any(|g| g.state == GroupState::Spin) {
                    w.spun = true;
                    return Ok(());
                }
                return Err((w.groups[0].pc, self.diverged(w)));
            };
            let (mut pc, gm) = (w.groups[gi].pc, w.groups[gi].mask);
            let stop_pc = w.groups.get(gi + 1).map_or(u32::MAX, |g| g.pc);
            let first = pc;
            loop {
                if pc == stop_pc {
                    w.groups[gi + 1].mask |= gm;
                    w.groups[gi + 1].state = GroupState::Ready;
                    w.groups.remove(gi);
                    w.stale = 0;
                    self.trace_segment(w, first, pc);
                    continue 'group;
                }
                if left <= 0 {
                    w.groups[gi].pc = pc;
                    self.trace_segment(w, first, pc);
                    w.stale += 1;
                    if w.stale >= 8 && w.groups.len() > 1 {
                        // Another group may be what this one waits for.
                        w.groups[gi].state = GroupState::Spin;
                        w.stale = 0;
                        left = quantum as i64;
                        continue 'group;
                    }
                    return Ok(());
                }
                let inst = &insts[pc as usize];
                let m = gm & w.regs.pred(inst.guard);
                left -= 1;
                self.instructions += 1;
                if counting {
                    self.counts.instruction(inst.class, m.count_ones());
                }
                if inst.touches_wgmma && m != 0 {
                    self.wgmma_registers(w, inst).map_err(|s| (pc, s))?;
                }
                match &inst.op {
                    Op::Lane(..) | Op::SetP(_) | Op::Map(_) => {
                        (env.lane_fn)(&inst.op, &mut w.regs, m);
                        pc += 1;
                        continue;
                    }
                    Op::Bra { target } => {
                        if m == gm && *target > pc && *target < stop_pc {
                            pc = *target;
                            continue;
                        }
                        self.trace_segment(w, first, pc);
                        w.groups.remove(gi);
                        w.insert(*target, m);
                        w.insert(pc + 1, gm & !m);
                        continue 'group;
                    }
                    Op::BraIndex { index, targets } => {
                        self.trace_segment(w, first, pc);
                        let v = *w.regs.r32(*index);
                        w.groups.remove(gi);
                        w.insert(pc + 1, gm & !m);
                        for l in lanes(m) {
                            match targets.get(v[l] as usize) {
                                Some(t) => w.insert(*t, 1 << l),
                                None => {
                                    let message = format!(
                                        "branch index {} of lane {l}, the table has {} entries",
                                        v[l],
                                        targets.len()
                                    );
                                    return Err((pc, Stop { kind: FaultKind::IllegalInstruction, message }));
                                }
                            }
                        }
                        continue 'group;
                    }
                    Op::Call { function } => {
                        self.trace_segment(w, first, pc);
                        let f = &env.program.functions[*function as usize];
                        for l in lanes(m) {
                            w.regs.r[f.return_row][l] = pc + 1;
                        }
                        w.groups.remove(gi);
                        w.insert(f.entry, m);
                        w.insert(pc + 1, gm & !m);
                        continue 'group;
                    }
                    Op::Ret => {
                        self.trace_segment(w, first, pc);
                        // The function that contains the instruction is the last one that starts at or before it.
                        let f = env.program.functions.iter().rev().find(|f| f.entry <= pc);
                        w.groups.remove(gi);
                        w.insert(pc + 1, gm & !m);
                        if let Some(f) = f {
                            let row = w.regs.r[f.return_row];
                            for l in lanes(m) {
                                w.insert(row[l], 1 << l);
                            }
                        }
                        continue 'group;
                    }
                    Op::Exit => {
                        self.trace_segment(w, first, pc);
                        w.groups.remove(gi);
                        w.insert(pc + 1, gm & !m);
                        w.live &= !m;
                        for g in &mut w.groups {
                            if g.state == GroupState::Together {
                                g.state = GroupState::Ready;
                            }
                        }
                        if w.live == 0 && m != 0 {
                            self.warp_exit(c, w, pc).map_err(|s| (pc, s))?;
                            return Ok(());
                        }
                        continue 'group;
                    }
                    _ => {}
                }
                if m == 0 {
                    pc += 1;
                    continue;
                }
                let mut run = m;
                if inst.together != Together::No {
                    match self.gather(w, inst, gm, m) {
                        Err(s) => return Err((pc, s)),
                        Ok(Some(lanes)) => run = lanes,
                        Ok(None) => {
                            self.trace_segment(w, first, pc);
                            w.groups.remove(gi);
                            w.insert(pc, m);
                            if let Some(g) = w.groups.iter_mut().find(|g| g.pc == pc) {
                                g.state = GroupState::Together;
                            }
                            w.insert(pc + 1, gm & !m);
                            continue 'group;
                        }
                    }
                }
                let flow = self.step(c, w, pc, run).map_err(|s| (pc, s))?;
                if run != m {
                    // Lanes of another mask stay at the instruction.
                    self.trace_segment(w, first, pc);
                    w.groups.remove(gi);
                    w.insert(pc, m & !run);
                    w.insert(pc + 1, run | gm & !m);
                    continue 'group;
                }
                match flow {
                    Flow::Next => pc += 1,
                    Flow::Spin => {
                        self.trace_segment(w, first, pc);
                        w.groups[gi].pc = pc + 1;
                        w.groups[gi].state = GroupState::Spin;
                        if stop_pc == pc + 1 {
                            w.groups[gi + 1].mask |= gm;
                            w.groups[gi + 1].state = GroupState::Spin;
                            w.groups.remove(gi);
                        }
                        continue 'group;
                    }
                    Flow::Block => {
                        self.trace_segment(w, first, pc);
                        w.groups[gi].pc = pc + 1;
                        return Ok(());
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn trace_segment(&mut self, w: &Warp, from: u32, to: u32) {
        let x = (w.entity as u64) << 48 ^ (from as u64) << 24 ^ to as u64;
        self.trace = (self.trace ^ x).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    /// Decides whether the lanes of an instruction that needs several lanes are there: `None` to wait, or those to run.
    fn gather(&self, w: &Warp, inst: &crate::ptx::program::Inst, gm: u32, m: u32) -> Step<Option<u32>> {
        match inst.together {
            Together::No => Ok(Some(m)),
            Together::Live | Together::All => {
                if inst.together == Together::All && w.live != u32::MAX {
                    let gone = !w.live;
                    return stop(
                        FaultKind::Divergence,
                        format!("the instruction needs all 32 lanes, lanes {gone:#010x} have exited or never existed"),
                    );
                }
                if gm != w.live {
                    return Ok(None);
                }
                if m != gm {
                    return stop(
                        FaultKind::Divergence,
                        format!(
                            "the instruction needs the whole warp, its guard selects lanes {m:#010x} of {gm:#010x}"
                        ),
                    );
                }
                Ok(Some(m))
            }
            Together::Mask => {
                let Op::Warp { mask, .. } = &inst.op else {
                    return Ok(Some(m));
                };
                let first = m.trailing_zeros() as usize;
                let member = w.regs.get(*mask, first) as u32;
                let mut same = 0;
                for l in lanes(m) {
                    let mine = w.regs.get(*mask, l) as u32;
                    same |= ((mine == member) as u32) << l;
                    if mine >> l & 1 == 0 {
                        return stop(
                            FaultKind::Divergence,
                            format!("lane {l} executes with the mask {mine:#010x}, which does not name it"),
                        );
                    }
                }
                let needed = member & w.live;
                if same & needed != needed { Ok(None) } else { Ok(Some(same)) }
            }
        }
    }

    fn diverged(&self, w: &Warp) -> Stop {
        let at: Vec<String> = w
            .groups
            .iter()
            .map(|g| {
                let i = &self.env.program.insts[g.pc as usize];
                format!("lanes {:#010x} at line {} `{}`", g.mask, i.line, self.env.module.line(i.line))
            })
            .collect();
        let exited =
            if w.live == u32::MAX { String::new() } else { format!("; lanes {:#010x} are not running", !w.live) };
        Stop {
            kind: FaultKind::Divergence,
            message: format!("lanes wait for each other at different instructions: {}{exited}", at.join("; ")),
        }
    }

    fn warp_exit(&mut self, c: usize, w: &mut Warp, pc: u32) -> Step<()> {
        w.groups.clear();
        self.progress += 1;
        self.live_warps -= 1;
        self.ctas[c].live_warps -= 1;
        if w.wgmma_pending() && self.checks {
            self.find(
                FaultKind::WgmmaMisuse,
                c,
                Some(w.id),
                Some(pc),
                "the warp exits with wgmma operations that were not waited for".to_string(),
            );
        }
        self.finish_copies_at_exit(c, w);
        self.ctas[c].free_registers += w.registers as i64;
        if self.checks && self.ctas[c].live_warps == 0 && self.ctas[c].in_flight > 0 {
            let n = self.ctas[c].in_flight;
            self.find(
                FaultKind::EarlyExit,
                c,
                Some(w.id),
                Some(pc),
                format!("the block ends while {n} bulk copies still use its shared memory; wait for them first"),
            );
        }
        self.barriers_after_exit(c)?;
        let open = w.cluster_arrived && self.cluster.phase == w.cluster_seen;
        self.cluster_after_exit(open);
        Ok(())
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
