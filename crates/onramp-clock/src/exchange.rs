//! Times that the prober keeps of a probe.

/// One probe from A and its answer from B. Times in nanoseconds, by the clock
/// of whoever took them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Number of the pair this probe belongs to, counted by A per peer.
    pub pair: u32,
    /// Second probe of its pair.
    pub second: bool,
    /// The probe left A.
    pub sent: u64,
    /// The probe reached B.
    pub received: u64,
    /// The answer left B.
    pub returned: u64,
    /// The answer reached A.
    pub came_back: u64,
}
