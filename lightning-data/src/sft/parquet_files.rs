//! Packs in Parquet files, in both conventions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use parquet::basic::{Compression, Type as PhysicalType};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::pack::{Convention, OfflinePacks, Pack, PackStore, PreparedPacks};
use crate::atomic::AtomicFile;
use crate::error::{DataError, Result};
use crate::parquet_columns::{ParquetFile, guarded};

/// Rows of a row group that the offline packing writes.
const OFFLINE_GROUP: usize = 500;

impl Convention {
    fn name(self) -> &'static str {
        match self {
            Convention::Offline => "offline packing (input_ids of int64)",
            Convention::Prepared => "data preparation (input_ids of int32)",
        }
    }

    fn token_type(self) -> PhysicalType {
        match self {
            Convention::Offline => PhysicalType::INT64,
            Convention::Prepared => PhysicalType::INT32,
        }
    }
}

fn open(path: &Path, convention: Convention) -> Result<ParquetFile> {
    let file = ParquetFile::open(path)?;
    let found = file.physical_type("input_ids")?;
    if found != convention.token_type() {
        return Err(DataError::Invalid {
            path: path.to_path_buf(),
            rule: "packs are read by the convention that they were written in",
            entry: None,
            expected: convention.name().into(),
            found: format!("input_ids of {found}"),
            hint: "read it as the other kind of pack: offline and prepared packs count their room differently",
        });
    }
    Ok(file)
}

fn group(file: &ParquetFile, group: usize, first_row: u64) -> Result<Vec<Pack>> {
    let ids = file.lists(group, "input_ids")?;
    let mask = file.lists(group, "loss_mask")?;
    let starts = file.lists(group, "seq_start_id")?;
    let rows = ids.starts.len() - 1;
    (0..rows)
        .map(|row| {
            let bad = |what: &str| DataError::Invalid {
                path: file.path().to_path_buf(),
                rule: "tokens, masks and offsets fit their types",
                entry: Some(first_row + row as u64),
                expected: "tokens below 2^31, masks of 0 or 1".into(),
                found: what.to_string(),
                hint: "pack the file again",
            };
            let part = |l: &crate::parquet_columns::Lists| l.starts[row]..l.starts[row + 1];
            let pack = Pack {
                input_ids: ids.values[part(&ids)]
                    .iter()
                    .map(|&v| i32::try_from(v).map_err(|_| bad(&format!("token {v}"))))
                    .collect::<Result<_>>()?,
                loss_mask: mask.values[part(&mask)]
                    .iter()
                    .map(|&v| u8::try_from(v).map_err(|_| bad(&format!("mask {v}"))))
                    .collect::<Result<_>>()?,
                seq_start_id: starts.values[part(&starts)]
                    .iter()
                    .map(|&v| u32::try_from(v).map_err(|_| bad(&format!("offset {v}"))))
                    .collect::<Result<_>>()?,
            };
            pack.check(file.path(), first_row + row as u64)?;
            Ok(pack)
        })
        .collect()
}

fn read(path: &Path, convention: Convention) -> Result<Vec<Pack>> {
    let file = open(path, convention)?;
    let mut packs = Vec::new();
    for g in 0..file.row_groups() {
        packs.extend(group(&file, g, packs.len() as u64)?);
    }
    Ok(packs)
}

/// Reads a file of the offline packing whole.
///
/// # Errors
/// A damaged file, a file of the other convention, packs that break a rule.
pub fn read_offline(path: &Path) -> Result<OfflinePacks> {
    read(path, Convention::Offline).map(OfflinePacks)
}

/// Reads a file of the data preparation whole.
///
/// # Errors
/// As [`read_offline`].
pub fn read_prepared(path: &Path) -> Result<PreparedPacks> {
    read(path, Convention::Prepared).map(PreparedPacks)
}

