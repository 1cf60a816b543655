//! Steps of a rollout: which hosts enforce in each, and the policy that says so. Pure.

use onrampd::config::Mode;
use onrampd::config::quantity::{Life, Share, Threshold};
use onrampd::fleet::wire::HostState;
use onrampd::policy::{KEEP, Labels, Policy, Rule, check, show};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Hosts that a step adds to those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hosts with these labels.
    Labels(Labels),
    /// A part of all hosts.
    Share(Share),
}

/// All hosts.
pub const ALL: Share = Share(100);

/// Reads a label.
///
/// # Errors
/// Why it is wrong, and what would be right.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is no label, such as \"rack=b7\""))?;
    let label = (key.to_owned(), value.to_owned());
    check(&[label.clone()].into()).map_err(|(_, why)| why)?;
    Ok(label)
}

/// Reads how long steps are watched.
///
/// # Errors
/// Why it is wrong, and what would be right.
pub fn lasting(text: &str) -> Result<Life, String> {
    let life: Life = text.parse()?;
    let fits = (20..=86_400).contains(&life.0);
    fits.then_some(life).ok_or_else(|| format!("{text:?} is outside 20s to 1d"))
}

/// All steps: hosts with these labels first, if there are any.
#[must_use]
pub fn all(labels: Vec<(String, String)>, shares: Vec<Share>) -> Vec<Step> {
    let labels = (!labels.is_empty()).then(|| Step::Labels(labels.into_iter().collect()));
    labels.into_iter().chain(shares.into_iter().map(Step::Share)).collect()
}

/// Reads steps, shares that grow, separated by commas.
///
/// # Errors
/// The part that is wrong, and what would be right.
pub fn steps(text: &str) -> Result<Vec<Share>, String> {
    let shares: Vec<Share> = text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
    if !shares.iter().all(|share| (1..=100).contains(&share.0)) || !shares.is_sorted_by(|a, b| a < b) {
        return Err(format!("{text:?}: shares grow, from 1% to 100%, such as \"10%,50%,100%\""));
    }
    Ok(shares)
}

/// The policy of a step: `present`, and the hosts of all `steps` so far enforce that no rule of it is about. What it
/// says of some hosts stays.
#[must_use]
pub fn policy(present: Option<&Policy>, steps: &[Step], threshold: Option<Threshold>) -> Policy {
    let rule = |labels: Labels, share| Rule { labels, share, mode: Mode::Enforce, threshold };
    let labels = steps.iter().filter_map(|step| match step {
        Step::Labels(labels) => Some(rule(labels.clone(), None)),
        Step::Share(_) => None,
    });
    // The last share has all hosts of those before it.
    let share = steps.iter().rev().find_map(|step| match step {
        Step::Share(share) => Some(*share),
        Step::Labels(_) => None,
    });
    let ours: Vec<Rule> = match share {
        Some(ALL) => vec![rule(Labels::new(), None)],
        share => labels.chain(share.map(|share| rule(Labels::new(), Some(share)))).collect(),
    };
    let (keep, rules) = present.map_or((KEEP, Vec::new()), |policy| (policy.keep, policy.rules.clone()));
    let (of_all, mut rules): (Vec<Rule>, Vec<Rule>) = rules.into_iter().partition(Rule::is_for_all);
    rules.extend(ours);
    // None is left that nobody reaches.
    rules.extend(of_all.into_iter().filter(|_| share != Some(ALL)));
    Policy { keep, rules }
}

/// Hosts that a policy has enforce, and `before` had not.
#[must_use]
pub fn enforcing(before: Option<&Policy>, policy: &Policy, hosts: &[HostState]) -> BTreeSet<IpAddr> {
    let says = |policy: &Policy, host: &HostState| policy.of(host.address, &host.labels).mode == Mode::Enforce;
    let is_new = |host: &&HostState| says(policy, host) && !before.is_some_and(|before| says(before, host));
    hosts.iter().filter(is_new).map(|host| host.address).collect()
}

/// Why no host would begin to enforce by `steps`, of which the policy `last` comes.
#[must_use]
pub fn nobody(steps: &[Step], last: &Policy, hosts: &[HostState]) -> String {
    let has = |labels: &Labels, host: &HostState| labels.iter().all(|(key, value)| host.labels.get(key) == Some(value));
    if let [Step::Labels(labels)] = steps
        && !hosts.iter().any(|host| has(labels, host))
    {
        return format!("no host of the fleet has the labels {}: onrampctl fleet shows them", show(labels));
    }
    let why = if enforcing(None, last, hosts).is_empty() {
        "a rule of the policy is about each of these hosts, and says observe"
    } else {
        "the policy has all of these hosts enforce already"
    };
    format!("{why}: see onrampctl policy show")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrampd::policy::file;

    fn policy_of(text: &str) -> Policy {
        file::load(text, "p.toml").unwrap()
    }

    fn canary() -> Step {
        Step::Labels([("rack".to_owned(), "b7".to_owned())].into())
    }

    #[test]
    fn each_step_is_a_policy_that_an_operator_could_write() {
        let share = |share| Step::Share(Share(share));
        let never = "[[rule]]\nlabels = { role = \"db\" }\nmode = \"observe\"\n";
        let present = policy_of(&format!("keep = \"2h\"\n{never}[[rule]]\nmode = \"observe\"\nthreshold = \"90us\"\n"));
        let rules = |steps: &[Step]| {
            let policy = policy(Some(&present), steps, None);
            assert_eq!(file::load(&file::render(Some(&policy)), "p.toml").unwrap(), policy);
            policy.summary()
        };
        assert_eq!(rules(&[canary()]), "role=db: observe; rack=b7: enforce; every host: observe, T 90us (kept for 2h)");
        assert_eq!(
            rules(&[canary(), share(10), share(50)]),
            "role=db: observe; rack=b7: enforce; 50% of hosts: enforce; every host: observe, T 90us (kept for 2h)"
        );
        assert_eq!(
            rules(&[canary(), share(50), Step::Share(ALL)]),
            "role=db: observe; every host: enforce (kept for 2h)"
        );
        let threshold = "80us".parse().ok();
        assert_eq!(
            policy(None, &[canary()], threshold).summary(),
            "rack=b7: enforce, T 80us; others: observe (kept for 1h)"
        );
    }

    #[test]
    fn shares_grow() {
        assert_eq!(steps("10%, 50%,100%"), Ok(vec![Share(10), Share(50), Share(100)]));
        for wrong in ["", "0%", "50%,10%", "10%,10%", "101%", "10", "x"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
    }
}
