//! Netlink messages: a header, a structure of the family, attributes.

/// Bytes of a netlink header.
pub const HEADER: usize = 16;

/// A request being put together. Its header's length is kept right.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Vec<u8>,
    /// Purpose of the request, for error messages.
    pub(crate) what: String,
}

impl Message {
    /// A request of `kind` (`RTM_…`) with `flags` besides `NLM_F_REQUEST`.
    /// `what` says in an error message what it was for.
    pub fn new(kind: u16, flags: i32, what: impl Into<String>) -> Self {
        let mut message = Self { bytes: vec![0; HEADER], what: what.into() };
        message.bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        message.bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        message.resized()
    }

    /// Appends the family's fixed structure, or part of it.
    #[must_use]
    pub fn push(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self.resized()
    }

    /// Appends an attribute.
    #[must_use]
    pub fn attr(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (value.len() + 4) as u16;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.resized()
    }

    /// Appends a 32-bit attribute.
    #[must_use]
    pub fn u32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Appends a 64-bit attribute.
    #[must_use]
    pub fn u64(self, kind: u16, value: u64) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Appends a text, which the kernel wants to end with a zero.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.attr(kind, &[value.as_bytes(), b"\0"].concat())
    }

    /// Appends an attribute that holds what `inside` appends.
    #[must_use]
    pub fn nested(mut self, kind: u16, inside: impl FnOnce(Self) -> Self) -> Self {
        let at = self.bytes.len();
        self = self.attr(kind | libc::NLA_F_NESTED as u16, &[]);
        self = inside(self);
        let length = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// The message with its sequence number.
    pub(crate) fn numbered(&mut self, sequence: u32) -> &[u8] {
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes
    }

    pub(crate) fn or_flags(mut self, flags: i32) -> Self {
        let now = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]);
        self.bytes[6..8].copy_from_slice(&(now | flags as u16).to_ne_bytes());
        self
    }

    fn resized(mut self) -> Self {
        let length = (self.bytes.len() as u32).to_ne_bytes();
        self.bytes[..4].copy_from_slice(&length);
        self
    }
}

/// A message received: kind, sequence number, and what follows the header.
pub(crate) struct Received<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub payload: &'a [u8],
}

/// The messages of a datagram. What is cut short is left out.
pub(crate) fn received(mut datagram: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(datagram, 0)? as usize;
        let message = datagram.get(..length).filter(|m| m.len() >= HEADER)?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Received {
            kind: u16::from_ne_bytes([message[4], message[5]]),
            sequence: u32_at(message, 8)?,
            payload: &message[HEADER..],
        })
    })
}

/// The attributes in `bytes`, as (kind, value). What is cut short is left out.
pub fn attrs(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & libc::NLA_TYPE_MASK as u16;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of `kind`.
pub fn attr(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attrs(bytes).find(|(k, _)| *k == kind).map(|(_, value)| value)
}

/// A 32-bit number at an offset, in the machine's order.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A 64-bit number at an offset, in the machine's order.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A text attribute without its zero.
pub fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
pub(crate) mod made_up {
    use super::{HEADER, Message};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Input as from a kernel: a message with attributes, some of them nested, of which a
    /// few bytes are changed and the end is cut.
    pub fn reply() -> impl Strategy<Value = Vec<u8>> {
        let attribute = (0..40u16, vec(any::<u8>(), 0..40));
        let nested = (0..12u16, vec(attribute.clone(), 0..4));
        let changes = vec((0..300usize, any::<u8>()), 0..4);
        (vec(any::<u8>(), 0..24), vec(attribute, 0..6), vec(nested, 0..3), changes, 0..300usize).prop_map(
            |(head, plain, nested, changes, length)| {
                let mut message = Message::new(16, 0, "any").push(&head);
                for (kind, value) in plain {
                    message = message.attr(kind, &value);
                }
                for (kind, inner) in nested {
                    message = message.nested(kind, |m| inner.iter().fold(m, |m, (k, v)| m.attr(*k, v)));
                }
                let mut bytes = message.numbered(1)[HEADER..].to_vec();
                for (at, byte) in changes {
                    if let Some(b) = bytes.get_mut(at) {
                        *b = byte;
                    }
                }
                bytes.truncate(length);
                bytes
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_datagram_is_read_to_its_end(bytes in vec(any::<u8>(), 0..200), reply in super::made_up::reply()) {
            for bytes in [bytes, reply] {
                prop_assert!(received(&bytes).count() <= bytes.len() / HEADER);
                prop_assert!(attrs(&bytes).count() <= bytes.len() / 4);
                prop_assert!(attrs(&bytes).map(|(_, value)| value.len()).sum::<usize>() <= bytes.len());
            }
        }
    }

    #[test]
    fn attributes_are_padded_nested_and_read_back() {
        let mut message =
            Message::new(16, 0, "test").push(&[7; 4]).text(1, "ab").nested(2, |m| m.u32(3, 5).attr(4, &[9]));
        let bytes = message.numbered(1).to_vec();
        assert_eq!(u32_at(&bytes, 0), Some(bytes.len() as u32));
        assert_eq!(bytes.len(), HEADER + 4 + 8 + 4 + 8 + 8);
        let body = &bytes[HEADER + 4..];
        assert_eq!(attr(body, 1).map(text).as_deref(), Some("ab"));
        let inner = attr(body, 2).unwrap();
        assert_eq!(attr(inner, 3).and_then(|v| u32_at(v, 0)), Some(5));
        assert_eq!(attr(inner, 4), Some(&[9][..]));
    }

    #[test]
    fn what_is_cut_short_or_odd_is_left_out() {
        assert_eq!(attrs(&[8, 0, 1, 0, 1]).count(), 0);
        assert_eq!(attrs(&[3, 0, 1, 0, 1, 2]).count(), 0);
        assert_eq!(received(&[0; 64]).count(), 0);
        assert_eq!(received(&[255; 20]).count(), 0);
    }
}