fn write_lists<T: DataType, G: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, G>,
    lists: impl Iterator<Item = Vec<T::T>>,
) -> std::result::Result<(), parquet::errors::ParquetError> {
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::<i16>::new(), Vec::<i16>::new());
    for list in lists {
        if list.is_empty() {
            definitions.push(1); // the list is there and has no element
            repetitions.push(0);
        } else {
            definitions.extend(std::iter::repeat_n(3, list.len()));
            repetitions.push(0);
            repetitions.extend(std::iter::repeat_n(1, list.len() - 1));
            values.extend(list);
        }
    }
    let Some(mut column) = group.next_column()? else {
        return Err(parquet::errors::ParquetError::General("a column is missing".into()));
    };
    column.typed::<T>().write_batch(&values, Some(&definitions), Some(&repetitions))?;
    column.close()
}

/// Writes packs row group by row group; the file appears, whole, with [`PackWriter::finish`].
pub struct PackWriter {
    path: PathBuf,
    convention: Convention,
    writer: SerializedFileWriter<AtomicFile>,
}

impl PackWriter {
    /// A file of the offline convention, snappy-compressed.
    pub fn offline(path: &Path) -> Result<PackWriter> {
        PackWriter::create(path, Convention::Offline, Compression::SNAPPY)
    }

    /// A file of the preparation's convention, zstd-compressed.
    pub fn prepared(path: &Path) -> Result<PackWriter> {
        PackWriter::create(path, Convention::Prepared, Compression::ZSTD(Default::default()))
    }

    fn create(path: &Path, convention: Convention, compression: Compression) -> Result<PackWriter> {
        let column = |name: &str, kind: &str, note: &str| {
            format!("optional group {name} (LIST) {{ repeated group list {{ optional {kind} element {note}; }} }}")
        };
        let (ids, note) = match convention {
            Convention::Offline => ("int64", "(INTEGER(8,true))"),
            Convention::Prepared => ("int32", "(INTEGER(8,false))"),
        };
        let columns =
            [column("input_ids", ids, ""), column("loss_mask", "int32", note), column("seq_start_id", ids, "")];
        let message = format!("message schema {{ {} }}", columns.join(" "));
        let file = AtomicFile::create(path)?;
        let writer = guarded(path, || {
            let schema = Arc::new(parse_message_type(&message)?);
            let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
            SerializedFileWriter::new(file, schema, properties)
        })?;
        Ok(PackWriter { path: path.to_path_buf(), convention, writer })
    }

    /// Appends a row group.
    pub fn write_group(&mut self, rows: &[Pack]) -> Result<()> {
        let convention = self.convention;
        guarded(&self.path, || {
            let mut group = self.writer.next_row_group()?;
            let wide = |v: &[i32]| v.iter().map(|&t| i64::from(t)).collect::<Vec<i64>>();
            match convention {
                Convention::Offline => {
                    write_lists::<Int64Type, _>(&mut group, rows.iter().map(|p| wide(&p.input_ids)))?
                }
                Convention::Prepared => {
                    write_lists::<Int32Type, _>(&mut group, rows.iter().map(|p| p.input_ids.clone()))?;
                }
            }
            let masks = rows.iter().map(|p| p.loss_mask.iter().map(|&m| i32::from(m)).collect());
            write_lists::<Int32Type, _>(&mut group, masks)?;
            match convention {
                Convention::Offline => {
                    let starts = rows.iter().map(|p| p.seq_start_id.iter().map(|&s| i64::from(s)).collect());
                    write_lists::<Int64Type, _>(&mut group, starts)?;
                }
                Convention::Prepared => {
                    let starts = rows.iter().map(|p| p.seq_start_id.iter().map(|&s| s as i32).collect());
                    write_lists::<Int32Type, _>(&mut group, starts)?;
                }
            }
            group.close().map(|_| ())
        })
    }

    /// Ends the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        let PackWriter { path, writer, .. } = self;
        guarded(&path, || writer.into_inner())?.commit()
    }
}

