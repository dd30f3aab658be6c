//! Tensor maps: encoding with every rule that the driver documents, change of address.

use super::entry::explain;
use super::pointers::{In, Out};
use super::state::driver;
use super::status::{Outcome, Status};
use crate::tensormap::map::TENSOR_MAP_ALIGN;
use crate::tensormap::{DataType, EncodeError, L2Promotion, OobFill, Swizzle, TensorMap};

/// `CUtensorMap`
pub type RawMap = [u8; 128];

fn refuse(e: &EncodeError) -> Status {
    explain(&format!("cuTensorMapEncodeTiled: {e}"));
    Status::INVALID_VALUE
}

fn unsupported(parameter: &'static str, value: u32) -> Status {
    refuse(&EncodeError::Unsupported { parameter, value })
}

fn check_address(map: Out<RawMap>) -> Outcome {
    map.check()?;
    if map.address().is_multiple_of(TENSOR_MAP_ALIGN) {
        return Ok(());
    }
    explain("the CUtensorMap is not aligned to 64 bytes; align it");
    Err(Status::INVALID_VALUE)
}

fn im2col() -> Outcome {
    driver()?;
    explain("im2col tensor maps are not available on a virtual device; use cuTensorMapEncodeTiled");
    Err(Status::NOT_SUPPORTED)
}

super::entry::api! {
    /// Makes a tiled tensor map.
    fn cuTensorMapEncodeTiled(
        map: Out<RawMap>, data_type: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>, box_dims: In<u32>,
        element_strides: In<u32>, interleave: u32, swizzle: u32, l2_promotion: u32, oob_fill: u32,
    ) {
        driver()?;
        check_address(map)?;
        if !(1..=5).contains(&rank) {
            return Err(refuse(&EncodeError::Rank { rank }));
        }
        let n = rank as usize;
        let mut m = TensorMap {
            address,
            data_type: *DataType::ALL.get(data_type as usize).ok_or_else(|| unsupported("tensorDataType", data_type))?,
            rank,
            dims: [1; 5],
            strides: [0; 4],
            box_dims: [1; 5],
            element_strides: [1; 5],
            swizzle: *Swizzle::ALL.get(swizzle as usize).ok_or_else(|| unsupported("swizzle", swizzle))?,
            l2_promotion: *[L2Promotion::None, L2Promotion::B64, L2Promotion::B128, L2Promotion::B256]
                .get(l2_promotion as usize)
                .ok_or_else(|| unsupported("l2Promotion", l2_promotion))?,
            oob_fill: *[OobFill::Zero, OobFill::Nan].get(oob_fill as usize).ok_or_else(|| unsupported("oobFill", oob_fill))?,
        };
        if interleave != 0 {
            return Err(unsupported("interleave", interleave));
        }
        m.dims[..n].copy_from_slice(&dims.to_vec(n)?);
        m.strides[..n - 1].copy_from_slice(&strides.to_vec(n - 1)?);
        m.box_dims[..n].copy_from_slice(&box_dims.to_vec(n)?);
        m.element_strides[..n].copy_from_slice(&element_strides.to_vec(n)?);
        m.validate().map_err(|e| refuse(&e))?;
        map.set(m.to_bytes())
    }

    /// Changes the address of a tensor map.
    fn cuTensorMapReplaceAddress(map: Out<RawMap>, address: u64) {
        driver()?;
        check_address(map)?;
        let mut m = TensorMap::from_bytes(&map.get()?).map_err(|e| {
            explain(&e.to_string());
            Status::INVALID_VALUE
        })?;
        m.address = address;
        m.validate().map_err(|e| refuse(&e))?;
        map.set(m.to_bytes())
    }

    /// Not available.
    fn cuTensorMapEncodeIm2col() {
        im2col()
    }

    /// Not available.
    fn cuTensorMapEncodeIm2colWide() {
        im2col()
    }
}
