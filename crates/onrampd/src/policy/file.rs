//! A policy as an operator writes it: TOML, with mistakes told by line and key.

use super::{Labels, MAX_KEEP, MAX_RULES, Policy, Rule, check};
use crate::config::Mode;
use crate::config::quantity::{Life, Share, Threshold, Time};
use onramp_config::{ConfigError, Document, Mistake, Outline, Reading};
use serde::Deserialize;
use std::fmt::Write as _;

/// Default `keep`.
pub const KEEP: Life = Life(3_600);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// How long hosts keep it that have lost every coordinator. Default 1h.
    keep: Option<Life>,
    rule: Vec<Section>,
}

/// `[[rule]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    labels: Labels,
    share: Option<Share>,
    mode: Mode,
    threshold: Option<Threshold>,
}

/// Stand-ins for rules that cannot be read.
const OUTLINE: Outline = Outline { example, required: &["rule"], lists: &[("rule", &[("mode", "observe")])] };

fn example(key: &str) -> Option<&'static str> {
    (key == "mode").then_some("\"observe\"")
}

/// Reads and checks a policy. `file` is what messages call it.
///
/// # Errors
/// Every mistake found, in the order of the file.
pub fn load(text: &str, file: &str) -> Result<Policy, Vec<ConfigError>> {
    let document = Document::parse(text, file).map_err(|e| vec![e])?;
    let mut reading: Reading<File> = onramp_config::read_all(document.table().clone(), OUTLINE);
    let policy = reading.value.take().map(|read| {
        let rule = |s: Section| Rule { labels: s.labels, share: s.share, mode: s.mode, threshold: s.threshold };
        let policy = Policy { keep: read.keep.unwrap_or(KEEP), rules: read.rule.into_iter().map(rule).collect() };
        reading.add(mistakes(&policy));
        policy
    });
    let mut errors: Vec<ConfigError> = reading.mistakes.into_iter().map(|m| numbered(document.located(m))).collect();
    errors.sort_by_key(|e| e.line.unwrap_or(usize::MAX));
    policy.filter(|_| errors.is_empty()).ok_or(errors)
}

/// Names a rule as all else does that tells of one: the first is rule 1.
fn numbered(e: ConfigError) -> ConfigError {
    let rule = e.key.strip_prefix("rule").and_then(onramp_config::first_index);
    let key = rule.map(|(i, rest)| format!("rule {}{}{rest}", i + 1, if rest.is_empty() { "" } else { ": " }));
    ConfigError { key: key.unwrap_or_else(|| e.key.clone()), ..e }
}

fn mistakes(policy: &Policy) -> Vec<Mistake> {
    let mut found = Vec::new();
    if !(1..=MAX_KEEP).contains(&policy.keep.0) {
        found.push(Mistake::new("keep", format!("is outside 1s to {}, such as \"{KEEP}\"", Life(MAX_KEEP))));
    }
    if policy.rules.is_empty() {
        found.push(Mistake::new("rule", "is empty: write at least one [[rule]]"));
    }
    if policy.rules.len() > MAX_RULES {
        found.push(Mistake::new("rule", format!("are more than {MAX_RULES}")));
    }
    for (i, rule) in policy.rules.iter().enumerate() {
        if let Err((key, message)) = check(&rule.labels) {
            let dot = if key.is_empty() { "" } else { "." };
            found.push(Mistake::new(format!("rule[{i}].labels{dot}{key}"), message));
        }
        if rule.share.is_some_and(|share| !(1..=99).contains(&share.0)) {
            found.push(Mistake::new(format!("rule[{i}].share"), "is outside 1% to 99%; leave it out for all hosts"));
        }
        if rule.threshold == Some(Threshold::Fixed(Time(0))) {
            found.push(Mistake::new(format!("rule[{i}].threshold"), "must be above 0, such as \"50us\""));
        }
        // An order that an operator does not mean is the likeliest mistake.
        if let Some(before) = policy.rules[..i].iter().position(|before| before.covers(rule)) {
            let scope = policy.rules[before].scope();
            let message =
                format!("is never reached, since rule {} takes {scope} first: put it before that one", before + 1);
            found.push(Mistake::new(format!("rule[{i}]"), message));
        }
    }
    found
}

