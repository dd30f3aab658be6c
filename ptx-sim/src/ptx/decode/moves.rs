//! `mov` in all its forms, and address conversions.

use super::mods::Mods;
use super::{Decoder, Res};
use crate::ptx::program::{Class, Clock, File, LaneOp, MapFn, Op};
use crate::ptx::syntax::Operand;
use crate::ptx::types::{Space, Ty};

/// Start of the shared window in the generic address space.
pub(crate) const SHARED_WINDOW: u64 = 0x0001_0000_0000_0000;
/// Start of the local window.
pub(crate) const LOCAL_WINDOW: u64 = 0x0001_1000_0000_0000;
/// Start of the kernel parameter window.
pub(crate) const PARAM_WINDOW: u64 = 0x0001_2000_0000_0000;

impl<'a> Decoder<'a> {
    pub(super) fn moves(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        match name {
            "mov" => self.mov(m, ops),
            "cvta" => self.cvta(m, ops),
            "isspacep" => {
                let cluster = m.has("shared::cluster");
                let space = if cluster { Some(Space::Shared) } else { space_word(m) };
                let Some(space) = space else {
                    return Err(m.unsupported("a state space is expected"));
                };
                self.want(ops, 2..=2)?;
                let (d, a) = (self.dst(&ops[0], File::Pred)?, self.src(&ops[1], File::R64)?);
                self.push(Op::IsSpace { d, a, space, cluster }, Class::Integer);
                Ok(())
            }
            _ => {
                // mapa, getctarank
                let generic = !m.has("shared::cluster");
                let ty = m.ty()?;
                let file = self.file_of(ty)?;
                if name == "mapa" {
                    self.want(ops, 3..=3)?;
                    let (d, a, rank) =
                        (self.dst(&ops[0], file)?, self.src(&ops[1], file)?, self.src(&ops[2], File::R32)?);
                    self.push(Op::Mapa { d, a, rank, generic }, Class::Integer);
                } else {
                    self.want(ops, 2..=2)?;
                    let (d, a) = (self.dst(&ops[0], File::R32)?, self.src(&ops[1], file)?);
                    self.push(Op::CtaRank { d, a, generic }, Class::Integer);
                }
                Ok(())
            }
        }
    }

    fn mov(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let ty = m.ty()?;
        self.want(ops, 2..=2)?;
        if let Operand::Name { name, .. } = &ops[1]
            && let Some(c) = clock(name)
        {
            let d = self.dst_any(&ops[0])?;
            self.push(Op::ReadClock(c, d), Class::Move);
            return Ok(());
        }
        match (&ops[0], &ops[1]) {
            (Operand::Vector(d), src) => {
                let n = d.len();
                let part = ty.size() / n.max(1);
                let file = self.file_of(ty)?;
                let s = self.src(src, file)?;
                let d = d.iter().map(|o| self.dst_any(o)).collect::<Res<Vec<_>>>()?;
                for (i, d) in d.iter().enumerate() {
                    match (ty.size(), part) {
                        (4, 2) => self.lane(LaneOp::Half(i == 1), *d, &[s], Class::Move),
                        (8, 4) => self.lane(LaneOp::Word(i == 1), *d, &[s], Class::Move),
                        (_, 1 | 2) => {
                            let (shift, keep) = (8 * part * i, (1u64 << (8 * part)) - 1);
                            self.map(MapFn::F1(Box::new(move |[a]| a >> shift & keep)), *d, &[s], Class::Move);
                        }
                        _ => return Err(m.unsupported("this way to unpack")),
                    }
                }
                Ok(())
            }
            (dst, Operand::Vector(s)) => {
                let n = s.len();
                let part = ty.size() / n.max(1);
                let file = self.file_of(ty)?;
                let d = self.dst(dst, file)?;
                let s = s.iter().map(|o| self.src(o, File::R32)).collect::<Res<Vec<_>>>()?;
                match (ty.size(), part, n) {
                    (4, 2, 2) => self.lane(LaneOp::Pack16, d, &s, Class::Move),
                    (8, 4, 2) => self.lane(LaneOp::Pack32, d, &s, Class::Move),
                    (2, 1, 2) => self.map(MapFn::F2(Box::new(|[a, b]| a & 0xff | (b & 0xff) << 8)), d, &s, Class::Move),
                    (_, 1 | 2, 4) => {
                        let keep = (1u64 << (8 * part)) - 1;
                        let func = move |v: [u64; 4]| (0..4).fold(0, |r, i| r | (v[i] & keep) << (8 * part * i));
                        self.map(MapFn::F4(Box::new(func)), d, &s, Class::Move);
                    }
                    _ => return Err(m.unsupported("this way to pack")),
                }
                Ok(())
            }
            (dst, src) => {
                let file = self.file_of(ty)?;
                let d = self.dst(dst, file)?;
                let s = self.src(src, file)?;
                let op = match file {
                    File::R32 => LaneOp::Mov32,
                    File::R64 => LaneOp::Mov64,
                    File::Pred => LaneOp::MovPred,
                };
                self.lane(op, d, &[s], Class::Move);
                Ok(())
            }
        }
    }

    fn cvta(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let to = m.has("to");
        let space = space_word(m);
        let ty = m.ty()?;
        if ty != Ty::U64 {
            return Err(m.unsupported("32-bit generic addresses"));
        }
        self.want(ops, 2..=2)?;
        let d = self.dst(&ops[0], File::R64)?;
        let s = self.src(&ops[1], File::R64)?;
        let window = match space {
            Some(Space::Shared) => SHARED_WINDOW,
            Some(Space::Local) => LOCAL_WINDOW,
            Some(Space::Param) => PARAM_WINDOW,
            Some(_) => 0,
            None => return Err(m.unsupported("a state space is expected")),
        };
        if window == 0 {
            self.lane(LaneOp::Mov64, d, &[s], Class::Integer);
        } else {
            let w = self.bits(File::R64, window)?;
            self.lane(if to { LaneOp::Sub64 } else { LaneOp::Add64 }, d, &[s, w], Class::Integer);
        }
        Ok(())
    }
}

fn clock(name: &str) -> Option<Clock> {
    Some(match name {
        "%clock" => Clock::Counter32,
        "%clock_hi" => Clock::CounterHi,
        "%clock64" => Clock::Counter64,
        "%globaltimer" => Clock::GlobalTimer,
        "%globaltimer_lo" => Clock::GlobalTimerLo,
        "%globaltimer_hi" => Clock::GlobalTimerHi,
        _ => return None,
    })
}

/// Takes a state-space modifier. Constants live in global memory.
pub(super) fn space_word(m: &mut Mods<'_>) -> Option<Space> {
    m.find(|p| {
        Some(match p {
            "global" | "const" => Space::Global,
            "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
            "local" => Space::Local,
            "param" | "param::entry" | "param::func" => Space::Param,
            _ => return None,
        })
    })
}
