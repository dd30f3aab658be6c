//! Projections and their adapters: csrc/gemm/.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::gpu::gemm::Product;
use crate::ops::{LinearBwd, LinearFwd};

impl GpuKernel for LinearFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        Product::nt(self.x, self.w, self.y).lower(gpu)?;
        if let Some(adapter) = &self.adapter {
            Product::nt(self.x, adapter.a, adapter.u).scaled(adapter.scale).lower(gpu)?;
            Product::nt(adapter.u, adapter.b, self.y).accumulated(true).lower(gpu)?;
        }
        Ok(())
    }
}

impl GpuKernel for LinearBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        if let Some(dx) = self.dx {
            Product::nn(self.dy, self.w, dx).accumulated(self.accumulate_dx).lower(gpu)?;
        }
        if let Some(dw) = self.dw {
            Product::tn(self.dy, self.x, dw).accumulated(self.accumulate_dw).lower(gpu)?;
        }
        if let Some((adapter, gradients)) = &self.adapter {
            Product::nn(self.dy, adapter.b, gradients.v).scaled(adapter.scale).lower(gpu)?;
            if let Some(dx) = self.dx {
                Product::nn(gradients.v, adapter.a, dx).accumulated(true).lower(gpu)?;
            }
            let accumulate = gradients.accumulate;
            Product::tn(gradients.v, self.x, gradients.da).accumulated(accumulate).lower(gpu)?;
            Product::tn(self.dy, adapter.u, gradients.db).accumulated(accumulate).lower(gpu)?;
        }
        Ok(())
    }
}
