//! The list of what must be undone, kept in a file so that the next start can do it after a crash.

use crate::config::Parent;
use crate::datapath::is_ours;
use crate::gate::install::{self, Replaced};
use crate::gate::is_gate;
use crate::gate::segments::{self, Large};
use crate::net::acker;
use crate::net::tc::{self, EGRESS, INGRESS};
use onramp_netlink::Socket;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Longest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Changes that one interface got from us.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// Its name.
    pub name: String,
    /// Its number; another one of the same name is not ours.
    pub index: u32,
    /// clsact was not there before.
    pub clsact_added: bool,
    /// Queueing disciplines in place of others.
    pub replaced: Vec<Replaced>,
    /// CoDel's target in these, in nanoseconds, if they had one.
    #[serde(default)]
    pub target: Option<u64>,
    /// Its largest segments before they were made smaller.
    #[serde(default)]
    pub segments: Option<Large>,
}

/// Everything that must be undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// Interfaces.
    pub interfaces: Vec<Touched>,
    /// The file's folder was not there before.
    #[serde(default)]
    pub folder_added: bool,
    /// Where the gates went.
    #[serde(default)]
    pub parent: Option<Parent>,
    /// The numbers of our maps, by which the next agent finds them,
    #[serde(default)]
    pub maps: Vec<u32>,
    /// and when they mean that: until this machine starts anew.
    #[serde(default)]
    pub boot: String,
    /// Where the status is answered.
    #[serde(default)]
    pub socket: Option<PathBuf>,
}

/// The file, one for each network namespace.
#[derive(Debug)]
pub struct UndoFile {
    path: PathBuf,
    /// The folder was not there before, so it goes with the file.
    folder_is_ours: bool,
}

impl UndoFile {
    /// In `folder`, for the network namespace of this thread.
    ///
    /// # Errors
    /// The namespace cannot be told, or the folder not be made.
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        let folder_is_ours = !fs::exists(folder)?;
        fs::create_dir_all(folder)?;
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        Ok(Self { path: folder.join(format!("undo-{namespace}.json")), folder_is_ours })
    }

    /// Reads what a crash left; none if there was none. A file that cannot be understood is none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Undo>> {
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.take(MAX_FILE).read_to_end(&mut bytes)?,
        };
        let left = Undo::parse(&bytes);
        // The folder of the one that crashed is ours to remove, too.
        self.folder_is_ours |= left.as_ref().is_some_and(|u| u.folder_added);
        Ok(left)
    }

    /// Writes what must be undone. To be called before it is done.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, undo: &Undo) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let undo = Undo { folder_added: self.folder_is_ours, ..undo.clone() };
        let write = || {
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&undo.bytes())?;
            fs::rename(&new, &self.path)
        };
        write().map_err(|e: io::Error| {
            // Where there is no room, half of it is no use.
            let _ = fs::remove_file(&new);
            io::Error::new(e.kind(), format!("{}: {e}", self.path.display()))
        })
    }

    /// Removes the file: all is undone.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        self.leave();
        Ok(())
    }

    /// Removes the folder, if it is ours and nothing is in it: also no file of another agent.
    pub fn leave(&self) {
        if self.folder_is_ours
            && let Some(folder) = self.path.parent()
        {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Reads what the agents of all network namespaces have to undo that have `folder` in common.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn all(folder: &Path) -> io::Result<Vec<Undo>> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let files =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    let read = |path: PathBuf| {
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)).ok()?;
        Undo::parse(&bytes)
    };
    Ok(files.filter_map(read).collect())
}

/// Identifier of this start of the machine.
#[must_use]
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}

impl Undo {
    /// Reads a file's contents; `None` if they are not understood.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The file's contents.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and numbers are JSON")
    }

    /// Adds what can be told of a crash from the interfaces themselves, should the file be lost.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn look(&mut self, socket: &mut Socket, interfaces: &[String]) -> onramp_netlink::Result<()> {
        for name in interfaces {
            let Some(link) = acker::find(socket, name)? else { continue };
            if self.interfaces.iter().any(|t| t.name == *name && t.index == link.index) {
                continue;
            }
            let stale = tc::qdiscs(socket, link.index)?.into_iter().filter(|q| is_gate(&q.kind));
            let replaced = stale.map(|q| Replaced { parent: q.parent, kind: q.kind, before: None });
            let replaced = replaced.collect();
            self.interfaces.push(Touched {
                name: name.clone(),
                index: link.index,
                clsact_added: false,
                replaced,
                target: None,
                segments: None,
            });
        }
        Ok(())
    }

    /// Lists what of it is there.
    fn found(&self, socket: &mut Socket) -> onramp_netlink::Result<Vec<String>> {
        let links = onramp_netlink::link::list(socket)?;
        let mut found = Vec::new();
        for touched in &self.interfaces {
            let Touched { name, index, .. } = touched;
            let Some(link) = links.iter().find(|link| link.index == *index && link.name == *name) else { continue };
            let mut parts = Vec::new();
            if tc::qdiscs(socket, *index)?.iter().any(|q| is_gate(&q.kind)) {
                parts.push("the gate");
            }
            // Without clsact there are none.
            let mut ours = |hook| tc::filters(socket, *index, hook).unwrap_or_default().iter().any(is_ours);
            if ours(INGRESS) || ours(EGRESS) {
                parts.push("filters");
            }
            if touched.segments.is_some() && link.gso_max_size <= segments::SMALL {
                parts.push("small segments");
            }
            if !parts.is_empty() {
                found.push(format!("{name}: {}", parts.join(", ")));
            }
        }
        found.extend(links.iter().any(|link| link.name == acker::NAME).then(|| format!("the device {}", acker::NAME)));
        Ok(found)
    }

    /// Undoes everything, as far as it goes: what could not be undone.
    pub fn run(&self, socket: &mut Socket) -> Vec<String> {
        let mut problems = self.clear_interfaces(socket);
        problems.extend(acker::remove(socket).err().map(|e| format!("{}: {e}", acker::NAME)));
        problems
    }

    /// The same for the interfaces alone.
    pub fn clear_interfaces(&self, socket: &mut Socket) -> Vec<String> {
        let mut problems = Vec::new();
        let mut note = |what: &str, error: Option<String>| {
            problems.extend(error.map(|e| format!("{what}: {e}")));
        };
        let links = onramp_netlink::link::list(socket).unwrap_or_default();
        for touched in &self.interfaces {
            if !links.iter().any(|l| l.index == touched.index && l.name == touched.name) {
                continue;
            }
            let Touched { name, index, .. } = touched;
            note(name, install::restore(socket, *index, &touched.replaced).err().map(|e| e.to_string()));
            if let Some(before) = touched.segments {
                note(name, segments::restore(socket, *index, before).err().map(|e| e.to_string()));
            }
            let (others, error) = remove_filters(socket, *index);
            note(name, error.map(|e| e.to_string()));
            if touched.clsact_added && others == 0 {
                // Gone with its interface, or by somebody else's hand.
                let _ = tc::delete_clsact(socket, *index);
            }
        }
        problems
    }
}

