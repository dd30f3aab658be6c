//! Columns of Parquet files as plain vectors, read row group by row group.
//!
//! The library below is asked for one column chunk at a time. Files come from elsewhere, and a damaged one can make the
//! library panic: every call goes through [`guarded`], which turns that into an error that names the file.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::error::{DataError, Result};
use crate::parquet_pages::check_chunk;
use crate::prep::rows::{Row, bad_row};
use crate::prep::{BadRows, TextField};

/// An open Parquet file.
pub(crate) struct ParquetFile {
    path: PathBuf,
    bytes: Mmap,
    reader: SerializedFileReader<File>,
}

/// Lists of one column: values end to end.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub values: Vec<i64>,
    /// Where each list starts; one entry more than lists.
    pub starts: Vec<usize>,
}

fn invalid(path: &Path, found: String) -> DataError {
    DataError::Invalid {
        path: path.to_path_buf(),
        rule: "the file is a whole Parquet file",
        entry: None,
        expected: "readable pages".into(),
        found,
        hint: "copy or prepare the file again",
    }
}

/// Runs `work`; errors and panics of the library become errors of this crate.
pub(crate) fn guarded<T>(path: &Path, work: impl FnOnce() -> std::result::Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(invalid(path, e.to_string())),
        Err(_) => Err(invalid(path, "bytes that the Parquet library gives up on".into())),
    }
}

impl ParquetFile {
    pub(crate) fn open(path: &Path) -> Result<ParquetFile> {
        let file = File::open(path).map_err(|e| DataError::io("open", path, e))?;
        let size = file.metadata().map_err(|e| DataError::io("read the size of", path, e))?.len();
        // SAFETY: read-only mapping of plain bytes that are only ever read as bytes. A file that shrinks meanwhile ends the
        // process, as with token files; inputs are not changed while they are read.
        let bytes = unsafe { Mmap::map(&file) }.map_err(|e| DataError::io("map", path, e))?;
        let reader = guarded(path, || SerializedFileReader::new(file))?;
        // A column chunk that claims to reach past the file would be allocated before it is read.
        for group in reader.metadata().row_groups() {
            for column in group.columns() {
                let (start, length) = guarded(path, || Ok(column.byte_range()))?;
                if start.checked_add(length).is_none_or(|end| end > size) || group.num_rows() < 0 {
                    return Err(invalid(path, format!("a column of {length} bytes at {start} in {size} bytes")));
                }
            }
        }
        Ok(ParquetFile { path: path.to_path_buf(), bytes, reader })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn row_groups(&self) -> usize {
        self.reader.metadata().num_row_groups()
    }

    pub(crate) fn rows_of_group(&self, group: usize) -> u64 {
        self.reader.metadata().row_group(group).num_rows().max(0) as u64
    }

    /// Leaf column whose path starts with `name`.
    fn leaf(&self, name: &str) -> Result<usize> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let found =
            (0..schema.num_columns()).find(|&i| schema.column(i).path().parts().first().is_some_and(|p| p == name));
        found.ok_or_else(|| {
            let names: Vec<&str> = schema.root_schema().get_fields().iter().map(|f| f.name()).collect();
            DataError::Invalid {
                path: self.path.clone(),
                rule: "the column exists",
                entry: None,
                expected: format!("a column {name:?}"),
                found: format!("columns {names:?}"),
                hint: "name the column in the settings, or check the file",
            }
        })
    }

    /// Physical type of a column.
    pub(crate) fn physical_type(&self, name: &str) -> Result<PhysicalType> {
        let leaf = self.leaf(name)?;
        Ok(self.reader.metadata().file_metadata().schema_descr().column(leaf).physical_type())
    }

    /// Refuses a column chunk whose pages ask for more than they can hold, before the library allocates it.
    fn check_pages(&self, group: usize, leaf: usize) -> Result<()> {
        let column = self.reader.metadata().row_group(group).column(leaf);
        let (start, length) = guarded(&self.path, || Ok(column.byte_range()))?;
        let chunk = self.bytes.get(start as usize..(start + length) as usize).unwrap_or_default();
        let unpacked = u64::try_from(column.uncompressed_size()).unwrap_or(0);
        check_chunk(chunk, column.compression(), unpacked).map_err(|refusal| invalid(&self.path, refusal))
    }

