//! Tokens as people read them.

use ipnet::IpNet;
use onrampd::DEFAULT_CONFIG;
use onrampd::fleet::pki::Token;
use onrampd::fleet::tokens::{Terms, today};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Returns the text that `init` prints.
pub fn founded(token: &Token, config: &Path, in_agent: bool) -> String {
    let usual = config == Path::new(DEFAULT_CONFIG);
    let (what, units) = if in_agent {
        ("the agent, in which the coordinator runs", "onrampd")
    } else {
        ("the coordinator and the agent", "onrampd-coordinator onrampd")
    };
    let file = config.display();
    let start = match (usual, in_agent) {
        (true, _) => format!("  systemctl enable --now {units}"),
        (false, true) => format!("  onrampd run --config {file}"),
        (false, false) => format!("  onrampd coordinator --config {file}\n  onrampd run --config {file}"),
    };
    format!(
        "Start {what}:\n\n{start}\n\n\
         Then on another host:\n\n  echo {token} | onrampctl join --interface NAME --token-file -\n\n\
         For more hosts: onrampctl token create --uses N\n"
    )
}

/// Output of `join`.
pub fn joined(address: IpAddr, config: &Path) -> String {
    let start = if config == Path::new(DEFAULT_CONFIG) {
        "systemctl enable --now onrampd".into()
    } else {
        format!("onrampd run --config {}", config.display())
    };
    format!("joined as {address}: start the agent:\n\n  {start}\n")
}

/// Returns the text that `fleet remove` prints.
pub fn removed(address: IpAddr) -> String {
    format!("{address} is removed: what it has joined by until now is refused\n")
}

/// Returns the text that `fleet alias` prints.
pub fn vouched(address: IpAddr, aliases: &[IpNet]) -> String {
    if aliases.is_empty() {
        return format!("{address} has no other addresses\n");
    }
    let aliases = aliases.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!("{address} may have {aliases}, if its configuration lists them\n")
}

/// Output of `fleet aliases`.
pub fn aliases(all: &BTreeMap<IpAddr, Vec<IpNet>>) -> String {
    if all.is_empty() {
        return "no host has other addresses: onrampctl fleet alias vouches for them\n".into();
    }
    let line = |(host, networks): (&IpAddr, &Vec<IpNet>)| {
        let networks = networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!("{:<40}{networks}\n", host.to_string())
    };
    format!("{:<40}may have, if its configuration lists them\n", "host") + &all.iter().map(line).collect::<String>()
}

/// Returns the text that `token list` prints.
///
/// # Errors
/// None: JSON can say all of it.
pub fn show(found: &[(String, Terms)], json: bool) -> io::Result<String> {
    if json {
        let line = |(id, terms): &(String, Terms)| serde_json::json!({ "id": id, "uses": terms.uses, "expires": terms.expires, "within": terms.within });
        return Ok(serde_json::to_string(&found.iter().map(line).collect::<Vec<_>>())? + "\n");
    }
    if found.is_empty() {
        return Ok("no token admits anybody: onrampctl token create makes one\n".into());
    }
    let mut text = format!("{:<10}{:>6}  {:>9}  within\n", "ID", "hosts", "for");
    for (id, terms) in found {
        let left = terms.expires.saturating_sub(today());
        let (count, unit) = if left >= 86_400 {
            (left / 86_400, "d")
        } else if left >= 120 {
            (left / 60, "min")
        } else {
            (left, "s")
        };
        let within = terms.within.map_or("any".into(), |net| net.to_string());
        let _ = writeln!(text, "{id:<10}{:>6}  {:>9}  {within}", terms.uses, format!("{count} {unit}"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_who_may_join_until_when() {
        let terms = Terms { uses: 20, expires: today() + 3_600, within: "10.0.0.0/24".parse().ok() };
        let text = show(&[("0123abcd".into(), terms)], false).unwrap();
        assert!(text.ends_with("0123abcd      20     60 min  10.0.0.0/24\n") || text.contains("59 min"), "{text}");
        assert!(show(&[], false).unwrap().starts_with("no token"));
    }
}
