//! What the golden and property tests share: reading a golden folder, and running a model on the CPU device.
#![allow(dead_code)]

pub mod cases;
pub mod gradcheck;
pub mod named;
pub mod random;
pub mod tiny;
pub mod unit;

use lightning_core::CoreError;
use lightning_core::config::ModelConfig;
use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
use lightning_core::model::{
    AdamConfig, MicroBatch, Model, ModelSpec, Objective, ParamTensors, Precision, ProgramKind, Routing, Trace, Training,
};
use lightning_core::ops::LossScale;
use lightning_core::program::{Persistent, Program};
use lightning_core::tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A tensor of a golden file.
#[derive(Debug, Clone)]
pub struct Golden {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

impl Golden {
    pub fn ints(&self) -> Vec<i32> {
        self.values.iter().map(|v| *v as i32).collect()
    }
    pub fn scalar(&self) -> f64 {
        self.values[0]
    }
}

/// A golden file: tensors by name, and its metadata.
pub struct GoldenFile {
    pub tensors: BTreeMap<String, Golden>,
    pub metadata: BTreeMap<String, String>,
}

impl GoldenFile {
    pub fn get(&self, name: &str) -> &Golden {
        self.tensors.get(name).unwrap_or_else(|| panic!("golden file has no `{name}`"))
    }
    pub fn meta<T: std::str::FromStr>(&self, name: &str) -> T {
        let text = self.metadata.get(name).unwrap_or_else(|| panic!("golden file has no metadata `{name}`"));
        text.parse().unwrap_or_else(|_| panic!("metadata `{name}` = `{text}`"))
    }
}

pub fn golden_dir() -> PathBuf {
    match std::env::var_os("LIGHTNING_GOLDEN_MODEL") {
        Some(dir) => dir.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/model"),
    }
}

pub fn read_golden(name: &str) -> GoldenFile {
    let path = golden_dir().join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).expect("golden header");
    let metadata = header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("golden file");
    let tensors = file.tensors().into_iter().map(|(n, t)| (n, decode(&t))).collect();
    GoldenFile { tensors, metadata }
}

fn decode(t: &safetensors::tensor::TensorView<'_>) -> Golden {
    use safetensors::Dtype;
    let d = t.data();
    let values = match t.dtype() {
        Dtype::F64 => d.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect(),
        Dtype::F32 => d.chunks_exact(4).map(|c| f64::from(f32::from_le_bytes(c.try_into().unwrap()))).collect(),
        Dtype::BF16 => d.chunks_exact(2).map(|c| half::bf16::from_le_bytes(c.try_into().unwrap()).to_f64()).collect(),
        Dtype::I32 => d.chunks_exact(4).map(|c| f64::from(i32::from_le_bytes(c.try_into().unwrap()))).collect(),
        Dtype::I64 => d.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().unwrap()) as f64).collect(),
        Dtype::U8 => d.iter().map(|b| f64::from(*b)).collect(),
        other => panic!("golden tensor of type {other:?}"),
    };
    Golden { shape: t.shape().to_vec(), values }
}

/// Relative L2 error; absolute when the reference is zero.
pub fn relative_l2(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let diff: f64 = got.iter().zip(want).map(|(g, w)| (g - w) * (g - w)).sum();
    let norm: f64 = want.iter().map(|w| w * w).sum();
    if norm == 0.0 { diff.sqrt() } else { (diff / norm).sqrt() }
}

#[track_caller]
pub fn assert_close(name: &str, got: &[f64], want: &[f64], bound: f64) {
    assert_eq!(got.len(), want.len(), "{name}: number of elements");
    let error = relative_l2(got, want);
    assert!(error <= bound, "{name}: relative L2 error {error:.3e} above {bound:.1e}");
}

/// A batch as the host writes it.
#[derive(Debug, Clone)]
pub struct Batch {
    pub ids: Vec<i32>,
    pub labels: Vec<i32>,
    pub mask: Vec<i32>,
    pub padding: Option<Vec<i32>>,
    pub offsets: Vec<i32>,
}

impl Batch {
    pub fn new(ids: Vec<i32>, labels: Vec<i32>, mask: Vec<i32>) -> Self {
        let offsets = vec![0];
        Self { ids, labels, mask, padding: None, offsets }
    }
}

pub const OBJECTIVE: Objective =
    Objective { scale: LossScale::MeanOfMeans(1), mtp_factor: 0.3, aux_coefficient: 0.0, bias_rate: 1e-3 };

/// A model on a device.
pub struct Session<D = CpuDevice> {
    pub model: Model,
    pub device: D,
    pub first: Program,
    pub later: Program,
    pub evaluate: Program,
    pub optimizer: Option<Program>,
}

pub struct Options {
    pub act: DType,
    pub grad: Option<DType>,
    pub rows: usize,
    pub row_len: usize,
    pub max_offsets: usize,
    pub padding: bool,
    pub objective: Objective,
    pub routing: Routing,
    pub adam: Option<AdamConfig>,
    pub threads: usize,
}

impl Options {
    pub fn new(act: DType, rows: usize, row_len: usize) -> Self {
        Self {
            act,
            grad: None,
            rows,
            row_len,
            max_offsets: 16,
            padding: false,
            objective: OBJECTIVE,
            routing: Routing::Natural,
            adam: None,
            threads: 2,
        }
    }
}

