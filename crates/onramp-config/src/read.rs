//! From a table to a type, and by type to what is wrong.
//!
//! serde's error of another format would be a sentence, to be taken apart again. This
//! [`Deserializer`] knows which key it is at, what stands there and what is asked for, and says
//! that.

use crate::mistake::{Mistake, cut};
use crate::names::{nearest, not_one_of};
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess};
use serde::de::{DeserializeOwned, Unexpected, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use toml::Table;
use toml_datetime::de::DatetimeDeserializer;

/// Reads a `T`. An enum whose variants have fields is a table that names its variant under
/// `kind`, the rest of it being the fields; [`Both`] reads two types out of one table.
///
/// # Errors
/// The first mistake.
pub fn read<T: DeserializeOwned>(table: &Table) -> Result<T, Error> {
    T::deserialize(Node::Table(Part { table, keys: Shown::All }))
}

/// One step of the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// A mistake of a file, by type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The way to the value, its end first.
    path: Vec<Step>,
    /// The kind of mistake.
    pub wrong: Wrong,
}

/// A kind of mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wrong {
    /// A key that must be there is not.
    Missing {
        /// Its name.
        key: String,
        /// Its values, if these are few.
        one_of: &'static [&'static str],
    },
    /// A key that is not known.
    UnknownKey {
        /// Its name.
        key: String,
        /// Those that are known.
        known: Vec<&'static str>,
    },
    /// Text that is not one of the words that are known here.
    UnknownWord {
        /// The text.
        word: String,
        /// The words.
        known: &'static [&'static str],
    },
    /// Another type of value, or one outside its range.
    Type {
        /// The value.
        found: Value,
        /// In the words of who writes such files.
        wanted: String,
    },
    /// A sentence of the type that was read.
    Other(String),
}

/// A value as far as messages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A table.
    Section,
    /// An array.
    List,
    /// Another one, as it is written.
    Scalar(String),
}

impl Error {
    fn new(wrong: Wrong) -> Self {
        Self { path: Vec::new(), wrong }
    }

    fn mismatch(found: Value, wanted: impl Into<String>) -> Self {
        Self::new(Wrong::Type { found, wanted: wanted.into() })
    }

