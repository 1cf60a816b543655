//! Keys of a scenario, as a controller asks for them.

use crate::abi::{Key, Kind};
use std::cell::RefCell;

/// The keys that a scenario has beside `kind`, `library`, `name` and `feedback`.
#[derive(Debug)]
pub struct Keys<'a> {
    keys: &'a [Key<'a>],
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Keys<'a> {
    /// Of these.
    pub fn new(keys: &'a [Key<'a>]) -> Self {
        Self { keys, asked: RefCell::default() }
    }

    fn value<T>(
        &self,
        name: &'static str,
        default: T,
        like: &str,
        read: impl Fn(&Key<'a>) -> Option<T>,
    ) -> Result<T, String> {
        self.asked.borrow_mut().push(name);
        let Some(key) = self.keys.iter().find(|key| key.name.text() == name) else { return Ok(default) };
        read(key).ok_or_else(|| format!("{name} = {}: must be {like}", key.text.text()))
    }

    /// A number without a unit.
    ///
    /// # Errors
    /// It is none.
    pub fn number(&self, name: &'static str, default: f64) -> Result<f64, String> {
        self.value(name, default, "a number, such as 0.5", |key| (key.kind == Kind::Number).then_some(key.value))
    }

    /// Bytes, such as "4KB".
    ///
    /// # Errors
    /// It is no amount of bytes.
    pub fn bytes(&self, name: &'static str, default: u64) -> Result<u64, String> {
        self.value(name, default, "bytes, such as \"4KB\"", |key| (key.kind == Kind::Bytes).then_some(key.value as u64))
    }

    /// A rate in bit/s, such as "10Gbps".
    ///
    /// # Errors
    /// It is no rate.
    pub fn rate(&self, name: &'static str, default: f64) -> Result<f64, String> {
        self.value(name, default, "a rate, such as \"10Gbps\"", |key| (key.kind == Kind::Rate).then_some(key.value))
    }

    /// A time in picoseconds, such as "50us".
    ///
    /// # Errors
    /// It is no time.
    pub fn time(&self, name: &'static str, default: u64) -> Result<u64, String> {
        self.value(name, default, "a time, such as \"50us\"", |key| {
            (key.kind == Kind::Time).then_some(key.value as u64)
        })
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// It is neither.
    pub fn flag(&self, name: &'static str, default: bool) -> Result<bool, String> {
        self.value(name, default, "true or false", |key| (key.kind == Kind::Flag).then_some(key.value != 0.0))
    }

    /// One of these words.
    ///
    /// # Errors
    /// It is none of them.
    pub fn word(
        &self,
        name: &'static str,
        default: &'static str,
        words: &[&'static str],
    ) -> Result<&'static str, String> {
        let known = |key: &Key<'a>| words.iter().find(|word| **word == key.text.text().trim_matches('"')).copied();
        self.value(name, default, &format!("one of {}", words.join(", ")), known)
    }

    /// Nothing, if all keys were asked for.
    ///
    /// # Errors
    /// The first that was not.
    pub fn finish(&self) -> Result<(), String> {
        let asked = self.asked.borrow();
        let Some(unknown) = self.keys.iter().find(|key| !asked.contains(&key.name.text())) else { return Ok(()) };
        let known =
            if asked.is_empty() { "it has no keys".into() } else { format!("its keys are {}", asked.join(", ")) };
        Err(format!("{}: is no key of it; {known}", unknown.name.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Text;

    const KEYS: &[Key<'static>] = &[
        Key { name: Text::new("gain"), text: Text::new("0.25"), kind: Kind::Number, value: 0.25 },
        Key { name: Text::new("step"), text: Text::new("\"4KB\""), kind: Kind::Bytes, value: 4000.0 },
        Key { name: Text::new("mode"), text: Text::new("\"fast\""), kind: Kind::Text, value: 0.0 },
    ];

    #[test]
    fn values_have_their_unit_or_a_default() {
        let keys = Keys::new(KEYS);
        assert_eq!(keys.number("gain", 1.0), Ok(0.25));
        assert_eq!(keys.bytes("step", 1), Ok(4000));
        assert_eq!(keys.time("wait", 7), Ok(7));
        assert_eq!(keys.word("mode", "slow", &["slow", "fast"]), Ok("fast"));
        assert_eq!(keys.rate("step", 1.0), Err("step = \"4KB\": must be a rate, such as \"10Gbps\"".into()));
        assert_eq!(keys.word("mode", "slow", &["slow"]), Err("mode = \"fast\": must be one of slow".into()));
        assert_eq!(keys.finish(), Ok(()));
    }

    #[test]
    fn a_key_that_nobody_asked_for_is_refused() {
        let keys = Keys::new(&KEYS[..2]);
        assert_eq!(keys.finish(), Err("gain: is no key of it; it has no keys".into()));
        assert_eq!(keys.number("gain", 1.0), Ok(0.25));
        assert_eq!(keys.finish(), Err("step: is no key of it; its keys are gain".into()));
    }
}
