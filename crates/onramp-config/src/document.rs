//! A file's text, parsed, with the place of every key.

use crate::mistake::{ConfigError, Mistake};
use toml::de::{DeArray, DeInteger, DeString, DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// A parsed TOML file.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t str,
    file: &'t str,
    spanned: Spanned<DeTable<'t>>,
    table: Table,
}

impl<'t> Document<'t> {
    /// Parses `text`; messages call it `file`.
    ///
    /// # Errors
    /// The first mistake that keeps it from being TOML with numbers of 64 bits.
    pub fn parse(text: &'t str, file: &'t str) -> Result<Self, ConfigError> {
        let error = |at: Option<usize>, message: String| ConfigError {
            file: file.into(),
            line: at.map(|at| line_of(text, at)),
            key: String::new(),
            message,
        };
        let spanned = DeTable::parse(text).map_err(|e| {
            let twice = e.span().filter(|_| e.message() == "duplicate key").and_then(|span| text.get(span));
            let named = twice.map(|key| format!("{key}: is there twice"));
            error(e.span().map(|s| s.start), named.unwrap_or_else(|| e.message().replace('\n', ", ")))
        })?;
        let table = table(spanned.get_ref()).map_err(|(at, message)| error(Some(at), message))?;
        Ok(Self { text, file, spanned, table })
    }

    /// The keys and values.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The mistake with the line of the longest part of its key that is in the file.
    #[must_use]
    pub fn located(&self, Mistake { key, message }: Mistake) -> ConfigError {
        ConfigError { file: self.file.into(), line: self.line(&key), key, message }
    }

    /// Line of the longest part of `key` that is in the file.
    #[must_use]
    pub fn line(&self, key: &str) -> Option<usize> {
        find(self.spanned.get_ref(), key).map(|at| line_of(self.text, at))
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// Finds the entry of a table that begins `key`, and what is left of the key.
pub fn entry<'k, 't, T>(entries: impl Iterator<Item = (&'t str, T)>, key: &'k str) -> Option<(&'t str, T, &'k str)> {
    let begins = |(name, entry): (&'t str, T)| {
        let rest = key.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| (name, entry, rest.strip_prefix('.').unwrap_or(rest)))
    };
    // Names may hold dots themselves.
    entries.filter_map(begins).max_by_key(|(name, ..)| name.len())
}

/// Splits the index off that `key` begins with: `[2].load`.
#[must_use]
pub fn first_index(key: &str) -> Option<(usize, &str)> {
    let (index, rest) = key.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest.strip_prefix('.').unwrap_or(rest)))
}

/// Position of the longest part of `key` that exists.
fn find(table: &DeTable<'_>, key: &str) -> Option<usize> {
    let (_, (name, mut value), mut rest) = entry(entries(table), key)?;
    let mut at = name.span().start;
    loop {
        match value.get_ref() {
            DeValue::Table(t) => match entry(entries(t), rest) {
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

/// Position and message of a number that is out of range.
type OutOfRange = (usize, String);

fn table(from: &DeTable<'_>) -> Result<Table, OutOfRange> {
    from.iter().map(|(name, of)| Ok((name.get_ref().to_string(), value(of)?))).collect()
}

fn value(from: &Spanned<DeValue<'_>>) -> Result<Value, OutOfRange> {
    let at = from.span().start;
    Ok(match from.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => Value::Integer(integer(number).ok_or_else(|| {
            (at, format!("a whole number is outside {} to {}: write a seed like that in quotes", i64::MIN, i64::MAX))
        })?),
        DeValue::Float(number) => {
            Value::Float(number.as_str().parse().map_err(|_| (at, format!("{} is not a number", number.as_str())))?)
        }
        DeValue::Boolean(yes) => Value::Boolean(*yes),
        DeValue::Datetime(date) => Value::Datetime(*date),
        DeValue::Array(all) => Value::Array(array(all)?),
        DeValue::Table(inner) => Value::Table(table(inner)?),
    })
}

fn array(from: &DeArray<'_>) -> Result<Vec<Value>, OutOfRange> {
    from.iter().map(value).collect()
}

fn integer(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_part_of_a_key_that_is_there_gives_the_line() {
        let text = "a = 1\n\n[b]\n\"c.d\" = 2\ne = [\n1,\n{ f = 3 },\n]\n";
        let document = Document::parse(text, "f").unwrap();
        let lines = ["a", "b", "b.c.d", "b.e", "b.e[1].f", "b.e[7]", "b.x.y", "x"].map(|key| document.line(key));
        assert_eq!(lines, [Some(1), Some(3), Some(4), Some(5), Some(7), Some(5), Some(3), None]);
    }

    #[test]
    fn numbers_are_those_of_toml() {
        let document =
            Document::parse("a = 0x1F\nb = -1_000\nc = 1e3\nd = -inf\ne = nan\nf = 1979-05-27", "f").unwrap();
        let expected: Table = toml::from_str("a = 31\nb = -1000\nc = 1000.0\nd = -inf\nf = 1979-05-27").unwrap();
        let mut table = document.table().clone();
        assert!(table.remove("e").unwrap().as_float().unwrap().is_nan());
        assert_eq!(table, expected);
        let error = Document::parse("a = 1\nb = 9223372036854775808", "f").unwrap_err();
        assert!(error.to_string().starts_with("f:2: a whole number is outside"), "{error}");
    }
}
