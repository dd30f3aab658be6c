//! Memory through the C API: strided copies, fills, pinned and managed memory, pools, pointers, virtual memory.

mod driver_process;

use cudarc::driver::sys::{self, CUresult, *};
use driver_process::{isolated, ok, start};
use std::ffi::c_void;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

fn alloc(bytes: usize) -> CUdeviceptr {
    let mut p = 0;
    // SAFETY: a place of this function.
    ok(unsafe { cuMemAlloc_v2(&mut p, bytes) });
    p
}

fn read(p: CUdeviceptr, n: usize) -> Vec<u8> {
    let mut v = vec![0u8; n];
    // SAFETY: the vector has `n` bytes.
    ok(unsafe { cuMemcpyDtoH_v2(v.as_mut_ptr().cast(), p, n) });
    v
}

fn write(p: CUdeviceptr, v: &[u8]) {
    // SAFETY: the slice has the length given.
    ok(unsafe { cuMemcpyHtoD_v2(p, v.as_ptr().cast(), v.len()) });
}

#[test]
fn fills_of_every_width_in_one_and_two_dimensions() {
    if isolated("fills_of_every_width_in_one_and_two_dimensions", &[]).is_some() {
        return;
    }
    start();
    let null = std::ptr::null_mut();
    let p = alloc(64 * 16);
    // SAFETY: device addresses of `p` and values.
    unsafe {
        ok(cuMemsetD8_v2(p, 0xaa, 1024));
        ok(cuMemsetD16_v2(p + 2, 0x1234, 3));
        ok(cuMemsetD32_v2(p + 12, 0xdead_beef, 1));
        assert_eq!(
            read(p, 17),
            [&[0xaa; 2][..], &[0x34, 0x12, 0x34, 0x12, 0x34, 0x12], &[0xaa; 4], &[0xef, 0xbe, 0xad, 0xde], &[0xaa]]
                .concat()
        );
        ok(cuMemsetD2D8_v2(p, 64, 1, 3, 4));
        ok(cuMemsetD2D16_v2(p + 64 * 4, 64, 0x0203, 5, 2));
        ok(cuMemsetD2D32Async(p + 64 * 8, 64, 7, 2, 3, null));
        let v = read(p, 1024);
        for (row, line) in v.chunks(64).enumerate() {
            let head: Vec<u8> = match row {
                0..4 => vec![1; 3],
                4..6 => [3, 2].repeat(5),
                8..11 => [7, 0, 0, 0].repeat(2),
                _ => vec![],
            };
            assert_eq!(line[..head.len()], head, "row {row}");
            if row > 0 {
                assert!(line[head.len()..].iter().all(|b| *b == 0xaa), "row {row}");
            }
        }
        // Addresses and pitches must suit the element; nothing may leave the allocation.
        assert_eq!(cuMemsetD32_v2(p + 2, 0, 1), INVALID);
        assert_eq!(cuMemsetD2D16_v2(p, 63, 0, 4, 2), INVALID);
        assert_eq!(cuMemsetD2D32_v2(p, 8, 0, 4, 2), INVALID);
        assert_eq!(cuMemsetD8_v2(p + 1000, 0, 25), INVALID);
        assert_eq!(cuMemsetD8Async(p + 1000, 0, 25, null), INVALID);
        ok(cuMemsetD8_v2(p, 0, 0));
    }
}

/// A copy of nothing between unified addresses, to be completed.
fn copy_2d() -> CUDA_MEMCPY2D {
    let unified = CUmemorytype::CU_MEMORYTYPE_UNIFIED;
    CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: unified,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: unified,
        dstHost: std::ptr::null_mut(),
        dstDevice: 0,
        dstArray: std::ptr::null_mut(),
        dstPitch: 0,
        WidthInBytes: 0,
        Height: 0,
    }
}

