//! Images: from the pointer that a program passes to a decoded module, and the objects made of it.

use super::cubin;
use super::entry::explain;
use super::fatbin::{self, Kind};
use super::handles::lock;
use super::pointers::{Handle, In, read_host};
use super::state::{Context, Driver, current};
use super::status::{Outcome, Status};
use crate::exec::{Kernel, LoadedModule, Module};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Newest PTX ISA that is understood.
pub const MAX_ISA: (u32, u32) = (9, 0);

/// PTX text of an image, and what its cubin says about registers.
pub struct Source {
    /// PTX text.
    pub ptx: String,
    /// Registers per thread by kernel.
    pub registers: BTreeMap<String, u32>,
}

/// A module in a context.
pub struct LoadedImage {
    /// Context.
    pub context: Handle,
    /// Decoded and placed.
    pub loaded: LoadedModule,
    /// Registers per thread by kernel, from a cubin.
    pub registers: BTreeMap<String, u32>,
    /// Handles of functions that were asked for.
    pub functions: Mutex<BTreeMap<String, Handle>>,
}

/// Attributes of a function that a program may set.
#[derive(Clone, Copy, Debug)]
pub struct FunctionAttributes {
    /// `MAX_DYNAMIC_SHARED_SIZE_BYTES`
    pub max_dynamic_shared: u32,
    /// `PREFERRED_SHARED_MEMORY_CARVEOUT`
    pub carveout: i32,
    /// `REQUIRED_CLUSTER_WIDTH`, `HEIGHT`, `DEPTH`; zeros when none is required
    pub cluster: [u32; 3],
    /// `NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
    pub non_portable_cluster: bool,
    /// `CLUSTER_SCHEDULING_POLICY_PREFERENCE`
    pub cluster_policy: i32,
}

/// A kernel of a module.
pub struct Function {
    /// Its module.
    pub image: Arc<LoadedImage>,
    /// Handle of the module.
    pub module: Handle,
    /// Kernel name.
    pub name: String,
    /// Registers per thread, when a cubin says so.
    pub registers: Option<u32>,
    /// Attributes.
    pub attributes: Mutex<FunctionAttributes>,
}

/// A library: an image without a context.
pub struct Library {
    /// The decoded module.
    pub module: Arc<Module>,
    /// Registers per thread by kernel.
    pub registers: BTreeMap<String, u32>,
    /// Handles of kernels.
    pub kernels: BTreeMap<String, Handle>,
    /// Module of each context that used it.
    pub loaded: Mutex<BTreeMap<Handle, Handle>>,
}

/// A kernel of a library.
pub struct LibraryKernel {
    /// The library.
    pub library: Handle,
    /// Kernel name.
    pub name: String,
}

impl Function {
    /// The decoded kernel.
    pub fn kernel(&self) -> Outcome<&Kernel> {
        self.image.loaded.module.kernel(&self.name).ok_or(Status::NOT_FOUND)
    }
}

fn refuse(status: Status, text: &str) -> (Status, String) {
    (status, text.to_string())
}

/// Reads an image from the caller's memory: PTX text, a fat binary, its wrapper, or a cubin.
///
/// # Errors
/// The code to return, and a text for the error log.
pub fn read(image: In<u8>) -> Result<Source, (Status, String)> {
    let null = |s: Status| refuse(s, "the image is a null pointer");
    let at = image.address();
    let magic = read_host(at, 4).map_err(null)?;
    match u32::from_le_bytes([magic[0], magic[1], magic[2], magic[3]]) {
        fatbin::WRAPPER_MAGIC => {
            let words = read_host(at + 8, 8).map_err(null)?;
            let data = words.iter().rev().fold(0usize, |v, b| v << 8 | *b as usize);
            read_fatbin(data)
        }
        fatbin::MAGIC => read_fatbin(at),
        0x464c_457f => Err(refuse(
            Status::NO_BINARY_FOR_GPU,
            "the image is a cubin; a virtual device executes PTX, so load the PTX text or a fat binary with PTX (-gencode arch=compute_90a,code=[sm_90a,compute_90a])",
        )),
        _ => {
            let ptx = image.as_text().read().map_err(|s| refuse(s, "the PTX text is not UTF-8"))?;
            let first = ptx.trim_start().chars().next();
            if !matches!(first, Some('.' | '/')) {
                return Err(refuse(
                    Status::INVALID_IMAGE,
                    "the image is neither PTX text, nor a fat binary, nor a cubin",
                ));
            }
            Ok(Source { ptx, registers: BTreeMap::new() })
        }
    }
}

fn read_fatbin(address: usize) -> Result<Source, (Status, String)> {
    let invalid = |e: fatbin::FatbinError| refuse(Status::INVALID_IMAGE, &e.to_string());
    let null = |s: Status| refuse(s, "the fat binary is a null pointer");
    let total = fatbin::total_bytes(&read_host(address, fatbin::HEADER_BYTES).map_err(null)?).map_err(invalid)?;
    source_of_fatbin(&read_host(address, total).map_err(null)?)
}

