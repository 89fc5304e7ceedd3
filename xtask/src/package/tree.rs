//! File trees of archives. A tree's entries are sorted by path, have fixed owners and modes, and
//! include all parent folders, so that the same files always give the same archive.

use crate::install::plan;
use crate::tools::at;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Files, links and folders by their path, which has no leading slash.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) entries: BTreeMap<String, Entry>,
}

pub(super) struct Entry {
    pub(super) content: Content,
    /// Permission bits.
    pub(super) mode: u32,
    /// Number of the owning user and group.
    pub(super) owner: u32,
}

pub(super) enum Content {
    File(Vec<u8>),
    Link(String),
    Folder,
}

impl Tree {
    /// Adds items of an installation below a folder.
    pub(super) fn install(&mut self, folder: &str, items: &[plan::Item]) -> Result<(), String> {
        for item in items {
            let path = format!("{folder}/{}", text(&item.path)?);
            match &item.content {
                plan::Content::File(file) => {
                    self.file(&path, fs::read(file).map_err(at(file))?, item.mode);
                }
                plan::Content::Text(text) => self.file(&path, text.as_bytes(), item.mode),
                plan::Content::Link(target) => self.link(&path, text(target)?),
            }
        }
        Ok(())
    }

    pub(super) fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>, mode: u32) {
        self.add(path, Entry { content: Content::File(bytes.into()), mode, owner: 0 });
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        // Links have no permissions of their own; archives contain the value that Linux shows.
        let content = Content::Link(target.to_owned());
        self.add(path, Entry { content, mode: 0o777, owner: 0 });
    }

    pub(super) fn folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.add(path, Entry { content: Content::Folder, mode, owner });
    }

    fn add(&mut self, path: &str, entry: Entry) {
        for (end, _) in path.match_indices('/') {
            let parent = || Entry { content: Content::Folder, mode: 0o755, owner: 0 };
            self.entries.entry(path[..end].to_owned()).or_insert_with(parent);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Moves an entry, if there is one at the path.
    pub(super) fn rename(&mut self, path: &str, new: &str) {
        if let Some(entry) = self.entries.remove(path) {
            self.add(new, entry);
        }
        self.remove_empty_parents(path);
    }

    /// Removes a file or link, and folders that become empty.
    pub(super) fn remove(&mut self, path: &str) {
        self.entries.remove(path);
        self.remove_empty_parents(path);
    }

    fn remove_empty_parents(&mut self, path: &str) {
        for (end, _) in path.rmatch_indices('/') {
            let inside = &path[..=end];
            let mut below = self.entries.range(inside.to_owned()..);
            if below.next().is_some_and(|(next, _)| next.starts_with(inside)) {
                break;
            }
            self.entries.remove(&path[..end]);
        }
    }

    /// Returns the regular files with their paths.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries.iter().filter_map(|(path, entry)| match &entry.content {
            Content::File(bytes) => Some((path.as_str(), bytes.as_slice())),
            Content::Link(_) | Content::Folder => None,
        })
    }
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: the name is not UTF-8; rename it", path.display()))
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[track_caller]
    fn check(tree: &Tree, expected: &[&str]) {
        assert_eq!(tree.entries.keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn parents_precede_their_files() {
        let mut tree = Tree::default();
        tree.file("b/c/d", "", 0o644);
        tree.file("b-1", "", 0o644);
        tree.link("a", "b/c");
        check(&tree, &["a", "b", "b-1", "b/c", "b/c/d"]);
    }

    #[test]
    fn empty_folders_are_removed_with_their_last_file() {
        let mut tree = Tree::default();
        tree.file("a/b/c", "", 0o644);
        tree.file("a/d", "", 0o644);
        tree.rename("a/b/c", "e/f");
        check(&tree, &["a", "a/d", "e", "e/f"]);
        tree.rename("missing", "other");
        tree.remove("a/d");
        check(&tree, &["e", "e/f"]);
    }
}
