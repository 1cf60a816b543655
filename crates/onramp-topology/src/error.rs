//! Errors of networks, and of names in them.

use super::{MAX_DELAY, MAX_PORTS, MAX_ROUTES};
use onramp_config::Mistake;
use onramp_config::units::Span;

/// Reason why links make no network, or why a name stands for nothing in one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Both ends of a link are the same node.
    #[error("{node} has a link to itself")]
    LinkToItself {
        /// Name of the node.
        node: String,
    },
    /// Rate or delay of a link cannot be simulated.
    #[error("the link {link} has an impossible {}: {}", .wrong.key, .wrong.message)]
    Impossible {
        /// Names of its ends: "from->to".
        link: String,
        /// Mistake about `rate` or `delay`.
        wrong: Mistake,
    },
    /// The network is too large.
    #[error("{links} links are more than the {} a network may have", MAX_PORTS / 2)]
    TooManyLinks {
        /// Links it has.
        links: usize,
    },
    /// Nobody could send to anybody.
    #[error("a network needs at least 2 hosts")]
    TooFewHosts,
    /// A node has no link.
    #[error("{} {node} has no link", if *.host { "host" } else { "switch" })]
    NoLink {
        /// True for a host, false for a switch.
        host: bool,
        /// Name of the node.
        node: String,
    },
    /// One-way delays would not fit into the results.
    #[error("the longest path takes {longest} one way: at most {} is possible", Span(MAX_DELAY))]
    TooLong {
        /// One-way delay of the longest path, in whole milliseconds.
        longest: Span,
    },
    /// Routes would take too much memory.
    #[error("{switches} switches and {groups} groups of hosts are too many: their product may be at most {MAX_ROUTES}")]
    TooManyRoutes {
        /// Switches.
        switches: usize,
        /// Groups of hosts on the same switches.
        groups: usize,
    },
    /// One host cannot reach another.
    #[error("no path leads from {from} to {to}")]
    NoPath {
        /// Name of the host that would send.
        from: String,
        /// Name of the host that would receive.
        to: String,
    },
    /// A switch has too many ways to one host.
    #[error("has {ports} equal-cost ports at one switch: at most 255 are possible")]
    TooManyPorts {
        /// Ports that lead there.
        ports: usize,
    },
    /// Switches have too many different sets of ways.
    #[error("has too many different sets of equal-cost ports")]
    TooManyPortSets,
    /// A name is no host's.
    #[error("\"{name}\" is no host: {}they are {first} to {last}", did_you_mean(.meant.as_deref(), "", "? "))]
    NoHost {
        /// The name.
        name: String,
        /// Name that was probably meant.
        meant: Option<String>,
        /// Name of the first host.
        first: String,
        /// Name of the last host.
        last: String,
    },
    /// A list of hosts has one of them twice.
    #[error("\"{name}\" is named twice")]
    NamedTwice {
        /// Name of the host.
        name: String,
    },
    /// A name of a link is not two names.
    #[error("\"{name}\" is no link: write two neighbours, such as \"{example}\"")]
    NoLinkName {
        /// The name.
        name: String,
        /// Name of a link of this network.
        example: String,
    },
    /// There is no such switch.
    #[error("\"{name}\" is no switch; nodes are {known}")]
    NoSwitch {
        /// The name.
        name: String,
        /// Names of nodes: ranges, the first few.
        known: String,
    },
    /// An end of a link is no node.
    #[error("\"{name}\" is no link: there is no \"{end}\": {}", .meant.as_ref().map_or_else(
        || format!("nodes are {known}"), |meant| format!("did you mean \"{meant}\"?")
    ))]
    NoNode {
        /// Name of the link.
        name: String,
        /// The end that is no node.
        end: String,
        /// Name that was probably meant.
        meant: Option<String>,
        /// Names of nodes: ranges, the first few.
        known: String,
    },
    /// The ends of a link are not neighbours.
    #[error("\"{name}\" is no link: the neighbours of {from} are {neighbours}")]
    NotNeighbours {
        /// Name of the link.
        name: String,
        /// Its first end.
        from: String,
        /// Names of that end's neighbours, the first few.
        neighbours: String,
    },
}

fn did_you_mean(name: Option<&str>, before: &str, after: &str) -> String {
    name.map_or(String::new(), |name| format!("{before}did you mean \"{name}\"{after}"))
}
