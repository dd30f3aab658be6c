//! Which registers an instruction reads and writes.

use super::program::{Addr, Bulk, MbarKind, Op, Slot, WarpOp};

/// Calls `f` with every register of an instruction and whether it is written. Guards are not included.
pub(crate) fn for_each_slot(op: &Op, f: &mut dyn FnMut(Slot, bool)) {
    let addr = |a: &Addr, f: &mut dyn FnMut(Slot, bool)| f(a.base, false);
    match op {
        Op::Lane(_, d, s) => {
            f(*d, true);
            s.iter().for_each(|s| f(*s, false));
        }
        Op::SetP(x) => {
            f(x.p, true);
            f(x.q, true);
            f(x.a, false);
            f(x.b, false);
            if let Some((_, c)) = x.combine {
                f(c, false);
            }
        }
        Op::Map(m) => {
            m.d.iter().for_each(|s| f(*s, true));
            m.s.iter().for_each(|s| f(*s, false));
        }
        Op::ReadClock(_, d) | Op::ActiveMask(d) => f(*d, true),
        Op::BraIndex { index, .. } => f(*index, false),
        Op::CallBuiltin { args, ret, .. } => {
            args.iter().chain(ret).for_each(|a| addr(a, f));
        }
        Op::Load(l) => {
            addr(&l.addr, f);
            l.d.iter().for_each(|s| f(*s, true));
        }
        Op::Store(s) => {
            addr(&s.addr, f);
            s.s.iter().for_each(|s| f(*s, false));
            if let Some(m) = s.mbar {
                f(m, false);
            }
        }
        Op::Atomic(a) => {
            addr(&a.addr, f);
            a.d.iter().for_each(|s| f(*s, true));
            a.b.iter().for_each(|s| f(*s, false));
            f(a.c, false);
            if let Some(m) = a.mbar {
                f(m, false);
            }
        }
        Op::Hint { addr: a, .. } => addr(a, f),
        Op::IsSpace { d, a, .. } | Op::CtaRank { d, a, .. } | Op::MovMatrix { d, a } => {
            f(*d, true);
            f(*a, false);
        }
        Op::Mapa { d, a, rank, .. } => {
            f(*d, true);
            f(*a, false);
            f(*rank, false);
        }
        Op::Warp { mask, op } => {
            f(*mask, false);
            match op {
                WarpOp::Shfl { d, p, a, b, c, .. } => {
                    f(*d, true);
                    f(*p, true);
                    f(*a, false);
                    f(*b, false);
                    f(*c, false);
                }
                WarpOp::VoteAll { d, a }
                | WarpOp::VoteAny { d, a }
                | WarpOp::VoteUni { d, a }
                | WarpOp::Ballot { d, a }
                | WarpOp::MatchAny { d, a }
                | WarpOp::Redux { d, a, .. } => {
                    f(*d, true);
                    f(*a, false);
                }
                WarpOp::MatchAll { d, p, a } => {
                    f(*d, true);
                    f(*p, true);
                    f(*a, false);
                }
                WarpOp::Elect { d, p } => {
                    f(*d, true);
                    f(*p, true);
                }
                WarpOp::Sync => {}
            }
        }
        Op::Barrier(b) => {
            f(b.id, false);
            if let Some(c) = b.count {
                f(c, false);
            }
            if let Some((_, d, p)) = b.reduce {
                f(d, true);
                f(p, false);
            }
        }
        Op::CpAsync { dst, src, src_bytes, ignore, .. } => {
            addr(dst, f);
            addr(src, f);
            src_bytes.iter().chain(ignore).for_each(|s| f(*s, false));
        }
        Op::Mbar(m) => {
            addr(&m.addr, f);
            f(m.d, true);
            match &m.kind {
                MbarKind::Init { count } => f(*count, false),
                MbarKind::Arrive { count, expect, .. } => count.iter().chain(expect).for_each(|s| f(*s, false)),
                MbarKind::ExpectTx { bytes } | MbarKind::CompleteTx { bytes } => f(*bytes, false),
                MbarKind::Wait { phase, .. } => f(*phase, false),
                MbarKind::Inval | MbarKind::CpAsyncArrive { .. } => {}
            }
        }
        Op::MbarPending { d, state } => {
            f(*d, true);
            f(*state, false);
        }
        Op::Bulk(b) => match b.as_ref() {
            Bulk::Load { dst, src, bytes, mbar, mask } => {
                [dst, src, mbar].iter().for_each(|a| addr(a, f));
                f(*bytes, false);
                mask.iter().for_each(|s| f(*s, false));
            }
            Bulk::Peer { dst, src, bytes, mbar } => {
                [dst, src, mbar].iter().for_each(|a| addr(a, f));
                f(*bytes, false);
            }
            Bulk::Store { dst, src, bytes, .. } => {
                [dst, src].iter().for_each(|a| addr(a, f));
                f(*bytes, false);
            }
            Bulk::Prefetch { src, bytes } => {
                addr(src, f);
                f(*bytes, false);
            }
            Bulk::TensorLoad { dst, map, coords, mbar, mask } => {
                [dst, map, mbar].iter().for_each(|a| addr(a, f));
                coords.iter().chain(mask).for_each(|s| f(*s, false));
            }
            Bulk::TensorStore { map, coords, src, .. } => {
                [map, src].iter().for_each(|a| addr(a, f));
                coords.iter().for_each(|s| f(*s, false));
            }
            Bulk::TensorPrefetch { map, coords } => {
                addr(map, f);
                coords.iter().for_each(|s| f(*s, false));
            }
            Bulk::Commit | Bulk::Wait { .. } => {}
        },
        Op::TensormapReplace { map, value, .. } => {
            addr(map, f);
            f(*value, false);
        }
        Op::TensormapCopy { dst, src, .. } => [dst, src].iter().for_each(|a| addr(a, f)),
        Op::LdMatrix { addr: a, d, .. } => {
            addr(a, f);
            d.iter().for_each(|s| f(*s, true));
        }
        Op::StMatrix { addr: a, s, .. } => {
            addr(a, f);
            s.iter().for_each(|s| f(*s, false));
        }
        Op::Mma(m) => {
            m.d.iter().for_each(|s| f(*s, true));
            m.ra.iter().chain(&m.rb).chain(&m.rc).for_each(|s| f(*s, false));
        }
        Op::Wgmma(w) => {
            w.d.iter().for_each(|s| f(*s, true));
            w.ra.iter().for_each(|s| f(*s, false));
            f(w.desc_b, false);
            f(w.scale_d, false);
        }
        Op::Bra { .. }
        | Op::Call { .. }
        | Op::Ret
        | Op::Exit
        | Op::Trap
        | Op::Nop
        | Op::Nanosleep
        | Op::ClusterArrive { .. }
        | Op::ClusterWait
        | Op::Fence(_)
        | Op::CpAsyncCommit
        | Op::CpAsyncWait { .. }
        | Op::WgmmaFence
        | Op::WgmmaCommit
        | Op::WgmmaWait { .. }
        | Op::SetMaxNreg { .. }
        | Op::GridDepLaunch
        | Op::GridDepWait => {}
    }
}
