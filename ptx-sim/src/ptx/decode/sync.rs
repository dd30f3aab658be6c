//! Barriers, fences, warp-wide operations, mbarriers.

use super::mods::Mods;
use super::moves::space_word;
use super::{Decoder, Res};
use crate::ptx::program::{
    BarRed, Barrier, Class, Fence, File, Mbar, MbarKind, Op, ReduxOp, ShflMode, Slot, Strength, Together, WarpOp,
};
use crate::ptx::syntax::Operand;
use crate::ptx::types::{Space, Ty};

impl<'a> Decoder<'a> {
    pub(super) fn sync(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        match name {
            "bar" | "barrier" => self.barrier(m, ops),
            "membar" | "fence" => self.fence(m, ops),
            "mbarrier" => self.mbarrier(m, ops),
            "activemask" => {
                m.ty()?;
                self.want(ops, 1..=1)?;
                let d = self.dst(&ops[0], File::R32)?;
                self.push(Op::ActiveMask(d), Class::Shuffle);
                Ok(())
            }
            "setmaxnreg" => {
                let inc = m.has("inc");
                if !inc && !m.has("dec") {
                    return Err(m.unsupported(".inc or .dec is expected"));
                }
                m.ignore(&["sync", "aligned"]);
                m.ty()?;
                self.want(ops, 1..=1)?;
                let count = self.immediate(&ops[0])?;
                if !(24..=256).contains(&count) || !count.is_multiple_of(8) {
                    return self.error(format!("setmaxnreg {count}: a multiple of 8 from 24 to 256 is expected"));
                }
                self.push_with(Op::SetMaxNreg { inc, count: count as u32 }, Class::Other, Together::All);
                Ok(())
            }
            "griddepcontrol" => {
                let op = if m.has("launch_dependents") {
                    Op::GridDepLaunch
                } else if m.has("wait") {
                    Op::GridDepWait
                } else {
                    return Err(m.unsupported("this form"));
                };
                self.push(op, Class::Other);
                Ok(())
            }
            _ => self.warp_op(name, m, ops),
        }
    }

    fn barrier(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if m.has("warp") {
            m.ignore(&["sync"]);
            self.want(ops, 1..=1)?;
            let mask = self.src(&ops[0], File::R32)?;
            self.push_with(Op::Warp { mask, op: WarpOp::Sync }, Class::Barrier, Together::Mask);
            return Ok(());
        }
        if m.has("cluster") {
            m.ignore(&["aligned", "release", "acquire"]);
            let relaxed = m.has("relaxed");
            if m.has("arrive") {
                self.push_with(Op::ClusterArrive { relaxed }, Class::Barrier, Together::Live);
            } else if m.has("wait") {
                self.push_with(Op::ClusterWait, Class::Barrier, Together::Live);
            } else {
                return Err(m.unsupported("this form"));
            }
            return Ok(());
        }
        m.ignore(&["cta", "aligned"]);
        if m.has("red") {
            let kind = if m.has("popc") {
                BarRed::Popc
            } else if m.has("and") {
                BarRed::And
            } else if m.has("or") {
                BarRed::Or
            } else {
                return Err(m.unsupported("a reduction is expected"));
            };
            m.ty()?;
            self.want(ops, 3..=4)?;
            let d = self.dst(&ops[0], if kind == BarRed::Popc { File::R32 } else { File::Pred })?;
            let id = self.src(&ops[1], File::R32)?;
            let count = if ops.len() == 4 { Some(self.src(&ops[2], File::R32)?) } else { None };
            let p = self.src(&ops[ops.len() - 1], File::Pred)?;
            let b = Barrier { id, count, arrive_only: false, reduce: Some((kind, d, p)) };
            self.push_with(Op::Barrier(Box::new(b)), Class::Barrier, Together::Live);
            return Ok(());
        }
        let arrive_only = m.has("arrive");
        if !arrive_only && !m.has("sync") {
            return Err(m.unsupported("this form"));
        }
        self.want(ops, 1 + arrive_only as usize..=2)?;
        let id = self.src(&ops[0], File::R32)?;
        let count = match ops.get(1) {
            Some(o) => Some(self.src(o, File::R32)?),
            None => None,
        };
        self.push_with(
            Op::Barrier(Box::new(Barrier { id, count, arrive_only, reduce: None })),
            Class::Barrier,
            Together::Live,
        );
        Ok(())
    }

