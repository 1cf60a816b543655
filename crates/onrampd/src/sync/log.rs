//! Keeps what probes saw in a file, for `onrampctl replay`.

use onramp_clock::log::{Log, Record, write};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// At this many bytes a new file is begun; one old one is kept.
const FULL: u64 = 64 << 20;

/// A file of logs, one for each window.
pub struct ProbeLog {
    path: PathBuf,
    file: File,
    length: u64,
}

impl ProbeLog {
    /// Adds to the file at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("probe log {}: {e}", path.display()));
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(named)?;
        let length = file.metadata().map_err(named)?.len();
        Ok(Self { path: path.into(), file, length })
    }

    /// Adds what came in a window of `window` nanoseconds.
    ///
    /// # Errors
    /// The disk is full, or the folder has gone. What was there before can still be read.
    pub fn add(&mut self, window: u64, records: Vec<Record>) -> io::Result<()> {
        if self.length >= FULL {
            fs::rename(&self.path, old(&self.path))?;
            *self = Self::open(&self.path)?;
        }
        let mut bytes = Vec::new();
        write(&Log { window, records }, &mut bytes)?;
        if let Err(e) = self.file.write_all(&bytes) {
            // A part of a log would make the whole file one that nobody reads.
            self.file.set_len(self.length)?;
            return Err(io::Error::new(e.kind(), format!("probe log {}: {e}", self.path.display())));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Where the old file is kept: `FILE.old`.
fn old(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_clock::Exchange;
    use onramp_clock::log::read_joined;

    fn records(pairs: std::ops::Range<u32>) -> Vec<Record> {
        let exchange = |pair| Exchange { pair, second: false, sent: 1, received: 2, returned: 3, came_back: 4 };
        pairs.map(|pair| Record::Exchange { from: 1, to: 2, exchange: exchange(pair) }).collect()
    }

    #[test]
    fn windows_are_added_over_restarts_and_a_full_file_makes_room() {
        let folder = std::env::temp_dir().join(format!("orlog{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("probes");
        let read = |path: &Path| read_joined(File::open(path).unwrap()).unwrap().records;
        ProbeLog::open(&path).unwrap().add(7, records(0..3)).unwrap();
        let mut log = ProbeLog::open(&path).unwrap();
        log.add(7, records(3..5)).unwrap();
        assert_eq!(read(&path), records(0..5));
        log.length = FULL;
        log.add(7, records(5..6)).unwrap();
        assert_eq!((read(&path), read(&old(&path))), (records(5..6), records(0..5)));
        fs::remove_dir_all(&folder).unwrap();
        assert!(ProbeLog::open(&path).is_err_and(|e| e.to_string().starts_with("probe log ")));
    }
}
