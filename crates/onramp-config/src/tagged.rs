//! Enums chosen by a `kind` key.

/// Defines an enum that is written with its `kind` beside its fields. It is read by
/// [`read()`](crate::read()), which takes the kind for the variant. Needs `serde` with its derives.
#[macro_export]
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
                #[derive(serde::Deserialize)]
                enum Read {
                    $(#[serde(rename = $tag)] $variant($config),)+
                }
                Ok(match Read::deserialize(d)? {
                    $(Read::$variant(config) => Self::$variant(config),)+
                })
            }
        }
    };
}
