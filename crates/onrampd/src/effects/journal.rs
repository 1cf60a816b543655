//! The blocks of the last day, on disk: a line of JSON each, in files of an hour.
//!
//! An agent that starts goes on with a file of its own. What a crash has cut off is no line, and is dropped.

use super::blocks::Block;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// For so long blocks are kept [s].
pub const KEPT: u64 = 24 * 3600;
/// A file takes the blocks of so long [s], ...
const SPAN: u64 = 3600;
/// ... and no more than so many bytes.
const MAX_FILE: u64 = 2 << 20;
/// All together; beyond it the oldest go early.
const MAX_ALL: u64 = 32 << 20;
/// Bytes of blocks in one answer, roughly.
const MAX_ANSWER: usize = 4 << 20;
/// Longest line: all paths, each with a full histogram.
const MAX_LINE: u64 = 256 << 10;

/// Where an agent keeps its blocks.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
    /// Begins the names of its files: agents of several network namespaces may share a folder.
    prefix: String,
    /// The file that is written to: its number, when it began and its length.
    present: Option<(PathBuf, u64, u64)>,
}

impl Journal {
    /// In `folder`, for the network namespace of this number.
    #[must_use]
    pub fn in_folder(folder: &Path, namespace: u64) -> Self {
        Self { folder: folder.into(), prefix: format!("effects-{namespace}-"), present: None }
    }

    /// Its files, the oldest first, and when they begin.
    fn files(&self) -> Vec<(u64, PathBuf)> {
        let began = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?;
            name.strip_prefix(&self.prefix)?.strip_suffix(".jsonl")?.parse().ok()
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<_> = entries.filter_map(|path| Some((began(&path)?, path))).collect();
        files.sort();
        files
    }

    /// Drops what a crash has left of a line. Returns where, if there was any.
    ///
    /// # Errors
    /// The file cannot be read or cut.
    pub fn mend(&self) -> io::Result<Option<PathBuf>> {
        let Some((_, path)) = self.files().pop() else { return Ok(None) };
        let mut file = File::options().read(true).write(true).open(&path)?;
        let length = file.metadata()?.len();
        let from = length.saturating_sub(MAX_LINE);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let whole = from + tail.iter().rposition(|b| *b == b'\n').map_or(0, |at| at as u64 + 1);
        if whole == length {
            return Ok(None);
        }
        file.set_len(whole)?;
        Ok(Some(path))
    }