    fn under(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    fn key_with(&self, last: Option<&str>) -> String {
        let mut key = String::new();
        let last = last.map(|last| Step::Key(last.into()));
        for step in self.path.iter().rev().chain(&last) {
            match step {
                Step::Index(i) => key += &format!("[{i}]"),
                Step::Key(name) if key.is_empty() => key += name,
                Step::Key(name) => key += &format!(".{name}"),
            }
        }
        key
    }

    /// The dotted key that is wrong, as [`Mistake::key`].
    #[must_use]
    pub fn key(&self) -> String {
        match &self.wrong {
            Wrong::Missing { key, .. } | Wrong::UnknownKey { key, .. } => self.key_with(Some(key)),
            _ => self.key_with(None),
        }
    }

    /// The key that an unknown one was probably meant to be.
    #[must_use]
    pub fn meant(&self) -> Option<String> {
        match &self.wrong {
            Wrong::UnknownKey { key, known } => nearest(key, known).map(|meant| self.key_with(Some(meant))),
            _ => None,
        }
    }

    /// The mistake in words. `example` is a value of a key that must be there, by its name.
    pub fn mistake(&self, example: impl FnOnce(&str) -> Option<&'static str>) -> Mistake {
        let message = match &self.wrong {
            Wrong::Missing { key, one_of: [] } => example(key).map_or_else(
                || "is missing".into(),
                |example| format!("is missing: write one, such as {key} = {example}"),
            ),
            Wrong::Missing { one_of, .. } => format!("is missing: write one of {}", one_of.join(", ")),
            Wrong::UnknownKey { key, known } => match nearest(key, known) {
                Some(meant) => format!("is not a known key: did you mean {meant}?"),
                None if known.is_empty() => "is not a known key: none is possible here".into(),
                None => format!("is not a known key: known are {}", known.join(", ")),
            },
            Wrong::UnknownWord { word, known } => not_one_of(word, known),
            Wrong::Type { found: Value::List, wanted } if wanted == SECTION && self.path.len() == 1 => {
                format!("is no list: write [{}], with one bracket", self.key())
            }
            Wrong::Type { found, wanted } => format!("{found} is not {wanted}"),
            Wrong::Other(message) => message.clone(),
        };
        Mistake::new(self.key(), message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { key, message } = self.mistake(|_| None);
        if key.is_empty() { f.write_str(&message) } else { write!(f, "{key}: {message}") }
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Wrong::Other(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        Self::mismatch(found.into(), wanted.to_string())
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        Self::mismatch(found.into(), wanted.to_string())
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::new(Wrong::UnknownWord { word: word.into(), known })
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::new(Wrong::UnknownKey { key: key.into(), known: known.to_vec() })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(Wrong::Missing { key: key.into(), one_of: &[] })
    }
}

impl From<Unexpected<'_>> for Value {
    fn from(found: Unexpected<'_>) -> Self {
        match found {
            Unexpected::Map => Self::Section,
            Unexpected::Seq => Self::List,
            Unexpected::Str(text) => Self::Scalar(format!("{text:?}")),
            Unexpected::Bool(yes) => Self::Scalar(yes.to_string()),
            Unexpected::Signed(number) => Self::Scalar(number.to_string()),
            Unexpected::Unsigned(number) => Self::Scalar(number.to_string()),
            Unexpected::Float(number) => Self::Scalar(format!("{number:?}")),
            other => Self::Scalar(other.to_string()),
        }
    }
}

impl From<&toml::Value> for Value {
    fn from(value: &toml::Value) -> Self {
        match value {
            toml::Value::Table(_) => Self::Section,
            toml::Value::Array(_) => Self::List,
            toml::Value::String(text) => Self::Scalar(format!("{text:?}")),
            toml::Value::Integer(number) => Self::Scalar(number.to_string()),
            toml::Value::Float(number) => Self::Scalar(format!("{number:?}")),
            toml::Value::Boolean(yes) => Self::Scalar(yes.to_string()),
            toml::Value::Datetime(date) => Self::Scalar(date.to_string()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Section => SECTION,
            Self::List => "a list",
            Self::Scalar(text) => return f.write_str(&cut(text)),
        })
    }
}

const SECTION: &str = "a section";
const TEXT: &str = "text in quotes";

/// Keys of a table that are shown to the type that is read.
#[derive(Clone, Copy)]
enum Shown {
    All,
    Only(&'static [&'static str]),
    Without(&'static [&'static str]),
}

/// A table, or the part of it that belongs to one type.
#[derive(Clone, Copy)]
struct Part<'de> {
    table: &'de Table,
    keys: Shown,
}

impl<'de> Part<'de> {
    /// Shows its entries but for the key `left_out`.
    fn entries(
        self,
        left_out: Option<&'static str>,
    ) -> Entries<'de, impl Iterator<Item = (&'de str, &'de toml::Value)>> {
        let shown = move |(name, _): &(&str, &toml::Value)| {
            let by_part = match self.keys {
                Shown::All => true,
                Shown::Only(keys) => keys.contains(name),
                Shown::Without(keys) => !keys.contains(name),
            };
            by_part && left_out != Some(name)
        };
        Entries { left: self.table.iter().map(|(name, value)| (name.as_str(), value)).filter(shown), at: None }
    }
}

/// A value of the file.
#[derive(Clone, Copy)]
enum Node<'de> {
    Table(Part<'de>),
    Other(&'de toml::Value),
}

impl<'de> From<&'de toml::Value> for Node<'de> {
    fn from(value: &'de toml::Value) -> Self {
        match value {
            toml::Value::Table(table) => Self::Table(Part { table, keys: Shown::All }),
            other => Self::Other(other),
        }
    }
}

impl<'de> Node<'de> {
    fn found(self) -> Value {
        match self {
            Self::Table(_) => Value::Section,
            Self::Other(value) => value.into(),
        }
    }

    fn part(self, wanted: &str) -> Result<Part<'de>, Error> {
        match self {
            Self::Table(part) => Ok(part),
            Self::Other(_) => Err(Error::mismatch(self.found(), wanted)),
        }
    }

    /// A whole number that a `T` can hold; `range` is that in words.
    fn integer<T: TryFrom<i64>>(self, range: &str) -> Result<T, Error> {
        match self {
            Self::Other(toml::Value::Integer(number)) => {
                T::try_from(*number).map_err(|_| Error::mismatch(self.found(), format!("a whole number {range}")))
            }
            _ => Err(Error::mismatch(self.found(), "a whole number")),
        }
    }

    fn text(self) -> Result<&'de str, Error> {
        match self {
            Self::Other(toml::Value::String(text)) => Ok(text),
            _ => Err(Error::mismatch(self.found(), TEXT)),
        }
    }
}

