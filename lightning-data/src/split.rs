//! Split strings such as `9999,8,2`, and how many samples each split has to give.

use crate::error::{DataError, Result};
use crate::gpt::DocumentRange;

/// Shares of train, valid and test as book-ends in [0, 1]; `None` for a split of no width.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitMatrix {
    /// The normalised shares.
    pub vector: [f64; 3],
    /// Begin and end of each split.
    pub bookends: [Option<(f64, f64)>; 3],
}

impl SplitMatrix {
    /// Parses up to three numbers. As in the public stack they are the runs of digits and dots in the text.
    ///
    /// # Errors
    /// No number, more than three, one that is not a number ("1.2.3"), a sum of 0.
    pub fn parse(text: &str) -> Result<SplitMatrix> {
        let bad = |found: String| DataError::Setting {
            name: "split",
            expected: "one to three numbers such as \"9999,8,2\", not all 0".into(),
            found,
            hint: "give the shares of train, valid and test",
        };
        if text.contains(['-', '+', 'e', 'E']) {
            // The reference reads "1e3" as 1 and 3; saying so beats doing so.
            return Err(bad(format!("{text:?} with a sign or an exponent")));
        }
        let runs = text.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|r| !r.is_empty());
        let numbers: Vec<f64> =
            runs.map(|r| r.parse::<f64>().map_err(|_| bad(format!("{r:?}")))).collect::<Result<_>>()?;
        if numbers.is_empty() || numbers.len() > 3 {
            return Err(bad(format!("{} numbers in {text:?}", numbers.len())));
        }
        let mut vector = [0.0; 3];
        vector[..numbers.len()].copy_from_slice(&numbers);
        let sum: f64 = vector.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(bad(format!("a sum of {sum}")));
        }
        let vector = vector.map(|n| n / sum);
        let (mut begin, mut bookends) = (0.0, [None; 3]);
        for (share, bookend) in vector.iter().zip(&mut bookends) {
            let end = begin + share;
            *bookend = (end > begin).then_some((begin, end));
            begin = end;
        }
        Ok(SplitMatrix { vector, bookends })
    }

    /// Documents of each split out of `count`; `None` where the split is absent. Ends are rounded half to even.
    pub fn ranges(&self, count: u64) -> [Option<DocumentRange>; 3] {
        let at = |share: f64| (share * count as f64).round_ties_even() as u64;
        self.bookends.map(|b| b.map(|(begin, end)| DocumentRange { begin: at(begin), end: at(end) }))
    }
}

/// What decides how many samples a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRequest {
    /// Training samples, if given directly; wins over the iterations.
    pub train_samples: Option<u64>,
    /// Training iterations.
    pub train_iters: u64,
    /// Samples per training iteration.
    pub global_batch_size: u64,
    /// Iterations between validations; 0 for none.
    pub eval_interval: u64,
    /// Iterations of each validation.
    pub eval_iters: u64,
    /// Samples per validation iteration, if different.
    pub eval_global_batch_size: Option<u64>,
}

impl SampleRequest {
    /// Samples for train, valid and test.
    ///
    /// # Errors
    /// Numbers whose product passes 2^64.
    pub fn samples(&self) -> Result<[u64; 3]> {
        let overflow = || DataError::Setting {
            name: "train_iters",
            expected: "a number of samples below 2^64".into(),
            found: format!("{self:?}"),
            hint: "lower the iterations or the batch size",
        };
        let eval_batch = self.eval_global_batch_size.unwrap_or(self.global_batch_size);
        let test = self.eval_iters.checked_mul(eval_batch).ok_or_else(overflow)?;
        let train = match self.train_samples {
            Some(samples) => samples,
            None => self.train_iters.checked_mul(self.global_batch_size).ok_or_else(overflow)?,
        };
        // With samples given instead of iterations, the run has this many iterations.
        let iterations = match self.train_samples {
            Some(samples) => samples / self.global_batch_size.max(1),
            None => self.train_iters,
        };
        let valid = match iterations.checked_div(self.eval_interval) {
            Some(rounds) => (rounds + 1).checked_mul(test).ok_or_else(overflow)?,
            None => 0,
        };
        Ok([train, valid, test])
    }
}
