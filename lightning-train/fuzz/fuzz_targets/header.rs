//! Any bytes are a safetensors file or an error. The second form has a right length in front, so that the text of the
//! header is reached at once. What is accepted covers the file exactly.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lightning_train::hf::header;

fn read(file: &[u8]) {
    let Ok(found) = header::of_bytes(file) else { return };
    let data: u64 = found.entries.iter().map(|e| e.len).sum();
    let text = u64::from_le_bytes(*file.first_chunk().expect("a file with a header"));
    assert_eq!(8 + text + data, file.len() as u64);
}

fuzz_target!(|data: &[u8]| {
    read(data);
    let mut framed = (data.len() as u64).to_le_bytes().to_vec();
    framed.extend(data);
    read(&framed);
});
