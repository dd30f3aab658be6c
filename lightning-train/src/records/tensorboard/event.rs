//! The few protocol buffer messages of an event file, encoded by hand.
//!
//!   Event      { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; SessionLog session_log = 7; }
//!   Summary    { repeated Value value = 1; }      Value { string tag = 1; float simple_value = 2; }
//!   SessionLog { enum status = 1; }               START = 1: readers drop what an earlier file says of this step and later ones

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(field: u8, data: &[u8], out: &mut Vec<u8>) {
    out.push(field << 3 | 2);
    varint(data.len() as u64, out);
    out.extend_from_slice(data);
}

/// Fields with their default value are left out, as every proto3 encoder does.
fn event(wall_time: f64, step: u64) -> Vec<u8> {
    let mut out = Vec::new();
    if wall_time.to_bits() != 0 {
        out.push(1 << 3 | 1);
        out.extend_from_slice(&wall_time.to_le_bytes());
    }
    if step != 0 {
        out.push(2 << 3);
        varint(step, &mut out);
    }
    out
}

/// The first event of a file.
pub fn file_version(wall_time: f64) -> Vec<u8> {
    let mut out = event(wall_time, 0);
    bytes(3, b"brain.Event:2", &mut out);
    out
}

/// A run that begins (again) with `step`.
pub fn session_start(wall_time: f64, step: u64) -> Vec<u8> {
    let mut out = event(wall_time, step);
    bytes(7, &[1 << 3, 1], &mut out);
    out
}

/// The scalars of a step, by tag.
pub fn scalars(wall_time: f64, step: u64, values: &[(&str, f64)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut one = Vec::with_capacity(tag.len() + 8);
        bytes(1, tag.as_bytes(), &mut one);
        one.push(2 << 3 | 5);
        one.extend_from_slice(&(*value as f32).to_le_bytes());
        bytes(1, &one, &mut summary);
    }
    let mut out = event(wall_time, step);
    bytes(5, &summary, &mut out);
    out
}
