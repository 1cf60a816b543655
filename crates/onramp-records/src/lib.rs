//! The records of a run, rows of result tables and [`counters`]: each is described once, here.
//!
//! A field's comment is the meaning that result tables give it, and the text after its type the unit. From that come
//! the struct, the schema of the table, and its columns as bytes; Python and the cluster use all three.
//!
//! ```
//! use onramp_records::{Record, Sample};
//!
//! let time = Sample::COLUMNS[0];
//! assert_eq!((Sample::TABLE, time.name, time.unit), ("series", "time_ps", "ps"));
//! let rows = [Sample { time_ps: 1, series: 0, value: 0.5 }, Sample { time_ps: 2, series: 0, value: 0.75 }];
//! assert_eq!(Sample::columns(&rows)[0], [1u64, 2].map(u64::to_le_bytes).concat());
//! ```

pub mod counters;

use onramp_config::units::Ps;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// Type, as numpy writes it: "<u8" is a 64-bit unsigned integer.
    pub kind: &'static str,
    /// Unit; "1" for numbers without.
    pub unit: &'static str,
    /// Meaning, in a sentence without its full stop.
    pub meaning: &'static str,
    /// Values may be absent: of a signed type the negative ones, else all those of what is not complete.
    pub nullable: bool,
}

/// A type that a column can have.
trait Value: Copy {
    const KIND: &'static str;
    const NULLABLE: bool = false;
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! values {
    ($($type:ty = $kind:literal,)+) => {
        $(impl Value for $type {
            const KIND: &'static str = $kind;
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        })+
    };
}
values! { u32 = "<u4", u64 = "<u8", i32 = "<i4", f64 = "<f8", }

impl Value for bool {
    const KIND: &'static str = "<u1";
    fn put(self, out: &mut Vec<u8>) {
        out.push(self.into());
    }
}

/// A number that may be absent: written as -1.
impl Value for Option<u64> {
    const KIND: &'static str = "<i8";
    const NULLABLE: bool = true;
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.map_or(-1, |number| number as i64).to_le_bytes());
    }
}

/// A record that is a row of a table.
pub trait Record: Sized {
    /// The table's name.
    const TABLE: &'static str;
    /// Its columns, in order.
    const COLUMNS: &'static [Column];
    /// The columns of some rows, in the order of `COLUMNS`, as little-endian bytes.
    fn columns(rows: &[Self]) -> Vec<Vec<u8>>;
}

/// A comment without the space before it.
const fn first_line(comment: &'static str) -> &'static str {
    comment.trim_ascii()
}

/// Marks what is only known once a flow is complete.
const MAY_BE_INCOMPLETE: bool = true;

macro_rules! records {
    ($($(#[doc = $about:literal])+ pub struct $name:ident = $table:literal {
        $($(#[doc = $meaning:literal])+ $field:ident: $type:ty = $unit:literal $($incomplete:ident)?,)+
    })+) => {
        $($(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $meaning])+ pub $field: $type,)+
        }

        impl Record for $name {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [Column] = &[$(Column {
                name: stringify!($field),
                kind: <$type as Value>::KIND,
                unit: $unit,
                meaning: first_line([$($meaning),+][0]),
                nullable: <$type as Value>::NULLABLE $(|| $incomplete)?,
            },)+];

            fn columns(rows: &[Self]) -> Vec<Vec<u8>> {
                vec![$({
                    let mut column = Vec::with_capacity(size_of_val(rows));
                    rows.iter().for_each(|row| row.$field.put(&mut column));
                    column
                },)+]
            }
        })+

        /// All tables: their names and columns.
        pub fn tables() -> Vec<(&'static str, &'static [Column])> {
            vec![$(($name::TABLE, $name::COLUMNS),)+]
        }
    };
}

