//! Changes of tensor maps by a kernel.

use super::access::Agent;
use super::unit::{Step, Unit, stop};
use super::warp::Warp;
use crate::check::fault::FaultKind;
use crate::check::global::Scope;
use crate::ptx::program::{Addr, MapField, Slot};
use crate::ptx::types::Space;
use crate::tensormap::{DataType, Field, L2Promotion, OobFill, Swizzle, TENSOR_MAP_BYTES, TensorMap};

/// A map of which no field was set yet.
const BLANK: TensorMap = TensorMap {
    address: 0,
    data_type: DataType::U8,
    rank: 1,
    dims: [1; 5],
    strides: [0; 4],
    box_dims: [1; 5],
    element_strides: [1; 5],
    swizzle: Swizzle::None,
    l2_promotion: L2Promotion::None,
    oob_fill: OobFill::Zero,
};

impl Unit<'_> {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn tensormap_replace(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        m: u32,
        map: &Addr,
        field: MapField,
        value: Slot,
    ) -> Step<()> {
        let l = m.trailing_zeros() as usize;
        let address = self.lane_address(w, map, l);
        let bytes = self.tensor_map_bytes(c, w, pc, address, map.space)?;
        let mut t = match TensorMap::from_bytes(&bytes) {
            Ok(t) => t,
            // Kernels make maps from zeros, field by field.
            Err(_) if bytes == [0; TENSOR_MAP_BYTES] => BLANK,
            Err(e) => return stop(FaultKind::IllegalTensorMap, e.to_string()),
        };
        let (field, ordinal) = match field {
            MapField::GlobalAddress => (Field::GlobalAddress, 0),
            MapField::Rank => (Field::Rank, 0),
            MapField::BoxDim(i) => (Field::BoxDim, i),
            MapField::GlobalDim(i) => (Field::GlobalDim, i),
            MapField::GlobalStride(i) => (Field::GlobalStride, i),
            MapField::ElementStride(i) => (Field::ElementStride, i),
            MapField::ElemType => (Field::ElemType, 0),
            MapField::InterleaveLayout => (Field::InterleaveLayout, 0),
            MapField::SwizzleMode => (Field::SwizzleMode, 0),
            MapField::FillMode => (Field::FillMode, 0),
        };
        let v = w.regs.get(value, l);
        if let Err(e) = t.replace(field, ordinal as u32, v) {
            return stop(FaultKind::IllegalTensorMap, e.to_string());
        }
        self.put_bytes(c, w, pc, address, map.space, &t.to_bytes())
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn tensormap_copy(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        m: u32,
        dst: &Addr,
        src: &Addr,
        n: usize,
    ) -> Step<()> {
        let l = m.trailing_zeros() as usize;
        debug_assert_eq!(n, TENSOR_MAP_BYTES);
        let from = self.lane_address(w, src, l);
        let bytes = self.tensor_map_bytes(c, w, pc, from, src.space)?;
        let to = self.lane_address(w, dst, l);
        self.put_bytes(c, w, pc, to, dst.space, &bytes)
    }

    fn put_bytes(&mut self, c: usize, w: &mut Warp, pc: u32, address: u64, space: Space, bytes: &[u8]) -> Step<()> {
        self.progress += 1;
        if space == Space::Shared || address >= crate::ptx::decode::SHARED_WINDOW {
            let (rank, at) = self.shared_address(address, space)?;
            self.shared_bounds(rank, at, bytes.len())?;
            let agent = Agent::of(c, w, pc);
            self.shared_write(&agent, rank, at, bytes.len(), false, false);
            self.ctas[rank].shared[at..at + bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        let env = self.env;
        let mut last = w.last_range;
        let l = match env.view.locate(address, bytes.len(), &mut last) {
            Ok(l) => l,
            Err(e) => return Err(super::memory_ops::memory_fault(e)),
        };
        w.last_range = last;
        let agent = Agent::of(c, w, pc);
        self.global_check(&agent, l.page, address, bytes.len(), true, Scope::Wide);
        // SAFETY: `locate` checked the whole range; an aligned tensor map lies in one page.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), l.ptr, bytes.len()) };
        Ok(())
    }
}
