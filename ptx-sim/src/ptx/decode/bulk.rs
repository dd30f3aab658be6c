//! Asynchronous copies: `cp.async`, bulk copies, tensor copies, and changes of tensor maps.

use super::mods::Mods;
use super::{Decoder, Res};
use crate::ptx::program::{
    Addr, Bulk, BulkReduce, Class, File, MapField, Mbar, MbarKind, Op, ReduceOp, Slot, Together,
};
use crate::ptx::syntax::Operand;
use crate::ptx::types::Space;

const SHARED: [&str; 3] = ["shared", "shared::cta", "shared::cluster"];

impl<'a> Decoder<'a> {
    pub(super) fn bulk(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if name == "tensormap" {
            return self.tensormap(m, ops);
        }
        let reduce = m.has("reduce");
        if !m.has("async") {
            return Err(m.unsupported("this form"));
        }
        if m.has("bulk") {
            return self.bulk_copy(reduce, m, ops);
        }
        if m.has("commit_group") {
            self.push(Op::CpAsyncCommit, Class::AsyncCopy);
            return Ok(());
        }
        if m.has("wait_all") {
            // Waits for what was not committed as well.
            self.push(Op::CpAsyncCommit, Class::AsyncCopy);
            self.push(Op::CpAsyncWait { keep: 0 }, Class::AsyncCopy);
            return Ok(());
        }
        if m.has("wait_group") {
            self.want(ops, 1..=1)?;
            let keep = self.immediate(&ops[0])? as u32;
            self.push(Op::CpAsyncWait { keep }, Class::AsyncCopy);
            return Ok(());
        }
        if m.has("mbarrier") {
            if !m.has("arrive") {
                return Err(m.unsupported("this form"));
            }
            let noinc = m.has("noinc");
            let space =
                if m.find(|p| SHARED.contains(&p).then_some(())).is_some() { Space::Shared } else { Space::Generic };
            m.ty()?;
            self.want(ops, 1..=1)?;
            let addr = self.addr(&ops[0], space)?;
            let mbar = Mbar { kind: MbarKind::CpAsyncArrive { noinc }, addr, d: Slot::NONE, relaxed: false };
            self.push(Op::Mbar(Box::new(mbar)), Class::Mbarrier);
            return Ok(());
        }
        let policy = m.sees("L2::cache_hint");
        m.ignore_cache();
        while m.find(|p| SHARED.contains(&p).then_some(())).is_some() {}
        if !m.has("global") {
            return Err(m.unsupported("a global source is expected"));
        }
        self.want(ops, 3..=5)?;
        let dst = self.addr(&ops[0], Space::Shared)?;
        let src = self.addr(&ops[1], Space::Global)?;
        let bytes = self.immediate(&ops[2])? as u32;
        if !matches!(bytes, 4 | 8 | 16) {
            return self.error(format!("cp.async of {bytes} bytes: 4, 8 or 16 are possible"));
        }
        let (mut src_bytes, mut ignore) = (None, None);
        let extra = ops.len() - 3 - policy as usize;
        if extra == 1 {
            let s = self.any(&ops[3], File::R32)?;
            if s.file() == File::Pred { ignore = Some(s) } else { src_bytes = Some(s) }
        }
        self.push(Op::CpAsync { dst, src, bytes, src_bytes, ignore }, Class::AsyncCopy);
        Ok(())
    }

    fn coords(&mut self, o: &Operand<'a>) -> Res<(Addr, Vec<Slot>)> {
        let Operand::Bracket(parts) = o else {
            return self.error("a tensor map with coordinates is expected");
        };
        if parts.len() != 2 {
            return self.error("a tensor map with coordinates is expected");
        }
        let map = self.addr_of(&parts[0], 0, Space::Generic)?;
        let coords = self.src_vec(&parts[1], File::R32)?;
        if coords.is_empty() || coords.len() > 5 || coords.iter().any(|c| c.is_none() || c.file() != File::R32) {
            return self.error("one to five 32-bit coordinates are expected");
        }
        Ok((map, coords))
    }

