//! Reading tensors of a checkpoint, whatever layout wrote it: whole, as a stream, or the rectangles that a rank wants.

use super::CheckpointError;
use super::format::{FORMAT, Index, TensorEntry, VERSION};
use super::region::{Rect, copy_shared, part_of};
use crate::hf::header::{self, HeaderEntry};
use safetensors::Dtype;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::Hasher;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// Bytes that are read at once.
const CHUNK: usize = 4 << 20;

struct Shard {
    path: PathBuf,
    file: File,
    entries: HashMap<String, HeaderEntry>,
}

/// A checkpoint folder of ours whose index and headers agree. No tensor data was read.
pub struct Checkpoint {
    /// The folder (`iter_NNNNNNN`).
    pub folder: PathBuf,
    /// `index.json`.
    pub index: Index,
    shards: BTreeMap<String, Shard>,
}

/// The element type that a name in an index means.
pub fn parse_dtype(name: &str) -> Option<Dtype> {
    serde_json::from_value(serde_json::Value::String(name.into())).ok()
}

impl Checkpoint {
    /// Opens the tensors of some sections (all when empty): weights can be loaded without the optimizer's files.
    ///
    /// # Errors
    /// Missing files, another format, an index that does not cover its tensors or that the files contradict.
    pub fn open(folder: &Path, sections: &[&str]) -> Result<Self, CheckpointError> {
        let path = folder.join("index.json");
        if !path.exists() {
            return Err(CheckpointError::NotACheckpoint {
                path: folder.to_path_buf(),
                missing: "index.json is missing".into(),
            });
        }
        let mut index: Index = super::load::read_json(&path)?;
        if index.format != FORMAT || index.version > VERSION {
            let problem = format!(
                "format {} version {}, this program reads {FORMAT} up to version {VERSION}; use a newer program",
                index.format, index.version
            );
            return Err(CheckpointError::damaged(&path, problem));
        }
        if !sections.is_empty() {
            index.tensors.retain(|name, _| name.split_once('/').is_some_and(|(s, _)| sections.contains(&s)));
        }
        let mut checkpoint = Self { folder: folder.to_path_buf(), index, shards: BTreeMap::new() };
        checkpoint.open_shards(&path)?;
        for (name, entry) in &checkpoint.index.tensors {
            checkpoint.check(name, entry).map_err(|problem| CheckpointError::damaged(&path, problem))?;
        }
        Ok(checkpoint)
    }

    fn open_shards(&mut self, index_path: &Path) -> Result<(), CheckpointError> {
        for piece in self.index.tensors.values().flat_map(|t| &t.pieces) {
            if self.shards.contains_key(&piece.file) {
                continue;
            }
            if piece.file.contains('/') || piece.file == ".." {
                return Err(CheckpointError::damaged(index_path, format!("{:?} is no plain file name", piece.file)));
            }
            let path = self.folder.join(&piece.file);
            File::open(&path).map_err(|e| CheckpointError::io("open", &path, e))?;
            let (file, header) =
                header::open(&path).map_err(|e| CheckpointError::damaged(&path, e.problem.to_string()))?;
            let entries = header.entries.into_iter().map(|e| (e.name.clone(), e)).collect();
            self.shards.insert(piece.file.clone(), Shard { path, file, entries });
        }
        Ok(())
    }

