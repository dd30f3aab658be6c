//! What nvcc makes of functions, switches, local memory, warp intrinsics, atomics, maths and printf
//! (`tests/cuda/language.cu`), against plain Rust.

use ptx_sim::exec::{GlobalMemory, Launch, LaunchReport, Machine, Module, Settings};
use std::sync::Arc;

struct Device {
    memory: Arc<GlobalMemory>,
    machine: Machine,
    module: ptx_sim::exec::LoadedModule,
}

fn device() -> Device {
    let memory = Arc::new(GlobalMemory::new(1, 1 << 30));
    let machine = Machine::new(Settings { host_threads: 2, ..Settings::default() }, memory.clone(), 0);
    let module = Module::load(include_str!("ptx/language.ptx")).unwrap_or_else(|e| panic!("{e}"));
    let module = machine.load(Arc::new(module)).unwrap();
    Device { memory, machine, module }
}

impl Device {
    fn put(&self, bytes: &[u8]) -> u64 {
        let p = self.memory.allocate(0, bytes.len() as u64).unwrap();
        self.memory.write(p, bytes).unwrap();
        p
    }

    fn words(&self, p: u64, n: usize) -> Vec<u32> {
        let mut b = vec![0; n * 4];
        self.memory.read(p, &mut b).unwrap();
        b.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
    }

    fn run(&self, kernel: &str, grid: u32, block: u32, params: Vec<u8>) -> LaunchReport {
        let l = Launch { grid: [grid, 1, 1], block: [block, 1, 1], params, ..Launch::new(&self.module, kernel) };
        self.machine.launch(&l).unwrap_or_else(|f| panic!("{kernel}: {f}"))
    }
}

