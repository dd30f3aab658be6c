//! Any bytes are a fatbin or an error; entries that are compressed are unpacked. The second form passes the check of the
//! header, so that the entries are reached at once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_sim::driver::fatbin;

/// An entry that claims more than this is not unpacked here: memory is the fuzzer's limit, not the reader's.
const MOST_BYTES: u64 = 1 << 24;

fn read(data: &[u8]) {
    let _ = fatbin::total_bytes(data);
    let Ok(entries) = fatbin::entries(data) else {
        return;
    };
    for entry in entries.iter().filter(|e| e.unpacked_bytes <= MOST_BYTES) {
        let _ = entry.unpack();
    }
}

fuzz_target!(|data: &[u8]| {
    read(data);
    let mut framed = Vec::with_capacity(fatbin::HEADER_BYTES + data.len());
    framed.extend(fatbin::MAGIC.to_le_bytes());
    framed.extend(1u16.to_le_bytes());
    framed.extend((fatbin::HEADER_BYTES as u16).to_le_bytes());
    framed.extend((data.len() as u64).to_le_bytes());
    framed.extend(data);
    read(&framed);
});
