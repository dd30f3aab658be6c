//! Tables of objects behind opaque handles. A handle that is not in its table is answered with
//! `CUDA_ERROR_INVALID_HANDLE` (or what the function documents), never dereferenced.

use super::pointers::Handle;
use super::status::{Outcome, Status};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Locks a mutex; what it guards stays consistent even when a holder panicked, because every update is one assignment.
pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Handles are spaced like pointers and start above the special stream handles 1 and 2.
static NEXT: AtomicUsize = AtomicUsize::new(0x51_0000_0000);

/// A fresh handle, unique in the process.
pub fn fresh() -> Handle {
    Handle(NEXT.fetch_add(64, Ordering::Relaxed))
}

/// Objects of one kind.
pub struct Table<T> {
    entries: Mutex<BTreeMap<Handle, Arc<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { entries: Mutex::new(BTreeMap::new()) }
    }
}

impl<T> Table<T> {
    /// Adds an object that is built from its own handle.
    pub fn add(&self, build: impl FnOnce(Handle) -> T) -> (Handle, Arc<T>) {
        let h = fresh();
        let object = Arc::new(build(h));
        lock(&self.entries).insert(h, object.clone());
        (h, object)
    }

    /// Adds an object that was made with a handle from [`fresh`]; a second time changes nothing.
    pub fn adopt(&self, h: Handle, object: Arc<T>) {
        lock(&self.entries).entry(h).or_insert(object);
    }

    /// The object of a handle.
    pub fn find(&self, h: Handle) -> Option<Arc<T>> {
        lock(&self.entries).get(&h).cloned()
    }

    /// The object of a handle, or `CUDA_ERROR_INVALID_HANDLE`.
    pub fn get(&self, h: Handle) -> Outcome<Arc<T>> {
        self.find(h).ok_or(Status::INVALID_HANDLE)
    }

    /// Takes an object out.
    pub fn remove(&self, h: Handle) -> Outcome<Arc<T>> {
        lock(&self.entries).remove(&h).ok_or(Status::INVALID_HANDLE)
    }

    /// Drops the objects for which `keep` is false.
    pub fn retain(&self, keep: impl Fn(&T) -> bool) {
        let dropped: Vec<Arc<T>> = {
            let mut entries = lock(&self.entries);
            let gone: Vec<Handle> = entries.iter().filter(|(_, v)| !keep(v)).map(|(k, _)| *k).collect();
            gone.iter().filter_map(|h| entries.remove(h)).collect()
        };
        drop(dropped);
    }

    /// All objects at this moment.
    pub fn all(&self) -> Vec<Arc<T>> {
        lock(&self.entries).values().cloned().collect()
    }
}
