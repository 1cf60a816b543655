//! Enums chosen by a `kind` key.
//!
//! serde's own tagged enums lose the path of what is wrong inside them; here
//! it is passed on in the message, and [`super::load`] takes it out again.

/// Between a path and a message inside an error text.
pub(crate) const PATH_END: char = '\u{1f}';

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
                const KINDS: &[&str] = &[$($tag),+];
                let mut table = toml::Table::deserialize(d)?;
                let wrong = |problem: String| {
                    D::Error::custom(format!("kind{}{problem}, expected one of {}",
                        $crate::scenario::tagged::PATH_END, KINDS.join(", ")))
                };
                let kind = table.remove("kind").ok_or_else(|| wrong("missing".into()))?;
                match kind.as_str() {
                    $(Some($tag) => serde_path_to_error::deserialize(toml::Value::Table(table))
                        .map($name::$variant)
                        .map_err(|e| D::Error::custom(format!("{}{}{}",
                            e.path(), $crate::scenario::tagged::PATH_END, e.inner().message()))),)+
                    _ => Err(wrong(format!("unknown kind {kind}"))),
                }
            }
        }
    };
}
pub(crate) use tagged;
