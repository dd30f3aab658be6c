//! Runs a test in a process of its own in which the built library is the CUDA driver.
//!
//! A program finds `libcuda` through the dynamic loader, so the search path must be set before it starts, and a driver
//! keeps state for the whole process. Each test therefore starts its own executable again, for that test alone.

#![allow(dead_code)] // Every test file compiles this module for itself and uses its part.

use cudarc::driver::sys::{CUdeviceptr, CUevent, CUresult, CUstream, *};
use std::path::PathBuf;
use std::process::{Command, Output};

const CHILD: &str = "PTX_SIM_TEST_CHILD";

/// The library that cargo built beside this test.
fn library() -> PathBuf {
    let exe = std::env::current_exe().expect("the test's own path");
    let deps = exe.parent().expect("a folder");
    let candidates = [deps.join("libptx_sim.so"), deps.join("../libptx_sim.so")];
    candidates
        .into_iter()
        .find(|p| p.exists())
        .expect("libptx_sim.so beside the tests; build the package with its cdylib")
}

/// A folder in which the library has the names that programs look for.
fn folder() -> PathBuf {
    let library = library().canonicalize().expect("the library's path");
    let folder = library.parent().expect("a folder").join("libcuda-for-tests");
    std::fs::create_dir_all(&folder).expect("a folder for links");
    for name in ["libcuda.so", "libcuda.so.1"] {
        let link = folder.join(name);
        if std::fs::read_link(&link).ok().as_deref() != Some(library.as_path()) {
            // Another test, of this process or another, may make the same link at the same moment: make it aside under
            // a name of its own and rename.
            static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let aside = folder.join(format!("{name}.{}.{number}", std::process::id()));
            let _ = std::fs::remove_file(&aside);
            std::os::unix::fs::symlink(&library, &aside).expect("a link");
            std::fs::rename(&aside, &link).expect("a link");
        }
    }
    folder
}

/// Runs test `name` in a child with the given variables. Returns `None` in the child, which then runs the test's body,
/// and the child's output in the parent.
pub fn child(name: &str, variables: &[(&str, &str)]) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let exe = std::env::current_exe().expect("the test's own path");
    let mut command = Command::new(exe);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    for (k, _) in std::env::vars().filter(|(k, _)| k.starts_with("LIGHTNING_SIM") || k == "CUDA_VISIBLE_DEVICES") {
        command.env_remove(k);
    }
    command.env(CHILD, "1").env("LD_LIBRARY_PATH", folder()).env("LIGHTNING_SIM_MEMORY", "1G");
    command.envs(variables.iter().copied());
    Some(command.output().expect("the test starts again"))
}

/// In the parent: runs the child, requires success, returns its standard error. In the child: `None`.
pub fn isolated(name: &str, variables: &[(&str, &str)]) -> Option<String> {
    let output = child(name, variables)?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} failed in its process\n{out}\n{err}");
    assert!(out.contains("1 passed"), "{name} did not run\n{out}");
    Some(err.into_owned())
}

/// Requires success.
pub fn ok(r: CUresult) {
    assert_eq!(r, CUresult::CUDA_SUCCESS);
}

/// Initialises the driver and makes the primary context of device 0 current.
pub fn start() -> CUcontext {
    let mut c = std::ptr::null_mut();
    // SAFETY: plain values and places of this function.
    unsafe {
        ok(cuInit(0));
        ok(cuDevicePrimaryCtxRetain(&mut c, 0));
        ok(cuCtxSetCurrent(c));
    }
    c
}

/// A stream that does not wait for the legacy stream.
pub fn stream() -> CUstream {
    let mut s = std::ptr::null_mut();
    // SAFETY: a place of this function.
    ok(unsafe { cuStreamCreate(&mut s, 1) });
    s
}

/// An event without timing.
pub fn event() -> CUevent {
    let mut e = std::ptr::null_mut();
    // SAFETY: a place of this function.
    ok(unsafe { cuEventCreate(&mut e, 2) });
    e
}

/// `n` zeroed 32-bit words on the device.
pub fn words(n: usize) -> CUdeviceptr {
    let mut p = 0;
    // SAFETY: a place of this function.
    unsafe {
        ok(cuMemAlloc_v2(&mut p, 4 * n));
        ok(cuMemsetD32_v2(p, 0, n));
    }
    p
}

/// The 32-bit word at a device address.
pub fn word(p: CUdeviceptr) -> u32 {
    let mut v = 0u32;
    // SAFETY: a place of this function.
    ok(unsafe { cuMemcpyDtoH_v2((&raw mut v).cast(), p, 4) });
    v
}

/// A module from an image.
pub fn load(image: &[u8]) -> CUmodule {
    let mut m = std::ptr::null_mut();
    // SAFETY: a place of this function and a whole image.
    ok(unsafe { cuModuleLoadData(&mut m, image.as_ptr().cast()) });
    m
}

/// A kernel of a module.
pub fn function(module: CUmodule, name: &std::ffi::CStr) -> CUfunction {
    let mut f = std::ptr::null_mut();
    // SAFETY: a place of this function.
    ok(unsafe { cuModuleGetFunction(&mut f, module, name.as_ptr()) });
    f
}
