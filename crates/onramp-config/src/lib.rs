//! Configuration in TOML, as scenarios and the agent have it.
//!
//! A [`Document`] is a file's text, parsed. [`read()`] turns its table into a type that implements
//! `Deserialize`, and says by type what it stumbled over: the key, what stood there, what belongs
//! there; [`read_all`] goes on after each mistake. [`Document::located`] adds file and line. Quantities carry their unit
//! ([`quantity!`]; those of scenarios are [`units`]); an enum has a `kind` ([`tagged!`]); a name that is nearly
//! a known one is told ([`nearest`]).
//!
//! ```
//! use onramp_config::{Document, SIZES, quantity, read};
//!
//! quantity!(
//!     /// A number of bytes.
//!     Size(u64), "size", "32MiB", SIZES
//! );
//!
//! #[derive(Debug, serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Settings {
//!     buffer: Size,
//! }
//!
//! let document = Document::parse("\nbufer = \"1MiB\"", "s.toml").unwrap();
//! let wrong = read::<Settings>(document.table()).unwrap_err();
//! let error = document.located(wrong.mistake(|_| None));
//! assert_eq!(error.to_string(), "s.toml:2: bufer: is not a known key: did you mean buffer?");
//! ```

mod all;
mod document;
mod mistake;
mod names;
pub mod own;
mod quantity;
mod read;
mod tagged;
mod threshold;
pub mod units;

pub use all::{Outline, Reading, read_all};
pub use document::{Document, entry, first_index};
pub use mistake::{ConfigError, Mistake};
pub use names::{nearest, not_one_of};
#[doc(hidden)]
pub use quantity::Quoted;
pub use quantity::{Kind, Number, RATES, SIZES, Unit};
pub use read::{Both, Error, Keys, Parsed, Value, Written, Wrong, read};
pub use threshold::Threshold;

/// Reports one rule: whether it holds, the key, what is wrong and what would be right.
pub type Rule<'a> = &'a mut dyn FnMut(bool, &str, String);

/// First bytes of a file that gzip has compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reason to refuse a file that begins with these bytes: it is compressed.
pub fn compressed(first: &[u8]) -> Option<&'static str> {
    first.starts_with(&GZIP).then_some("it is compressed, gunzip it first")
}

#[doc(hidden)]
pub use serde;
