//! The shared buffer of a switch: dynamic thresholds (Choudhury and Hahne), with
//! PFC and headroom, or with drops.
//!
//! PFC accounts bytes to the ingress port and class they came from: first to the
//! reserve, then to the shared pool up to the dynamic threshold, then to the
//! headroom. Lossy classes compare the egress queue with the threshold.

use onramp_workload::state::Encoder;

/// α and thresholds as multiples of 2^-16: integers, so that admission never
/// depends on rounding.
const ALPHA_ONE: f64 = 65_536.0;

/// A dynamic threshold factor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alpha(u64);

impl Alpha {
    /// Set in a threshold that does not depend on what is free.
    const FIXED: u64 = 1 << 63;

    /// To the nearest 2^-16 below.
    pub fn new(alpha: f64) -> Self {
        Self((alpha * ALPHA_ONE) as u64)
    }

    /// A threshold of so many bytes, whatever is free.
    pub fn fixed(bytes: u64) -> Self {
        Self(Self::FIXED | bytes)
    }
}

/// One switch's buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    size: u64,
    /// Bytes that the dynamic thresholds share: the buffer less reserves and headroom.
    shared: u64,
    shared_used: u64,
    used: u64,
    xon_offset: u64,
}

/// Accounts of one class of one ingress port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ingress {
    /// Bytes in reserve and shared pool.
    bytes: u64,
    headroom_used: u64,
    headroom: u64,
    reserve: u64,
    alpha: Alpha,
    /// The upstream port has been told to pause.
    pub paused_upstream: bool,
}

impl Ingress {
    /// Its limits in bytes and its α.
    pub fn new(reserve: u64, headroom: u64, alpha: Alpha) -> Self {
        Self { reserve, headroom, alpha, ..Self::default() }
    }

    fn shared(&self) -> u64 {
        self.bytes.saturating_sub(self.reserve)
    }

    /// Takes down its accounts.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { bytes, headroom_used, headroom: _, reserve: _, alpha: _, paused_upstream } = *self;
        state.word(bytes);
        state.word(headroom_used);
        state.word(paused_upstream);
    }
}

/// Who bears the bytes of a packet.
#[derive(Debug)]
pub enum Account<'a> {
    /// The class of an ingress port, which PFC holds back.
    Pfc(&'a mut Ingress),
    /// An egress queue of this many bytes with its α: what is over its threshold is dropped.
    Lossy(u64, Alpha),
    /// The pool alone: what is never held back.
    Pool,
}