/// The best PTX of a fat binary, with the registers of its cubins.
///
/// # Errors
/// `CUDA_ERROR_INVALID_IMAGE` for a broken container, `CUDA_ERROR_NO_BINARY_FOR_GPU` when no PTX fits.
pub fn source_of_fatbin(data: &[u8]) -> Result<Source, (Status, String)> {
    let invalid = |e: fatbin::FatbinError| refuse(Status::INVALID_IMAGE, &e.to_string());
    let entries = fatbin::entries(data).map_err(invalid)?;
    let mut best: Option<(u32, bool, String)> = None;
    let mut seen = Vec::new();
    let mut registers = BTreeMap::new();
    for e in &entries {
        match e.kind {
            Kind::Ptx => {
                let text = e.unpack().map_err(invalid)?;
                let text = String::from_utf8_lossy(&text).trim_end_matches('\0').to_string();
                let target = directive(&text, ".target").unwrap_or_default().to_string();
                let specific = target.ends_with('a');
                // Text for exactly this architecture runs, or portable text of an older one.
                let fits = e.arch == 90 || (e.arch < 90 && !specific);
                seen.push(target);
                if fits && best.as_ref().is_none_or(|b| (e.arch, specific) > (b.0, b.1)) {
                    best = Some((e.arch, specific, text));
                }
            }
            Kind::Cubin if e.arch == 90 => registers.extend(cubin::registers(&e.unpack().map_err(invalid)?)),
            Kind::Cubin | Kind::Other(_) => {}
        }
    }
    match best {
        Some((_, _, ptx)) => Ok(Source { ptx, registers }),
        None if seen.is_empty() => Err(refuse(
            Status::NO_BINARY_FOR_GPU,
            "the fat binary holds no PTX, which is what a virtual device executes; add code=compute_90a",
        )),
        None => Err(refuse(
            Status::NO_BINARY_FOR_GPU,
            &format!("the fat binary holds PTX for {} only, not for sm_90", seen.join(", ")),
        )),
    }
}

/// First argument of a PTX directive.
fn directive<'a>(ptx: &'a str, name: &str) -> Option<&'a str> {
    let line = ptx.lines().map(str::trim).find(|l| l.starts_with(name))?;
    line[name.len()..].trim().split(|c: char| c == ',' || c.is_whitespace()).next()
}

/// Decodes PTX text.
///
/// # Errors
/// As [`read`]: a newer ISA, a target of another architecture, or what the front end says.
pub fn decode(ptx: &str) -> Result<Module, (Status, String)> {
    if let Some((major, minor)) = directive(ptx, ".version").and_then(|v| v.split_once('.'))
        && let (Ok(major), Ok(minor)) = (major.parse::<u32>(), minor.parse::<u32>())
        && (major, minor) > MAX_ISA
    {
        let (a, b) = MAX_ISA;
        return Err(refuse(
            Status::UNSUPPORTED_PTX_VERSION,
            &format!(
                "PTX ISA {major}.{minor} is newer than {a}.{b}, the newest that is supported; compile with CUDA 13.0"
            ),
        ));
    }
    if let Some(number) = directive(ptx, ".target").and_then(|t| t.strip_prefix("sm_"))
        && let Ok(arch) = number.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<u32>()
    {
        let specific = number.ends_with('a') || number.ends_with('f');
        if arch > 90 || (specific && arch != 90) {
            return Err(refuse(
                Status::NO_BINARY_FOR_GPU,
                &format!("the PTX is for sm_{number}, the virtual device is sm_90a; compile with -arch=sm_90a"),
            ));
        }
    }
    Module::load(ptx).map_err(|e| (Status::INVALID_PTX, e.to_string()))
}

impl Driver {
    /// Places a decoded module in a context.
    pub fn load_image(
        &self,
        context: &Arc<Context>,
        module: Arc<Module>,
        registers: BTreeMap<String, u32>,
    ) -> Outcome<Handle> {
        let device = self.device_of(context);
        let loaded = device.machine.load(module).map_err(|fault| {
            explain(&fault.to_string());
            Status::OUT_OF_MEMORY
        })?;
        let make = |_| LoadedImage { context: context.handle, loaded, registers, functions: Mutex::default() };
        Ok(self.modules.add(make).0)
    }

    /// The function of a kernel name in a module.
    pub fn function_of(&self, module: Handle, name: &str) -> Outcome<Handle> {
        let image = self.modules.get(module)?;
        let mut handles = lock(&image.functions);
        if let Some(h) = handles.get(name) {
            return Ok(*h);
        }
        let kernel = image.loaded.module.kernel(name).ok_or(Status::NOT_FOUND)?;
        let attributes = FunctionAttributes {
            max_dynamic_shared: (48u32 << 10).saturating_sub(kernel.static_shared as u32),
            carveout: -1,
            cluster: kernel.required_cluster.unwrap_or([0; 3]),
            non_portable_cluster: false,
            cluster_policy: 0,
        };
        let (h, _) = self.functions.add(|_| Function {
            image: image.clone(),
            module,
            name: name.to_string(),
            registers: image.registers.get(name).copied(),
            attributes: Mutex::new(attributes),
        });
        handles.insert(name.to_string(), h);
        Ok(h)
    }

    /// The module of a library in a context, loaded at first use.
    pub fn module_of_library(&self, library: Handle, context: &Arc<Context>) -> Outcome<Handle> {
        let l = self.libraries.get(library)?;
        let mut loaded = lock(&l.loaded);
        if let Some(m) = loaded.get(&context.handle) {
            return Ok(*m);
        }
        let m = self.load_image(context, l.module.clone(), l.registers.clone())?;
        loaded.insert(context.handle, m);
        Ok(m)
    }

    /// The function behind a `CUfunction`, or behind a `CUkernel` in the current context.
    pub fn function(&self, handle: Handle) -> Outcome<Arc<Function>> {
        if let Some(f) = self.functions.find(handle) {
            return Ok(f);
        }
        let kernel = self.kernels.get(handle)?;
        let module = self.module_of_library(kernel.library, &current()?)?;
        self.functions.get(self.function_of(module, &kernel.name)?)
    }
}