    /// A column of lists of integers in one row group.
    pub(crate) fn lists(&self, group: usize, name: &str) -> Result<Lists> {
        let leaf = self.leaf(name)?;
        let descriptor = self.reader.metadata().file_metadata().schema_descr().column(leaf);
        if descriptor.max_rep_level() != 1 {
            return Err(invalid(&self.path, format!("column {name:?} that is not a list")));
        }
        let expected = self.rows_of_group(group);
        self.check_pages(group, leaf)?;
        let levels = Levels {
            full: descriptor.max_def_level(),
            present: descriptor.max_def_level() - i16::from(descriptor.self_type().is_optional()),
        };
        guarded(&self.path, || {
            let row_group = self.reader.get_row_group(group)?;
            match row_group.get_column_reader(leaf)? {
                ColumnReader::Int32ColumnReader(mut r) => read_lists(&mut r, &levels, expected),
                ColumnReader::Int64ColumnReader(mut r) => read_lists(&mut r, &levels, expected),
                _ => Err(ParquetError::General(format!("column {name:?} holds no integers"))),
            }
        })
    }
}

/// Reads the rows of a file in order: one text column, or (`None`) whole rows as JSON. `mine` chooses rows by their number.
pub(crate) fn for_each_row(
    path: &Path,
    column: Option<&str>,
    bad: BadRows,
    mine: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut(Row) -> Result<bool>,
) -> Result<()> {
    let file = ParquetFile::open(path)?;
    let mut first = 0;
    for group in 0..file.row_groups() {
        let go_on = match column {
            Some(name) => file.texts(group, name, first, bad, mine, visit)?,
            None => file.objects(group, first, bad, mine, visit)?,
        };
        if !go_on {
            return Ok(());
        }
        first += file.rows_of_group(group);
    }
    Ok(())
}

impl ParquetFile {
    /// A column of texts, a few thousand rows at a time. False when `visit` wants no more.
    fn texts(
        &self,
        group: usize,
        name: &str,
        first: u64,
        bad: BadRows,
        mine: &dyn Fn(u64) -> bool,
        visit: &mut dyn FnMut(Row) -> Result<bool>,
    ) -> Result<bool> {
        let leaf = self.leaf(name)?;
        let descriptor = self.reader.metadata().file_metadata().schema_descr().column(leaf);
        let (full, expected) = (descriptor.max_def_level(), self.rows_of_group(group));
        if descriptor.max_rep_level() != 0 || descriptor.path().parts().len() != 1 {
            return Err(invalid(&self.path, format!("column {name:?} that is no plain column")));
        }
        self.check_pages(group, leaf)?;
        let mut reader = guarded(&self.path, || match self.reader.get_row_group(group)?.get_column_reader(leaf)? {
            ColumnReader::ByteArrayColumnReader(reader) => Ok(reader),
            _ => Err(ParquetError::General(format!("column {name:?} holds no text"))),
        })?;
        let (mut definitions, mut values) = (Vec::new(), Vec::<ByteArray>::new());
        let mut row = 0u64;
        while row < expected {
            definitions.clear();
            values.clear();
            let (records, _, _) =
                guarded(&self.path, || reader.read_records(2048, Some(&mut definitions), None, &mut values))?;
            if records == 0 || row + records as u64 > expected {
                return Err(invalid(&self.path, format!("another number of rows than {expected} in column {name:?}")));
            }
            let mut values = values.iter();
            for record in 0..records {
                let value = if full == 0 || definitions.get(record) == Some(&full) { values.next() } else { None };
                let number = first + row + record as u64;
                if !mine(number) {
                    continue;
                }
                let item = match value.map(|v| std::str::from_utf8(v.data())) {
                    None => Row::Text(TextField::Missing),
                    Some(Ok(text)) => Row::Text(TextField::Text(text.to_string())),
                    Some(Err(_)) if bad == BadRows::Skip => Row::Bad,
                    Some(Err(_)) => {
                        let found = format!("other bytes in column {name:?}");
                        return Err(bad_row(&self.path, number + 1, "UTF-8".into(), found));
                    }
                };
                if !visit(item)? {
                    return Ok(false);
                }
            }
            row += records as u64;
        }
        Ok(true)
    }