fn le(v: &[u32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn pointers(v: &[u64]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn calls_with_divergence_and_structures() {
    let d = device();
    let out = d.memory.allocate(0, 512).unwrap();
    d.run("calls", 1, 64, pointers(&[out]));
    let collatz = |mut x: u32| {
        let mut n = 0;
        while x != 1 {
            x = if x & 1 == 1 { 3 * x + 1 } else { x >> 1 };
            n += 1;
        }
        n
    };
    let got = d.words(out, 128);
    for t in 0..64u32 {
        let want = if t.is_multiple_of(3) { collatz(t + 1) } else { collatz(2 * t + 7) + 1000 };
        assert_eq!(got[t as usize], want, "thread {t}");
        assert_eq!(got[64 + t as usize], t * 5 + 7 + (t << 1), "thread {t}");
    }
}

#[test]
fn switch_and_local_memory() {
    let d = device();
    let input: Vec<u32> = (0..96u32).map(|i| i.wrapping_mul(2654435761) >> 7).collect();
    let (i, o) = (d.put(&le(&input)), d.memory.allocate(0, 384).unwrap());
    d.run("branches", 1, 96, pointers(&[i, o]));
    let table = [3u32, 1, 4, 1, 5, 9, 2, 6];
    for (v, got) in input.iter().zip(d.words(o, 96)) {
        let v = *v;
        let r = match v % 9 {
            0 => v + 1,
            1 => v.wrapping_mul(3),
            2 => v ^ 0x55,
            3 => v.wrapping_sub(7),
            4 => v << 2,
            5 => v >> 1,
            6 => !v,
            7 => v.wrapping_mul(v),
            _ => table[v as usize & 7],
        };
        let k = v & 15;
        assert_eq!(got, r.wrapping_add(v + k * k), "{v}");
    }
}

#[test]
fn warp_intrinsics() {
    let d = device();
    let out = d.memory.allocate(0, 1024).unwrap();
    d.run("warps", 1, 32, pointers(&[out]));
    let got = d.words(out, 256);
    let mask = |f: &dyn Fn(u32) -> bool| (0..32).filter(|l| f(*l)).fold(0u32, |m, l| m | 1 << l);
    for l in 0..32u32 {
        let at = |k: usize| got[32 * k + l as usize];
        assert_eq!(at(0), mask(&|k| k % 3 == 1));
        assert_eq!(at(1), mask(&|k| k % 5 == l % 5));
        assert_eq!(at(2), (0..32).map(|k| k * k).sum());
        assert_eq!(at(3), if l >= 3 { (l - 3) * 10 } else { l * 10 });
        assert_eq!(at(4), if l % 16 + 5 < 16 { (l + 5) * 10 } else { l * 10 });
        assert_eq!(at(5), (l / 8 * 8 + l * 7 % 8) * 10);
        assert_eq!(at(6), if l < 16 { 15 } else { 16 });
        assert_eq!(at(7), 1);
    }
}

#[test]
fn atomics_of_many_blocks() {
    let d = device();
    let i = d.put(&le(&[0, 0x8000_0000, u32::MAX, 0, 0, 0, 0, 0, 0, 0]));
    let (f, q, h) = (d.put(&[0; 4]), d.put(&[0; 8]), d.put(&[0; 4]));
    d.run("atoms", 1, 100, pointers(&[i, f, q, h]));
    let got = d.words(i, 10);
    assert_eq!(got[0], 5050);
    assert_eq!(got[1], 49);
    assert_eq!(got[2], 0);
    assert_eq!(got[3], 100 % 7);
    // Doubled and incremented by up to 100 threads: all ones.
    assert_eq!(got[4] & got[4].wrapping_add(1), 0);
    assert!(got[4] >= (1 << 16) - 1);
    assert_eq!(f32::from_bits(d.words(f, 1)[0]), 50.0);
    assert_eq!(d.words(q, 2), [0, 200]);
    assert_eq!(d.words(h, 1)[0], 0x5a40_5640, "100 and 200 as f16");
    assert_eq!((got[8], got[9]), ((0..100).step_by(2).sum(), (1..100).step_by(2).sum()));
}

#[test]
fn maths_against_f64() {
    let d = device();
    let n = 77usize;
    let x: Vec<f32> = (0..n).map(|i| ((i * 7919 % 1000) as f32 - 500.0) / 83.0).collect();
    let px = d.put(&x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    let (py, pd) = (d.memory.allocate(0, (10 * n * 4) as u64).unwrap(), d.memory.allocate(0, (n * 8) as u64).unwrap());
    let mut params = pointers(&[px, py, pd]);
    params.extend((n as u32).to_le_bytes());
    d.run("maths", 3, 32, params);
    let y: Vec<f64> = d.words(py, 10 * n).into_iter().map(|b| f32::from_bits(b) as f64).collect();
    let mut doubles = vec![0; n * 8];
    d.memory.read(pd, &mut doubles).unwrap();
    let weights = [0.5, 1.5, 2.5, 3.5];
    for (t, v) in x.iter().enumerate() {
        let f = *v as f64;
        let big = (*v * 1e6f32) as f64;
        let near = |k: usize, want: f64, bound: f64| {
            let got = y[k * n + t];
            assert!((got - want).abs() <= bound * want.abs().max(1e-2), "function {k} of {v}: {got} instead of {want}");
        };
        near(0, big.sin(), 1e-4);
        near(1, f.exp(), 1e-6);
        near(2, (f.abs() + 1e-3).ln(), 1e-5);
        near(3, f / (f * f + 1.0), 1e-6);
        near(4, f.abs().sqrt(), 1e-6);
        assert!((y[5 * n + t] - (f * 0.25 + 1.0)).abs() <= 2e-3, "{v}");
        assert!((y[6 * n + t] - (f + 0.125)).abs() <= 5e-2, "{v}");
        near(7, f * weights[t & 3], 1e-6);
        near(8, f.tanh(), 1e-5);
        near(9, 1.0 / (f.abs() + 1.0).sqrt() + f.floor() + (*v * 3.0).round_ties_even() as f64, 1e-5);
        let got = f64::from_le_bytes(doubles[8 * t..8 * t + 8].try_into().unwrap());
        let want = f.exp() + f.cos() / 3.0;
        assert!((got - want).abs() <= 1e-13 * want.abs().max(1.0), "{v}: {got} {want}");
    }
}

#[test]
fn printf_formats() {
    let d = device();
    let mut params = 9u32.to_le_bytes().to_vec();
    params.resize(16, 0);
    let r = d.run("speak", 1, 64, params);
    assert_eq!(
        r.printed,
        "t 0 of 9:  0.00 word 0x1234567890|7   |-0042 z%\nt 1 of 9:  0.50 word 0x1234567890|7   |-0042 z%\n"
    );
}