#[test]
fn strided_copies_in_all_directions() {
    if isolated("strided_copies_in_all_directions", &[]).is_some() {
        return;
    }
    start();
    let (p, q) = (alloc(4096), alloc(4096));
    let host: Vec<u8> = (0..4096).map(|i| (i * 31 + i / 256) as u8).collect();
    let mut back = vec![0u8; 4096];
    // SAFETY: descriptions are plain data; the host ranges lie in the vectors.
    unsafe {
        let mut c = copy_2d();
        (c.srcMemoryType, c.srcHost, c.srcPitch, c.srcXInBytes, c.srcY) =
            (CUmemorytype::CU_MEMORYTYPE_HOST, host.as_ptr().cast(), 100, 3, 2);
        (c.dstMemoryType, c.dstDevice, c.dstPitch, c.dstXInBytes, c.dstY) =
            (CUmemorytype::CU_MEMORYTYPE_DEVICE, p, 64, 1, 1);
        (c.WidthInBytes, c.Height) = (20, 7);
        ok(cuMemcpy2D_v2(&c));
        let mut d = copy_2d();
        (d.srcMemoryType, d.srcDevice, d.srcPitch, d.srcXInBytes, d.srcY) =
            (CUmemorytype::CU_MEMORYTYPE_UNIFIED, p, 64, 1, 1);
        (d.dstMemoryType, d.dstDevice, d.dstPitch) = (CUmemorytype::CU_MEMORYTYPE_DEVICE, q, 32);
        (d.WidthInBytes, d.Height) = (20, 7);
        ok(cuMemcpy2DAsync_v2(&d, std::ptr::null_mut()));
        let e = CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: std::ptr::null(),
            srcDevice: q,
            srcArray: std::ptr::null_mut(),
            reserved0: std::ptr::null_mut(),
            srcPitch: 32,
            srcHeight: 3,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            dstHost: back.as_mut_ptr().cast(),
            dstDevice: 0,
            dstArray: std::ptr::null_mut(),
            reserved1: std::ptr::null_mut(),
            dstPitch: 50,
            dstHeight: 4,
            WidthInBytes: 20,
            Height: 3,
            Depth: 2,
        };
        ok(cuMemcpy3D_v2(&e));
        for z in 0..2 {
            for y in 0..3 {
                for x in 0..20 {
                    let row = z * 3 + y;
                    assert_eq!(back[z * 200 + y * 50 + x], host[(2 + row) * 100 + 3 + x], "{x} {y} {z}");
                }
            }
        }
        c.srcPitch = 22;
        assert_eq!(cuMemcpy2D_v2(&c), INVALID);
        (c.srcMemoryType, c.srcPitch) = (CUmemorytype::CU_MEMORYTYPE_ARRAY, 100);
        assert_eq!(cuMemcpy2D_v2(&c), CUresult::CUDA_ERROR_NOT_SUPPORTED);
        assert_eq!(cuMemcpy2D_v2(std::ptr::null()), INVALID);
        // Out of the allocation, freed, and a device address where a host address belongs.
        assert_eq!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), p + 4000, 97), INVALID);
        assert_eq!(cuMemcpyDtoH_v2(q as *mut c_void, p, 4), INVALID);
        assert_eq!(cuMemcpyHtoD_v2(p, std::ptr::null(), 4), INVALID);
        ok(cuMemFree_v2(q));
        assert_eq!(cuMemcpyDtoD_v2(p, q, 4), INVALID);
        assert_eq!(cuMemFree_v2(q), INVALID);
        assert_eq!(cuMemFree_v2(p + 1), INVALID);
        ok(cuMemFree_v2(0));
        ok(cuMemcpy(p, host.as_ptr() as u64, 100));
        assert_eq!(read(p, 100), host[..100]);
        ok(cuMemcpyAsync(back.as_mut_ptr() as u64, p, 100, std::ptr::null_mut()));
        assert_eq!(back[..100], host[..100]);
        let mut zero = 0;
        assert_eq!(cuMemAlloc_v2(&mut zero, 0), INVALID);
        assert_eq!(cuMemAlloc_v2(std::ptr::null_mut(), 4), INVALID);
    }
}

fn attribute<T: Default>(p: u64, a: CUpointer_attribute) -> Result<T, CUresult> {
    let mut v = T::default();
    // SAFETY: `T` has the size of the attribute, which the tests below see to.
    match unsafe { cuPointerGetAttribute((&raw mut v).cast(), a, p) } {
        CUresult::CUDA_SUCCESS => Ok(v),
        e => Err(e),
    }
}

