//! Which type a tensor has in a new file.

use super::ConvertError;
use lightning_core::layout::Role;
use safetensors::Dtype;

/// The element type that a person names.
pub(super) fn named_dtype(name: Option<&str>) -> Result<Option<Dtype>, ConvertError> {
    match name {
        None => Ok(None),
        Some("bfloat16" | "bf16") => Ok(Some(Dtype::BF16)),
        Some("float16" | "fp16" | "f16") => Ok(Some(Dtype::F16)),
        Some("float32" | "fp32" | "f32") => Ok(Some(Dtype::F32)),
        Some(other) => {
            Err(ConvertError::Flag(format!("--torch-dtype {other} is not possible: bfloat16, float16 or float32")))
        }
    }
}

/// The type of a tensor when weights are converted: buffers and integers keep theirs.
pub(super) fn converted(role: Role, stored: Dtype, wanted: Option<Dtype>) -> Dtype {
    let float = matches!(stored, Dtype::F64 | Dtype::F32 | Dtype::BF16 | Dtype::F16);
    match wanted {
        Some(wanted) if float && !role.stored_as_f32() => wanted,
        _ => stored,
    }
}

/// Types of models that were not imported (model.md §9.2).
pub(super) fn default_dtype(role: Role) -> Dtype {
    if role.stored_as_f32() { Dtype::F32 } else { Dtype::BF16 }
}

/// The name that `config.json` has for a type.
pub(super) fn torch_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "float16",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
        _ => "bfloat16",
    }
}
