//! Parameters that an operator chooses.

use crate::bindings::{
    ONRAMP_BETA_ONE, ONRAMP_BETA_START_DEFAULT, ONRAMP_COUNT_OLD, ONRAMP_GAIN_SHIFT_DEFAULT, ONRAMP_GAIN_SHIFT_MAX,
    ONRAMP_GAIN_SHIFT_MIN, ONRAMP_KEEP_PAUSE, ONRAMP_STRAWMAN, onramp_params,
};

/// Validated parameters, shared by many flows.
#[derive(Clone, Copy, Debug)]
pub struct Params(pub(crate) onramp_params);

impl Params {
    /// Starts from the two parameters without a default, in nanoseconds.
    ///
    /// `threshold` is T, the one-way delay above which a flow pauses. It must
    /// lie above the smallest delay of the path and the error of the clocks:
    /// below, every flow pauses for good, `max_pause` at a time.
    ///
    /// `max_pause` bounds every uninterrupted pause.
    pub fn builder(threshold: u64, max_pause: u64) -> ParamsBuilder {
        ParamsBuilder(onramp_params {
            threshold,
            max_pause,
            gain_shift: ONRAMP_GAIN_SHIFT_DEFAULT,
            flags: 0,
            beta_start: ONRAMP_BETA_START_DEFAULT,
            reserved: 0,
        })
    }

    /// The same with another T in nanoseconds, at least 1.
    #[inline]
    #[must_use]
    pub fn with_threshold(mut self, threshold: u64) -> Self {
        self.0.threshold = threshold.max(1);
        self
    }

    /// T in nanoseconds.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.0.threshold
    }

    /// The longest uninterrupted pause in nanoseconds.
    #[must_use]
    pub fn max_pause(&self) -> u64 {
        self.0.max_pause
    }
}

/// Parameters being put together; see [`Params::builder`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ParamsBuilder(onramp_params);

impl ParamsBuilder {
    /// The EWMA gain of eq. 3 as a power of two, g = 2^-`shift`. Default 4, the
    /// paper's 1/16; range 2 to 6.
    pub fn gain_shift(mut self, shift: u32) -> Self {
        self.0.gain_shift = shift;
        self
    }

    /// `beta` of a new flow in Q16, 0 to [`BETA_ONE`](crate::BETA_ONE). Default 1/4.
    /// The higher, the shorter the first pauses.
    pub fn beta_start(mut self, beta: u32) -> Self {
        self.0.beta_start = beta;
        self
    }

    /// Eq. 2 instead of eq. 4: `beta` is held at 0. Default off. For comparison
    /// only: the queue undershoots.
    pub fn strawman(self, on: bool) -> Self {
        self.flag(ONRAMP_STRAWMAN, on)
    }

    /// An OR-ACK that is overtaken by a later packet's still moves `t_next`.
    /// Default off: it is dropped.
    pub fn count_old(self, on: bool) -> Self {
        self.flag(ONRAMP_COUNT_OLD, on)
    }

    /// A pause lasts as long as was decided when it began: OR-ACKs that come
    /// during it update `beta` only. Default off: each of them moves `t_next`,
    /// as the paper has it.
    pub fn keep_pause(self, on: bool) -> Self {
        self.flag(ONRAMP_KEEP_PAUSE, on)
    }

    fn flag(mut self, flag: u32, on: bool) -> Self {
        self.0.flags = if on { self.0.flags | flag } else { self.0.flags & !flag };
        self
    }

    /// Checks what was given.
    ///
    /// # Errors
    ///
    /// The first parameter out of its range.
    pub fn build(self) -> Result<Params, ParamsError> {
        let p = self.0;
        if p.threshold == 0 {
            return Err(ParamsError::Threshold);
        }
        if p.max_pause == 0 {
            return Err(ParamsError::MaxPause);
        }
        if !(ONRAMP_GAIN_SHIFT_MIN..=ONRAMP_GAIN_SHIFT_MAX).contains(&p.gain_shift) {
            return Err(ParamsError::GainShift(p.gain_shift));
        }
        if p.beta_start > ONRAMP_BETA_ONE {
            return Err(ParamsError::BetaStart(p.beta_start));
        }
        Ok(Params(p))
    }
}

/// A parameter is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamsError {
    /// T is 0.
    #[error("threshold must be above 0 ns")]
    Threshold,
    /// The longest pause is 0.
    #[error("longest pause must be above 0 ns; to do without pauses, do without On-Ramp")]
    MaxPause,
    /// The gain is not one of the allowed powers of two.
    #[error("gain shift must be {ONRAMP_GAIN_SHIFT_MIN} to {ONRAMP_GAIN_SHIFT_MAX}, got {0}")]
    GainShift(u32),
    /// `beta` starts above 1.
    #[error("start value of beta must be at most {ONRAMP_BETA_ONE} (1 in Q16), got {0}")]
    BetaStart(u32),
}