    fn fence(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if m.has("mbarrier_init") {
            m.ignore(&["release", "cluster"]);
            self.push(Op::Fence(Fence::MbarrierInit), Class::Fence);
            return Ok(());
        }
        if m.has("proxy") {
            let f = if m.find(|p| (p == "async" || p.starts_with("async::")).then_some(())).is_some() {
                m.ignore(&["global", "shared::cta", "shared::cluster", "acquire", "release"]);
                m.ignore(&["sync_restrict::shared::cta", "sync_restrict::shared::cluster", "cluster"]);
                Fence::ProxyAsync
            } else if m.has("alias") {
                Fence::ProxyOther
            } else if m.has("tensormap::generic") {
                let acquire = m.has("acquire");
                m.ignore(&["release", "cta", "cluster", "gpu", "sys"]);
                if acquire {
                    self.want(ops, 2..=2)?;
                    // Orders, and accesses nothing: kernels pass zero where they have no map.
                    self.addr(&ops[0], Space::Generic)?;
                }
                Fence::ProxyOther
            } else {
                return Err(m.unsupported("this proxy"));
            };
            self.push(Op::Fence(f), Class::Fence);
            return Ok(());
        }
        m.ignore(&[
            "sc",
            "acq_rel",
            "acquire",
            "release",
            "sync_restrict::shared::cta",
            "sync_restrict::shared::cluster",
        ]);
        let narrow = m.has("cta");
        m.ignore(&["cluster", "gpu", "gl", "sys"]);
        self.push(Op::Fence(Fence::Thread { wide: !narrow }), Class::Fence);
        Ok(())
    }

    fn warp_op(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if !m.has("sync") {
            return Err(m.unsupported("the form without .sync"));
        }
        let (mask_at, op) = match name {
            "shfl" => {
                let mode = m.find(|p| {
                    Some(match p {
                        "up" => ShflMode::Up,
                        "down" => ShflMode::Down,
                        "bfly" => ShflMode::Bfly,
                        "idx" => ShflMode::Idx,
                        _ => return None,
                    })
                });
                let Some(mode) = mode else {
                    return Err(m.unsupported("a mode is expected"));
                };
                m.ty()?;
                self.want(ops, 5..=5)?;
                let (d, p) = self.pair(&ops[0], File::R32)?;
                let a = self.src(&ops[1], File::R32)?;
                let b = self.src(&ops[2], File::R32)?;
                let c = self.src(&ops[3], File::R32)?;
                (4, WarpOp::Shfl { mode, d, p, a, b, c })
            }
            "vote" => {
                self.want(ops, 3..=3)?;
                let a = self.src(&ops[1], File::Pred)?;
                let ballot = m.has("ballot");
                let d = self.dst(&ops[0], if ballot { File::R32 } else { File::Pred })?;
                let op = if ballot {
                    WarpOp::Ballot { d, a }
                } else if m.has("all") {
                    WarpOp::VoteAll { d, a }
                } else if m.has("any") {
                    WarpOp::VoteAny { d, a }
                } else if m.has("uni") {
                    WarpOp::VoteUni { d, a }
                } else {
                    return Err(m.unsupported("this form"));
                };
                m.ty()?;
                (2, op)
            }
            "match" => {
                let all = m.has("all");
                m.ignore(&["any"]);
                let ty = m.ty()?;
                let file = self.file_of(ty)?;
                self.want(ops, 3..=3)?;
                let (d, p) = self.pair(&ops[0], File::R32)?;
                let a = self.src(&ops[1], file)?;
                (2, if all { WarpOp::MatchAll { d, p, a } } else { WarpOp::MatchAny { d, a } })
            }
            "redux" => {
                let names = ["add", "min", "max", "and", "or", "xor"];
                let Some(op) = m.find(|p| names.iter().position(|n| *n == p)) else {
                    return Err(m.unsupported("this operation"));
                };
                let ty = m.ty()?;
                let op = match (op, ty) {
                    (0, Ty::U32 | Ty::S32) => ReduxOp::Add,
                    (1, Ty::S32) => ReduxOp::MinS,
                    (1, Ty::U32) => ReduxOp::MinU,
                    (2, Ty::S32) => ReduxOp::MaxS,
                    (2, Ty::U32) => ReduxOp::MaxU,
                    (3, Ty::B32) => ReduxOp::And,
                    (4, Ty::B32) => ReduxOp::Or,
                    (5, Ty::B32) => ReduxOp::Xor,
                    _ => return Err(m.unsupported("this type")),
                };
                self.want(ops, 3..=3)?;
                let d = self.dst(&ops[0], File::R32)?;
                let a = self.src(&ops[1], File::R32)?;
                (2, WarpOp::Redux { op, d, a })
            }
            _ => {
                self.want(ops, 2..=2)?;
                let (d, p) = self.pair(&ops[0], File::R32)?;
                (1, WarpOp::Elect { d, p })
            }
        };
        let mask = self.src(&ops[mask_at], File::R32)?;
        self.push_with(Op::Warp { mask, op }, Class::Shuffle, Together::Mask);
        Ok(())
    }

