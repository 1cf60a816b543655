//! Probe logs.