    fn reduce_op(m: &mut Mods<'a>) -> Res<ReduceOp> {
        let op = m.find(|p| {
            Some(match p {
                "add" => ReduceOp::Add,
                "min" => ReduceOp::Min,
                "max" => ReduceOp::Max,
                "inc" => ReduceOp::Inc,
                "dec" => ReduceOp::Dec,
                "and" => ReduceOp::And,
                "or" => ReduceOp::Or,
                "xor" => ReduceOp::Xor,
                _ => return None,
            })
        });
        op.ok_or_else(|| m.unsupported("a reduction is expected"))
    }

    fn bulk_copy(&mut self, reduce: bool, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let class = Class::TensorCopy;
        if m.has("commit_group") {
            self.push(Op::Bulk(Box::new(Bulk::Commit)), class);
            return Ok(());
        }
        if m.has("wait_group") {
            let read = m.has("read");
            self.want(ops, 1..=1)?;
            let keep = self.immediate(&ops[0])? as u32;
            self.push(Op::Bulk(Box::new(Bulk::Wait { keep, read })), class);
            return Ok(());
        }
        let prefetch = m.has("prefetch");
        let tensor = m.has("tensor");
        let policy = m.sees("L2::cache_hint");
        m.ignore_cache();
        m.ignore(&["L2", "noftz"]);
        let dims = m.find(|p| ["1d", "2d", "3d", "4d", "5d"].iter().position(|d| *d == p).map(|d| d + 1));
        m.ignore(&["tile"]);
        // The first state space is the destination's, the second the source's.
        let spaces: Vec<&str> = std::iter::from_fn(|| {
            m.find(|p| match p {
                "global" => Some("global"),
                "shared::cluster" => Some("cluster"),
                "shared::cta" | "shared" => Some("cta"),
                _ => None,
            })
        })
        .collect();
        let multicast = m.has("multicast::cluster");
        let mbarrier = m.has("mbarrier::complete_tx::bytes");
        let group = m.has("bulk_group");
        let tail = multicast as usize + policy as usize;
        if tensor {
            let at = if prefetch || group { 0 } else { 1 };
            let Some(o) = ops.get(at) else {
                return self.error("a tensor map with coordinates is expected");
            };
            let (map, coords) = self.coords(o)?;
            if Some(coords.len()) != dims {
                return self.error(format!(
                    "{} coordinates for a tensor of {} dimensions",
                    coords.len(),
                    dims.unwrap_or(0)
                ));
            }
            let op = if prefetch {
                self.want(ops, 1..=1 + tail)?;
                Bulk::TensorPrefetch { map, coords }
            } else if group {
                self.want(ops, 2 + tail..=2 + tail)?;
                let src = self.addr(&ops[1], Space::Shared)?;
                let reduce = if reduce { Some(Self::reduce_op(m)?) } else { None };
                Bulk::TensorStore { map, coords, src, reduce }
            } else if mbarrier {
                self.want(ops, 3 + tail..=3 + tail)?;
                let dst = self.addr(&ops[0], Space::Shared)?;
                let mbar = self.addr(&ops[2], Space::Shared)?;
                let mask = if multicast { Some(self.src(&ops[3], File::R32)?) } else { None };
                Bulk::TensorLoad { dst, map, coords, mbar, mask }
            } else {
                return Err(m.unsupported("this form"));
            };
            self.push(Op::Bulk(Box::new(op)), class);
            return Ok(());
        }
        if prefetch {
            self.want(ops, 2..=2 + tail)?;
            let src = self.addr(&ops[0], Space::Global)?;
            let bytes = self.src(&ops[1], File::R32)?;
            self.push(Op::Bulk(Box::new(Bulk::Prefetch { src, bytes })), class);
            return Ok(());
        }
        let op = match (spaces.as_slice(), mbarrier, group) {
            (["cluster" | "cta", "global"], true, false) => {
                self.want(ops, 4 + tail..=4 + tail)?;
                let dst = self.addr(&ops[0], Space::Shared)?;
                let src = self.addr(&ops[1], Space::Global)?;
                let bytes = self.src(&ops[2], File::R32)?;
                let mbar = self.addr(&ops[3], Space::Shared)?;
                let mask = if multicast { Some(self.src(&ops[4], File::R32)?) } else { None };
                if reduce {
                    return Err(m.unsupported("a reduction into shared memory"));
                }
                Bulk::Load { dst, src, bytes, mbar, mask }
            }
            (["cluster", "cta"], true, false) if !reduce => {
                self.want(ops, 4..=4)?;
                let dst = self.addr(&ops[0], Space::Shared)?;
                let src = self.addr(&ops[1], Space::Shared)?;
                let bytes = self.src(&ops[2], File::R32)?;
                let mbar = self.addr(&ops[3], Space::Shared)?;
                Bulk::Peer { dst, src, bytes, mbar }
            }
            (["global", "cta"], false, true) => {
                self.want(ops, 3 + tail..=3 + tail)?;
                let dst = self.addr(&ops[0], Space::Global)?;
                let src = self.addr(&ops[1], Space::Shared)?;
                let bytes = self.src(&ops[2], File::R32)?;
                let reduce = if reduce { Some(BulkReduce { op: Self::reduce_op(m)?, ty: m.ty()? }) } else { None };
                Bulk::Store { dst, src, bytes, reduce }
            }
            _ => return Err(m.unsupported("this pair of state spaces")),
        };
        self.push(Op::Bulk(Box::new(op)), class);
        Ok(())
    }

