//! Plain text as training data: finds documents, trains a tokenizer on them and writes a token file, once per content.
//!
//! Documents come from `dataset.path`, else from the repository around the working directory, else from the texts that
//! are built into the program. Their order is shuffled by a fixed seed, so that the last few, which become validation,
//! are a fair sample.

use super::stop::Stop;
use crate::cli::{Exit, Failure};
use crate::config::run::RunConfig;
use lightning_core::rng::Philox;
use lightning_data::indexed::{IndexedWriter, TokenType};
use lightning_data::tokenizer::{TextTokenizer, TrainingSettings, train_on_texts};
use serde::{Deserialize, Serialize};
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded_documents.rs"));
}

/// Version of the preparation; another one makes other files.
const VERSION: u32 = 1;
/// Larger files of a folder are left out: they are data, not text.
const LARGEST: u64 = 1 << 20;
/// Files of a folder that count as text.
const TEXT: &[&str] = &[
    "c", "cc", "cfg", "cpp", "css", "cu", "cuh", "go", "h", "hpp", "html", "java", "js", "md", "org", "py", "rs",
    "rst", "sh", "tex", "toml", "ts", "txt", "yaml", "yml",
];
/// Folders that hold no documents of a project.
const SKIPPED: &[&str] = &["target", "node_modules", "runs", "golden"];

/// A text and where it comes from.
pub struct Document {
    /// File name relative to the corpus.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A prepared corpus in the cache folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Where the documents came from.
    pub source: String,
    /// Number of documents.
    pub documents: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// Tokens, ends of documents included.
    pub tokens: u64,
    /// Entries of the tokenizer.
    pub vocab_size: u32,
    /// Token that ends a document.
    pub eos: u32,
    /// Hash of texts and settings: the identity of tokenizer and data.
    pub fingerprint: String,
    /// Folder of the files.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Prepared {
    /// Prefix of the token file.
    pub fn prefix(&self) -> PathBuf {
        self.folder.join("tokens")
    }
}

fn invalid(message: String) -> Failure {
    Failure::new(Exit::Invalid, message)
}

/// The documents of a configuration and a name for their source.
///
/// # Errors
/// A path that does not exist or holds no text; text that is not UTF-8.
pub fn documents(path: Option<&str>) -> Result<(String, Vec<Document>), Failure> {
    let (source, documents) = match path {
        Some(path) => (path.to_string(), read_path(Path::new(path))?),
        None => match repository() {
            Some(root) => ("this repository".to_string(), read_path(&root)?),
            None => {
                let texts = embedded::DOCUMENTS.iter();
                let documents = texts.map(|(name, text)| Document { name: name.to_string(), text: text.to_string() });
                ("the documents inside the program".to_string(), documents.collect())
            }
        },
    };
    let mut documents: Vec<Document> = documents.into_iter().filter(|d| !d.text.trim().is_empty()).collect();
    if documents.is_empty() {
        return Err(invalid(format!(
            "{source} holds no text; name a file or a folder with text files (--data PATH), such as .txt, .md or .rs"
        )));
    }
    // A shuffle by fixed keys: validation takes the last documents.
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    let mut rng = Philox::new(0x6c69_6768_746e_696e, 0x636f_7270_7573);
    for i in (1..documents.len()).rev() {
        documents.swap(i, rng.below(i as u64 + 1) as usize);
    }
    Ok((source, documents))
}

/// The clone of this project around the working directory.
fn repository() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|dir| dir.join("lightning-core/src/lib.rs").is_file()).map(Path::to_path_buf)
}

fn read_path(path: &Path) -> Result<Vec<Document>, Failure> {
    let metadata = fs::metadata(path).map_err(|e| invalid(format!("cannot open {}: {e}", path.display())))?;
    let mut files = Vec::new();
    if metadata.is_dir() {
        list(path, &mut files)?;
    } else {
        files.push(path.to_path_buf());
    }
    let mut documents = Vec::new();
    for file in files {
        let bytes = fs::read(&file).map_err(|e| invalid(format!("cannot read {}: {e}", file.display())))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            invalid(format!("{} is not UTF-8 (byte {at}); convert it, or leave it out", file.display()))
        })?;
        let name = file.strip_prefix(path).unwrap_or(&file).to_string_lossy().into_owned();
        if metadata.is_dir() {
            documents.push(Document { name, text });
        } else {
            documents.extend(split_file(&text));
        }
    }
    Ok(documents)
}

/// One file as documents: cut at blank lines into pieces of about 4,000 characters, so that some can be held out.
fn split_file(text: &str) -> Vec<Document> {
    let mut documents: Vec<Document> = Vec::new();
    let mut piece = String::new();
    for paragraph in text.split_inclusive("\n\n") {
        piece.push_str(paragraph);
        if piece.len() >= 4000 {
            documents.push(Document { name: format!("{:08}", documents.len()), text: std::mem::take(&mut piece) });
        }
    }
    if !piece.is_empty() {
        documents.push(Document { name: format!("{:08}", documents.len()), text: piece });
    }
    documents
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let entries = fs::read_dir(folder).map_err(|e| invalid(format!("cannot list {}: {e}", folder.display())))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
            continue;
        };
        // Links are not followed: they can lead out of the folder, or round in it.
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        if metadata.is_dir() {
            if !SKIPPED.contains(&name) {
                list(&path, files)?;
            }
        } else if metadata.is_file() && metadata.len() <= LARGEST {
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
            if TEXT.contains(&extension) {
                files.push(path);
            }
        }
    }
    Ok(())
}