/// Takes away what an agent that is no more has left, on all interfaces. Returns what that was.
///
/// # Errors
/// An agent runs, or something could not be undone.
pub fn after_an_agent(folder: &Path) -> io::Result<Vec<String>> {
    let _only = only_agent()?;
    let mut socket = Socket::open()?;
    let mut file = UndoFile::in_folder(folder)?;
    let mut left = file.read()?.unwrap_or_default();
    let links = onramp_netlink::link::list(&mut socket).map_err(io::Error::other)?;
    let names: Vec<String> = links.into_iter().map(|link| link.name).filter(|name| name != acker::NAME).collect();
    left.look(&mut socket, &names).map_err(io::Error::other)?;
    let mut removed = left.found(&mut socket).map_err(io::Error::other)?;
    let mut problems = left.run(&mut socket);
    if let Some(path) = left.socket {
        match remove_socket(&path) {
            Ok(true) => removed.push(format!("the socket {}", path.display())),
            Ok(false) => {}
            Err(e) => problems.push(format!("{}: {e}", path.display())),
        }
    }
    if problems.is_empty() { file.remove().map(|()| removed) } else { Err(io::Error::other(problems.join("; "))) }
}

/// Files of what traffic met, for `onrampctl report`, that stay in `folder`.
#[must_use]
pub fn kept(folder: &Path) -> usize {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with("effects-")).count()
}

/// Removes a socket at which nobody answers: an agent of another network namespace may have taken its place.
/// Returns whether there was one.
fn remove_socket(path: &Path) -> io::Result<bool> {
    match UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map(|()| true),
        _ => Ok(false),
    }
}

/// Gives the interfaces of an agent that is no more their segments again, and leaves all else to the
/// next one.
///
/// # Errors
/// An agent runs, or they could not be given.
pub fn segments_again(folder: &Path) -> io::Result<()> {
    let _only = only_agent()?;
    let mut socket = Socket::open()?;
    let mut file = UndoFile::in_folder(folder)?;
    let left = file.read()?.unwrap_or_default();
    for touched in &left.interfaces {
        if let Some(before) = touched.segments {
            segments::restore(&mut socket, touched.index, before).map_err(io::Error::other)?;
        }
    }
    file.leave();
    Ok(())
}

/// Binds the socket that one agent in a network namespace holds for as long as it lives.
///
/// # Errors
/// Another one has it.
pub(super) fn only_agent() -> io::Result<UnixListener> {
    // An abstract name exists once in a network namespace, and ends with its process.
    let name = SocketAddr::from_abstract_name(b"onrampd")?;
    let taken = || io::Error::other("another agent runs in this network namespace");
    UnixListener::bind_addr(&name).map_err(|_| taken())
}

/// Removes our filters of clsact from an interface: how many of others there are, and what went wrong.
pub fn remove_filters(socket: &mut Socket, index: u32) -> (usize, Option<onramp_netlink::Error>) {
    let (mut others, mut failed) = (0, None);
    for hook in [INGRESS, EGRESS] {
        for filter in tc::filters(socket, index, hook).unwrap_or_default() {
            if is_ours(&filter) {
                failed = tc::delete_filter(socket, index, hook, &filter).err().or(failed);
            } else {
                others += 1;
            }
        }
    }
    (others, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_garbled_is_not() {
        let folder = std::env::temp_dir().join(format!("onrampd-undo-{}", std::process::id()));
        let mut file = UndoFile::in_folder(&folder).unwrap();
        assert_eq!(file.read().unwrap(), None);
        let interfaces = vec![Touched { name: "eth0".into(), index: 2, ..Touched::default() }];
        let socket = Some(folder.join("onrampd.sock"));
        let undo =
            Undo { interfaces, folder_added: true, parent: Some(Parent::Mq), maps: vec![7], boot: boot(), socket };
        file.write(&undo).unwrap();
        // As the next start finds it.
        let mut file = UndoFile::in_folder(&folder).unwrap();
        assert_eq!(file.read().unwrap(), Some(undo));
        fs::write(&file.path, "{\"interfaces\": 1").unwrap();
        assert_eq!(file.read().unwrap(), None);
        file.remove().unwrap();
        file.remove().unwrap();
        assert!(!folder.exists());
    }
}
