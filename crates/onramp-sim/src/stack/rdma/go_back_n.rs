//! Go-back-N: a receiver takes packets in order only, and a sender that hears of a gap sends all from there on again,
//! as in the HPCC simulator. Its timeout is `host.rto`, its NACKs repeat after `host.nack_interval`.

use serde::{Deserialize, Serialize};

/// Go-back-N.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}
