//! Devices that a plan can be made for, as data.

use crate::recipes::Recipe;

/// What a plan needs to know of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Name on the command line.
    pub name: &'static str,
    /// Memory that a program can use, in bytes; `None` is the memory of this machine.
    pub memory: Option<f64>,
    /// Matrix products with bf16 operands, FLOP/s.
    pub flops: f64,
    /// Device memory, bytes/s.
    pub bandwidth: f64,
    /// Links between devices of one domain, bytes/s and direction.
    pub link: f64,
    /// Network per device, bytes/s.
    pub network: f64,
    /// Devices of one link domain.
    pub domain: usize,
    /// Memory for context, libraries and communication that no plan sees, in bytes.
    pub reserve: f64,
    /// Where the numbers come from.
    pub source: &'static str,
}

const GIB: f64 = 1_073_741_824.0;

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "cpu",
        memory: None,
        flops: 5e10,
        bandwidth: 1e10,
        link: 1e10,
        network: 1e9,
        domain: 1,
        reserve: 0.0,
        source: "one AVX-512 core by DESIGN.md's GEMM table, rounded down; bandwidth assumed; --measured replaces both",
    },
    Target {
        name: "h100",
        memory: Some(79.0 * GIB),
        flops: 989e12,
        bandwidth: 3.35e12,
        link: 450e9,
        network: 50e9,
        domain: 8,
        reserve: 2.5 * GIB,
        source: "kernels.md §0 (peaks), §1.4 (50 GB/s fabric), §5.2 (79 GiB usable, 2.5 GiB workspace, NCCL and context)",
    },
    Target {
        name: "h200",
        memory: Some(139.0 * GIB),
        flops: 989e12,
        bandwidth: 4.8e12,
        link: 450e9,
        network: 50e9,
        domain: 8,
        reserve: 2.5 * GIB,
        source: "kernels.md §0 (peaks); about 139 GiB usable; links as h100",
    },
    Target {
        name: "gb200",
        memory: Some(186e9),
        flops: 2.5e15,
        bandwidth: 8e12,
        link: 900e9,
        network: 50e9,
        domain: 72,
        reserve: 2.5 * GIB,
        source: "kernels.md §0 (peaks), §5.2 (186 GB class; reserve as h100); domain 72: recipes.md §2.1",
    },
];

/// The target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name.eq_ignore_ascii_case(name.trim()))
}

/// The target that a recipe is made for; the processor for recipes of one rank.
pub fn of_recipe(recipe: Option<&Recipe>) -> &'static Target {
    let machine = recipe.map_or("", |r| r.machine);
    match machine {
        m if m.contains("H100") => &TARGETS[1],
        m if m.contains("GB200") || m.contains("GB300") => &TARGETS[3],
        _ => &TARGETS[0],
    }
}

/// A peak that a public run of a recipe recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedPeak {
    /// Recipe.
    pub recipe: &'static str,
    /// Peak of what the allocator handed out, GiB.
    pub allocated_gib: f64,
    /// Peak of what the allocator held, GiB.
    pub reserved_gib: f64,
    /// Where it is recorded.
    pub source: &'static str,
}

const fn recorded(recipe: &'static str, allocated_gib: f64, reserved_gib: f64, source: &'static str) -> RecordedPeak {
    RecordedPeak { recipe, allocated_gib, reserved_gib, source }
}

/// Peaks of public runs, of the public stack and not of this program.
pub const RECORDED_PEAKS: &[RecordedPeak] = &[
    recorded("nemotron_3_5_lightning_pretrain_config", 68.547, 73.893, "recipes.md §2.1, H100"),
    recorded("nemotron_3_5_lightning_pretrain_8k_config", 158.220, 162.290, "recipes.md §2.1, GB200"),
    recorded("nemotron_3_5_lightning_pretrain_8k_fsdp_config", 160.760, 166.230, "recipes.md §2.1, GB200 FSDP"),
    recorded(
        "nemotron_3_5_lightning_sft_openmathinstruct2_packed_tp1_config",
        101.510,
        103.960,
        "recipes.md §2.2, SFT GB200",
    ),
    recorded("nemotron_3_5_lightning_pretrain_16gpu_h100_bf16_config", 72.066, 75.340, "recipes.md §3, H100 bf16"),
    recorded("nemotron_3_5_lightning_pretrain_8gpu_gb200_bf16_config", 156.850, 161.260, "recipes.md §3, GB200 bf16"),
    recorded(
        "nemotron_3_5_lightning_pretrain_8gpu_gb200_fp8mx_fsdp_config",
        169.540,
        173.860,
        "recipes.md §3, GB200 fp8mx FSDP",
    ),
];
