//! Any of the controllers, as a connection holds one.

use super::{Controller, Event, FromConfig, Sample, State, Window};

macro_rules! controllers {
    ($($(#[$doc:meta])* $name:ident($module:ident),)+) => {
        /// Parameters of any of them.
        #[derive(Clone, Debug)]
        pub enum Config {
            $($(#[$doc])* $name(super::$module::Config),)+
        }

        /// The controller of a connection.
        #[derive(Debug)]
        pub enum Any {
            $($(#[$doc])* $name(super::$module::State),)+
        }

        impl Any {
            /// See [`FromConfig::new`].
            pub fn new(config: &Config, w: &mut Window, draw: u64) -> Self {
                match config { $(Config::$name(config) => Self::$name(FromConfig::new(config, w, draw)),)+ }
            }

            /// See [`Controller::steers`].
            pub fn steers(&self) -> bool {
                match self { $(Self::$name(state) => state.steers(),)+ }
            }

            /// See [`Controller::ssthresh`].
            pub fn ssthresh(&mut self, w: &Window) -> u32 {
                match self { $(Self::$name(state) => state.ssthresh(w),)+ }
            }

            /// See [`Controller::grow`].
            pub fn grow(&mut self, w: &mut Window, ack: u64, acked: u32) {
                match self { $(Self::$name(state) => state.grow(w, ack, acked),)+ }
            }

            /// See [`Controller::on_ack`].
            pub fn on_ack(&mut self, w: &mut Window, sample: &Sample) {
                match self { $(Self::$name(state) => state.on_ack(w, sample),)+ }
            }

            /// See [`Controller::sampled`].
            pub fn sampled(&mut self, w: &mut Window, sample: &Sample) {
                match self { $(Self::$name(state) => state.sampled(w, sample),)+ }
            }

            /// See [`Controller::undo`].
            pub fn undo(&mut self, w: &Window) -> u32 {
                match self { $(Self::$name(state) => state.undo(w),)+ }
            }

            /// See [`Controller::on_state`].
            pub fn on_state(&mut self, w: &mut Window, new: State) {
                match self { $(Self::$name(state) => state.on_state(w, new),)+ }
            }

            /// See [`Controller::on_event`].
            pub fn on_event(&mut self, w: &mut Window, event: Event) {
                match self { $(Self::$name(state) => state.on_event(w, event),)+ }
            }

            /// See [`Controller::control`].
            pub fn control(&mut self, w: &mut Window, sample: &Sample) -> bool {
                match self { $(Self::$name(state) => state.control(w, sample),)+ }
            }

            /// See [`Controller::least_segment`].
            pub fn least_segment(&self, w: &Window) -> Option<u32> {
                match self { $(Self::$name(state) => state.least_segment(w),)+ }
            }

            /// See [`Controller::wants_pacing`].
            pub fn wants_pacing(&self) -> bool {
                match self { $(Self::$name(state) => state.wants_pacing(),)+ }
            }
        }
    };
}

controllers! {
    /// NewReno.
    NewReno(newreno),
    /// CUBIC.
    Cubic(cubic),
    /// BBR.
    Bbr(bbr),
    /// Vegas.
    Vegas(vegas),
    /// DCTCP.
    DctcpTcp(dctcp),
    /// A controller of the program's own.
    CustomTcp(custom),
}
