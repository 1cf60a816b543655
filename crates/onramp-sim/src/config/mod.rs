//! What every section of a scenario is made of: quantities, enums with a `kind`,
//! rules and mistakes.

pub(crate) mod plain;
pub(crate) mod tagged;
pub mod units;

pub(crate) use tagged::tagged;

/// Reports one rule: whether it holds, the key, what is wrong and what would be right.
pub type Rule<'a> = &'a mut dyn FnMut(bool, &str, String);

/// What is wrong with one key of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Dotted key, or empty.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Mistake {
    /// About `key`.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}
