//! Runs kernels of a PTX file on random data, checks them against plain loops and prints speed and counts.
//!
//! `probe FILE rmsnorm ROWS | gemm_mma M N K | gemm90 M N K | gemm90b M N K | mm M N K SHARED | tmamm M N K SHARED | attention T SHARED`
//!
//! `mm`, `tmamm` (with tensor descriptors made on the device) and `attention` are kernels as Triton compiles them (attention: causal, one head of 64 channels, base-2
//! softmax with scale 0.125).

use ptx_sim::exec::{GlobalMemory, Launch, LoadedModule, Machine, Module, Settings};
use ptx_sim::tensormap::{DataType, L2Promotion, OobFill, Swizzle, TensorMap};
use std::sync::Arc;
use std::time::Instant;

fn bf16(x: f32) -> u16 {
    ptx_sim::num::float_cvt::f32_to_bf16_rn(x)
}

fn f32_of(x: u16) -> f32 {
    f32::from_bits((x as u32) << 16)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 40) as f32 / (1u64 << 24) as f32 * 2.0 - 1.0
    }
}

fn bytes_of(v: &[u16]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn put(m: &GlobalMemory, data: &[u8]) -> u64 {
    let p = m.allocate(0, data.len() as u64).unwrap();
    m.write(p, data).unwrap();
    p
}

fn map(address: u64, inner: u64, outer: u64, box0: u32, box1: u32) -> [u8; 128] {
    TensorMap {
        address,
        data_type: DataType::Bf16,
        rank: 2,
        dims: [inner, outer, 1, 1, 1],
        strides: [inner * 2, 0, 0, 0],
        box_dims: [box0, box1, 1, 1, 1],
        element_strides: [1; 5],
        swizzle: Swizzle::B128,
        l2_promotion: L2Promotion::None,
        oob_fill: OobFill::Zero,
    }
    .to_bytes()
}

struct Run<'a> {
    machine: &'a Machine,
    module: &'a LoadedModule,
}

