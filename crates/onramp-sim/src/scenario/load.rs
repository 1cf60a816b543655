//! From text to a checked, resolved scenario; every mistake becomes one line.

use super::{Scenario, Substrate, validate};
use crate::config::Mistake;
use crate::config::plain::{Plain, plain};
use crate::config::tagged::{PATH_END, taken_apart};
use crate::topology::{self, Topology};
use crate::workload::fio;
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

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
        write!(f, "{}", one_line(&self.file))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", one_line(&self.key))?;
        }
        write!(f, ": {}", one_line(&self.message))
    }
}

/// Shows what would end a line or move the cursor as an escape.
fn one_line(text: &str) -> Cow<'_, str> {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if !text.contains(breaks) {
        return text.into();
    }
    text.chars().map(|c| if breaks(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Reads, overrides, checks and resolves a scenario. `file` is what messages
    /// call it; paths inside it are relative to `base`.
    ///
    /// # Errors
    /// Every mistake found, in the order of the file. What only makes sense once
    /// another mistake is put right is not reported.
    pub fn load(
        text: &str,
        file: &str,
        base: &Path,
        overrides: &[Override],
    ) -> Result<(Scenario, Topology), Vec<ScenarioError>> {
        Self::load_for(None, text, file, base, overrides)
    }

    /// As [`Scenario::load`]; refuses also what `substrate` cannot run.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_for(
        substrate: Option<Substrate>,
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
        let set_error =
            |key: &str, message| ScenarioError { file: "--set".into(), line: None, key: key.into(), message };
        let spanned = DeTable::parse(text)
            .map_err(|e| vec![error(e.span().map(|s| line_of(text, s.start)), "", e.message().replace('\n', ", "))])?;
        let locate = |m: Mistake| {
            let place = find(spanned.get_ref(), &m.key);
            let key = dotted(&m.key);
            let under = |outer: &str, inner: &str| inner == outer || inner.starts_with(&format!("{outer}."));
            let set = |(o, _): &Override| under(o, &key) || place.is_none() && under(&key, o);
            if overrides.iter().any(set) {
                set_error(&key, m.message)
            } else {
                error(place.map(|at| line_of(text, at)), &m.key, m.message)
            }
        };
        let all = |mistakes: Vec<Mistake>| {
            let mut errors: Vec<_> = mistakes.into_iter().map(locate).collect();
            errors.sort_by_key(|e| e.line.unwrap_or(usize::MAX));
            errors.dedup();
            errors
        };

        let mut table = toml::Table::deserialize(toml::de::Deserializer::from(spanned.clone()))
            .map_err(|e| vec![error(e.span().map(|s| line_of(text, s.start)), "", plain(e.message()).message)])?;
        for (key, value) in overrides {
            set(&mut table, key, value).map_err(|message| vec![set_error(key, message)])?;
        }
        let of_jobs = play_jobs(&mut table, base);
        let (scenario, mut mistakes, left_out) = read(table);
        mistakes.extend(of_jobs);
        let whole = |section: &str| !left_out.iter().any(|key| in_section(key, section));
        let Some(mut scenario) = scenario.filter(|_| whole("network") && whole("transport") && whole("duration"))
        else {
            return Err(all(mistakes));
        };
        let more = |found: Vec<Mistake>, mistakes: &mut Vec<Mistake>| {
            mistakes
                .extend(found.into_iter().filter(|m| !left_out.iter().any(|key| in_section(&m.key, section_of(key)))));
        };
        let topology = match topology::build(&scenario.network, base) {
            Ok(topology) => topology,
            Err(mistake) => {
                mistakes.push(mistake);
                more(validate::check(&scenario), &mut mistakes);
                return Err(all(mistakes));
            }
        };
        more(validate::check(&scenario), &mut mistakes);
        more(substrate.map_or(vec![], |on| on.check(&scenario)), &mut mistakes);
        more(substrate.map_or(vec![], |on| on.check_network(&topology)), &mut mistakes);
        let (found, last_start) = validate::check_placed(&scenario, &topology, base);
        more(found, &mut mistakes);
        if mistakes.is_empty() {
            scenario.resolve(&topology, last_start);
            if !scenario.is_tcp() {
                mistakes = scenario.switch.check_resolved(&topology);
            }
        }
        if mistakes.is_empty() { Ok((scenario, topology)) } else { Err(all(mistakes)) }
    }

    /// The scenario as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a scenario has only keys and values that TOML can hold")
    }
}

