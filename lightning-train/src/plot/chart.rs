//! A chart of lines over steps.

use super::svg::{COLORS, GRID, INK, Svg};

/// Points that a line is drawn with; longer series show the least and the largest of each stretch.
const MOST_POINTS: usize = 1200;
const DASHES: [&str; 4] = ["", "5 3", "1.5 3", "8 3 1.5 3"];

/// A series.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Legend; empty for none.
    pub label: String,
    /// Step and value.
    pub points: Vec<(f64, f64)>,
    /// Index of the colour.
    pub color: usize,
    /// Index of the dash pattern.
    pub dash: usize,
    /// Dots instead of a line.
    pub dots: bool,
}

/// Lines with common axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: &'static str,
    /// Lines.
    pub lines: Vec<Line>,
    /// Logarithmic values.
    pub log_scale: bool,
    /// The axis begins at zero.
    pub from_zero: bool,
}

/// Round numbers between `low` and `high`, about `count` of them.
pub fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let span = high - low;
    if span <= 0.0 || !span.is_finite() {
        return vec![low];
    }
    let raw = span / count.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw * 0.999).unwrap_or(raw);
    let first = (low / step).ceil();
    (0..).map(|i| (first + f64::from(i)) * step).take_while(|t| *t <= high + 1e-9 * span).collect()
}

/// A number as short as it stays readable.
pub fn label(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".into()
    } else if !(1e-3..1e5).contains(&size) {
        format!("{value:.1e}").replace(".0e", "e")
    } else {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    }
}

/// A positive number rounded to two significant digits.
fn two_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// At most [`MOST_POINTS`] points that keep every peak.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(MOST_POINTS / 2);
    let mut out = Vec::with_capacity(MOST_POINTS + 2);
    for part in points.chunks(stretch) {
        let by =
            |pick: fn(f64, f64) -> bool| (1..part.len()).fold(0, |b, i| if pick(part[i].1, part[b].1) { i } else { b });
        let (low, high) = (by(|a, b| a < b), by(|a, b| a > b));
        out.push(part[low.min(high)]);
        if low != high {
            out.push(part[low.max(high)]);
        }
    }
    out
}

impl Chart {
    fn scale(&self, value: f64) -> Option<f64> {
        match self.log_scale {
            true => (value > 0.0).then(|| value.log10()),
            false => Some(value),
        }
    }

    /// Draws into the given rectangle.
    pub fn draw(&self, svg: &mut Svg, x: f64, y: f64, width: f64, height: f64) {
        let (left, right, top, bottom) = (x + 62.0, x + width - 12.0, y + 26.0, y + height - 24.0);
        svg.text(x, y + 12.0, 13.0, "start", INK, self.title);
        let values = || self.lines.iter().flat_map(|l| &l.points).filter_map(|p| Some((p.0, self.scale(p.1)?)));
        let fold = |pick: fn(f64, f64) -> f64, of: fn((f64, f64)) -> f64| values().map(of).reduce(pick);
        let (Some(x0), Some(x1), Some(y0), Some(y1)) =
            (fold(f64::min, |p| p.0), fold(f64::max, |p| p.0), fold(f64::min, |p| p.1), fold(f64::max, |p| p.1))
        else {
            svg.text(left, (top + bottom) / 2.0, 12.0, "start", INK, "no finite value");
            return;
        };
        let y0 = if self.from_zero { y0.min(0.0) } else { y0 };
        let room = ((y1 - y0) * 0.05).max(y1.abs() * 1e-3).max(1e-12);
        let (y0, y1) = (if self.from_zero && y0 == 0.0 { 0.0 } else { y0 - room }, y1 + room);
        let x1 = x1.max(x0 + 1.0);
        let at = |p: (f64, f64)| {
            (left + (p.0 - x0) / (x1 - x0) * (right - left), bottom - (p.1 - y0) / (y1 - y0) * (bottom - top))
        };
        for tick in ticks(y0, y1, (height / 48.0) as usize) {
            let (_, ty) = at((x0, tick));
            svg.line((left, ty), (right, ty), GRID, 1.0);
            let text = if self.log_scale { label(two_digits(10f64.powf(tick))) } else { label(tick) };
            svg.text(left - 6.0, ty + 3.5, 10.5, "end", INK, &text);
        }
        for tick in ticks(x0, x1, (width / 110.0) as usize).into_iter().filter(|t| t.fract() == 0.0) {
            let (tx, _) = at((tick, y0));
            svg.line((tx, top), (tx, bottom), GRID, 1.0);
            svg.text(tx, bottom + 15.0, 10.5, "middle", INK, &label(tick));
        }
        svg.line((left, bottom), (right, bottom), INK, 1.0);
        let mut legend = right;
        for line in self.lines.iter().rev() {
            let color = COLORS[line.color % COLORS.len()];
            let points: Vec<(f64, f64)> =
                thin(&line.points).into_iter().filter_map(|p| Some(at((p.0, self.scale(p.1)?)))).collect();
            if line.dots {
                for (p, (step, value)) in points.iter().zip(&line.points) {
                    svg.dot(*p, color, &format!("step {step}: {}", label(*value)));
                }
            } else {
                svg.path(&points, color, DASHES[line.dash % DASHES.len()]);
            }
            if !line.label.is_empty() {
                svg.text(legend, y + 12.0, 11.5, "end", color, &line.label);
                // About 6.3 pixels a letter at this size; a legend need not be exact.
                legend -= 6.3 * line.label.chars().count() as f64 + 12.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        for (low, high) in [(3.1, 3.2), (-7.0, 1e6), (1e-5, 2e-3)] {
            let t = ticks(low, high, 5);
            assert!(t.len() >= 2 && t.len() <= 8, "{t:?}");
            assert!(t.iter().all(|v| (low..=high * (1.0 + 1e-9)).contains(v)), "{t:?}");
        }
        assert!((two_digits(1.5849) - 1.6).abs() < 1e-12 && (two_digits(251.2) - 250.0).abs() < 1e-9);
        assert_eq!(ticks(1.0, 1.0, 5), [1.0]);
        assert_eq!(ticks(0.0, f64::INFINITY, 5), [0.0]);
    }

    #[test]
    fn labels_are_short() {
        for (value, text) in
            [(0.0, "0"), (1.5, "1.5"), (2e-4, "2e-4"), (1234.0, "1234"), (1.5e6, "1.5e6"), (-3.0, "-3")]
        {
            assert_eq!(label(value), text);
        }
    }

    #[test]
    fn thinning_keeps_peaks() {
        let mut points: Vec<(f64, f64)> = (0..50_000).map(|i| (f64::from(i), 1.0)).collect();
        points[31_337].1 = 99.0;
        points[40_001].1 = -5.0;
        let thin = thin(&points);
        assert!(thin.len() <= MOST_POINTS + 2);
        assert!(thin.contains(&(31_337.0, 99.0)) && thin.contains(&(40_001.0, -5.0)));
        assert!(thin.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn a_chart_without_values_or_with_one_is_drawn() {
        for points in [vec![], vec![(1.0, 0.0)], vec![(1.0, -1.0), (2.0, -1.0)]] {
            for log_scale in [false, true] {
                let line = Line { label: "a<b".into(), points: points.clone(), color: 0, dash: 0, dots: false };
                let chart = Chart { title: "t", lines: vec![line], log_scale, from_zero: true };
                let mut svg = Svg::new(100.0);
                chart.draw(&mut svg, 0.0, 0.0, 300.0, 200.0);
                let text = svg.finish(200.0);
                assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains("a<b"), "{text}");
            }
        }
    }
}
