//! Licences of other projects' code in the released files, which most of them ask to be passed on.

use crate::layers::graph::{self, Graph, Package};
use crate::tools::{at, workspace_root};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

/// Path below the prefix.
pub(super) const PATH: &str = "share/doc/blkkin/THIRD-PARTY.txt";

/// Beginnings of the names of files with licences, in upper case.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

const HEADER: &str = "\
The command blkkin and libblkkin contain code of the projects below, under the licences that follow.
They contain Rust's standard library (MIT or Apache-2.0). The command is linked with the GNU C
Library (LGPL-2.1 or later); `cargo xtask package` in BlkKin's sources links it again, with any
version of that library.
";

/// Returns the list of linked crates, followed by the texts of their licences.
pub(super) fn notices() -> Result<String, String> {
    notices_of(&graph::load(&workspace_root())?)
}

fn notices_of(graph: &Graph) -> Result<String, String> {
    let linked = graph.linked();
    let packages = graph.packages.iter().zip(linked);
    let mut packages: Vec<&Package> = packages
        .filter(|(package, is_linked)| *is_linked && package.place.is_none())
        .map(|(package, _)| package)
        .collect();
    packages.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    let mut list = String::new();
    // Many crates have the same text.
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, licence, .. } = package;
        let _ = writeln!(list, "{name} {version}: {}", licence.as_deref().unwrap_or("see below"));
        for text in texts(package)? {
            users.entry(text).or_default().push(format!("{name} {version}"));
        }
    }
    let mut texts: Vec<(String, Vec<String>)> = users.into_iter().collect();
    texts.sort_by(|(_, one), (_, other)| one.cmp(other));
    let texts = texts
        .iter()
        .map(|(text, users)| format!("\n{}\n{}:\n\n{text}\n", "-".repeat(80), users.join(", ")));
    Ok(format!("{HEADER}\n{list}{}", texts.collect::<String>()))
}

/// Returns the texts of a package's files with licences.
fn texts(package: &Package) -> Result<Vec<String>, String> {
    let folder = &package.folder;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    let read = |path| fs::read(path).map_err(at(path));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace('\r', "").trim().to_owned();
    files.iter().map(|path| read(path).map(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::notices_of;
    use crate::layers::graph::{Dependency, Graph, Kind, Package};
    use crate::layers::place::Place;
    use blkkin_sys::testing::Scratch;
    use std::fs;
    use std::path::Path;

    fn package(folder: &Path, name: &str, place: Option<Place>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            folder: folder.join(name),
            place,
            licence: Some("MIT".to_owned()),
            is_proc_macro: false,
            dependencies: Vec::new(),
        }
    }

    /// Only linked crates are named, and a text that two of them share is printed once.
    #[test]
    fn linked_crates_are_named() {
        let scratch = Scratch::new("package-notices");
        for (name, file) in [("b", "LICENSE-MIT"), ("c", "licence.txt"), ("d", "COPYING")] {
            fs::create_dir(scratch.0.join(name)).expect("a folder");
            fs::write(scratch.0.join(name).join(file), "Be kind.\r\n").expect("to write");
            fs::write(scratch.0.join(name).join("lib.rs"), "code").expect("to write");
        }
        let own = Some(Place::of_folder("crates/top/a"));
        let mut a = package(&scratch.0, "a", own);
        let link = |package, kind| Dependency { package, kind };
        a.dependencies = vec![link(2, Kind::Normal), link(1, Kind::Normal), link(3, Kind::Dev)];
        let others = ["b", "c", "d"].map(|name| package(&scratch.0, name, None));
        let graph = Graph { packages: [a].into_iter().chain(others).collect() };
        let notices = notices_of(&graph).expect("notices");
        let (_, list) = notices.split_once("\n\n").expect("a header");
        let line = "-".repeat(80);
        let expected =
            format!("b 1.0.0: MIT\nc 1.0.0: MIT\n\n{line}\nb 1.0.0, c 1.0.0:\n\nBe kind.\n");
        assert_eq!(list, expected);
    }
}
