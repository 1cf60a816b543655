//! The device on which clones of data packets become OR-ACKs. Nothing ever leaves by it:
//! the program at its egress redirects or drops.

use onramp_netlink::link::{self, Link};
use onramp_netlink::message::Message;
use onramp_netlink::{Error, Result, Socket};

/// Its name, in each network namespace.
pub const NAME: &str = "onramp0";

/// Kinds that will do, the preferred one first: a kernel without dummy may have ifb.
const KINDS: [&str; 2] = ["dummy", "ifb"];

const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

/// Makes the device and switches it on; its number. One that is left over is replaced.
///
/// # Errors
/// The kernel refuses.
pub fn create(socket: &mut Socket) -> Result<u32> {
    remove(socket)?;
    let mut done = add(socket, KINDS[0]);
    for kind in &KINDS[1..] {
        if !matches!(&done, Err(e) if unsupported(e)) {
            break;
        }
        done = add(socket, kind);
    }
    done?;
    let index = find(socket, NAME)?.map_or(0, |l| l.index);
    link::up(socket, index)?;
    Ok(index)
}

/// Removes the device, if it is there.
///
/// # Errors
/// The kernel refuses.
pub fn remove(socket: &mut Socket) -> Result<()> {
    match find(socket, NAME)? {
        Some(found) => link::delete(socket, found.index),
        None => Ok(()),
    }
}

/// The interface of that name.
///
/// # Errors
/// The kernel refuses.
pub fn find(socket: &mut Socket, name: &str) -> Result<Option<Link>> {
    Ok(link::list(socket)?.into_iter().find(|l| l.name == name))
}

fn add(socket: &mut Socket, kind: &str) -> Result<()> {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let message = Message::new(libc::RTM_NEWLINK, flags, format!("{kind} device {NAME}"));
    // struct ifinfomsg: all the kernel's choice.
    let message = message.push(&[0; 16]).text(IFLA_IFNAME, NAME);
    socket.request(message.nested(IFLA_LINKINFO, |m| m.text(IFLA_INFO_KIND, kind)))
}

fn unsupported(e: &Error) -> bool {
    e.errno() == Some(libc::EOPNOTSUPP)
}
