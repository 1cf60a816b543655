//! What the TOML reader says, in the words of someone who writes scenarios.

/// A message of the reader, understood.
pub(crate) struct Plain {
    /// The key it is about, where the reader names one beside the path.
    pub key: Option<String>,
    /// The key that was probably meant.
    pub meant: Option<String>,
    /// The key is missing, so there is no place for it in the file.
    pub missing: bool,
    pub message: String,
}

/// Longest value that is shown in full.
const SHOWN: usize = 60;

pub(crate) fn plain(message: &str) -> Plain {
    let said = |message| Plain { key: None, meant: None, missing: false, message };
    if let Some(key) = message.strip_prefix("missing field `").and_then(|m| m.strip_suffix('`')) {
        return Plain { key: Some(key.into()), missing: true, ..said(missing(key)) };
    }
    if let Some((key, known)) = message.strip_prefix("unknown field `").and_then(unknown) {
        let meant = nearest(&key, &known).map(str::to_string);
        let message = match &meant {
            Some(meant) => format!("is not a known key: did you mean {meant}?"),
            None if known.is_empty() => "is not a known key: none is possible here".into(),
            None => format!("is not a known key: known are {}", known.join(", ")),
        };
        return Plain { key: Some(key), meant, ..said(message) };
    }
    if message == "u64 value was too large" {
        return said(format!("a whole number is above {}: write a seed like that in quotes", i64::MAX));
    }
    if let Some((value, known)) = message.strip_prefix("unknown variant `").and_then(unknown) {
        return said(not_one_of(&value, &known));
    }
    let wrong = ["invalid type: ", "invalid value: "].iter().find_map(|p| message.strip_prefix(p));
    if let Some((found, expected)) = wrong.and_then(|m| m.rsplit_once(", expected ")) {
        return said(format!("{} is not {}", shown(found), wanted(found, expected)));
    }
    said(message.into())
}

/// `"value" is not one of …`, and the one that is nearly it.
pub(crate) fn not_one_of(value: &str, known: &[&str]) -> String {
    let meant = nearest(value, known).map_or(String::new(), |near| format!(": did you mean \"{near}\"?"));
    format!("{} is not one of {}{meant}", cut(&format!("{value:?}")), known.join(", "))
}

/// The candidate that is a slip of the finger or two away from `text`.
pub(crate) fn nearest<'a>(text: &str, candidates: &[&'a str]) -> Option<&'a str> {
    // Two slips in a name of four letters make another name.
    let most = if text.chars().count() < 4 { 1 } else { 2 };
    let near = candidates.iter().map(|c| (distance(text, c, most), c)).filter(|(d, _)| *d <= most);
    near.min_by_key(|(d, _)| *d).map(|(_, c)| *c)
}

fn missing(key: &str) -> String {
    let example = match key {
        "duration" => "\"2ms\"",
        "network" => "{ kind = \"fat-tree\" }",
        "transport" => "{ kind = \"dcqcn\" }",
        "traffic" => return "is missing: at least one [[traffic]] section is needed".into(),
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
        _ => return "is missing".into(),
    };
    format!("is missing: write one, such as {key} = {example}")
}

/// Takes "x`, expected one of `a`, `b`" apart.
fn unknown(rest: &str) -> Option<(String, Vec<&str>)> {
    // The name is the user's and may hold anything, so search from the end.
    let (name, known) = rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no "))?;
    Some((name.into(), known.split('`').skip(1).step_by(2).collect()))
}

fn shown(found: &str) -> String {
    match found {
        "map" => "a section".into(),
        "sequence" => "a list".into(),
        _ => {
            let value = found.split_once(['`', '"']).map_or(found, |_| {
                let from = found.find(['`', '"']).unwrap_or_default();
                found[from..].trim_matches('`')
            });
            cut(value)
        }
    }
}

fn cut(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.into(),
    }
}

fn wanted(found: &str, expected: &str) -> String {
    match expected {
        "u8" if found.starts_with("integer") => "a whole number from 0 to 255".into(),
        "u32" if found.starts_with("integer") => "a whole number from 0 to 4294967295".into(),
        "u64" if found.starts_with("integer") => "a whole number from 0 on".into(),
        "u8" | "u32" | "u64" | "usize" => "a whole number".into(),
        "f64" | "a float" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "string or table" => "text in quotes".into(),
        "a sequence" => "a list, such as [\"a\", \"b\"]".into(),
        "a map" => "a section with a kind".into(),
        _ if expected.starts_with("struct ") => "a section".into(),
        _ => expected.into(),
    }
}

/// Edit distance, or more than `most` if it is more; two neighbours that
/// changed places count once.
fn distance(a: &str, b: &str, most: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(80).collect(), b.chars().take(80).collect());
    if a.len().abs_diff(b.len()) > most {
        return most + 1;
    }
    let mut rows = [(0..=b.len()).collect::<Vec<usize>>(), vec![], vec![]];
    for i in 1..=a.len() {
        rows.rotate_right(1);
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[2][j - 2] + 1);
            }
            row.push(best);
        }
        rows[0] = row;
    }
    rows[0][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_near() {
        let known = ["threshold", "gain", "h0", "h1", "load"];
        assert_eq!(nearest("treshold", &known), Some("threshold"));
        assert_eq!(nearest("thresohld", &known), Some("threshold"));
        assert_eq!(nearest("laod", &known), Some("load"));
        assert_eq!(nearest("h", &known), Some("h0"));
        assert_eq!(nearest("window", &known), None);
        assert_eq!(distance("", "abc", 5), 3);
        assert_eq!(distance("kitten", "sitting", 5), 3);
    }

    #[test]
    fn a_name_that_looks_like_the_message_is_still_the_name() {
        let plain = plain("unknown field `a`, expected `b`, expected one of `x`, `y`");
        assert_eq!(plain.key.as_deref(), Some("a`, expected `b"));
        assert!(plain.message.ends_with("known are x, y"), "{}", plain.message);
    }
}
