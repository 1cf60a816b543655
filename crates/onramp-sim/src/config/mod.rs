//! Building blocks of every section of a scenario: quantities, enums with a `kind`, rules and
//! mistakes.

pub(crate) mod tagged;
pub mod units;

pub use onramp_config::Mistake;
pub(crate) use tagged::tagged;

/// Reports one rule: whether it holds, the key, what is wrong and what would be right.
pub type Rule<'a> = &'a mut dyn FnMut(bool, &str, String);
