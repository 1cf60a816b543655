//! From text to a checked, resolved scenario; every mistake becomes one line.

use super::{Runner, Scenario, validate};
use onramp_config::{ConfigError, Document, Mistake, Outline, Reading};
use onramp_topology::Topology;
use onramp_workload::{Place, fio};
use std::path::Path;

/// `key=value` given beside the file; wins over the file.
pub type Override = (String, String);

/// One mistake in a scenario.
pub type ScenarioError = ConfigError;

/// A checked, resolved scenario.
#[derive(Debug)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Scenario,
    /// Its network.
    pub topology: Topology,
    /// Values that are possible, but hardly meant: a line each.
    pub advice: Vec<ScenarioError>,
}

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
        let loaded = Self::load_for(Runner::default(), text, file, base, overrides)?;
        Ok((loaded.scenario, loaded.topology))
    }

    /// As [`Scenario::load`]; refuses also what `runner` cannot run, and tells what is possible but hardly meant.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_for(
        runner: impl Into<Runner>,
        text: &str,
        file: &str,
        base: &Path,
        overrides: &[Override],
    ) -> Result<Loaded, Vec<ScenarioError>> {
        let runner = runner.into();
        // Messages name list elements as `traffic[0].load`: that is taken, too.
        let overrides: Vec<Override> = overrides.iter().map(|(key, value)| (dotted(key), value.clone())).collect();
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
        for (key, value) in &overrides {
            set(&mut table, key, value).map_err(|message| vec![set_error(key, message)])?;
        }
        let of_jobs = play_jobs(&mut table, base);
        let mut reading: Reading<Scenario> = onramp_config::read_all(table, OUTLINE);
        reading.mistakes.extend(of_jobs);
        let whole = ["network", "transport", "duration"].iter().all(|section| reading.has_all_of(section));
        let Some(mut scenario) = reading.value.take().filter(|_| whole) else { return Err(all(reading.mistakes)) };
        let topology = match onramp_topology::build(&scenario.network, base) {
            Ok(topology) => topology,
            Err(mistake) => {
                reading.mistakes.push(mistake);
                reading.add(validate::check(&scenario));
                return Err(all(reading.mistakes));
            }
        };
        reading.add(validate::check(&scenario));
        reading.add(runner.check(&scenario, &topology));
        let placed = validate::check_placed(&scenario, &topology, base);
        reading.add(placed.wrong);
        let mut mistakes = reading.mistakes;
        if mistakes.is_empty() {
            scenario.resolve(Place { topology: &topology, base }, placed.last_start, placed.about);
            if !scenario.is_tcp() {
                mistakes = scenario.switch.check_resolved(&topology);
            }
        }
        if !mistakes.is_empty() {
            return Err(all(mistakes));
        }
        let advice = all(scenario.advice(&topology).into_iter().chain(placed.left_out).collect());
        Ok(Loaded { scenario, topology, advice })
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

/// Keys that a scenario must have, and stand-ins for sections that cannot be read.
const OUTLINE: Outline = Outline {
    example,
    required: &["duration", "network", "transport", "traffic"],
    lists: &[("traffic", &[("kind", "trace"), ("file", "")])],
};

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
pub(super) fn dotted(key: &str) -> String {
    key.replace('[', ".").replace(']', "")
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