    fn tensormap(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if m.has("cp_fenceproxy") {
            m.ignore(&[
                "global",
                "shared::cta",
                "tensormap::generic",
                "release",
                "cta",
                "cluster",
                "gpu",
                "sys",
                "sync",
                "aligned",
            ]);
            self.want(ops, 3..=3)?;
            let dst = self.addr(&ops[0], Space::Global)?;
            let src = self.addr(&ops[1], Space::Shared)?;
            let bytes = self.immediate(&ops[2])?;
            if bytes != 128 {
                return self.error("a tensor map has 128 bytes");
            }
            self.push_with(Op::TensormapCopy { dst, src, bytes: 128 }, Class::TensorCopy, Together::All);
            return Ok(());
        }
        if !m.has("replace") || !m.has("tile") {
            return Err(m.unsupported("this form"));
        }
        let space = super::moves::space_word(m).unwrap_or(Space::Generic);
        m.ignore(&["b1024"]);
        const FIELDS: [&str; 10] = [
            "global_address",
            "rank",
            "box_dim",
            "global_dim",
            "global_stride",
            "element_stride",
            "elemtype",
            "interleave_layout",
            "swizzle_mode",
            "fill_mode",
        ];
        let Some(field) = m.find(|p| FIELDS.iter().position(|f| *f == p)) else {
            return Err(m.unsupported("this field"));
        };
        let ty = m.ty()?;
        let ordinal = (2..=5).contains(&field);
        self.want(ops, 2 + ordinal as usize..=2 + ordinal as usize)?;
        let map = self.addr(&ops[0], space)?;
        let ord = if ordinal { self.immediate(&ops[1])? as usize } else { 0 };
        if ord > 4 {
            return self.error(format!("dimension {ord} of a tensor map; 0 to 4 are possible"));
        }
        let file = self.file_of(ty)?;
        let value = self.src(&ops[ops.len() - 1], file)?;
        let field = match field {
            0 => MapField::GlobalAddress,
            1 => MapField::Rank,
            2 => MapField::BoxDim(ord),
            3 => MapField::GlobalDim(ord),
            4 => MapField::GlobalStride(ord),
            5 => MapField::ElementStride(ord),
            6 => MapField::ElemType,
            7 => MapField::InterleaveLayout,
            8 => MapField::SwizzleMode,
            _ => MapField::FillMode,
        };
        self.push(Op::TensormapReplace { map, field, value }, Class::TensorCopy);
        Ok(())
    }
}
