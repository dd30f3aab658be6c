//! Contexts: primary and own, the stack of each thread, limits, synchronisation.

use super::capture;
use super::entry::explain;
use super::handles::lock;
use super::pointers::{Handle, In, Out};
use super::state::{self, Primary, current, current_even_if_lost, driver};
use super::status::{Outcome, Status};
use super::stream::PRIORITY_RANGE;

/// Accepted context flags: scheduling (0, 1, 2, 4), map host, resize local memory, coredumps, synchronous memory operations.
fn check_flags(flags: u32) -> Outcome {
    if flags & !0xff != 0 || !matches!(flags & 7, 0 | 1 | 2 | 4) { Err(Status::INVALID_VALUE) } else { Ok(()) }
}

fn default_limit(limit: i32) -> Outcome<usize> {
    match limit {
        0 => Ok(1024),
        1 => Ok(8 << 20),
        2 => Ok(8 << 20),
        3 => Ok(2),
        4 => Ok(2048),
        5 => Ok(128),
        6 => Ok(0),
        7..=9 => Err(Status::UNSUPPORTED_LIMIT),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn create(context: Out<Handle>, flags: u32, device: i32) -> Outcome {
    context.check()?;
    check_flags(flags)?;
    let d = driver()?;
    let device = d.device(device)?.ordinal;
    let c = d.create_context(device, flags, false);
    state::push(c.handle);
    context.set(c.handle)
}

fn synchronise(handle: Option<Handle>) -> Outcome {
    let d = driver()?;
    let c = match handle {
        Some(h) => d.contexts.find(h).ok_or(Status::INVALID_CONTEXT)?,
        None => current()?,
    };
    c.usable()?;
    capture::refuse_context_wait(d, c.handle)
}

super::entry::api! {
    /// Retains the primary context of a device, creating it when needed. Does not make it current.
    fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: i32) {
        context.check()?;
        let d = driver()?;
        let device = d.device(device)?;
        let mut p = lock(&device.primary);
        let h = match p.context {
            Some(h) => h,
            None => d.create_context(device.ordinal, p.flags, true).handle,
        };
        p.context = Some(h);
        p.count += 1;
        context.set(h)
    }

    /// Releases the primary context; the last release destroys it.
    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let d = driver()?;
        let device = d.device(device)?;
        let mut p = lock(&device.primary);
        if p.count == 0 {
            return Err(Status::INVALID_CONTEXT);
        }
        p.count -= 1;
        let gone = if p.count == 0 { p.context.take() } else { None };
        drop(p);
        gone.map_or(Ok(()), |h| d.destroy_context(h))
    }

    /// Destroys the primary context with all its state; a lost context is usable again after the next retain.
    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        let d = driver()?;
        let device = d.device(device)?;
        let gone = {
            let mut p = lock(&device.primary);
            let flags = p.flags;
            let old = std::mem::replace(&mut *p, Primary { context: None, count: 0, flags });
            old.context
        };
        gone.map_or(Ok(()), |h| d.destroy_context(h))
    }

    /// Flags of the primary context, for its next creation or at once.
    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        check_flags(flags)?;
        let d = driver()?;
        let mut p = lock(&d.device(device)?.primary);
        p.flags = flags;
        if let Some(c) = p.context.and_then(|h| d.contexts.find(h)) {
            *lock(&c.flags) = flags;
        }
        Ok(())
    }

    /// Flags and activity of the primary context.
    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) {
        flags.check()?;
        active.check()?;
        let p = lock(&driver()?.device(device)?.primary);
        flags.set(p.flags)?;
        active.set(p.context.is_some() as i32)
    }

    /// Creates a context and makes it current. Execution affinity and graphics sharing are not available.
    fn cuCtxCreate_v4(context: Out<Handle>, params: In<[usize; 3]>, flags: u32, device: i32) {
        if !params.is_null() && params.get()? != [0; 3] {
            explain("cuCtxCreate_v4: execution affinity and graphics sharing are not available on a virtual device; pass null");
            return Err(Status::NOT_SUPPORTED);
        }
        create(context, flags, device)
    }

    /// Creates a context and makes it current.
    fn cuCtxCreate_v3(context: Out<Handle>, _affinity: In<[u32; 2]>, count: i32, flags: u32, device: i32) {
        if count != 0 {
            return Err(Status::UNSUPPORTED_EXEC_AFFINITY);
        }
        create(context, flags, device)
    }

    /// Creates a context and makes it current.
    fn cuCtxCreate_v2(context: Out<Handle>, flags: u32, device: i32) {
        create(context, flags, device)
    }

    /// Destroys a context. The primary context must be released instead.
    fn cuCtxDestroy_v2(context: Handle) {
        let d = driver()?;
        let c = d.contexts.find(context).ok_or(Status::INVALID_CONTEXT)?;
        if c.primary {
            return Err(Status::INVALID_CONTEXT);
        }
        d.destroy_context(context)
    }

    /// Pushes a context on the thread's stack.
    fn cuCtxPushCurrent_v2(context: Handle) {
        driver()?.contexts.find(context).ok_or(Status::INVALID_CONTEXT)?;
        state::push(context);
        Ok(())
    }

    /// Pops the thread's context.
    fn cuCtxPopCurrent_v2(context: Out<Handle>) {
        driver()?;
        context.set_if_wanted(state::pop()?);
        Ok(())
    }

    /// Replaces the thread's context; null leaves the thread without the one on top.
    fn cuCtxSetCurrent(context: Handle) {
        let d = driver()?;
        if context != Handle::NULL {
            d.contexts.find(context).ok_or(Status::INVALID_CONTEXT)?;
        }
        state::set_top(context);
        Ok(())
    }

    /// The thread's context, null when there is none.
    fn cuCtxGetCurrent(context: Out<Handle>) {
        driver()?;
        context.set(state::stack_top())
    }

    /// Device of the current context.
    fn cuCtxGetDevice(device: Out<i32>) {
        device.check()?;
        device.set(current_even_if_lost()?.device as i32)
    }

    /// Device of a context.
    fn cuCtxGetDevice_v2(device: Out<i32>, context: Handle) {
        device.check()?;
        let d = driver()?;
        if context == Handle::NULL {
            return device.set(current_even_if_lost()?.device as i32);
        }
        device.set(d.contexts.find(context).ok_or(Status::INVALID_CONTEXT)?.device as i32)
    }

    /// Flags of the current context.
    fn cuCtxGetFlags(flags: Out<u32>) {
        flags.check()?;
        flags.set(*lock(&current()?.flags))
    }

    /// Sets flags of the current context.
    fn cuCtxSetFlags(flags: u32) {
        check_flags(flags)?;
        *lock(&current()?.flags) = flags;
        Ok(())
    }

    /// Number of a context, unique in the process.
    fn cuCtxGetId(context: Handle, id: Out<u64>) {
        id.check()?;
        let c = if context == Handle::NULL { current()?.handle } else { context };
        driver()?.contexts.find(c).ok_or(Status::CONTEXT_IS_DESTROYED)?;
        id.set(c.0 as u64)
    }

    /// API version of a context.
    fn cuCtxGetApiVersion(context: Handle, version: Out<u32>) {
        version.check()?;
        if context != Handle::NULL {
            driver()?.contexts.find(context).ok_or(Status::INVALID_CONTEXT)?;
        }
        version.set(3020)
    }

    /// Waits for all work of the current context and reports its sticky error.
    fn cuCtxSynchronize() {
        synchronise(None)
    }

    /// Waits for all work of a context.
    fn cuCtxSynchronize_v2(context: Handle) {
        synchronise(if context == Handle::NULL { None } else { Some(context) })
    }

    /// A limit of the current context.
    fn cuCtxGetLimit(value: Out<usize>, limit: i32) {
        value.check()?;
        let c = current()?;
        let default = default_limit(limit)?;
        value.set(lock(&c.limits).get(&limit).copied().unwrap_or(default))
    }

    /// Sets a limit. Limits are kept and reported; only the device's own bounds are enforced.
    fn cuCtxSetLimit(limit: i32, value: usize) {
        let c = current()?;
        default_limit(limit)?;
        lock(&c.limits).insert(limit, value);
        Ok(())
    }

    /// Cache preference of the current context.
    fn cuCtxGetCacheConfig(config: Out<i32>) {
        config.check()?;
        config.set(*lock(&current()?.cache_config))
    }

    /// Sets the cache preference, which has no effect.
    fn cuCtxSetCacheConfig(config: i32) {
        if !(0..=3).contains(&config) {
            return Err(Status::INVALID_VALUE);
        }
        *lock(&current()?.cache_config) = config;
        Ok(())
    }

    /// Resets persisting lines of the L2 cache, which is not modelled.
    fn cuCtxResetPersistingL2Cache() {
        current().map(|_| ())
    }

    /// Least and greatest stream priority.
    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        current()?;
        least.set_if_wanted(PRIORITY_RANGE.0);
        greatest.set_if_wanted(PRIORITY_RANGE.1);
        Ok(())
    }
}
