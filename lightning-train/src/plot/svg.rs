//! Text of an SVG picture.

use std::fmt::Write;

/// Colour of text and axes.
pub const INK: &str = "#222";
/// Colour of grid lines.
pub const GRID: &str = "#e4e4e4";
/// Line colours that differ in hue and lightness (Okabe and Ito, who chose them for colour-blind readers).
pub const COLORS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#b8a800"];

/// A picture that grows downwards.
pub struct Svg {
    width: f64,
    body: String,
}

/// Text as XML content.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Control characters are not allowed in XML at all.
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

impl Svg {
    /// An empty picture.
    pub fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// Text at a baseline; `anchor` is start, middle or end.
    pub fn text(&mut self, x: f64, y: f64, size: f64, anchor: &str, color: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}" fill="{color}">{text}</text>"#
        );
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str, width: f64) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{color}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    /// A filled rectangle with a tooltip.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), color: &str, title: &str) {
        let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
        let _ = writeln!(
            self.body,
            r#"<rect x="{:.2}" y="{:.2}" width="{:.2}" height="{:.2}" fill="{color}">{title}</rect>"#,
            at.0, at.1, size.0, size.1
        );
    }

    /// A line through points.
    pub fn path(&mut self, points: &[(f64, f64)], color: &str, dash: &str) {
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
        }
        let dash = if dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dash}""#) };
        let _ = writeln!(self.body, r#"<path d="{d}" fill="none" stroke="{color}" stroke-width="1.5"{dash}/>"#);
    }

    /// A dot.
    pub fn dot(&mut self, at: (f64, f64), color: &str, title: &str) {
        let _ = writeln!(
            self.body,
            r#"<circle cx="{:.1}" cy="{:.1}" r="3.5" fill="{color}" stroke="white"><title>{}</title></circle>"#,
            at.0,
            at.1,
            escape(title)
        );
    }

    /// The whole text.
    pub fn finish(self, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {height:.0}\" width=\"{w}\" height=\"{height:.0}\" \
             font-family=\"system-ui, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
            self.body,
            w = self.width
        )
    }
}
