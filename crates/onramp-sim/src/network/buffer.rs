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
    /// of `egress` bytes.
    #[inline]
    pub fn admit(&mut self, port: &mut Ingress, egress: u64, size: u64) -> Admission {
        let threshold = self.threshold(port.alpha);
        if self.loss == Loss::Lossy {
            if egress + size > threshold || self.used + size > self.size {
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
    pub fn release(&mut self, port: &mut Ingress, size: u64) -> bool {
        self.used -= size;
        if self.loss == Loss::Lossy {
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
