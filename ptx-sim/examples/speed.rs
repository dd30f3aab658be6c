//! Measures the speed of the virtual GPU: `speed [PTX of csrc/norm/rms_norm.cu]`.
//!
//! RMSNorm at 4096 x 2688 (bf16), a TMA and wgmma GEMM of 1024 x 1024 x 1024 and an mma.sync GEMM of the same size, each
//! with checks and counts on and with both off, best of three launches. Without an argument RMSNorm is the one of the
//! tests. `LIGHTNING_SIM_THREADS` sets the host threads.
//!
//! The second number of each pair divides the work by the processor time of all threads, times the number of threads:
//! what an idle machine of that many cores would reach, also when this one is busy.

use ptx_sim::exec::{GlobalMemory, Launch, LoadedModule, Machine, Module, Settings};
use ptx_sim::tensormap::{DataType, L2Promotion, OobFill, Swizzle, TensorMap};
use std::sync::Arc;
use std::time::Instant;

const GEMM: usize = 1024;
const ROWS: usize = 4096;
const HIDDEN: usize = 2688;

/// Seconds of processor time that all threads of this process have used.
fn processor_seconds() -> f64 {
    // SAFETY: `rusage` is plain data; the call only writes to it.
    let usage = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut u);
        u
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// `count` bf16 numbers in [-1, 1).
fn random(count: usize, mut state: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * count);
    for _ in 0..count {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        out.extend(ptx_sim::num::float_cvt::f32_to_bf16_rn(x).to_le_bytes());
    }
    out
}

struct Gpu {
    machine: Machine,
    memory: Arc<GlobalMemory>,
}

impl Gpu {
    fn put(&self, data: &[u8]) -> u64 {
        let address = self.memory.allocate(0, data.len() as u64).expect("memory");
        self.memory.write(address, data).expect("a live buffer");
        address
    }

    fn load(&self, text: &str) -> LoadedModule {
        self.machine.load(Arc::new(Module::load(text).expect("PTX"))).expect("memory for the module")
    }

    /// Best rates of three launches: per second, and per processor second times threads.
    fn rate(&self, work: f64, launch: &Launch<'_>) -> (f64, f64) {
        let threads = self.machine.settings().host_threads as f64;
        let mut best = (0f64, 0f64);
        for _ in 0..3 {
            let (start, used) = (Instant::now(), processor_seconds());
            if let Err(fault) = self.machine.launch(launch) {
                panic!("{fault}");
            }
            best.0 = best.0.max(work / start.elapsed().as_secs_f64());
            best.1 = best.1.max(work / (processor_seconds() - used) * threads);
        }
        best
    }
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn map(address: u64) -> [u8; 128] {
    TensorMap {
        address,
        data_type: DataType::Bf16,
        rank: 2,
        dims: [GEMM as u64, GEMM as u64, 1, 1, 1],
        strides: [2 * GEMM as u64, 0, 0, 0],
        box_dims: [64, 128, 1, 1, 1],
        element_strides: [1; 5],
        swizzle: Swizzle::B128,
        l2_promotion: L2Promotion::None,
        oob_fill: OobFill::Zero,
    }
    .to_bytes()
}

fn main() {
    let own = std::env::args().nth(1).map(|path| std::fs::read_to_string(path).expect("a PTX file"));
    let plain = include_str!("../tests/ptx/norm_gemm.ptx");
    let hopper = include_str!("../tests/ptx/hopper_gemm.ptx");
    for checks in [true, false] {
        let mut settings = Settings::from_env().expect("settings");
        (settings.checks, settings.counts) = (checks, checks);
        let threads = settings.host_threads;
        let memory = Arc::new(GlobalMemory::new(1, settings.memory_bytes));
        let gpu = Gpu { machine: Machine::new(settings, memory.clone(), 0), memory };
        let name = if checks { "checks on" } else { "checks off" };

        let (x, w) = (gpu.put(&random(ROWS * HIDDEN, 1)), gpu.put(&random(HIDDEN, 2)));
        let y = gpu.memory.allocate(0, (ROWS * HIDDEN * 2) as u64).expect("memory");
        let module = gpu.load(own.as_deref().unwrap_or(plain));
        let launch = if own.is_some() {
            let (rstd, stride) = (gpu.memory.allocate(0, ROWS as u64 * 4).expect("memory"), HIDDEN as u64);
            let mut params = words(&[x, 0, 0, y, w, rstd, stride, stride, stride, stride, ROWS as u64]);
            params.extend((HIDDEN as u32).to_le_bytes());
            params.extend(1e-5f32.to_le_bytes());
            let grid = [4 * 132, 1, 1];
            Launch { grid, block: [384, 1, 1], params, ..Launch::new(&module, "rms_norm_fwd_bf16") }
        } else {
            let mut params = words(&[x, w, y]);
            params.extend((HIDDEN as u32 / 8).to_le_bytes());
            params.extend(1e-5f32.to_le_bytes());
            Launch { grid: [ROWS as u32, 1, 1], block: [256, 1, 1], params, ..Launch::new(&module, "rmsnorm") }
        };
        let counting = Settings { counts: true, ..gpu.machine.settings().clone() };
        let counted = Machine::new(counting, gpu.memory.clone(), 0).launch(&launch);
        let instructions = counted.unwrap_or_else(|fault| panic!("{fault}")).counts.thread_instructions() as f64;
        let (wall, idle) = gpu.rate(instructions / 1e9, &launch);
        println!("{name}, {threads} threads: RMSNorm       {wall:6.2} ({idle:6.2}) G thread-instructions/s");

        let flops = 2.0 * (GEMM * GEMM * GEMM) as f64 / 1e9;
        let (a, b) = (gpu.put(&random(GEMM * GEMM, 3)), gpu.put(&random(GEMM * GEMM, 4)));
        let c = gpu.memory.allocate(0, (GEMM * GEMM * 4) as u64).expect("memory");
        let size = GEMM as u32;
        let module = gpu.load(hopper);
        let mut params = [map(a), map(b)].concat();
        params.extend(c.to_le_bytes());
        params.extend([size, size].iter().flat_map(|v| v.to_le_bytes()));
        let grid = [size / 128, size / 128, 1];
        let launch =
            Launch { grid, block: [384, 1, 1], dynamic_shared: 4 * 32_768, params, ..Launch::new(&module, "gemm90b") };
        let (wall, idle) = gpu.rate(flops, &launch);
        println!("{name}, {threads} threads: wgmma GEMM    {wall:6.2} ({idle:6.2}) GFLOP/s");

        let module = gpu.load(plain);
        let mut params = words(&[a, b, c]);
        params.extend([size; 3].iter().flat_map(|v| v.to_le_bytes()));
        let grid = [size / 64, size / 64, 1];
        let launch = Launch { grid, block: [128, 1, 1], params, ..Launch::new(&module, "gemm_mma") };
        let (wall, idle) = gpu.rate(flops, &launch);
        println!("{name}, {threads} threads: mma.sync GEMM {wall:6.2} ({idle:6.2}) GFLOP/s");
    }
}
