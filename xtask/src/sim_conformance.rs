//! `cargo xtask sim-conformance`: kernels that this project did not write, run on the virtual GPU.
//!
//! Triton compiles Python to PTX without a GPU; the headers of CUTLASS are instantiated with nvcc. Both come from the
//! package index into `target/interop` and are never checked in. What runs them, and what must come out, is in
//! `xtask/interop`.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use argh::FromArgs;

use crate::failure::{Failure, Result, create_folder, read_text, write_file};
use crate::process::{capture, remove_folder, root, run, tail, text};
use crate::python::Python;
use crate::{setup_cuda, sim};

/// What pip installs: enough to compile Triton and CUTLASS kernels and to compute what they should.
const REQUIREMENTS: &str = "triton==3.9.0\nnumpy==2.4.6\nml_dtypes==0.6.0\nnvidia-cutlass==4.2.0.0\n";
const STAMP: &str = "environment-complete.txt";
const BY_HAND: &str = "this check cannot run; nothing else needs it.";
/// The one CUTLASS kernel of the reduced form; each takes half a minute to compile.
const REDUCED_CUTLASS: &str = "gemm_pingpong_cluster";

/// run Triton and CUTLASS kernels on the virtual GPU and compare with reference values
#[derive(FromArgs)]
#[argh(subcommand, name = "sim-conformance")]
pub struct SimConformance {
    /// run a few small cases only
    #[argh(switch)]
    reduced: bool,
    /// seed of the inputs (default: from the clock)
    #[argh(option)]
    seed: Option<u64>,
    /// run the cases whose name contains this
    #[argh(option, default = "String::new()")]
    only: String,
}

impl SimConformance {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let seed = self.seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.map_or(1, |d| d.subsec_nanos().into())
        });
        let library = sim::build()?;
        let packages = environment()?;
        // Both parts run even if the first fails: the report is of use.
        let triton = self.triton(&packages, &library, seed);
        let cutlass = self.cutlass(&packages, &library, seed);
        triton.and(cutlass)
    }

    fn triton(&self, packages: &Path, library: &Path, seed: u64) -> Result<()> {
        let names = text(
            Python::find(BY_HAND)?
                .command()
                .args(["-B", "conformance.py", "--list", "--only", &self.only])
                .current_dir(interop())
                .env("PYTHONPATH", packages),
        )?;
        if names.trim().is_empty() {
            return Ok(());
        }
        let mut command = Python::find(BY_HAND)?.command();
        command
            .args(["-B", "conformance.py", "--seed", &seed.to_string(), "--only", &self.only, "--library"])
            .arg(library)
            .current_dir(interop())
            .env("PYTHONPATH", packages)
            .env("TRITON_CACHE_DIR", root().join("target/interop/triton-cache"));
        if self.reduced {
            command.arg("--reduced");
        }
        run(&mut command)
    }

    fn cutlass(&self, packages: &Path, library: &Path, seed: u64) -> Result<()> {
        let mut cases: Vec<PathBuf> = fs::read_dir(interop().join("cutlass"))
            .map_err(|e| Failure::io("list", &interop().join("cutlass"), &e))?
            .filter_map(|entry| entry.ok().map(|e| e.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "cu"))
            .filter(|path| name_of(path).contains(&self.only))
            .filter(|path| !self.reduced || name_of(path) == REDUCED_CUTLASS)
            .collect();
        cases.sort();
        let mut failed = Vec::new();
        for case in &cases {
            let started = Instant::now();
            let outcome = run_cutlass_case(case, packages, library, seed);
            let seconds = started.elapsed().as_secs_f64();
            match outcome {
                Ok(said) => println!("ok     {seconds:6.2} s  cutlass {}: {}", name_of(case), said.trim()),
                Err(why) => {
                    println!("FAILED {seconds:6.2} s  cutlass {}: {why}", name_of(case));
                    failed.push(name_of(case));
                }
            }
        }
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Failure::new(format!("seed {seed}: CUTLASS kernels that are not right: {}", failed.join(", "))))
        }
    }
}

fn interop() -> PathBuf {
    root().join("xtask/interop")
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The folder with the Python packages, installed if it is missing or of another pin.
fn environment() -> Result<PathBuf> {
    let folder = root().join("target/interop/python");
    if fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp == REQUIREMENTS) {
        return Ok(folder);
    }
    let partial = root().join("target/interop/python.partial");
    remove_folder(&partial)?;
    eprintln!("installing Triton and CUTLASS into target/interop (about 310 MB to fetch, 1.1 GB on disk)");
    Python::find(BY_HAND)?.install_into(&partial, REQUIREMENTS, BY_HAND)?;
    write_file(&partial.join(STAMP), REQUIREMENTS)?;
    remove_folder(&folder)?;
    fs::rename(&partial, &folder).map_err(|e| Failure::io("move into place", &folder, &e))?;
    Ok(folder)
}

/// Compiles a case, unless that was done before, and runs it; what it printed.
fn run_cutlass_case(case: &Path, packages: &Path, library: &Path, seed: u64) -> Result<String> {
    let name = name_of(case);
    let cuda = setup_cuda::ensure(false)?;
    let folder = root().join("target/interop/cutlass").join(&name);
    let object = folder.join(format!("{name}.o"));
    let ptx = folder.join(format!("{name}.ptx"));
    let stamp = folder.join("stamp.txt");
    let recipe = recipe(case, &cuda)?;
    if fs::read_to_string(&stamp).ok().as_deref() != Some(recipe.as_str()) {
        remove_folder(&folder)?;
        create_folder(&folder)?;
        let source = packages.join("cutlass_library/source");
        // PTX only: the machine code would never run, and takes as long again.
        text(
            Command::new(cuda.join("bin/nvcc"))
                .args(["-std=c++17", "-gencode", "arch=compute_90a,code=compute_90a", "-c", "-w"])
                .args([
                    "--expt-relaxed-constexpr",
                    "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1",
                    "--keep",
                    "--keep-dir",
                ])
                .arg(&folder)
                .arg(format!("-I{}", source.join("include").display()))
                .arg(format!("-I{}", source.join("tools/util/include").display()))
                .arg(case)
                .arg("-o")
                .arg(&object),
        )?;
        remove_intermediates(&folder)?;
        write_file(&stamp, &recipe)?;
    }
    let program = folder.join(&name);
    let libraries = library.parent().unwrap_or(Path::new("."));
    text(
        Command::new(cuda.join("bin/nvcc"))
            .arg(&object)
            .arg(format!("-L{}", libraries.display()))
            .arg("-lcuda")
            .arg("-o")
            .arg(&program),
    )?;
    let mut command = Command::new(&program);
    command.arg(&ptx).arg(seed.to_string());
    command.env("LD_LIBRARY_PATH", libraries);
    let output = capture(&mut command)?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(tail(&said, 1))
    } else {
        Err(Failure::new(format!("seed {seed}, {}:\n{}", output.status, tail(&said, 30))))
    }
}

/// What decides whether a case must be compiled again.
fn recipe(case: &Path, cuda: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for path in [case.to_path_buf(), case.with_file_name("gemm_case.cuh"), case.with_file_name("host.hpp")] {
        read_text(&path)?.hash(&mut hasher);
    }
    Ok(format!("{:016x} {} {REQUIREMENTS}", hasher.finish(), cuda.display()))
}

/// Deletes what `--keep` leaves besides the PTX: 100 MB a case.
fn remove_intermediates(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| Failure::io("list", folder, &e))?.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "ptx" && e != "o") {
            fs::remove_file(&path).map_err(|e| Failure::io("remove", &path, &e))?;
        }
    }
    Ok(())
}
