//! Records of in-band network telemetry (INT) in HPCC's format and resolution.

/// Record of one switch: 64 bits on the wire.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Hop {
    /// Nanoseconds, 24 bits.
    time: u32,
    /// Bytes sent by the port before this packet, in units of [`Units::tx`], 20 bits.
    tx: u32,
    /// Bytes queued at the port behind this packet, in units of [`Units::queue`], 17 bits.
    queue: u32,
    /// The port's rate in Mb/s. (A 3-bit code on the wire; kept in full here so that every rate is possible.)
    rate: u32,
}

/// How many bytes the counters count in: both grow with the host rate so that they do not wrap sooner.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Unit of the transmitted bytes.
    pub tx: u64,
    /// Unit of the queue.
    pub queue: u64,
}

impl Units {
    /// 128 B and 80 B per 25 Gb/s of host rate.
    pub fn new(line_rate: f64) -> Self {
        let scale = ((line_rate / 25e9) as u64).max(1);
        Self { tx: 128 * scale, queue: 80 * scale }
    }
}

const TIME_MASK: u32 = (1 << 24) - 1;
const TX_MASK: u32 = (1 << 20) - 1;
const QUEUE_MAX: u64 = (1 << 17) - 1;

impl Hop {
    /// Record that a port of `rate` (bit/s) writes at `now_ns`.
    #[inline]
    pub fn new(units: Units, now_ns: u64, tx_bytes: u64, queue_bytes: u64, rate: u64) -> Self {
        Self {
            time: now_ns as u32 & TIME_MASK,
            tx: (tx_bytes / units.tx) as u32 & TX_MASK,
            queue: (queue_bytes / units.queue).min(QUEUE_MAX) as u32,
            rate: (rate / 1_000_000) as u32,
        }
    }

    /// Time since an earlier record of the same port, in seconds.
    #[inline]
    pub fn seconds_since(&self, earlier: &Hop) -> f64 {
        f64::from(self.time.wrapping_sub(earlier.time) & TIME_MASK) * 1e-9
    }

    /// Bytes sent since an earlier record of the same port.
    #[inline]
    pub fn bytes_since(&self, units: Units, earlier: &Hop) -> u64 {
        u64::from(self.tx.wrapping_sub(earlier.tx) & TX_MASK) * units.tx
    }

    /// Queue in bytes.
    #[inline]
    pub fn queue_bytes(&self, units: Units) -> u64 {
        u64::from(self.queue) * units.queue
    }

    /// The port's rate in bit/s.
    #[inline]
    pub fn rate(&self) -> f64 {
        f64::from(self.rate) * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_and_saturate_as_on_the_wire() {
        let units = Units::new(100e9);
        assert_eq!((units.tx, units.queue), (512, 320));
        let wrap = units.tx << 20;
        let a = Hop::new(units, (1 << 24) - 100, wrap - 5 * 512, 3_300, 400_000_000_000);
        let b = Hop::new(units, (1 << 24) + 100, wrap + 5 * 512, u64::MAX, 400_000_000_000);
        assert_eq!(b.seconds_since(&a), 200.0 * 1e-9);
        assert_eq!(b.bytes_since(units, &a), 10 * 512);
        assert_eq!(a.queue_bytes(units), 3_200);
        assert_eq!(b.queue_bytes(units), QUEUE_MAX * 320);
        assert_eq!(a.rate(), 4e11);
    }
}
