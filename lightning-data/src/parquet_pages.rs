//! Headers of Parquet pages, read before the library reads the pages.
//!
//! The library allocates what a page's header asks for: the unpacked size, and places for a dictionary's values. A damaged or
//! hostile header can ask for gigabytes. Here every header of a column chunk is walked first, and what it asks for has to be
//! possible: pages lie one behind the other inside the chunk, an unpacked page is no larger than its compression can reach and than the
//! footer says of its chunk,
//! and a dictionary has no more values than its page can hold.
//!
//! Headers are structs of the Thrift compact protocol; only the fields named below matter, the others are passed over.

use parquet::basic::Compression;

/// What can be wrong with a chunk, as words for a message.
pub(crate) type Refusal = String;

/// Bytes that one packed byte can become at most.
///
/// Snappy copies 64 bytes by a tag of 3, deflate 258 bytes by 2 bits, LZ4 255 by 1; a Zstandard block of 4 bytes can repeat
/// one byte 2^17 times.
fn expansion(compression: Compression) -> u64 {
    match compression {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 22,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1032,
        _ => 1 << 15,
    }
}

/// Checks all page headers of a column chunk. `unpacked_chunk` is the unpacked size that the file's footer gives the chunk.
pub(crate) fn check_chunk(chunk: &[u8], compression: Compression, unpacked_chunk: u64) -> Result<(), Refusal> {
    let mut at = 0;
    while at < chunk.len() {
        let mut reader = Reader { bytes: chunk, at };
        let header = reader.page_header().ok_or_else(|| format!("a broken page header at byte {at} of its column"))?;
        let body = chunk.len() - reader.at;
        let packed = usize::try_from(header.packed).ok().filter(|&n| n <= body);
        let packed = packed.ok_or_else(|| format!("a page of {} bytes where {body} are left", header.packed))?;
        let most = (packed as u64).saturating_mul(expansion(compression)).saturating_add(64).min(unpacked_chunk);
        let unpacked = u64::try_from(header.unpacked).ok().filter(|&n| n <= most);
        let unpacked =
            unpacked.ok_or_else(|| format!("a page of {packed} bytes that unpacks to {} bytes", header.unpacked))?;
        // A value of a dictionary takes four bytes or more, of the rare kinds at least one.
        if let Some(values) = header.dictionary_values
            && u64::try_from(values).ok().is_none_or(|n| n > unpacked)
        {
            return Err(format!("a dictionary of {values} values in {unpacked} bytes"));
        }
        at = reader.at + packed;
    }
    Ok(())
}

#[derive(Default)]
struct PageHeader {
    unpacked: i64,
    packed: i64,
    dictionary_values: Option<i64>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Structs inside structs; headers have two levels.
const DEEPEST: usize = 8;

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Number and type of the next field; `None` inside at the end of a struct.
    fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *last = match byte >> 4 {
            0 => self.zigzag()?,
            step => last.checked_add(i64::from(step))?,
        };
        Some(Some((*last, byte & 0x0F)))
    }

    fn page_header(&mut self) -> Option<PageHeader> {
        let mut header = PageHeader::default();
        let mut last = 0;
        while let Some((field, kind)) = self.field(&mut last)? {
            match (field, kind) {
                (2, 5) => header.unpacked = self.zigzag()?,
                (3, 5) => header.packed = self.zigzag()?,
                (7, 12) => header.dictionary_values = Some(self.first_number()?),
                _ => self.skip(kind, 0)?,
            }
        }
        Some(header)
    }

    /// Field 1 of a struct, an integer; the other fields are passed over.
    fn first_number(&mut self) -> Option<i64> {
        let (mut last, mut number) = (0, 0);
        while let Some((field, kind)) = self.field(&mut last)? {
            match (field, kind) {
                (1, 5) => number = self.zigzag()?,
                _ => self.skip(kind, 1)?,
            }
        }
        Some(number)
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match kind {
            1 | 2 => {}
            3 => self.at += 1,
            4..=6 => _ = self.varint()?,
            7 => self.at += 8,
            8 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.at = self.at.checked_add(length)?;
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                for _ in 0..count {
                    self.skip_element(head & 0x0F, depth)?;
                }
            }
            12 => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => return None, // maps and unknown types: page headers have none
        }
        (self.at <= self.bytes.len()).then_some(())
    }

    /// As a field, but a truth value in a list takes a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        if matches!(kind, 1 | 2) { self.byte().map(|_| ()) } else { self.skip(kind, depth + 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header: unpacked and packed size, a dictionary's values, a field to pass over.
    fn header(unpacked: i64, packed: i64, dictionary: Option<i64>) -> Vec<u8> {
        fn varint(out: &mut Vec<u8>, value: i64) {
            let mut rest = ((value << 1) ^ (value >> 63)) as u64;
            while rest >= 0x80 {
                out.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            out.push(rest as u8);
        }
        let mut out = vec![0x15, 0, 0x15];
        varint(&mut out, unpacked);
        out.push(0x15);
        varint(&mut out, packed);
        match dictionary {
            Some(values) => {
                out.extend([0x4C, 0x15]);
                varint(&mut out, values);
                out.extend([0x15, 0, 0]);
            }
            // A data page with statistics (two texts) and a list of truth values.
            None => out.extend([0x2C, 0x15, 8, 0x4C, 0x18, 2, 7, 7, 0x18, 1, 7, 0, 0x19, 0x21, 1, 2, 0]),
        }
        out.push(0);
        out
    }

    #[test]
    fn possible_pages_pass_and_impossible_ones_are_named() {
        let page = |unpacked, packed, dictionary, body: usize| {
            let mut bytes = header(unpacked, packed, dictionary);
            bytes.extend(vec![0xAB; body]);
            bytes
        };
        let two = [page(40, 40, Some(10), 40), page(100, 100, None, 100)].concat();
        check_chunk(&two, Compression::UNCOMPRESSED, 170).unwrap();
        check_chunk(&page(22 * 30, 30, None, 30), Compression::SNAPPY, 700).unwrap();
        assert!(
            check_chunk(&page(22 * 30, 30, None, 30), Compression::SNAPPY, 600).unwrap_err().contains("unpacks to")
        );
        for (bytes, compression, says) in [
            (page(1 << 30, 40, None, 40), Compression::SNAPPY, "unpacks to"),
            (page(200, 40, None, 40), Compression::UNCOMPRESSED, "unpacks to"),
            (page(-1, 40, None, 40), Compression::SNAPPY, "unpacks to"),
            (page(40, 41, None, 40), Compression::UNCOMPRESSED, "are left"),
            (page(40, -1, None, 40), Compression::UNCOMPRESSED, "are left"),
            (page(40, 40, Some(1 << 31), 40), Compression::UNCOMPRESSED, "dictionary"),
            (vec![0x19, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], Compression::SNAPPY, "broken page header"),
            (vec![0x1C; 100], Compression::SNAPPY, "broken page header"),
        ] {
            let refusal = check_chunk(&bytes, compression, u64::MAX).unwrap_err();
            assert!(refusal.contains(says), "{says}: {refusal}");
        }
    }

    #[test]
    fn any_bytes_end() {
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u8
            };
            let n = next() as usize;
            let bytes: Vec<u8> = (0..n).map(|_| next()).collect();
            let _ = check_chunk(&bytes, Compression::SNAPPY, u64::MAX);
        }
    }
}
