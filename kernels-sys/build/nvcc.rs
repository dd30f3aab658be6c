//! nvcc: finding it, and compiling what has changed to PTX and cubin.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sources::{Outcome, Source, read, write};

pub const OLDEST_CUDA: (u32, u32) = (13, 0);
pub const NVCC_FLAGS: &[&str] =
    &["-ptx", "-std=c++17", "-lineinfo", "-Xcompiler=-Wall", "-Werror=all-warnings", "-I", "include"];
pub const PTXAS_FLAGS: &[&str] = &["-v", "-lineinfo"];

pub struct Nvcc {
    pub path: PathBuf,
    /// The line of `nvcc --version` that names the build.
    pub version: String,
}

pub fn find_nvcc(root: &Path, out: &Path) -> Outcome<Nvcc> {
    // OUT_DIR is TARGET/PROFILE/build/PACKAGE/out: as a git dependency the toolkit may be in the dependent's target.
    let own_target = out.ancestors().nth(4).unwrap_or(root);
    let mut candidates = Vec::new();
    if let Some(home) = std::env::var_os("CUDA_HOME").filter(|h| !h.is_empty()) {
        candidates.push(PathBuf::from(home).join("bin/nvcc"));
    }
    candidates.push(root.join("target/cuda/nvidia/cu13/bin/nvcc"));
    candidates.push(own_target.join("cuda/nvidia/cu13/bin/nvcc"));
    if let Some(path) = std::env::var_os("PATH") {
        candidates.extend(std::env::split_paths(&path).map(|folder| folder.join("nvcc")));
    }
    first_usable(candidates)
}

/// The first of these programs that is an nvcc new enough.
pub fn first_usable(candidates: impl IntoIterator<Item = PathBuf>) -> Outcome<Nvcc> {
    let mut refused = String::new();
    for path in candidates {
        if !path.is_file() {
            continue;
        }
        let said = Command::new(&path).arg("--version").output();
        let said = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        match parse_release(&said) {
            Some(release) if release >= OLDEST_CUDA => {
                let version = said.lines().last().unwrap_or_default().to_string();
                return Ok(Nvcc { path, version });
            }
            Some((major, minor)) => _ = write!(refused, "; {} is CUDA {major}.{minor}", path.display()),
            None => _ = write!(refused, "; {} does not run", path.display()),
        }
    }
    Err(format!(
        "no nvcc of CUDA {}.{} or newer was found in CUDA_HOME, target/cuda or on the path{refused}. Run \
         `cargo xtask setup-cuda` to put one into target/cuda, or set CUDA_HOME",
        OLDEST_CUDA.0, OLDEST_CUDA.1
    ))
}

/// Finds `release 13.0` in what `nvcc --version` prints.
pub fn parse_release(said: &str) -> Option<(u32, u32)> {
    let (major, rest) = said.split("release ").nth(1)?.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.trim().parse().ok()?, minor.parse().ok()?))
}

/// One source compiled for one architecture; the files are in OUT_DIR.
pub struct Image {
    pub source: usize,
    pub arch: &'static str,
    pub ptx: String,
    pub cubin: String,
    pub ptxas_log: String,
}