macro_rules! integers {
    ($($of:ty: $method:ident $visit:ident $range:literal,)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.integer::<$of>($range)?)
        })+
    };
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Error;

    integers! {
        u8: deserialize_u8 visit_u8 "from 0 to 255",
        u16: deserialize_u16 visit_u16 "from 0 to 65535",
        u32: deserialize_u32 visit_u32 "from 0 to 4294967295",
        u64: deserialize_u64 visit_u64 "from 0 on",
        i8: deserialize_i8 visit_i8 "from -128 to 127",
        i16: deserialize_i16 visit_i16 "from -32768 to 32767",
        i32: deserialize_i32 visit_i32 "from -2147483648 to 2147483647",
        i64: deserialize_i64 visit_i64 "",
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Table(part) => visitor.visit_map(part.entries(None)),
            Self::Other(toml::Value::Array(all)) => visitor.visit_seq(Elements { left: all.iter().enumerate() }),
            Self::Other(toml::Value::String(text)) => visitor.visit_borrowed_str(text),
            Self::Other(toml::Value::Integer(number)) => visitor.visit_i64(*number),
            Self::Other(toml::Value::Float(number)) => visitor.visit_f64(*number),
            Self::Other(toml::Value::Boolean(yes)) => visitor.visit_bool(*yes),
            // It comes as a map of toml's own, which only its types take.
            Self::Other(toml::Value::Datetime(date)) => {
                visitor.visit_map(DatetimeDeserializer::new(*date)).map_err(|mut e: Error| {
                    if let Wrong::Type { found, .. } = &mut e.wrong {
                        *found = self.found();
                    }
                    e
                })
            }
            Self::Other(toml::Value::Table(_)) => unreachable!("tables are parts"),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Other(toml::Value::Boolean(yes)) => visitor.visit_bool(*yes),
            _ => Err(Error::mismatch(self.found(), "true or false")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Other(toml::Value::Float(number)) => visitor.visit_f64(*number),
            Self::Other(toml::Value::Integer(number)) => visitor.visit_f64(*number as f64),
            _ => Err(Error::mismatch(self.found(), "a number")),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Other(toml::Value::Array(all)) => visitor.visit_seq(Elements { left: all.iter().enumerate() }),
            _ => Err(Error::mismatch(self.found(), "a list, such as [\"a\", \"b\"]")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self.part(SECTION)?.entries(None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let part = self.part(SECTION)?;
        if name == BOTH {
            return visitor.visit_seq(Halves { table: part.table, keys: fields, next: 0 });
        }
        visitor.visit_map(part.entries(None))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Self::Table(part) => {
                let at_kind = |e: Error| e.under(Step::Key(KIND.into()));
                let Some(kind) = part.table.get(KIND) else {
                    return Err(Error::new(Wrong::Missing { key: KIND.into(), one_of: variants }));
                };
                let Some(name) = kind.as_str() else {
                    let message = format!("must be in quotes: one of {}", variants.join(", "));
                    return Err(at_kind(Error::new(Wrong::Other(message))));
                };
                if !variants.contains(&name) {
                    return Err(at_kind(de::Error::unknown_variant(name, variants)));
                }
                visitor.visit_enum(Kind { name, fields: part })
            }
            Self::Other(toml::Value::String(name)) => visitor.visit_enum(Word(name)),
            Self::Other(_) => Err(Error::mismatch(self.found(), format!("one of {}", variants.join(", ")))),
        }
    }

    serde::forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// Key that names the variant of an enum.
const KIND: &str = "kind";

/// A table whose `kind` is a variant and whose other keys are that variant's fields.
struct Kind<'de> {
    name: &'de str,
    fields: Part<'de>,
}

impl<'de> EnumAccess<'de> for Kind<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        Ok((seed.deserialize(BorrowedStrDeserializer::<Error>::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Kind<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.fields.entries(Some(KIND)).left.next() {
            Some((key, _)) => Err(de::Error::unknown_field(key, &[])),
            None => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(Fields(self.fields))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(Error::mismatch(Value::Section, "a list"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self.fields.entries(Some(KIND)))
    }
}

/// The name of a variant where one without fields is written as a word, and any other as a table.
struct Word<'de>(&'de str);

impl Word<'_> {
    fn needs_a_table(&self) -> Error {
        let Self(name) = self;
        Error::mismatch(Value::Scalar(format!("{name:?}")), format!("a table: write {{ {KIND} = {name:?} }}"))
    }
}

impl<'de> EnumAccess<'de> for Word<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        Ok((seed.deserialize(BorrowedStrDeserializer::<Error>::new(self.0))?, self))
    }
}

