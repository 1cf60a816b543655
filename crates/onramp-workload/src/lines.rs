//! Lines of a file that may hold anything.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek};
use std::path::Path;

/// Longest line that is read.
const MAX_LINE: u64 = 64 << 10;

/// The lines that are not blank, one at a time.
pub struct Lines<R> {
    /// Name of the file in messages.
    name: String,
    input: R,
    /// Number of the line read last, counted from 1.
    number: u64,
    line: Vec<u8>,
}

impl Lines<BufReader<File>> {
    /// Opens `file`, which is relative to `base`.
    pub fn open(file: &str, base: &Path) -> Result<Self, String> {
        Ok(Self::new(file, BufReader::new(open(file, base)?)))
    }
}

/// Opens a regular file, which is relative to `base`.
pub fn open(file: &str, base: &Path) -> Result<File, String> {
    let path = base.join(file);
    let cannot = |e: std::io::Error| format!("cannot read \"{file}\": {e}");
    // Before it is opened: opening a named pipe would wait for its writer.
    if !path.metadata().map_err(cannot)?.is_file() {
        return Err(format!("cannot read \"{file}\": not a regular file"));
    }
    let mut opened = File::open(path).map_err(cannot)?;
    let mut first = [0; 2];
    let why = match opened.read_exact(&mut first) {
        Ok(()) => onramp_config::compressed(&first),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => None,
        Err(e) => return Err(cannot(e)),
    };
    if let Some(why) = why {
        return Err(format!("cannot read \"{file}\": {why}"));
    }
    opened.rewind().map_err(cannot)?;
    Ok(opened)
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
                self.number = (self.number - 1).max(1);
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

    /// Number of the line read last, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The line read last, without the white space around it.
    pub fn again(&self) -> &str {
        str::from_utf8(&self.line).unwrap_or_default().trim_start_matches('\u{feff}').trim()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn all(text: &[u8]) -> Result<Vec<String>, String> {
        let mut lines = Lines::new("file", Cursor::new(text));
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            found.push(line.to_string());
        }
        Ok(found)
    }

    #[test]
    fn blank_lines_line_ends_and_byte_order_marks_do_not_matter() {
        assert_eq!(all("\u{feff}a b\r\n\n  \n\tc\n\nd".as_bytes()).unwrap(), ["a b", "c", "d"]);
        assert!(all(b"").unwrap().is_empty());
    }

    #[test]
    fn mistakes_are_counted_with_the_blank_lines() {
        assert_eq!(all(b"a\n\n\xff\n").unwrap_err(), "file:3: is not text in UTF-8");
    }

    #[test]
    fn a_line_without_end_is_not_read_into_memory() {
        let endless = BufReader::new(std::io::repeat(b'7'));
        let mut lines = Lines::new("file", endless);
        assert_eq!(lines.next().unwrap_err(), "file:1: is longer than the 64 KiB a line may have");
        assert!(lines.line.len() as u64 <= MAX_LINE + 1);
        let longest = [vec![b'x'; MAX_LINE as usize - 1], vec![b'\n']].concat();
        assert_eq!(all(&longest).unwrap()[0].len() as u64, MAX_LINE - 1);
    }

    #[test]
    fn only_regular_files_are_opened() {
        let error = |file: &str| Lines::open(file, Path::new("/")).err().unwrap();
        assert_eq!(error("dev"), "cannot read \"dev\": not a regular file");
        assert_eq!(error("dev/zero"), "cannot read \"dev/zero\": not a regular file");
        assert!(error("no/such/file").starts_with("cannot read \"no/such/file\": "));
        assert!(error("a\0b").starts_with("cannot read"));
    }

    #[test]
    fn messages_show_the_beginning_of_long_text() {
        assert_eq!(quoted("short"), "\"short\"");
        assert_eq!(quoted(&"ä".repeat(1000)), format!("\"{}\"…", "ä".repeat(40)));
    }
}
