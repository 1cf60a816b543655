//! The delivery rate, as controllers are told of it.

use super::Tx;
use crate::cc::tcp::Sample;
use crate::stack::tcp::scoreboard::Chunk;
use onramp_config::units::US;

/// The delivery rate of what was acknowledged (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    pub prior_delivered: u64,
    pub prior_us: u64,
    pub app_limited: bool,
    pub last_end: u64,
    pub send_us: u64,
}

impl Tx {
    pub(super) fn rate_of(&mut self, chunk: &Chunk, rate: &mut Rate) {
        if chunk.delivered_us == 0 {
            return;
        }
        let newer = (chunk.sent_us, chunk.end) > (self.first_sent_us, rate.last_end);
        if rate.prior_us == 0 || newer {
            *rate = Rate {
                prior_delivered: chunk.delivered,
                prior_us: chunk.delivered_us,
                app_limited: chunk.app_limited,
                last_end: chunk.end,
                send_us: chunk.sent_us.saturating_sub(chunk.first_sent_us),
            };
            self.first_sent_us = chunk.sent_us;
        }
    }

    pub(super) fn rate(&mut self, sample: &mut Sample, rate: &Rate) {
        let w = &mut self.window;
        if w.app_limited > 0 && w.delivered > w.app_limited {
            w.app_limited = 0;
        }
        let now = w.now / US;
        if sample.acked > 0 {
            self.delivered_us = now;
        }
        sample.prior_delivered = rate.prior_delivered;
        sample.app_limited = rate.app_limited;
        if rate.prior_us == 0 {
            return;
        }
        let interval = rate.send_us.max(now.saturating_sub(rate.prior_us)) as u32;
        sample.delivered = Some((self.window.delivered - rate.prior_delivered) as u32);
        sample.interval_us = if interval < self.rtt.min { 0 } else { interval };
    }
}
