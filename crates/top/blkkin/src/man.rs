//! Manual pages in `docs/man`, one for each command, generated from the text of `--help`. The test
//! fails if the files differ from the generated pages; `cargo xtask man` writes the files.

use crate::Cli;
use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Environment variable that makes the test write the pages before it compares them.
const VARIABLE: &str = "BLKKIN_WRITE_MAN";

/// Returns the manual pages of all commands except hidden ones, by file name.
fn pages() -> BTreeMap<String, String> {
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let mut pages = BTreeMap::new();
    add(&all, None, &mut pages);
    pages
}

fn add(command: &Command, above: Option<&str>, pages: &mut BTreeMap<String, String>) {
    if command.is_hide_set() {
        return;
    }
    let name = command.get_display_name().unwrap_or(command.get_name());
    let page = page(command, above).expect("no I/O here");
    pages.insert(format!("{name}.1"), page);
    for subcommand in command.get_subcommands() {
        add(subcommand, Some(name), pages);
    }
}

/// Returns the manual page of a command; `above` is the name of its parent command.
fn page(command: &Command, above: Option<&str>) -> io::Result<String> {
    let mut page = Vec::new();
    let release = concat!("BlkKin ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(release).manual("BlkKin's manual");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    page.write_all(examples(command).as_bytes())?;
    let mut rest = Roff::new();
    if let Some(after) = command.get_after_help() {
        rest.control("SH", ["NOTES"]);
        for line in after.to_string().lines() {
            rest.control("PP", []).text([roman(line)]);
        }
    }
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let below = subcommands.filter_map(|subcommand| subcommand.get_display_name());
    let mut others: Vec<_> = above.into_iter().chain(below).collect();
    others.sort_unstable();
    if !others.is_empty() {
        rest.control("SH", ["SEE ALSO"]);
        let last = others.len() - 1;
        for (at, other) in others.iter().enumerate() {
            let end = if at == last { "(1)" } else { "(1)," };
            rest.text([bold(*other), roman(end)]);
        }
    }
    rest.to_writer(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Formats the examples of `--help`: each command followed by its remark, or preceded by it if the
/// help has remarks in lines of their own.
fn examples(command: &Command) -> String {
    let before = command.get_before_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for line in before.lines().map(str::trim).filter(|line| !["", "Examples:"].contains(line)) {
        // A line with `# ` is the remark on a following example of several lines.
        if let Some(remark) = line.strip_prefix("# ") {
            roff.control("PP", []).text([roman(remark)]);
            continue;
        }
        if before.contains("\n  # ") {
            roff.control("br", []).text([bold(line)]);
            continue;
        }
        let (example, remark) = line.split_once("   ").unwrap_or((line, ""));
        roff.control("TP", []).text([bold(example)]).text([roman(remark.trim())]);
    }
    if before.is_empty() { String::new() } else { roff.to_roff() }
}

#[test]
#[cfg_attr(not(feature = "sql"), ignore = "the manual has all commands")]
fn pages_say_what_help_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/man");
    let expected = pages();
    if std::env::var_os(VARIABLE).is_some() {
        fs::create_dir_all(&folder).expect("to make the folder");
        for (name, page) in &expected {
            fs::write(folder.join(name), page).expect("to write a page");
        }
    }
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&folder).expect("docs/man") {
        let entry = entry.expect("an entry");
        let page = fs::read_to_string(entry.path()).expect("a page");
        found.insert(entry.file_name().to_string_lossy().into_owned(), page);
    }
    let names = |pages: &BTreeMap<String, String>| pages.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected), "run `cargo xtask man`, or remove what is old");
    for (name, page) in &expected {
        assert!(found[name] == *page, "docs/man/{name} is old; run `cargo xtask man`");
    }
}
