//! Reading on after a mistake, so that a file's mistakes are all told at once.

use crate::document::{entry, first_index};
use crate::mistake::Mistake;
use crate::read::{Error, Value, Wrong, read};
use serde::de::DeserializeOwned;
use toml::Table;

/// Most mistakes that are looked for in one file.
const MAX_MISTAKES: usize = 50;

/// Keys and values of a section: text, but for "true" and "false".
pub type Entries = &'static [(&'static str, &'static str)];

/// Facts about a kind of file that its types do not tell.
#[derive(Clone, Copy, Debug)]
pub struct Outline {
    /// A value of a key that must be there, by its name.
    pub example: fn(&str) -> Option<&'static str>,
    /// Keys that every file has.
    pub required: &'static [&'static str],
    /// Lists of sections by name, each with a section that stands in for one that cannot be read.
    pub lists: &'static [(&'static str, Entries)],
}

/// A file as far as it can be read.
#[derive(Debug)]
pub struct Reading<T> {
    /// The value, without the keys that were left out.
    pub value: Option<T>,
    /// Mistakes so far.
    pub mistakes: Vec<Mistake>,
    /// Keys that were left out, in order to read on.
    left_out: Vec<String>,
    outline: Outline,
}

/// Reads a `T` as [`read()`] does, and goes on after each mistake without the key or section that it is in.
pub fn read_all<T: DeserializeOwned>(table: Table, outline: Outline) -> Reading<T> {
    let mut reading = Reading { value: None, mistakes: Vec::new(), left_out: Vec::new(), outline };
    reading.fill(table);
    reading
}

impl<T> Reading<T> {
    /// Returns whether nothing of `section` was left out.
    pub fn has_all_of(&self, section: &str) -> bool {
        !self.left_out.iter().any(|key| lies_in(key, section))
    }

    /// Adds what rules find, but for sections of which a part was left out: their values are not the file's.
    pub fn add(&mut self, found: impl IntoIterator<Item = Mistake>) {
        let left_out: Vec<&str> = self.left_out.iter().map(|key| self.outline.section_of(key)).collect();
        let counts = |m: &Mistake| !left_out.iter().any(|section| lies_in(&m.key, section));
        self.mistakes.extend(found.into_iter().filter(counts));
    }
}

impl<T: DeserializeOwned> Reading<T> {
    fn fill(&mut self, mut table: Table) {
        let absent: Vec<&str> = self.outline.required.iter().copied().filter(|key| !table.contains_key(*key)).collect();
        while self.mistakes.len() < MAX_MISTAKES {
            let error = match read(&table) {
                Ok(value) => {
                    self.value = Some(value);
                    return;
                }
                Err(error) => error,
            };
            let mistake = self.outline.mistake(&error);
            let missing = matches!(error.wrong, Wrong::Missing { .. });
            let key = mistake.key.clone();
            if missing && absent.contains(&key.as_str()) {
                // Reading has come to its end; only one is named, but all are missed.
                let missed = absent.iter().filter(|key| !self.left_out.iter().any(|out| out == *key));
                self.mistakes.extend(missed.map(|key| self.outline.missing(key)));
                return;
            }
            self.left_out.extend(error.meant());
            // Where a key was probably meant, it is not missed as well.
            if !(missing && self.left_out.iter().any(|out| lies_in(out, &key))) {
                self.mistakes.push(mistake);
            }
            match self.outline.leave_out(&mut table, &key, missing) {
                Some(left_out) => self.left_out.push(left_out),
                None => return,
            }
        }
    }
}

impl Outline {
    fn mistake(&self, error: &Error) -> Mistake {
        let mut mistake = error.mistake(self.example);
        let is_list = self.lists.iter().any(|(name, _)| *name == mistake.key);
        if is_list && matches!(error.wrong, Wrong::Type { found: Value::Section, .. }) {
            mistake.message = format!("is a list of sections: write [[{}]], with two brackets", mistake.key);
        }
        mistake
    }

    fn missing(&self, key: &str) -> Mistake {
        let message = match (self.example)(key) {
            Some(example) => format!("is missing: write one, such as {key} = {example}"),
            None => format!("is missing: at least one [[{key}]] section is needed"),
        };
        Mistake::new(key, message)
    }

