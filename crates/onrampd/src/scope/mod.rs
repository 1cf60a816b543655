//! Rules that say which packets are held: `[[scope]]` in a file.
//!
//! The first rule that matches a packet counts; a packet that none matches is held. [`first`] says which one that is, for
//! people and tests; programs go by a [`table`], which means the same.

pub mod cgroups;
mod file;
mod table;
mod value;

pub(crate) use file::STAND_IN;
pub use file::{load, render};
pub use table::{places, table};
pub use value::{Cgroup, Dscp, Item, List, Network, Ports};

use crate::abi;
use onramp_config::Mistake;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

/// Most rules.
pub const MAX_RULES: usize = abi::OR_RULES as usize;
/// Most pairs of a network and a range of ports, of all rules together.
pub const MAX_PLACES: usize = abi::OR_PLACES as usize;
/// Stand-in for a rule's name, for packets that none matches.
pub const NONE: &str = "none";
/// Most letters of a rule's name.
const MAX_NAME: usize = 63;

/// A rule. A condition that is not given holds for every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name in status and metrics; without one it is its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Packets that match are held, or never.
    pub hold: bool,
    /// Networks that the packet goes to one of.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub to: List<Network>,
    /// Source or destination port.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub port: List<Ports>,
    /// Protocol that IP carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Its class.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub dscp: List<Dscp>,
    /// The sender's cgroup is this one, or below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Cgroup>,
}

/// Protocol that IP carries. Packets of others are never held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// IP's number.
    #[must_use]
    pub fn number(self) -> u8 {
        (match self {
            Self::Tcp => libc::IPPROTO_TCP,
            Self::Udp => libc::IPPROTO_UDP,
        }) as u8
    }
}

/// Properties of a packet that rules ask for.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Where it goes.
    pub to: IpAddr,
    /// Its source and destination ports.
    pub ports: [u16; 2],
    /// Protocol that IP carries.
    pub protocol: Protocol,
    /// Its class.
    pub dscp: u8,
    /// Its sender's cgroup; none: it came from elsewhere.
    pub cgroup: Option<&'a Cgroup>,
}

/// The first rule that matches a packet.
#[must_use]
pub fn first(rules: &[Rule], packet: &Packet<'_>) -> Option<usize> {
    rules.iter().position(|rule| rule.matches(packet))
}

impl Rule {
    /// Returns whether all of its conditions hold.
    #[must_use]
    pub fn matches(&self, packet: &Packet<'_>) -> bool {
        self.to.is_empty_or(|network| network.0.contains(&packet.to))
            && self.port.is_empty_or(|ports| packet.ports.iter().any(|port| ports.contains(*port)))
            && self.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && self.dscp.is_empty_or(|dscp| dscp.0 == packet.dscp)
            && self.cgroup.as_ref().is_none_or(|above| packet.cgroup.is_some_and(|cgroup| above.holds(cgroup)))
    }

    /// Returns whether it matches every packet that `other` matches.
    fn covers(&self, other: &Self) -> bool {
        self.to.covers(&other.to, |a, b| a.0.contains(&b.0))
            && self.port.covers(&other.port, |a, b| a.first <= b.first && b.last <= a.last)
            && self.protocol.is_none_or(|protocol| other.protocol == Some(protocol))
            && self.dscp.covers(&other.dscp, |a, b| a == b)
            && self.cgroup.as_ref().is_none_or(|a| other.cgroup.as_ref().is_some_and(|b| a.holds(b)))
    }

    /// Its name, or else its number, by its place in the list.
    #[must_use]
    pub fn label(&self, at: usize) -> String {
        self.name.clone().unwrap_or_else(|| (at + 1).to_string())
    }

    /// Its keys and values but for the name, as TOML has them.
    fn keys(&self) -> Vec<(&'static str, String)> {
        let mut keys = vec![("hold", self.hold.to_string())];
        let lists = [("to", self.to.toml()), ("port", self.port.toml()), ("dscp", self.dscp.toml())];
        keys.extend(lists.into_iter().filter_map(|(key, value)| Some((key, value?))));
        keys.extend(self.protocol.map(|protocol| ("protocol", format!("\"{protocol}\""))));
        keys.extend(self.cgroup.as_ref().map(|cgroup| ("cgroup", cgroup.toml())));
        keys
    }
}

