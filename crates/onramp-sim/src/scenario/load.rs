//! From text to a checked, resolved scenario; every mistake becomes one line.

use super::tagged::PATH_END;
use super::{Scenario, validate};
use crate::topology::{self, Topology};
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// `key=value` given beside the file; wins over the file.
pub type Override = (String, String);

/// What is wrong with a scenario: one mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file as the user named it.
    pub file: String,
    /// Line in the file, if the mistake stands there.
    pub line: Option<usize>,
    /// Dotted key, or empty.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message.replace('\n', " "))
    }
}

impl std::error::Error for ScenarioError {}

/// A mistake before it is known where in the file it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub key: String,
    pub message: String,
}

impl Mistake {
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

impl Scenario {
    /// Reads, overrides, checks and resolves a scenario. `file` is what messages
    /// call it; paths inside it are relative to `base`.
    ///
    /// # Errors
    /// Every mistake found, in the order of the file's sections; reading stops
    /// at the first that leaves the rest without meaning.
    pub fn load(
        text: &str,
        file: &str,
        base: &Path,
        overrides: &[Override],
    ) -> Result<(Scenario, Topology), Vec<ScenarioError>> {
        let error = |line, key: &str, message: String| ScenarioError {
            file: file.to_string(),
            line,
            key: key.to_string(),
            message,
        };
        let spanned = DeTable::parse(text)
            .map_err(|e| vec![error(e.span().map(|s| line_of(text, s.start)), "", e.message().to_string())])?;
        let locate = |m: Mistake| {
            let overridden = overrides.iter().any(|(key, _)| m.key == *key || m.key.starts_with(&format!("{key}.")));
            if overridden {
                ScenarioError { file: "--set".into(), line: None, key: m.key, message: m.message }
            } else {
                error(find(spanned.get_ref(), &m.key).map(|at| line_of(text, at)), &m.key, m.message)
            }
        };
        let one = |m: Mistake| vec![locate(m)];

        let mut table = toml::Table::deserialize(toml::de::Deserializer::from(spanned.clone()))
            .map_err(|e| vec![error(None, "", e.message().to_string())])?;
        for (key, value) in overrides {
            set(&mut table, key, value).map_err(|message| {
                vec![ScenarioError { file: "--set".into(), line: None, key: key.clone(), message }]
            })?;
        }
        let mut scenario: Scenario =
            serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|e| one(mistake(&e)))?;
        let topology = topology::build(&scenario.network, base).map_err(one)?;
        let mistakes = validate::check(&scenario, &topology, base);
        if !mistakes.is_empty() {
            return Err(mistakes.into_iter().map(locate).collect());
        }
        scenario.resolve(&topology);
        let mistakes = validate::check_resolved(&scenario);
        if !mistakes.is_empty() {
            return Err(mistakes.into_iter().map(locate).collect());
        }
        Ok((scenario, topology))
    }

    /// The scenario as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a scenario has only keys and values that TOML can hold")
    }
}

fn mistake(e: &serde_path_to_error::Error<toml::de::Error>) -> Mistake {
    let outer = e.path().to_string();
    let mut key = if outer == "." { String::new() } else { outer };
    let mut message = e.inner().message();
    while let Some((path, rest)) = message.split_once(PATH_END) {
        if path != "." {
            key = if key.is_empty() { path.to_string() } else { format!("{key}.{path}") };
        }
        message = rest;
    }
    // "unknown field `x`": the path ends at the table, the key is in the message.
    if let Some(field) = message.strip_prefix("unknown field `").and_then(|m| m.split('`').next())
        && !key.ends_with(field)
    {
        key = if key.is_empty() { field.to_string() } else { format!("{key}.{field}") };
    }
    Mistake::new(key, message.replace("field", "key"))
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// Where the longest existing part of `key` stands.
fn find(table: &DeTable<'_>, key: &str) -> Option<usize> {
    let mut parts = key.split(['.', '[']).map(|p| p.trim_end_matches(']')).peekable();
    let first = parts.next()?;
    let (name, mut value) = table.get_key_value(first)?;
    let mut at = name.span().start;
    for part in parts {
        match value.get_ref() {
            DeValue::Table(t) => match t.get_key_value(part) {
                Some((name, inner)) => {
                    at = name.span().start;
                    value = inner;
                }
                None => break,
            },
            DeValue::Array(a) => match part.parse::<usize>().ok().and_then(|i| a.get(i)) {
                Some(inner) => {
                    at = inner.span().start;
                    value = inner;
                }
                None => break,
            },
            _ => break,
        }
    }
    Some(at)
}

/// Sets a dotted key; array elements are named by their index.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<(), String> {
    // What is no TOML value is meant as a string: `--set onramp.threshold=16us`.
    let parsed = toml::from_str::<toml::Table>(&format!("v = {value}"))
        .ok()
        .filter(|t| t.len() == 1)
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_string()));
    let parts: Vec<&str> = key.split('.').collect();
    let (last, path) = parts.split_last().filter(|(l, _)| !l.is_empty()).ok_or("empty key")?;
    let mut here = table;
    let mut rest = path.iter().peekable();
    while let Some(part) = rest.next() {
        let entry = here.entry((*part).to_string()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        here = match entry {
            toml::Value::Table(t) => t,
            toml::Value::Array(a) => {
                let length = a.len();
                let index = rest.next().ok_or_else(|| format!("{part} is a list: name one of its elements, {part}.0"))?;
                let element = index.parse::<usize>().ok().and_then(|i| a.get_mut(i));
                match element {
                    Some(toml::Value::Table(t)) => t,
                    _ => return Err(format!("{part} has no element {index}: it has {length}, counted from 0")),
                }
            }
            _ => return Err(format!("{part} is a value, not a section")),
        };
    }
    here.insert((*last).to_string(), parsed);
    Ok(())
}