    fn mbarrier(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        const NAMES: [&str; 10] = [
            "init",
            "inval",
            "arrive",
            "arrive_drop",
            "expect_tx",
            "complete_tx",
            "test_wait",
            "try_wait",
            "pending_count",
            "",
        ];
        let has_arrive = m.has("arrive");
        let has_drop = m.has("arrive_drop");
        let what = if has_arrive {
            "arrive"
        } else if has_drop {
            "arrive_drop"
        } else {
            let i = m.find(|p| NAMES.iter().position(|n| *n == p));
            i.map_or("", |i| NAMES[i])
        };
        if what == "pending_count" {
            m.ty()?;
            self.want(ops, 2..=2)?;
            let (d, state) = (self.dst(&ops[0], File::R32)?, self.src(&ops[1], File::R64)?);
            self.push(Op::MbarPending { d, state }, Class::Mbarrier);
            return Ok(());
        }
        let expect = (has_arrive || has_drop) && m.has("expect_tx");
        let no_complete = m.has("noComplete");
        let parity = m.has("parity");
        let relaxed = self.strength(m, Strength::Release) == Strength::Relaxed;
        let space = space_word(m).unwrap_or(Space::Generic);
        m.ty()?;
        let result = matches!(what, "arrive" | "arrive_drop" | "test_wait" | "try_wait") as usize;
        // Remote arrivals have no result: `mbarrier.arrive.shared::cluster.b64 _, [a]` and `... [a]` both occur.
        let result = if result == 1 && matches!(ops.first(), Some(Operand::Address { .. })) { 0 } else { result };
        let Some(a) = ops.get(result) else {
            return self.error("an mbarrier address is expected");
        };
        let addr = self.addr(a, space)?;
        let rest = &ops[result + 1..];
        let mut value = |i: usize, file: File| -> Res<Option<Slot>> {
            match rest.get(i) {
                Some(o) => Ok(Some(self.src(o, file)?)),
                None => Ok(None),
            }
        };
        let kind = match what {
            "init" => match value(0, File::R32)? {
                Some(count) => MbarKind::Init { count },
                None => return self.error("an arrival count is expected"),
            },
            "inval" => MbarKind::Inval,
            "arrive" | "arrive_drop" => {
                let v = value(0, File::R32)?;
                if expect && v.is_none() {
                    return self.error("a transaction count is expected");
                }
                let (count, expect) = if expect { (None, v) } else { (v, None) };
                MbarKind::Arrive { count, expect, drop: has_drop, no_complete }
            }
            "expect_tx" | "complete_tx" => match value(0, File::R32)? {
                Some(bytes) if what == "expect_tx" => MbarKind::ExpectTx { bytes },
                Some(bytes) => MbarKind::CompleteTx { bytes },
                None => return self.error("a transaction count is expected"),
            },
            "test_wait" | "try_wait" => {
                let file = if parity { File::R32 } else { File::R64 };
                match value(0, file)? {
                    Some(phase) => MbarKind::Wait { phase, parity, blocking: what == "try_wait" },
                    None => return self.error("a phase is expected"),
                }
            }
            _ => return Err(m.unsupported("this form")),
        };
        let d = match (&kind, result) {
            (MbarKind::Wait { .. }, 1) => self.dst(&ops[0], File::Pred)?,
            (_, 1) => self.dst(&ops[0], File::R64)?,
            _ => Slot::NONE,
        };
        self.push(Op::Mbar(Box::new(Mbar { kind, addr, d, relaxed })), Class::Mbarrier);
        Ok(())
    }
}
