//! What is run to tell a mutant from the original: launches that reach every path, and a hash of all that they leave.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use kernels_sys::Arch;
use ptx_sim::exec::Module;
use std::sync::Arc;

use super::pipeline;
use super::virtual_gpu::gemm::{Form, Path, Product};
use super::virtual_gpu::mixer::{Layout, Left, Scan, conv, norm_and_steps, scan};
use super::virtual_gpu::rms_norm::{BackwardCase, EPS, ForwardCase, Inputs, Odd, XOut, backward, forward};
use super::virtual_gpu::{Bf16, Element, Random, Trouble, VirtualGpu};
use super::virtual_gpu::{attention, experts, loss};

/// Runs the launches for `kernel` with `ptx` in place of its module. Inputs depend on `inputs_seed` alone, the schedule
/// on `schedule_seed`. The hash covers every output; an error says what was found instead. With `verify` a product of
/// the pipeline that is wrong is an error too; the RMSNorm kernels have tests of their own for that.
pub fn run(kernel: &str, ptx: &str, inputs_seed: u64, schedule_seed: u64, verify: bool) -> Result<u64, String> {
    let gpu = VirtualGpu::new(schedule_seed).ok_or("built without kernels: run `cargo xtask setup-cuda`")?;
    let mut random = Random::seeded(inputs_seed);
    let mut hasher = DefaultHasher::new();
    if kernel == pipeline::KERNEL {
        let module = Arc::new(Module::load(ptx).map_err(|e| format!("refused at load: {e}"))?);
        // Every number of steps up to twice around the ring, and many: a count that is one short makes up a whole phase
        // in 16 rounds, and no sooner shows, because one warp's wait for wgmma speaks for its whole group. Then tiles
        // that the tensors end in.
        let depths = [8, 64, 128, 192, 200, 256, 320, 384, 400, 1000, 4096];
        for shape in depths.map(|k| (256, 128, k)).into_iter().chain([(300, 200, 328)]) {
            let product = pipeline::product(gpu.machine(), &module, shape, &mut random)?;
            hash_elements(&product.got, &mut hasher);
            if verify && product.got != product.want() {
                return Err(format!("the product of {shape:?} is wrong"));
            }
        }
        return Ok(hasher.finish());
    }
    let module = kernels_sys::kernel(kernel, Arch::Sm90a).ok_or_else(|| format!("no kernel {kernel}"))?.module;
    gpu.replace_module(module, ptx).map_err(|e| format!("refused at load: {e}"))?;
    let products = products(kernel);
    for product in &products {
        let outcome = product.run(&gpu, &mut random).map_err(|trouble| trouble.to_string())?;
        hash_elements(&outcome.got, &mut hasher);
        if verify && outcome.got != outcome.want {
            return Err(format!("{product:?} is wrong"));
        }
    }
    if !products.is_empty() {
        return Ok(hasher.finish());
    }
    if let Some(outcome) = mixer(module, &gpu, &mut random, &mut hasher) {
        return outcome.map(|()| hasher.finish()).map_err(|trouble| trouble.to_string());
    }
    let outcome = match kernel {
        "rms_norm_fwd_bf16" => forward_shapes::<Bf16>(&gpu, &mut random, &mut hasher),
        "rms_norm_fwd_f32" => forward_shapes::<f32>(&gpu, &mut random, &mut hasher),
        "rms_norm_bwd_bf16" => backward_shapes::<Bf16>(&gpu, &mut random, &mut hasher),
        "rms_norm_bwd_f32" => backward_shapes::<f32>(&gpu, &mut random, &mut hasher),
        name if name.starts_with("experts_") => experts_shapes(name, &gpu, &mut random, &mut hasher),
        name if name.starts_with("attention_") => attention_shapes(&gpu, &mut random, &mut hasher),
        "linear_cross_entropy_rows_bf16" => loss_shapes(&gpu, &mut random, &mut hasher),
        "linear_cross_entropy_scale" | "linear_cross_entropy_metric" => metric_shapes(&gpu, &mut random, &mut hasher),
        other => match super::routing::shapes(other, &gpu, &mut random, &mut hasher) {
            Some(outcome) => outcome,
            None => return Err(format!("no launches are known for {other}")),
        },
    };
    outcome.map(|()| hasher.finish()).map_err(|trouble| trouble.to_string())
}

