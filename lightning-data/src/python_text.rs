//! Values as Python writes them: hashes, weights in blend files and rendered chats depend on it to the character.

use serde_json::Value;

/// `str(x)` of a Python float: the shortest digits that read back, with an exponent from 1e16 up and below 1e-4.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{x:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{x}");
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

/// `str(x)` of a scalar; `None` for lists and objects.
pub fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("None".into()),
        Value::Bool(true) => Some("True".into()),
        Value::Bool(false) => Some("False".into()),
        Value::Number(n) if n.is_f64() => n.as_f64().map(float),
        Value::Number(n) => Some(n.to_string()),
        Value::String(s) => Some(s.clone()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// `json.dumps(value, ensure_ascii=..., sort_keys=...)` with the default separators `", "` and `": "`.
pub fn json(value: &Value, ensure_ascii: bool, sort_keys: bool) -> String {
    let mut out = String::new();
    write(value, ensure_ascii, sort_keys, &mut out);
    out
}

fn write(value: &Value, ensure_ascii: bool, sort_keys: bool, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match n.as_f64() {
            Some(x) if n.is_f64() => out.push_str(&float(x)),
            _ => out.push_str(&n.to_string()),
        },
        Value::String(s) => string(s, ensure_ascii, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write(item, ensure_ascii, sort_keys, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            if sort_keys {
                entries.sort_by_key(|e| e.0);
            }
            out.push('{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                string(key, ensure_ascii, out);
                out.push_str(": ");
                write(item, ensure_ascii, sort_keys, out);
            }
            out.push('}');
        }
    }
}

fn string(text: &str, ensure_ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ensure_ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (1.0, "1.0"),
            (0.25, "0.25"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (9999999999999998.0, "9999999999999998.0"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (-0.0, "-0.0"),
            (1e300, "1e+300"),
        ];
        for (x, want) in cases {
            assert_eq!(float(x), want);
        }
    }

    #[test]
    fn json_has_pythons_separators_and_escapes() {
        let value = serde_json::json!({"b": [1, 2.0, null], "a": "é\u{1f642}\u{7f}\n\u{1}"});
        assert_eq!(json(&value, false, false), "{\"b\": [1, 2.0, null], \"a\": \"é\u{1f642}\u{7f}\\n\\u0001\"}");
        assert_eq!(
            json(&value, true, true),
            "{\"a\": \"\\u00e9\\ud83d\\ude42\u{7f}\\n\\u0001\", \"b\": [1, 2.0, null]}"
        );
    }
}
