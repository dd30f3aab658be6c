//! A CUDA driver library, looked at through the few functions that say what it is and what devices it has.
//!
//! The functions are loaded one by one, so that a file that is no driver is an answer and not a crash.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint};
use std::fmt;
use std::mem::ManuallyDrop;

use libloading::{Library, Symbol};

/// What a driver library says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Driver {
    /// CUDA version that it supports, such as (13, 0).
    pub cuda: (u32, u32),
    /// Its devices, in their order; empty when none is visible.
    pub devices: Vec<Device>,
}

/// A device of a driver.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Name, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Whether the virtual GPU pretends it.
    pub is_virtual: bool,
    /// Major and minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Device memory in bytes.
    pub memory: u64,
    /// Largest shared memory of a block in bytes.
    pub shared_per_block: u32,
}

/// Why a library tells nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum DriverError {
    /// There is no such library, or it cannot be loaded.
    Absent(String),
    /// It lacks a function of the driver API.
    NoDriver(&'static str),
    /// A function failed.
    Refused {
        /// The function.
        function: &'static str,
        /// Name and number of the error.
        error: String,
    },
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(why) => f.write_str(why),
            Self::NoDriver(function) => write!(f, "it is no CUDA driver library: it has no {function}"),
            Self::Refused { function, error } => write!(f, "{function} fails with {error}"),
        }
    }
}

impl std::error::Error for DriverError {}

const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const MULTIPROCESSOR_COUNT: c_int = 16;
const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
const NO_DEVICE: c_int = 100;

/// Asks the library of this name or path. `cuInit` is the only call that changes anything.
///
/// # Errors
/// See [`DriverError`]. A driver without devices is no error.
pub fn ask(library: impl AsRef<OsStr>) -> Result<Driver, DriverError> {
    // SAFETY: loading runs the start-up code of the library, which is the user's own driver or virtual driver.
    let library = unsafe { Library::new(library.as_ref()) }.map_err(|e| DriverError::Absent(e.to_string()))?;
    // A driver keeps threads and exit handlers of its own: it stays until the process ends.
    let library = ManuallyDrop::new(library);
    let asked = Asked { library: &library };
    match asked.init() {
        Err(DriverError::Refused { error, .. }) if error.ends_with(&format!("({NO_DEVICE})")) => {
            return Ok(Driver { cuda: asked.version()?, devices: Vec::new() });
        }
        other => other?,
    }
    let cuda = asked.version()?;
    let devices = (0..asked.count()?).map(|ordinal| asked.device(ordinal)).collect::<Result<_, _>>()?;
    Ok(Driver { cuda, devices })
}

struct Asked<'l> {
    library: &'l Library,
}

impl Asked<'_> {
    /// A function of the library; `T` is its type in `cuda.h`.
    fn function<T>(&self, name: &'static str) -> Result<Symbol<'_, T>, DriverError> {
        // SAFETY: every caller gives the type that the driver API documents for the name.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|_| DriverError::NoDriver(name))
    }

    fn check(&self, function: &'static str, status: c_int) -> Result<(), DriverError> {
        if status == 0 {
            return Ok(());
        }
        let mut name: *const c_char = std::ptr::null();
        let get = self.function::<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>("cuGetErrorName")?;
        // SAFETY: writes one pointer of ours, to a constant text of the library or to null.
        let known = unsafe { get(status, &mut name) } == 0 && !name.is_null();
        // SAFETY: as the driver API says, a text that lives as long as the library.
        let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy() } else { "an unknown error".into() };
        Err(DriverError::Refused { function, error: format!("{name} ({status})") })
    }

    fn init(&self) -> Result<(), DriverError> {
        let call = self.function::<unsafe extern "C" fn(c_uint) -> c_int>("cuInit")?;
        // SAFETY: takes flags, which must be 0.
        self.check("cuInit", unsafe { call(0) })
    }

    /// Calls a function that writes one integer.
    fn number(&self, name: &'static str) -> Result<u32, DriverError> {
        let call = self.function::<unsafe extern "C" fn(*mut c_int) -> c_int>(name)?;
        let mut number = 0;
        // SAFETY: writes one integer of ours.
        self.check(name, unsafe { call(&mut number) })?;
        Ok(u32::try_from(number).unwrap_or(0))
    }

    fn version(&self) -> Result<(u32, u32), DriverError> {
        self.number("cuDriverGetVersion").map(|v| (v / 1000, v % 1000 / 10))
    }

    fn count(&self) -> Result<u32, DriverError> {
        self.number("cuDeviceGetCount")
    }

    fn device(&self, ordinal: u32) -> Result<Device, DriverError> {
        let mut device: c_int = 0;
        let get = self.function::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>("cuDeviceGet")?;
        // SAFETY: writes one integer of ours.
        self.check("cuDeviceGet", unsafe { get(&mut device, ordinal as c_int) })?;

        let mut text = [0u8; 256];
        let name = self.function::<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int>("cuDeviceGetName")?;
        // SAFETY: writes at most the length that it is told, with a NUL.
        self.check("cuDeviceGetName", unsafe { name(text.as_mut_ptr().cast(), text.len() as c_int, device) })?;
        let name = CStr::from_bytes_until_nul(&text).map_or(String::new(), |n| n.to_string_lossy().into_owned());

        let mut uuid = [0u8; 16];
        let get = self.function::<unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int>("cuDeviceGetUuid_v2")?;
        // SAFETY: writes 16 bytes of ours.
        self.check("cuDeviceGetUuid_v2", unsafe { get(&mut uuid, device) })?;

        let mut memory = 0usize;
        let total = self.function::<unsafe extern "C" fn(*mut usize, c_int) -> c_int>("cuDeviceTotalMem_v2")?;
        // SAFETY: writes one integer of ours.
        self.check("cuDeviceTotalMem_v2", unsafe { total(&mut memory, device) })?;

        let get = self.function::<unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int>("cuDeviceGetAttribute")?;
        let attribute = |which: c_int| {
            let mut value: c_int = 0;
            // SAFETY: writes one integer of ours.
            self.check("cuDeviceGetAttribute", unsafe { get(&mut value, which, device) })?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        Ok(Device {
            name,
            // The virtual driver's devices say so in their UUID; name and attributes are those of the real device.
            is_virtual: uuid.starts_with(b"ptx-sim"),
            compute_capability: (attribute(COMPUTE_CAPABILITY_MAJOR)?, attribute(COMPUTE_CAPABILITY_MINOR)?),
            multiprocessors: attribute(MULTIPROCESSOR_COUNT)?,
            memory: memory as u64,
            shared_per_block: attribute(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        })
    }
}