/// Launches that reach every path of the kernels of a module of the Mamba-2 mixer; none for other modules. The numbers are
/// checked against the CPU device by tests of their own.
fn mixer(
    module: &str,
    gpu: &VirtualGpu,
    random: &mut Random,
    hasher: &mut DefaultHasher,
) -> Option<Result<(), Trouble>> {
    let layouts = [Layout { stride: 0, shift: 0 }, Layout { stride: 0, shift: 3 }];
    let mut left: Vec<Result<Left, Trouble>> = Vec::new();
    for (i, layout) in layouts.into_iter().enumerate() {
        match module {
            "conv/conv_silu" => {
                let documents = [1, 2, 3, 31, 100, 4, 130];
                left.push(conv(gpu, random, (72, 4), &documents, i == 0, layout));
                left.push(conv(gpu, random, (9, [8, 1][i]), &[33, 0, 32], i == 1, layout));
            }
            "norm/gated_rms_norm" | "mamba/softplus_dt" => {
                left.push(norm_and_steps(gpu, random, (130, 2, 264), [0.0, 0.5][i], layout));
                left.push(norm_and_steps(gpu, random, (67, 35, 8), [0.5, 0.0][i], layout));
            }
            "mamba/ssd_states" | "mamba/ssd_scan_fwd" | "mamba/ssd_scan_bwd_x" | "mamba/ssd_scan_bwd_bc" => {
                let with_state = i == 0;
                let (groups, documents) = (2, &[90, 3, 47][..]);
                let small = Scan { heads: 4, head_dim: 8, state: 16, groups, chunk: 70, documents, with_state };
                left.push(scan(gpu, random, small, layout));
                let wide =
                    Scan { heads: 2, head_dim: 67, state: 70, groups: 1, chunk: 9, documents: &[11], with_state };
                left.push(scan(gpu, random, wide, layout));
            }
            _ => return None,
        }
    }
    for left in left {
        match left {
            Ok(left) => left.into_iter().for_each(|(_, bytes)| bytes.hash(hasher)),
            Err(trouble) => return Some(Err(trouble)),
        }
    }
    Some(Ok(()))
}

/// Products that reach every path of a matrix product's kernel; none for other kernels.
fn products(kernel: &str) -> Vec<Product> {
    let Some(name) = kernel.strip_prefix("gemm_") else { return Vec::new() };
    let plain = name.strip_prefix("plain_");
    let Some(form) = Form::ALL.into_iter().find(|f| plain.unwrap_or(name).starts_with(f.name())) else {
        return Vec::new();
    };
    let mut products = Vec::new();
    let eights = |length: usize| length.next_multiple_of(8) - length;
    if plain.is_some() {
        let c_f32 = kernel.ends_with("f32");
        let product =
            |sizes, pads, accumulate| Product { form, path: Path::Plain, sizes, pads, c_f32, accumulate, alpha: 0.5 };
        // Sizes at the edges of tiles and of steps of k, aligned and not.
        let shapes = [(64, 64, 64), (72, 136, 40), (65, 63, 33), (7, 9, 17), (130, 66, 100)];
        for (i, sizes) in shapes.into_iter().enumerate() {
            products.push(product(sizes, [[0, 8, 0], [0; 3], [7, 3, 1], [1, 0, 5], [8; 3]][i], i % 2 == 1));
        }
        // Tiles that end in each of the eights of rows and columns of a warp, and of k in the first and in a later step, at
        // each of the elements of an eight: with pairs of columns and single ones, stored and added.
        for (eight, rest) in (0..4).flat_map(|eight| (0..8).map(move |rest| (eight, rest))) {
            let (m, n) = (32 + 8 * eight + rest, 32 + 8 * ((eight + 1) % 4) + (rest + 3) % 8);
            let k = [24, 56][eight % 2] + (rest + 5) % 8;
            let pad = |length: usize| if eight == 3 { eights(length) } else { 1 + length % 2 };
            let a = pad(if form == Form::TN { m } else { k });
            let b = pad(if form == Form::NT { k } else { n });
            let c = if rest / 4 == 0 { n % 2 } else { 1 - n % 2 };
            products.push(product((m, n, k), [a, b, c], rest / 2 % 2 == 1));
        }
        return products;
    }
    let cols = name.rsplit('_').next().and_then(|cols| cols.parse().ok()).unwrap_or(128);
    for cluster in [1, 2] {
        // Depths of every number of stages up to twice around the ring, then more tiles than clusters and tiles at edges of
        // c in both directions: all columns of a tile by aligned rows of either type and by unaligned ones.
        let depths = [8, 64, 200, 320, 392, 13 * 64];
        let edges = [(137, cols + 9, 72, true), (3 * 128 * cluster, 2 * cols - 31, 136, true), (65, cols, 64, false)];
        let shapes = depths.map(|k| (128 * cluster, 40, k, true)).into_iter().chain(edges);
        for (i, (m, n, k, aligned)) in shapes.enumerate() {
            let a = if form == Form::TN { eights(m) } else { eights(k) };
            let b = if form == Form::NT { eights(k) } else { eights(n) };
            products.push(Product {
                form,
                path: Path::Tma { cols, cluster, clusters: if i == 7 { 2 } else { 1 } },
                sizes: (m, n, k),
                pads: [a, b, if aligned { eights(n) } else { 1 }],
                c_f32: (i + cluster) % 2 == 1,
                // An element that is added to twice shows.
                accumulate: i % 3 == 0 || !aligned,
                alpha: [1.0, 0.5][i % 2],
            });
        }
    }
    products
}

