//! Scenarios on a cluster of real Linux network stacks in virtual time.
//!
//! One program with two sides. On the host ([`host`]) it starts a user-mode Linux
//! kernel in which the processor costs no time and the clock jumps to the next
//! event. That kernel's only process ([`guest`]) is the same program again: it
//! makes a network namespace for every host and switch, joins them by links with a
//! rate and a delay, plays the scenario's traffic over TCP connections, and writes
//! what it measured to the result folder.

mod guest;
mod host;
mod plan;
mod sys;
mod task;

fn main() {
    if std::process::id() == 1 {
        guest::main();
    }
    host::main();
}
