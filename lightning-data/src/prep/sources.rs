//! From a dataset's path to its files.

use std::path::{Path, PathBuf};

use super::plan::InputFile;
use crate::error::{DataError, Result};

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// One JSON object per line.
    JsonLines(Compression),
    /// A Parquet file.
    Parquet,
    /// One document: the whole file.
    PlainText,
}

/// How the bytes of a file of lines are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, of any number of members.
    Gzip,
    /// Zstandard, of any number of frames.
    Zstd,
}

impl FileKind {
    /// By the name's ending; `None` for files that hold no data (README.md, .gitattributes, ...).
    pub fn of(path: &Path) -> Option<FileKind> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let ends = |suffix: &str| name.ends_with(suffix);
        match () {
            () if ends(".jsonl") || ends(".ndjson") => Some(FileKind::JsonLines(Compression::None)),
            () if ends(".jsonl.gz") || ends(".json.gz") => Some(FileKind::JsonLines(Compression::Gzip)),
            () if ends(".jsonl.zst") || ends(".json.zst") || ends(".jsonl.zstd") => {
                Some(FileKind::JsonLines(Compression::Zstd))
            }
            () if ends(".parquet") => Some(FileKind::Parquet),
            () if ends(".txt") => Some(FileKind::PlainText),
            () => None,
        }
    }
}

/// Files of a dataset, sorted by path. A named file may have any known ending; of a directory all known files are taken.
///
/// # Errors
/// Nothing there; a Hugging Face dataset that is not in the local cache (the error says how to fetch it).
pub fn find_files(path: &str, subset: Option<&str>, split: Option<&str>) -> Result<Vec<InputFile>> {
    let root = match path.strip_prefix("hf://") {
        Some(repository) => hub_snapshot(repository)?,
        None => PathBuf::from(path),
    };
    let meta = std::fs::metadata(&root).map_err(|e| DataError::io("open", &root, e))?;
    let mut files = Vec::new();
    if meta.is_dir() {
        let start = match subset {
            // The usual places of a subset in a repository.
            Some(subset) => [root.join(subset), root.join("data").join(subset)]
                .into_iter()
                .find(|p| p.is_dir())
                .ok_or_else(|| missing(&root, format!("a directory {subset:?} of the subset")))?,
            None => root.clone(),
        };
        walk(&start, &mut files)?;
        if let Some(split) = split {
            // Files named by split ("train-00000-of-00010.parquet", "train/...") are filtered; others hold everything.
            let of_split = |p: &Path| {
                let inside = p.strip_prefix(&start).unwrap_or(p);
                let by_name =
                    |s: &str| s == split || s.strip_prefix(split).is_some_and(|r| r.starts_with(['-', '.', '_']));
                inside.components().any(|c| c.as_os_str().to_str().is_some_and(by_name))
            };
            if files.iter().any(|f| of_split(&f.path)) {
                files.retain(|f| of_split(&f.path));
            }
        }
    } else if FileKind::of(&root).is_some() {
        files.push(InputFile { path: root.clone(), size: meta.len() });
    }
    if files.is_empty() {
        return Err(missing(&root, "files ending in .jsonl, .jsonl.gz, .jsonl.zst, .parquet or .txt".into()));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn missing(root: &Path, expected: String) -> DataError {
    DataError::Invalid {
        path: root.to_path_buf(),
        rule: "a dataset has files to read",
        entry: None,
        expected,
        found: "none".into(),
        hint: "check the path, the subset and the names of the files",
    }
}

fn walk(directory: &Path, files: &mut Vec<InputFile>) -> Result<()> {
    let failed = |e| DataError::io("list", directory, e);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with('.')) {
            continue;
        }
        // Follows links: the Hugging Face cache is made of them.
        let meta = std::fs::metadata(&path).map_err(|e| DataError::io("open", &path, e))?;
        if meta.is_dir() {
            walk(&path, files)?;
        } else if FileKind::of(&path).is_some() {
            files.push(InputFile { path, size: meta.len() });
        }
    }
    Ok(())
}

/// The local snapshot of a Hugging Face dataset.
fn hub_snapshot(repository: &str) -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let hub = variable("HF_HUB_CACHE")
        .or_else(|| variable("HF_HOME").map(|h| h.join("hub")))
        .or_else(|| variable("HOME").map(|h| h.join(".cache/huggingface/hub")))
        .unwrap_or_else(|| PathBuf::from("hub"));
    let folder = hub.join(format!("datasets--{}", repository.trim_matches('/').replace('/', "--")));
    let revision = std::fs::read_to_string(folder.join("refs/main")).ok().map(|r| r.trim().to_string());
    let snapshot = revision.map(|r| folder.join("snapshots").join(r)).filter(|p| p.is_dir());
    snapshot.ok_or_else(|| DataError::Setting {
        name: "path",
        expected: format!("hf://{repository} in the local cache, {}", folder.display()),
        found: "nothing there; datasets are not downloaded".into(),
        hint: "fetch it first: `hf download --repo-type dataset ORG/REPO`, or give a local directory",
    })
}
