//! Matrix products on the virtual GPU: every form, tile and cluster against sums of whole eighths, which have one right
//! value whatever the order, between guard bytes and with every check on.

mod virtual_gpu;

use virtual_gpu::gemm::{Form, Path, Product};
use virtual_gpu::{Random, Trouble, VirtualGpu};

fn check(gpu: &VirtualGpu, product: Product, random: &mut Random) -> ptx_sim::exec::Counts {
    let outcome = product.run(gpu, random).unwrap_or_else(|trouble: Trouble| panic!("{product:?}: {trouble}"));
    for (i, (got, want)) in outcome.got.iter().zip(&outcome.want).enumerate() {
        let n = product.sizes.1;
        assert_eq!(got, want, "{product:?}: element ({}, {})", i / n, i % n);
    }
    outcome.report.counts
}

fn tiles() -> impl Iterator<Item = (usize, usize)> {
    [128, 192, 256].into_iter().flat_map(|cols| [1, 2].map(|cluster| (cols, cluster)))
}

/// Row 25 of the defect list: every configuration, not the default alone. Sizes at the edges of tiles and lines, depths
/// from one element to twice around the ring, fewer clusters than tiles.
#[test]
fn every_tile_and_form() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else { return };
    for form in Form::ALL {
        for (cols, cluster) in tiles() {
            let shapes =
                [(8, 8, 8), (136, cols + 8, 72), (257, cols - 1, 65), (1, 40, 64), (300, 2 * cols, 13 * 64 - 8)];
            for (i, (m, n, k)) in shapes.into_iter().enumerate() {
                // Operands keep the rule of 16 bytes through their pads.
                let pad = |length: usize| length.next_multiple_of(8) - length + 8 * (i % 2);
                let a = if form == Form::TN { pad(m) } else { pad(k) };
                let b = if form == Form::NT { pad(k) } else { pad(n) };
                let product = Product {
                    form,
                    path: Path::Tma { cols, cluster, clusters: 1 + i % 2 },
                    sizes: (m, n, k),
                    // c is also written where its rows are not aligned.
                    pads: [a, b, [0, 8, 1][(i + cluster) % 3]],
                    c_f32: (i + cols / 64 + cluster) % 2 == 0,
                    accumulate: (i / 2 + cols / 64) % 2 == 0,
                    alpha: if i == 1 { 0.5 } else { 1.0 },
                };
                check(&gpu, product, &mut random);
            }
        }
    }
}

/// The plain kernel and the naive one, at any size and alignment. (A product without elements is no launch.)
#[test]
fn plain_and_naive() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else { return };
    let shapes = [(2, 5, 0), (1, 1, 1), (3, 7, 5), (64, 64, 32), (65, 63, 33), (130, 70, 100)];
    for (i, sizes) in shapes.into_iter().enumerate() {
        for form in Form::ALL {
            for path in [Path::Plain, Path::Naive] {
                let pads = [[0; 3], [8, 8, 8], [1, 3, 5]][random.bits() as usize % 3];
                let (c_f32, accumulate) = (random.bits() % 2 == 0, random.bits() % 2 == 0);
                let product = Product { form, path, sizes, pads, c_f32, accumulate, alpha: [1.0, 0.5][i % 2] };
                check(&gpu, product, &mut random);
            }
        }
    }
}

/// Rows so far apart that offsets in elements pass 2^31 and 2^32 (B63; row 1 of the defect list).
#[test]
fn far_rows() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else { return };
    for pad in [(1 << 31) + 6, (1 << 32) + 6] {
        for form in Form::ALL {
            for path in [Path::Tma { cols: 128, cluster: 1, clusters: 1 }, Path::Plain, Path::Naive] {
                for far in 0..3 {
                    let pads = core::array::from_fn(|i| if i == far { pad } else { 6 });
                    let sizes = (2, 2, 2);
                    let c_f32 = far == 2 && pad < 1 << 32;
                    check(
                        &gpu,
                        Product { form, path, sizes, pads, c_f32, accumulate: far == 2, alpha: 1.0 },
                        &mut random,
                    );
                }
            }
        }
    }
}

/// Row 23 of the defect list: widths of all multiples of 8, at depths and heights that change with them, by the tile and
/// cluster that the width lands on.
#[test]
fn widths_by_eights() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else { return };
    let named = [768, 1856, 2688, 3712, 10304];
    let drawn = (0..24).map(|_| 64 + 8 * (random.bits() % 505) as usize).collect::<Vec<_>>();
    for (i, n) in named.into_iter().chain(drawn).enumerate() {
        let (cols, cluster) = tiles().nth(random.bits() as usize % 6).expect("one of six");
        let form = Form::ALL[i % 3];
        let (m, k) = (8 * (1 + random.bits() as usize % 3), 8 * (1 + random.bits() as usize % 9));
        let path = Path::Tma { cols, cluster, clusters: 1 + random.bits() as usize % 3 };
        let product =
            Product { form, path, sizes: (m, n, k), pads: [0; 3], c_f32: i % 2 == 0, accumulate: false, alpha: 1.0 };
        check(&gpu, product, &mut random);
    }
}

/// A product of whole tiles computes what it must and nothing more, meets no bank conflict, writes c in whole sectors, and
/// brings each operand to shared memory once per tile that needs it.
#[test]
fn counts_of_whole_tiles() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else { return };
    for form in Form::ALL {
        for (cols, cluster) in tiles() {
            let (m, n, k) = (256, 2 * cols, 192);
            let c_f32 = cluster == 1;
            let path = Path::Tma { cols, cluster, clusters: 2 };
            let product = Product { form, path, sizes: (m, n, k), pads: [0; 3], c_f32, accumulate: false, alpha: 1.0 };
            let counts = check(&gpu, product, &mut random);
            let what = format!("{product:?}");
            assert_eq!(counts.matrix_flops, 2 * (m * n * k) as u64, "{what}: operations");
            assert_eq!(counts.shared_conflicts, 0, "{what}: bank conflicts");
            assert_eq!(counts.global_read_sectors, 0, "{what}: reads beside the copies");
            let c_bytes = m * n * if c_f32 { 4 } else { 2 };
            assert_eq!(32 * counts.global_write_sectors, c_bytes as u64, "{what}: bytes written");
            let tiles = (m / 128) * (n / cols);
            assert_eq!(counts.tensor_bytes, (tiles * k * (128 + cols) * 2) as u64, "{what}: bytes copied");
        }
    }
}

/// Projections of the 30B model at 16 tokens: the shared expert forward, out_proj backward to its input, QKV's weight gradient.
#[test]
fn shapes_of_the_model() {
    let mut random = Random::fresh();
    let Some(gpu) = VirtualGpu::new(random.bits()) else { return };
    let tokens = 16;
    for (form, cols, sizes) in [
        (Form::NT, 256, (tokens, 3712, 2688)),
        (Form::NN, 192, (tokens, 4096, 2688)),
        (Form::TN, 256, (4608, 2688, tokens)),
    ] {
        let path = Path::Tma { cols, cluster: 2, clusters: 66 };
        let c_f32 = form == Form::TN;
        check(&gpu, Product { form, path, sizes, pads: [0; 3], c_f32, accumulate: c_f32, alpha: 1.0 }, &mut random);
    }
}