impl<'de> VariantAccess<'de> for Word<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, Error> {
        Err(self.needs_a_table())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(self.needs_a_table())
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(self.needs_a_table())
    }
}

/// The fields of a variant: a table without its `kind`.
struct Fields<'de>(Part<'de>);

impl<'de> Deserializer<'de> for Fields<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self.0.entries(Some(KIND)))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// Entries of a table, one after another.
struct Entries<'de, I> {
    left: I,
    at: Option<(&'de str, &'de toml::Value)>,
}

impl<'de, I: Iterator<Item = (&'de str, &'de toml::Value)>> MapAccess<'de> for Entries<'de, I> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.at = self.left.next();
        self.at.map(|(name, _)| seed.deserialize(BorrowedStrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (name, value) = self.at.expect("a value is asked for after its key");
        seed.deserialize(Node::from(value)).map_err(|e| e.under(Step::Key(name.into())))
    }
}

/// Elements of a list, one after another.
struct Elements<'de> {
    left: std::iter::Enumerate<std::slice::Iter<'de, toml::Value>>,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((i, value)) = self.left.next() else { return Ok(None) };
        seed.deserialize(Node::from(value)).map(Some).map_err(|e| e.under(Step::Index(i)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

/// A type with a list of its keys.
pub trait Keys {
    /// The keys.
    const KEYS: &'static [&'static str];
}

/// Two types that share one table: the keys of the first, and all others. Unlike with serde's
/// `flatten`, mistakes keep their place. Only [`read()`] knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Both<A, B>(pub A, pub B);

/// Name of a structure by which [`Both`] is known.
const BOTH: &str = "$onramp_config::Both";

impl<'de, A: Keys + Deserialize<'de>, B: Deserialize<'de>> Deserialize<'de> for Both<A, B> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<A, B>(PhantomData<(A, B)>);
        impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Visitor<'de> for V<A, B> {
            type Value = Both<A, B>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SECTION)
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut halves: S) -> Result<Both<A, B>, S::Error> {
                let half = || de::Error::custom("half a section is missing");
                let first = halves.next_element()?.ok_or_else(half)?;
                Ok(Both(first, halves.next_element()?.ok_or_else(half)?))
            }
        }
        d.deserialize_struct(BOTH, A::KEYS, V(PhantomData))
    }
}

/// A table in two halves: these keys, then the others.
struct Halves<'de> {
    table: &'de Table,
    keys: &'static [&'static str],
    next: usize,
}

impl<'de> SeqAccess<'de> for Halves<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let keys = match self.next {
            0 => Shown::Only(self.keys),
            1 => Shown::Without(self.keys),
            _ => return Ok(None),
        };
        self.next += 1;
        let read = seed.deserialize(Node::Table(Part { table: self.table, keys }));
        read.map(Some).map_err(|mut e| {
            // Where keys are listed, those of the other half are possible, too.
            if let (true, Wrong::UnknownKey { known, .. }) = (e.path.is_empty(), &mut e.wrong) {
                known.extend(self.keys);
            }
            e
        })
    }
}

/// A value that is parsed from text.
pub trait Written: FromStr {
    /// Sentence about text that is no such value.
    const WRONG: &'static str;
}

impl Written for IpAddr {
    const WRONG: &'static str = "is no IP address, such as \"10.0.0.2\"";
}

impl Written for SocketAddr {
    const WRONG: &'static str = "is no address with a port, such as \"10.0.0.1:9472\"";
}

/// Reads a [`Written`] value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<T>(pub T);