#[test]
fn pointers_tell_what_they_are() {
    if isolated("pointers_tell_what_they_are", &[]).is_some() {
        return;
    }
    use CUpointer_attribute::*;
    start();
    let p = alloc(1000);
    let mut own = vec![0u8; 8192];
    let (mut pinned, mut managed, mut pooled) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: places of this function; `own` outlives its registration.
    unsafe {
        ok(cuMemHostAlloc(&mut pinned, 500, CU_MEMHOSTALLOC_PORTABLE));
        ok(cuMemAllocManaged(&mut managed, 600, 1));
        ok(cuMemAllocAsync(&mut pooled, 700, std::ptr::null_mut()));
        ok(cuMemHostRegister_v2(own.as_mut_ptr().cast(), own.len(), 0));
        assert_eq!(
            cuMemHostRegister_v2(own.as_mut_ptr().add(100).cast(), 10, 0),
            CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
        );
    }
    for (address, kind, start, bytes) in [
        (p + 999, 2, p, 1000),
        (pinned as u64 + 4, 1, pinned as u64, 500),
        (managed, 2, managed, 600),
        (pooled + 10, 2, pooled, 700),
    ] {
        assert_eq!(attribute::<u32>(address, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), Ok(kind));
        assert_eq!(attribute::<u64>(address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), Ok(start));
        assert_eq!(attribute::<usize>(address, CU_POINTER_ATTRIBUTE_RANGE_SIZE), Ok(bytes));
        assert_eq!(attribute::<i32>(address, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL), Ok(0));
        assert_eq!(attribute::<u64>(address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER), Ok(address));
    }
    assert_eq!(attribute::<u8>(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED), Ok(1));
    assert_eq!(attribute::<u64>(p, CU_POINTER_ATTRIBUTE_HOST_POINTER), Err(INVALID));
    assert_eq!(attribute::<u64>(p + 1000, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), Err(INVALID));
    // SAFETY: places and addresses of this function.
    unsafe {
        let (mut base, mut bytes) = (0, 0);
        ok(cuMemGetAddressRange_v2(&mut base, &mut bytes, p + 5));
        assert_eq!((base, bytes), (p, 1000));
        assert_eq!(cuMemGetAddressRange_v2(&mut base, &mut bytes, 12345), CUresult::CUDA_ERROR_NOT_FOUND);
        let (mut kind, mut ordinal) = (9u32, 9i32);
        let mut names = [CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL];
        let mut places = [(&raw mut kind).cast::<c_void>(), (&raw mut ordinal).cast()];
        ok(cuPointerGetAttributes(2, names.as_mut_ptr(), places.as_mut_ptr(), 4096));
        assert_eq!((kind, ordinal), (0, -1));
        // Pinned memory is written by the device under its own address.
        let mut device = 0;
        ok(cuMemHostGetDevicePointer_v2(&mut device, pinned, 0));
        ok(cuMemsetD8_v2(device, 0x5a, 500));
        assert_eq!(*pinned.cast::<u8>().add(499), 0x5a);
        ok(cuMemsetD8_v2(own.as_ptr() as u64 + 17, 3, 1));
        assert_eq!(own[17], 3);
        ok(cuMemHostUnregister(own.as_mut_ptr().cast()));
        assert_eq!(cuMemHostUnregister(own.as_mut_ptr().cast()), CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        ok(cuMemFreeHost(pinned));
        assert_eq!(cuMemFreeHost(pinned), INVALID);
        assert_eq!(cuMemsetD8_v2(device, 0, 1), INVALID);
        *(managed as *mut u32) = 77;
        assert_eq!(read(managed, 4), [77, 0, 0, 0]);
        ok(cuMemFree_v2(managed));
        ok(cuMemFree_v2(pooled));
    }
}

#[test]
fn pools_keep_their_accounts() {
    if isolated("pools_keep_their_accounts", &[]).is_some() {
        return;
    }
    start();
    let null = std::ptr::null_mut();
    // SAFETY: places of this function.
    unsafe {
        let mut props: CUmemPoolProps = std::mem::zeroed();
        props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        props.maxSize = 10_000;
        let mut pool = std::ptr::null_mut();
        ok(cuMemPoolCreate(&mut pool, &props));
        let (mut a, mut b) = (0, 0);
        ok(cuMemAllocFromPoolAsync(&mut a, 6000, pool, null));
        assert_eq!(cuMemAllocFromPoolAsync(&mut b, 6000, pool, null), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let get = |which| {
            let mut v = 0u64;
            ok(cuMemPoolGetAttribute(pool, which, (&raw mut v).cast()));
            v
        };
        use CUmemPool_attribute::*;
        assert_eq!((get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), get(CU_MEMPOOL_ATTR_USED_MEM_HIGH)), (6000, 6000));
        ok(cuMemFreeAsync(a, null));
        assert_eq!(cuMemFreeAsync(a, null), INVALID);
        assert_eq!((get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), get(CU_MEMPOOL_ATTR_USED_MEM_HIGH)), (0, 6000));
        let mut threshold = u64::MAX;
        ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut threshold).cast()));
        assert_eq!(get(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), u64::MAX);
        ok(cuDeviceSetMemPool(0, pool));
        ok(cuMemAllocAsync(&mut a, 100, null));
        assert_eq!(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 100);
        ok(cuMemPoolTrimTo(pool, 0));
        ok(cuMemPoolDestroy(pool));
        let (mut current, mut default) = (null, null);
        ok(cuDeviceGetMemPool((&raw mut current).cast(), 0));
        ok(cuDeviceGetDefaultMemPool((&raw mut default).cast(), 0));
        assert_eq!(current, default);
        assert_eq!(cuMemPoolDestroy(default.cast()), INVALID);
        assert_eq!(cuMemPoolDestroy(pool), INVALID);
        props.handleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        assert_eq!(cuMemPoolCreate(&mut pool, &props), CUresult::CUDA_ERROR_NOT_SUPPORTED);
        props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_INVALID;
        assert_eq!(cuMemPoolCreate(&mut pool, &props), INVALID);
        assert_eq!(cuMemAllocAsync(&mut b, 0, null), INVALID);
        ok(cuMemFreeAsync(a, null));
    }
}

