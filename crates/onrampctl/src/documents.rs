//! Manual pages and completions of both programs, from the definitions of their command lines.

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use onrampd::cli;
use std::fs;
use std::io;
use std::path::Path;

/// Writes a page for each command to `folder/man`, and completions to a folder for each shell.
///
/// # Errors
/// Files cannot be written.
pub fn write(client: Command, folder: &Path) -> io::Result<()> {
    let shells = [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];
    for folder in ["man", "bash", "zsh", "fish"].map(|name| folder.join(name)) {
        fs::create_dir_all(folder)?;
    }
    for command in [cli::Cli::command(), client] {
        let mut command = command.disable_help_subcommand(true).mut_subcommands(|c| c.disable_help_subcommand(true));
        let name = command.get_name().to_owned();
        for (of_shell, shell) in shells {
            clap_complete::generate_to(shell, &mut command, &name, folder.join(of_shell))?;
        }
        command.build();
        pages(&command, &folder.join("man"))?;
    }
    Ok(())
}

/// The pages of a command and of its commands, in the section of what administrators use.
fn pages(command: &Command, folder: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let page = clap_mangen::Man::new(command.clone())
        .title(&name)
        .section("8")
        .source(concat!("On-Ramp ", env!("CARGO_PKG_VERSION")))
        .manual("On-Ramp");
    page.render(&mut fs::File::create(folder.join(format!("{name}.8")))?)?;
    let mut shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    shown.try_for_each(|c| pages(c, folder))
}
