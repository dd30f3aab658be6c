//! Checkpoints of the family with random or absent values, for measurements and tests of conversions.

use crate::checkpoint::{CheckpointError, write_file};
use crate::hf::folder::{INDEX, SINGLE};
use crate::hf::{HfConfig, header};
use lightning_core::config::{AttentionConfig, MambaConfig, ModelConfig, MoeConfig, preset};
use lightning_core::layout::Layout;
use safetensors::Dtype;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// The model with every width divided by about `scale`: the same layers, 128 experts and MTP. 1 is the model itself.
pub fn family_member(scale: usize) -> ModelConfig {
    let full = preset("nemotron_3_5_lightning").expect("a preset");
    if scale <= 1 {
        return full;
    }
    let part = |full: usize, least: usize| (full / scale).max(least);
    let moe = full.moe().clone();
    let mamba = full.mamba().clone();
    ModelConfig {
        vocab: part(131_072, 64),
        hidden: part(2560, 16),
        attention: Some(AttentionConfig { heads: part(64, 4) / 2 * 2, kv_heads: 2, head_dim: part(512, 4) }),
        mamba: Some(MambaConfig {
            heads: part(256, 8) / mamba.groups * mamba.groups,
            head_dim: part(256, 4),
            state: part(256, 4),
            ..mamba
        }),
        moe: Some(MoeConfig { expert_width: part(1792, 8), shared_width: part(3584, 16), ..moe }),
        ..full
    }
}

/// What a generated file holds behind its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// Nothing: the file is as long as it must be but takes no space on the disk.
    Sparse,
    /// Random finite values of this seed.
    Random(u64),
}

/// Writes a checkpoint folder with `files` files of about equal size: configuration, index, headers, data.
///
/// # Errors
/// What the system refuses.
pub fn write(folder: &Path, model: &ModelConfig, files: usize, data: Data) -> Result<(), CheckpointError> {
    fs::create_dir_all(folder).map_err(|e| CheckpointError::io("create", folder, e))?;
    let layout = Layout::new(model);
    let tensors: Vec<(String, Dtype, Vec<usize>)> = layout
        .parts()
        .map(|(i, part)| {
            let f32 = layout.params[i].role.stored_as_f32();
            (part.name.clone(), if f32 { Dtype::F32 } else { Dtype::BF16 }, part.shape.clone())
        })
        .collect();
    let bytes = |t: &(String, Dtype, Vec<usize>)| header::byte_len(t.1, &t.2).expect("a possible tensor");
    let total: u64 = tensors.iter().map(bytes).sum();
    let mut groups: Vec<Vec<_>> = vec![Vec::new(); files.max(1)];
    let mut before = 0;
    for tensor in tensors {
        let group = (u128::from(before) * groups.len() as u128 / u128::from(total)) as usize;
        before += bytes(&tensor);
        groups[group].push(tensor);
    }
    groups.retain(|g| !g.is_empty());
    let count = groups.len();
    let mut map = BTreeMap::new();
    for (i, mut group) in groups.into_iter().enumerate() {
        group.sort_by_key(|t| std::cmp::Reverse(t.1.bitsize()));
        let name =
            if count == 1 { SINGLE.to_string() } else { format!("model-{:05}-of-{count:05}.safetensors", i + 1) };
        let path = folder.join(&name);
        write_one(&path, &group, data).map_err(|e| CheckpointError::io("write", &path, e))?;
        map.extend(group.into_iter().map(|(key, _, _)| (key, name.clone())));
    }
    if count > 1 {
        let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
        write_file(&folder.join(INDEX), format!("{index:#}\n").as_bytes())?;
    }
    write_file(&folder.join("config.json"), HfConfig::for_model(model).to_text().as_bytes())
}

fn write_one(path: &Path, group: &[(String, Dtype, Vec<usize>)], data: Data) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let text = header::text(group, &[("format", "pt")]);
    file.write_all(&text)?;
    let sizes = group.iter().map(|(_, dtype, shape)| header::byte_len(*dtype, shape).expect("a possible tensor"));
    let Data::Random(seed) = data else {
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        return file.set_len(text.len() as u64 + sizes.sum::<u64>());
    };
    let mut bytes = Vec::new();
    for ((name, dtype, _), size) in group.iter().zip(sizes) {
        let mut words = Words(seed ^ twox_hash::XxHash3_64::oneshot(name.as_bytes()));
        let mut left = size as usize;
        while left > 0 {
            let n = left.min(1 << 20);
            bytes.clear();
            while bytes.len() < n {
                bytes.extend_from_slice(&words.finite(*dtype).to_le_bytes());
            }
            file.write_all(&bytes[..n])?;
            left -= n;
        }
    }
    file.flush()
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Eight bytes of finite floats below 2 in size: the highest exponent bit is cleared.
    fn finite(&mut self, dtype: Dtype) -> u64 {
        let mask = if dtype == Dtype::BF16 { 0xBFFF_BFFF_BFFF_BFFF } else { 0xBFFF_FFFF_BFFF_FFFF };
        self.next() & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_divisor_gives_a_possible_model_with_all_tensors() {
        for scale in 1..300 {
            let model = family_member(scale);
            model.check().unwrap_or_else(|e| panic!("{scale}: {e}"));
            assert_eq!(Layout::new(&model).tensor_count(), 6513);
        }
    }
}
