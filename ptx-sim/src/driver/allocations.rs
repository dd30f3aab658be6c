//! Who allocated what: the ledger behind `cuMemFree`, `cuPointerGetAttribute` and the destruction of contexts.

use super::handles::lock;
use super::pointers::Handle;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// How memory was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `cuMemAlloc`, `cuMemAllocPitch`, module-independent device memory.
    Device,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemAllocAsync` from a pool.
    Pool(Handle),
    /// `cuMemMap`.
    Mapped,
    /// Memory of a graph allocation node.
    Graph,
    /// `cuMemHostAlloc`, `cuMemAllocHost`.
    HostAlloc {
        /// Flags of the call.
        flags: u32,
    },
    /// `cuMemHostRegister`.
    HostRegister {
        /// Flags of the call.
        flags: u32,
    },
}

impl Origin {
    /// Whether the memory is host memory.
    pub fn is_host(self) -> bool {
        matches!(self, Origin::HostAlloc { .. } | Origin::HostRegister { .. })
    }
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// First address.
    pub base: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Owning context.
    pub context: Handle,
    /// Device ordinal of the owning context.
    pub device: usize,
    /// How it was made.
    pub origin: Origin,
    /// Number of this allocation in the process, for `CU_POINTER_ATTRIBUTE_BUFFER_ID`.
    pub id: u64,
    /// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`.
    pub sync_memops: bool,
}

/// The ledger.
#[derive(Default)]
pub struct Allocations {
    records: Mutex<(u64, BTreeMap<u64, Record>)>,
}

impl Allocations {
    /// Notes an allocation.
    pub fn add(&self, base: u64, bytes: u64, context: Handle, device: usize, origin: Origin) {
        let mut r = lock(&self.records);
        r.0 += 1;
        let id = r.0;
        r.1.insert(base, Record { base, bytes, context, device, origin, id, sync_memops: false });
    }

    /// The allocation that contains an address.
    pub fn containing(&self, address: u64) -> Option<Record> {
        let r = lock(&self.records);
        let (_, rec) = r.1.range(..=address).next_back()?;
        (address - rec.base < rec.bytes.max(1)).then_some(*rec)
    }

    /// The allocation that begins at an address.
    pub fn at(&self, base: u64) -> Option<Record> {
        lock(&self.records).1.get(&base).copied()
    }

    /// Takes out the allocation that begins at an address, if `accept` agrees.
    pub fn take(&self, base: u64, accept: impl Fn(&Record) -> bool) -> Option<Record> {
        let mut r = lock(&self.records);
        if r.1.get(&base).is_some_and(accept) { r.1.remove(&base) } else { None }
    }

    /// Sets `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS` of the allocation that contains an address.
    pub fn set_sync_memops(&self, address: u64, on: bool) -> bool {
        let mut r = lock(&self.records);
        match r.1.range_mut(..=address).next_back() {
            Some((_, rec)) if address - rec.base < rec.bytes.max(1) => {
                rec.sync_memops = on;
                true
            }
            _ => false,
        }
    }

    /// Whether any part of a range belongs to an allocation.
    pub fn overlaps(&self, base: u64, bytes: u64) -> bool {
        let r = lock(&self.records);
        r.1.range(..base + bytes.max(1)).next_back().is_some_and(|(_, rec)| rec.base + rec.bytes.max(1) > base)
    }

    /// Takes out all device memory of a context and returns the addresses. Pinned and mapped memory outlives it.
    pub fn take_all_of(&self, context: Handle) -> Vec<u64> {
        let mut r = lock(&self.records);
        let gone: Vec<u64> =
            r.1.values()
                .filter(|v| v.context == context && !v.origin.is_host() && v.origin != Origin::Mapped)
                .map(|v| v.base)
                .collect();
        for a in &gone {
            r.1.remove(a);
        }
        gone
    }
}