impl<'de, T: Written> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(d)?;
        text.parse().map(Self).map_err(|_| de::Error::custom(T::WRONG))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Shape {
        Star(Star),
        Line,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Star {
        hosts: u32,
        #[serde(default)]
        failed: Vec<Parsed<IpAddr>>,
    }

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Common {
        class: u8,
        share: f64,
    }

    impl Keys for Common {
        const KEYS: &'static [&'static str] = &["class", "share"];
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        shapes: Vec<Both<Common, Shape>>,
        main: Option<Star>,
        shape: Option<Shape>,
    }

    fn said(text: &str) -> String {
        let document = Document::parse(text, "f").unwrap();
        match read::<File>(document.table()) {
            Ok(file) => format!("{file:?}"),
            Err(e) => document.located(e.mistake(|key| (key == "hosts").then_some("9"))).to_string(),
        }
    }

    #[test]
    fn kinds_and_halves_are_read() {
        let document =
            Document::parse("[[shapes]]\nkind = \"star\"\nclass = 3\nhosts = 2\n[[shapes]]\nkind = \"line\"", "f");
        let file: File = read(document.unwrap().table()).unwrap();
        let star = Both(Common { class: 3, share: 0.0 }, Shape::Star(Star { hosts: 2, failed: vec![] }));
        assert_eq!(file.shapes, [star, Both(Common::default(), Shape::Line)]);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let section = "[[shapes]]\nkind = \"star\"\n";
        for (text, expected) in [
            ("man = 1", "f:1: man: is not a known key: did you mean main?"),
            ("colour = 1", "f:1: colour: is not a known key: known are shapes, main, shape"),
            ("main = 1", "f:1: main: 1 is not a section"),
            ("shape = \"star\"", "f:1: shape: \"star\" is not a table: write { kind = \"star\" }"),
            ("shape = \"str\"", "f:1: shape: \"str\" is not one of star, line: did you mean \"star\"?"),
            ("shape = 3", "f:1: shape: 3 is not one of star, line"),
            ("[[main]]", "f:1: main: is no list: write [main], with one bracket"),
            ("[main]", "f:1: main.hosts: is missing: write one, such as hosts = 9"),
            ("main.hosts = 5000000000", "f:1: main.hosts: 5000000000 is not a whole number from 0 to 4294967295"),
            ("main.hosts = 1979-05-27", "f:1: main.hosts: 1979-05-27 is not a whole number"),
            ("main.hosts = [1]", "f:1: main.hosts: a list is not a whole number"),
            ("shapes = {}", "f:1: shapes: a section is not a list, such as [\"a\", \"b\"]"),
            ("[[shapes]]", "f:1: shapes[0].kind: is missing: write one of star, line"),
            ("[[shapes]]\nkind = 1", "f:2: shapes[0].kind: must be in quotes: one of star, line"),
            (
                "[[shapes]]\nkind = \"str\"",
                "f:2: shapes[0].kind: \"str\" is not one of star, line: did you mean \"star\"?",
            ),
            (&format!("{section}class = 256"), "f:3: shapes[0].class: 256 is not a whole number from 0 to 255"),
            (&format!("{section}share = \"1\""), "f:3: shapes[0].share: \"1\" is not a number"),
            (
                &format!("{section}x = 1\nhosts = 1"),
                "f:3: shapes[0].x: is not a known key: known are hosts, failed, class, share",
            ),
            (&format!("{section}clas = 1\nhosts = 1"), "f:3: shapes[0].clas: is not a known key: did you mean class?"),
            (
                &format!("{section}hosts = 1\nfailed = [\n\"::1\", \n\"10\"]"),
                "f:6: shapes[0].failed[1]: is no IP address, such as \"10.0.0.2\"",
            ),
            (&format!("{section}hosts = 1\nfailed = [1]"), "f:4: shapes[0].failed[0]: 1 is not text in quotes"),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
    }

    #[test]
    fn what_was_meant_is_told_as_a_key() {
        let document = Document::parse("[main]\nhost = 1", "f").unwrap();
        assert_eq!(read::<File>(document.table()).unwrap_err().meant().as_deref(), Some("main.hosts"));
    }

    #[test]
    fn values_of_any_kind_are_passed_through() {
        let document = Document::parse("a = 1979-05-27\nb = [1, { c = 2.5 }]\nd = true\ne = \"x\"", "f").unwrap();
        assert_eq!(&read::<Table>(document.table()).unwrap(), document.table());
    }
}
