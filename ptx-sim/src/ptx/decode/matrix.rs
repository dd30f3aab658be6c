//! Matrix instructions: `ldmatrix`, `stmatrix`, `movmatrix`, `mma.sync`, `wgmma`.

use super::mods::Mods;
use super::{Decoder, Res};
use crate::ptx::program::{Class, Elem, File, Mma, Op, Slot, Together, Wgmma};
use crate::ptx::syntax::Operand;
use crate::ptx::types::{Space, Ty};

fn elem(t: Ty) -> Option<Elem> {
    Some(match t {
        Ty::F16 => Elem::F16,
        Ty::BF16 => Elem::Bf16,
        Ty::TF32 => Elem::Tf32,
        Ty::E4M3 => Elem::E4m3,
        Ty::E5M2 => Elem::E5m2,
        Ty::S8 => Elem::S8,
        Ty::U8 => Elem::U8,
        Ty::F64 => Elem::F64,
        _ => return None,
    })
}

/// `m16n8k16` to its three numbers.
fn shape(p: &str) -> Option<(usize, usize, usize)> {
    let rest = p.strip_prefix('m')?;
    let (m, rest) = rest.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

impl<'a> Decoder<'a> {
    pub(super) fn matrix(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if name == "wgmma" {
            return self.wgmma(m, ops);
        }
        if !m.has("sync") || !m.has("aligned") {
            return Err(m.unsupported(".sync.aligned is expected"));
        }
        match name {
            "ldmatrix" | "stmatrix" => {
                if !m.has("m8n8") {
                    return Err(m.unsupported("this shape"));
                }
                let n = m.find(|p| {
                    Some(match p {
                        "x1" => 1,
                        "x2" => 2,
                        "x4" => 4,
                        _ => return None,
                    })
                });
                let trans = m.has("trans");
                m.ignore(&["shared", "shared::cta"]);
                if m.ty()? != Ty::B16 {
                    return Err(m.unsupported("elements that are not b16"));
                }
                self.want(ops, 2..=2)?;
                let load = name == "ldmatrix";
                let (reg, mem) = if load { (&ops[0], &ops[1]) } else { (&ops[1], &ops[0]) };
                let addr = self.addr(mem, Space::Shared)?;
                let regs = if load { self.dst_vec(reg)? } else { self.src_vec(reg, File::R32)? };
                if Some(regs.len()) != n {
                    return self.error(format!("{} registers for {} matrices", regs.len(), n.unwrap_or(0)));
                }
                self.need32(&regs)?;
                let op =
                    if load { Op::LdMatrix { addr, d: regs, trans } } else { Op::StMatrix { addr, s: regs, trans } };
                self.push_with(op, if load { Class::LoadShared } else { Class::StoreShared }, Together::All);
            }
            "movmatrix" => {
                m.ignore(&["m8n8", "trans"]);
                m.ty()?;
                self.want(ops, 2..=2)?;
                let (d, a) = (self.dst(&ops[0], File::R32)?, self.src(&ops[1], File::R32)?);
                self.push_with(Op::MovMatrix { d, a }, Class::MatrixMove, Together::All);
            }
            _ => self.mma(m, ops)?,
        }
        Ok(())
    }

    fn need32(&self, regs: &[Slot]) -> Res<()> {
        if regs.iter().any(|s| s.is_none() || s.file() != File::R32) {
            return self.error("32-bit registers are expected");
        }
        Ok(())
    }

    fn mma(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let Some((mm, nn, kk)) = m.find(shape) else {
            return Err(m.unsupported("a shape is expected"));
        };
        if !m.has("row") || !m.has("col") {
            return Err(m.unsupported("layouts other than .row.col"));
        }
        let satfinite = m.has("satfinite");
        let types = m.types();
        let [td, ta, tb, tc] = types.as_slice() else {
            return Err(m.unsupported("four types are expected"));
        };
        let (Some(a), Some(b)) = (elem(*ta), elem(*tb)) else {
            return Err(m.unsupported("these element types"));
        };
        if td != tc {
            return Err(m.unsupported("different accumulator types"));
        }
        let ok = match (a, b, *td) {
            (Elem::F16, Elem::F16, Ty::F16 | Ty::F32) | (Elem::Bf16, Elem::Bf16, Ty::F32) => {
                matches!((mm, nn, kk), (16, 8, 8 | 16))
            }
            (Elem::Tf32, Elem::Tf32, Ty::F32) => matches!((mm, nn, kk), (16, 8, 4 | 8)),
            (Elem::E4m3 | Elem::E5m2, Elem::E4m3 | Elem::E5m2, Ty::F32 | Ty::F16) => {
                matches!((mm, nn, kk), (16, 8, 16 | 32))
            }
            (Elem::S8 | Elem::U8, Elem::S8 | Elem::U8, Ty::S32) => {
                matches!((mm, nn, kk), (16, 8, 16 | 32))
            }
            (Elem::F64, Elem::F64, Ty::F64) => (mm, nn, kk) == (8, 8, 4) || matches!((mm, nn, kk), (16, 8, 4 | 8 | 16)),
            _ => false,
        };
        if !ok {
            return Err(m.unsupported("this combination of shape and types"));
        }
        self.want(ops, 4..=4)?;
        let d = self.dst_vec(&ops[0])?;
        let file = if *td == Ty::F64 { File::R64 } else { File::R32 };
        let ra = self.src_vec(&ops[1], file)?;
        let rb = self.src_vec(&ops[2], file)?;
        let rc = self.src_vec(&ops[3], file)?;
        let per =
            |count: usize, bytes: usize| (count * bytes / 32).div_ceil(if file == File::R64 { 8 } else { 4 }).max(1);
        let acc = if *td == Ty::F16 { 2 } else { td.size() };
        let sizes = [
            (d.len(), per(mm * nn, acc)),
            (ra.len(), per(mm * kk, a.bytes())),
            (rb.len(), per(nn * kk, b.bytes())),
            (rc.len(), per(mm * nn, acc)),
        ];
        for (have, want) in sizes {
            if have != want {
                return self.error(format!("{have} registers where the shape needs {want}"));
            }
        }
        for r in [&d, &ra, &rb, &rc] {
            if r.iter().any(|s| s.is_none() || s.file() != file) {
                return self.error("a matrix register has the wrong width");
            }
        }
        let mma = Mma { m: mm, n: nn, k: kk, a, b, acc: *td, satfinite, d, ra, rb, rc };
        self.push_with(Op::Mma(Box::new(mma)), Class::Matrix, Together::All);
        Ok(())
    }

    fn wgmma(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if m.has("fence") {
            m.ignore(&["sync", "aligned"]);
            self.push_with(Op::WgmmaFence, Class::Matrix, Together::All);
            return Ok(());
        }
        if m.has("commit_group") {
            m.ignore(&["sync", "aligned"]);
            self.push_with(Op::WgmmaCommit, Class::Matrix, Together::All);
            return Ok(());
        }
        if m.has("wait_group") {
            m.ignore(&["sync", "aligned"]);
            self.want(ops, 1..=1)?;
            let keep = self.immediate(&ops[0])?;
            if keep > 7 {
                return self.error(format!("wgmma.wait_group {keep}: at most 7 groups may stay pending"));
            }
            self.push_with(Op::WgmmaWait { keep: keep as u32 }, Class::Matrix, Together::All);
            return Ok(());
        }
        if !m.has("mma_async") || !m.has("sync") || !m.has("aligned") {
            return Err(m.unsupported("this form"));
        }
        let Some((mm, n, k)) = m.find(shape) else {
            return Err(m.unsupported("a shape is expected"));
        };
        let satfinite = m.has("satfinite");
        let types = m.types();
        let [td, ta, tb] = types.as_slice() else {
            return Err(m.unsupported("three types are expected"));
        };
        let (Some(a), Some(b)) = (elem(*ta), elem(*tb)) else {
            return Err(m.unsupported("these element types"));
        };
        let integer = matches!(a, Elem::S8 | Elem::U8);
        let ok = match (a, b, *td) {
            (Elem::F16, Elem::F16, Ty::F16 | Ty::F32) | (Elem::Bf16, Elem::Bf16, Ty::F32) => k == 16,
            (Elem::Tf32, Elem::Tf32, Ty::F32) => k == 8,
            (Elem::E4m3 | Elem::E5m2, Elem::E4m3 | Elem::E5m2, Ty::F16 | Ty::F32) => k == 32,
            (Elem::S8 | Elem::U8, Elem::S8 | Elem::U8, Ty::S32) => k == 32,
            _ => false,
        };
        let n_ok = n.is_multiple_of(8) && (8..=256).contains(&n) && (!integer || n <= 24 || n.is_multiple_of(16));
        if mm != 64 || !ok || !n_ok {
            return Err(m.unsupported("this combination of shape and types"));
        }
        self.want(ops, 4..=8)?;
        let d = self.dst_vec(&ops[0])?;
        self.need32(&d)?;
        let regs = if *td == Ty::F16 { n / 4 } else { n / 2 };
        if d.len() != regs {
            return self.error(format!("{} accumulator registers where n{n} needs {regs}", d.len()));
        }
        let a_in_shared = !matches!(ops[1], Operand::Vector(_));
        let ra = if a_in_shared { vec![self.src(&ops[1], File::R64)?] } else { self.src_vec(&ops[1], File::R32)? };
        if !a_in_shared {
            self.need32(&ra)?;
        }
        if !a_in_shared && ra.len() != 4 {
            return self.error(format!("{} registers of A where 4 are needed", ra.len()));
        }
        let desc_b = self.src(&ops[2], File::R64)?;
        let scale_d = self.src(&ops[3], File::Pred)?;
        let imm = ops[4..].iter().map(|o| self.immediate(o)).collect::<Res<Vec<_>>>()?;
        let sign = |v: u64| match v as i64 {
            1 => Ok(false),
            -1 => Ok(true),
            _ => self.error("the scale of A and B is 1 or -1"),
        };
        let sixteen = matches!(a, Elem::F16 | Elem::Bf16);
        let mut w = Wgmma {
            n,
            k,
            a,
            b,
            acc: *td,
            d,
            ra,
            a_in_shared,
            desc_b,
            scale_d,
            neg_a: false,
            neg_b: false,
            trans_a: false,
            trans_b: false,
            satfinite,
        };
        if !integer {
            let want = if sixteen { 3 + a_in_shared as usize } else { 2 };
            if imm.len() != want {
                return self.error(format!("{} constants where {want} are expected", imm.len()));
            }
            w.neg_a = sign(imm[0])?;
            w.neg_b = sign(imm[1])?;
            if sixteen {
                w.trans_a = a_in_shared && imm[2] != 0;
                w.trans_b = imm[imm.len() - 1] != 0;
            }
        } else if !imm.is_empty() {
            return self.error("integer wgmma takes no constants");
        }
        self.push_with(Op::Wgmma(Box::new(w)), Class::Matrix, Together::All);
        Ok(())
    }
}
