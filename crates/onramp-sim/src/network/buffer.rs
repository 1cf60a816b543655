//! The shared buffer of a switch: dynamic thresholds (Choudhury and Hahne), with
//! PFC and headroom, or with drops.
//!
//! PFC accounts bytes to the ingress port they came from: first to the port's
//! reserve, then to the shared pool up to the dynamic threshold, then to the
//! headroom. Lossy switches compare the egress queue with the threshold.

use crate::scenario::Loss;

/// α and thresholds as multiples of 2^-16: integers, so that admission never
/// depends on rounding.
const ALPHA_ONE: u64 = 1 << 16;

/// One switch's buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    loss: Loss,
    size: u64,
    /// What the dynamic thresholds share: the buffer less reserves and headroom.
    shared: u64,
    shared_used: u64,
    used: u64,
    xon_offset: u64,
}

/// Accounts of one ingress port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ingress {
    /// Bytes in reserve and shared pool.
    bytes: u64,
    headroom_used: u64,
    headroom: u64,
    reserve: u64,
    alpha: u64,
    /// The upstream port has been told to pause.
    pub paused_upstream: bool,
}

impl Ingress {
    /// A port with its limits in bytes and its α.
    pub fn new(reserve: u64, headroom: u64, alpha: f64) -> Self {
        Self { reserve, headroom, alpha: (alpha * ALPHA_ONE as f64) as u64, ..Self::default() }
    }

    fn shared(&self) -> u64 {
        self.bytes.saturating_sub(self.reserve)
    }
}

/// What happens to an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// No room: it is lost.
    Drop,
    /// It is queued.
    Accept,
    /// It is queued, and the upstream port must pause.
    Pause,
}

impl Buffer {
    /// A buffer of `size` bytes of which `set_aside` (reserves and headroom) are
    /// not shared.
    pub fn new(loss: Loss, size: u64, set_aside: u64, xon_offset: u64) -> Self {
        Self { loss, size, shared: size - set_aside, shared_used: 0, used: 0, xon_offset }
    }

    /// Bytes in the buffer.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Size of the buffer in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The dynamic threshold: α times what is free of the shared pool.
    #[inline]
    fn threshold(&self, alpha: u64) -> u64 {
        ((u128::from(self.shared - self.shared_used) * u128::from(alpha)) >> 16) as u64
    }

    /// Takes in a packet of `size` bytes from `port`, meant for an egress queue
    /// of `egress` bytes. What PFC cannot hold back (`pausable` false) is a
    /// priority group of its own, limited only by the pool.
    #[inline]
    pub fn admit(&mut self, port: &mut Ingress, egress: u64, size: u64, pausable: bool) -> Admission {
        let threshold = self.threshold(port.alpha);
        if self.loss == Loss::Lossy {
            if egress + size > threshold || self.used + size > self.size {
                return Admission::Drop;
            }
            self.used += size;
            self.shared_used += size;
            return Admission::Accept;
        }
        if !pausable {
            if self.shared_used + size > self.shared {
                return Admission::Drop;
            }
            self.used += size;
            self.shared_used += size;
            return Admission::Accept;
        }
        let shared = (port.bytes + size).saturating_sub(port.reserve);
        if shared > threshold {
            if port.headroom_used + size > port.headroom {
                return Admission::Drop;
            }
            port.headroom_used += size;
        } else {
            self.shared_used += shared - port.shared();
            port.bytes += size;
        }
        self.used += size;
        let over = port.headroom_used > 0 || port.shared() >= self.threshold(port.alpha);
        if over && !port.paused_upstream {
            port.paused_upstream = true;
            return Admission::Pause;
        }
        Admission::Accept
    }