/// Checks rules that were read one by one.
#[must_use]
pub fn mistakes(rules: &[Rule]) -> Vec<Mistake> {
    let mut found = Vec::new();
    if rules.len() > MAX_RULES {
        found.push(Mistake::new("scope", format!("are more than {MAX_RULES} rules")));
    }
    let all = rules.iter().map(places).sum::<usize>();
    if all > MAX_PLACES {
        let message = format!(
            "have {all} pairs of a network and a port, of at most {MAX_PLACES}: join ranges, or leave one to another rule"
        );
        found.push(Mistake::new("scope", message));
    }
    let mut names = HashSet::new();
    for (i, rule) in rules.iter().enumerate() {
        if let Some(name) = &rule.name {
            if !is_name(name) {
                let message = format!(
                    "{name:?}: a name takes a letter, then up to {} letters, digits, -, _ and ., and is not {NONE}",
                    MAX_NAME - 1
                );
                found.push(Mistake::new(format!("scope[{i}].name"), message));
            } else if !names.insert(name) {
                found.push(Mistake::new(format!("scope[{i}].name"), format!("{name} is given twice")));
            }
        }
        // An order that an operator does not mean is the likeliest mistake.
        if let Some(before) = rules[..i].iter().position(|before| before.covers(rule)) {
            let message =
                format!("is never reached, since scope[{before}] takes its packets first: put it before that one");
            found.push(Mistake::new(format!("scope[{i}]"), message));
        }
    }
    found
}

