//! The CUDA driver as this device uses it: one primary context and one stream, with errors that say what was tried.
//!
//! The library is found when the first device is opened, so one binary runs with and without a driver.

use crate::error::CoreError;
use alloc::format;
use alloc::string::{String, ToString};
use core::ffi::c_void;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use kernels_sys::Arch;

/// Turns a driver's answer into an error of this crate.
pub(super) fn device_error(doing: impl Into<String>, error: DriverError) -> CoreError {
    let name = error.error_name().map_or("an unknown error".into(), |n| n.to_string_lossy().into_owned());
    let text = error.error_string().map_or(String::new(), |t| format!(" ({})", t.to_string_lossy()));
    CoreError::Device { doing: doing.into(), reason: format!("the driver answers {name}{text}") }
}

/// Adds what was being done to a driver's error.
pub(super) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, CoreError>;
}

impl<T> Doing<T> for Result<T, DriverError> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, CoreError> {
        self.map_err(|error| device_error(what(), error))
    }
}

/// What is known of a device before it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name as the driver has it, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Major and minor compute capability.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of device memory.
    pub memory: usize,
    /// CUDA version that the driver supports, such as (13, 0).
    pub driver: (u32, u32),
    /// Whether this is the virtual GPU, which executes PTX on a processor.
    pub is_virtual: bool,
}

/// Why no device can be used, or what the devices are. Never panics where there is no driver.
///
/// # Errors
/// `Device` when there is no driver library, when it refuses to start, or when it reports no device.
pub fn devices() -> Result<alloc::vec::Vec<DeviceInfo>, CoreError> {
    let none = |reason: String| CoreError::Device { doing: "looking for a CUDA device".to_string(), reason };
    // SAFETY: loads the driver library if there is one, which runs its start-up code and nothing of ours.
    if !unsafe { sys::is_culib_present() } {
        return Err(none(
            "no CUDA driver library (libcuda.so.1) was found; install the NVIDIA driver, use --device cpu, or run on the \
             virtual GPU with --device sim"
                .to_string(),
        ));
    }
    result::init().doing(|| "starting the CUDA driver".to_string())?;
    let count = result::device::get_count().doing(|| "counting CUDA devices".to_string())?;
    if count == 0 {
        return Err(none("the driver reports no device; is one visible (CUDA_VISIBLE_DEVICES)?".to_string()));
    }
    let mut version = 0;
    // SAFETY: writes one integer of ours.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .doing(|| "asking for the driver's version".to_string())?;
    let driver = (version as u32 / 1000, version as u32 % 1000 / 10);
    (0..count).map(|ordinal| describe(ordinal, driver)).collect()
}

fn describe(ordinal: i32, driver: (u32, u32)) -> Result<DeviceInfo, CoreError> {
    use sys::CUdevice_attribute as Attribute;
    let doing = || format!("asking device {ordinal} what it is");
    let device = result::device::get(ordinal).doing(doing)?;
    let attribute = |which| {
        // SAFETY: the device handle was just given by the driver.
        unsafe { result::device::get_attribute(device, which) }.doing(doing).map(|v| v as u32)
    };
    let uuid = result::device::get_uuid(device).doing(doing)?;
    Ok(DeviceInfo {
        is_virtual: uuid.bytes.iter().zip(b"ptx-sim").all(|(a, b)| *a as u8 == *b),
        name: result::device::get_name(device).doing(doing)?,
        compute_capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        // SAFETY: as above.
        memory: unsafe { result::device::total_mem(device) }.doing(doing)?,
        driver,
    })
}

/// Whether device `ordinal` exists and this program has kernels for it; opens nothing.
///
/// # Errors
/// `Device` with what is missing and how to get it.
pub fn usable(ordinal: usize) -> Result<(), CoreError> {
    select(ordinal).map(drop)
}

/// The device and its architecture.
fn select(ordinal: usize) -> Result<(DeviceInfo, Arch), CoreError> {
    let mut all = devices()?;
    if ordinal >= all.len() {
        return Err(CoreError::Device {
            doing: format!("opening CUDA device {ordinal}"),
            reason: format!("there are {} devices", all.len()),
        });
    }
    let info = all.swap_remove(ordinal);
    let refuse = |reason: String| {
        Err(CoreError::Device { doing: format!("opening CUDA device {ordinal} ({})", info.name), reason })
    };
    let (major, minor) = info.compute_capability;
    let Some(arch) = Arch::of_compute_capability(major, minor) else {
        let known: alloc::vec::Vec<&str> = Arch::ALL.iter().map(|a| a.name()).collect();
        return refuse(format!(
            "it has compute capability {major}.{minor}, for which there are no kernels (there are for {}); use \
             --device cpu",
            known.join(", ")
        ));
    };
    if let Some(why) = kernels_sys::absent() {
        return refuse(format!("the kernels were not built: {why}"));
    }
    Ok((info, arch))
}

