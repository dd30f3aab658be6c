//! From layers of settings to one configuration, with the origin of every value.
//!
//! Order, later wins: defaults, recipe, file (`--config`), flags, trailing overrides. Automatic adjustments
//! (module `derive`) come last and say so.

use std::collections::BTreeMap;
use std::fmt;

use super::aliases;
use super::choices::Mode;
use super::error::ConfigError;
use super::launch::Launch;
use super::nearest::nearest;
use super::run::RunConfig;
use super::setting::SetError;
use super::value::Value;
use super::{check, derive, file};
use crate::recipes::{self, Recipe};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A recipe, by name.
    Recipe(&'static str),
    /// A configuration file, by path.
    File(String),
    /// A flag, as written in the help.
    Flag(String),
    /// A trailing `key=value`.
    Override,
    /// An environment variable that existed.
    Environment,
    /// An automatic adjustment, and why.
    Derived(String),
}

impl Origin {
    /// Order of precedence; automatic adjustments count as the weakest, so that they are made anew.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Default | Self::Derived(_) => 0,
            Self::Recipe(_) => 1,
            Self::Environment => 2,
            Self::File(_) => 3,
            Self::Flag(_) => 4,
            Self::Override => 5,
        }
    }

    /// Whether the user asked for the value.
    pub fn is_user(&self) -> bool {
        self.rank() >= Self::File(String::new()).rank()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Recipe(name) => write!(f, "recipe {name}"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Override => f.write_str("override"),
            Self::Environment => f.write_str("environment"),
            Self::Derived(why) => write!(f, "derived: {why}"),
        }
    }
}

/// The configuration of a run, where its values come from, and what was adjusted.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// All settings.
    pub config: RunConfig,
    /// Ranks of the launch.
    pub launch: Launch,
    /// The recipe that it started from.
    pub recipe: Option<&'static Recipe>,
    /// Adjustments and warnings, one line each.
    pub notes: Vec<String>,
    origins: BTreeMap<String, Origin>,
}

impl Resolved {
    /// Where the value of a setting comes from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(aliases::canonical(key)).unwrap_or(&Origin::Default)
    }

    /// Data-parallel ranks of the launch.
    pub fn data_parallel_size(&self) -> usize {
        self.launch.world_size / super::launch::model_parallel_size(&self.config).max(1)
    }
}

/// Collects layers.
#[derive(Debug, Clone)]
pub struct Layers {
    pub(super) config: RunConfig,
    pub(super) origins: BTreeMap<String, Origin>,
    pub(super) notes: Vec<String>,
    pub(super) recipe: Option<&'static Recipe>,
}

impl Default for Layers {
    fn default() -> Self {
        Self::new()
    }
}

impl Layers {
    /// Defaults only.
    pub fn new() -> Self {
        Self { config: RunConfig::default(), origins: BTreeMap::new(), notes: Vec::new(), recipe: None }
    }

    pub(super) fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// Lays a recipe over everything so far.
    ///
    /// # Errors
    /// Unknown recipe, with the nearest names.
    pub fn recipe(&mut self, name: &str) -> Result<(), ConfigError> {
        let recipe = recipes::find(name)?;
        recipe.apply(self)?;
        self.set("run.recipe", &Value::Str(recipe.name.into()), Origin::Recipe(recipe.name))?;
        self.set("run.mode", &Value::Str(recipe.mode.name().into()), Origin::Recipe(recipe.name))?;
        self.recipe = Some(recipe);
        Ok(())
    }

    /// Lays a configuration file over everything so far.
    ///
    /// # Errors
    /// Unreadable file, bad TOML, unknown keys, wrong types; all with the path.
    pub fn file(&mut self, path: &str) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ConfigError::File { path: path.into(), reason: format!("cannot be read: {e}") })?;
        file::apply(self, path, &text)
    }

    /// Sets a setting by its name or an alias. A map for a group of settings (`optimizer`, `dataset.offline_packing_specs`)
    /// sets those that it names.
    ///
    /// # Errors
    /// Unknown name (with the three nearest) or wrong type.
    pub fn set(&mut self, key: &str, value: &Value, origin: Origin) -> Result<(), ConfigError> {
        if let (Value::Map(items), true) = (value, is_group(key)) {
            for (name, item) in items {
                self.set(&format!("{key}.{name}"), item, origin.clone())?;
            }
            return Ok(());
        }
        let key = aliases::canonical(key);
        match self.config.set(key, value) {
            Ok(()) => {
                self.origins.insert(key.to_string(), origin);
                Ok(())
            }
            Err(SetError::Unknown) => Err(unknown_key(key)),
            Err(SetError::Type { expected }) => Err(ConfigError::Type {
                key: key.into(),
                value: value.to_string(),
                found: value.type_name().into(),
                expected,
            }),
        }
    }

    /// Sets a setting from text in the override grammar, read by the type of the setting.
    ///
    /// # Errors
    /// As [`Layers::set`], and text that is not in the grammar.
    pub fn set_text(&mut self, key: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let field = RunConfig::field(aliases::canonical(key));
        if field.is_none() && !is_group(key) {
            return Err(unknown_key(key));
        }
        let takes_text = field.is_some_and(|f| (f.takes_text)());
        let parsed = if takes_text { Value::parse_text(text) } else { Value::parse(text) };
        let value =
            parsed.map_err(|e| ConfigError::Grammar { key: key.into(), text: text.into(), reason: e.to_string() })?;
        self.set(key, &value, origin)
    }

    /// Applies a trailing `key=value`.
    ///
    /// # Errors
    /// No `=`, a key with a Hydra prefix, and as [`Layers::set_text`].
    pub fn set_override(&mut self, text: &str) -> Result<(), ConfigError> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(ConfigError::usage(format!("`{text}` is not an override; write section.key=value")));
        };
        let key = key.trim();
        if let Some(plain) = key.strip_prefix(['+', '~']) {
            let plain = plain.trim_start_matches('+');
            return Err(ConfigError::usage(format!(
                "`{text}`: settings can be neither added nor removed; write {plain}=value, or {plain}=null to clear it"
            )));
        }
        self.set_text(key, value, Origin::Override)
    }

    /// The configuration so far, before adjustments.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// The recipe so far.
    pub fn recipe_used(&self) -> Option<&'static Recipe> {
        self.recipe
    }

    /// The mode so far.
    pub fn mode(&self) -> Mode {
        self.config.run.mode
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adjusts, checks and hands out the configuration.
    ///
    /// `environment` answers for environment variables of the recipe.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn finish(
        mut self,
        launch: Launch,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Resolved, ConfigError> {
        derive::apply(&mut self, &launch, environment)?;
        check::check(&self.config, &launch)?;
        Ok(Resolved { config: self.config, launch, recipe: self.recipe, notes: self.notes, origins: self.origins })
    }
}

/// Whether settings or aliases begin with `key.` and none is named `key` with a value of its own that is a map.
fn is_group(key: &str) -> bool {
    let begins = |name: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    RunConfig::field(key).is_none()
        && (RunConfig::keys().any(|name| begins(&name)) || aliases::ALIASES.iter().any(|(alias, _)| begins(alias)))
}

fn unknown_key(key: &str) -> ConfigError {
    let keys: Vec<String> = RunConfig::keys().collect();
    let known = keys.iter().map(String::as_str).chain(aliases::ALIASES.iter().map(|(alias, _)| *alias));
    ConfigError::Unknown {
        what: "setting",
        name: key.into(),
        nearest: nearest(key, known, 3),
        hint: "`train --list-settings` lists all".into(),
    }
}
