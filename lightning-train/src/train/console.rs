//! What a person sees: a progress bar on a terminal, one line per interval otherwise.

use super::metrics::StepMetrics;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Progress of a run on standard error.
pub struct Console {
    bar: Option<ProgressBar>,
    interval: u64,
    total: u64,
    /// When the first step of this process began.
    start: Option<Instant>,
    first: u64,
}

impl Console {
    /// A display for steps `first + 1 ..= total`, a line every `interval` steps when standard error is not a terminal.
    pub fn new(first: u64, total: u64, interval: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_position(first);
            bar
        });
        Self { bar, interval: interval.max(1), total, start: None, first }
    }

    /// A line above the progress.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    /// Shows a step.
    pub fn step(&mut self, m: &StepMetrics) {
        let done = m.iteration.saturating_sub(self.first).max(1);
        // What came before the first step comes only once and says nothing about the time that is left.
        let took = Duration::from_secs_f64(m.elapsed_ms / 1e3);
        let start = *self.start.get_or_insert_with(|| Instant::now().checked_sub(took).unwrap_or_else(Instant::now));
        let left = start.elapsed().mul_f64(self.total.saturating_sub(m.iteration) as f64 / done as f64);
        let line = describe(m, left);
        match &self.bar {
            Some(bar) => {
                bar.set_position(m.iteration);
                bar.set_message(line);
            }
            None => {
                let due =
                    m.iteration % self.interval == 0 || m.iteration == self.total || m.iteration == self.first + 1;
                if due {
                    eprintln!("step {:>5}/{}  {line}", m.iteration, self.total);
                }
            }
        }
    }

    /// Ends the display.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}

/// Minutes and seconds, or hours and minutes.
pub fn duration(d: Duration) -> String {
    let s = d.as_secs();
    if s >= 3600 { format!("{}h{:02}m", s / 3600, s / 60 % 60) } else { format!("{}m{:02}s", s / 60, s % 60) }
}

fn describe(m: &StepMetrics, left: Duration) -> String {
    let mut line = format!("{:.0} tok/s  lm {:.4}", m.tokens_per_s, m.lm_loss);
    for (k, loss) in m.mtp_losses.iter().enumerate() {
        line += &format!("  mtp{} {loss:.4}", k + 1);
    }
    if let Some(aux) = m.load_balancing_loss {
        line += &format!("  aux {aux:.3}");
    }
    line += &format!("  grad {:.3}  lr {:.2e}", m.grad_norm, m.learning_rate);
    if let (Some(worst), Some(dead)) = (m.expert_max_over_mean, m.expert_dead_share) {
        line += &format!("  experts {worst:.2}x max/mean, {:.0} % idle", 100.0 * dead);
    }
    let tokens = m.accounting.real_tokens + m.accounting.padding_tokens;
    if m.accounting.padding_tokens > 0 {
        line += &format!("  padding {:.0} %", 100.0 * m.accounting.padding_tokens as f64 / tokens as f64);
    }
    if m.skipped {
        line += "  SKIPPED (gradient not finite)";
    }
    line + &format!("  left {}", duration(left))
}
