//! Settings: typed fields that are read from and printed as [`Value`]s, and the macros that declare sections of them.

use std::collections::BTreeMap;

use super::value::Value;

/// A type that a setting can have.
pub trait Setting: Sized {
    /// What the setting takes, for messages: "an integer from 0", "one of cosine, linear".
    fn expected() -> String;

    /// The typed value, or `None` when the value has another type.
    fn from_value(value: &Value) -> Option<Self>;

    /// The untyped value; [`Setting::from_value`] reads it back.
    fn to_value(&self) -> Value;

    /// Whether bare text such as `007` or `1,1,1` is taken as text.
    fn takes_text() -> bool {
        false
    }
}

impl Setting for bool {
    fn expected() -> String {
        "true or false".into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

macro_rules! integer_setting {
    ($($int:ty: $expected:literal),*) => {$(
        impl Setting for $int {
            fn expected() -> String {
                $expected.into()
            }
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Int(i) => (*i).try_into().ok(),
                    _ => None,
                }
            }
            fn to_value(&self) -> Value {
                // Settings are far below 2^63; a larger one would be printed as the number it stands for.
                i64::try_from(*self).map_or(Value::Float(*self as f64), Value::Int)
            }
        }
    )*};
}

integer_setting!(usize: "an integer from 0", u64: "an integer from 0", u32: "an integer from 0 to 4294967295");

impl Setting for f64 {
    fn expected() -> String {
        "a number".into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Float(x) => Some(*x),
            Value::Int(i) => Some(*i as f64),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        Value::Float(*self)
    }
}

impl Setting for String {
    fn expected() -> String {
        "a string (put null, true and false in quotes)".into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Str(s) => Some(s.clone()),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        Value::Str(self.clone())
    }
    fn takes_text() -> bool {
        true
    }
}

impl<T: Setting> Setting for Option<T> {
    fn expected() -> String {
        format!("{} or null", T::expected())
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            other => T::from_value(other).map(Some),
        }
    }
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }
    fn takes_text() -> bool {
        T::takes_text()
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn expected() -> String {
        format!("a list [a, b, ...], each {}", T::expected())
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(items) => items.iter().map(T::from_value).collect(),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(T::to_value).collect())
    }
}

/// A map from names to texts; numbers are kept as their text.
impl Setting for BTreeMap<String, String> {
    fn expected() -> String {
        "a map {name = value, ...} of strings and numbers".into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        let Value::Map(items) = value else {
            return None;
        };
        let text = |v: &Value| match v {
            Value::Str(s) => Some(s.clone()),
            Value::Int(_) | Value::Float(_) => Some(v.to_string()),
            _ => None,
        };
        items.iter().map(|(k, v)| Some((k.clone(), text(v)?))).collect()
    }
    fn to_value(&self) -> Value {
        Value::Map(self.iter().map(|(k, v)| (k.clone(), Value::Str(v.clone()))).collect())
    }
}

/// One setting of a section.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Name inside its section.
    pub name: &'static str,
    /// Meaning and unit, one line.
    pub doc: &'static str,
    /// What it takes.
    pub expected: fn() -> String,
    /// Whether bare text is taken as text.
    pub takes_text: fn() -> bool,
}

/// Why a setting was not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetError {
    /// The section has no setting of that name.
    Unknown,
    /// The value has another type.
    Type {
        /// What the setting takes.
        expected: String,
    },
}

/// A group of settings.
pub trait Section {
    /// All settings, in the order in which they are shown.
    fn fields() -> &'static [Field];

    /// The value of a setting.
    fn get(&self, name: &str) -> Option<Value>;

    /// Sets a setting.
    ///
    /// # Errors
    /// Unknown name or wrong type; nothing is changed then.
    fn set(&mut self, name: &str, value: &Value) -> Result<(), SetError>;
}

/// Declares a section: a struct with documented fields and their defaults.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        pub struct $section:ident {
            $( $(#[doc = $doc:literal])+ $name:ident: $kind:ty = $default:expr, )+
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $section {
            $( $(#[doc = $doc])+ pub $name: $kind, )+
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }

        impl $crate::config::setting::Section for $section {
            fn fields() -> &'static [$crate::config::setting::Field] {
                const FIELDS: &[$crate::config::setting::Field] = &[$(
                    $crate::config::setting::Field {
                        name: stringify!($name),
                        doc: concat!($($doc),+),
                        expected: <$kind as $crate::config::setting::Setting>::expected,
                        takes_text: <$kind as $crate::config::setting::Setting>::takes_text,
                    },
                )+];
                FIELDS
            }

            fn get(&self, name: &str) -> Option<$crate::config::value::Value> {
                match name {
                    $( stringify!($name) => Some($crate::config::setting::Setting::to_value(&self.$name)), )+
                    _ => None,
                }
            }

            fn set(
                &mut self,
                name: &str,
                value: &$crate::config::value::Value,
            ) -> Result<(), $crate::config::setting::SetError> {
                match name {
                    $( stringify!($name) => {
                        match <$kind as $crate::config::setting::Setting>::from_value(value) {
                            Some(value) => {
                                self.$name = value;
                                Ok(())
                            }
                            None => Err($crate::config::setting::SetError::Type {
                                expected: <$kind as $crate::config::setting::Setting>::expected(),
                            }),
                        }
                    } )+
                    _ => Err($crate::config::setting::SetError::Unknown),
                }
            }
        }
    };
}
pub(crate) use section;

/// Declares an enum whose variants have names in the configuration; the first spelling is printed, all are read, letter
/// case does not matter.
macro_rules! choice {
    (
        $(#[doc = $enum_doc:literal])+
        pub enum $choice:ident {
            $( $(#[doc = $doc:literal])+ $variant:ident = $first:literal $(| $other:literal)*, )+
        }
    ) => {
        $(#[doc = $enum_doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $choice {
            $( $(#[doc = $doc])+ $variant, )+
        }

        impl $choice {
            /// Spelling in configurations and logs.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $first, )+
                }
            }
        }

        impl std::fmt::Display for $choice {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $choice {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                use $crate::config::setting::Setting;
                let value = $crate::config::value::Value::Str(text.to_string());
                Self::from_value(&value).ok_or_else(|| format!("`{text}`: must be {}", Self::expected()))
            }
        }

        impl $crate::config::setting::Setting for $choice {
            fn expected() -> String {
                format!("one of {}", [$($first),+].join(", "))
            }

            fn from_value(value: &$crate::config::value::Value) -> Option<Self> {
                let $crate::config::value::Value::Str(text) = value else { return None };
                $( if [$first $(, $other)*].iter().any(|s: &&str| s.eq_ignore_ascii_case(text)) {
                    return Some(Self::$variant);
                } )+
                None
            }

            fn to_value(&self) -> $crate::config::value::Value {
                $crate::config::value::Value::Str(self.name().to_string())
            }

            fn takes_text() -> bool {
                true
            }
        }
    };
}
pub(crate) use choice;
