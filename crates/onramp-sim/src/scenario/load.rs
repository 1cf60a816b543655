//! From text to a checked, resolved scenario; every mistake becomes one line.

use super::{Scenario, Substrate, validate};
use onramp_config::Mistake;
use onramp_config::{ConfigError, Document, Value, Wrong, entry, first_index};
use onramp_topology::Topology;
use onramp_workload::fio;
use std::path::Path;

/// `key=value` given beside the file; wins over the file.
pub type Override = (String, String);

/// One mistake in a scenario.
pub type ScenarioError = ConfigError;

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
        let set_error =
            |key: &str, message| ScenarioError { file: "--set".into(), line: None, key: key.into(), message };
        let document = Document::parse(text, file).map_err(|e| vec![e])?;
        let locate = |m: Mistake| {
            let key = dotted(&m.key);
            let under = |outer: &str, inner: &str| inner == outer || inner.starts_with(&format!("{outer}."));
            let set = |(o, _): &Override| under(o, &key) || document.line(&m.key).is_none() && under(&key, o);
            if overrides.iter().any(set) { set_error(&key, m.message) } else { document.located(m) }
        };
        let all = |mistakes: Vec<Mistake>| {
            let mut errors: Vec<_> = mistakes.into_iter().map(locate).collect();
            errors.sort_by_key(|e| e.line.unwrap_or(usize::MAX));
            errors.dedup();
            errors
        };

        let mut table = document.table().clone();
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
        let topology = match onramp_topology::build(&scenario.network, base) {
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

    /// Reads a resolved scenario, which [`Scenario::load`] has checked before.
    ///
    /// # Errors
    /// It is not one.
    pub fn from_resolved(text: &str) -> Result<Scenario, ScenarioError> {
        Self::with_input_files(text, &[])
    }

    /// Reads a resolved scenario whose input files are elsewhere now: by their dotted keys, the new paths.
    ///
    /// # Errors
    /// It is not one, or does not have a key.
    pub fn with_input_files(text: &str, paths: &[Override]) -> Result<Scenario, ScenarioError> {
        let document = Document::parse(text, "scenario")?;
        let mut table = document.table().clone();
        for (key, path) in paths {
            let path = toml::Value::from(path.as_str()).to_string();
            let wrong = |message| ScenarioError { file: "scenario".into(), line: None, key: key.clone(), message };
            set(&mut table, key, &path).map_err(wrong)?;
        }
        onramp_config::read(&table).map_err(|e| document.located(e.mistake(example)))
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
    while mistakes.len() < MAX_MISTAKES {
        let Found { mistake, meant, missing } = match onramp_config::read(&table) {
            Ok(scenario) => return (Some(scenario), mistakes, left_out),
            Err(e) => found(&e),
        };
        let key = mistake.key.clone();
        if missing && absent.iter().any(|(section, _)| *section == key) {
            // Reading has come to its end; only one is named, but all are missed.
            let missed = absent.iter().filter(|(s, absent)| *absent && !left_out.iter().any(|out| out == s));
            mistakes.extend(missed.map(|(s, _)| Mistake::new(*s, missing_section(s))));
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

/// A reader's error, as [`read`] goes on after it.
struct Found {
    mistake: Mistake,
    /// The key that an unknown one was probably meant to be.
    meant: Option<String>,
    /// The mistake is that there is no such key.
    missing: bool,
}

fn found(e: &onramp_config::Error) -> Found {
    let mut mistake = e.mistake(example);
    if mistake.key == "traffic" && matches!(e.wrong, Wrong::Type { found: Value::Section, .. }) {
        mistake.message = "is a list of sections: write [[traffic]], with two brackets".into();
    }
    Found { mistake, meant: e.meant(), missing: matches!(e.wrong, Wrong::Missing { .. }) }
}

fn missing_section(name: &str) -> String {
    match example(name) {
        Some(example) => format!("is missing: write one, such as {name} = {example}"),
        None => "is missing: at least one [[traffic]] section is needed".into(),
    }
}

/// A value of a key that must be there.
fn example(key: &str) -> Option<&'static str> {
    Some(match key {
        "duration" => "\"2ms\"",
        "network" => "{ kind = \"fat-tree\" }",
        "transport" => "{ kind = \"dcqcn\" }",
        "rate" => "\"100Gbps\"",
        "delay" => "\"1us\"",
        "bytes" | "kmin" | "kmax" => "\"400KB\"",
        "size" => "\"2KB\"",
        "load" => "0.6",
        "fan_out" => "40",
        "workload" => "\"WebSearch\"",
        "hosts" => "9, or for kind = \"links\" [\"h0\", \"h1\"]",
        "a" | "b" | "dst" => "\"h0\"",
        "src" | "switches" => "[\"a\", \"b\"]",
        "alpha" => "0.125",
        "pmax" => "0.2",
        "file" => "\"flows.csv\"",
        _ => return None,
    })
}

/// A key as `--set` has it: list elements after a dot.
fn dotted(key: &str) -> String {
    key.replace('[', ".").replace(']', "")
}

/// Takes the value of `key` out, unless it is an element of a list.
fn remove(table: &mut toml::Table, key: &str) -> bool {
    let Some((name, _, mut rest)) = entry(table.keys().map(|k| (k.as_str(), ())), key) else { return false };
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
