//! Parameters are checked once, where they are made.

use onramp_core::{BETA_ONE, Flow, Params, ParamsError};

#[test]
fn parameters_out_of_range_are_refused() {
    let fine = Params::builder(50_000, 1_000_000);
    assert_eq!(Params::builder(0, 1).build().unwrap_err(), ParamsError::Threshold);
    assert_eq!(Params::builder(1, 0).build().unwrap_err(), ParamsError::MaxPause);
    assert_eq!(fine.gain_shift(1).build().unwrap_err(), ParamsError::GainShift(1));
    assert_eq!(fine.gain_shift(7).build().unwrap_err(), ParamsError::GainShift(7));
    assert_eq!(fine.beta_start(BETA_ONE + 1).build().unwrap_err(), ParamsError::BetaStart(65537));
    assert_eq!(fine.gain_shift(7).build().unwrap_err().to_string(), "gain shift must be 2 to 6, got 7");
}

#[test]
fn a_flow_starts_with_the_beta_it_is_given() {
    let params = Params::builder(1, 1).beta_start(BETA_ONE).build().expect("in range");
    assert_eq!(Flow::new(&params, 0).beta(), BETA_ONE);

    let strawman = Params::builder(1, 1).beta_start(BETA_ONE).strawman(true).build().expect("in range");
    assert_eq!(Flow::new(&strawman, 0).beta(), 0);
}

#[test]
fn a_flow_fits_in_a_cache_line() {
    assert_eq!(size_of::<Flow>(), 64);
}
