//! Check of `ARCHITECTURE.md`: the modules that its list of crates names must exist.

use std::path::{Path, PathBuf};

/// Returns a problem for each name that is no module or folder of its crate, and no folder of
/// `crates` or of the workspace. `files` are all source files. An item of the list starts with a
/// crate in backticks, and names modules in backticks.
pub(super) fn check_architecture(root: &Path, text: &str, files: &[PathBuf]) -> Vec<String> {
    let mut problems = Vec::new();
    for (item, name) in named_modules(text) {
        let crates = root.join("crates");
        let folders = [crates.join(&item), root.join(&item)];
        let is_module = files.iter().any(|file| {
            let below = folders.iter().find_map(|folder| file.strip_prefix(folder).ok());
            below.is_some_and(|below| {
                below.with_extension("").ancestors().any(|path| path.ends_with(&name))
            })
        });
        let is_folder = |place: &Path| place.join(&name).is_dir();
        let is_below_item = folders.iter().any(|folder| is_folder(folder));
        if !is_module && !is_below_item && !is_folder(&crates) && !is_folder(root) {
            problems.push(format!(
                "ARCHITECTURE.md: {item} has no module `{name}`; correct the name, or leave it out"
            ));
        }
    }
    problems
}

/// Returns the modules and folders that the list of crates names, each after the folder of its
/// crate. Items of `ui/`, which has no Rust modules, are skipped.
fn named_modules(text: &str) -> Vec<(String, String)> {
    let mut named = Vec::new();
    let mut folder: Option<&str> = None;
    for line in text.lines() {
        if !line.starts_with("  ") {
            folder = None;
        }
        // Every second piece is in backticks.
        let mut names = line.split('`').skip(1).step_by(2);
        if line.starts_with("- `") {
            folder = names.next().filter(|name| !name.starts_with("ui/"));
        }
        let Some(folder) = folder else { continue };
        let names = names.map(|name| name.trim_end_matches('/'));
        let is_module = |name: &&str| {
            name.chars().all(|letter| matches!(letter, 'a'..='z' | '0'..='9' | '_' | '/'))
        };
        named.extend(names.filter(is_module).map(|name| (folder.to_owned(), name.to_owned())));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_module_is_a_problem() {
        let text =
            "A `word`.\n- `keep/lake`: `Lake`, `write/` with `head`;\n  `gone`.\n\n`other`\n";
        let files =
            ["src/write/head.rs", "src/lib.rs"].map(|path| Path::new("/r/keep/lake").join(path));
        let problems = check_architecture(Path::new("/r"), text, &files);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("keep/lake has no module `gone`"), "{problems:?}");
    }
}
