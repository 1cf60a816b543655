//! The agent's socket: a line of JSON asks, a line of JSON answers. Nothing that is in force can be changed
//! through it. Root and the group of the agent may ask: every flow of the host can be seen.
//!
//! `{"get":"status"}`, or with the flows held longest: `{"get":"status","flows":20}`. `{"get":"dry-run","scope":[…]}` has the
//! programs count what these rules match, until nobody has asked for five seconds.
//! `{"get":"history","since":0}`: the blocks of [`crate::effects::blocks`] that ended after a time; from `next`, if that is a
//! number, there are more.

use crate::scope::{self, Rule};
use onramp_config::Mistake;
use serde::{Deserialize, Serialize};

/// Longest request, in bytes.
pub const MAX_REQUEST: usize = 32 << 10;
/// Most flows told of in one answer.
pub const MAX_FLOWS: usize = 1000;

/// A client's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "get", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The status.
    Status {
        /// With so many flows.
        #[serde(default)]
        flows: usize,
        /// With the histograms of one-way delays.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        histograms: bool,
    },
    /// Dry run: what rules that are not in force would match.
    #[serde(rename = "dry-run")]
    DryRun {
        /// The rules.
        scope: Vec<Rule>,
    },
    /// Effects on traffic, block by block.
    History(History),
}

/// Of which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Blocks that ended after this, in seconds since 1970, ...
    pub since: u64,
    /// ... until this.
    #[serde(default = "for_ever")]
    pub until: u64,
}

fn for_ever() -> u64 {
    u64::MAX
}

/// Reads a request.
///
/// # Errors
/// Says what is wrong with it, as the reply does.
pub fn parse(line: &[u8]) -> Result<Request, String> {
    let text = std::str::from_utf8(line).map_err(|_| "a request is a line of UTF-8".to_string())?;
    let request = serde_json::from_str(text).map_err(|e| format!("no request: {e}: such as {{\"get\":\"status\"}}"))?;
    match request {
        Request::Status { flows, histograms } => Ok(Request::Status { flows: flows.min(MAX_FLOWS), histograms }),
        request @ Request::History(_) => Ok(request),
        Request::DryRun { scope } => match scope::mistakes(&scope).into_iter().next() {
            Some(Mistake { key, message }) => Err(format!("{key}: {message}")),
            None if scope.is_empty() => Err("scope: is empty".into()),
            None => Ok(Request::DryRun { scope }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn requests_are_read_and_bounded() {
        let dry_run = parse(br#"{"get":"dry-run","scope":[{"hold":false,"port":[80,"8000-8100"],"to":"10.0.0.0/8"}]}"#);
        assert!(matches!(dry_run, Ok(Request::DryRun { scope }) if scope[0].port.0.len() == 2));
        assert!(
            parse(br#"{"get":"dry-run","scope":[{"hold":false},{"hold":true}]}"#)
                .unwrap_err()
                .contains("never reached")
        );
        assert!(parse(br#"{"get":"dry-run","scope":[]}"#).is_err());
        let status = |flows, histograms| Ok(Request::Status { flows, histograms });
        assert_eq!(parse(br#"{"get":"status"}"#), status(0, false));
        assert_eq!(parse(br#"{"get":"status","flows":5,"histograms":true}"#), status(5, true));
        assert_eq!(parse(br#"{"get":"status","flows":99999999}"#), status(MAX_FLOWS, false));
        let history = |since, until| Ok(Request::History(History { since, until }));
        assert_eq!(parse(br#"{"get":"history","since":5}"#), history(5, u64::MAX));
        assert_eq!(parse(br#"{"get":"history","since":5,"until":9}"#), history(5, 9));
        for bad in [
            br#"{"get":"history"}"#,
            &b""[..],
            b"status",
            b"{}",
            br#"{"get":"stop"}"#,
            br#"{"get":"status","flows":-1}"#,
            b"\xff",
        ] {
            assert!(parse(bad).is_err());
        }
        assert!(parse(br#"{"get":"status","set":1}"#).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_json_is_a_request_or_refused(text in r#"[\[\]{}":,0-9a-z]{0,60}"#) {
            let _ = parse(text.as_bytes());
        }
    }
}
