//! Which tile and cluster of csrc/gemm/gemm.sm_90a.cu a product gets.
//!
//! A persistent grid walks over tiles in waves, so part of the last wave and of the tiles at the edges is idle. The
//! useful fraction is m n / (waves x multiprocessors x tile area) (spec of the kernels, 2.0); times the rate at which a
//! full tile can run, it gives the score. The choice decides speed only: every tile sums k in the same order.

/// Rows of c that a block computes.
pub(super) const ROWS: usize = 128;
/// Length of k that a stage of the ring holds, and elements of a swizzled line.
pub(super) const DEPTH: usize = 64;
/// Rows of c whose tiles are walked together, so that they share operands in L2.
const RASTER_ROWS: usize = 8 * ROWS;

/// A form of the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tile {
    /// Columns of c that a block computes; the number in the kernel's name.
    pub cols: usize,
    /// Blocks of a cluster, which share the columns and lie below each other.
    pub blocks: usize,
    /// Expected share of the tensor cores' rate within a full tile. Estimates, to be replaced by measurements: the
    /// smaller of (cycles of wgmma) / (cycles of shared memory at 128 bytes: 256 + 3 cols for each 4 cols of wgmma) and
    /// of 40 bytes per cycle and multiprocessor from L2 over what the tile reads.
    pub rate: f64,
}

/// The forms, the preferred one first where scores are equal.
pub const TILES: [Tile; 6] = [
    Tile { cols: 256, blocks: 2, rate: 1.0 },
    Tile { cols: 192, blocks: 2, rate: 0.92 },
    Tile { cols: 256, blocks: 1, rate: 0.83 },
    Tile { cols: 128, blocks: 2, rate: 0.80 },
    Tile { cols: 192, blocks: 1, rate: 0.75 },
    Tile { cols: 128, blocks: 1, rate: 0.62 },
];

impl Tile {
    /// Tiles of a product: rows and columns of clusters.
    pub fn counts(&self, m: usize, n: usize) -> (usize, usize) {
        (m.div_ceil(ROWS * self.blocks), n.div_ceil(self.cols))
    }

    /// Share of the multiprocessors' time that computes elements of c.
    pub fn useful(&self, m: usize, n: usize, multiprocessors: usize) -> f64 {
        let (rows, cols) = self.counts(m, n);
        let waves = (rows * cols).div_ceil((multiprocessors / self.blocks).max(1));
        (m as f64 * n as f64) / (waves as f64 * multiprocessors as f64 * (ROWS * self.cols) as f64)
    }

    /// Clusters of a persistent grid.
    pub fn clusters(&self, m: usize, n: usize, multiprocessors: usize) -> usize {
        let (rows, cols) = self.counts(m, n);
        (rows * cols).min((multiprocessors / self.blocks).max(1))
    }

    /// Rows of clusters that are walked together.
    pub fn raster(&self, m: usize) -> usize {
        (RASTER_ROWS / (ROWS * self.blocks)).min(m.div_ceil(ROWS * self.blocks))
    }
}

/// The form for an m x n product on so many multiprocessors; none when the tiles cannot be counted in 31 bits.
pub fn choose(m: usize, n: usize, multiprocessors: usize) -> Option<Tile> {
    let mut best: Option<(f64, Tile)> = None;
    for tile in TILES {
        let (rows, cols) = tile.counts(m, n);
        // The walk adds one step beyond the last tile. A cluster whose last block has no rows shares with nobody.
        let countable = rows.checked_mul(cols).is_some_and(|tiles| tiles < 1 << 30);
        if !countable || multiprocessors < tile.blocks || m <= ROWS * (tile.blocks - 1) {
            continue;
        }
        let score = tile.rate * tile.useful(m, n, multiprocessors);
        if best.is_none_or(|(of_best, _)| score > of_best) {
            best = Some((score, tile));
        }
    }
    best.map(|(_, tile)| tile)
}

#[cfg(test)]
mod tests {
    use super::{Tile, choose};

    fn chosen(m: usize, n: usize) -> (usize, usize) {
        let Tile { cols, blocks, .. } = choose(m, n, 132).expect("countable");
        (cols, blocks)
    }

    /// The shapes of the 30B model at 8192 tokens on 132 multiprocessors (spec of the kernels, 2.0).
    #[test]
    fn shapes_of_the_model() {
        // out_proj, dgrad of in_proj, eh_proj: 128 x 256 leaves 15 % idle.
        assert_eq!(chosen(8192, 2688), (192, 2));
        // Half the rows: 3 waves of 256 columns beat 4 of 192.
        assert_eq!(chosen(4096, 2688), (256, 2));
        assert_eq!(chosen(8192, 10304), (256, 2));
        assert_eq!(chosen(8192, 4608), (256, 2));
        let useful = Tile { cols: 192, blocks: 1, rate: 1.0 }.useful(8192, 2688, 132);
        assert!((useful - 0.970).abs() < 5e-4, "{useful}");
        let useful = Tile { cols: 256, blocks: 1, rate: 1.0 }.useful(8192, 2688, 132);
        assert!((useful - 0.848).abs() < 5e-4, "{useful}");
    }

    #[test]
    fn small_products_get_small_tiles() {
        assert_eq!(chosen(64, 64).1, 1);
        assert_eq!(chosen(128, 128), (128, 1));
    }

    #[test]
    fn uncountable_products_get_none() {
        assert!(choose(i32::MAX as usize, i32::MAX as usize, 132).is_none());
        assert!(choose(8192, 131_072, 132).is_some());
        assert!(choose(8192, 131_072, 1).is_some_and(|tile| tile.blocks == 1));
    }
}