/// Widths that end inside each of the pieces that the threads take: unaligned rows in pieces of 384, then aligned rows
/// in pieces of 384 packs.
fn widths<T: Element>() -> Vec<(usize, usize)> {
    let pack = 16 / size_of::<T>();
    let unaligned = (0..10).map(|piece| (piece * 384 + 37 + piece, 1));
    let aligned = [5, 384 + 9, 768 + 31, 1152 + 3, 768 + 200].map(|packs| (packs * pack, pack));
    unaligned.chain(aligned).collect()
}

fn forward_shapes<T: Element>(
    gpu: &VirtualGpu,
    random: &mut Random,
    hasher: &mut DefaultHasher,
) -> Result<(), Trouble> {
    for (n, (h, pad)) in widths::<T>().into_iter().enumerate() {
        let mut inputs = Inputs::<T>::new(random, (5, h, pad));
        extreme_rows(&mut inputs, random);
        let case = ForwardCase {
            kernel: "rms_norm_fwd",
            // One block more than there are rows, or fewer.
            grid: [2, 6][n % 2],
            with_b: n % 4 != 1,
            x_out: XOut::ALL[n % 3],
            shift: 0,
            eps: [0.0, EPS][n / 2 % 2],
        };
        let left = forward(gpu, &inputs, case)?;
        hash_elements(&left.x_out.unwrap_or_default(), hasher);
        hash_elements(&left.y, hasher);
        hash_elements(&left.rstd.unwrap_or_default(), hasher);
    }
    Ok(())
}

/// Mean squares at the ends of the range, one row each: zero, subnormal, infinite, and infinite elements.
fn extreme_rows<T: Element>(inputs: &mut Inputs<T>, random: &mut Random) {
    let h = inputs.h;
    for (row, magnitude) in [0.0, 1e-21, 1e25].into_iter().enumerate() {
        inputs.x[row * h..][..h].fill_with(|| T::from_f32(magnitude * random.normal(1.0)));
        inputs.b[row * h..][..h].fill(T::from_f32(0.0));
    }
    inputs.x[3 * h + h / 2] = T::from_f32(f32::INFINITY);
}

fn backward_shapes<T: Element>(
    gpu: &VirtualGpu,
    random: &mut Random,
    hasher: &mut DefaultHasher,
) -> Result<(), Trouble> {
    for (n, (h, pad)) in widths::<T>().into_iter().enumerate() {
        let inputs = Inputs::<T>::new(random, (7, h, pad));
        let x_out = inputs.x_out(true);
        let case = BackwardCase {
            naive: false,
            grid: [2, 5][n % 2],
            block_tokens: 2,
            accumulate: n % 2 == 0,
            shift: 0,
            odd: None,
        };
        let left = backward(gpu, &inputs, &x_out, case)?;
        hash_elements(&left.d_res, hasher);
        hash_elements(&left.dw, hasher);
    }
    // Aligned rows but for one operand: taking these for aligned is an access that is not.
    let inputs = Inputs::<T>::new(random, (2, 64, 0));
    for odd in Odd::ALL {
        let case = BackwardCase { naive: false, grid: 1, block_tokens: 2, accumulate: true, shift: 0, odd: Some(odd) };
        let left = backward(gpu, &inputs, &inputs.x_out(true), case)?;
        hash_elements(&left.d_res, hasher);
        hash_elements(&left.dw, hasher);
    }
    Ok(())
}