    /// Whole rows as JSON. False when `visit` wants no more.
    fn objects(
        &self,
        group: usize,
        first: u64,
        bad: BadRows,
        mine: &dyn Fn(u64) -> bool,
        visit: &mut dyn FnMut(Row) -> Result<bool>,
    ) -> Result<bool> {
        for leaf in 0..self.reader.metadata().row_group(group).num_columns() {
            self.check_pages(group, leaf)?;
        }
        let row_group = guarded(&self.path, || self.reader.get_row_group(group))?;
        let mut rows = guarded(&self.path, || row_group.get_row_iter(None))?;
        let mut number = first;
        while let Some(row) = guarded(&self.path, || rows.next().transpose())? {
            if mine(number) {
                let fields = row.get_column_iter().map(|(name, field)| Some((name.clone(), to_json(field)?)));
                let item = match fields.collect::<Option<serde_json::Map<_, _>>>() {
                    Some(object) => Row::Json(Value::Object(object)),
                    None if bad == BadRows::Skip => Row::Bad,
                    None => {
                        let found = "a column of bytes or decimals".into();
                        return Err(bad_row(&self.path, number + 1, "texts, numbers, lists and structs".into(), found));
                    }
                };
                if !visit(item)? {
                    return Ok(false);
                }
            }
            number += 1;
        }
        Ok(true)
    }
}

/// A field as JSON; `None` for kinds that chats do not have.
fn to_json(field: &Field) -> Option<Value> {
    Some(match field {
        Field::Null => Value::Null,
        Field::Bool(v) => (*v).into(),
        Field::Byte(v) => (*v).into(),
        Field::Short(v) => (*v).into(),
        Field::Int(v) | Field::Date(v) | Field::TimeMillis(v) => (*v).into(),
        Field::Long(v) | Field::TimeMicros(v) | Field::TimestampMillis(v) | Field::TimestampMicros(v) => (*v).into(),
        Field::UByte(v) => (*v).into(),
        Field::UShort(v) => (*v).into(),
        Field::UInt(v) => (*v).into(),
        Field::ULong(v) => (*v).into(),
        Field::Float(v) => Value::from(*v),
        Field::Double(v) => Value::from(*v),
        Field::Str(v) => v.as_str().into(),
        Field::Group(row) => {
            Value::Object(row.get_column_iter().map(|(n, f)| Some((n.clone(), to_json(f)?))).collect::<Option<_>>()?)
        }
        Field::ListInternal(list) => Value::Array(list.elements().iter().map(to_json).collect::<Option<_>>()?),
        Field::MapInternal(map) => {
            let entry = |(k, v): &(Field, Field)| match k {
                Field::Str(k) => Some((k.clone(), to_json(v)?)),
                _ => None,
            };
            Value::Object(map.entries().iter().map(entry).collect::<Option<_>>()?)
        }
        Field::Bytes(_) | Field::Decimal(_) | Field::Float16(_) => return None,
    })
}

/// Definition levels of a list column: of a value, and of a place in a list that may be null.
struct Levels {
    full: i16,
    present: i16,
}

fn read_lists<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    levels: &Levels,
    expected: u64,
) -> std::result::Result<Lists, ParquetError>
where
    T::T: Copy + Into<i64>,
{
    let (mut definitions, mut repetitions, mut values) = (Vec::new(), Vec::new(), Vec::<T::T>::new());
    let mut rows = 0u64;
    loop {
        let (records, _, _) = reader.read_records(512, Some(&mut definitions), Some(&mut repetitions), &mut values)?;
        rows += records as u64;
        if records == 0 || rows > expected {
            break;
        }
    }
    if rows != expected || definitions.len() != repetitions.len() {
        return Err(ParquetError::General(format!("{rows} rows, expected {expected}")));
    }
    let mut lists = Lists { values: values.iter().map(|&v| v.into()).collect(), starts: Vec::new() };
    let mut at = 0;
    for (&definition, &repetition) in definitions.iter().zip(&repetitions) {
        if repetition == 0 {
            lists.starts.push(at);
        }
        if definition == levels.full {
            at += 1;
        } else if definition >= levels.present {
            return Err(ParquetError::General("a null inside a list".into()));
        }
    }
    lists.starts.push(at);
    if at != lists.values.len() || lists.starts.len() as u64 != expected + 1 {
        return Err(ParquetError::General(format!("{at} places for {} values", lists.values.len())));
    }
    Ok(lists)
}