impl Run<'_> {
    fn go(&self, l: Launch<'_>) -> bool {
        let start = Instant::now();
        match self.machine.launch(&l) {
            Ok(r) => {
                let t = start.elapsed().as_secs_f64();
                let c = &r.counts;
                let ti = c.thread_instructions() as f64;
                println!(
                    "{:.3} s, {:.2} G thread-instructions/s, {:.2} GFLOP/s, trace {:016x}",
                    t,
                    ti / t / 1e9,
                    c.matrix_flops as f64 / t / 1e9,
                    r.trace
                );
                if std::env::var("COUNTS").is_ok() {
                    println!("{}", c.to_json());
                }
                print!("{}", r.printed);
                true
            }
            Err(e) => {
                println!("FAULT after {:.3} s\n{e}", start.elapsed().as_secs_f64());
                let _ = self.module;
                false
            }
        }
    }
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&a[1]).expect("PTX file");
    let module = match Module::load(&text) {
        Ok(m) => m,
        Err(e) => return println!("{e}"),
    };
    let settings = Settings::from_env().expect("settings");
    let memory = Arc::new(GlobalMemory::new(1, settings.memory_bytes));
    let machine = Machine::new(settings, memory.clone(), 0);
    let loaded = machine.load(Arc::new(module)).expect("load");
    let run = Run { machine: &machine, module: &loaded };
    let mut r = Random(7);
    let which = a[2].as_str();
    let n = |i: usize| a[i].parse::<usize>().expect("number");
    let mut random = |n: usize| -> Vec<u16> { (0..n).map(|_| bf16(r.next())).collect() };
    if which == "rmsnorm" {
        let (rows, d) = (n(3), 4096usize);
        let (x, w) = (random(rows * d), random(d));
        let (px, pw) = (put(&memory, &bytes_of(&x)), put(&memory, &bytes_of(&w)));
        let py = memory.allocate(0, (rows * d * 2) as u64).unwrap();
        let mut params = Vec::new();
        for p in [px, pw, py] {
            params.extend(p.to_le_bytes());
        }
        params.extend(((d / 8) as u32).to_le_bytes());
        params.extend(1e-6f32.to_le_bytes());
        if !run.go(Launch { grid: [rows as u32, 1, 1], block: [256, 1, 1], params, ..Launch::new(&loaded, "rmsnorm") })
        {
            return;
        }
        let mut out = vec![0u8; rows * d * 2];
        memory.read(py, &mut out).unwrap();
        let mut bad = 0;
        for i in 0..rows {
            let s: f64 = x[i * d..(i + 1) * d].iter().map(|v| (f32_of(*v) as f64).powi(2)).sum();
            let k = 1.0 / (s / d as f64 + 1e-6).sqrt();
            for j in 0..d {
                let want = f32_of(x[i * d + j]) as f64 * k * f32_of(w[j]) as f64;
                let at = (i * d + j) * 2;
                let got = f32_of(u16::from_le_bytes([out[at], out[at + 1]])) as f64;
                bad += ((got - want).abs() > 1e-2 * want.abs().max(1e-3)) as usize;
            }
        }
        println!("bad: {bad}");
        return;
    }
    if which == "attention" {
        let (t, d) = (n(3), 64usize);
        let (q, k, v) = (random(t * d), random(t * d), random(t * d));
        let mut params = Vec::new();
        for x in [&q, &k, &v] {
            params.extend(put(&memory, &bytes_of(x)).to_le_bytes());
        }
        let po = memory.allocate(0, (t * d * 4) as u64).unwrap();
        params.extend(po.to_le_bytes());
        params.extend((t as u32).to_le_bytes());
        params.extend(0.125f32.to_le_bytes());
        let kernel = &loaded.module.kernels[0];
        params.resize(kernel.param_bytes, 0);
        let name = kernel.name.clone();
        let block = kernel.required_threads.unwrap_or([256, 1, 1]);
        if !run.go(Launch {
            grid: [(t / 128) as u32, 1, 1],
            block,
            dynamic_shared: n(4) as u32,
            params,
            ..Launch::new(&loaded, &name)
        }) {
            return;
        }
        let mut out = vec![0u8; t * d * 4];
        memory.read(po, &mut out).unwrap();
        let mut worst = 0f64;
        for i in (0..t).step_by(13) {
            let s: Vec<f64> = (0..=i)
                .map(|j| (0..d).map(|c| f32_of(q[i * d + c]) as f64 * f32_of(k[j * d + c]) as f64).sum::<f64>() * 0.125)
                .collect();
            let m = s.iter().cloned().fold(f64::MIN, f64::max);
            let e: Vec<f64> = s.iter().map(|x| (x - m).exp2()).collect();
            let sum: f64 = e.iter().sum();
            for c in 0..d {
                let want: f64 = e.iter().enumerate().map(|(j, p)| p * f32_of(v[j * d + c]) as f64).sum::<f64>() / sum;
                let at = (i * d + c) * 4;
                let got = f32::from_le_bytes([out[at], out[at + 1], out[at + 2], out[at + 3]]) as f64;
                worst = worst.max((got - want).abs());
            }
        }
        println!("largest error {worst:.2e}");
        return;
    }
    let (m, nn, k) = (n(3), n(4), n(5));
    let (x, w) = (random(m * k), random(nn * k));
    let (pa, pb) = (put(&memory, &bytes_of(&x)), put(&memory, &bytes_of(&w)));
    let pc = memory.allocate(0, (m * nn * 4) as u64).unwrap();
    let mut params = Vec::new();
    let l = match which {
        "gemm_mma" => {
            for p in [pa, pb, pc] {
                params.extend(p.to_le_bytes());
            }
            for v in [m, nn, k] {
                params.extend((v as u32).to_le_bytes());
            }
            Launch {
                grid: [(nn / 64) as u32, (m / 64) as u32, 1],
                block: [128, 1, 1],
                ..Launch::new(&loaded, "gemm_mma")
            }
        }
        "mm" => {
            for p in [pa, pb, pc] {
                params.extend(p.to_le_bytes());
            }
            for v in [m, nn, k, k, k, nn] {
                params.extend((v as u32).to_le_bytes());
            }
            // Triton appends two scratch pointers.
            let want = loaded.module.kernels[0].param_bytes;
            params.resize(want, 0);
            let shared = a[6].parse().expect("shared bytes");
            Launch {
                grid: [(nn / 64) as u32, (m / 128) as u32, 1],
                block: [128, 1, 1],
                dynamic_shared: shared,
                ..Launch::new(&loaded, "mm")
            }
        }
        "tmamm" => {
            let (gm, gn) = (m / 128, nn / 64);
            let scratch = memory.allocate(0, (gm * gn * 384) as u64).unwrap();
            for p in [pa, pb, pc] {
                params.extend(p.to_le_bytes());
            }
            for v in [m, nn, k] {
                params.extend((v as u32).to_le_bytes());
            }
            params.resize(params.len().div_ceil(8) * 8, 0);
            params.extend(scratch.to_le_bytes());
            params.resize(loaded.module.kernels[0].param_bytes, 0);
            let shared = a[6].parse().expect("shared bytes");
            Launch {
                grid: [gn as u32, gm as u32, 1],
                block: [128, 1, 1],
                dynamic_shared: shared,
                ..Launch::new(&loaded, "tmamm")
            }
        }
        _ => {
            let tile = if which == "gemm90" { 64 } else { 128 };
            params.extend(map(pa, k as u64, m as u64, 64, tile));
            params.extend(map(pb, k as u64, nn as u64, 64, tile));
            params.extend(pc.to_le_bytes());
            params.extend((k as u32).to_le_bytes());
            params.extend((nn as u32).to_le_bytes());
            let (threads, shared) = if tile == 64 { (256, 3 * 16384) } else { (384, 4 * 32768) };
            let kernel = if tile == 64 { "gemm90" } else { "gemm90b" };
            Launch {
                grid: [(nn / tile as usize) as u32, (m / tile as usize) as u32, 1],
                block: [threads, 1, 1],
                dynamic_shared: shared,
                ..Launch::new(&loaded, kernel)
            }
        }
    };
    if !run.go(Launch { params, ..l }) {
        return;
    }
    let mut out = vec![0u8; m * nn * 4];
    memory.read(pc, &mut out).unwrap();
    let (mut bad, mut worst) = (0, 0f64);
    for i in (0..m).step_by(7) {
        for j in (0..nn).step_by(5) {
            let want: f64 = (0..k).map(|q| f32_of(x[i * k + q]) as f64 * f32_of(w[j * k + q]) as f64).sum();
            let at = (i * nn + j) * 4;
            let got = f32::from_le_bytes([out[at], out[at + 1], out[at + 2], out[at + 3]]) as f64;
            worst = worst.max((got - want).abs());
            bad += ((got - want).abs() > 1e-3 * (k as f64).sqrt()) as usize;
        }
    }
    println!("bad: {bad}, largest error {worst:.2e}");
}
