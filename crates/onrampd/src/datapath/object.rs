//! Objects of eBPF programs and maps, on their way into the kernel.

use crate::sys::program_info;
use libbpf_rs::libbpf_sys::bpf_map_info;
use libbpf_rs::{
    Map, MapCore as _, MapInfo, Object, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel, Program as LoadedProgram,
    set_print,
};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An object's file, as `include_bytes` has it: it is read in place.
#[repr(C, align(8))]
pub struct Aligned<T: ?Sized>(pub T);

/// A map in the kernel, for another object.
#[derive(Debug)]
pub struct Shared {
    /// Its name.
    pub name: String,
    /// The map.
    pub fd: OwnedFd,
}

impl Shared {
    /// A map by the name that the kernel has for it.
    #[must_use]
    pub fn named(fd: OwnedFd) -> Option<Self> {
        let name = MapInfo::new(fd.as_fd()).ok()?.name().ok()?.to_owned();
        Some(Self { name, fd })
    }

    /// Asks the kernel about it.
    ///
    /// # Errors
    /// It says nothing.
    pub fn info(&self) -> libbpf_rs::Result<bpf_map_info> {
        Ok(MapInfo::new(self.fd.as_fd())?.info)
    }

    /// Returns whether both are the same map.
    #[must_use]
    pub fn is(&self, other: &impl AsFd) -> bool {
        matches!((self.info(), MapInfo::new(other.as_fd())), (Ok(us), Ok(them)) if us.id == them.info.id)
    }

    /// Returns whether it may be in the place of a map that is yet to be made.
    fn fits(&self, map: &OpenMapMut<'_>) -> bool {
        self.info().is_ok_and(|there| {
            (there.type_, there.key_size, there.value_size) == (map.map_type() as u32, map.key_size(), map.value_size())
        })
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The maps of an object.
///
/// # Errors
/// There is no room for more descriptors.
pub fn shared(object: &Object) -> io::Result<Vec<Shared>> {
    let one = |map: Map<'_>| {
        Ok(Shared { name: map.name().to_string_lossy().into_owned(), fd: map.as_fd().try_clone_to_owned()? })
    };
    object.maps().map(one).collect()
}

/// Runs and processor time of an eBPF program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// For how long altogether.
    pub run_ns: u64,
}

/// Runs and processor time of an object's programs since they were loaded; only of programs that ran while the kernel
/// counted.
///
/// # Errors
/// The kernel says nothing.
pub fn ran(object: &Object) -> io::Result<Vec<Ran>> {
    let one = |program: LoadedProgram<'_>| {
        let info = program_info(program.as_fd())?;
        let name = program.name().to_string_lossy().into_owned();
        Ok(Ran { name, runs: info.run_cnt, run_ns: info.run_time_ns })
    };
    let all = object.progs().map(one).collect::<io::Result<Vec<Ran>>>()?;
    Ok(all.into_iter().filter(|ran| ran.runs > 0).collect())
}

/// Why an object is not in the kernel.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl From<libbpf_rs::Error> for Error {
    fn from(e: libbpf_rs::Error) -> Self {
        Self(format!("{e:#}"))
    }
}

thread_local! {
    /// Messages of libbpf.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Opens an object with the maps of `shared` in place of its own of the same names, but for those that are not as
/// its own are. `make` sees to the others before they are made.
///
/// # Errors
/// It is no object, or cannot be as `make` wants it.
pub fn open(
    object: &Aligned<[u8]>,
    shared: &[&Shared],
    mut make: impl FnMut(&str, &mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
) -> Result<OpenObject, Error> {
    // Else it goes to stderr.
    set_print(Some((PrintLevel::Warn, |_, text| SAID.with_borrow_mut(|said| said.push_str(&text)))));
    let mut open = ObjectBuilder::default().name("onramp")?.open_memory(&object.0)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match shared.iter().find(|one| one.name == name && one.fits(&map)) {
            Some(one) => map.reuse_fd(one.fd.as_fd())?,
            None => make(&name, &mut map)?,
        }
    }
    Ok(open)
}

/// Loads an object into the kernel.
///
/// # Errors
/// No privileges, or the kernel refuses a map or a program.
pub fn load(object: OpenObject) -> Result<Object, Error> {
    SAID.take();
    object.load().map_err(|e| {
        let said = SAID.take();
        // Where the verifier has a word to say, it is not about privileges as such.
        let denied = e.kind() == libbpf_rs::ErrorKind::PermissionDenied && !said.contains(LOG);
        let why = if denied { Some("it takes CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON".into()) } else { reason(&said) };
        Error(why.map_or_else(|| format!("{e:#}"), |why| format!("{e:#}: {why}")))
    })
}

/// Begins what the verifier has to say.
const LOG: &str = "-- BEGIN PROG LOAD LOG --";

/// The first message that went wrong, and the verifier's last word on it.
fn reason(said: &str) -> Option<String> {
    let mut lines = said.lines().map(|line| line.trim_start_matches("libbpf: ").trim());
    let first = lines.find(|line| !line.is_empty())?;
    let log = lines.skip_while(|line| !line.ends_with(LOG)).skip(1);
    // It ends with what it counted.
    let log = log.take_while(|line| !line.starts_with("processed ") && !line.starts_with("-- END"));
    let last = log.filter(|line| !line.is_empty()).last();
    Some(last.map_or_else(|| first.into(), |last| format!("{first}: {last}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_program_is_told_of_in_one_line_that_ends_with_the_verifiers_last() {
        let said = "libbpf: prog 'onramp_gate': BPF program load failed: -EACCES\n\
            libbpf: prog 'onramp_gate': -- BEGIN PROG LOAD LOG --\n\
            0: R1=ctx() R10=fp0\n\
            1: (79) r0 = *(u64 *)(r0 +0)\n\
            R0 !read_ok\n\
            processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0\n\
            -- END PROG LOAD LOG --\n\
            libbpf: prog 'onramp_gate': failed to load: -EACCES\n\
            libbpf: failed to load object 'onramp'\n";
        assert_eq!(reason(said).unwrap(), "prog 'onramp_gate': BPF program load failed: -EACCES: R0 !read_ok");
        let map = "map 'flows': failed to create: -E2BIG";
        assert_eq!(reason(&format!("libbpf: {map}\nlibbpf: failed to load object 'onramp'\n")).unwrap(), map);
        assert_eq!(reason(""), None);
    }
}
