//! Checks whether this host can run On-Ramp: one line for each requirement, what is wrong and how
//! to mend it. Changes nothing.

mod fleet;
mod host;
mod network;

use onrampd::config::Config;
use onrampd::datapath::Size;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// How a requirement is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is.
    Ok,
    /// It works, but look at it.
    Warn,
    /// On-Ramp cannot run like this.
    Fail,
}

/// One requirement.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Its subject.
    pub name: String,
    /// How it is met.
    pub state: State,
    /// Finding.
    pub found: String,
    /// Remedy, unless it is well.
    pub mend: Option<String>,
}

impl Check {
    fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Ok, found: found.into(), mend: None }
    }

    fn warn(name: impl Into<String>, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { state: State::Warn, mend: Some(mend.into()), ..Self::ok(name, found) }
    }

    fn fail(name: impl Into<String>, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { state: State::Fail, mend: Some(mend.into()), ..Self::ok(name, found) }
    }
}

/// Everything that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Nothing failed.
    pub ok: bool,
    /// The eBPF programs, if the kernel takes them.
    pub programs: Vec<Size>,
    /// In the order of looking.
    pub checks: Vec<Check>,
}

/// Looks at the host, and with a configuration at what it needs.
#[must_use]
pub fn examine(config: Option<&Path>) -> Report {
    let mut checks = Vec::new();
    let config = config.and_then(|path| match Config::open(path) {
        Ok(config) => {
            checks.push(Check::ok("configuration", path.display().to_string()));
            Some(config)
        }
        Err(errors) => {
            let mend = "see onrampctl check-config";
            checks.extend(errors.iter().map(|e| Check::fail("configuration", e.to_string(), mend)));
            None
        }
    });
    let (programs, loaded) = host::programs();
    checks.extend([host::kernel(), host::privileges(), host::btf(), loaded, host::jit(), host::hooks()]);
    let (gate, program) = network::gate(config.as_ref());
    checks.extend([gate, host::secure_boot(program)]);
    checks.push(host::clock(config.as_ref()));
    if let Some(config) = &config {
        checks.extend(config.fleet.iter().flat_map(|fleet| fleet::all(config, fleet)));
        checks.extend(network::tunnels());
        checks.extend(config.interfaces.iter().flat_map(|name| network::interface(name, config, program)));
    }
    Report { ok: checks.iter().all(|c| c.state != State::Fail), programs, checks }
}

impl Report {
    /// For people: a line each.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let width = self.checks.iter().map(|check| check.name.chars().count() + 1).max().unwrap_or(0).max(16);
        for check in &self.checks {
            let state = match check.state {
                State::Ok => "ok",
                State::Warn => "warn",
                State::Fail => "FAIL",
            };
            let mend = check.mend.as_ref().map_or(String::new(), |mend| format!(" → {mend}"));
            // One line each, whatever a kernel or a file says.
            let line = format!("{state:<5}{:<width$}{}{mend}", check.name, check.found).replace('\n', " ");
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_a_line() {
        let checks = vec![Check::ok("a", "x"), Check::warn("b", "y\nz", "do this")];
        let text = Report { ok: true, programs: Vec::new(), checks }.text();
        assert_eq!(text, "ok   a               x\nwarn b               y z → do this\n");
        let checks = vec![Check::ok("trial-a offloads", "TSO on"), Check::ok("a", "x")];
        let text = Report { ok: true, programs: Vec::new(), checks }.text();
        assert_eq!(text, "ok   trial-a offloads TSO on\nok   a                x\n");
    }
}
