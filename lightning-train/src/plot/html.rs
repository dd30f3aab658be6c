//! A page that needs nothing but itself: the picture, the last step, anomalies and the run card.

use super::chart::label;
use super::runs::RunLog;
use super::svg::escape;
use crate::records::run_card::RUN_CARD;
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.15em .9em .15em 0;text-align:left;vertical-align:top}\
td.n{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}pre{background:#f6f6f6;padding:1em;\
overflow:auto;max-height:30em}";

/// The page.
pub fn page(logs: &[RunLog], picture: &str) -> String {
    let names: Vec<String> = logs.iter().map(|l| escape(&l.name)).collect();
    let title = names.join(", ");
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n{picture}\n"
    );
    html.push_str("<h2>Last step</h2><table><tr><th></th>");
    for name in &names {
        let _ = write!(html, "<th>{name}</th>");
    }
    html.push_str("</tr>\n");
    let mut rows: Vec<&str> = Vec::new();
    for name in logs.iter().flat_map(RunLog::names) {
        if !rows.contains(&name) {
            rows.push(name);
        }
    }
    for row in rows {
        let _ = write!(html, "<tr><td>{}</td>", escape(row));
        for log in logs {
            let value = log.steps.values().next_back().and_then(|r| r.get(row));
            let text = match value {
                None => "-".into(),
                Some(v) if v.is_null() => "not finite".into(),
                Some(v) => v.as_f64().map_or_else(|| v.to_string().trim_matches('"').to_string(), label),
            };
            let _ = write!(html, "<td class=\"n\">{}</td>", escape(&text));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
    for log in logs {
        if !log.anomalies.is_empty() {
            let _ = write!(html, "<h2>Anomalies of {}</h2><table>", escape(&log.name));
            for (step, kind) in log.anomalies.iter().take(200) {
                let _ = write!(html, "<tr><td>step {step}</td><td>{}</td></tr>", escape(kind));
            }
            html.push_str("</table>\n");
        }
        if let Ok(card) = std::fs::read_to_string(log.folder.join(RUN_CARD)) {
            let name = escape(&log.name);
            let _ = writeln!(
                html,
                "<details><summary>Run card of {name}</summary><pre>{}</pre></details>",
                card_text(&card)
            );
        }
    }
    html.push_str("</body></html>\n");
    html
}

/// A card with its line breaks.
fn card_text(card: &str) -> String {
    card.lines().map(escape).collect::<Vec<_>>().join("\n")
}