records! {
    /// A flow that is complete, or alive at the time of asking.
    pub struct FlowRecord = "flows" {
        /// Number of the flow, in the order of arrival
        id: u64 = "1",
        /// Index of its section in the scenario's traffic list
        traffic: u32 = "1",
        /// Request it belongs to; null for none
        request: Option<u64> = "1",
        /// Sending host
        src: u32 = "1",
        /// Receiving host
        dst: u32 = "1",
        /// Payload
        bytes: u64 = "B",
        /// Arrival, from time 0, the end of the warm-up
        start_ps: Ps = "ps",
        /// FCT: from arrival until the sender has the last ACK; on Linux, until the receiver has the last byte; null: not complete
        fct_ps: Ps = "ps" MAY_BE_INCOMPLETE,
        /// From arrival until the receiver has the last byte; null: not complete
        receiver_fct_ps: Ps = "ps" MAY_BE_INCOMPLETE,
        /// FCT on an empty network
        ideal_ps: Ps = "ps",
        /// Retransmitted packets
        retransmitted: u32 = "packets",
        /// Retransmission timeouts
        timeouts: u32 = "1",
        /// Time that On-Ramp held the flow; on Linux 0
        paused_ps: Ps = "ps",
    }

    /// An incast request whose flows are all complete.
    pub struct RequestRecord = "requests" {
        /// Number of the request, in the order of arrival
        id: u64 = "1",
        /// Index of its section in the scenario's traffic list
        traffic: u32 = "1",
        /// Host that asked and receives
        requester: u32 = "1",
        /// Flows that answer it
        flows: u32 = "1",
        /// Payload of all answers
        bytes: u64 = "B",
        /// Arrival, from time 0, the end of the warm-up
        start_ps: Ps = "ps",
        /// RCT: from arrival until the last sender has its last ACK; on Linux, until the requester has the last byte
        rct_ps: Ps = "ps",
        /// From arrival until the requester has the last byte
        receiver_rct_ps: Ps = "ps",
    }

    /// A request and its answer, between programs.
    pub struct ExchangeRecord = "exchanges" {
        /// Index of its section in the scenario's traffic list
        traffic: u32 = "1",
        /// Number of the asking program in the section
        session: u32 = "1",
        /// Number in the session, in the order of asking
        number: u64 = "1",
        /// Host that asked
        client: u32 = "1",
        /// Host that answered; of several, the first
        server: u32 = "1",
        /// Payload of the answer, or of the block read or written
        bytes: u64 = "B",
        /// 1: a block was written
        write: bool = "1",
        /// Time of asking, from time 0, the end of the warm-up
        start_ps: Ps = "ps",
        /// From asking until the client has all of the answer
        latency_ps: Ps = "ps",
    }

    /// An operation of a rank of a distributed program.
    pub struct OperationRecord = "operations" {
        /// Index of its section in the scenario's traffic list
        traffic: u32 = "1",
        /// Rank, by its place in the section's list of hosts
        rank: u32 = "1",
        /// Host of the rank
        host: u32 = "1",
        /// Repetition of the program, from 0
        iteration: u32 = "1",
        /// Number of the operation in the rank's program, from 0
        number: u32 = "1",
        /// Kind: 0 computation, 1 send, 2 receive; else the rank's part in a collective: 3 all-reduce, 4 reduce-scatter, 5 all-gather, 6 broadcast, 7 reduce, 8 all-to-all
        kind: u32 = "1",
        /// Collective that it is a part of, numbered over all repetitions; null for none
        collective: Option<u64> = "1",
        /// Ranks that take part
        ranks: u32 = "1",
        /// Payload; of a collective the size of the whole buffer, as in nccl-tests
        bytes: u64 = "B",
        /// Start, from time 0, the end of the warm-up
        start_ps: Ps = "ps",
        /// From its start until it is complete at this rank
        duration_ps: Ps = "ps",
    }

    /// A collective whose parts are all complete.
    pub struct CollectiveRecord = "collectives" {
        /// Index of its section in the scenario's traffic list
        traffic: u32 = "1",
        /// Number in the section, over all repetitions
        number: u64 = "1",
        /// Operation: 3 all-reduce, 4 reduce-scatter, 5 all-gather, 6 broadcast, 7 reduce, 8 all-to-all
        kind: u32 = "1",
        /// Ranks that take part
        ranks: u32 = "1",
        /// Size of the whole buffer, as in nccl-tests
        bytes: u64 = "B",
        /// Start of the first rank, from time 0, the end of the warm-up
        start_ps: Ps = "ps",
        /// From the start of the first rank until that of the last
        skew_ps: Ps = "ps",
        /// From the start of the first rank until the last one is complete
        duration_ps: Ps = "ps",
        /// Host that was complete last
        last: u32 = "1",
        /// Bytes by duration; 0 of a single rank, which sends nothing
        algbw: f64 = "GB/s",
        /// algbw times what each rank has to send of the buffer, at least and by a ring: 2(n-1)/n for all-reduce
        busbw: f64 = "GB/s",
    }

    /// Payload that a flow without an end of its own has moved.
    pub struct GoodputRecord = "goodput" {
        /// Number of the flow, in the order of arrival
        id: u64 = "1",
        /// Index of its section in the scenario's traffic list
        traffic: u32 = "1",
        /// Sending host
        src: u32 = "1",
        /// Receiving host
        dst: u32 = "1",
        /// Beginning of the measured time, 0 or the flow's start, from time 0, the end of the warm-up
        start_ps: Ps = "ps",
        /// Measured time, up to the flow's stop; simulated, to the sampling interval
        duration_ps: Ps = "ps",
        /// Payload received in that time
        bytes: u64 = "B",
    }

    /// A link in one direction: what its port has sent from time 0 to the end of the run.
    pub struct LinkRecord = "links" {
        /// Node that sends on it
        from: u32 = "1",
        /// Node at its other end
        to: u32 = "1",
        /// Rate
        rate: u64 = "bit/s",
        /// Bytes of all packets sent, with headers
        bytes: u64 = "B",
        /// Packets sent; null in the simulator, which does not count them by link
        packets: Option<u64> = "packets",
        /// Share of the time that it was sending
        utilization: f64 = "1",
        /// Packets for which the port had no room
        drops: u64 = "packets",
        /// Packets lost on the way (`network.faults`, `packet_error_rate`)
        lost: u64 = "packets",
        /// Packets cut to their header
        trims: u64 = "packets",
        /// ECN-marked packets
        marked: u64 = "packets",
        /// PFC pauses of the port, over its classes
        pauses: u64 = "1",
        /// Time that PFC paused the port, over its classes
        paused_ps: Ps = "ps",
        /// Largest queue of the port when sampled, every `measure.interval`; 0 at hosts; null on Linux
        queue: Option<u64> = "B",
    }

    /// A PFC pause of a port's class, from time 0 to the end of the run.
    pub struct PauseRecord = "pauses" {
        /// Node whose port was paused
        from: u32 = "1",
        /// Node at the other end of the link, which paused it
        to: u32 = "1",
        /// Class, by its place in `switch.classes`, from 0
        class: u32 = "1",
        /// Start, or 0 for a pause that was under way then, from time 0, the end of the warm-up
        start_ps: Ps = "ps",
        /// Length; of a pause under way at the end of the run, until then
        duration_ps: Ps = "ps",
    }

    /// A message between programs: of a collective, a send, a request or an answer.
    pub struct MessageRecord = "messages" {
        /// Index of its section in the scenario's traffic list
        traffic: u32 = "1",
        /// Collective that it is a part of, numbered over all repetitions; null for none
        collective: Option<u64> = "1",
        /// Sending host
        src: u32 = "1",
        /// Receiving host
        dst: u32 = "1",
        /// Payload
        bytes: u64 = "B",
        /// Time at which it was handed to its connection or queue pair, from time 0, the end of the warm-up
        start_ps: Ps = "ps",
        /// From then until the receiver has all of it
        duration_ps: Ps = "ps",
    }

    /// One value of a time series.
    pub struct Sample = "series" {
        /// Time, from time 0, the end of the warm-up
        time_ps: Ps = "ps",
        /// Series, as an index of the run's series names
        series: u32 = "1",
        /// Value, in the unit of the series: queue B, utilization share, rate bit/s, owd ns, cwnd packets
        value: f64 = "by series",
    }

    /// The error of a host's clock.
    pub struct ClockRecord = "clock" {
        /// Time, from time 0, the end of the warm-up
        time_ps: Ps = "ps",
        /// Host whose clock it is
        host: u32 = "1",
        /// Lead over the mean of all hosts, after correction
        error_ns: f64 = "ns",
        /// Standard deviation of the error, as the host knows it
        uncertainty_ns: f64 = "ns",
    }

    /// A sampled data packet, beside the one of its flow acknowledged before it left.
    pub struct NextRecord = "next_owd" {
        /// Time at which the packet left, from time 0, the end of the warm-up
        time_ps: Ps = "ps",
        /// Sending host
        src: u32 = "1",
        /// Receiving host
        dst: u32 = "1",
        /// Measured one-way delay of the packet acknowledged last before it left
        owd_ns: i32 = "ns",
        /// Round-trip time of that packet
        rtt_ns: u64 = "ns",
        /// True one-way delay of the packet itself
        next_owd_ns: u64 = "ns",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    records! {
        /// A record with a column of its own.
        pub struct Extended = "extended" {
            /// Number
            id: u64 = "1",
            /// Request it belongs to
            request: Option<u64> = "1",
            /// New column
            hops: u32 = "links",
        }
    }

    #[test]
    fn a_column_is_described_once() {
        let hops = Extended::COLUMNS[2];
        let expected = Column { name: "hops", kind: "<u4", unit: "links", meaning: "New column", nullable: false };
        assert_eq!(hops, expected);
        let rows = [Extended { id: 7, request: None, hops: 3 }, Extended { id: 8, request: Some(2), hops: 4 }];
        let columns = Extended::columns(&rows);
        let bytes = |values: [u64; 2]| values.map(u64::to_le_bytes).concat();
        assert_eq!(columns, [bytes([7, 8]), bytes([u64::MAX, 2]), [3u32, 4].map(u32::to_le_bytes).concat()]);
        assert_eq!(tables(), [("extended", Extended::COLUMNS)]);
    }

    #[test]
    fn tables_have_units_and_meanings() {
        for (table, columns) in super::tables() {
            let distinct: std::collections::BTreeSet<_> = columns.iter().map(|column| column.name).collect();
            assert_eq!(distinct.len(), columns.len(), "{table}");
            for column in columns {
                assert!(!column.unit.is_empty() && !column.meaning.is_empty(), "{table}.{}", column.name);
            }
        }
        let nullable: Vec<_> = FlowRecord::COLUMNS.iter().filter(|c| c.nullable).map(|c| c.name).collect();
        assert_eq!(nullable, ["request", "fct_ps", "receiver_fct_ps"]);
    }
}
