//! Named barriers of a block, the barrier of a cluster, warp-wide operations.

use super::regs::{Regs, lanes};
use super::run::Flow;
use super::unit::{NamedBarrier, Step, Unit, stop};
use super::warp::{Wait, Warp};
use crate::check::clock::Clock;
use crate::check::fault::FaultKind;
use crate::ptx::program::{BarRed, Barrier, Op, ReduxOp, ShflMode, Slot, WarpOp};

impl Unit<'_> {
    pub(crate) fn barrier(&mut self, c: usize, w: &mut Warp, pc: u32, b: &Barrier, m: u32) -> Step<Flow> {
        let first = m.trailing_zeros() as usize;
        let id = w.regs.get(b.id, first) as u32;
        if id > 15 {
            return stop(FaultKind::BarrierMisuse, format!("barrier {id}; a block has barriers 0 to 15"));
        }
        let threads = self.env.threads;
        let all_warps = self.env.warps as u32;
        let expected = match b.count {
            None => u32::MAX,
            Some(s) => {
                let n = w.regs.get(s, first) as u32;
                if n == 0 || !n.is_multiple_of(32) || n / 32 > all_warps {
                    return stop(
                        FaultKind::BarrierMisuse,
                        format!(
                            "barrier {id} with {n} threads; a multiple of 32 up to the block's {threads} threads is expected"
                        ),
                    );
                }
                if n / 32 == all_warps { u32::MAX } else { n / 32 }
            }
        };
        for l in lanes(m) {
            if w.regs.get(b.id, l) as u32 != id {
                return stop(FaultKind::BarrierMisuse, "lanes of a warp name different barriers");
            }
        }
        let line = self.env.program.insts[pc as usize].line;
        let live = self.ctas[c].live_warps as u32;
        let bar = &mut self.ctas[c].barriers[id as usize];
        if bar.arrived == 0 {
            bar.expected = expected;
            bar.line = line;
        } else if bar.expected != expected {
            let show = |e: u32| if e == u32::MAX { threads } else { e * 32 };
            return stop(
                FaultKind::BarrierMisuse,
                format!(
                    "barrier {id} with {} threads, the arrival at line {} named {}",
                    show(expected),
                    bar.line,
                    show(bar.expected)
                ),
            );
        }
        if bar.arrived_only.contains(&w.id) {
            return stop(FaultKind::BarrierMisuse, format!("the warp arrives at barrier {id} twice in one phase"));
        }
        bar.arrived += 1;
        bar.vc.join(&w.vc);
        bar.fenced.join(&w.fenced);
        if let Some((_, _, p)) = b.reduce {
            let v = w.regs.pred(p) & m;
            bar.any |= v;
            bar.all &= v == m;
            bar.count += v.count_ones();
        }
        self.counts.barrier_arrivals += 1;
        self.tick(w);
        let bar = &mut self.ctas[c].barriers[id as usize];
        let need = if expected == u32::MAX { live } else { expected };
        if b.arrive_only {
            bar.arrived_only.push(w.id);
            if bar.arrived >= need {
                self.release_barrier(c, id, None);
            }
            return Ok(Flow::Next);
        }
        bar.waiting.push(w.id);
        w.wait = Wait::Barrier(id);
        if bar.arrived >= need {
            self.release_barrier(c, id, Some(w));
        }
        Ok(Flow::Block)
    }

    /// Ends a phase: everybody who waits goes on. `me` is the warp that is being executed, which is not in its place.
    fn release_barrier(&mut self, c: usize, id: u32, me: Option<&mut Warp>) {
        let entities = self.cluster.vc.own.len();
        let fresh = NamedBarrier {
            vc: Clock::at(entities, self.start_clock),
            fenced: Clock::at(entities, self.start_clock),
            all: true,
            ..NamedBarrier::default()
        };
        let bar = std::mem::replace(&mut self.ctas[c].barriers[id as usize], fresh);
        self.progress += 1;
        self.counts.barrier_phases += 1;
        let program = self.env.program;
        let finish = |w: &mut Warp| {
            w.wait = Wait::No;
            w.vc.join(&bar.vc);
            w.fenced.join(&bar.fenced);
            if let Some(g) = w.groups.first()
                && let Some(inst) = program.insts.get(g.pc.wrapping_sub(1) as usize)
                && let Op::Barrier(b) = &inst.op
                && let Some((kind, d, _)) = b.reduce
            {
                let mask = g.mask;
                match kind {
                    BarRed::Popc => w.regs.put_wide(d, mask, &[bar.count as u64; 32]),
                    BarRed::And => w.regs.put_pred(d, mask, if bar.all { u32::MAX } else { 0 }),
                    BarRed::Or => w.regs.put_pred(d, mask, if bar.any != 0 { u32::MAX } else { 0 }),
                }
            }
        };
        let mine = me.as_ref().map(|w| w.id);
        if let Some(w) = me {
            // Its program counter still stands at the barrier; step over it for the reduction's sake.
            if let Some(g) = w.groups.first_mut() {
                g.pc += 1;
            }
            finish(w);
            if let Some(g) = w.groups.first_mut() {
                g.pc -= 1;
            }
        }
        for i in bar.waiting {
            if Some(i) != mine
                && let Some(w) = self.ctas[c].warps[i].as_deref_mut()
            {
                finish(w);
            }
        }
    }

    /// A warp exited: barriers that wait for all warps may be complete.
    pub(crate) fn barriers_after_exit(&mut self, c: usize) -> Step<()> {
        for id in 0..16 {
            let live = self.ctas[c].live_warps as u32;
            let bar = &self.ctas[c].barriers[id];
            if bar.arrived > 0 && bar.expected == u32::MAX && bar.arrived >= live {
                self.release_barrier(c, id as u32, None);
            }
        }
        Ok(())
    }

    pub(crate) fn cluster_arrive(&mut self, c: usize, w: &mut Warp, relaxed: bool) -> Step<Flow> {
        let _ = c;
        if w.cluster_arrived {
            return stop(FaultKind::BarrierMisuse, "the warp arrives at the cluster barrier twice without a wait");
        }
        w.cluster_arrived = true;
        self.cluster.arrived += 1;
        if !relaxed {
            self.cluster.vc.join(&w.vc);
            self.cluster.fenced.join(&w.fenced);
            self.tick(w);
        } else if self.checks {
            // A fence before it makes even a relaxed arrival a release, of what the fence speaks for.
            for e in self.env.init_entity(0)..self.env.entities() {
                self.cluster.vc.own[e] = self.cluster.vc.own[e].max(w.vc.own[e]);
            }
            if let Some(v) = &w.at_fence {
                self.cluster.vc.join(v);
            }
        }
        self.counts.barrier_arrivals += 1;
        self.complete_cluster();
        Ok(Flow::Next)
    }

    fn complete_cluster(&mut self) {
        if self.cluster.arrived == 0 || self.cluster.arrived < self.live_warps + self.cluster.departed {
            return;
        }
        self.cluster.arrived = 0;
        self.cluster.departed = 0;
        self.cluster.phase += 1;
        self.cluster.done = self.cluster.vc.clone();
        self.cluster.done_fenced = self.cluster.fenced.clone();
        self.progress += 1;
        self.counts.barrier_phases += 1;
        for (c, i) in std::mem::take(&mut self.cluster.waiting) {
            if let Some(w) = self.ctas[c].warps[i].as_deref_mut() {
                w.wait = Wait::No;
                w.cluster_seen = self.cluster.phase;
                w.cluster_arrived = false;
                w.vc.join(&self.cluster.done);
                w.fenced.join(&self.cluster.done_fenced);
            }
        }
    }

    pub(crate) fn cluster_wait(&mut self, c: usize, w: &mut Warp) -> Step<Flow> {
        if !w.cluster_arrived {
            return stop(FaultKind::BarrierMisuse, "the warp waits at the cluster barrier without having arrived");
        }
        if self.cluster.phase > w.cluster_seen {
            w.cluster_seen = self.cluster.phase;
            w.cluster_arrived = false;
            w.vc.join(&self.cluster.done);
            w.fenced.join(&self.cluster.done_fenced);
            return Ok(Flow::Next);
        }
        w.wait = Wait::Cluster;
        self.cluster.waiting.push((c, w.id));
        Ok(Flow::Block)
    }

    /// A warp exited: `arrived` says whether it had arrived in the phase that is open.
    pub(crate) fn cluster_after_exit(&mut self, arrived: bool) {
        self.cluster.departed += arrived as usize;
        if self.live_warps > 0 {
            self.complete_cluster();
        }
    }

    pub(crate) fn warp_op(&mut self, w: &mut Warp, op: &WarpOp, m: u32) {
        let r = &mut w.regs;
        let pred_all = |on: bool| if on { u32::MAX } else { 0 };
        match op {
            WarpOp::Sync => {}
            WarpOp::Shfl { mode, d, p, a, b, c } => shfl(r, m, *mode, (*d, *p), *a, *b, *c),
            WarpOp::VoteAll { d, a } => {
                let v = r.pred(*a) & m;
                r.put_pred(*d, m, pred_all(v == m));
            }
            WarpOp::VoteAny { d, a } => {
                let v = r.pred(*a) & m;
                r.put_pred(*d, m, pred_all(v != 0));
            }
            WarpOp::VoteUni { d, a } => {
                let v = r.pred(*a) & m;
                r.put_pred(*d, m, pred_all(v == m || v == 0));
            }
            WarpOp::Ballot { d, a } => {
                let v = r.pred(*a) & m;
                r.put32(*d, m, &[v; 32]);
            }
            WarpOp::MatchAny { d, a } => {
                let v = r.wide(*a);
                let mut out = [0u32; 32];
                for l in lanes(m) {
                    out[l] = lanes(m).filter(|k| v[*k] == v[l]).fold(0, |x, k| x | 1 << k);
                }
                r.put32(*d, m, &out);
            }
            WarpOp::MatchAll { d, p, a } => {
                let v = r.wide(*a);
                let first = m.trailing_zeros() as usize;
                let same = lanes(m).all(|l| v[l] == v[first]);
                r.put32(*d, m, &[if same { m } else { 0 }; 32]);
                r.put_pred(*p, m, pred_all(same));
            }
            WarpOp::Redux { op, d, a } => {
                let v = *r.r32(*a);
                let f = |x: u32, y: u32| match op {
                    ReduxOp::Add => x.wrapping_add(y),
                    ReduxOp::MinS => (x as i32).min(y as i32) as u32,
                    ReduxOp::MaxS => (x as i32).max(y as i32) as u32,
                    ReduxOp::MinU => x.min(y),
                    ReduxOp::MaxU => x.max(y),
                    ReduxOp::And => x & y,
                    ReduxOp::Or => x | y,
                    ReduxOp::Xor => x ^ y,
                };
                let out = lanes(m).map(|l| v[l]).reduce(f).unwrap_or(0);
                r.put32(*d, m, &[out; 32]);
            }
            WarpOp::Elect { d, p } => {
                let leader = m.trailing_zeros();
                r.put32(*d, m, &[leader; 32]);
                r.put_pred(*p, m, 1 << leader);
            }
        }
    }
}

fn shfl(r: &mut Regs, m: u32, mode: ShflMode, (d, p): (Slot, Slot), a: Slot, b: Slot, c: Slot) {
    let v = *r.r32(a);
    let (b, c) = (*r.r32(b), *r.r32(c));
    let mut out = v;
    let mut valid = 0u32;
    for l in 0..32usize {
        let lane = l as u32;
        let by = b[l] & 31;
        let segment = c[l] >> 8 & 31;
        let clamp = c[l] & 31;
        let max = (lane & segment) | (clamp & !segment);
        let min = lane & segment;
        let (from, ok) = match mode {
            ShflMode::Up => (lane.wrapping_sub(by), lane as i32 - by as i32 >= max as i32),
            ShflMode::Down => (lane + by, lane + by <= max),
            ShflMode::Bfly => (lane ^ by, lane ^ by <= max),
            ShflMode::Idx => {
                let j = min | (by & !segment);
                (j, j <= max)
            }
        };
        if ok {
            out[l] = v[from as usize & 31];
            valid |= 1 << l;
        }
    }
    r.put32(d, m, &out);
    r.put_pred(p, m, valid);
}
