//! TCP as Linux 7.3 sends and receives it, without the handshake's end and the connection's: a folder for the
//! sending half, a file for the receiving one, and one for each part that can be told apart.
//!
//! Sequence numbers count payload from 0 in 64 bits; the network carries their low 32.

pub mod rtt;
pub mod rx;
pub mod scoreboard;
pub mod syn;
pub mod sysctl;
pub mod timer;
pub mod tx;

pub use rx::Rx;
pub use syn::{Answer, Opened, Syn};
pub use tx::Tx;

/// Bytes of a packet besides payload: Ethernet, IPv4, TCP, timestamps.
pub const HEADERS: u32 = 14 + 20 + 20 + 12;

/// Blocks of a selective acknowledgement that fit beside timestamps (RFC 2018).
pub const BLOCKS: usize = 3;

/// Parameters that all connections of a transport have in common; defaults are Linux 7.3's.
#[derive(Clone, Debug)]
pub struct Params {
    /// Bytes of payload of a full packet.
    pub mss: u32,
    /// Packets of the first window (RFC 6928).
    pub initial_window: u32,
    /// Least retransmission timeout in microseconds.
    pub rto_min_us: u32,
    /// Largest retransmission timeout in microseconds.
    pub rto_max_us: u32,
    /// The window shrinks while nothing is sent.
    pub slow_start_after_idle: bool,
    /// A lost tail is probed for (RFC 8985 §7).
    pub loss_probe: bool,
    /// Timeouts may turn out to be mistakes (RFC 5682).
    pub frto: bool,
    /// Packets out of order that make a loss likely (RFC 5681).
    pub reordering: u32,
    /// Bytes of the largest segment handed down, and packets of the smallest.
    pub gso_max_size: u32,
    /// See `gso_max_size`.
    pub least_segment: u32,
    /// Less than this part of a window is not worth a segment yet.
    pub segment_divisor: u64,
    /// Segments are smaller on long paths: half for each 2^this us of round-trip time.
    pub segment_rtt_log: u32,
    /// Bytes of a connection that may wait in its host.
    pub limit_output: u32,
    /// True if every connection is paced, whatever its controller wants.
    pub paced: bool,
    /// Pacing rates in slow start and after, in percent of a window each round trip.
    pub pacing_ratios: [u32; 2],
    /// Acknowledgements of packets out of order that are left out in a row at most.
    pub compressed_acks: u32,
    /// They wait for this part of a round trip, in percent, at most for the next, and a little more for
    /// other timers.
    pub compressed_rtt_percent: u64,
    /// See `compressed_rtt_percent`.
    pub compressed_ns: u64,
    /// See `compressed_rtt_percent`.
    pub compressed_slack_ns: u64,
    /// Bytes of memory that a receiver has at first, and at most.
    pub receive_buffer: u32,
    /// See `receive_buffer`.
    pub most_receive_buffer: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window: 10,
            rto_min_us: 200_000,
            rto_max_us: 120_000_000,
            slow_start_after_idle: true,
            loss_probe: true,
            frto: true,
            reordering: 3,
            gso_max_size: 65_536,
            least_segment: 2,
            segment_divisor: 3,
            segment_rtt_log: 9,
            limit_output: 4 << 20,
            paced: false,
            pacing_ratios: [200, 120],
            compressed_acks: 44,
            compressed_rtt_percent: 33,
            compressed_ns: 1_000_000,
            compressed_slack_ns: 10_000,
            receive_buffer: 131_072,
            most_receive_buffer: 32 << 20,
        }
    }
}

impl Params {
    /// Room that a receiver offers at first: full packets in half of its memory.
    pub fn first_window(&self) -> u32 {
        self.receive_buffer / 2 / self.mss * self.mss
    }
}

/// Contents of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reply {
    /// All bytes before this one have arrived.
    pub ack: u64,
    /// Bytes the receiver has room for from there on.
    pub window: u32,
    /// Blocks that have arrived beyond, the newest first; a first one below `ack`, or inside the
    /// second, arrived twice (RFC 2883). Empty ones say nothing.
    pub blocks: [(u64, u64); BLOCKS],
    /// Congestion was marked.
    pub ece: bool,
    /// The time stamp of the packet that it answers, in milliseconds.
    pub echo_ms: u32,
    /// It came with data of the other direction.
    pub with_data: bool,
}

#[cfg(test)]
mod tests;
