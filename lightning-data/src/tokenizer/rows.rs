//! Training on the inputs that the data preparation reads: JSON lines, Parquet, plain text, folders of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::train::{Lines, TrainedTokenizer, TrainingSettings, train_on_texts};
use crate::error::{DataError, Result};
use crate::prep::rows::{Row, Want, for_each_row};
use crate::prep::{BadRows, FileKind, FileShare, InputFile, TextField, find_files};

/// What a training read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsRead {
    /// Rows with text, or lines of plain text.
    pub texts: u64,
    /// Their characters.
    pub characters: u64,
    /// Rows that could not be read and were left out.
    pub bad_rows: u64,
}

/// Lines are handed to the trainer together up to this many bytes.
const BLOCK: usize = 1 << 16;

/// Trains on files and folders. A file that is named itself and has no known ending is plain text. Memory holds the words
/// with their counts, not the texts.
///
/// # Errors
/// Missing files, rows that cannot be read (unless they are skipped), and those of [`train_on_texts`].
pub fn train_on_rows(
    inputs: &[String],
    text_field: &str,
    bad: BadRows,
    settings: &TrainingSettings,
) -> Result<(TrainedTokenizer, RowsRead)> {
    let (sender, receiver) = sync_channel::<Result<String>>(64);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut read = RowsRead::default();
            if let Err(e) = read_inputs(inputs, text_field, bad, &sender, &mut read) {
                // The trainer is gone only when it has an error of its own.
                let _ = sender.send(Err(e));
            }
            read
        });
        let trained = train_on_texts(receiver.into_iter(), settings);
        let read = reader.join().map_err(|_| DataError::Worker { what: "text reader" })?;
        Ok((trained?, read))
    })
}

fn read_inputs(
    inputs: &[String],
    text_field: &str,
    bad: BadRows,
    sender: &SyncSender<Result<String>>,
    read: &mut RowsRead,
) -> Result<()> {
    for input in inputs {
        let named = Path::new(input);
        let files = match named.is_file() && FileKind::of(named).is_none() {
            true => vec![InputFile { path: PathBuf::from(input), size: 0 }],
            false => find_files(input, None, None)?,
        };
        for file in files {
            let more = match FileKind::of(&file.path) {
                None | Some(FileKind::PlainText) => plain_text(&file.path, bad, sender, read)?,
                Some(_) => fields(file, text_field, bad, sender, read)?,
            };
            if !more {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Lines of a file; false when nobody listens any more.
fn plain_text(path: &Path, bad: BadRows, sender: &SyncSender<Result<String>>, read: &mut RowsRead) -> Result<bool> {
    let mut block = String::new();
    for line in Lines::open(path) {
        let line = match line {
            Ok(line) => line,
            Err(DataError::Invalid { .. }) if bad == BadRows::Skip => {
                read.bad_rows += 1;
                continue;
            }
            Err(e) => return Err(e),
        };
        read.texts += 1;
        read.characters += line.chars().count() as u64;
        block += &line;
        if block.len() >= BLOCK && sender.send(Ok(std::mem::take(&mut block))).is_err() {
            return Ok(false);
        }
    }
    Ok(block.is_empty() || sender.send(Ok(block)).is_ok())
}

/// The text fields of a file's rows; false when nobody listens any more.
fn fields(
    file: InputFile,
    text_field: &str,
    bad: BadRows,
    sender: &SyncSender<Result<String>>,
    read: &mut RowsRead,
) -> Result<bool> {
    let mut listening = true;
    let mut visit = |row: Row| {
        match row {
            Row::Text(TextField::Text(text)) => {
                read.texts += 1;
                read.characters += text.chars().count() as u64;
                listening = sender.send(Ok(text)).is_ok();
            }
            Row::Bad => read.bad_rows += 1,
            Row::Text(TextField::Missing) | Row::Json(_) => {}
        }
        Ok(listening)
    };
    for_each_row(&FileShare { file, rows: None }, Want::Text(text_field), bad, &AtomicU64::new(0), &mut visit)?;
    Ok(listening)
}