    /// Compares an entry of the index with the headers, and its pieces with its shape.
    fn check(&self, name: &str, entry: &TensorEntry) -> Result<(), String> {
        let Some(dtype) = parse_dtype(&entry.dtype) else {
            return Err(format!("`{name}` has the unknown type {:?}", entry.dtype));
        };
        let Some(total) = header::byte_len(dtype, &entry.shape).map(|_| entry.shape.iter().product::<usize>()) else {
            return Err(format!("`{name}` has the impossible shape {:?}", entry.shape));
        };
        let mut rects: Vec<Rect> = Vec::new();
        let mut covered = 0usize;
        for piece in &entry.pieces {
            let region = piece.region();
            if !region.fits(&entry.shape) {
                return Err(format!("a piece of `{name}` in {} leaves its shape {:?}", piece.file, entry.shape));
            }
            covered = covered.saturating_add(region.len());
            let shape = if piece.flat { vec![piece.len] } else { piece.extent.clone() };
            let Some(found) = self.shards[&piece.file].entries.get(&piece.key) else {
                return Err(format!("says that {} holds `{}`, but it does not", piece.file, piece.key));
            };
            if found.dtype != dtype || found.shape != shape {
                return Err(format!(
                    "`{}` in {} is {} {:?}, the index says {dtype} {shape:?}",
                    piece.key, piece.file, found.dtype, found.shape
                ));
            }
            rects.extend(region.rects(&entry.shape));
        }
        if covered != total {
            return Err(format!("the pieces of `{name}` hold {covered} of its {total} elements"));
        }
        // Equal volume and no overlap: the pieces cover the tensor.
        for (i, a) in rects.iter().enumerate() {
            if let Some(b) = rects[..i].iter().find(|b| a.intersect(b).is_some()) {
                return Err(format!("pieces {a} and {b} of `{name}` overlap"));
            }
        }
        Ok(())
    }

    /// The entry of `SECTION/NAME`.
    pub fn entry(&self, name: &str) -> Option<&TensorEntry> {
        self.index.tensors.get(name)
    }

    /// Names and entries of a section, the section's name removed.
    pub fn section<'c>(&'c self, section: &'c str) -> impl Iterator<Item = (&'c str, &'c TensorEntry)> + 'c {
        let of = move |name: &'c String| name.strip_prefix(section)?.strip_prefix('/');
        self.index.tensors.iter().filter_map(move |(name, entry)| Some((of(name)?, entry)))
    }

    /// Reads rectangles of a tensor, one after the other, into `out`, and verifies the checksum of every piece that was
    /// needed. Elements beyond the tensor's own shape (rows that a layout pads) become zero.
    ///
    /// # Errors
    /// Unreadable files, a wrong checksum.
    pub fn read(&self, name: &str, wanted: &[Rect], out: &mut [u8]) -> Result<(), CheckpointError> {
        let entry = &self.index.tensors[name];
        let size = parse_dtype(&entry.dtype).expect("checked when opened").bitsize() / 8;
        let whole = Rect::whole(&entry.shape);
        let mut targets = Vec::new();
        let (mut start, mut inside) = (0, 0);
        for rect in wanted {
            targets.push((rect, start));
            inside += rect.intersect(&whole).map_or(0, |r| r.len());
            start += rect.len() * size;
        }
        assert_eq!(start, out.len(), "the buffer of `{name}` has another size than its rectangles");
        if inside * size < out.len() {
            out.fill(0);
        }
        let mut copied = 0;
        let mut buffer = Vec::new();
        for piece in &entry.pieces {
            let rects = piece.region().rects(&entry.shape);
            if !rects.iter().any(|r| wanted.iter().any(|w| r.intersect(w).is_some())) {
                continue;
            }
            let shard = &self.shards[&piece.file];
            let mut at = shard.entries[&piece.key].start;
            let mut hasher = XxHash3_64::new();
            for rect in &rects {
                let mut low = 0;
                while low < rect.len() {
                    let high = rect.len().min(low + CHUNK / size);
                    buffer.resize((high - low) * size, 0);
                    shard
                        .file
                        .read_exact_at(&mut buffer, at)
                        .map_err(|e| CheckpointError::io("read", &shard.path, e))?;
                    hasher.write(&buffer);
                    at += buffer.len() as u64;
                    let mut taken = 0;
                    for part in part_of(rect, low, high) {
                        let bytes = &buffer[taken * size..(taken + part.len()) * size];
                        taken += part.len();
                        for (target, start) in &targets {
                            let end = start + target.len() * size;
                            copied += copy_shared(&part, bytes, target, &mut out[*start..end], size);
                        }
                    }
                    low = high;
                }
            }
            compare_checksum(&shard.path, name, &piece.xxh3, hasher.finish())?;
        }
        assert_eq!(copied, inside, "pieces cover a checked tensor");
        Ok(())
    }

