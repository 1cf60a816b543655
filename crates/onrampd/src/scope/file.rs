//! Rules as an operator writes them, by themselves or among other keys.

use super::{Rule, mistakes};
use onramp_config::{ConfigError, Document, Mistake, Outline, Reading};
use serde::Deserialize;
use std::fmt::Write as _;

#[derive(Debug, Deserialize)]
struct File {
    scope: Vec<Rule>,
}

const OUTLINE: Outline = Outline { example, required: &["scope"], lists: &[("scope", STAND_IN)] };

/// Stand-ins for a rule that cannot be read.
pub(crate) const STAND_IN: &[(&str, &str)] = &[("hold", "false")];

fn example(key: &str) -> Option<&'static str> {
    (key == "hold").then_some("false")
}

/// Reads and checks the rules of a file, which may be a whole configuration. `file` is what messages call it.
///
/// # Errors
/// Every mistake found in them, in the order of the file.
pub fn load(text: &str, file: &str) -> Result<Vec<Rule>, Vec<ConfigError>> {
    let document = Document::parse(text, file).map_err(|e| vec![e])?;
    let mut reading: Reading<File> = onramp_config::read_all(document.table().clone(), OUTLINE);
    let rules = reading.value.take().map(|file| file.scope);
    if let Some(rules) = &rules {
        let empty = rules.is_empty().then(|| Mistake::new("scope", "is empty: write at least one [[scope]]"));
        reading.add(mistakes(rules).into_iter().chain(empty));
    }
    let mut errors: Vec<ConfigError> = reading.mistakes.into_iter().map(|m| document.located(m)).collect();
    errors.sort_by_key(|e| e.line.unwrap_or(usize::MAX));
    rules.filter(|_| errors.is_empty()).ok_or(errors)
}

/// The rules as a file.
#[must_use]
pub fn render(rules: &[Rule]) -> String {
    let mut out = String::new();
    for (i, rule) in rules.iter().enumerate() {
        out.push_str(if i == 0 { "[[scope]]\n" } else { "\n[[scope]]\n" });
        let name = rule.name.as_ref().map(|name| ("name", format!("\"{name}\"")));
        for (key, value) in name.into_iter().chain(rule.keys()) {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
    out
}
