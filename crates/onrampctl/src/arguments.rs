//! Values of arguments: where one is wrong, its message says what would be right.

use ipnet::IpNet;
use onrampd::config::quantity::Life;
use std::net::{IpAddr, SocketAddr};

/// Reads an address.
///
/// # Errors
/// It is none.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "is no address such as 10.0.0.1".into())
}

/// Reads an address and a port.
///
/// # Errors
/// It is none.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "is no address with a port, such as 127.0.0.1:9473".into())
}

/// Reads an address, or a network of them.
///
/// # Errors
/// It is none, or has bits that its network has not.
pub fn network(text: &str) -> Result<IpNet, String> {
    let one = text.parse::<IpAddr>().map(IpNet::from);
    let read: IpNet = one.or_else(|_| text.parse()).map_err(|_| "is no address and no network such as 10.0.0.0/24")?;
    let address = read.addr();
    if read == read.trunc() {
        Ok(read)
    } else {
        Err(format!("is an address in its network: write {address} or {}", read.trunc()))
    }
}

/// Reads a time that is not over at once.
///
/// # Errors
/// It is none.
pub fn lasting(text: &str) -> Result<Life, String> {
    let life: Life = text.parse()?;
    if life.0 == 0 { Err("is over at once: write such as 10s, 30min or 1h".into()) } else { Ok(life) }
}

/// Reads how many of something.
///
/// # Errors
/// It is no whole number.
pub fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "is no whole number such as 20".into())
}

/// Reads a version of the policy.
///
/// # Errors
/// It is none.
pub fn version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "is no version such as 3: `onrampctl policy history` lists them".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_and_networks_are_read() {
        for (text, seconds) in [("90s", 90), ("1h", 3_600), ("30min", 1_800), ("7d", 604_800)] {
            assert_eq!(text.parse::<Life>().map(|life| life.0).ok(), Some(seconds));
        }
        for (text, shown) in [("10.0.0.1", "10.0.0.1/32"), ("10.0.0.0/24", "10.0.0.0/24"), ("fd09::/64", "fd09::/64")] {
            assert_eq!(network(text).unwrap().to_string(), shown);
        }
        for wrong in ["", "10.0.0.0/33", "host", "10.0.0.0/"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            network("10.77.0.5/24"),
            Err("is an address in its network: write 10.77.0.5 or 10.77.0.0/24".into())
        );
        assert!(lasting("0s").is_err() && lasting("often").is_err() && lasting("1s").is_ok());
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_right() {
        let wrong = [address("foo").err(), listen("10.77.0.1").err(), count("x").err(), version("foo").err()];
        for said in wrong.map(Option::unwrap) {
            assert!(said.starts_with("is no ") && said.contains(" such as "), "{said}");
        }
    }
}