    /// Takes the key out of the table, or else its section; the key or section that was taken out.
    fn leave_out(&self, table: &mut Table, key: &str, missing: bool) -> Option<String> {
        let alone = !missing && key.contains('.') && !key.ends_with(".kind") && !key.ends_with(']');
        if alone && remove(table, key) {
            return Some(key.into());
        }
        let section = self.section_of(key);
        self.leave_section_out(table, section).then(|| section.into())
    }

    /// Takes a section out; one of a list of them leaves its place to one that can be read.
    fn leave_section_out(&self, table: &mut Table, section: &str) -> bool {
        let Some((name, index)) = self.listed(section) else { return table.remove(section).is_some() };
        let stand_in = self.lists.iter().find(|(list, _)| *list == name).map_or(&[][..], |(_, entries)| *entries);
        match table.get_mut(name).and_then(|list| list.get_mut(index)) {
            Some(element) => {
                let entries = stand_in.iter().map(|(key, value)| {
                    let value = value.parse().map_or_else(|_| toml::Value::from(*value), toml::Value::Boolean);
                    ((*key).to_string(), value)
                });
                *element = toml::Value::Table(entries.collect());
                true
            }
            None => table.remove(name).is_some(),
        }
    }

    /// Section that a key lies in: its first part, with its number where sections are listed.
    fn section_of<'k>(&self, key: &'k str) -> &'k str {
        let first = key.split('.').next().unwrap_or(key);
        if self.listed(first).is_some() { first } else { key.split(['.', '[']).next().unwrap_or(key) }
    }

    /// Name and index of an element of a list of sections: `traffic[1]`.
    fn listed<'k>(&self, section: &'k str) -> Option<(&'k str, usize)> {
        let (name, rest) = section.split_at(section.find('[')?);
        let (index, rest) = first_index(rest)?;
        (rest.is_empty() && self.lists.iter().any(|(list, _)| *list == name)).then_some((name, index))
    }
}

/// Returns whether `key` is `section` or lies in it.
fn lies_in(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Takes the value of `key` out, unless it is an element of a list.
fn remove(table: &mut Table, key: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        port: u16,
        #[serde(default)]
        peer: Vec<Peer>,
        limits: Option<Limits>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Peer {
        name: String,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Limits {
        most: u8,
        least: Option<u8>,
    }

    const OUTLINE: Outline = Outline {
        example: |key| (key == "port").then_some("7"),
        required: &["port"],
        lists: &[("peer", &[("name", "nobody")])],
    };

    fn reading(text: &str) -> Reading<File> {
        read_all(Document::parse(text, "f").unwrap().table().clone(), OUTLINE)
    }

    fn keys(reading: &Reading<File>) -> Vec<&str> {
        reading.mistakes.iter().map(|m| m.key.as_str()).collect()
    }

    #[test]
    fn all_mistakes_are_found_and_the_rest_is_read() {
        let text = "port = 7\ncolour = 1\n[limits]\nmost = 9\nleast = \"x\"\n[[peer]]\n[[peer]]\nname = \"b\"\n[[peer]]\nname = 3";
        let found = reading(text);
        let mut said = keys(&found);
        said.sort_unstable();
        assert_eq!(said, ["colour", "limits.least", "peer[0].name", "peer[2].name"]);
        let value = found.value.as_ref().unwrap();
        let limits = value.limits.as_ref().unwrap();
        assert_eq!((value.port, limits.most, limits.least), (7, 9, None));
        assert_eq!(value.peer[1].name, "b");
        assert!(!found.has_all_of("limits") && found.has_all_of("port"));
    }

    #[test]
    fn rules_count_where_nothing_was_left_out() {
        let mut found = reading("port = 7\n[limits]\nmost = 9\nleast = \"x\"\n[[peer]]\n[[peer]]\nname = \"b\"");
        found.add(["limits.most", "peer[0]", "peer[1].name", "port"].map(|key| Mistake::new(key, "is odd")));
        assert_eq!(keys(&found)[2..], ["peer[1].name", "port"]);
    }

    #[test]
    fn what_is_required_is_missed_once() {
        let found = reading("prt = 7");
        assert_eq!(keys(&found), ["prt"], "a key that was meant is not missed as well");
        assert_eq!(reading("").mistakes, [Mistake::new("port", "is missing: write one, such as port = 7")]);
        let brackets = reading("port = 7\n[peer]\nname = \"a\"").mistakes;
        assert_eq!(brackets, [Mistake::new("peer", "is a list of sections: write [[peer]], with two brackets")]);
    }
}
