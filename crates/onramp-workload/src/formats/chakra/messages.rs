//! Messages of the files, as protobuf has them. Of a node, only what is read.

use crate::lines::quoted;

/// An attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(oneof = "Value", tags = "3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    pub value: Option<Value>,
}

/// Value of an attribute: a number, a name, or a list of truths. Those of other types are `None` in [`Attribute`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    Bools(Bools),
    #[prost(string, tag = "29")]
    Text(String),
}

/// A list of truths.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Bools {
    #[prost(bool, repeated, tag = "1")]
    pub values: Vec<bool>,
}

impl Value {
    /// A whole number of at least 0, of any type.
    fn number(&self) -> Option<u64> {
        match *self {
            Self::Double(number) => whole(number),
            Self::Float(number) => whole(number.into()),
            Self::Int32(number) | Self::Sint32(number) | Self::Sfixed32(number) => number.try_into().ok(),
            Self::Int64(number) | Self::Sint64(number) | Self::Sfixed64(number) => number.try_into().ok(),
            Self::Uint32(number) | Self::Fixed32(number) => Some(number.into()),
            Self::Uint64(number) | Self::Fixed64(number) => Some(number),
            Self::Bool(number) => Some(number.into()),
            Self::Text(ref text) => text.parse().ok(),
            Self::Bools(_) => None,
        }
    }
}

fn whole(number: f64) -> Option<u64> {
    // From 2^64 on there is no such u64.
    ((0.0..18_446_744_073_709_551_616.0).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// The first message of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Metadata {
    #[prost(string, tag = "1")]
    pub version: String,
}

/// A node of the graph.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Node {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int32, tag = "3")]
    pub kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub control: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub data: Vec<u64>,
    #[prost(uint64, tag = "7")]
    pub duration: u64,
    #[prost(message, repeated, tag = "10")]
    pub attributes: Vec<Attribute>,
}

impl Node {
    /// Its number and name, for messages.
    pub fn called(&self) -> String {
        called(self.id, &self.name)
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The node has an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// A number that the node need not have.
    ///
    /// # Errors
    /// It is no whole number of at least 0.
    pub fn optional(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        let number = attribute.value.as_ref().and_then(Value::number);
        number.map(Some).ok_or_else(|| format!("{}: {name} is no whole number of at least 0", self.called()))
    }

    /// A number that the node must have.
    ///
    /// # Errors
    /// It has none, or as of [`Node::optional`].
    pub fn number(&self, name: &str) -> Result<u64, String> {
        self.optional(name)?.ok_or_else(|| format!("{} has no number {name}", self.called()))
    }

    /// The node has a number of this name, and it is not 0.
    pub fn is(&self, name: &str) -> bool {
        self.attribute(name).and_then(|attribute| attribute.value.as_ref()?.number()).is_some_and(|number| number != 0)
    }

    /// The process group: "" for that of all ranks.
    ///
    /// # Errors
    /// It is neither a name nor a number.
    pub fn group(&self) -> Result<String, String> {
        match self.attribute("pg_name").map(|attribute| attribute.value.as_ref()) {
            None => Ok(String::new()),
            Some(Some(Value::Text(group))) => Ok(group.clone()),
            Some(value) => match value.and_then(Value::number) {
                Some(number) => Ok(number.to_string()),
                None => Err(format!("{}: pg_name is no name", self.called())),
            },
        }
    }

    /// The node is confined to some of the network's dimensions.
    pub fn is_confined(&self) -> bool {
        let Some(attribute) = self.attribute("involved_dim") else { return false };
        match &attribute.value {
            Some(Value::Bools(dimensions)) => dimensions.values.is_empty() || dimensions.values.contains(&false),
            // ASTRA-sim stops at another type.
            _ => true,
        }
    }
}

/// A node's number and name, for messages.
pub fn called(id: u64, name: &str) -> String {
    format!("node {id} ({})", quoted(name))
}