/// Decision on an arriving packet.
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
    pub fn new(size: u64, set_aside: u64, xon_offset: u64) -> Self {
        Self { size, shared: size - set_aside, shared_used: 0, used: 0, xon_offset }
    }

    /// Takes down what is used of it.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { size: _, shared: _, shared_used, used, xon_offset: _ } = *self;
        state.word(shared_used);
        state.word(used);
    }

    /// Bytes in the buffer.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Size of the buffer in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn free(&self) -> u64 {
        self.shared - self.shared_used
    }

    /// The dynamic threshold, α times what is free of the shared pool, or a fixed one.
    #[inline]
    fn threshold(&self, alpha: Alpha) -> u64 {
        if alpha.0 & Alpha::FIXED != 0 {
            return alpha.0 & !Alpha::FIXED;
        }
        ((u128::from(self.free()) * u128::from(alpha.0)) >> 16) as u64
    }

    /// Takes in a packet of `size` bytes.
    #[inline(always)]
    pub fn admit(&mut self, account: Account<'_>, size: u64) -> Admission {
        let port = match account {
            Account::Pfc(port) => port,
            Account::Lossy(egress, alpha) => {
                let fits = egress + size <= self.threshold(alpha) && size <= self.free();
                return self.pooled(fits, size);
            }
            Account::Pool => return self.pooled(size <= self.free(), size),
        };
        let shared = (port.bytes + size).saturating_sub(port.reserve);
        let more = shared - port.shared();
        // With α above 1 the threshold may be more than what is free.
        if shared > self.threshold(port.alpha) || more > self.free() {
            if port.headroom_used + size > port.headroom {
                return Admission::Drop;
            }
            port.headroom_used += size;
        } else {
            self.shared_used += more;
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

    fn pooled(&mut self, fits: bool, size: u64) -> Admission {
        if !fits {
            return Admission::Drop;
        }
        self.used += size;
        self.shared_used += size;
        Admission::Accept
    }

    /// Lets a packet of `size` bytes go. True: the upstream port may resume.
    #[inline(always)]
    pub fn release(&mut self, account: Account<'_>, size: u64) -> bool {
        self.used -= size;
        let Account::Pfc(port) = account else {
            self.shared_used -= size;
            return false;
        };
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

    const ONE: Alpha = Alpha(65_536);

    /// 9000 B shared, α = 1/8: one port alone reaches its threshold T where
    /// T = (9000 − T)/8, at 1000 B (a ninth of the pool).
    fn pfc() -> (Buffer, Ingress) {
        (Buffer::new(10_000, 1_000, 100), Ingress::new(200, 800, Alpha::new(0.125)))
    }

    #[test]
    fn a_fixed_threshold_is_the_same_however_full_the_buffer_is() {
        let (mut buffer, limit) = (Buffer::new(10_000, 0, 0), Alpha::fixed(3000));
        for queue in [0, 1000, 2000, 0, 1000, 2000] {
            assert_eq!(buffer.admit(Account::Lossy(queue, limit), 1000), Admission::Accept);
        }
        assert_eq!(buffer.admit(Account::Lossy(2001, limit), 1000), Admission::Drop);
        // Nor is there more than the buffer has.
        assert_eq!(buffer.admit(Account::Lossy(0, Alpha::fixed(9000)), 5000), Admission::Drop);
    }

    #[test]
    fn the_reserve_comes_first_then_the_shared_pool_then_headroom() {
        let (mut buffer, mut port) = pfc();
        assert_eq!(buffer.admit(Account::Pfc(&mut port), 200), Admission::Accept);
        assert_eq!((buffer.shared_used, port.headroom_used), (0, 0));
        for _ in 0..9 {
            assert_eq!(buffer.admit(Account::Pfc(&mut port), 100), Admission::Accept);
        }
        assert_eq!((buffer.shared_used, port.headroom_used), (900, 0));
        // 1000 B are not above the threshold of (9000 − 900)/8 = 1012, so they are
        // shared; then the threshold is 1000 and reached: pause.
        assert_eq!(buffer.admit(Account::Pfc(&mut port), 100), Admission::Pause);
        assert_eq!((buffer.shared_used, port.headroom_used), (1_000, 0));
        // Now headroom, without a second pause.
        assert_eq!(buffer.admit(Account::Pfc(&mut port), 100), Admission::Accept);
        assert_eq!((buffer.shared_used, port.headroom_used), (1_000, 100));
    }

    #[test]
    fn only_a_full_headroom_drops() {
        let (mut buffer, mut port) = pfc();
        let mut admitted = 0;
        while buffer.admit(Account::Pfc(&mut port), 100) != Admission::Drop {
            admitted += 100;
        }
        assert_eq!(admitted, 200 + 1_000 + 800);
        assert_eq!(buffer.used(), admitted);
    }

    #[test]
    fn resume_comes_an_offset_below_the_threshold_and_with_empty_headroom() {
        let (mut buffer, mut port) = pfc();
        for _ in 0..14 {
            buffer.admit(Account::Pfc(&mut port), 100);
        }
        assert!(port.paused_upstream);
        assert_eq!((buffer.shared_used, port.headroom_used), (1_000, 200));
        // Two packets empty the headroom; 1000 + 100 <= (9000 − 1000)/8 does not hold.
        assert!(!buffer.release(Account::Pfc(&mut port), 100));
        assert!(!buffer.release(Account::Pfc(&mut port), 100));
        // 900 + 100 <= (9000 − 900)/8 = 1012 does.
        assert!(buffer.release(Account::Pfc(&mut port), 100));
        assert!(!port.paused_upstream);
        // Only once.
        assert!(!buffer.release(Account::Pfc(&mut port), 100));
    }

    #[test]
    fn a_port_pauses_sooner_while_others_fill_the_pool() {
        let (mut buffer, mut port) = pfc();
        let mut other = Ingress::new(0, 0, Alpha::new(1.0));
        while buffer.shared_used < 4_500 {
            buffer.admit(Account::Pfc(&mut other), 100);
        }
        // T = (4500 − x)/8 = x at 500 B, after the reserve of 200 B.
        let mut admitted = 0;
        while buffer.admit(Account::Pfc(&mut port), 50) != Admission::Pause {
            admitted += 50;
        }
        assert_eq!(admitted + 50, 700);
    }

    #[test]
    fn a_lossy_buffer_compares_the_egress_queue_with_its_share() {
        let mut buffer = Buffer::new(10_000, 0, 0);
        let mut queue = 0;
        while buffer.admit(Account::Lossy(queue, ONE), 100) == Admission::Accept {
            queue += 100;
        }
        // α = 1: one queue alone gets half of the buffer.
        assert_eq!(queue, 5_000);
        assert!(!buffer.release(Account::Lossy(queue, ONE), 100));
        assert_eq!(buffer.used(), 4_900);
    }

    #[test]
    fn a_lossy_threshold_falls_as_other_queues_fill_the_buffer() {
        let mut buffer = Buffer::new(12_000, 0, 0);
        let fill = |buffer: &mut Buffer| {
            let mut queue = 0;
            while buffer.admit(Account::Lossy(queue, ONE), 100) == Admission::Accept {
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
            assert_eq!(buffer.admit(Account::Pool, 100), Admission::Accept);
        }
        // The pool is full; what can be paused still has reserve and headroom.
        assert_eq!(buffer.admit(Account::Pool, 100), Admission::Drop);
        assert_eq!(buffer.admit(Account::Pfc(&mut port), 200), Admission::Pause);
        for _ in 0..90 {
            assert!(!buffer.release(Account::Pool, 100));
        }
        assert_eq!((buffer.used(), buffer.shared_used), (200, 0));
        assert!(buffer.release(Account::Pfc(&mut port), 200), "the port was paused, so it must be resumed");
    }

    #[test]
    fn what_comes_in_goes_out_again_whatever_the_order() {
        let (mut buffer, mut port) = pfc();
        let mut inside = std::collections::VecDeque::new();
        for i in 0..10_000u64 {
            let size = 40 + i * 7919 % 400;
            if i % 3 != 0 {
                if buffer.admit(Account::Pfc(&mut port), size) != Admission::Drop {
                    inside.push_back(size);
                }
            } else if let Some(size) = inside.pop_front() {
                buffer.release(Account::Pfc(&mut port), size);
            }
            assert_eq!(buffer.used(), inside.iter().sum::<u64>());
            assert!(buffer.used() <= buffer.size());
        }
        for size in inside {
            buffer.release(Account::Pfc(&mut port), size);
        }
        assert_eq!((buffer.used(), buffer.shared_used, port.bytes, port.headroom_used), (0, 0, 0, 0));
    }

    #[test]
    fn an_alpha_above_one_never_takes_more_than_there_is() {
        let mut buffer = Buffer::new(1_000, 0, 0);
        let mut ports = [Ingress::new(0, 0, Alpha::new(4.0)); 3];
        let mut inside = 0;
        for i in 0..60 {
            if buffer.admit(Account::Pfc(&mut ports[i % 3]), 70) != Admission::Drop {
                inside += 70;
            }
            assert_eq!(buffer.shared_used, inside);
            assert!(inside <= 1_000);
        }
        assert_eq!(inside, 980);
    }
}
