//! Memory beyond 2^31 and 2^32 bytes and elements, which takes room only where it is touched.

mod driver_process;

use cudarc::driver::sys::*;
use driver_process::{function, isolated, load, ok, start, stream, word};
use std::ffi::c_void;
use std::ptr::null_mut;

const PTX: &str = concat!(include_str!("driver_data/kernels.ptx"), "\0");
/// What the tests may take of the host's memory, in bytes.
const MOST_RESIDENT: u64 = 1 << 30;

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("the state of this process");
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

/// Writes a word through a kernel, a fill and a copy at this word index, and reads them back.
fn use_far(base: CUdeviceptr, index: i64, s: CUstream) {
    // SAFETY: places of this function, device addresses inside the caller's allocation.
    unsafe {
        let at = base + 4 * index as u64;
        let module = load(PTX.as_bytes());
        let f = function(module, c"write_at");
        let (mut p, mut i) = (base, index);
        let mut arguments = [(&raw mut p).cast::<c_void>(), (&raw mut i).cast()];
        ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, arguments.as_mut_ptr(), null_mut()));
        ok(cuMemsetD32Async(at + 4, 77, 1, s));
        ok(cuMemcpyDtoDAsync_v2(at + 8, at, 8, s));
        ok(cuStreamSynchronize(s));
        assert_eq!([0, 4, 8, 12].map(|o| word(at + o)), [1, 77, 1, 77], "index {index}");
        ok(cuModuleUnload(module));
    }
}

#[test]
fn offsets_beyond_32_bits_cost_no_memory() {
    if isolated("offsets_beyond_32_bits_cost_no_memory", &[("LIGHTNING_SIM_MEMORY", "64G")]).is_some() {
        return;
    }
    start();
    let s = stream();
    let words = (1i64 << 33) + (1 << 20);
    let mut p = 0;
    // SAFETY: places of this function.
    unsafe {
        let (mut free, mut total) = (0, 0);
        ok(cuMemGetInfo_v2(&mut free, &mut total));
        let before = free;
        ok(cuMemAlloc_v2(&mut p, 4 * words as usize));
        for index in [0, (1 << 29) - 1, (1 << 30) - 2, (1 << 31) + 5, (1 << 32) - 3, 1 << 33, words - 4] {
            use_far(p, index, s);
        }
        ok(cuMemGetInfo_v2(&mut free, &mut total));
        assert!(total == 64 << 30 && free < 32 << 30, "{free} of {total}");
        ok(cuMemFree_v2(p));
        ok(cuMemGetInfo_v2(&mut free, &mut total));
        assert_eq!(free, before);
    }
    assert!(resident() < MOST_RESIDENT, "{} bytes", resident());
}

#[test]
fn mapped_memory_may_be_as_large() {
    if isolated("mapped_memory_may_be_as_large", &[("LIGHTNING_SIM_MEMORY", "64G")]).is_some() {
        return;
    }
    start();
    let s = stream();
    let bytes = 20usize << 30;
    // SAFETY: places of this function.
    unsafe {
        let mut prop: CUmemAllocationProp = std::mem::zeroed();
        prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let (mut handle, mut base) = (0, 0);
        ok(cuMemCreate(&mut handle, bytes, &prop, 0));
        ok(cuMemAddressReserve(&mut base, 2 * bytes, 0, 0, 0));
        ok(cuMemMap(base + bytes as u64, bytes, 0, handle, 0));
        let access =
            CUmemAccessDesc { location: prop.location, flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        ok(cuMemSetAccess(base + bytes as u64, bytes, &access, 1));
        for index in [0, 1 << 31, (1 << 32) + 7] {
            use_far(base + bytes as u64, index, s);
        }
        ok(cuMemUnmap(base + bytes as u64, bytes));
        ok(cuMemRelease(handle));
        ok(cuMemAddressFree(base, 2 * bytes));
    }
    assert!(resident() < MOST_RESIDENT, "{} bytes", resident());
}
