//! Byte permutes, three-input logic and funnel shifts: `prmt` in all modes, `lop3`, `shf`.

/// Modes of `prmt.b32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrmtMode {
    /// No mode: four 4-bit selectors in the third operand.
    Index,
    /// `.f4e`: four bytes forward from the selected one.
    Forward4,
    /// `.b4e`: four bytes backward from the selected one.
    Backward4,
    /// `.rc8`: the selected byte in every place.
    Replicate8,
    /// `.ecl`: edge clamp left.
    EdgeLeft,
    /// `.ecr`: edge clamp right.
    EdgeRight,
    /// `.rc16`: the selected 16-bit half twice.
    Replicate16,
}

/// `prmt.b32{.mode} d, a, b, c`: bytes of `{b, a}` selected by `c`.
#[inline]
pub fn prmt(a: u32, b: u32, c: u32, mode: PrmtMode) -> u32 {
    let source = (b as u64) << 32 | a as u64;
    let s = c & 3;
    let byte = |i: u32| ((source >> (8 * (i & 7))) & 0xff) as u32;
    let mut d = 0;
    for i in 0..4u32 {
        let value = match mode {
            PrmtMode::Index => {
                let control = (c >> (4 * i)) & 0xf;
                let v = byte(control);
                if control & 8 != 0 { if v & 0x80 != 0 { 0xff } else { 0 } } else { v }
            }
            PrmtMode::Forward4 => byte(s + i),
            PrmtMode::Backward4 => byte(s.wrapping_sub(i)),
            PrmtMode::Replicate8 => byte(s),
            PrmtMode::EdgeLeft => byte(i.max(s)),
            PrmtMode::EdgeRight => byte(i.min(s)),
            PrmtMode::Replicate16 => byte((s & 1) * 2 + (i & 1)),
        };
        d |= value << (8 * i);
    }
    d
}

/// `lop3.b32`: bit `4 a + 2 b + c` of `lut` in every position.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, lut: u8) -> u32 {
    let term = |bit: u32, v: u32| if (lut >> bit) & 1 == 1 { v } else { 0 };
    term(0, !a & !b & !c)
        | term(1, !a & !b & c)
        | term(2, !a & b & !c)
        | term(3, !a & b & c)
        | term(4, a & !b & !c)
        | term(5, a & !b & c)
        | term(6, a & b & !c)
        | term(7, a & b & c)
}

/// `shf.{l,r}.{clamp,wrap}.b32 d, a, b, c`: shifts `{b, a}` and takes the upper (left) or lower (right) word.
#[inline(always)]
pub fn shf(a: u32, b: u32, c: u32, left: bool, clamp: bool) -> u32 {
    let n = if clamp { c.min(32) } else { c & 31 };
    let v = (b as u64) << 32 | a as u64;
    if left { ((v << n) >> 32) as u32 } else { (v >> n) as u32 }
}
