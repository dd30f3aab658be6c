//! One field of a JSON object as text, without building the rest.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::python_text;

/// The text field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextField {
    /// A text (numbers and booleans as Python prints them).
    Text(String),
    /// Absent or null.
    Missing,
}

/// Picks one field of an object and passes over the rest without building it. Of a repeated key the last counts, as in
/// Python.
pub(super) struct FieldOf<'a>(pub &'a str);

impl<'de> DeserializeSeed<'de> for FieldOf<'_> {
    type Value = TextField;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<TextField, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldOf<'_> {
    type Value = TextField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<TextField, A::Error> {
        let mut found = TextField::Missing;
        while let Some(is_it) = map.next_key_seed(KeyIs(self.0))? {
            if is_it {
                found = map.next_value_seed(Text)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct KeyIs<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for KeyIs<'_> {
    type Value = bool;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyIs<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: de::Error>(self, key: &str) -> std::result::Result<bool, E> {
        Ok(key == self.0)
    }
}

struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = TextField;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<TextField, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = TextField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or null")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(text.to_string()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(text))
    }

    fn visit_unit<E: de::Error>(self) -> std::result::Result<TextField, E> {
        Ok(TextField::Missing)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(if value { "True" } else { "False" }.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(python_text::float(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> std::result::Result<TextField, A::Error> {
        Err(de::Error::invalid_type(de::Unexpected::Seq, &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> std::result::Result<TextField, A::Error> {
        Err(de::Error::invalid_type(de::Unexpected::Map, &self))
    }
}