    /// Lets a packet of `size` bytes that came from `port` go. True: the
    /// upstream port may resume.
    #[inline]
    pub fn release(&mut self, port: &mut Ingress, size: u64, pausable: bool) -> bool {
        self.used -= size;
        if self.loss == Loss::Lossy || !pausable {
            self.shared_used -= size;
            return false;
        }
        let from_headroom = port.headroom_used.min(size);
        let before = port.shared();
        port.headroom_used -= from_headroom;
        port.bytes -= size - from_headroom;
        self.shared_used -= before - port.shared();
        if !port.paused_upstream || port.headroom_used > 0 {
            return false;
        }
        let shared = port.shared();
        let resume = shared == 0 || shared + self.xon_offset <= self.threshold(port.alpha);
        port.paused_upstream = !resume;
        resume
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 9000 B shared, α = 1/8: one port alone reaches its threshold T where
    /// T = (9000 − T)/8, at 1000 B (a ninth of the pool).
    fn pfc() -> (Buffer, Ingress) {
        (Buffer::new(Loss::Pfc, 10_000, 1_000, 100), Ingress::new(200, 800, 0.125))
    }

    #[test]
    fn the_reserve_comes_first_then_the_shared_pool_then_headroom() {
        let (mut buffer, mut port) = pfc();
        assert_eq!(buffer.admit(&mut port, 0, 200, true), Admission::Accept);
        assert_eq!((buffer.shared_used, port.headroom_used), (0, 0));
        for _ in 0..9 {
            assert_eq!(buffer.admit(&mut port, 0, 100, true), Admission::Accept);
        }
        assert_eq!((buffer.shared_used, port.headroom_used), (900, 0));
        // 1000 B are not above the threshold of (9000 − 900)/8 = 1012, so they are
        // shared; then the threshold is 1000 and reached: pause.
        assert_eq!(buffer.admit(&mut port, 0, 100, true), Admission::Pause);
        assert_eq!((buffer.shared_used, port.headroom_used), (1_000, 0));
        // Now headroom, without a second pause.
        assert_eq!(buffer.admit(&mut port, 0, 100, true), Admission::Accept);
        assert_eq!((buffer.shared_used, port.headroom_used), (1_000, 100));
    }

    #[test]
    fn only_a_full_headroom_drops() {
        let (mut buffer, mut port) = pfc();
        let mut admitted = 0;
        while buffer.admit(&mut port, 0, 100, true) != Admission::Drop {
            admitted += 100;
        }
        assert_eq!(admitted, 200 + 1_000 + 800);
        assert_eq!(buffer.used(), admitted);
    }

    #[test]
    fn resume_comes_an_offset_below_the_threshold_and_with_empty_headroom() {
        let (mut buffer, mut port) = pfc();
        for _ in 0..14 {
            buffer.admit(&mut port, 0, 100, true);
        }
        assert!(port.paused_upstream);
        assert_eq!((buffer.shared_used, port.headroom_used), (1_000, 200));
        // Two packets empty the headroom; 1000 + 100 <= (9000 − 1000)/8 does not hold.
        assert!(!buffer.release(&mut port, 100, true));
        assert!(!buffer.release(&mut port, 100, true));
        // 900 + 100 <= (9000 − 900)/8 = 1012 does.
        assert!(buffer.release(&mut port, 100, true));
        assert!(!port.paused_upstream);
        // Only once.
        assert!(!buffer.release(&mut port, 100, true));
    }

    #[test]
    fn a_port_pauses_sooner_while_others_fill_the_pool() {
        let (mut buffer, mut port) = pfc();
        let mut other = Ingress::new(0, 0, 1.0);
        while buffer.shared_used < 4_500 {
            buffer.admit(&mut other, 0, 100, true);
        }
        // T = (4500 − x)/8 = x at 500 B, after the reserve of 200 B.
        let mut admitted = 0;
        while buffer.admit(&mut port, 0, 50, true) != Admission::Pause {
            admitted += 50;
        }
        assert_eq!(admitted + 50, 700);
    }

    #[test]
    fn a_lossy_buffer_compares_the_egress_queue_with_its_share() {
        let mut buffer = Buffer::new(Loss::Lossy, 10_000, 0, 0);
        let mut port = Ingress::new(0, 0, 1.0);
        let mut queue = 0;
        while buffer.admit(&mut port, queue, 100, true) == Admission::Accept {
            queue += 100;
        }
        // α = 1: one queue alone gets half of the buffer.
        assert_eq!(queue, 5_000);
        assert!(!buffer.release(&mut port, 100, true));
        assert_eq!(buffer.used(), 4_900);
    }

    #[test]
    fn a_lossy_threshold_falls_as_other_queues_fill_the_buffer() {
        let mut buffer = Buffer::new(Loss::Lossy, 12_000, 0, 0);
        let mut port = Ingress::new(0, 0, 1.0);
        let mut fill = |buffer: &mut Buffer| {
            let mut queue = 0;
            while buffer.admit(&mut port, queue, 100, true) == Admission::Accept {
                queue += 100;
            }
            queue
        };
        // x = 12000 − x, then x = 6000 − x, then x = 3000 − x.
        assert_eq!([fill(&mut buffer), fill(&mut buffer), fill(&mut buffer)], [6_000, 3_000, 1_500]);
    }

    #[test]
    fn what_cannot_be_paused_takes_from_the_pool_and_gives_back() {
        let (mut buffer, mut port) = pfc();
        for _ in 0..90 {
            assert_eq!(buffer.admit(&mut port, 0, 100, false), Admission::Accept);
        }
        // The pool is full; what can be paused still has reserve and headroom.
        assert_eq!(buffer.admit(&mut port, 0, 100, false), Admission::Drop);
        assert_eq!(buffer.admit(&mut port, 0, 200, true), Admission::Pause);
        for _ in 0..90 {
            assert!(!buffer.release(&mut port, 100, false));
        }
        assert_eq!((buffer.used(), buffer.shared_used), (200, 0));
        assert!(buffer.release(&mut port, 200, true), "the port was paused, so it must be resumed");
    }

    #[test]
    fn what_comes_in_goes_out_again_whatever_the_order() {
        let (mut buffer, mut port) = pfc();
        let mut inside = std::collections::VecDeque::new();
        for i in 0..10_000u64 {
            let size = 40 + i * 7919 % 400;
            if i % 3 != 0 {
                if buffer.admit(&mut port, 0, size, true) != Admission::Drop {
                    inside.push_back(size);
                }
            } else if let Some(size) = inside.pop_front() {
                buffer.release(&mut port, size, true);
            }
            assert_eq!(buffer.used(), inside.iter().sum::<u64>());
            assert!(buffer.used() <= buffer.size());
        }
        for size in inside {
            buffer.release(&mut port, size, true);
        }
        assert_eq!((buffer.used(), buffer.shared_used, port.bytes, port.headroom_used), (0, 0, 0, 0));
    }
}
