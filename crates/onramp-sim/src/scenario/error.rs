//! Errors of a checked scenario: it cannot be simulated, or its flows cannot be traced.

use onramp_config::own::OwnError;
use onramp_workload::SectionError;

/// Reason why no simulation of a checked scenario can be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A traffic section names a file that is wrong, or is no longer there.
    #[error(transparent)]
    Traffic(#[from] SectionError),
    /// A controller or a way to choose paths of the program's own: it does not have it, or it takes other keys.
    #[error(transparent)]
    Own(#[from] OwnError),
}

/// Reason why flows of a checked scenario cannot be traced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A traffic section names a file that is wrong, or is no longer there.
    #[error(transparent)]
    Traffic(#[from] SectionError),
    /// Too many flows.
    #[error("{given} flows: at most {most} can be traced at a time")]
    TooMany {
        /// Flows asked for.
        given: usize,
        /// Flows that are possible.
        most: usize,
    },
    /// A flow that does not arrive.
    #[error("flow {flow}: is not there; {range}")]
    NotThere {
        /// Number of the flow.
        flow: u64,
        /// Numbers that are possible, in words.
        range: String,
    },
    /// A request that does not arrive.
    #[error("request {request}: is not there; {range}")]
    NoRequest {
        /// Number of the request.
        request: u64,
        /// Numbers that are possible, in words.
        range: String,
    },
    /// A flow that arrives before time 0.
    #[error("flow {flow}: arrives in the warm-up, which is not measured; {range}")]
    InWarmUp {
        /// Number of the flow.
        flow: u64,
        /// Numbers that are possible, in words.
        range: String,
    },
}
