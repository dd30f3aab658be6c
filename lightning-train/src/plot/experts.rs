//! The expert panel: one column per expert, one row per router, coloured by load; beside it what each row comes to.

use super::runs::RunLog;
use super::svg::{INK, Svg};

/// Height of a router's row.
const ROW: f64 = 15.0;

/// Colour of a load relative to the mean: grey-red for none, pale at the mean, dark blue from four times on; pale yellow below.
fn color(load: f64) -> String {
    if load == 0.0 {
        return "#c0392b".into();
    }
    let mix = |a: [f64; 3], b: [f64; 3], t: f64| {
        let channel = |i: usize| (a[i] + (b[i] - a[i]) * t).round() as u8;
        format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
    };
    let (low, mean, high) = ([253.0, 231.0, 160.0], [222.0, 235.0, 247.0], [8.0, 48.0, 107.0]);
    match load.log2() {
        x if x < 0.0 => mix(mean, low, (-x / 3.0).min(1.0)),
        x => mix(mean, high, (x / 2.0).min(1.0)),
    }
}

/// Draws the newest matrix of a run at (x, y); returns where it ends.
pub fn draw(svg: &mut Svg, log: &RunLog, x: f64, y: f64, width: f64) -> f64 {
    let Some((step, matrix)) = log.experts.iter().next_back() else { return y };
    let title = format!("experts of {} up to step {step}: load over the mean of the router", log.name);
    svg.text(x, y + 12.0, 13.0, "start", INK, &title);
    let (left, right) = (x + 90.0, x + width - 250.0);
    let cell = (right - left) / matrix.experts.max(1) as f64;
    let head = y + 30.0;
    for (i, name) in ["max/mean", "idle", "bias"].into_iter().enumerate() {
        svg.text(right + 74.0 + 76.0 * i as f64, head, 10.5, "end", INK, name);
    }
    for (r, router) in matrix.routers.iter().enumerate() {
        let top = head + 6.0 + r as f64 * ROW;
        let base = top + ROW - 4.0;
        svg.text(left - 8.0, base, 10.5, "end", INK, router);
        let row = &matrix.load[r * matrix.experts..(r + 1) * matrix.experts];
        let bias = matrix.bias.get(r * matrix.experts..(r + 1) * matrix.experts);
        for (e, load) in row.iter().enumerate() {
            let bias = bias.map_or(String::new(), |b| format!(", bias {:+.1e}", b[e]));
            let tip = format!("{router} expert {e}: {load:.2}x{bias}");
            svg.rect((left + e as f64 * cell, top), (cell - (cell * 0.08).min(1.0), ROW - 1.0), &color(*load), &tip);
        }
        let largest = row.iter().copied().fold(0.0, f64::max);
        let dead = row.iter().filter(|l| **l == 0.0).count() as f64 / row.len().max(1) as f64;
        let spread = bias.map_or("-".into(), |b| format!("±{:.1e}", b.iter().fold(0.0f64, |a, v| a.max(v.abs()))));
        for (i, text) in [format!("{largest:.2}"), format!("{:.0} %", 100.0 * dead), spread].into_iter().enumerate() {
            svg.text(right + 74.0 + 76.0 * i as f64, base, 10.5, "end", INK, &text);
        }
    }
    let end = head + 14.0 + matrix.routers.len() as f64 * ROW;
    let scale = [(0.0, "none"), (0.125, "1/8"), (0.5, "1/2"), (1.0, "1"), (2.0, "2"), (4.0, "4 and more")];
    for (i, (load, name)) in scale.into_iter().enumerate() {
        let at = left + 90.0 * i as f64;
        svg.rect((at, end), (14.0, 10.0), &color(load), "");
        svg.text(at + 20.0, end + 9.0, 10.5, "start", INK, name);
    }
    end + 20.0
}

#[cfg(test)]
mod tests {
    use super::color;

    #[test]
    fn dead_experts_have_a_colour_of_their_own() {
        let loads = [0.0, 1.0 / 32.0, 0.5, 1.0, 2.0, 4.0];
        let colors: Vec<String> = loads.iter().map(|l| color(*l)).collect();
        for (i, a) in colors.iter().enumerate() {
            assert!(a.len() == 7 && colors[i + 1..].iter().all(|b| a != b), "{colors:?}");
        }
        assert_eq!(color(4.0), color(100.0));
    }
}