/// Writes packs of the offline convention, atomically, in row groups of 500.
pub fn write_offline(path: &Path, packs: &OfflinePacks) -> Result<()> {
    let mut writer = PackWriter::offline(path)?;
    packs.0.chunks(OFFLINE_GROUP).try_for_each(|rows| writer.write_group(rows))?;
    writer.finish()
}

/// Writes packs of the preparation's convention, atomically, in row groups of `rows_per_group`.
pub fn write_prepared(path: &Path, packs: &PreparedPacks, rows_per_group: usize) -> Result<()> {
    let mut writer = PackWriter::prepared(path)?;
    packs.0.chunks(rows_per_group.max(1)).try_for_each(|rows| writer.write_group(rows))?;
    writer.finish()
}

/// Number of a row group over all files, and its packs.
type DecodedGroup = (usize, Vec<Arc<Pack>>);

/// Packs of several files in order, decoded when needed; the row groups used last stay in memory.
pub struct ParquetPacks {
    convention: Convention,
    name: String,
    files: Vec<ParquetFile>,
    /// (file, row group, first row over all files), ascending.
    groups: Vec<(usize, usize, u64)>,
    rows: u64,
    budget: usize,
    recent: Mutex<Vec<DecodedGroup>>,
}

impl ParquetPacks {
    /// Files of the offline packing.
    pub fn offline(paths: &[PathBuf]) -> Result<ParquetPacks> {
        ParquetPacks::open(paths, Convention::Offline)
    }

    /// Files of the data preparation: give them sorted by name, as `splits/train` holds them.
    pub fn prepared(paths: &[PathBuf]) -> Result<ParquetPacks> {
        ParquetPacks::open(paths, Convention::Prepared)
    }

    fn open(paths: &[PathBuf], convention: Convention) -> Result<ParquetPacks> {
        let files = paths.iter().map(|p| open(p, convention)).collect::<Result<Vec<_>>>()?;
        let (mut groups, mut rows) = (Vec::new(), 0);
        for (f, file) in files.iter().enumerate() {
            for g in 0..file.row_groups() {
                groups.push((f, g, rows));
                rows += file.rows_of_group(g);
            }
        }
        let name = paths.first().map_or("no files".into(), |p| {
            if paths.len() == 1 {
                p.display().to_string()
            } else {
                format!("{} and {} more", p.display(), paths.len() - 1)
            }
        });
        Ok(ParquetPacks { convention, name, files, groups, rows, budget: 64 << 20, recent: Mutex::new(Vec::new()) })
    }

    /// Tokens that decoded row groups may hold in memory; at least one group is always kept.
    pub fn with_budget(mut self, tokens: usize) -> ParquetPacks {
        self.budget = tokens;
        self
    }
}

impl PackStore for ParquetPacks {
    fn len(&self) -> u64 {
        self.rows
    }

    fn pack(&self, index: u64) -> Result<Arc<Pack>> {
        if index >= self.rows {
            return Err(DataError::Exhausted { what: self.name.clone(), consumed: index, available: self.rows });
        }
        let at = self.groups.partition_point(|g| g.2 <= index) - 1;
        let (file, row_group, first) = self.groups[at];
        let row = (index - first) as usize;
        let mut recent = self.recent.lock().map_err(|_| DataError::Worker { what: "pack reader" })?;
        if let Some(found) = recent.iter().position(|r| r.0 == at) {
            let entry = recent.remove(found);
            let pack = entry.1[row].clone();
            recent.push(entry);
            return Ok(pack);
        }
        let packs: Vec<Arc<Pack>> = group(&self.files[file], row_group, first)?.into_iter().map(Arc::new).collect();
        let pack = packs[row].clone();
        recent.push((at, packs));
        let tokens = |r: &DecodedGroup| r.1.iter().map(|p| p.input_ids.len()).sum::<usize>();
        let mut held: usize = recent.iter().map(tokens).sum();
        while recent.len() > 1 && held > self.budget {
            held -= tokens(&recent.remove(0));
        }
        Ok(pack)
    }

    fn convention(&self) -> Convention {
        self.convention
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
