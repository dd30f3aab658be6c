//! What can be taken from a cubin without executing it: the registers of each kernel.
//!
//! The section `.nv.info` holds attributes; attribute `0x2f` of format 4 gives, for a symbol index, the number of
//! registers per thread. The rest of the file (machine code) is not looked at.

/// A 64-bit little-endian ELF file, read with bounds checks.
struct Elf<'a> {
    data: &'a [u8],
    sections: usize,
    entry: usize,
    count: usize,
}

struct Section<'a> {
    data: &'a [u8],
    link: usize,
    name: usize,
}

fn number(data: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let part = data.get(at..at.checked_add(bytes)?)?;
    Some(part.iter().rev().fold(0usize, |v, b| v << 8 | *b as usize))
}

fn text(data: &[u8], at: usize) -> Option<&str> {
    let rest = data.get(at..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

impl<'a> Elf<'a> {
    fn open(data: &'a [u8]) -> Option<Elf<'a>> {
        if data.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        Some(Elf {
            data,
            sections: number(data, 0x28, 8)?,
            entry: number(data, 0x3a, 2)?,
            count: number(data, 0x3c, 2)?,
        })
    }

    fn section(&self, i: usize) -> Option<Section<'a>> {
        if i >= self.count {
            return None;
        }
        let at = self.sections.checked_add(i.checked_mul(self.entry)?)?;
        let (offset, size) = (number(self.data, at.checked_add(24)?, 8)?, number(self.data, at + 32, 8)?);
        // Sections without bytes in the file (type 8) have nothing to read.
        let data =
            if number(self.data, at + 4, 4)? == 8 { &[] } else { self.data.get(offset..offset.checked_add(size)?)? };
        Some(Section { data, link: number(self.data, at + 40, 4)?, name: number(self.data, at, 4)? })
    }
}

/// Kernel names with registers per thread. Empty when the data are not a cubin or lack the information.
pub fn registers(data: &[u8]) -> Vec<(String, u32)> {
    read(data).unwrap_or_default()
}

fn read(data: &[u8]) -> Option<Vec<(String, u32)>> {
    let elf = Elf::open(data)?;
    let names = elf.section(number(data, 0x3e, 2)?)?;
    let info = (0..elf.count).filter_map(|i| elf.section(i)).find(|s| text(names.data, s.name) == Some(".nv.info"))?;
    let symbols = elf.section(info.link)?;
    let strings = elf.section(symbols.link)?;
    let mut out = Vec::new();
    let mut at = 0;
    while let (Some(format), Some(attribute)) = (number(info.data, at, 1), number(info.data, at + 1, 1)) {
        if format != 4 {
            // Formats 1 to 3 keep their value in the next two bytes.
            at += 4;
            continue;
        }
        let size = number(info.data, at + 2, 2)?;
        if attribute == 0x2f && size >= 8 {
            let (symbol, count) = (number(info.data, at + 4, 4)?, number(info.data, at + 8, 4)?);
            let name = number(symbols.data, symbol.checked_mul(24)?, 4).and_then(|n| text(strings.data, n));
            if let Some(name) = name {
                out.push((name.to_string(), count as u32));
            }
        }
        at += 4 + size;
    }
    Some(out)
}
