//! The embedded kernels as functions of the driver, loaded when a program first needs them.

use super::driver::{Doing, Driver};
use crate::error::CoreError;
use alloc::collections::BTreeMap;
use alloc::ffi::CString;
use alloc::format;
use cudarc::driver::result;
use cudarc::driver::sys;
use kernels_sys::{Image, Kernel};

/// Dynamic shared memory that every kernel may use without asking first.
const PLAIN_SHARED_BYTES: u32 = 48 << 10;

/// A kernel that can be launched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    pub kernel: &'static Kernel,
    pub handle: sys::CUfunction,
}

/// Modules and functions that were loaded.
#[derive(Default)]
pub(super) struct Kernels {
    modules: BTreeMap<&'static str, sys::CUmodule>,
    functions: BTreeMap<&'static str, Function>,
}

impl Kernels {
    /// The function of this name for the device's architecture.
    pub fn get(&mut self, driver: &Driver, name: &str) -> Result<Function, CoreError> {
        if let Some(function) = self.functions.get(name) {
            return Ok(*function);
        }
        let Some(kernel) = kernels_sys::kernel(name, driver.arch) else {
            return Err(CoreError::Device {
                doing: format!("looking for kernel `{name}`"),
                reason: format!("there is none of this name for {}; use --device cpu", driver.arch),
            });
        };
        let module = match self.modules.get(kernel.module) {
            Some(module) => *module,
            None => {
                let image = kernels_sys::image(kernel.module, driver.arch).ok_or_else(|| CoreError::Device {
                    doing: format!("loading kernel `{name}`"),
                    reason: format!(
                        "`{}` was not built for {}; set LIGHTNING_CUDA_ARCHS to a list with it and build again",
                        kernel.module, driver.arch
                    ),
                })?;
                let module = load(driver, image)?;
                self.modules.insert(kernel.module, module);
                module
            }
        };
        let doing = || format!("loading kernel `{name}`");
        let symbol = CString::new(kernel.name).expect("kernel names hold no NUL");
        // SAFETY: the module stays loaded as long as the context.
        let handle = unsafe { result::module::get_function(module, symbol) }.doing(doing)?;
        if kernel.dynamic_shared_bytes > PLAIN_SHARED_BYTES {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the handle was just given by the driver.
            unsafe { result::function::set_function_attribute(handle, attribute, kernel.dynamic_shared_bytes as i32) }
                .doing(doing)?;
        }
        let function = Function { kernel, handle };
        self.functions.insert(kernel.name, function);
        Ok(function)
    }
}

/// Loads machine code, or the PTX where the device executes nothing else (the virtual GPU).
fn load(driver: &Driver, image: &Image) -> Result<sys::CUmodule, CoreError> {
    let doing = || format!("loading `{}`", image.module);
    let code = if driver.info.is_virtual { image.ptx().as_ptr().cast() } else { image.cubin.as_ptr().cast() };
    // SAFETY: the machine code is a complete ELF file at an aligned address, the PTX ends with a NUL.
    unsafe { result::module::load_data(code) }.doing(doing)
}
