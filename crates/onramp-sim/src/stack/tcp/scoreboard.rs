//! Segments sent and not acknowledged: as they were handed down, cut where the other end has some of one and not the
//! rest.

use onramp_config::units::{NS, Ps, US};
use std::collections::VecDeque;

/// The other end has it (SACK).
pub const SACKED: u8 = 1;
/// It is taken for lost.
pub const LOST: u8 = 2;
/// It is under way again.
pub const RESENT: u8 = 4;
/// It has been sent more than once.
pub const EVER_RESENT: u8 = 8;
/// Its last byte left with a push.
pub const PUSHED: u8 = 16;

/// A segment. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// First byte, and one beyond its last.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// [`SACKED`], [`LOST`], [`RESENT`], [`EVER_RESENT`], [`PUSHED`].
    pub marks: u8,
    /// It ends what the application wrote.
    pub push: bool,
    /// When it was last sent, the nanoseconds beyond, and after how many packets.
    pub sent_us: u64,
    /// See `sent_us`.
    pub sent_ns: u16,
    /// See `sent_us`.
    pub sent_after: u64,
    /// Packets delivered by then, and when, and when the first packet was sent that counts; 0 once it has been used.
    pub delivered: u64,
    /// See `delivered`.
    pub delivered_us: u64,
    /// See `delivered`.
    pub first_sent_us: u64,
    /// The application had nothing more to send then.
    pub app_limited: bool,
}

impl Chunk {
    /// When it was last sent.
    pub fn sent(&self) -> Ps {
        self.sent_us * US + u64::from(self.sent_ns) * NS
    }

    /// Packets of `mss` bytes.
    pub fn packets(&self, mss: u32) -> u32 {
        (self.end - self.start).div_ceil(u64::from(mss)) as u32
    }

    /// It leaves as so many packets; whether its last byte does with a push.
    pub fn leaves(&mut self, packets: u32) -> bool {
        let push = self.push || packets > 1;
        if push {
            self.marks |= PUSHED;
        }
        push
    }

    /// All of these marks are on it.
    pub fn has(&self, marks: u8) -> bool {
        self.marks & marks == marks
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    /// In order.
    pub chunks: VecDeque<Chunk>,
    /// One beyond the last byte of the last one that is selectively acknowledged.
    pub highest: u64,
}

impl Scoreboard {
    /// Cuts the chunk `i` so that `at` is the first byte of the next one.
    pub fn cut(&mut self, i: usize, at: u64) {
        let first = &mut self.chunks[i];
        debug_assert!(first.start < at && at < first.end);
        let rest = Chunk { start: at, ..first.clone() };
        first.end = at;
        first.push = false;
        first.marks &= !PUSHED;
        self.chunks.insert(i + 1, rest);
    }

    /// The first chunk that ends beyond `seq`.
    pub fn at(&self, seq: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.end <= seq)
    }

    /// The chunks that lie within a block of bytes, once those at its ends are cut at multiples of `mss`.
    pub fn within(&mut self, start: u64, end: u64, mss: u32) -> std::ops::Range<usize> {
        let mss = u64::from(mss);
        let mut first = self.at(start);
        if let Some(chunk) = self.chunks.get(first).filter(|chunk| chunk.start < start) {
            // Of a packet that is only partly there the whole counts as missing.
            let at = chunk.start + (start - chunk.start).div_ceil(mss) * mss;
            if at < chunk.end {
                self.cut(first, at);
            }
            first += 1;
        }
        let mut last = self.at(end);
        if let Some(chunk) = self.chunks.get(last).filter(|chunk| chunk.start < end) {
            let at = chunk.start + (end - chunk.start) / mss * mss;
            if at > chunk.start {
                self.cut(last, at);
                last += 1;
            }
        }
        first..last.max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(segments: &[(u64, u64)]) -> Scoreboard {
        let chunk = |&(start, end)| Chunk {
            start,
            end,
            marks: 0,
            push: true,
            sent_us: 7,
            sent_ns: 0,
            sent_after: 0,
            delivered: 0,
            delivered_us: 0,
            first_sent_us: 0,
            app_limited: false,
        };
        Scoreboard { chunks: segments.iter().map(chunk).collect(), highest: 0 }
    }

    #[test]
    fn a_block_inside_a_segment_cuts_it_in_three() {
        let mut board = sent(&[(0, 1000), (1000, 5000), (5000, 6000)]);
        assert_eq!(board.within(2000, 3000, 1000), 2..3);
        let parts: Vec<_> = board.chunks.iter().map(|c| (c.start, c.end, c.push)).collect();
        assert_eq!(
            parts,
            [(0, 1000, true), (1000, 2000, false), (2000, 3000, false), (3000, 5000, true), (5000, 6000, true)]
        );
    }

    #[test]
    fn a_block_over_several_takes_whole_ones() {
        let mut board = sent(&[(0, 1000), (1000, 5000), (5000, 6000)]);
        assert_eq!(board.within(1000, 6000, 1000), 1..3);
        assert_eq!(board.within(6000, 7000, 1000), 3..3);
        assert_eq!(board.chunks.len(), 3);
    }

    #[test]
    fn a_packet_that_is_partly_there_is_missing() {
        let mut board = sent(&[(0, 3000)]);
        assert_eq!(board.within(500, 2500, 1000), 1..2);
        let parts: Vec<_> = board.chunks.iter().map(|c| (c.start, c.end)).collect();
        assert_eq!(parts, [(0, 1000), (1000, 2000), (2000, 3000)]);
    }
}
