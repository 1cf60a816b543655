//! Measurements that a cell makes by itself.

use super::{Delays, Echo, NextOwd, Shaped};
use onramp_config::units::{NS, Ps};
use onramp_records::Sample;
use onramp_workload::state::Encoder;

/// Counts from time 0 on, but for the samples of series.
#[derive(Debug)]
pub struct Meter {
    origin: Ps,
    /// One-way delays of data packets by the hosts' clocks.
    pub owd: Delays,
    /// Queueing delay at switch ports, over ports and samples.
    pub queue: Delays,
    /// Round trips by traffic section, if wanted: from a packet's leaving to its acknowledgement.
    rtts: Vec<Delays>,
    /// One-way delays of host pairs that are recorded one by one.
    pub samples: Vec<Sample>,
    /// Delays of packets beside those of the ones acknowledged before, if wanted.
    pub next: Option<NextOwd>,
    /// How well flows keep to their rates, if wanted.
    pub shaped: Option<Box<Shaped>>,
    /// Delays of repetitions of the present, while they are foreseen, or its own where the engine's nanoseconds begin at
    /// other times than the scenario's.
    pub echo: Option<Box<Echo>>,
}

impl Meter {
    /// Nothing is seen yet; time 0 is at `origin`, and so many sections' round trips are wanted.
    pub fn new(origin: Ps, next: Option<NextOwd>, shaped: Option<Shaped>, sections: usize) -> Self {
        let (rtts, shaped) = (vec![Delays::default(); sections], shaped.map(Box::new));
        Self {
            origin,
            owd: Delays::default(),
            queue: Delays::default(),
            rtts,
            samples: Vec::new(),
            next,
            shaped,
            echo: None,
        }
    }

    /// A data packet's measured one-way delay.
    #[inline]
    pub fn owd(&mut self, series: Option<u32>, now: Ps, owd_ns: i32) {
        self.owd.record(i64::from(owd_ns));
        if let Some(series) = series
            && now >= self.origin
        {
            self.samples.push(Sample { time_ps: now - self.origin, series, value: f64::from(owd_ns) });
        }
    }

    /// A packet of a section was acknowledged.
    #[inline]
    pub fn rtt(&mut self, section: u32, rtt: Ps) {
        if !self.rtts.is_empty() {
            self.record_rtt(section, rtt);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_rtt(&mut self, section: u32, rtt: Ps) {
        self.rtts[section as usize].record((rtt / NS) as i64);
    }

    /// By section; none if they are not wanted.
    pub fn rtts(&self) -> &[Delays] {
        &self.rtts
    }

    /// The queue of a switch port takes so long to send.
    pub fn queue(&mut self, delay: Ps) {
        self.queue.record((delay / NS) as i64);
    }

    /// Queues of so many ports take so long to send, in repetitions of the present.
    pub fn echo_queue(&mut self, delay: Ps, count: u64) {
        if let Some(echo) = &mut self.echo {
            echo.queue.record_several((delay / NS) as i64, count);
        }
    }

    /// Adds what repetitions have measured.
    pub fn repeat(&mut self) {
        if let Some(echo) = &self.echo {
            self.owd.add(&echo.owd);
            self.queue.add(&echo.queue);
        }
    }

    /// Takes down that it measures nothing but delays.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { origin: _, owd: _, queue: _, rtts, samples, next, shaped, echo: _ } = self;
        if !rtts.is_empty() {
            state.refuse("round trips are recorded (measure.rtt)");
        }
        if next.is_some() {
            state.refuse("delays of a sample of packets are recorded (measure.next_owd)");
        }
        if shaped.is_some() {
            state.refuse("rates of flows are recorded (measure.shaping)");
        }
        if !samples.is_empty() {
            state.busy();
        }
    }

    /// Time 0: what was seen before does not count.
    pub fn begin(&mut self) {
        self.owd = Delays::default();
        self.queue = Delays::default();
        self.rtts.fill(Delays::default());
    }
}