#[test]
fn virtual_memory_maps_one_memory_twice() {
    if isolated("virtual_memory_maps_one_memory_twice", &[]).is_some() {
        return;
    }
    start();
    // SAFETY: integers, a pointer and enumerations that all have a zero.
    let mut prop: CUmemAllocationProp = unsafe { std::mem::zeroed() };
    prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    // SAFETY: places of this function.
    unsafe {
        let mut g = 0;
        ok(cuMemGetAllocationGranularity(
            &mut g,
            &prop,
            CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM,
        ));
        assert_eq!(g, 2 << 20);
        let mut base = 0;
        ok(cuMemAddressReserve(&mut base, 3 * g, 0, 0, 0));
        assert_eq!(base as usize % g, 0);
        let (mut a, mut b) = (0, 0);
        let before = sys_free();
        ok(cuMemCreate(&mut a, g, &prop, 0));
        ok(cuMemCreate(&mut b, g, &prop, 0));
        assert_eq!(before - sys_free(), 2 * g);
        ok(cuMemMap(base, g, 0, a, 0));
        assert_eq!(cuMemMap(base, g, 0, b, 0), CUresult::CUDA_ERROR_ALREADY_MAPPED);
        ok(cuMemMap(base + g as u64, g, 0, b, 0));
        ok(cuMemMap(base + 2 * g as u64, g, 0, a, 0));
        assert_eq!(cuMemsetD8_v2(base, 1, 1), INVALID, "no access yet");
        let mut access: CUmemAccessDesc = std::mem::zeroed();
        access.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        access.flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        ok(cuMemSetAccess(base, 3 * g, &access, 1));
        // One fill across two mappings; the first and the third are the same memory.
        ok(cuMemsetD8_v2(base, 9, 2 * g));
        assert_eq!(read(base + 2 * g as u64, 4), [9; 4]);
        write(base + 2 * g as u64 + 1, &[5]);
        assert_eq!(read(base, 3), [9, 5, 9]);
        let mut flags = 0;
        ok(cuMemGetAccess(&mut flags, &access.location, base));
        assert_eq!(flags, 3);
        assert_eq!(cuMemAddressFree(base, 3 * g), INVALID, "still mapped");
        assert_eq!(cuMemUnmap(base, g + 1), INVALID);
        ok(cuMemUnmap(base, 3 * g));
        assert_eq!(cuMemsetD8_v2(base, 1, 1), INVALID);
        ok(cuMemRelease(a));
        ok(cuMemRelease(b));
        assert_eq!(sys_free(), before);
        assert_eq!(cuMemRelease(a), INVALID);
        ok(cuMemAddressFree(base, 3 * g));
        assert_eq!(cuMemCreate(&mut a, g + 1, &prop, 0), INVALID);
        assert_eq!(cuMemAddressReserve(&mut base, 4096, 0, 0, 0), INVALID);
    }
}

fn sys_free() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: places of this function.
    ok(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) });
    free
}
