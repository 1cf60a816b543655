//! Names that are nearly known ones.

use crate::mistake::cut;

/// The candidate that is a slip of the finger or two away from `text`. Two neighbours that
/// changed places are one slip.
#[must_use]
pub fn nearest<'a>(text: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let length = text.chars().count();
    // Two slips in a name of four letters make another name.
    let most = if length < 4 { 1 } else { 2 };
    let near = candidates
        .iter()
        .filter(|c| c.chars().count().abs_diff(length) <= most)
        .map(|c| (strsim::osa_distance(text, c), *c))
        .filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance).map(|(_, c)| c)
}

/// `"value" is not one of …`, and the one that is nearly it.
#[must_use]
pub fn not_one_of(value: &str, known: &[&str]) -> String {
    let meant = nearest(value, known).map_or(String::new(), |near| format!(": did you mean \"{near}\"?"));
    format!("{} is not one of {}{meant}", cut(&format!("{value:?}")), known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_near() {
        let known = ["threshold", "gain", "h0", "h1", "load"];
        for slip in ["threshhold", "treshold", "thresohld", "thresholt", "thresholds"] {
            assert_eq!(nearest(slip, &known), Some("threshold"), "{slip}");
        }
        assert_eq!(nearest("laod", &known), Some("load"));
        assert_eq!(nearest("h", &known), Some("h0"));
        assert_eq!(nearest("window", &known), None);
        for (other, known) in [("port", "parent"), ("", "key"), ("idle", "line")] {
            assert_eq!(nearest(other, &[known]), None, "{other}");
        }
    }
}
