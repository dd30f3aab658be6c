//! Which files go into which shard.

use std::path::PathBuf;

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Path.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
}

/// A file's part in a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileShare {
    /// The file.
    pub file: InputFile,
    /// (n, k): rows whose number modulo n is k; `None`: all rows.
    pub rows: Option<(u64, u64)>,
}

impl FileShare {
    /// Bytes of the file that belong to the share, about.
    pub fn bytes(&self) -> u64 {
        self.file.size / self.rows.map_or(1, |(n, _)| n.max(1))
    }
}

/// Deals files to shards. Enough files: by size, largest first, each to the shard with the fewest bytes (lowest number on
/// ties); files without sizes in turn. Fewer files than shards: each file gets shards in proportion to its size, at least
/// one, and its rows are dealt to them in turn.
pub fn plan_shards(files: &[InputFile], shards: usize) -> Vec<Vec<FileShare>> {
    if shards == 0 || files.is_empty() {
        return vec![Vec::new(); shards];
    }
    if files.len() < shards { deal_rows(files, shards) } else { deal_files(files, shards) }
}

fn deal_files(files: &[InputFile], shards: usize) -> Vec<Vec<FileShare>> {
    let mut order: Vec<&InputFile> = files.iter().collect();
    let sizes_known = files.iter().any(|f| f.size > 0);
    if sizes_known {
        order.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.path.cmp(&b.path)));
    }
    let mut plan = vec![Vec::new(); shards];
    let mut bytes = vec![0u64; shards];
    for (i, file) in order.into_iter().enumerate() {
        let shard = match sizes_known {
            true => (0..shards).min_by_key(|&s| bytes[s]).unwrap_or(0), // the first of equals
            false => i % shards,
        };
        bytes[shard] += file.size;
        plan[shard].push(FileShare { file: file.clone(), rows: None });
    }
    for shard in &mut plan {
        shard.sort_by(|a, b| a.file.path.cmp(&b.file.path));
    }
    plan
}

fn deal_rows(files: &[InputFile], shards: usize) -> Vec<Vec<FileShare>> {
    let total: u64 = files.iter().map(|f| f.size).sum();
    let exact: Vec<f64> = files
        .iter()
        .map(|f| match total {
            0 => shards as f64 / files.len() as f64,
            _ => f.size as f64 * shards as f64 / total as f64,
        })
        .collect();
    let mut counts: Vec<usize> = exact.iter().map(|x| (x.floor() as usize).max(1)).collect();
    // Too few so far: the largest fractions get one more each, earlier files first among equals. Too many (several files
    // raised to 1): the largest counts give.
    let mut by_fraction: Vec<usize> = (0..files.len()).collect();
    by_fraction.sort_by(|&a, &b| (exact[b] - exact[b].floor()).total_cmp(&(exact[a] - exact[a].floor())));
    let mut next = by_fraction.iter().cycle();
    while counts.iter().sum::<usize>() < shards {
        if let Some(&file) = next.next() {
            counts[file] += 1;
        }
    }
    while counts.iter().sum::<usize>() > shards {
        let most = (0..counts.len()).rev().max_by_key(|&i| counts[i]).unwrap_or(0);
        counts[most] -= 1;
    }
    let share =
        |f: usize, k: usize| vec![FileShare { file: files[f].clone(), rows: Some((counts[f] as u64, k as u64)) }];
    (0..files.len()).flat_map(|f| (0..counts[f]).map(move |k| (f, k))).map(|(f, k)| share(f, k)).collect()
}
