//! The chat template, as data: a Jinja text rendered by `minijinja`.

use minijinja::value::Value as Jinja;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde_json::Value;

use crate::error::{DataError, Result};
use crate::python_text;

const LIGHTNING: &str = include_str!("chat_template.jinja");

/// Options of a rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// End with the beginning of an assistant's turn.
    pub add_generation_prompt: bool,
    /// That turn thinks.
    pub enable_thinking: bool,
    /// Ask for less thinking in the last user turn.
    pub medium_effort: bool,
    /// Turns before the last user turn lose their reasoning.
    pub truncate_history_thinking: bool,
}

impl Default for RenderOptions {
    fn default() -> RenderOptions {
        RenderOptions {
            add_generation_prompt: false,
            enable_thinking: true,
            medium_effort: false,
            truncate_history_thinking: true,
        }
    }
}

/// A chat template ready for use.
pub struct ChatTemplate {
    environment: Environment<'static>,
    name: String,
    source: String,
}

impl ChatTemplate {
    /// The template called `name`; `lightning35` is the one there is.
    pub fn named(name: &str) -> Result<ChatTemplate> {
        match name {
            "lightning35" => ChatTemplate::from_source(name, LIGHTNING),
            other => Err(DataError::Setting {
                name: "chat_template",
                expected: "lightning35".into(),
                found: format!("{other:?}"),
                hint: "use lightning35",
            }),
        }
    }

    /// A template of one's own. Filters beside the built-in ones: `py_json`, `py_text`, `after_think`.
    pub fn from_source(name: &str, source: &str) -> Result<ChatTemplate> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.add_filter("py_json", |v: Jinja| to_json(&v).map(|v| python_text::json(&v, false, false)));
        environment.add_filter("py_text", |v: Jinja| {
            to_json(&v).map(|v| python_text::scalar(&v).unwrap_or_else(|| python_text::json(&v, false, false)))
        });
        environment.add_filter("after_think", |text: &str| {
            text.rsplit_once("</think>").map_or(text, |(_, after)| after).to_string()
        });
        environment.add_template_owned("chat".to_string(), source.to_string()).map_err(|e| template_error(name, &e))?;
        Ok(ChatTemplate { environment, name: name.to_string(), source: source.to_string() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its text; part of the hash of a run.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders messages.
    ///
    /// # Errors
    /// Messages that the template cannot read (a content that is no text, for example).
    pub fn render(&self, messages: &[Value], tools: Option<&Value>, options: RenderOptions) -> Result<String> {
        let context = minijinja::context! {
            messages => messages.iter().map(from_json).collect::<Jinja>(),
            tools => tools.map_or(Jinja::from(()), from_json),
            add_generation_prompt => options.add_generation_prompt,
            enable_thinking => options.enable_thinking,
            medium_effort => options.medium_effort,
            truncate_history_thinking => options.truncate_history_thinking,
        };
        let template = self.environment.get_template("chat").map_err(|e| template_error(&self.name, &e))?;
        template.render(context).map_err(|e| template_error(&self.name, &e))
    }
}

fn from_json(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(b) => Jinja::from(*b),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => Jinja::from(n),
            (_, Some(n)) => Jinja::from(n),
            _ => Jinja::from(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Jinja::from(text.as_str()),
        Value::Array(items) => items.iter().map(from_json).collect(),
        Value::Object(map) => Jinja::from_pairs(map.iter().map(|(k, v)| (k.as_str(), from_json(v)))),
    }
}

fn to_json(value: &Jinja) -> std::result::Result<Value, minijinja::Error> {
    serde_json::to_value(value).map_err(|e| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string()))
}

fn template_error(name: &str, error: &minijinja::Error) -> DataError {
    DataError::Tokenizer {
        what: format!("chat template {name}"),
        message: error.to_string(),
        hint: "check the messages of the row",
    }
}
