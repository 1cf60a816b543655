//! Programs: small state machines at single hosts, which answer messages and keep time.
//!
//! A program knows only what its own host has received and its own timers, so a cell of the network never needs
//! another cell's state, and the results do not depend on how the network is cut. The simulator and the cluster of
//! Linux hosts run the same programs.

use super::clients::Asking;
use super::state::Encoder;
use onramp_config::units::Ps;
use onramp_records::{ExchangeRecord, OperationRecord};
use std::fmt::Debug;

/// A message on a channel. Only its size travels; the other fields are what the bytes would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Payload \[bytes\], above 0.
    pub bytes: u64,
    /// Label, such as the number of the request it belongs to; with [`Message::OF_COLLECTIVE`] set that of a collective.
    pub tag: u64,
    /// Value that the sending program tells the receiving one.
    pub content: u64,
}

impl Message {
    /// Bit of the tag of a message that is a part of a collective.
    pub const OF_COLLECTIVE: u64 = 1 << 63;

    /// Number of the collective that it is a part of, over all repetitions.
    pub fn collective(&self) -> Option<u64> {
        (self.tag & Self::OF_COLLECTIVE != 0).then_some(self.tag & !Self::OF_COLLECTIVE)
    }
}

/// Progress of a program that does the same several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repetitions {
    /// The number of the one that runs, from 0.
    pub number: u32,
    /// How many there are.
    pub all: u32,
    /// Collectives in each, which are numbered over all.
    pub collectives: u64,
}

/// A state machine at one host.
///
/// Channels are numbered in the order in which [`super::Plan::join`] has joined the program to others. Times are in
/// picoseconds from the beginning of the load.
pub trait Program: Debug + Send + Sync {
    /// Takes a message whose last byte has arrived by `channel`.
    fn received(&mut self, now: Ps, channel: u32, message: Message, out: &mut Actions);

    /// Does what is due at `now`: after messages have come, and at [`Program::wake`].
    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        let _ = (now, out);
    }

    /// The part that begins its requests; `None` if it only answers.
    fn asking(&self) -> Option<&Asking> {
        None
    }

    /// Time at which it next acts without a message; `None` while it waits for messages only.
    fn wake(&self) -> Option<Ps> {
        self.asking()?.due()
    }

    /// True once it waits for nothing and will begin nothing; then it stays so. The run lasts until all programs are
    /// over, so one that only answers always is.
    fn is_over(&self) -> bool {
        self.asking().is_none_or(Asking::is_over)
    }

    /// Payload it sends in all, about; `None` if nobody can know.
    fn bytes(&self) -> Option<u64> {
        None
    }

    /// Requests it has begun that are not complete.
    fn open(&self) -> u64 {
        self.asking().map_or(0, Asking::open)
    }

    /// Takes down all that its future depends on, but for how many repetitions are left; `now` is the encoder's moment,
    /// as the program counts time.
    fn encode(&self, _now: Ps, state: &mut Encoder) {
        state.refuse("a program does not repeat anything");
    }

    /// How far it is in what it repeats.
    fn repetitions(&self) -> Repetitions {
        Repetitions::default()
    }

    /// Goes on as if so many more repetitions were complete.
    fn skip(&mut self, _repetitions: u32) {}
}

/// Requests of a program to its host.
#[derive(Debug, Default)]
pub struct Actions {
    /// Messages to send, by channel, in order.
    pub sends: Vec<(u32, Message)>,
    /// Exchanges that are complete.
    pub records: Vec<ExchangeRecord>,
    /// Operations that are complete.
    pub operations: Vec<OperationRecord>,
}

impl Actions {
    /// Sends a message.
    pub fn send(&mut self, channel: u32, message: Message) {
        self.sends.push((channel, message));
    }

    /// Writes down an exchange.
    pub fn record(&mut self, record: ExchangeRecord) {
        self.records.push(record);
    }
}
