//! What can be wrong with an address or an allocation.

use std::fmt;

/// What is known of one live allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationInfo {
    /// First address.
    pub base: u64,
    /// Size in bytes as asked for.
    pub bytes: u64,
    /// Device that owns it; `None` for registered host memory.
    pub device: Option<usize>,
}

/// Why host or device code may not touch an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// The device has not enough free memory.
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes free.
        free: u64,
        /// Device.
        device: usize,
    },
    /// No such device.
    NoDevice {
        /// Ordinal asked for.
        device: usize,
        /// Number of devices.
        devices: usize,
    },
    /// `bytes` from `address` are not all within one live allocation.
    OutOfBounds {
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
        /// Closest live allocation: base and size.
        nearest: Option<(u64, u64)>,
    },
    /// The address lies in an allocation that was freed.
    UseAfterFree {
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
        /// Base and size of the freed allocation.
        freed: (u64, u64),
    },
    /// The pointer given to free is not the base of a live allocation.
    NotAnAllocation {
        /// The pointer.
        address: u64,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::OutOfMemory { asked, free, device } => {
                write!(
                    f,
                    "device {device} has {free} bytes free, {asked} were asked for; free something or raise LIGHTNING_SIM_MEMORY"
                )
            }
            MemoryError::NoDevice { device, devices } => {
                write!(f, "device {device} does not exist, there are {devices}; set LIGHTNING_SIM_DEVICES")
            }
            MemoryError::OutOfBounds { address, bytes, nearest } => {
                write!(f, "{bytes} bytes at {address:#x} are outside every allocation")?;
                if let Some((base, len)) = nearest {
                    let end = base + len;
                    if *address >= *base && *address < end {
                        write!(
                            f,
                            "; the allocation {base:#x} of {len} bytes ends {} bytes before the access does",
                            address + bytes - end
                        )?;
                    } else if *address >= end {
                        write!(f, "; {} bytes past the end of the allocation {base:#x} of {len} bytes", address - end)?;
                    } else {
                        write!(f, "; {} bytes before the allocation {base:#x} of {len} bytes", base - address)?;
                    }
                }
                Ok(())
            }
            MemoryError::UseAfterFree { address, bytes, freed } => {
                write!(
                    f,
                    "{bytes} bytes at {address:#x} lie in the allocation {:#x} of {} bytes, which was freed",
                    freed.0, freed.1
                )
            }
            MemoryError::NotAnAllocation { address } => {
                write!(
                    f,
                    "{address:#x} is not the start of a live allocation; pass the pointer that allocation returned, once"
                )
            }
        }
    }
}

impl std::error::Error for MemoryError {}