impl Session {
    /// A model on the CPU device.
    pub fn new(config: &ModelConfig, o: &Options) -> Self {
        Self::with(config, o, |persistent, programs| CpuDevice::new(persistent, programs, o.threads))
    }
}

impl<D: Device> Session<D> {
    /// A model on the device that `open` makes for its memory and programs.
    pub fn with(
        config: &ModelConfig,
        o: &Options,
        open: impl FnOnce(&Persistent, &[&Program]) -> Result<D, CoreError>,
    ) -> Self {
        let mut precision = Precision::of(o.act);
        precision.grad = o.grad.unwrap_or(precision.grad);
        let spec = ModelSpec {
            config: config.clone(),
            precision,
            batch: MicroBatch { rows: o.rows, row_len: o.row_len, max_offsets: o.max_offsets, padding: o.padding },
            objective: o.objective,
            routing: o.routing,
            training: if o.adam.is_some() { Training::Full } else { Training::Gradients },
            recompute: lightning_core::program::Recompute::NONE,
        };
        let model = Model::new(spec).expect("model");
        let build = |kind| model.micro_batch(kind, Trace::Full).expect("program");
        let (first, later) = (build(ProgramKind::TrainFirst), build(ProgramKind::Train));
        let evaluate = build(ProgramKind::Evaluate);
        let optimizer = o.adam.map(|a| model.optimizer_step(&a).expect("optimizer program"));
        let mut programs = vec![&first, &later, &evaluate];
        programs.extend(&optimizer);
        let device = open(&model.persistent, &programs).unwrap_or_else(|e| panic!("{e}"));
        Self { model, device, first, later, evaluate, optimizer }
    }

    /// Writes every weight that `value` gives.
    pub fn load(&mut self, value: impl Fn(&str) -> Option<Vec<f64>>) {
        let parts: Vec<(String, ParamTensors)> =
            self.model.parts().map(|(part, _, tensors)| (part.name.clone(), tensors)).collect();
        for (name, tensors) in parts {
            let values = value(&name).unwrap_or_else(|| panic!("no value for `{name}`"));
            self.model.write_weight(&mut self.device, tensors, &values).expect("write");
        }
    }

    pub fn write_ints(&mut self, tensor: Tensor, values: &[i32]) {
        self.device.write_slice(self.model.persistent.buffers(), tensor, values).expect("write");
    }

    pub fn set_batch(&mut self, batch: &Batch) {
        let inputs = self.model.inputs.clone();
        self.write_ints(inputs.ids, &batch.ids);
        self.write_ints(inputs.labels, &batch.labels);
        self.write_ints(inputs.loss_mask, &batch.mask);
        if let (Some(tensor), Some(padding)) = (inputs.padding, &batch.padding) {
            self.write_ints(tensor, padding);
        }
        let mut offsets = batch.offsets.clone();
        assert!(offsets.len() <= inputs.cu_seqlens.cols, "more documents than offsets");
        let last = *offsets.last().unwrap_or(&0);
        offsets.resize(inputs.cu_seqlens.cols, last);
        self.write_ints(inputs.cu_seqlens, &offsets);
    }

    pub fn run_first(&mut self, batch: &Batch) {
        self.set_batch(batch);
        let program = self.first.clone();
        self.device.run(&program).expect("run");
    }

    pub fn run_later(&mut self, batch: &Batch) {
        self.set_batch(batch);
        let program = self.later.clone();
        self.device.run(&program).expect("run");
    }

    pub fn step(&mut self, samples: usize) {
        let buffers = self.model.persistent.buffers();
        let slot = lightning_core::optim::StateSlot::StepSamples as usize;
        let tensor = self.model.metrics.state.columns(slot, 1);
        self.device.write_slice(buffers, tensor, &[samples as f64]).expect("write");
        let program = self.optimizer.clone().expect("an optimizer");
        self.device.run(&program).expect("run");
    }

    pub fn output(&self, name: &str) -> Vec<f64> {
        let tensor = self.first.output(name).unwrap_or_else(|| panic!("no output `{name}`"));
        self.device.read_f64(&self.first.buffers, tensor).expect("read")
    }

    pub fn read(&self, tensor: Tensor) -> Vec<f64> {
        self.device.read_f64(self.model.persistent.buffers(), tensor).expect("read")
    }

    pub fn state(&self, slot: lightning_core::optim::StateSlot) -> f64 {
        self.read(self.model.metrics.state)[slot as usize]
    }

    pub fn part(&self, name: &str) -> ParamTensors {
        let found = self.model.parts().find(|(part, _, _)| part.name == name);
        found.unwrap_or_else(|| panic!("no tensor `{name}`")).2
    }

    pub fn gradient(&self, name: &str) -> Vec<f64> {
        self.read(self.part(name).training.expect("a trained tensor").gradient)
    }

    pub fn weight(&self, name: &str) -> Vec<f64> {
        self.read(self.part(name).weight)
    }

    /// LM and MTP losses of the accumulated micro-batches (sum of means), and the sum of auxiliary losses.
    pub fn losses(&self) -> (Vec<f64>, f64) {
        let losses = self.read(self.model.metrics.losses);
        let aux = self.read(self.model.metrics.aux);
        (losses.chunks(4).map(|row| row[2]).collect(), aux.iter().sum())
    }
}