    /// The whole tensor as a stream of its bytes.
    pub fn stream(&self, name: &str) -> PieceStream<'_> {
        let entry = &self.index.tensors[name];
        let cursor = |piece: &super::format::Piece| {
            let shard = &self.shards[&piece.file];
            let mut base = 0;
            let rects = piece.region().rects(&entry.shape).into_iter();
            let rects = rects
                .map(|rect| {
                    let first = base;
                    base += rect.len();
                    (rect, first)
                })
                .collect();
            Cursor {
                shard,
                start: shard.entries[&piece.key].start,
                rects,
                hasher: XxHash3_64::new(),
                expected: piece.xxh3.clone(),
            }
        };
        PieceStream {
            name: name.to_string(),
            shape: entry.shape.clone(),
            size: parse_dtype(&entry.dtype).expect("checked when opened").bitsize() / 8,
            position: 0,
            cursors: entry.pieces.iter().map(cursor).collect(),
            scratch: Vec::new(),
        }
    }
}

fn compare_checksum(path: &Path, name: &str, expected: &str, found: u64) -> Result<(), CheckpointError> {
    let found = format!("{found:016x}");
    if found == expected {
        return Ok(());
    }
    let problem = format!("checksum of `{name}` is {found}, the index says {expected}");
    Err(CheckpointError::damaged(path, problem))
}

struct Cursor<'c> {
    shard: &'c Shard,
    /// First byte of the piece in its file.
    start: u64,
    /// Rectangles of the piece with the number of elements before each.
    rects: Vec<(Rect, usize)>,
    hasher: XxHash3_64,
    expected: String,
}

/// A tensor's bytes from the first element on, gathered from its pieces. Since pieces keep the order of the tensor's
/// elements, each is read from front to back and its checksum is known at the end.
pub struct PieceStream<'c> {
    name: String,
    shape: Vec<usize>,
    size: usize,
    position: usize,
    cursors: Vec<Cursor<'c>>,
    scratch: Vec<u8>,
}

impl PieceStream<'_> {
    /// The next elements; `out` holds whole ones.
    ///
    /// # Errors
    /// Unreadable files; a wrong checksum when the tensor ends.
    pub fn read(&mut self, out: &mut [u8]) -> Result<(), CheckpointError> {
        let size = self.size;
        let (low, high) = (self.position, self.position + out.len() / size);
        for cursor in &mut self.cursors {
            for (rect, base) in &cursor.rects {
                let (from, to) = (rect.count_before(&self.shape, low), rect.count_before(&self.shape, high));
                if from == to {
                    continue;
                }
                let at = cursor.start + ((base + from) * size) as u64;
                let failed = |e| CheckpointError::io("read", &cursor.shard.path, e);
                if to - from == high - low {
                    cursor.shard.file.read_exact_at(out, at).map_err(failed)?;
                    cursor.hasher.write(out);
                    continue;
                }
                self.scratch.resize((to - from) * size, 0);
                cursor.shard.file.read_exact_at(&mut self.scratch, at).map_err(failed)?;
                cursor.hasher.write(&self.scratch);
                rect.flat_runs(&self.shape, from, to, |local, flat, n| {
                    let source = &self.scratch[(local - from) * size..(local - from + n) * size];
                    out[(flat - low) * size..(flat - low + n) * size].copy_from_slice(source);
                });
            }
        }
        self.position = high;
        if high == self.shape.iter().product::<usize>() {
            for cursor in &self.cursors {
                let found = cursor.hasher.finish();
                compare_checksum(&cursor.shard.path, &self.name, &cursor.expected, found)?;
            }
        }
        Ok(())
    }
}
