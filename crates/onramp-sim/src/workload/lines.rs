//! Lines of a file that may hold anything.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;

/// Longest line that is read.
const MAX_LINE: u64 = 64 << 10;

/// The lines that are not blank, one at a time.
pub struct Lines<R> {
    /// What messages call the file.
    name: String,
    input: R,
    /// Number of the line read last.
    number: u64,
    line: Vec<u8>,
}

impl Lines<BufReader<File>> {
    /// Opens `file`, which is relative to `base`.
    pub fn open(file: &str, base: &Path) -> Result<Self, String> {
        let path = base.join(file);
        let cannot = |e: std::io::Error| format!("cannot read \"{file}\": {e}");
        // Before it is opened: opening a named pipe would wait for its writer.
        if !path.metadata().map_err(cannot)?.is_file() {
            return Err(format!("cannot read \"{file}\": not a regular file"));
        }
        Ok(Self::new(file, BufReader::new(File::open(path).map_err(cannot)?)))
    }
}

impl<R: BufRead> Lines<R> {
    pub fn new(name: &str, input: R) -> Self {
        Self { name: name.to_string(), input, number: 0, line: Vec::new() }
    }

    /// The next line that is not blank, without the white space around it.
    pub fn next(&mut self) -> Result<Option<&str>, String> {
        loop {
            self.number += 1;
            self.line.clear();
            let read = (&mut self.input).take(MAX_LINE + 1).read_until(b'\n', &mut self.line);
            if read.map_err(|e| self.wrong(e))? == 0 {
                return Ok(None);
            }
            if self.line.len() as u64 > MAX_LINE {
                return Err(self.wrong("is longer than the 64 KiB a line may have"));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        match str::from_utf8(&self.line) {
            // Spreadsheets write a byte order mark.
            Ok(line) => Ok(Some(line.trim_start_matches('\u{feff}').trim())),
            Err(_) => Err(self.wrong("is not text in UTF-8")),
        }
    }

    /// A message about the line read last.
    pub fn wrong(&self, what: impl Display) -> String {
        self.wrong_at(self.number, what)
    }

    /// A message about another line.
    pub fn wrong_at(&self, line: u64, what: impl Display) -> String {
        format!("{}:{line}: {what}", self.name)
    }
}

impl<R: BufRead + Seek> Lines<R> {
    /// Goes back to the first line.
    pub fn rewind(&mut self) -> Result<(), String> {
        self.number = 0;
        self.input.rewind().map_err(|e| format!("cannot read \"{}\" again: {e}", self.name))
    }
}

/// `text` in quotes, cut if it is long.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
