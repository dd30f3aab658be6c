//! Configuration files: reading any TOML file of settings, and writing `run_config.toml` with the origin of each value.

use std::fmt::Write as _;

use super::error::ConfigError;
use super::resolve::{Layers, Origin, Resolved};
use super::run::RunConfig;
use super::value::{Value, quoted};

/// Version of the file that is written; files of a later one are refused.
const FORMAT: i64 = 1;

/// Writes a resolved configuration as TOML. `--config` reads it back to the same configuration.
pub fn to_toml(resolved: &Resolved) -> String {
    let mut text =
        String::from("# Configuration of a run with the origin of each value. `--config FILE` reads it back.\n");
    let _ = writeln!(text, "format = {FORMAT}");
    let nulls: Vec<Value> =
        RunConfig::keys().filter(|key| resolved.config.get(key) == Some(Value::Null)).map(Value::Str).collect();
    let derived: Vec<Value> =
        RunConfig::keys().filter(|key| matches!(resolved.origin(key), Origin::Derived(_))).map(Value::Str).collect();
    text.push_str("# Settings without a value.\n");
    let _ = writeln!(text, "nulls = {}", toml_text(&Value::List(nulls)));
    text.push_str("# Settings that were adjusted automatically; they are adjusted anew when this file is read.\n");
    let _ = writeln!(text, "derived = {}", toml_text(&Value::List(derived)));
    for (section, fields) in RunConfig::sections() {
        let _ = writeln!(text, "\n[{section}]");
        for field in fields {
            let key = format!("{section}.{}", field.name);
            let origin = resolved.origin(&key).to_string().replace(['\n', '\r'], " ");
            match resolved.config.get(&key) {
                None => {}
                Some(Value::Null) => {
                    let _ = writeln!(text, "# {} = null  # {origin}", field.name);
                }
                Some(value) => {
                    let _ = writeln!(text, "{} = {}  # {origin}", field.name, toml_text(&value));
                }
            }
        }
    }
    text
}

/// A value as TOML on one line; null inside a list becomes the empty table, which no setting uses otherwise.
fn toml_text(value: &Value) -> String {
    match value {
        Value::Null => "{}".into(),
        Value::Str(s) => quoted(s),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(toml_text).collect::<Vec<_>>().join(", ")),
        Value::Map(items) => {
            let pairs: Vec<String> = items.iter().map(|(k, v)| format!("{} = {}", quoted(k), toml_text(v))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

/// The value of a TOML value; inside lists an empty table is null.
fn from_toml(value: &toml::Value, in_list: bool) -> Result<Value, String> {
    Ok(match value {
        toml::Value::Boolean(b) => Value::Bool(*b),
        toml::Value::Integer(i) => Value::Int(*i),
        toml::Value::Float(x) if x.is_finite() => Value::Float(*x),
        toml::Value::Float(x) => return Err(format!("{x} is not a finite number")),
        toml::Value::String(s) => Value::Str(s.clone()),
        toml::Value::Datetime(d) => return Err(format!("{d} is a date; no setting takes one")),
        toml::Value::Array(items) => {
            Value::List(items.iter().map(|item| from_toml(item, true)).collect::<Result<_, _>>()?)
        }
        toml::Value::Table(items) if items.is_empty() && in_list => Value::Null,
        toml::Value::Table(items) => {
            Value::Map(items.iter().map(|(k, v)| Ok((k.clone(), from_toml(v, false)?))).collect::<Result<_, String>>()?)
        }
    })
}

/// Lays the settings of a TOML text over `layers`.
///
/// # Errors
/// Text that is not TOML, a later format, unknown keys and wrong types; each names the path.
pub(super) fn apply(layers: &mut Layers, path: &str, text: &str) -> Result<(), ConfigError> {
    let refuse = |reason: String| ConfigError::File { path: path.into(), reason };
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| refuse(format!("not TOML: {e}")))?;
    let names = |key: &str| -> Result<Vec<String>, ConfigError> {
        match table.get(key) {
            None => Ok(Vec::new()),
            Some(toml::Value::Array(items)) if items.iter().all(toml::Value::is_str) => {
                Ok(items.iter().filter_map(|v| v.as_str().map(String::from)).collect())
            }
            Some(other) => Err(refuse(format!("{key} = {other}: expected a list of settings"))),
        }
    };
    match table.get("format") {
        None => {}
        Some(toml::Value::Integer(FORMAT)) => {}
        Some(other) => {
            return Err(refuse(format!(
                "format = {other}: this version reads {FORMAT}; use the version that wrote it"
            )));
        }
    }
    let derived = names("derived")?;
    let mut settings = Vec::new();
    for (key, value) in &table {
        if !matches!(key.as_str(), "format" | "nulls" | "derived") {
            flatten(key, value, &mut settings).map_err(&refuse)?;
        }
    }
    settings.extend(names("nulls")?.into_iter().map(|key| (key, Value::Null)));
    for (key, value) in settings {
        let origin =
            if derived.contains(&key) { Origin::Derived(format!("file {path}")) } else { Origin::File(path.into()) };
        layers.set(&key, &value, origin).map_err(|e| refuse(e.to_string()))?;
    }
    // A saved run names the recipe that it came from; its rules (benchmark or not) apply again.
    if layers.recipe.is_none()
        && let Some(name) = &layers.config.run.recipe
    {
        layers.recipe = Some(crate::recipes::find(name).map_err(|e| refuse(format!("run.recipe: {e}")))?);
    }
    Ok(())
}

/// Tables are sections, or the value of a setting that takes a map.
fn flatten(key: &str, value: &toml::Value, out: &mut Vec<(String, Value)>) -> Result<(), String> {
    // `peft` and `device` are sections as tables, and short for one of their settings otherwise.
    let is_section = RunConfig::sections().iter().any(|(section, _)| *section == key);
    match value {
        toml::Value::Table(items) if is_section || RunConfig::field(super::aliases::canonical(key)).is_none() => {
            for (name, item) in items {
                flatten(&format!("{key}.{name}"), item, out)?;
            }
            Ok(())
        }
        other => {
            out.push((key.to_string(), from_toml(other, false).map_err(|e| format!("{key}: {e}"))?));
            Ok(())
        }
    }
}