/// The policy as a file; none: a comment that says so.
#[must_use]
pub fn render(policy: Option<&Policy>) -> String {
    let Some(policy) = policy else { return "# no policy: each host's own configuration counts\n".into() };
    let mut out = format!("keep = \"{}\"\n", policy.keep);
    for rule in &policy.rules {
        out.push_str("\n[[rule]]\n");
        if !rule.labels.is_empty() {
            // Names may hold what TOML takes in quotes only; neither they nor values hold what wants an escape.
            let is_bare = |key: &str| key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            let quoted = |key: &str| if is_bare(key) { key.to_owned() } else { format!("\"{key}\"") };
            let labels: Vec<String> =
                rule.labels.iter().map(|(key, value)| format!("{} = \"{value}\"", quoted(key))).collect();
            let _ = writeln!(out, "labels = {{ {} }}", labels.join(", "));
        }
        if let Some(share) = rule.share {
            let _ = writeln!(out, "share = \"{share}\"");
        }
        let _ = writeln!(out, "mode = \"{}\"", rule.mode);
        if let Some(threshold) = rule.threshold {
            let _ = writeln!(out, "threshold = \"{threshold}\"");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "keep = \"10min\"\n\n[[rule]]\nlabels = { \"zone.a\" = \"1\", rack = \"b7\" }\nshare = \"25%\"\nmode = \"enforce\"\nthreshold = \"80us\"\n\n\
                        [[rule]]\nmode = \"observe\"\n";

    fn wrong(text: &str) -> Vec<String> {
        load(text, "p.toml").unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_is_read_and_written_again() {
        let policy = load(TEXT, "p.toml").unwrap();
        assert_eq!((policy.keep, policy.rules.len()), (Life(600), 2));
        assert_eq!(policy.rules[0].threshold, Some(Threshold::Fixed(Time(80_000))));
        assert!(policy.is_sound());
        let again = render(Some(&policy));
        assert_eq!(load(&again, "p.toml").unwrap(), policy, "{again}");
        assert!(again.contains("labels = { rack = \"b7\", \"zone.a\" = \"1\" }\n"), "{again}");
        let auto = load("[[rule]]\nmode = \"enforce\"\nthreshold = \"auto\"", "p.toml").unwrap();
        assert_eq!((auto.keep, auto.rules[0].threshold), (KEEP, Some(Threshold::Auto)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_policy_or_refused(text in ".{0,200}") {
            let _ = load(&text, "p.toml");
        }

        #[test]
        fn a_changed_file_is_refused_or_says_the_same_when_it_is_written_again(at in 0usize..200, byte in 32u8..127) {
            let mut text = TEXT.as_bytes().to_vec();
            let length = text.len();
            text[at % length] = byte;
            if let Ok(policy) = load(std::str::from_utf8(&text).unwrap(), "p.toml") {
                prop_assert!(policy.is_sound());
                prop_assert_eq!(load(&render(Some(&policy)), "p.toml"), Ok(policy));
            }
        }
    }

    #[test]
    fn each_mistake_is_a_line_with_its_place_and_what_is_right() {
        for (text, said) in [
            ("", "p.toml: rule: is missing: at least one [[rule]] section is needed"),
            (
                "[[rule]]\nmode = \"enforced\"",
                "p.toml:2: rule 1: mode: \"enforced\" is not one of observe, enforce: did you mean \"enforce\"?",
            ),
            ("[[rule]]\nmod = \"enforce\"", "p.toml:2: rule 1: mod: is not a known key: did you mean mode?"),
            ("[[rule]]\nlabels = { rack = \"b7\" }", "p.toml:1: rule 1: mode: is missing"),
            ("[rule]\nmode = \"observe\"", "p.toml:1: rule: is a list of sections: write [[rule]], with two brackets"),
            ("keep = \"1 year\"\n[[rule]]\nmode = \"observe\"", "p.toml:1: keep: \"1 year\" is not a time"),
            ("keep = \"0s\"\n[[rule]]\nmode = \"observe\"", "p.toml:1: keep: is outside 1s to 30d, such as \"1h\""),
            ("[[rule]]\nmode = \"enforce\"\nthreshold = 50", "p.toml:3: rule 1: threshold: 50 is not a time in quotes"),
            ("[[rule]]\nmode = \"enforce\"\nthreshold = \"0us\"", "p.toml:3: rule 1: threshold: must be above 0"),
            (
                "[[rule]]\nmode = \"observe\"\nlabels = { rack = \"b 7\" }",
                "p.toml:3: rule 1: labels.rack: \"b 7\": a label's value takes",
            ),
            ("[[rule]]\nmode = \"observe\"\nlabels = { rack = 7 }", "p.toml:3: rule 1: labels.rack: 7 is not"),
            (
                "[[rule]]\nmode = \"observe\"\n[[rule]]\nmode = \"enforce\"\nlabels = { rack = \"b7\" }",
                "p.toml:3: rule 2: is never reached, since rule 1 takes every host first",
            ),
            (
                "[[rule]]\nmode = \"observe\"\nshare = \"100%\"",
                "p.toml:3: rule 1: share: is outside 1% to 99%; leave it out",
            ),
            ("[[rule]]\nmode = \"observe\"\nshare = 0.25", "p.toml:3: rule 1: share: 0.25 is not a share"),
            (
                "[[rule]]\nmode = \"observe\"\nshare = \"50%\"\n[[rule]]\nmode = \"enforce\"\nshare = \"25%\"",
                "p.toml:4: rule 2: is never reached, since rule 1 takes 50% of hosts first",
            ),
            ("[[rule]", "p.toml:1: "),
        ] {
            let found = wrong(text);
            assert!(found.len() == 1 && found[0].starts_with(said), "{text}: {found:?}");
        }
        assert_eq!(wrong("keep = 1\n[[rule]]\nmode = 1\n").len(), 2, "all are told");
    }
}
