//! Modules and libraries: loading, look-up of kernels and variables.

use super::entry::explain;
use super::handles::lock;
use super::image::{Library, LibraryKernel, Source, decode, read};
use super::pointers::{Handle, In, Out, Text, write_host};
use super::state::{current, driver};
use super::status::{Outcome, Status};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, OnceLock};

const JIT_ERROR_LOG: i32 = 5;
const JIT_ERROR_LOG_BYTES: i32 = 6;
/// `CU_MODULE_EAGER_LOADING`
const EAGER: i32 = 1;

/// Where the caller wants error texts of loading.
#[derive(Default)]
struct ErrorLog {
    buffer: usize,
    bytes: usize,
}

impl ErrorLog {
    fn from_options(count: u32, options: In<i32>, values: In<usize>) -> Outcome<ErrorLog> {
        let n = count as usize;
        let mut log = ErrorLog::default();
        for (option, value) in options.to_vec(n)?.into_iter().zip(values.to_vec(n)?) {
            match option {
                JIT_ERROR_LOG => log.buffer = value,
                // The value itself is the size, cut to 32 bits.
                JIT_ERROR_LOG_BYTES => log.bytes = value & 0xffff_ffff,
                _ => {}
            }
        }
        Ok(log)
    }

    fn write(&self, text: &str) -> Outcome {
        if self.buffer == 0 || self.bytes == 0 {
            return Ok(());
        }
        let mut bytes = text.as_bytes()[..text.len().min(self.bytes - 1)].to_vec();
        bytes.push(0);
        write_host(self.buffer, &bytes)
    }
}

fn load(source: Result<Source, (Status, String)>, log: &ErrorLog) -> Outcome<Handle> {
    let context = current()?;
    let loaded = source.and_then(|s| Ok((decode(&s.ptx)?, s.registers)));
    let (module, registers) = loaded.map_err(|(status, text)| {
        explain(&text);
        log.write(&text).err().unwrap_or(status)
    })?;
    driver()?.load_image(&context, Arc::new(module), registers)
}

/// An image from a file; the bytes are kept until it is decoded.
fn read_file(path: &str) -> Result<Source, (Status, String)> {
    let mut bytes =
        std::fs::read(path).map_err(|e| (Status::FILE_NOT_FOUND, format!("{path}: {e}; check the path")))?;
    bytes.push(0);
    if bytes.starts_with(&super::fatbin::MAGIC.to_le_bytes()) {
        return super::image::source_of_fatbin(&bytes[..bytes.len() - 1]);
    }
    read(In::of(&bytes))
}

/// A string that lives as long as the process, one copy per distinct text.
fn keep(text: &str) -> Text {
    static KEPT: OnceLock<Mutex<BTreeMap<String, &'static CString>>> = OnceLock::new();
    let mut kept = lock(KEPT.get_or_init(Mutex::default));
    if let Some(s) = kept.get(text) {
        return Text::of(s);
    }
    let s: &'static CString = Box::leak(Box::new(CString::new(text).unwrap_or_default()));
    kept.insert(text.to_string(), s);
    Text::of(s)
}

fn variable(module: Handle, name: &str, address: Out<u64>, bytes: Out<usize>) -> Outcome {
    let image = driver()?.modules.get(module)?;
    let v = image.loaded.module.variables.iter().find(|v| v.name == name).ok_or(Status::NOT_FOUND)?;
    let a = image.loaded.addresses.get(name).copied().ok_or(Status::NOT_FOUND)?;
    address.set_if_wanted(a);
    bytes.set_if_wanted(v.bytes);
    Ok(())
}

fn make_library(source: Result<Source, (Status, String)>, log: &ErrorLog) -> Outcome<Handle> {
    let d = driver()?;
    let loaded = source.and_then(|s| Ok((decode(&s.ptx)?, s.registers)));
    let (module, registers) = loaded.map_err(|(status, text)| {
        explain(&text);
        log.write(&text).err().unwrap_or(status)
    })?;
    let library = super::handles::fresh();
    let mut kernels = BTreeMap::new();
    for k in &module.kernels {
        let (h, _) = d.kernels.add(|_| LibraryKernel { library, name: k.name.clone() });
        kernels.insert(k.name.clone(), h);
    }
    let l = Library { module: Arc::new(module), registers, kernels, loaded: Mutex::default() };
    d.libraries.adopt(library, Arc::new(l));
    Ok(library)
}

