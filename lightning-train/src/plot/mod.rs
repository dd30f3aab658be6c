//! `plot` and `compare`: pictures and differences of runs, from their `metrics.jsonl` alone.

mod chart;
mod compare;
mod experts;
mod html;
mod runs;
mod svg;

pub use compare::{Difference, compare, first_difference};
pub use runs::{RunLog, StepRecord};

use crate::cli::{Exit, Failure, PlotArgs};
use chart::{Chart, Line};
use std::path::{Path, PathBuf};

/// Width of the picture in pixels.
const WIDTH: f64 = 1180.0;
/// Height of a chart.
const HEIGHT: f64 = 230.0;

/// Runs the verb `plot`.
///
/// # Errors
/// Runs that cannot be read, a picture that cannot be written.
pub fn plot(args: PlotArgs, runs: Vec<String>) -> Result<(), Failure> {
    if runs.is_empty() {
        let message = "name at least one run: lightning-train plot runs/NAME";
        return Err(Failure::new(Exit::Usage, message));
    }
    let logs: Vec<RunLog> = runs.iter().map(|r| RunLog::read(Path::new(r))).collect::<Result<_, _>>()?;
    let target = args.out.map_or_else(|| logs[0].folder.join("run.svg"), PathBuf::from);
    let (svg_path, html_path) = (target.with_extension("svg"), target.with_extension("html"));
    let picture = draw(&logs);
    for (path, text) in [(&svg_path, picture.clone()), (&html_path, html::page(&logs, &picture))] {
        std::fs::write(path, text).map_err(|e| {
            let message = format!("cannot write {}: {e}; choose another place with --out FILE", path.display());
            Failure::new(Exit::Invalid, message)
        })?;
        println!("{}", path.display());
    }
    Ok(())
}

/// The whole picture of one or several runs.
pub fn draw(logs: &[RunLog]) -> String {
    let mut charts = Vec::new();
    let lines = |names: &[&str], label: &dyn Fn(&str) -> String| -> Vec<Line> {
        let mut all = Vec::new();
        for (r, log) in logs.iter().enumerate() {
            for (n, name) in names.iter().enumerate() {
                let points = log.series(name);
                if points.is_empty() {
                    continue;
                }
                // Several runs differ in colour and their series in dashes; the series of one run differ in colour.
                let (color, dash) = if logs.len() > 1 { (r, n) } else { (n, 0) };
                let label = match (logs.len(), label(name)) {
                    (1, label) => label,
                    (_, label) => format!("{} {label}", log.name).trim_end().to_string(),
                };
                all.push(Line { label, points, color, dash, dots: false });
            }
        }
        all
    };
    let heads: Vec<String> = logs
        .iter()
        .flat_map(|l| l.names())
        .filter(|n| *n == "lm loss" || (n.starts_with("mtp_") && n.ends_with(" loss")))
        .fold(Vec::new(), |mut seen, n| {
            if !seen.iter().any(|s| s == n) {
                seen.push(n.to_string());
            }
            seen
        });
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut losses = lines(&heads, &|n| n.trim_end_matches(" loss").replace('_', ""));
    for (r, log) in logs.iter().enumerate() {
        if !log.validations.is_empty() {
            let label = if logs.len() > 1 { format!("{} validation", log.name) } else { "validation".into() };
            let color = if logs.len() > 1 { r } else { heads.len() };
            losses.push(Line { label, points: log.validations.clone(), color, dash: 0, dots: true });
        }
    }
    charts.push(Chart { title: "loss (nats per token)", lines: losses, log_scale: false, from_zero: false });
    let plain = |_: &str| String::new();
    charts.push(Chart {
        title: "learning rate",
        lines: lines(&["learning_rate"], &plain),
        log_scale: false,
        from_zero: true,
    });
    charts.push(Chart {
        title: "gradient norm before clipping",
        lines: lines(&["grad_norm"], &plain),
        log_scale: true,
        from_zero: false,
    });
    charts.push(Chart {
        title: "tokens per second",
        lines: lines(&["tokens_per_s"], &plain),
        log_scale: false,
        from_zero: true,
    });
    charts.push(Chart {
        title: "busiest expert over the mean, worst router",
        lines: lines(&["expert_max_over_mean"], &plain),
        log_scale: false,
        from_zero: true,
    });
    charts.push(Chart {
        title: "share of experts without a token",
        lines: lines(&["expert_dead_share"], &plain),
        log_scale: false,
        from_zero: true,
    });
    let charts: Vec<Chart> = charts.into_iter().filter(|c| !c.lines.is_empty()).collect();
    let mut svg = svg::Svg::new(WIDTH);
    let names: Vec<&str> = logs.iter().map(|l| l.name.as_str()).collect();
    svg.text(
        16.0,
        28.0,
        17.0,
        "start",
        svg::INK,
        &format!("{}: {}", if logs.len() == 1 { "run" } else { "runs" }, names.join(", ")),
    );
    let mut y = 46.0;
    let (wide, half) = (WIDTH - 32.0, (WIDTH - 48.0) / 2.0);
    let mut charts = charts.into_iter();
    if let Some(first) = charts.next() {
        first.draw(&mut svg, 16.0, y, wide, 1.4 * HEIGHT);
        y += 1.4 * HEIGHT + 14.0;
    }
    for (i, chart) in charts.enumerate() {
        let x = if i % 2 == 0 { 16.0 } else { 32.0 + half };
        if i % 2 == 0 && i > 0 {
            y += HEIGHT + 14.0;
        }
        chart.draw(&mut svg, x, y, half, HEIGHT);
    }
    y += HEIGHT + 14.0;
    for log in logs.iter().filter(|l| !l.experts.is_empty()) {
        y = experts::draw(&mut svg, log, 16.0, y, wide) + 14.0;
    }
    svg.finish(y)
}
