//! Parts of a program of one's own, given by name: `kind = "custom"`, `name = "..."`, and keys of their own.

use std::collections::BTreeMap;
use std::fmt;

/// Reads a part's keys, once, or says what is wrong with them.
pub type Factory<S> = fn(&toml::Table) -> Result<S, String>;

/// Parts of a program, by name.
pub type Factories<S> = BTreeMap<String, Factory<S>>;

/// Reason why a part of a program's own cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
    /// The program does not have it.
    #[error("{key} \"{kind}\": {}", missing(name, known, example))]
    Missing {
        /// Key of the scenario.
        key: &'static str,
        /// Its `kind`.
        kind: &'static str,
        /// Name of the part.
        name: String,
        /// Names of those that the program has.
        known: Vec<String>,
        /// A program that brings such parts.
        example: &'static str,
    },
    /// The library that has it is wrong, or refuses its keys.
    #[error("{key}.library \"{library}\": {message}")]
    Library {
        /// Key of the scenario.
        key: &'static str,
        /// The library's file.
        library: String,
        /// Sentence without its subject, the library.
        message: String,
    },
    /// It refuses its keys.
    #[error("{key} \"{name}\": {message}")]
    Parameters {
        /// Key of the scenario.
        key: &'static str,
        /// Name of the part.
        name: String,
        /// Sentence: what is wrong, and what would be right.
        message: String,
    },
}

/// Sentence about a part that is not among the `known` ones of a program.
pub fn missing(name: &str, known: &[String], example: &str) -> String {
    if known.is_empty() {
        format!("\"{name}\" runs only in a program that brings it, such as {example}")
    } else {
        format!("there is no \"{name}\", only {}", known.join(", "))
    }
}

/// Place in a scenario where a part of the program's own stands.
#[derive(Clone, Copy, Debug)]
pub struct Seam {
    /// Key of the scenario.
    pub key: &'static str,
    /// Its `kind`.
    pub kind: &'static str,
    /// A program that brings such parts.
    pub example: &'static str,
}

/// A part that a factory has made, once it was asked. Equal names and keys make equal parts: any two are equal here.
#[derive(Clone)]
pub struct Own<S>(Option<S>);

impl<S> Own<S> {
    /// The part.
    ///
    /// # Panics
    /// If [`Own::find`] was not called, or failed.
    pub fn get(&self) -> &S {
        self.0.as_ref().expect("the program was asked for its parts")
    }

    /// The part, if it was made.
    pub fn made(&self) -> Option<&S> {
        self.0.as_ref()
    }

    /// Takes a part that was made elsewhere.
    pub fn set(&mut self, part: S) {
        self.0 = Some(part);
    }

    /// Has the factory of that name make it.
    ///
    /// # Errors
    /// There is no such factory, or it refuses the keys.
    pub fn find(
        &mut self,
        seam: &Seam,
        name: &str,
        keys: &toml::Table,
        factories: &Factories<S>,
    ) -> Result<(), OwnError> {
        let Seam { key, kind, example } = *seam;
        let name = name.to_string();
        let Some(factory) = factories.get(&name) else {
            return Err(OwnError::Missing { key, kind, name, known: factories.keys().cloned().collect(), example });
        };
        self.0 = Some(factory(keys).map_err(|message| OwnError::Parameters { key, name, message })?);
        Ok(())
    }
}

impl<S> Default for Own<S> {
    fn default() -> Self {
        Self(None)
    }
}

impl<S> PartialEq for Own<S> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<S> fmt::Debug for Own<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "found" } else { "not found yet" })
    }
}
