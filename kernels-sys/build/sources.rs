//! Sources of `csrc/`, the architectures they are for, and the kernels that they declare.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a step of the build gives, or the message that ends it.
pub type Outcome<T> = Result<T, String>;

/// Architectures that csrc/ is written for, with the variant of `kernels_sys::Arch`.
pub const ARCHS: &[(&str, &str)] = &[("sm_90a", "Sm90a"), ("sm_100a", "Sm100a")];
const DEFAULT_ARCHS: &str = "sm_90a";

pub fn env(name: &str) -> Outcome<String> {
    std::env::var(name).map_err(|_| format!("{name} is not set: this is a build script, run by cargo"))
}

pub fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

pub fn write(path: &Path, bytes: &[u8]) -> Outcome<()> {
    fs::write(path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

pub fn chosen_archs(list: &str) -> Outcome<Vec<&'static str>> {
    let list = if list.trim().is_empty() { DEFAULT_ARCHS } else { list };
    let mut chosen = Vec::new();
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        let Some((known, _)) = ARCHS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = ARCHS.iter().map(|(known, _)| *known).collect();
            return Err(format!(
                "LIGHTNING_CUDA_ARCHS names the unknown architecture `{name}`: choose from {}",
                known.join(", ")
            ));
        };
        if !chosen.contains(known) {
            chosen.push(*known);
        }
    }
    Ok(chosen)
}

/// A `LIGHTNING_KERNEL(...)` declaration, see csrc/include/lightning/kernel.cuh.
pub struct Declared {
    pub name: String,
    pub params: String,
    pub dtype: &'static str,
    pub threads: u32,
    pub min_blocks: u32,
    pub dynamic_shared: u32,
}

/// One .cu file.
pub struct Source {
    /// Path below csrc/.
    pub path: PathBuf,
    /// Path below csrc/ without extension and architecture: `norm/rms_norm`.
    pub module: String,
    pub family: String,
    /// The only architecture that it is for.
    pub arch: Option<&'static str>,
    pub kernels: Vec<Declared>,
}

pub fn find_sources(csrc: &Path) -> Outcome<Vec<Source>> {
    let mut files = Vec::new();
    let mut folders = vec![csrc.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|e| format!("cannot list {}: {e}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|e| format!("cannot list {}: {e}", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "cu") {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut sources = Vec::new();
    let mut seen: BTreeMap<(String, Option<&str>), PathBuf> = BTreeMap::new();
    for file in files {
        let path = file.strip_prefix(csrc).expect("found below csrc").to_path_buf();
        let stem = path.with_extension("");
        let suffix = stem.extension().and_then(|e| e.to_str());
        let arch = match suffix {
            None => None,
            Some(suffix) => Some(
                ARCHS
                    .iter()
                    .find(|(known, _)| *known == suffix)
                    .ok_or_else(|| format!("csrc/{}: `{suffix}` is no architecture", path.display()))?
                    .0,
            ),
        };
        let module = stem.with_extension("").to_string_lossy().replace('\\', "/");
        let family = module
            .rsplit_once('/')
            .ok_or_else(|| format!("csrc/{} must lie in the folder of its family", path.display()))?
            .0
            .to_string();
        let kernels = parse_declarations(&read(&file)?).map_err(|why| format!("csrc/{}: {why}", path.display()))?;
        for kernel in &kernels {
            if let Some(other) = seen.insert((kernel.name.clone(), arch), path.clone()) {
                return Err(format!(
                    "kernel {} is in csrc/{} and csrc/{}",
                    kernel.name,
                    other.display(),
                    path.display()
                ));
            }
        }
        sources.push(Source { path, module, family, arch, kernels });
    }
    Ok(sources)
}

pub fn parse_declarations(text: &str) -> Outcome<Vec<Declared>> {
    const MACRO: &str = "LIGHTNING_KERNEL(";
    let code: String = text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let mut kernels = Vec::new();
    for after in code.split(MACRO).skip(1) {
        let arguments = after.split(')').next().unwrap_or_default();
        let words: Vec<&str> = arguments.split(',').map(str::trim).collect();
        let [name, params, dtype, threads, min_blocks, dynamic_shared] = words[..] else {
            return Err(format!("{MACRO}{arguments}) has {} arguments, not 6", words.len()));
        };
        let number = |what: &str, word: &str| -> Outcome<u32> {
            word.parse().map_err(|_| format!("kernel {name}: {what} is `{word}`, not a number"))
        };
        let dtype = match dtype {
            "bf16" => "Bf16",
            "f32" => "F32",
            "any" => "Any",
            other => {
                return Err(format!("kernel {name}: dtype `{other}` is none of bf16, f32, any"));
            }
        };
        let kernel = Declared {
            name: name.to_string(),
            params: params.to_string(),
            dtype,
            threads: number("threads", threads)?,
            min_blocks: number("min_blocks", min_blocks)?,
            dynamic_shared: number("dynamic_shared", dynamic_shared)?,
        };
        if kernel.threads == 0 || kernel.threads > 1024 || !kernel.threads.is_multiple_of(32) {
            return Err(format!("kernel {name}: {threads} threads is not a multiple of 32 up to 1024"));
        }
        kernels.push(kernel);
    }
    if kernels.is_empty() {
        return Err(format!("declares no kernel with {MACRO}...)"));
    }
    Ok(kernels)
}
