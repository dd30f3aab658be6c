//! Checkpoints in the local cache of the hub: `NAME/MODEL` with a revision, without any network.

use std::path::{Path, PathBuf};

/// The folder that a person means: a folder, or a repository id in the hub's cache.
///
/// The cache is `HF_HUB_CACHE`, else `HF_HOME/hub`, else `~/.cache/huggingface/hub`; a revision is a branch, a tag or a
/// commit (`main` when absent).
///
/// # Errors
/// What is neither; the message says where was looked.
pub fn resolve(
    model: &str,
    revision: Option<&str>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, String> {
    let path = Path::new(model);
    if path.exists() {
        return match revision {
            None => Ok(path.to_path_buf()),
            Some(_) => Err(format!("--hf-revision needs a repository id, {model} is a path; leave the revision out")),
        };
    }
    let is_id =
        model.split('/').count() == 2 && model.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if !is_id {
        return Err(format!(
            "there is no folder {model}, and it is not a repository id (NAME/MODEL); give the folder of a Hugging Face checkpoint"
        ));
    }
    let cache = environment("HF_HUB_CACHE")
        .map(PathBuf::from)
        .or_else(|| environment("HF_HOME").map(|home| Path::new(&home).join("hub")))
        .or_else(|| environment("HOME").map(|home| Path::new(&home).join(".cache/huggingface/hub")));
    let Some(cache) = cache else {
        return Err(format!("{model} is not a folder, and no cache is known; set HF_HUB_CACHE"));
    };
    let repository = cache.join(format!("models--{}", model.replace('/', "--")));
    let revision = revision.unwrap_or("main");
    let commit = std::fs::read_to_string(repository.join("refs").join(revision))
        .map_or_else(|_| revision.to_string(), |text| text.trim().to_string());
    let snapshot = repository.join("snapshots").join(&commit);
    if !commit.contains("..") && snapshot.is_dir() {
        return Ok(snapshot);
    }
    Err(format!(
        "{model} at revision {revision} is not in {}; fetch it first (huggingface-cli download {model}), or give a folder",
        cache.display()
    ))
}