fn is_name(name: &str) -> bool {
    name != NONE
        && name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The rules as one line of the log.
#[must_use]
pub fn audit(rules: &[Rule]) -> String {
    if rules.is_empty() {
        return "scope: no rules, all that may be is held".into();
    }
    let all: Vec<String> = rules.iter().enumerate().map(|(i, rule)| format!("{}: {rule}", rule.label(i))).collect();
    format!("scope: {}; what none matches is held", all.join("; "))
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys().iter().map(|(key, value)| format!("{key} = {value}")).collect();
        f.write_str(&keys.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::strategy::Union;

    const TEXT: &str = r#"[[scope]]
name = "backup"
hold = false
to = ["10.2.0.0/16", "fd00::1"]
port = [873, "8000-8100"]
dscp = ["cs1", 3]
protocol = "tcp"
cgroup = "/system.slice/backup\\x2d1.service"

[[scope]]
hold = true
"#;

    fn said(text: &str) -> Vec<String> {
        load(text, "s.toml").map_or_else(|all| all.iter().map(ToString::to_string).collect(), |_| Vec::new())
    }

    #[test]
    fn a_file_is_read_and_written_again() {
        let rules = load(TEXT, "s.toml").unwrap();
        assert_eq!(render(&rules), TEXT);
        assert_eq!(serde_json::from_str::<Vec<Rule>>(&serde_json::to_string(&rules).unwrap()).unwrap(), rules);
        assert_eq!(rules.iter().map(places).collect::<Vec<_>>(), [4, 1]);
        assert_eq!((rules[0].label(0), rules[1].label(1)), ("backup".into(), "2".into()));
        assert!(audit(&rules).ends_with("service\"; 2: hold = true; what none matches is held"), "{}", audit(&rules));
        let other = "interface = \"eth0\"\n[fleet]\nlabels = { a = \"b\" }\n";
        assert_eq!(load(&format!("{other}{TEXT}"), "s.toml").unwrap(), rules, "a whole configuration");
    }

    #[test]
    fn all_of_its_conditions_have_to_hold_and_one_of_a_list() {
        let rule = &load(TEXT, "s.toml").unwrap()[0];
        let cgroup: Cgroup = "/system.slice/backup\\x2d1.service/below".parse().unwrap();
        let to = IpAddr::from([10, 2, 3, 4]);
        let packet = Packet { to, ports: [8050, 1], protocol: Protocol::Tcp, dscp: 8, cgroup: Some(&cgroup) };
        assert!(rule.matches(&packet));
        assert!(rule.matches(&Packet { ports: [1, 873], dscp: 3, to: "fd00::1".parse().unwrap(), ..packet }));
        for other in [
            Packet { to: [10, 3, 0, 1].into(), ..packet },
            Packet { to: "fd00::2".parse().unwrap(), ..packet },
            Packet { ports: [8101, 872], ..packet },
            Packet { protocol: Protocol::Udp, ..packet },
            Packet { dscp: 0, ..packet },
            Packet { cgroup: None, ..packet },
        ] {
            assert!(!rule.matches(&other), "{other:?}");
        }
        let beside = "/system.slice/backup\\x2d1.service2".parse().unwrap();
        assert!(!rule.matches(&Packet { cgroup: Some(&beside), ..packet }));
        let root: Cgroup = "/".parse().unwrap();
        assert!((root.holds(&cgroup), root.level(), cgroup.level()) == (true, 0, 3) && !cgroup.holds(&root));
    }

    #[test]
    fn each_mistake_is_a_line_with_its_place_and_what_is_right() {
        for (text, expected) in [
            ("", "s.toml: scope: is missing: at least one [[scope]] section is needed"),
            ("[scope]\nhold = true", "s.toml:1: scope: is a list of sections: write [[scope]], with two brackets"),
            ("[[scope]]\nport = 1", "s.toml:1: scope[0].hold: is missing: write one, such as hold = false"),
            ("[[scope]]\nhold = 1", "s.toml:2: scope[0].hold: 1 is not true or false"),
            ("[[scope]]\nhold = true\nports = 1", "s.toml:3: scope[0].ports: is not a known key: did you mean port?"),
            (
                "[[scope]]\nhold = true\nto = \"10.2.0.0\\\\16\"",
                "s.toml:3: scope[0].to: \"10.2.0.0\\\\16\" is no network such as",
            ),
            (
                "[[scope]]\nhold = true\nto = \"10.2.3.0/16\"",
                "s.toml:3: scope[0].to: \"10.2.3.0/16\" has bits beyond its prefix: write \"10.2.0.0/16\"",
            ),
            (
                "[[scope]]\nhold = true\nto = [\n\"10.2.0.0/16\",\n\"::ffff:10.0.0.0/104\"]",
                "s.toml:5: scope[0].to[1]: \"::ffff:10.0.0.0/104\" is a network of IPv4",
            ),
            ("[[scope]]\nhold = true\nto = []", "s.toml:3: scope[0].to: is empty: write at least one"),
            ("[[scope]]\nhold = true\nto = 10", "s.toml:3: scope[0].to: 10 is not a network in quotes"),
            ("[[scope]]\nhold = true\nport = 0", "s.toml:3: scope[0].port: 0 is not a port from 1 to 65535"),
            ("[[scope]]\nhold = true\nport = [1, 65536]", "s.toml:3: scope[0].port[1]: 65536 is not a port"),
            ("[[scope]]\nhold = true\nport = \"9-8\"", "s.toml:3: scope[0].port: \"9-8\" is not a port"),
            ("[[scope]]\nhold = true\nport = true", "s.toml:3: scope[0].port: true is not a port from 1 to 65535"),
            ("[[scope]]\nhold = true\ndscp = 64", "s.toml:3: scope[0].dscp: 64 is not a DSCP from 0 to 63"),
            ("[[scope]]\nhold = true\ndscp = \"af44\"", "s.toml:3: scope[0].dscp: \"af44\" is not a DSCP"),
            (
                "[[scope]]\nhold = true\nprotocol = \"icmp\"",
                "s.toml:3: scope[0].protocol: \"icmp\" is not one of tcp, udp",
            ),
            (
                "[[scope]]\nhold = true\ncgroup = \"backup.service\"",
                "s.toml:3: scope[0].cgroup: \"backup.service\" is no path of a cgroup, such as",
            ),
            (
                "[[scope]]\nhold = true\ncgroup = \"/a/../b\"",
                "s.toml:3: scope[0].cgroup: \"/a/../b\" has parts that are no names",
            ),
            ("[[scope]]\nhold = true\nname = \"2\"", "s.toml:3: scope[0].name: \"2\": a name takes a letter, then"),
            ("[[scope]]\nhold = true\nname = \"none\"", "s.toml:3: scope[0].name: \"none\": a name takes"),
            (
                "[[scope]]\nhold = true\nport = 1\nname = \"a\"\n[[scope]]\nhold = true\nname = \"a\"",
                "s.toml:7: scope[1].name: a is given twice",
            ),
            (
                "[[scope]]\nhold = true\nport = \"1-9\"\n[[scope]]\nhold = false\nport = 8",
                "s.toml:4: scope[1]: is never reached, since scope[0] takes its packets first",
            ),
        ] {
            let found = said(text);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{text}: {found:?}");
        }
        let many = |n: usize, more: &str| {
            (1..=n).map(|i| format!("[[scope]]\nhold = true\nport = {i}\n{more}\n")).collect::<String>()
        };
        assert!(said(&many(33, ""))[0].contains("scope: are more than 32 rules"));
        let networks = (0..5).map(|i| format!("\"10.{i}.0.0/16\"")).collect::<Vec<_>>().join(", ");
        assert!(said(&many(25, &format!("to = [{networks}]"))).is_empty());
        assert!(
            said(&many(26, &format!("to = [{networks}]")))[0]
                .contains("scope: have 130 pairs of a network and a port, of at most 128")
        );
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let network =
            Union::new(["10.0.0.0/8", "10.2.0.0/16", "10.2.0.2", "0.0.0.0/0", "::/0", "fd00::/8", "fd00::1"].map(Just));
        let network = network.prop_map(|text| serde_json::from_str(&format!("\"{text}\"")).unwrap());
        let networks =
            vec(network, 0..3).prop_map(|all: Vec<List<Network>>| List(all.into_iter().flat_map(|l| l.0).collect()));
        let ports = vec((1u16..6, 0u16..4), 0..3)
            .prop_map(|all| List(all.iter().map(|(a, n)| Ports { first: *a, last: a + n }).collect()));
        let dscps = vec(0u8..4, 0..3).prop_map(|all| List(all.into_iter().map(Dscp).collect()));
        let protocol = option::of(Union::new([Protocol::Tcp, Protocol::Udp].map(Just)));
        let cgroup = option::of(Union::new(["/", "/a", "/a/b", "/c"].map(|path| Just(path.parse().unwrap()))));
        (any::<bool>(), networks, ports, dscps, protocol, cgroup).prop_map(
            |(hold, to, port, dscp, protocol, cgroup)| Rule { name: None, hold, to, port, protocol, dscp, cgroup },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(rules in vec(rule(), 1..5)) {
            let text = render(&rules);
            match load(&text, "s.toml") {
                Ok(again) => prop_assert_eq!(again, rules),
                Err(errors) => prop_assert!(errors.iter().all(|e| e.to_string().contains("never reached")), "{}: {:?}", text, errors),
            }
        }

        #[test]
        fn any_text_is_rules_or_refused(text in ".{0,200}") {
            let _ = load(&text, "s.toml");
        }

        #[test]
        fn what_a_rule_covers_it_matches(a in rule(), b in rule(), v6 in any::<bool>(), dscp in 0u8..4, ports in any::<[bool; 2]>(), tcp in any::<bool>(), path in 0usize..4) {
            let cgroups = ["/", "/a", "/a/b", "/c"].map(|path| path.parse().unwrap());
            let to = if v6 { "fd00::1".parse().unwrap() } else { IpAddr::from([10, 2, 0, 2]) };
            let packet = Packet {
                to,
                ports: ports.map(|low| if low { 3 } else { 7 }),
                protocol: if tcp { Protocol::Tcp } else { Protocol::Udp },
                dscp,
                cgroup: Some(&cgroups[path]),
            };
            if a.covers(&b) && b.matches(&packet) {
                prop_assert!(a.matches(&packet));
            }
        }
    }
}
