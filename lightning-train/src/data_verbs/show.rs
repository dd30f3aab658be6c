//! How far a preparation is: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lightning_data::prep::ProgressReport;

use crate::train::console::duration;

/// Time between lines where standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress on standard error.
pub struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    next_line: Mutex<Duration>,
}

impl Display {
    /// A display, or silence.
    pub fn new(shown: bool) -> Self {
        let bar = (shown && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:24} {bytes}/{total_bytes} {msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { lines: shown && bar.is_none(), bar, next_line: Mutex::new(LINE_INTERVAL) }
    }

    /// Shows a reading.
    pub fn show(&self, report: &ProgressReport) {
        if let Some(bar) = &self.bar {
            bar.set_length(report.bytes_total);
            bar.set_position(report.bytes_read.min(report.bytes_total));
            bar.set_message(describe(report));
        }
        if !self.lines {
            return;
        }
        let Ok(mut next) = self.next_line.lock() else { return };
        if report.elapsed >= *next {
            *next = report.elapsed + LINE_INTERVAL;
            let share = 100.0 * report.bytes_read as f64 / report.bytes_total.max(1) as f64;
            eprintln!("{:3.0} %  {}", share.min(100.0), describe(report));
        }
    }

    /// Ends the display.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn describe(report: &ProgressReport) -> String {
    let mut line = format!(
        "{:.1} M tokens  {:.0} tok/s  {} rows",
        report.tokens as f64 / 1e6,
        report.tokens_per_second(),
        report.rows
    );
    if report.shards_total > 0 {
        line += &format!("  shards {}/{}", report.shards_done, report.shards_total);
    }
    if let Some(left) = report.time_left() {
        line += &format!("  left {}", duration(left));
    }
    line
}