/// The cache folder: `dataset.path_to_cache`, else `LIGHTNING_CACHE`, else the user's cache folder.
pub fn cache_folder(config: &RunConfig) -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    config
        .dataset
        .path_to_cache
        .as_ref()
        .map(PathBuf::from)
        .or_else(|| variable("LIGHTNING_CACHE"))
        .or_else(|| variable("XDG_CACHE_HOME").map(|d| d.join("lightning")))
        .or_else(|| variable("HOME").map(|d| d.join(".cache/lightning")))
        .unwrap_or_else(|| PathBuf::from(".lightning-cache"))
}

/// Tokenizer and token file of a text corpus: from the cache, or made now.
///
/// # Errors
/// No text, text that is not UTF-8, a cache folder that cannot be written.
pub fn prepare(config: &RunConfig, stop: &Stop, say: &mut dyn FnMut(&str)) -> Result<Prepared, Failure> {
    let (source, documents) = documents(config.dataset.path.as_deref())?;
    let vocab = config.dataset.vocab_size.unwrap_or(config.model.vocab_size);
    let mut hash = XxHash3_64::new();
    hash.write(&VERSION.to_le_bytes());
    hash.write(&(vocab as u64).to_le_bytes());
    for document in &documents {
        for text in [&document.name, &document.text] {
            hash.write(&(text.len() as u64).to_le_bytes());
            hash.write(text.as_bytes());
        }
    }
    let fingerprint = format!("{:016x}", hash.finish());
    let cache = cache_folder(config);
    let folder = cache.join(format!("text-{fingerprint}"));
    let record = folder.join("corpus.json");
    if let Ok(text) = fs::read_to_string(&record) {
        let prepared: Prepared = serde_json::from_str(&text).map_err(|e| {
            invalid(format!("{}: {e}; remove the folder {} to make it anew", record.display(), folder.display()))
        })?;
        say(&format!("data: {source}, {} documents, {} tokens (cached)", prepared.documents, prepared.tokens));
        return Ok(Prepared { folder, ..prepared });
    }
    say(&format!("data: {source}, {} documents; training a byte-level BPE of {vocab} entries", documents.len()));
    let cannot = |action: &str, path: &Path, e: &dyn std::fmt::Display| {
        invalid(format!(
            "cannot {action} {}: {e}; set dataset.path_to_cache (or LIGHTNING_CACHE) to a folder that can be written",
            path.display()
        ))
    };
    let draft = cache.join(format!(".text-{fingerprint}.{}", std::process::id()));
    fs::create_dir_all(&draft).map_err(|e| cannot("create", &draft, &e))?;
    let made = make(&draft, &documents, vocab, stop);
    let (tokens, tokenizer) = match made {
        Ok(made) => made,
        Err(failure) => {
            let _ = fs::remove_dir_all(&draft);
            return Err(failure);
        }
    };
    let prepared = Prepared {
        source,
        documents: documents.len() as u64,
        bytes: documents.iter().map(|d| d.text.len() as u64).sum(),
        tokens,
        vocab_size: tokenizer.vocab_size(),
        eos: tokenizer.eos()?,
        fingerprint,
        folder: folder.clone(),
    };
    let text = serde_json::to_string_pretty(&prepared).expect("plain data becomes JSON");
    lightning_data::atomic::write_atomically(&draft.join("corpus.json"), text.as_bytes())?;
    if let Err(e) = fs::rename(&draft, &folder) {
        let _ = fs::remove_dir_all(&draft);
        // Another process may have made the same files meanwhile.
        if !record.exists() {
            return Err(cannot("rename", &draft, &e));
        }
    }
    say(&format!("data: {} tokens in {}", prepared.tokens, folder.display()));
    Ok(prepared)
}

fn make(folder: &Path, documents: &[Document], vocab: usize, stop: &Stop) -> Result<(u64, TextTokenizer), Failure> {
    let texts = documents.iter().map(|d| Ok(d.text.as_str()));
    let trained = train_on_texts(texts, &TrainingSettings::new(vocab))?;
    stop.check("data preparation")?;
    trained.save(folder)?;
    let tokenizer = TextTokenizer::load(folder)?;
    let eos = tokenizer.eos()?;
    let mut writer = IndexedWriter::create(folder.join("tokens"), TokenType::for_vocab(vocab as u64))?;
    let mut ids = Vec::new();
    for document in documents {
        stop.check("data preparation")?;
        ids.clear();
        tokenizer.encode_into(&document.text, &mut ids)?;
        ids.push(eos);
        writer.add_document(&ids)?;
    }
    let tokens = writer.tokens();
    writer.finish()?;
    Ok((tokens, tokenizer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_carries_documents() {
        let names: Vec<&str> = embedded::DOCUMENTS.iter().map(|(n, _)| *n).collect();
        assert!(names.contains(&"README.md") && names.iter().any(|n| n.ends_with("ops/ssd.rs")), "{names:?}");
        let bytes: usize = embedded::DOCUMENTS.iter().map(|(_, t)| t.len()).sum();
        assert!(bytes > 200_000, "{bytes} bytes");
    }

    #[test]
    fn a_file_is_cut_into_documents_without_losing_a_byte() {
        let text: String = (0..2000).map(|i| format!("line {i}\n{}", if i % 7 == 0 { "\n" } else { "" })).collect();
        let pieces = split_file(&text);
        assert!(pieces.len() > 3);
        assert_eq!(pieces.iter().map(|d| d.text.as_str()).collect::<String>(), text);
    }
}