pub fn compile_all(
    nvcc: &Nvcc,
    csrc: &Path,
    out: &Path,
    sources: &[Source],
    archs: &[&'static str],
) -> Outcome<Vec<Image>> {
    let mut images = Vec::new();
    for (source, of) in sources.iter().enumerate() {
        for &arch in archs.iter().filter(|arch| of.arch.is_none_or(|only| only == **arch)) {
            let stem = format!("{}.{arch}", of.module.replace('/', "-"));
            images.push(Image {
                source,
                arch,
                ptx: format!("{stem}.ptx"),
                cubin: format!("{stem}.cubin"),
                ptxas_log: format!("{stem}.ptxas.txt"),
            });
        }
    }
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let jobs = std::env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1usize).max(1);
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(images.len()) {
            scope.spawn(|| {
                while let Some(image) = images.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = compile(nvcc, csrc, out, &sources[image.source], image) {
                        failures.lock().unwrap_or_else(|e| e.into_inner()).push(why);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(|e| e.into_inner());
    failures.sort();
    if failures.is_empty() { Ok(images) } else { Err(failures.join("\n")) }
}

pub fn compile(nvcc: &Nvcc, csrc: &Path, out: &Path, source: &Source, image: &Image) -> Outcome<()> {
    let stamp_path = out.join(format!("{}.stamp", image.ptx));
    let recipe = format!("{} {} {NVCC_FLAGS:?} {PTXAS_FLAGS:?} {}", nvcc.path.display(), nvcc.version, image.arch);
    if is_current(&stamp_path, &recipe, csrc) && out.join(&image.cubin).is_file() && out.join(&image.ptx).is_file() {
        return Ok(());
    }
    _ = fs::remove_file(&stamp_path);
    let raw_ptx = out.join(format!("{}.raw", image.ptx));
    let dependencies = out.join(format!("{}.d", image.ptx));
    let arch_flag = format!("-arch={}", image.arch);
    run(Command::new(&nvcc.path)
        .current_dir(csrc)
        .args(NVCC_FLAGS)
        .args([&arch_flag, "-MD", "-MF"])
        .arg(&dependencies)
        .arg(&source.path)
        .arg("-o")
        .arg(&raw_ptx))?;

    let text = without_machine_paths(&read(&raw_ptx)?, csrc);
    _ = fs::remove_file(&raw_ptx);
    check_entries(source, image.arch, &text)?;
    let ptx = out.join(&image.ptx);
    write(&ptx, text.as_bytes())?;
    let log = run(Command::new(nvcc.path.with_file_name("ptxas"))
        .args(PTXAS_FLAGS)
        .arg(&arch_flag)
        .arg(&ptx)
        .arg("-o")
        .arg(out.join(&image.cubin)))?;
    write(&out.join(&image.ptxas_log), log.as_bytes())?;

    let mut stamp = recipe + "\n";
    for path in make_dependencies(&read(&dependencies)?) {
        // Headers of the toolkit are covered by its version.
        if let Ok(below) = csrc.join(&path).strip_prefix(csrc) {
            _ = writeln!(stamp, "{:016x} {}", file_hash(&csrc.join(below))?, below.display());
        }
    }
    write(&stamp_path, stamp.as_bytes())
}

/// Runs a compiler; its standard error, which is the error if it fails.
pub fn run(command: &mut Command) -> Outcome<String> {
    let output =
        command.output().map_err(|e| format!("cannot start {}: {e}", command.get_program().to_string_lossy()))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{}{said}", String::from_utf8_lossy(&output.stdout))) }
}

pub fn is_current(stamp_path: &Path, recipe: &str, csrc: &Path) -> bool {
    let Ok(stamp) = fs::read_to_string(stamp_path) else {
        return false;
    };
    let mut lines = stamp.lines();
    lines.next() == Some(recipe)
        && lines.all(|line| {
            line.split_once(' ')
                .is_some_and(|(hash, path)| file_hash(&csrc.join(path)).is_ok_and(|now| format!("{now:016x}") == hash))
        })
}

pub fn file_hash(path: &Path) -> Outcome<u64> {
    let bytes = fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish())
}

/// The prerequisites of a makefile rule `target : a b \ c`.
pub fn make_dependencies(rule: &str) -> Vec<String> {
    let list = rule.split_once(" : ").or_else(|| rule.split_once(": ")).map_or("", |(_, list)| list);
    list.split_whitespace().filter(|word| *word != "\\").map(str::to_string).collect()
}

/// Line information with paths that are the same on every machine: `csrc/...` and `cuda/include/...`.
pub fn without_machine_paths(ptx: &str, csrc: &Path) -> String {
    let mut text = String::with_capacity(ptx.len());
    for line in ptx.lines() {
        if let (true, Some((before, rest))) = (line.trim_start().starts_with(".file"), line.split_once('"'))
            && let Some((path, after)) = rest.split_once('"')
        {
            let shown = match (Path::new(path).strip_prefix(csrc), path.rsplit_once("/include/")) {
                (Ok(below), _) => format!("csrc/{}", below.display()),
                (Err(_), Some((_, header))) => format!("cuda/include/{header}"),
                (Err(_), None) => path.to_string(),
            };
            _ = writeln!(text, "{before}\"{shown}\"{after}");
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Holds the declarations against the entry points of the PTX: same names, same block sizes.
pub fn check_entries(source: &Source, arch: &str, ptx: &str) -> Outcome<()> {
    let problem = |what: String| Err(format!("csrc/{} for {arch}: {what}", source.path.display()));
    let entries: BTreeMap<String, (Option<u32>, Option<u32>)> = parse_entries(ptx);
    for kernel in &source.kernels {
        match entries.get(&kernel.name) {
            None => {
                return problem(format!("LIGHTNING_KERNEL declares {}, the PTX has no such entry", kernel.name));
            }
            Some((threads, _)) if *threads != Some(kernel.threads) => {
                return problem(format!("{} has {} threads, the PTX says {threads:?}", kernel.name, kernel.threads));
            }
            Some(_) => {}
        }
    }
    match entries.keys().find(|name| source.kernels.iter().all(|k| k.name != **name)) {
        Some(name) => problem(format!("kernel {name} is not declared with LIGHTNING_KERNEL")),
        None => Ok(()),
    }
}

/// Entry points of PTX text: name to (threads of a block, bytes of the one parameter).
pub fn parse_entries(ptx: &str) -> BTreeMap<String, (Option<u32>, Option<u32>)> {
    let mut entries = BTreeMap::new();
    for after in ptx.split(".entry ").skip(1) {
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let head = after.split("\n{").next().unwrap_or_default();
        let threads = head
            .split(".maxntid ")
            .nth(1)
            .and_then(|t| t.split(|c: char| c == ',' || c.is_whitespace()).next()?.parse().ok());
        let bytes = head.split("_param_0[").nth(1).and_then(|b| b.split(']').next()?.parse().ok());
        entries.insert(name, (threads, bytes));
    }
    entries
}