super::entry::api! {
    /// Loads a module from PTX text, a fat binary or its wrapper.
    fn cuModuleLoadData(module: Out<Handle>, image: In<u8>) {
        module.check()?;
        current()?;
        module.set(load(read(image), &ErrorLog::default())?)
    }

    /// As `cuModuleLoadData`; of the options the error log is used.
    fn cuModuleLoadDataEx(module: Out<Handle>, image: In<u8>, count: u32, options: In<i32>, values: In<usize>) {
        module.check()?;
        current()?;
        let log = ErrorLog::from_options(count, options, values)?;
        module.set(load(read(image), &log)?)
    }

    /// Loads a module from a fat binary.
    fn cuModuleLoadFatBinary(module: Out<Handle>, image: In<u8>) {
        module.check()?;
        current()?;
        module.set(load(read(image), &ErrorLog::default())?)
    }

    /// Loads a module from a file.
    fn cuModuleLoad(module: Out<Handle>, path: Text) {
        module.check()?;
        current()?;
        module.set(load(read_file(&path.read()?), &ErrorLog::default())?)
    }

    /// Unloads a module. Its functions are no longer valid.
    fn cuModuleUnload(module: Handle) {
        let d = driver()?;
        current()?;
        d.modules.remove(module)?;
        d.functions.retain(|f| f.module != module);
        Ok(())
    }

    /// Kernel of a module by name.
    fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) {
        function.check()?;
        current()?;
        function.set(driver()?.function_of(module, &name.read()?)?)
    }

    /// Number of kernels of a module.
    fn cuModuleGetFunctionCount(count: Out<u32>, module: Handle) {
        count.check()?;
        count.set(driver()?.modules.get(module)?.loaded.module.kernels.len() as u32)
    }

    /// Kernels of a module.
    fn cuModuleEnumerateFunctions(functions: Out<Handle>, count: u32, module: Handle) {
        functions.check()?;
        let d = driver()?;
        let image = d.modules.get(module)?;
        for (i, k) in image.loaded.module.kernels.iter().take(count as usize).enumerate() {
            functions.set_at(i, d.function_of(module, &k.name)?)?;
        }
        Ok(())
    }

    /// Address and size of a variable of a module.
    fn cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: Handle, name: Text) {
        current()?;
        variable(module, &name.read()?, address, bytes)
    }

    /// Modules are decoded when they are loaded.
    fn cuModuleGetLoadingMode(mode: Out<i32>) {
        mode.set(EAGER)
    }

    /// Loads a library, which no context owns.
    fn cuLibraryLoadData(library: Out<Handle>, code: In<u8>, jit: In<i32>, jit_values: In<usize>, jit_count: u32, _options: In<i32>, _values: In<usize>, _count: u32) {
        library.check()?;
        driver()?;
        let log = ErrorLog::from_options(jit_count, jit, jit_values)?;
        library.set(make_library(read(code), &log)?)
    }

    /// Loads a library from a file.
    fn cuLibraryLoadFromFile(library: Out<Handle>, path: Text, jit: In<i32>, jit_values: In<usize>, jit_count: u32, _options: In<i32>, _values: In<usize>, _count: u32) {
        library.check()?;
        driver()?;
        let log = ErrorLog::from_options(jit_count, jit, jit_values)?;
        library.set(make_library(read_file(&path.read()?), &log)?)
    }

    /// Unloads a library from all contexts.
    fn cuLibraryUnload(library: Handle) {
        let d = driver()?;
        let l = d.libraries.remove(library)?;
        d.kernels.retain(|k| k.library != library);
        for module in std::mem::take(&mut *lock(&l.loaded)).into_values() {
            d.functions.retain(|f| f.module != module);
            d.modules.remove(module)?;
        }
        Ok(())
    }

    /// Kernel of a library by name.
    fn cuLibraryGetKernel(kernel: Out<Handle>, library: Handle, name: Text) {
        kernel.check()?;
        let l = driver()?.libraries.get(library)?;
        kernel.set(*l.kernels.get(&name.read()?).ok_or(Status::NOT_FOUND)?)
    }

    /// Number of kernels of a library.
    fn cuLibraryGetKernelCount(count: Out<u32>, library: Handle) {
        count.check()?;
        count.set(driver()?.libraries.get(library)?.kernels.len() as u32)
    }

    /// Kernels of a library.
    fn cuLibraryEnumerateKernels(kernels: Out<Handle>, count: u32, library: Handle) {
        kernels.check()?;
        let l = driver()?.libraries.get(library)?;
        for (i, h) in l.kernels.values().take(count as usize).enumerate() {
            kernels.set_at(i, *h)?;
        }
        Ok(())
    }

    /// Module of a library in the current context.
    fn cuLibraryGetModule(module: Out<Handle>, library: Handle) {
        module.check()?;
        module.set(driver()?.module_of_library(library, &current()?)?)
    }

    /// Address and size of a variable of a library in the current context.
    fn cuLibraryGetGlobal(address: Out<u64>, bytes: Out<usize>, library: Handle, name: Text) {
        let module = driver()?.module_of_library(library, &current()?)?;
        variable(module, &name.read()?, address, bytes)
    }

    /// Function of a kernel in the current context.
    fn cuKernelGetFunction(function: Out<Handle>, kernel: Handle) {
        function.check()?;
        let d = driver()?;
        let k = d.kernels.get(kernel)?;
        let module = d.module_of_library(k.library, &current()?)?;
        function.set(d.function_of(module, &k.name)?)
    }

    /// Library of a kernel.
    fn cuKernelGetLibrary(library: Out<Handle>, kernel: Handle) {
        library.check()?;
        library.set(driver()?.kernels.get(kernel)?.library)
    }

    /// Name of a kernel.
    fn cuKernelGetName(name: Out<Text>, kernel: Handle) {
        name.check()?;
        let d = driver()?;
        match d.kernels.find(kernel) {
            Some(k) => name.set(keep(&k.name)),
            None => name.set(keep(&d.functions.get(kernel)?.name)),
        }
    }

    /// Name of a function.
    fn cuFuncGetName(name: Out<Text>, function: Handle) {
        name.check()?;
        name.set(keep(&driver()?.function(function)?.name))
    }

    /// Module of a function.
    fn cuFuncGetModule(module: Out<Handle>, function: Handle) {
        module.check()?;
        module.set(driver()?.function(function)?.module)
    }
}
