//! NumPy `.npy` files of version 1, as index caches: written atomically, read by mapping.
//!
//! Only C order and one or two dimensions. Layout: `\x93NUMPY`, bytes 1 and 0, u16 header length, a Python dictionary
//! padded with blanks and a line feed so that the data starts at a multiple of 64 bytes.

use std::fs::File;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::atomic::AtomicFile;
use crate::error::{DataError, Result};

/// Element types that index caches use.
pub trait NpyElement: bytemuck::Pod {
    /// NumPy's little-endian type string.
    const DESCR: &'static str;
}

impl NpyElement for i16 {
    const DESCR: &'static str = "<i2";
}
impl NpyElement for i32 {
    const DESCR: &'static str = "<i4";
}
impl NpyElement for u32 {
    const DESCR: &'static str = "<u4";
}
impl NpyElement for i64 {
    const DESCR: &'static str = "<i8";
}
impl NpyElement for [i32; 2] {
    const DESCR: &'static str = "<i4";
}
impl NpyElement for [i64; 2] {
    const DESCR: &'static str = "<i8";
}

/// An array that is either in memory or a mapped file.
pub enum Array<T: NpyElement> {
    /// In memory.
    Owned(Vec<T>),
    /// In a `.npy` file.
    Mapped(MappedArray<T>),
}

/// The data part of a mapped `.npy` file.
pub struct MappedArray<T> {
    map: Mmap,
    start: usize,
    bytes: usize,
    element: PhantomData<T>,
}

impl<T: NpyElement> Deref for Array<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            Array::Owned(values) => values,
            // `map_array` has checked alignment and size with the same cast.
            Array::Mapped(m) => bytemuck::cast_slice(&m.map[m.start..m.start + m.bytes]),
        }
    }
}

fn width<T: NpyElement>() -> usize {
    // Pairs are rows of a two-dimensional array of the same element type.
    let item: usize = T::DESCR[2..].parse().unwrap_or(1);
    size_of::<T>() / item
}

/// Writes `values` to `path` atomically.
pub fn write_array<T: NpyElement>(path: &Path, values: &[T]) -> Result<()> {
    let shape = match width::<T>() {
        1 => format!("({},)", values.len()),
        w => format!("({}, {w})", values.len()),
    };
    let mut header = format!("{{'descr': '{}', 'fortran_order': False, 'shape': {shape}, }}", T::DESCR);
    let fill = (64 - (10 + header.len() + 1) % 64) % 64;
    header.extend(std::iter::repeat_n(' ', fill));
    header.push('\n');
    let mut file = AtomicFile::create(path)?;
    file.put(b"\x93NUMPY\x01\x00")?;
    file.put(&(header.len() as u16).to_le_bytes())?;
    file.put(header.as_bytes())?;
    file.put(bytemuck::cast_slice(values))?;
    file.commit()
}

/// Maps a `.npy` file of element type `T`.
///
/// # Errors
/// Another version, type, order or dimension, and a file that is shorter or longer than its header says.
pub fn map_array<T: NpyElement>(path: &Path) -> Result<Array<T>> {
    let bad = |rule, expected: String, found: String| DataError::Invalid {
        path: path.to_path_buf(),
        rule,
        entry: None,
        expected,
        found,
        hint: "remove the file: it is built again",
    };
    let file = File::open(path).map_err(|e| DataError::io("open", path, e))?;
    let size = file.metadata().map_err(|e| DataError::io("read the size of", path, e))?.len();
    if size < 10 {
        return Err(bad("a .npy file has a header", "10 bytes or more".into(), format!("{size} bytes")));
    }
    // SAFETY: read-only mapping of plain bytes; cache files are only ever replaced by rename, never changed in place.
    let map = unsafe { Mmap::map(&file) }.map_err(|e| DataError::io("map", path, e))?;
    if &map[..8] != b"\x93NUMPY\x01\x00" {
        return Err(bad("a .npy file of version 1", "\\x93NUMPY 1 0".into(), format!("{:02x?}", &map[..8])));
    }
    let start = 10 + usize::from(u16::from_le_bytes([map[8], map[9]]));
    let header = map.get(10..start).and_then(|h| std::str::from_utf8(h).ok()).unwrap_or_default();
    let field = |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start()).unwrap_or_default();
    let descr = field("'descr':").split('\'').nth(1).unwrap_or_default();
    if descr != T::DESCR || !field("'fortran_order':").starts_with("False") {
        return Err(bad("element type and order", format!("{} in C order", T::DESCR), header.trim_end().to_string()));
    }
    let shape: Option<Vec<usize>> =
        field("'shape':").strip_prefix('(').and_then(|s| s.split_once(')')).and_then(|(inside, _)| {
            inside.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().ok()).collect()
        });
    let rows = match (width::<T>(), shape.as_deref()) {
        (1, Some([n])) => *n,
        (w, Some([n, columns])) if w > 1 && *columns == w => *n,
        (w, _) => {
            return Err(bad("shape", format!("rows of {w}"), header.trim_end().to_string()));
        }
    };
    let bytes = rows.checked_mul(size_of::<T>());
    if bytes.and_then(|b| b.checked_add(start)) != Some(map.len()) {
        return Err(bad(
            "the data fills the file",
            format!("{rows} rows after {start} bytes"),
            format!("{size} bytes"),
        ));
    }
    let bytes = bytes.unwrap_or(0);
    if bytemuck::try_cast_slice::<u8, T>(&map[start..start + bytes]).is_err() {
        return Err(bad("the data is aligned", "a start at a multiple of 64".into(), start.to_string()));
    }
    Ok(Array::Mapped(MappedArray { map, start, bytes, element: PhantomData }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("lightning-npy-{}-{name}.npy", std::process::id()))
    }

    #[test]
    fn arrays_round_trip_and_damage_is_refused() {
        let path = scratch("pairs");
        let rows: Vec<[i32; 2]> = (0..37).map(|i| [i, -i]).collect();
        write_array(&path, &rows).unwrap();
        assert_eq!(&map_array::<[i32; 2]>(&path).unwrap()[..], &rows[..]);
        assert!(map_array::<[i64; 2]>(&path).is_err());
        assert!(map_array::<i32>(&path).is_err());
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() % 64, (37 * 8) % 64);
        for cut in [0, 5, 9, 40, 63, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(map_array::<[i32; 2]>(&path).is_err(), "cut at {cut}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn empty_arrays_round_trip() {
        let path = scratch("empty");
        write_array::<u32>(&path, &[]).unwrap();
        assert!(map_array::<u32>(&path).unwrap().is_empty());
        std::fs::remove_file(&path).unwrap();
    }
}
