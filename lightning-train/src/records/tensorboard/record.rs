//! TFRecord framing: length, masked CRC of the length, data, masked CRC of the data; all little-endian.
//!
//!   mask(crc) = rotate_right(crc, 15) + 0xa282ead8        (TensorFlow, lib/io/record_writer)

const TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            // The reflected Castagnoli polynomial.
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// CRC-32C (Castagnoli).
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, b| crc >> 8 ^ TABLE[((crc ^ u32::from(*b)) & 0xff) as usize])
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Appends a record to `out`.
pub fn frame(data: &[u8], out: &mut Vec<u8>) {
    let length = (data.len() as u64).to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked(&length).to_le_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(&masked(data).to_le_bytes());
}

/// The records of a file, up to the first that is cut off or damaged (what a killed run leaves).
pub fn frames(bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_at_checked(8) {
        let n = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let Some(body) = usize::try_from(n).ok().and_then(|n| after.get(4..n.checked_add(8)?)) else { break };
        let (data, crc) = body.split_at(body.len() - 4);
        if after[..4] != masked(length).to_le_bytes() || crc != masked(data).to_le_bytes() {
            break;
        }
        found.push(data);
        rest = &after[4 + body.len()..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_has_the_check_value_and_those_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&[]), 0);
    }

    #[test]
    fn frames_end_at_the_first_damage() {
        let mut file = Vec::new();
        for data in [&b""[..], b"a", b"a longer record"] {
            frame(data, &mut file);
        }
        assert_eq!(frames(&file), [&b""[..], b"a", b"a longer record"]);
        for cut in 0..file.len() {
            assert!(frames(&file[..cut]).len() < 3);
        }
        let at = file.len() - 10;
        file[at] ^= 1;
        assert_eq!(frames(&file).len(), 2);
    }
}
