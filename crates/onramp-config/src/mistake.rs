//! Mistakes, and how they are told: one line each.

use std::borrow::Cow;
use std::fmt;

/// Longest value that is shown in full, in characters.
const SHOWN: usize = 60;

/// A mistake about one key, before it is known where in the file it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Dotted key with elements of lists in brackets, or empty: `traffic[0].load`.
    pub key: String,
    /// Sentence about the key: what is wrong and what would be right.
    pub message: String,
}

impl Mistake {
    /// A mistake about `key`.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

/// A mistake with its place: `file:line: key: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file as the user named it.
    pub file: String,
    /// Line in the file, if the mistake stands there.
    pub line: Option<usize>,
    /// Dotted key, or empty.
    pub key: String,
    /// Sentence about the key: what is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
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

impl std::error::Error for ConfigError {}

/// Shows what would end a line or move the cursor as an escape.
fn one_line(text: &str) -> Cow<'_, str> {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if !text.contains(breaks) {
        return text.into();
    }
    text.chars().map(|c| if breaks(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Beginning of a long value.
pub(crate) fn cut(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line() {
        let error = ConfigError { file: "f\n".into(), line: Some(3), key: "a\u{1f}b".into(), message: "is\r1".into() };
        assert_eq!(error.to_string(), "f\\n:3: a\\u{1f}b: is\\r1");
        assert_eq!(ConfigError { line: None, key: String::new(), ..error }.to_string(), "f\\n: is\\r1");
    }
}
