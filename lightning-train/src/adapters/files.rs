//! `adapter_config.json` and `adapter_model.safetensors`.

use super::{Adapter, AdapterError, Flavour, Pair};
use crate::checkpoint::{ShardWriter, sync_folder, write_file};
use crate::convert::cast;
use crate::hf::header;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const CONFIG: &str = "adapter_config.json";
const TENSORS: &str = "adapter_model.safetensors";
const PREFIX: &str = "base_model.model.";
/// Version of PEFT whose layout of fused experts is written.
const PEFT_VERSION: &str = "0.21.2";

fn file_error(path: &Path, problem: impl ToString) -> AdapterError {
    AdapterError::File { path: path.to_path_buf(), problem: problem.to_string() }
}

/// A matrix of a file.
struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
}

impl Adapter {
    /// Reads a PEFT folder of either flavour.
    ///
    /// # Errors
    /// Missing or damaged files, settings that change the arithmetic and are not supported, an A without a B, shapes
    /// that contradict the rank.
    pub fn read(folder: &Path) -> Result<Self, AdapterError> {
        let path = folder.join(CONFIG);
        let text = fs::read_to_string(&path)
            .map_err(|e| file_error(&path, format!("cannot be read: {e}; give the folder of a PEFT adapter")))?;
        let config: Value = serde_json::from_str(&text).map_err(|e| file_error(&path, e))?;
        refuse_settings(&path, &config)?;
        let rank = config["r"].as_u64().filter(|r| (1..=1 << 16).contains(r));
        let (Some(rank), Some(alpha)) = (rank, config["lora_alpha"].as_f64()) else {
            return Err(file_error(&path, "needs r (1 to 65536) and lora_alpha"));
        };
        let base = config["base_model_name_or_path"].as_str().unwrap_or_default();
        let mut adapter = Self::new(rank as usize, alpha, base);
        adapter.rank_stabilised = config["use_rslora"].as_bool().unwrap_or(false);
        let fused: Vec<&str> =
            config["target_parameters"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let path = folder.join(TENSORS);
        let mut modules = read_modules(&path)?;
        let mut shared: BTreeMap<(usize, usize, Vec<u32>), Arc<Pair>> = BTreeMap::new();
        while let Some((module, (a, b))) = modules.pop_first() {
            let (Some(a), Some(b)) = (a, b) else {
                return Err(file_error(&path, format!("`{module}` has only one of lora_A and lora_B")));
            };
            for (weight, pair) in pairs_of(&module, a, b, adapter.rank, &fused).map_err(|p| file_error(&path, p))? {
                // Experts that share an adapter have equal tensors: one copy in memory.
                let bits: Vec<u32> = pair.a.iter().chain(&pair.b).map(|x| x.to_bits()).collect();
                let pair = shared.entry((pair.rows, pair.columns, bits)).or_insert_with(|| Arc::new(pair)).clone();
                if adapter.pairs.insert(weight.clone(), pair).is_some() {
                    return Err(file_error(&path, format!("changes `{weight}` twice")));
                }
            }
        }
        if adapter.pairs.is_empty() {
            return Err(file_error(&path, "holds no adapter"));
        }
        Ok(adapter)
    }

    /// Writes a PEFT folder. Returns the weights that the flavour cannot name: transformers' own class has no `mtp.*`.
    ///
    /// # Errors
    /// What the system refuses; fused experts of which some have no pair.
    pub fn write(&self, folder: &Path, flavour: Flavour, dtype: Dtype) -> Result<Vec<String>, AdapterError> {
        fs::create_dir_all(folder).map_err(|e| file_error(folder, e))?;
        let (tensors, parameters, left_out) = match flavour {
            Flavour::PerModule => (self.per_module("", &|_| true)?, None, Vec::new()),
            Flavour::TargetParameters => {
                let left_out = self.pairs.keys().filter(|n| n.starts_with("mtp.")).cloned().collect();
                let (tensors, parameters) = self.fused()?;
                (tensors, Some(parameters), left_out)
            }
        };
        let modules: BTreeSet<&str> = tensors
            .keys()
            .filter_map(|key| key.strip_suffix(".lora_A.weight"))
            .filter_map(|module| module.rsplit('.').next())
            .filter(|last| !matches!(*last, "experts" | "base_layer"))
            .collect();
        let config = json!({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": self.rank, "lora_alpha": self.alpha,
            "lora_dropout": 0.0, "bias": "none", "target_modules": modules, "target_parameters": parameters,
            "base_model_name_or_path": self.base_model, "fan_in_fan_out": false, "inference_mode": true,
            "init_lora_weights": true, "use_dora": false, "use_rslora": self.rank_stabilised,
            "modules_to_save": null, "rank_pattern": {}, "alpha_pattern": {}, "auto_mapping": null,
            "peft_version": PEFT_VERSION,
        });
        let path = folder.join(TENSORS);
        let entries: Vec<_> = tensors.iter().map(|(key, m)| (key.clone(), dtype, vec![m.rows, m.columns])).collect();
        let fail = |e: crate::checkpoint::CheckpointError| file_error(&path, e);
        let mut writer = ShardWriter::create(&path, &entries, &[("format", "pt")]).map_err(fail)?;
        let mut bytes = Vec::new();
        for matrix in tensors.values() {
            bytes.clear();
            cast::from_f32(&matrix.values, dtype, &mut bytes);
            writer.write(&bytes).map_err(fail)?;
        }
        writer.finish().map_err(fail)?;
        write_file(&folder.join(CONFIG), format!("{config:#}\n").as_bytes()).map_err(fail)?;
        sync_folder(folder).map_err(fail)?;
        Ok(left_out)
    }

    /// What says that an adapter folder is still the same.
    pub fn fingerprint(folder: &Path) -> Value {
        let about = |name: &str| {
            let about = fs::metadata(folder.join(name)).ok()?;
            Some((about.len(), format!("{:?}", about.modified().ok())))
        };
        json!([folder, about(CONFIG), about(TENSORS)])
    }

    /// Keys and matrices of one module per weight; `prefix` replaces `backbone.` when it is not empty.
    fn per_module(
        &self,
        prefix: &str,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, Matrix>, AdapterError> {
        let mut tensors = BTreeMap::new();
        for (weight, pair) in self.pairs.iter().filter(|(w, _)| wanted(w)) {
            let module = weight.strip_suffix(".weight").unwrap_or(weight);
            let module = match module.strip_prefix("backbone.") {
                Some(rest) if !prefix.is_empty() => format!("{prefix}{rest}"),
                _ => module.to_string(),
            };
            let a = Matrix { rows: pair.rank, columns: pair.columns, values: pair.a.clone() };
            let b = Matrix { rows: pair.rows, columns: pair.rank, values: pair.b.clone() };
            tensors.insert(format!("{PREFIX}{module}.lora_A.weight"), a);
            tensors.insert(format!("{PREFIX}{module}.lora_B.weight"), b);
        }
        Ok(tensors)
    }

    /// As [`Adapter::per_module`] for transformers' own class, with fused experts; and `target_parameters`.
    #[allow(clippy::type_complexity)]
    fn fused(&self) -> Result<(BTreeMap<String, Matrix>, BTreeSet<String>), AdapterError> {
        let is_expert = |w: &str| w.contains(".experts.");
        let mut tensors = self.per_module("model.", &|w| !is_expert(w) && !w.starts_with("mtp."))?;
        let mut groups: BTreeMap<(String, String), BTreeMap<usize, &Pair>> = BTreeMap::new();
        for (weight, pair) in self.pairs.iter().filter(|(w, _)| is_expert(w) && !w.starts_with("mtp.")) {
            let Some((stem, expert, matrix)) = split_expert(weight) else {
                let problem = "is not a matrix of a routed expert".to_string();
                return Err(AdapterError::Target { weight: weight.clone(), problem });
            };
            groups.entry((stem, matrix)).or_default().insert(expert, pair);
        }
        let parameters: BTreeSet<String> = groups.keys().map(|(_, matrix)| format!("mixer.experts.{matrix}")).collect();
        for ((stem, matrix), experts) in &groups {
            let count = experts.len();
            let problem = |problem: String| AdapterError::Target { weight: format!("{stem}.experts"), problem };
            if experts.keys().copied().ne(0..count) {
                return Err(problem(format!("only {count} experts have a {matrix} pair; fused experts need all")));
            }
            let first = experts[&0];
            let (rank, rows, columns) = (first.rank, first.rows, first.columns);
            if experts.values().any(|p| (p.rank, p.rows, p.columns) != (rank, rows, columns)) {
                return Err(problem(format!("the experts' {matrix} pairs have different shapes")));
            }
            let a = experts.values().flat_map(|p| p.a.iter().copied()).collect();
            let mut b = Vec::with_capacity(rows * rank * count);
            for row in 0..rows {
                for k in 0..rank {
                    b.extend(experts.values().map(|p| p.b[row * rank + k]));
                }
            }
            let rest = stem.strip_prefix("backbone.").unwrap_or(stem);
            let both = parameters.len() == 2;
            let inner = if both && matrix == "up_proj" { ".base_layer" } else { "" };
            let module = format!("{PREFIX}model.{rest}.experts{inner}");
            tensors.insert(format!("{module}.lora_A.weight"), Matrix { rows: rank * count, columns, values: a });
            tensors.insert(format!("{module}.lora_B.weight"), Matrix { rows, columns: rank * count, values: b });
        }
        Ok((tensors, parameters))
    }
}

/// (`backbone.layers.1.mixer`, 17, `up_proj`) of a routed expert's weight.
fn split_expert(weight: &str) -> Option<(String, usize, String)> {
    let (stem, rest) = weight.split_once(".experts.")?;
    let (expert, matrix) = rest.split_once('.')?;
    let matrix = matrix.strip_suffix(".weight")?;
    matches!(matrix, "up_proj" | "down_proj").then_some(())?;
    Some((stem.into(), expert.parse().ok()?, matrix.into()))
}

fn refuse_settings(path: &Path, config: &Value) -> Result<(), AdapterError> {
    let plain: [(&str, Value, &str); 6] = [
        ("peft_type", json!("LORA"), "LORA"),
        ("bias", json!("none"), "none"),
        ("use_dora", json!(false), "false"),
        ("fan_in_fan_out", json!(false), "false"),
        ("lora_bias", json!(false), "false"),
        ("modules_to_save", Value::Null, "null"),
    ];
    let refuse = |key: &str, supported| {
        let value = config[key].to_string();
        Err(AdapterError::Setting { path: path.to_path_buf(), key: key.into(), value, supported })
    };
    for (key, wanted, supported) in plain {
        let found = &config[key];
        if (!found.is_null() || key == "peft_type") && *found != wanted {
            return refuse(key, supported);
        }
    }
    for key in ["rank_pattern", "alpha_pattern"] {
        if config[key].as_object().is_some_and(|map| !map.is_empty()) {
            return refuse(key, "an empty one");
        }
    }
    Ok(())
}

type Modules = BTreeMap<String, (Option<Matrix>, Option<Matrix>)>;

/// A and B by module.
fn read_modules(path: &Path) -> Result<Modules, AdapterError> {
    let (file, header) = header::open(path).map_err(|e| file_error(path, e.problem))?;
    let mut modules = Modules::new();
    for entry in &header.entries {
        let inside = entry.name.strip_prefix(PREFIX);
        let side = |end: &str| inside.and_then(|name| name.strip_suffix(end));
        let (module, is_a) = match (side(".lora_A.weight"), side(".lora_B.weight")) {
            (Some(module), _) => (module, true),
            (_, Some(module)) => (module, false),
            _ => return Err(file_error(path, format!("`{}` is not part of a LoRA adapter", entry.name))),
        };
        let matrix = read_matrix(&file, entry).map_err(|e| file_error(path, e))?;
        let slot = modules.entry(module.to_string()).or_default();
        *(if is_a { &mut slot.0 } else { &mut slot.1 }) = Some(matrix);
    }
    Ok(modules)
}

fn read_matrix(file: &File, entry: &header::HeaderEntry) -> Result<Matrix, String> {
    let [rows, columns] = entry.shape[..] else {
        return Err(format!("`{}` has shape {:?}, not two dimensions", entry.name, entry.shape));
    };
    let mut bytes = vec![0; entry.len as usize];
    file.read_exact_at(&mut bytes, entry.start).map_err(|e| e.to_string())?;
    let mut values = Vec::new();
    cast::to_f32(entry.dtype, &bytes, &mut values).ok_or(format!("`{}` is {}", entry.name, entry.dtype))?;
    Ok(Matrix { rows, columns, values })
}

/// The pairs of one module of a file, by weight.
fn pairs_of(module: &str, a: Matrix, b: Matrix, rank: usize, fused: &[&str]) -> Result<Vec<(String, Pair)>, String> {
    let ours = match module.strip_prefix("model.") {
        Some(rest) => format!("backbone.{rest}"),
        None => module.to_string(),
    };
    let inner = ours.strip_suffix(".experts.base_layer");
    let Some(stem) = inner.or_else(|| ours.strip_suffix(".experts")) else {
        if a.rows != rank || b.columns != rank {
            return Err(format!(
                "`{module}` has rank {} in A and {} in B, the configuration says {rank}",
                a.rows, b.columns
            ));
        }
        let pair = Pair { rank, rows: b.rows, columns: a.columns, a: a.values, b: b.values };
        return Ok(vec![(format!("{ours}.weight"), pair)]);
    };
    let targets = |matrix: &str| fused.iter().any(|t| t.ends_with(&format!("experts.{matrix}")));
    let matrix = match (targets("up_proj"), targets("down_proj"), inner.is_some()) {
        (true, _, true) | (true, false, false) => "up_proj",
        (_, true, false) => "down_proj",
        _ => return Err(format!("`{module}` belongs to none of target_parameters {fused:?}")),
    };
    if a.rows != b.columns || !a.rows.is_multiple_of(rank) || a.rows == 0 {
        return Err(format!(
            "`{module}` has {} rows in A and {} columns in B; both must be rank {rank} x experts",
            a.rows, b.columns
        ));
    }
    let experts = a.rows / rank;
    let pair = |e: usize| {
        let values = a.values[e * rank * a.columns..(e + 1) * rank * a.columns].to_vec();
        let b_values = (0..b.rows).flat_map(|row| (0..rank).map(move |k| (row, k)));
        let b_values = b_values.map(|(row, k)| b.values[row * b.columns + k * experts + e]).collect();
        Pair { rank, rows: b.rows, columns: a.columns, a: values, b: b_values }
    };
    Ok((0..experts).map(|e| (format!("{stem}.experts.{e}.{matrix}.weight"), pair(e))).collect())
}
