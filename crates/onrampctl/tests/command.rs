//! The command line: exit status, and mistakes line by line. What commands do with agents and
//! coordinators, the tests of onrampd try.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MINIMAL: &str = "interface = \"eth0\"\nthreshold = \"50us\"\n";

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("onrampctl-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_command_says_it_line_by_line_and_exits_with_2() {
    let folder = Folder::new();
    let check =
        |path: &Path| Command::new(env!("CARGO_BIN_EXE_onrampctl")).arg("check-config").arg(path).output().unwrap();
    let good = check(&folder.write("good.toml", MINIMAL));
    assert!(good.status.success() && good.stderr.is_empty());
    for bad in [
        folder.write("bad.toml", "interface = 1\nthreshold = \"50us\""),
        folder.write("binary", "\u{0}\u{1}"),
        folder.0.join("absent"),
        folder.0.clone(),
    ] {
        let output = check(&bad);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with(&*bad.to_string_lossy()), "{said}");
    }
}