    /// Adds a block, and lets those go that are too old.
    ///
    /// # Errors
    /// It cannot be written: nothing of it is.
    pub fn add(&mut self, block: &Block) -> io::Result<()> {
        let mut line = serde_json::to_vec(block)?;
        line.push(b'\n');
        let (path, began, length) = match self.present.clone() {
            Some(present) if block.at.abs_diff(present.1) < SPAN && present.2 < MAX_FILE => present,
            _ => {
                self.prune(block.at);
                let path = self.folder.join(format!("{}{}.jsonl", self.prefix, block.at));
                let length = fs::metadata(&path).map_or(0, |there| there.len());
                (path, block.at, length)
            }
        };
        let write = || {
            fs::create_dir_all(&self.folder)?;
            let mut file = File::options().append(true).create(true).mode(0o640).open(&path)?;
            // Where there is no room, half of it is no use, nor a file with nothing in it.
            file.write_all(&line).inspect_err(|_| {
                let _ = if length == 0 { fs::remove_file(&path) } else { file.set_len(length) };
            })
        };
        write().map_err(|e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        self.present = Some((path, began, length + line.len() as u64));
        Ok(())
    }

    /// Removes files whose blocks are all too old, those of namespaces that are gone too, and the oldest where there
    /// are too many.
    fn prune(&self, now: u64) {
        let all = Self { prefix: "effects-".into(), ..self.clone() };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let began = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?;
            name.strip_prefix(&all.prefix)?.strip_suffix(".jsonl")?.split_once('-')?.1.parse::<u64>().ok()
        };
        let mut files: Vec<_> = entries.filter_map(|path| Some((began(&path)?, path))).collect();
        files.sort();
        let mut size = 0;
        for (began, path) in files.into_iter().rev() {
            size += fs::metadata(&path).map_or(0, |there| there.len());
            if began + SPAN + KEPT < now || size > MAX_ALL {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// The blocks that ended after `since` and until `until`, in seconds since 1970: lines of JSON. If there are too many for one
    /// answer, also the end of the last one, from which they go on. What is no block is left out.
    #[must_use]
    pub fn read(&self, since: u64, until: u64) -> (Vec<String>, Option<u64>) {
        #[derive(Deserialize)]
        struct Ends {
            at: u64,
        }
        let (mut lines, mut size) = (Vec::new(), 0);
        for (began, path) in self.files() {
            if began > until || began + SPAN + KEPT < since {
                continue;
            }
            let Ok(file) = File::open(path) else { continue };
            let mut file = BufReader::new(file);
            loop {
                let mut line = Vec::new();
                match file.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                let Ok(line) = String::from_utf8(line) else { continue };
                let Ok(Ends { at }) = serde_json::from_str(&line) else { continue };
                if since < at && at <= until {
                    size += line.len();
                    lines.push(line.trim_end().to_owned());
                    if size > MAX_ANSWER {
                        return (lines, Some(at));
                    }
                }
            }
        }
        (lines, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::config::quantity::{Threshold, Time};
    use crate::effects::Effects;
    use crate::effects::blocks::Under;
    use crate::fleet::Folder;

    fn block(at: u64) -> Block {
        let under = Under { mode: Mode::Observe, threshold: Threshold::Fixed(Time(1)), policy: 0 };
        let total = Effects { segments: at, ..Effects::default() };
        Block { at, under, paths: vec![([10, 0, 0, 2].into(), total.clone())], total }
    }

    fn ends(journal: &Journal, since: u64, until: u64) -> Vec<u64> {
        let (lines, next) = journal.read(since, until);
        assert_eq!(next, None);
        lines.iter().map(|line| serde_json::from_str::<Block>(line).unwrap().at).collect()
    }

    #[test]
    fn blocks_are_found_again_by_their_time_also_by_the_next_agent() {
        let folder = Folder::new("journal");
        let mut journal = Journal::in_folder(&folder.0, 7);
        assert_eq!(ends(&journal, 0, 1000), [0; 0]);
        (1..=5).for_each(|n| journal.add(&block(100 * n)).unwrap());
        let mut next = Journal::in_folder(&folder.0, 7);
        assert_eq!(next.mend().unwrap(), None);
        next.add(&block(600)).unwrap();
        assert_eq!(ends(&next, 100, 600), [200, 300, 400, 500, 600]);
        assert_eq!(ends(&next, 150, 599), [200, 300, 400, 500]);
        assert_eq!(ends(&Journal::in_folder(&folder.0, 8), 0, 1000), [0; 0], "of another namespace");
    }

    #[test]
    fn without_room_no_file_is_left() {
        let folder = Folder::new("journal-full");
        fs::create_dir_all(&folder.0).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.0.join("effects-7-100.jsonl")).unwrap();
        let mut journal = Journal::in_folder(&folder.0, 7);
        assert!(journal.add(&block(100)).unwrap_err().to_string().ends_with("No space left on device (os error 28)"));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
        journal.add(&block(110)).unwrap();
        assert_eq!(ends(&journal, 0, 1000), [110]);
    }

    #[test]
    fn a_torn_tail_is_dropped_and_what_is_no_block_is_left_out() {
        let folder = Folder::new("journal-torn");
        let mut journal = Journal::in_folder(&folder.0, 7);
        [100, 200].iter().for_each(|at| journal.add(&block(*at)).unwrap());
        let path = journal.files()[0].1.clone();
        let whole = fs::read(&path).unwrap();
        for cut in 1..120 {
            fs::write(&path, [&whole[..], &whole[..cut]].concat()).unwrap();
            assert_eq!(ends(&journal, 0, 1000), [100, 200], "before it is mended");
            assert_eq!(journal.mend().unwrap().as_ref(), Some(&path));
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        fs::write(&path, [&b"\xff\xfe\n{\"at\":\"x\"}\n\n"[..], &whole].concat()).unwrap();
        assert_eq!((journal.mend().unwrap(), ends(&journal, 0, 1000)), (None, vec![100, 200]));
        fs::write(&path, "no line").unwrap();
        assert!(journal.mend().unwrap().is_some());
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_day_is_kept_and_what_is_older_goes() {
        let folder = Folder::new("journal-day");
        let mut journal = Journal::in_folder(&folder.0, 7);
        Journal::in_folder(&folder.0, 8).add(&block(1)).unwrap();
        (0..30 * 6).for_each(|n| journal.add(&block(1000 + 600 * n)).unwrap());
        let last = 1000 + 600 * 179;
        assert!(journal.files().len() <= 27, "{:?}", journal.files());
        assert_eq!(ends(&journal, last - KEPT, last).len() as u64, KEPT / 600);
        assert_eq!(ends(&Journal::in_folder(&folder.0, 8), 0, last), [0; 0]);
    }

    #[test]
    fn an_answer_is_bounded_and_says_where_it_goes_on() {
        let folder = Folder::new("journal-long");
        let mut journal = Journal::in_folder(&folder.0, 7);
        let mut wide = block(0);
        wide.paths = (0..32).map(|n| ([10, 0, 0, n].into(), Effects::default())).collect();
        (1..=2000).for_each(|at| journal.add(&Block { at, ..wide.clone() }).unwrap());
        let (mut all, mut since) = (0, 0);
        loop {
            let (lines, next) = journal.read(since, u64::MAX);
            assert!(lines.iter().map(String::len).sum::<usize>() < MAX_ANSWER + MAX_LINE as usize);
            all += lines.len();
            match next {
                Some(next) => since = next,
                None => break,
            }
        }
        assert_eq!(all, 2000);
    }
}
