//! Counts of the virtual GPU, from the file in which its driver appends those of every launch.

use crate::cli::{Exit, Failure};
use serde_json::Value;
use std::path::PathBuf;

/// Names that file for the driver.
pub const VARIABLE: &str = "LIGHTNING_SIM_COUNTS_FILE";

/// What the launches of one operation did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Operations of matrix instructions, two per multiply-add.
    pub matrix_flops: u64,
    /// Bytes of whole sectors that loads and stores moved, and bytes that tensor copies moved.
    pub bytes: u64,
    /// Passes over the banks of shared memory beyond what is needed.
    pub conflicts: u64,
    /// Instructions of warps.
    pub warp_instructions: u64,
}

/// Reads what was appended since the last time.
pub struct Reader {
    file: PathBuf,
    lines: usize,
}

impl Reader {
    /// The file that the environment names, as it is now.
    ///
    /// # Errors
    /// `Usage` when none is named.
    pub fn open() -> Result<Self, Failure> {
        let file = std::env::var_os(VARIABLE)
            .ok_or_else(|| Failure::new(Exit::Usage, format!("{VARIABLE} is not set; run with --device sim")))?;
        let mut reader = Self { file: PathBuf::from(file), lines: 0 };
        reader.next()?;
        Ok(reader)
    }

    /// The sum over the launches since the last call.
    ///
    /// # Errors
    /// `Unexpected` when the file does not hold what the driver writes.
    pub fn next(&mut self) -> Result<Counts, Failure> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let sum = sum(text.lines().skip(self.lines)).map_err(|why| {
            Failure::new(Exit::Unexpected, format!("{}: {why}; remove the file and try again", self.file.display()))
        })?;
        self.lines = text.lines().count();
        Ok(sum)
    }
}

fn sum<'l>(lines: impl Iterator<Item = &'l str>) -> Result<Counts, String> {
    let mut sum = Counts::default();
    for line in lines {
        let value: Value = serde_json::from_str(line).map_err(|e| format!("not a line of counts: {e}"))?;
        let count = |name: &str| value["counts"][name].as_u64().ok_or_else(|| format!("a line without `{name}`"));
        sum.matrix_flops += count("matrix_flops")?;
        sum.bytes +=
            32 * (count("global_read_sectors")? + count("global_write_sectors")?) + count("tensor_copy_bytes")?;
        sum.conflicts += count("shared_bank_conflicts")?;
        sum.warp_instructions += count("warp_instructions")?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::{Counts, sum};

    #[test]
    fn lines_are_added() {
        let line = r#"{"kernel":"k","counts":{"matrix_flops":4,"global_read_sectors":1,"global_write_sectors":2,
            "tensor_copy_bytes":5,"shared_bank_conflicts":6,"warp_instructions":7}}"#
            .replace('\n', " ");
        let want = Counts { matrix_flops: 8, bytes: 2 * (3 * 32 + 5), conflicts: 12, warp_instructions: 14 };
        assert_eq!(sum([line.as_str(), &line].into_iter()), Ok(want));
        assert!(sum(["{}"].into_iter()).is_err_and(|e| e.contains("matrix_flops")));
        assert!(sum(["x"].into_iter()).is_err());
    }
}