/// Puts what fio's job files ask for in place of their names; what a section says itself is left.
fn play_jobs(table: &mut toml::Table, base: &Path) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let sections = table.get_mut("traffic").and_then(toml::Value::as_array_mut);
    for (i, section) in sections.into_iter().flatten().enumerate() {
        let Some(section) =
            section.as_table_mut().filter(|s| s.get("kind").and_then(|k| k.as_str()) == Some("storage"))
        else {
            continue;
        };
        let read = match section.get("job") {
            None => continue,
            Some(toml::Value::String(file)) => fio::read(file, base),
            Some(_) => Err("must be the name of a file, such as \"reads.fio\"".into()),
        };
        section.remove("job");
        let keys = read.unwrap_or_else(|message| {
            mistakes.push(Mistake::new(format!("traffic[{i}].job"), message));
            [("block".to_string(), "4KiB".into())].into_iter().collect()
        });
        for (key, value) in keys {
            section.entry(key).or_insert(value);
        }
    }
    mistakes
}

/// Most mistakes that are looked for in one file.
const MAX_MISTAKES: usize = 50;

/// The scenario, if it can be read; the mistakes; and the keys that were left
/// out, in order to read on after each mistake.
fn read(mut table: toml::Table) -> (Option<Scenario>, Vec<Mistake>, Vec<String>) {
    let mut mistakes = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    let absent = ["duration", "network", "transport", "traffic"].map(|s| (s, !table.contains_key(s)));
    for section in ["switch", "host", "onramp", "clock", "linux", "measure"] {
        // Else a list would be read as the values of the keys.
        if table.get(section).is_some_and(toml::Value::is_array) {
            mistakes.push(Mistake::new(section, format!("is no list: write [{section}], with one bracket")));
            left_out.push(section.into());
            table.remove(section);
        }
    }
    while mistakes.len() < MAX_MISTAKES {
        let Found { mistake, meant, missing } =
            match serde_path_to_error::deserialize(toml::Value::Table(table.clone())) {
                Ok(scenario) => return (Some(scenario), mistakes, left_out),
                Err(e) => found(&e),
            };
        let key = mistake.key.clone();
        if missing && absent.iter().any(|(section, _)| *section == key) {
            // Reading has come to its end; only one is named, but all are missed.
            let missed = absent.iter().filter(|(s, absent)| *absent && !left_out.iter().any(|out| out == s));
            mistakes.extend(missed.map(|(s, _)| Mistake::new(*s, plain(&format!("missing field `{s}`")).message)));
            break;
        }
        left_out.extend(meant);
        let known = missing && left_out.iter().any(|out| in_section(out, &key));
        if !known {
            mistakes.push(mistake);
        }
        let place = if missing { "" } else { key.as_str() };
        let removed =
            place.contains('.') && !place.ends_with(".kind") && !place.ends_with(']') && remove(&mut table, place);
        let section = section_of(&key).to_string();
        left_out.push(if removed { key } else { section.clone() });
        if !removed && !leave_out(&mut table, &section) {
            break;
        }
    }
    (None, mistakes, left_out)
}

/// Whether `key` is `section` or lies in it.
fn in_section(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The section a key lies in: its first part, with the number of a [[traffic]] section.
fn section_of(key: &str) -> &str {
    if key.starts_with("traffic[") {
        key.split_once('.').map_or(key, |(s, _)| s)
    } else {
        key.split(['.', '[']).next().unwrap_or(key)
    }
}

/// Takes a section out; one of several [[traffic]] sections leaves its place to
/// one that can be read.
fn leave_out(table: &mut toml::Table, section: &str) -> bool {
    let number = section.strip_prefix("traffic[").and_then(|n| n.strip_suffix(']')?.parse::<usize>().ok());
    match (number, table.get_mut("traffic")) {
        (Some(i), Some(toml::Value::Array(all))) if i < all.len() => {
            let stand_in = [("kind", "trace"), ("file", "")].map(|(k, v)| (k.to_string(), toml::Value::from(v)));
            all[i] = toml::Value::Table(stand_in.into_iter().collect());
            true
        }
        _ => table.remove(section).is_some(),
    }
}

/// What is behind a reader's error.
struct Found {
    mistake: Mistake,
    /// The key that an unknown one was probably meant to be.
    meant: Option<String>,
    /// The mistake is that there is no such key.
    missing: bool,
}

fn found(e: &serde_path_to_error::Error<toml::de::Error>) -> Found {
    let outer = e.path().to_string();
    let mut key = if outer == "." { String::new() } else { outer };
    let under = |key: &str, part: &str| if key.is_empty() { part.to_string() } else { format!("{key}.{part}") };
    let mut text = e.inner().message();
    while let Some((path, rest)) = taken_apart(text) {
        if path != "." {
            key = under(&key, path);
        }
        text = rest;
    }
    let Plain { key: named, mut meant, missing, mut message } = plain(text);
    if let Some(named) = named.map(|n| n.replace(PATH_END, "?")) {
        // The path of an unknown key ends at its table or at the key itself.
        let table = if missing { None } else { key.strip_suffix(&named) };
        let table = table.and_then(|t| if t.is_empty() { Some(t) } else { t.strip_suffix('.') });
        let table = table.unwrap_or(&key).to_string();
        meant = meant.map(|meant| under(&table, &meant));
        key = under(&table, &named);
    }
    if key == "traffic" && text.starts_with("invalid type: map") {
        message = "is a list of sections: write [[traffic]], with two brackets".into();
    }
    // A section without its kind cannot be read any further either.
    let missing = missing || key.ends_with("kind") && message.starts_with("is missing");
    Found { mistake: Mistake::new(key, message), meant, missing }
}

/// A key as `--set` has it: list elements after a dot.
fn dotted(key: &str) -> String {
    key.replace('[', ".").replace(']', "")
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// The entry of a table that begins `key`, and what is left of the key.
fn first_part<'k, 't, T>(entries: impl Iterator<Item = (&'t str, T)>, key: &'k str) -> Option<(&'t str, T, &'k str)> {
    let begins = |(name, entry): (&'t str, T)| {
        let rest = key.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| (name, entry, rest.strip_prefix('.').unwrap_or(rest)))
    };
    entries.filter_map(begins).max_by_key(|(name, ..)| name.len())
}

/// The index a key begins with, and what is left of it: "[2].load".
fn first_index(key: &str) -> Option<(usize, &str)> {
    let (index, rest) = key.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest.strip_prefix('.').unwrap_or(rest)))
}

