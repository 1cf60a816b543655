//! Who gives a command, for logs and histories.

use crate::policy::text;
use nix::unistd::{User, getuid};
use rustix::system::uname;
use std::env;

/// Who gives a command: the user, and the host with where the user came from, as far as the environment tells.
#[must_use]
pub fn operator() -> (String, String) {
    let named = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let user = User::from_uid(getuid()).ok().flatten().map_or_else(|| format!("user {}", getuid()), |user| user.name);
    let by = named("SUDO_USER").map_or(user.clone(), |sudo| format!("{sudo} (as {user})"));
    let host = uname().nodename().to_string_lossy().into_owned();
    let client = named("SSH_CONNECTION").and_then(|ends| ends.split(' ').next().map(String::from));
    let from = client.map_or(host.clone(), |client| format!("{host} (SSH from {client})"));
    (text(&by), text(&from))
}
