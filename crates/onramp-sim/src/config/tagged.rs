//! Enums chosen by a `kind` key.
//!
//! serde's own tagged enums lose the path of what is wrong inside them; here
//! it is passed on in the message, and the loader takes it out again.

use serde::de::DeserializeOwned;

/// Before and after a path at the beginning of an error text.
pub(crate) const PATH_END: char = '\u{1f}';

/// An error text that [`taken_apart`] splits into path and message again.
pub(crate) fn put_together(path: &str, message: &str) -> String {
    format!("{PATH_END}{}{PATH_END}{message}", path.replace(PATH_END, "?"))
}

/// Path and message of an error text, if it has a path.
pub(crate) fn taken_apart(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(PATH_END)?.split_once(PATH_END)
}

/// Takes out of a section a key that is there whatever its kind, and reads it.
pub(crate) fn take<T: DeserializeOwned>(table: &mut toml::Table, key: &str) -> Result<Option<T>, String> {
    let Some(value) = table.remove(key) else { return Ok(None) };
    value.try_into().map(Some).map_err(|e: toml::de::Error| put_together(key, e.message()))
}

/// Reads the rest of such a section; where its keys are listed, `own` ones are too.
pub(crate) fn rest<T: DeserializeOwned>(table: toml::Table, own: &[&str]) -> Result<T, String> {
    toml::Value::Table(table).try_into().map_err(|e: toml::de::Error| {
        let mut message = e.message().to_string();
        if message.contains("unknown field `") {
            message.extend(own.iter().map(|key| format!(", `{key}`")));
        }
        message
    })
}

macro_rules! tagged {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$vdoc:meta])* $variant:ident($config:ty) = $tag:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        #[serde(tag = "kind")]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $tag)] $variant($config),)+
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                use serde::de::Error;
                use $crate::config::{plain, tagged};
                const KINDS: &[&str] = &[$($tag),+];
                let mut table = toml::Table::deserialize(d)?;
                let wrong = |problem: &str| D::Error::custom(tagged::put_together("kind", problem));
                let kind = table.remove("kind")
                    .ok_or_else(|| wrong(&format!("is missing: write one of {}", KINDS.join(", "))))?;
                match kind.as_str() {
                    $(Some($tag) => serde_path_to_error::deserialize(toml::Value::Table(table))
                        .map($name::$variant)
                        .map_err(|e| D::Error::custom(tagged::put_together(&e.path().to_string(), e.inner().message()))),)+
                    Some(other) => Err(wrong(&plain::not_one_of(other, KINDS))),
                    None => Err(wrong(&format!("must be in quotes: one of {}", KINDS.join(", ")))),
                }
            }
        }
    };
}
pub(crate) use tagged;
