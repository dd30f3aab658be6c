//! Tensor maps through the C API.

mod driver_process;

use cudarc::driver::sys::{CUresult, *};
use driver_process::{isolated, ok, start};
use std::ffi::c_void;
use std::ptr::null_mut;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[repr(C, align(64))]
struct Map([u8; 192]);

#[test]
fn tensor_maps_are_validated() {
    let me = "tensor_maps_are_validated";
    if let Some(err) = isolated(me, &[]) {
        assert!(err.contains("im2col") && err.contains("globalStrides[0] is 129 bytes"), "{err}");
        return;
    }
    start();
    use CUtensorMapDataType::*;
    use CUtensorMapFloatOOBfill::*;
    use CUtensorMapInterleave::*;
    use CUtensorMapL2promotion::*;
    use CUtensorMapSwizzle::*;
    let mut map = Map([0; 192]);
    let base = map.0.as_mut_ptr();
    let dims = [64u64, 33];
    let boxes = [64u32, 16];
    let steps = [1u32, 1];
    let encode =
        |at: *mut u8, kind, rank, address: usize, stride: u64, boxes: *const u32, interleave, swizzle, fill| {
            // SAFETY: arrays of at least `rank` elements of this test; the map has room.
            unsafe {
                cuTensorMapEncodeTiled(
                    at.cast(),
                    kind,
                    rank,
                    address as *mut c_void,
                    dims.as_ptr(),
                    &stride,
                    boxes,
                    steps.as_ptr(),
                    interleave,
                    swizzle,
                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                    fill,
                )
            }
        };
    let (none, zero) = (CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    let (bf16, wide) = (CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_SWIZZLE_128B);
    ok(encode(base, bf16, 2, 0x1000, 128, boxes.as_ptr(), none, wide, zero));
    let bytes: [u8; 128] = map.0[..128].try_into().unwrap();
    let m = ptx_sim::tensormap::TensorMap::from_bytes(&bytes).unwrap();
    assert_eq!(
        (m.address, m.rank, m.dims[..2].to_vec(), m.strides[0], m.box_dims[1]),
        (0x1000, 2, vec![64, 33], 128, 16)
    );
    // SAFETY: the map lives here.
    unsafe {
        ok(cuTensorMapReplaceAddress(base.cast(), 0x2000 as *mut c_void));
        assert_eq!(cuTensorMapReplaceAddress(base.cast(), 0x2001 as *mut c_void), INVALID);
        assert_eq!(cuTensorMapReplaceAddress(base.add(64).cast(), 0x2000 as *mut c_void), INVALID, "not a map");
        assert_eq!(cuTensorMapReplaceAddress(null_mut(), 0x2000 as *mut c_void), INVALID);
    }
    // SAFETY: inside the array.
    let askew = unsafe { base.add(32) };
    assert_eq!(encode(askew, bf16, 2, 0x1000, 128, boxes.as_ptr(), none, wide, zero), INVALID);
    assert_eq!(encode(base, bf16, 6, 0x1000, 128, boxes.as_ptr(), none, wide, zero), INVALID);
    assert_eq!(encode(base, bf16, 2, 0x1008, 128, boxes.as_ptr(), none, wide, zero), INVALID);
    assert_eq!(encode(base, bf16, 2, 0x1000, 129, boxes.as_ptr(), none, wide, zero), INVALID);
    assert_eq!(encode(base, bf16, 2, 0x1000, 128, [65, 16].as_ptr(), none, wide, zero), INVALID);
    assert_eq!(encode(base, bf16, 2, 0x1000, 128, [72, 16].as_ptr(), none, wide, zero), INVALID);
    assert_eq!(encode(base, bf16, 2, 0x1000, 128, std::ptr::null(), none, wide, zero), INVALID);
    assert_eq!(encode(base, bf16, 2, 0x1000, 128, boxes.as_ptr(), CU_TENSOR_MAP_INTERLEAVE_16B, wide, zero), INVALID);
    assert_eq!(
        encode(base, bf16, 2, 0x1000, 128, boxes.as_ptr(), none, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, zero),
        INVALID
    );
    let nan = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    assert_eq!(encode(base, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, 0x1000, 128, boxes.as_ptr(), none, wide, nan), INVALID);
    // SAFETY: the call is refused before any argument is read.
    let im2col = unsafe {
        cuTensorMapEncodeIm2col(
            base.cast(),
            bf16,
            3,
            null_mut(),
            std::ptr::null(),
            std::ptr::null(),
            std::ptr::null(),
            std::ptr::null(),
            1,
            1,
            std::ptr::null(),
            none,
            wide,
            CU_TENSOR_MAP_L2_PROMOTION_NONE,
            zero,
        )
    };
    assert_eq!(im2col, CUresult::CUDA_ERROR_NOT_SUPPORTED);
}