/// A device's primary context with the stream on which everything runs.
pub(super) struct Driver {
    pub info: DeviceInfo,
    pub arch: Arch,
    pub stream: sys::CUstream,
    context: sys::CUcontext,
    device: sys::CUdevice,
}

// SAFETY: contexts and streams may be used from any thread that makes the context current, which every entry point
// does through `bind`.
unsafe impl Send for Driver {}

impl Driver {
    pub fn open(ordinal: usize) -> Result<Self, CoreError> {
        let (info, arch) = select(ordinal)?;
        let doing = || format!("opening CUDA device {ordinal} ({})", info.name);
        let device = result::device::get(ordinal as i32).doing(doing)?;
        // SAFETY: the device handle is the driver's own; the context is released in `drop`.
        let context = unsafe { result::primary_ctx::retain(device) }.doing(doing)?;
        let mut driver = Self { arch, stream: core::ptr::null_mut(), context, device, info: info.clone() };
        driver.bind()?;
        driver.stream = result::stream::create(result::stream::StreamKind::NonBlocking).doing(doing)?;
        Ok(driver)
    }

    /// Makes the context current on the calling thread.
    pub fn bind(&self) -> Result<(), CoreError> {
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { result::ctx::set_current(self.context) }.doing(|| "making the device current".to_string())
    }

    /// Waits until everything on the stream is done; faults of kernels show here.
    pub fn synchronize(&self, doing: impl FnOnce() -> String) -> Result<(), CoreError> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.stream) }.doing(doing)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // After a fault the driver refuses these calls too; there is nothing left to free then.
        // SAFETY: the stream and the context are ours and nothing uses them after this.
        unsafe {
            if !self.stream.is_null() {
                let _ = result::stream::destroy(self.stream);
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

/// Device memory of one space.
pub(super) struct DeviceMemory {
    pub address: u64,
    pub bytes: usize,
}

impl DeviceMemory {
    /// Allocates; with `zero` the bytes are set to 0, otherwise they are whatever they were (the virtual GPU then knows
    /// that they hold nothing and reports who reads them).
    pub fn new(driver: &Driver, space: &'static str, bytes: usize, zero: bool) -> Result<Self, CoreError> {
        if bytes == 0 {
            return Ok(Self { address: 0, bytes });
        }
        // SAFETY: plain allocation, freed in `drop`.
        let address = match unsafe { result::malloc_sync(bytes) } {
            Ok(address) => address,
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                let free = result::mem_get_info().ok().map(|(free, _)| free);
                return Err(CoreError::OutOfMemory { space, bytes, free });
            }
            Err(error) => return Err(device_error(format!("allocating {bytes} bytes for {space}"), error)),
        };
        if zero {
            // SAFETY: the allocation is `bytes` long.
            unsafe { result::memset_d8_async(address, 0, bytes, driver.stream) }
                .doing(|| format!("clearing {bytes} bytes of {space}"))?;
        }
        Ok(Self { address, bytes })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated in `new`, freed once. A driver that refuses after a fault has freed everything.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Page-locked host memory, through which copies run beside the host.
pub(super) struct PinnedMemory {
    pub pointer: *mut u8,
    pub bytes: usize,
}

// SAFETY: plain memory that is used through `&mut` or after the copy that fills it is done.
unsafe impl Send for PinnedMemory {}

impl PinnedMemory {
    pub fn new(bytes: usize) -> Result<Self, CoreError> {
        // SAFETY: plain allocation, freed in `drop`.
        let pointer = unsafe { result::malloc_host(bytes.max(1), 0) }
            .doing(|| format!("allocating {bytes} bytes of page-locked host memory"))?;
        Ok(Self { pointer: pointer.cast::<u8>(), bytes })
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once.
        let _ = unsafe { result::free_host(self.pointer.cast::<c_void>()) };
    }
}
