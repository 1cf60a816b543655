//! The other members and the keys that this host shares with them.
//!
//! A signature and an X25519 take a quarter of a millisecond, once for each membership: what came of it is kept
//! while the other is a member, and over a connection that was lost. A new epoch costs two hashes for each.

use crate::config::Keys;
use crate::fleet::pairs::{Epochs, Pairs, Shared};
use crate::fleet::wire::Member;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its address.
    pub address: IpAddr,
    /// Its other addresses.
    pub aliases: Vec<IpAddr>,
    /// By which the two sign OR-ACKs and probes.
    pub keys: Keys,
}

/// All of them.
pub struct Keyring {
    pairs: Pairs,
    epochs: Epochs,
    others: BTreeMap<IpAddr, (Vec<IpAddr>, Shared)>,
    /// Members that have no key, and why.
    refused: BTreeMap<IpAddr, &'static str>,
}

impl Keyring {
    /// Without members.
    #[must_use]
    pub fn new(pairs: Pairs) -> Self {
        Self { pairs, epochs: Epochs::default(), others: BTreeMap::new(), refused: BTreeMap::new() }
    }

    /// These are the members.
    pub fn set_members(&mut self, members: Vec<Member>) -> Vec<Other> {
        let mut before = std::mem::take(&mut self.others);
        self.refused.clear();
        self.add(members, &mut before)
    }

    /// Some are new or others than before, and some have `gone`.
    pub fn change_members(&mut self, members: Vec<Member>, gone: &[IpAddr]) -> Vec<Other> {
        for address in gone {
            self.others.remove(address);
            self.refused.remove(address);
        }
        let mut before = members.iter().filter_map(|m| Some((m.address, self.others.remove(&m.address)?))).collect();
        self.add(members, &mut before)
    }

    /// The keys in use are others, of all members.
    pub fn turn(&mut self, epochs: Epochs) -> Vec<Other> {
        self.epochs = epochs;
        self.others.iter().map(|(address, (aliases, shared))| self.other(*address, aliases, shared)).collect()
    }

    /// Why there is no key for a member, if there is one without.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let (address, why) = self.refused.first_key_value()?;
        let more = self.refused.len() - 1;
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        Some(format!("nothing is measured to the member {address}{more}: {why}"))
    }

    fn add(&mut self, members: Vec<Member>, before: &mut BTreeMap<IpAddr, (Vec<IpAddr>, Shared)>) -> Vec<Other> {
        let mut added = Vec::new();
        for Member { address, aliases, statement } in members {
            let known = before.remove(&address).map(|(_, shared)| shared).filter(|shared| shared.is_of(&statement));
            match known.map_or_else(|| self.pairs.shared(address, &statement), Ok) {
                Ok(shared) => {
                    added.push(self.other(address, &aliases, &shared));
                    self.others.insert(address, (aliases, shared));
                    self.refused.remove(&address);
                }
                Err(why) => _ = self.refused.insert(address, why),
            }
        }
        added
    }

    fn other(&self, address: IpAddr, aliases: &[IpAddr], shared: &Shared) -> Other {
        Other { address, aliases: aliases.into(), keys: shared.keys(self.epochs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Folder;
    use crate::fleet::pki::{Authority, Identity, Membership, found};

    #[test]
    fn members_have_keys_unless_their_statements_are_untrue() {
        let folder = Folder::new("keyring");
        found(&folder.0, [10, 0, 0, 1].into()).unwrap();
        let authority = Authority::open(&folder.0).unwrap();
        let [two, three]: [IpAddr; 2] = [[10, 0, 0, 2].into(), [10, 0, 0, 3].into()];
        let member = |address, joined: u8| {
            let membership = Membership([joined; 16]);
            let identity = Identity { address, membership, public: [9; 32], expires: 0 };
            Member { address, aliases: vec![], statement: authority.statement(&identity).unwrap() }
        };
        let mut ring = Keyring::new(Pairs::open(&folder.0).unwrap());
        let untrue = Member { statement: "AAAA".into(), ..member(three, 1) };
        let first = ring.set_members(vec![member(two, 1), untrue.clone()]);
        assert_eq!(first.iter().map(|other| other.address).collect::<Vec<_>>(), [two]);
        assert!(ring.trouble().is_some_and(|why| why.contains("member 10.0.0.3: the fleet's authority")));
        // Signed anew, with another alias.
        let again = ring.change_members(vec![Member { aliases: vec![three], ..member(two, 1) }], &[]);
        assert_eq!((again[0].keys, &again[0].aliases[..]), (first[0].keys, &[three][..]));
        // It has joined anew.
        assert_ne!(ring.change_members(vec![member(two, 2)], &[three])[0].keys, first[0].keys);
        assert_eq!(ring.trouble(), None);
        let turned = ring.turn(Epochs { sign: 1, accept: 0 });
        assert_ne!(turned[0].keys.sign, first[0].keys.sign);
        assert!(ring.set_members(vec![]).is_empty() && ring.turn(Epochs::default()).is_empty());
    }
}