fn experts_shapes(
    kernel: &str,
    gpu: &VirtualGpu,
    random: &mut Random,
    hasher: &mut DefaultHasher,
) -> Result<(), Trouble> {
    let mut many = vec![1; 40];
    (many[0], many[35]) = (0, 65);
    let counts: [&[i32]; 3] = [&[0, 3, 0, 64, 65, 0], &[130], &many];
    // Aligned rows that end inside a pack of eight, too.
    let sizes = [(64, 32, [0; 4]), (72, 40, [8, 0, 16, 8]), (65, 33, [1, 3, 5, 7]), (7, 130, [0; 4]), (70, 38, [2; 4])];
    for (i, (n, depth, pads)) in sizes.into_iter().enumerate() {
        let routing = experts::Routing::new(gpu, counts[i % 3]);
        let s = experts::Sizes { n, depth, pads };
        match kernel {
            "experts_gather_bf16" => hash_elements(&experts::gather(gpu, random, &routing, s)?, hasher),
            "experts_activation_bwd_bf16" => {
                // A lane of the warp takes several pieces.
                let s = experts::Sizes { n: n + 256, ..s };
                let (left, dweight) = experts::activation_bwd(gpu, random, &routing, s)?;
                hash_elements(&left, hasher);
                hash_elements(&dweight, hasher);
            }
            "experts_weight_bwd_bf16" if i % 2 == 0 => {
                hash_elements(&experts::weight_bwd::<f32>(gpu, random, &routing, i == 0, s)?, hasher);
            }
            "experts_weight_bwd_bf16" => {
                hash_elements(&experts::weight_bwd::<Bf16>(gpu, random, &routing, i == 1, s)?, hasher);
            }
            _ => {
                let form = if kernel.contains("_nt_") { "nt" } else { "nn" };
                let left = experts::product(gpu, random, &routing, (form, false, i % 2 == 0), s)?;
                hash_elements(&left, hasher);
            }
        }
    }
    Ok(())
}

/// Forward and backward pass: tokens and documents at the edges of tiles, heads of one to eight steps of channels.
fn attention_shapes(gpu: &VirtualGpu, random: &mut Random, hasher: &mut DefaultHasher) -> Result<(), Trouble> {
    let case = |t, (heads, kv_heads), head_dim, documents, pads| attention::Case {
        t,
        heads,
        kv_heads,
        head_dim,
        documents,
        pads,
    };
    for case in [
        case(1, (1, 1), 1, &[], [0; 4]),
        case(65, (2, 1), 16, &[3, 33, 34], [0; 4]),
        case(130, (1, 1), 40, &[64, 96], [8, 0, 16, 8]),
        case(70, (4, 2), 19, &[1, 63, 68], [1, 3, 5, 7]),
        case(33, (1, 1), 128, &[], [0; 4]),
        // The most steps of channels, stored one element at a time.
        case(20, (1, 1), 121, &[], [1, 3, 5, 7]),
        // Aligned rows that end inside a pack of eight.
        case(40, (1, 1), 14, &[9], [2; 4]),
    ] {
        let (left, sums) = case.run(gpu, random)?;
        hash_elements(&left, hasher);
        hash_elements(&sums, hasher);
    }
    Ok(())
}

/// Vocabularies of less than a block's threads and several times as many, in packs and not.
fn loss_shapes(gpu: &VirtualGpu, random: &mut Random, hasher: &mut DefaultHasher) -> Result<(), Trouble> {
    let (wide, several) = (2048 + 264, 12);
    // The last is long enough for the unrolled part of the loops over packs.
    let sizes = [
        (6, 1, 0),
        (several, 37, 0),
        (several, 256, 0),
        (7, wide, 8),
        (several, wide, 8),
        (several, wide, 3),
        (several, 8192 + wide, 0),
    ];
    for (i, size) in sizes.into_iter().enumerate() {
        let left = loss::rows(gpu, random, size, i != 3)?;
        hash_elements(&left.logits, hasher);
        hash_elements(&left.ce, hasher);
        left.hits.hash(hasher);
    }
    Ok(())
}

fn metric_shapes(gpu: &VirtualGpu, random: &mut Random, hasher: &mut DefaultHasher) -> Result<(), Trouble> {
    for (i, sizes) in [(0, 0), (1, 300), (255, 0), (256, 256), (2700, 2313), (1500, 2500)].into_iter().enumerate() {
        let (scale, tokens, metric) = loss::scale_and_metric(gpu, random, sizes, [0.0, 0.25][i % 2])?;
        (scale.to_bits(), tokens, metric).hash(hasher);
    }
    Ok(())
}

fn hash_elements<T: Element>(elements: &[T], hasher: &mut DefaultHasher) {
    for element in elements {
        element.to_bytes().hash(hasher);
    }
}