/// Where the longest existing part of `key` stands.
fn find(table: &DeTable<'_>, key: &str) -> Option<usize> {
    let (_, (name, mut value), mut rest) = first_part(entries(table), key)?;
    let mut at = name.span().start;
    loop {
        match value.get_ref() {
            DeValue::Table(t) => match first_part(entries(t), rest) {
                Some((_, (name, inner), left)) => (at, value, rest) = (name.span().start, inner, left),
                None => return Some(at),
            },
            DeValue::Array(a) => match first_index(rest).and_then(|(i, left)| Some((a.get(i)?, left))) {
                Some((inner, left)) => (at, value, rest) = (inner.span().start, inner, left),
                None => return Some(at),
            },
            _ => return Some(at),
        }
    }
}

type Entry<'t, 'i> = (&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>);

fn entries<'t, 'i>(table: &'t DeTable<'i>) -> impl Iterator<Item = (&'t str, Entry<'t, 'i>)> {
    table.iter().map(|(name, value)| (name.get_ref().as_ref(), (name, value)))
}

/// Takes the value of `key` out, unless it is an element of a list.
fn remove(table: &mut toml::Table, key: &str) -> bool {
    let Some((name, _, mut rest)) = first_part(table.keys().map(|k| (k.as_str(), ())), key) else { return false };
    let name = name.to_string();
    if rest.is_empty() {
        return table.remove(&name).is_some();
    }
    let mut value = table.get_mut(&name);
    while let Some(toml::Value::Array(all)) = value {
        let Some((i, left)) = first_index(rest) else { return false };
        (value, rest) = (all.get_mut(i), left);
    }
    match value {
        Some(toml::Value::Table(inner)) => remove(inner, rest),
        _ => false,
    }
}

/// Sets a dotted key; list elements are named by their index.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<(), String> {
    // What is no TOML value is meant as a string: `--set onramp.threshold=16us`.
    let parsed = toml::from_str::<toml::Table>(&format!("v = {value}"))
        .ok()
        .filter(|t| t.len() == 1)
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_string()));
    if key.split('.').any(str::is_empty) {
        return Err("is not a key, such as onramp.threshold or traffic.0.load".into());
    }
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    set_in(table, first, rest, parsed)
}

fn set_in(table: &mut toml::Table, first: &str, rest: Option<&str>, new: toml::Value) -> Result<(), String> {
    let Some(mut rest) = rest else {
        table.insert(first.to_string(), new);
        return Ok(());
    };
    let mut name = first;
    let mut here = table.entry(first.to_string()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    loop {
        let (part, after) = rest.split_once('.').map_or((rest, None), |(part, after)| (part, Some(after)));
        match here {
            toml::Value::Table(t) => return set_in(t, part, after, new),
            toml::Value::Array(a) => {
                let length = a.len();
                here = part.parse::<usize>().ok().and_then(|i| a.get_mut(i)).ok_or_else(|| match length {
                    0 => format!("{name} is an empty list"),
                    1 => format!("{name} has no element {part}: it has one, {name}.0"),
                    _ => format!("{name} has no element {part}: it has {length}, {name}.0 to {name}.{}", length - 1),
                })?;
                name = part;
                match after {
                    Some(after) => rest = after,
                    None => {
                        *here = new;
                        return Ok(());
                    }
                }
            }
            _ => return Err(format!("{name} is a value, not a section")),
        }
    }
}
