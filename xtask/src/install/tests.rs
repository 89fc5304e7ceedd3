//! Tests of an installation with synthetic files; [`installed_files`] and [`blkin`] test a real
//! installation.

mod blkin;
mod installed_files;
mod support;

use super::manifest::{self, Manifest};
use super::plan::{Content, Item};
use super::{Location, install, uninstall};
use blkkin_sys::testing::Scratch;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn text(path: &str, text: &str) -> Item {
    Item { path: path.into(), content: Content::Text(text.to_owned()), mode: 0o644 }
}

fn link(path: &str, target: &str) -> Item {
    Item { path: path.into(), content: Content::Link(target.into()), mode: 0o644 }
}

fn some() -> Vec<Item> {
    vec![
        Item { mode: 0o755, ..text("bin/p", "program") },
        text("lib/libp.so.1", "library"),
        link("lib/libp.so", "libp.so.1"),
        text("share/doc/p/README", "read"),
    ]
}

/// Returns the paths of all files and links below a folder, and of empty folders.
fn found(root: &Path) -> Vec<String> {
    fn add(root: &Path, folder: &Path, all: &mut Vec<String>) {
        let before = all.len();
        let mut is_empty = true;
        for entry in fs::read_dir(folder).expect("a folder") {
            is_empty = false;
            let path = entry.expect("an entry").path();
            match fs::symlink_metadata(&path).expect("to be there").is_dir() {
                true => add(root, &path, all),
                false => {
                    all.push(path.strip_prefix(root).expect("below").display().to_string());
                }
            }
        }
        if is_empty && folder != root {
            all.push(format!("{}/", folder.strip_prefix(root).expect("below").display()));
        }
        all[before..].sort();
    }
    let mut all = Vec::new();
    add(root, root, &mut all);
    all.sort();
    all
}

fn location(root: &Path) -> Location {
    Location { prefix: root.to_owned(), destdir: None }
}

#[test]
fn what_was_installed_goes_and_nothing_else() {
    let scratch = Scratch::new("install-exact");
    let root = scratch.0.join("prefix");
    let installed =
        ["bin/p", "lib/libp.so", "lib/libp.so.1", "share/blkkin/manifest", "share/doc/p/README"];
    // With a new prefix: the folders created below the prefix are removed, too.
    install(&root, &some()).unwrap();
    assert_eq!(found(&root), installed);
    assert_eq!(fs::read_to_string(root.join("lib/libp.so")).unwrap(), "library");
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("bin/p"), mode("lib/libp.so.1"), mode("lib")), (0o755, 0o644, 0o755));
    uninstall(&location(&root)).unwrap();
    assert_eq!(found(&root), Vec::<String>::new());

    // With foreign files: these remain with their folders, including files added later.
    for (folder, file) in [("bin", "q"), ("share/blkkin", "notes"), ("empty", "")] {
        fs::create_dir_all(root.join(folder)).unwrap();
        if !file.is_empty() {
            fs::write(root.join(folder).join(file), "other").unwrap();
        }
    }
    install(&root, &some()).unwrap();
    fs::write(root.join("share/doc/p/later"), "other").unwrap();
    uninstall(&location(&root)).unwrap();
    assert_eq!(found(&root), ["bin/q", "empty/", "share/blkkin/notes", "share/doc/p/later"]);
}

#[test]
fn what_was_changed_stays() {
    let scratch = Scratch::new("install-changed");
    let root = &scratch.0;
    install(root, &some()).unwrap();
    fs::write(root.join("bin/p"), "my own").unwrap();
    fs::remove_file(root.join("lib/libp.so")).unwrap();
    std::os::unix::fs::symlink("elsewhere", root.join("lib/libp.so")).unwrap();
    fs::remove_file(root.join("share/doc/p/README")).unwrap();
    fs::create_dir(root.join("share/doc/p/README")).unwrap();
    let kept = Manifest::read(root).unwrap().unwrap().remove(root).unwrap();
    let expected = ["share/doc/p/README", "lib/libp.so", "bin/p"].map(PathBuf::from);
    assert_eq!(kept, expected);
    assert_eq!(found(root), ["bin/p", "lib/libp.so", "share/doc/p/README/"]);
}

#[test]
fn a_new_release_takes_the_place_of_the_old() {
    let scratch = Scratch::new("install-update");
    let root = &scratch.0;
    install(root, &some()).unwrap();
    let new = || {
        vec![
            text("bin/p", "new program"),
            text("lib/libp.so.2", "new library"),
            link("lib/libp.so", "libp.so.2"),
        ]
    };
    install(root, &new()).unwrap();
    let installed = ["bin/p", "lib/libp.so", "lib/libp.so.2", "share/blkkin/manifest"];
    assert_eq!(&found(root)[..4], installed);
    assert_eq!(fs::read_to_string(root.join("lib/libp.so")).unwrap(), "new library");
    // A repeated installation of the same release.
    install(root, &new()).unwrap();
    uninstall(&location(root)).unwrap();
    assert_eq!(found(root), Vec::<String>::new());

    // After an interrupted installation, the files of both releases are removed.
    install(root, &some()).unwrap();
    let mut both = Manifest::read(root).unwrap().unwrap();
    let old = both.clone();
    let other = scratch.0.join("other");
    install(&other, &new()).unwrap();
    both.entries.extend(Manifest::read(&other).unwrap().unwrap().entries);
    fs::remove_dir_all(&other).unwrap();
    both.write(root).unwrap();
    fs::write(root.join("bin/p"), "new program").unwrap();
    fs::write(root.join("lib/libp.so.2"), "new library").unwrap();
    assert!(old.has(Path::new("bin/p")) && !old.has(Path::new("lib/libp.so.2")));
    uninstall(&location(root)).unwrap();
    assert_eq!(found(root), Vec::<String>::new());
}

#[test]
fn others_files_are_not_overwritten() {
    let scratch = Scratch::new("install-others");
    let root = &scratch.0;
    fs::create_dir(root.join("lib")).unwrap();
    // A dangling link counts as a file.
    std::os::unix::fs::symlink("nowhere", root.join("lib/libp.so")).unwrap();
    let error = install(root, &some()).unwrap_err();
    let path = root.join("lib/libp.so");
    assert_eq!(
        error.to_string(),
        format!(
            "{} is there already, and not from here; remove it, or give another --prefix",
            path.display()
        )
    );
    assert_eq!(found(root), ["lib/libp.so"]);
    let error = uninstall(&location(root)).unwrap_err();
    assert!(error.starts_with("nothing was installed below "), "{error}");
}

/// Errors name the path and keep their kind, because the kind decides whether the hint to use root
/// is given.
#[test]
fn errors_say_where_and_keep_their_kind() {
    let scratch = Scratch::new("install-kinds");
    let root = scratch.0.join("file");
    fs::write(&root, "").unwrap();
    let error = install(&root, &some()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
    assert!(error.to_string().starts_with(&format!("{}", root.display())), "{error}");
}

#[test]
fn manifests_are_not_believed() {
    let scratch = Scratch::new("install-manifest");
    let root = scratch.0.join("prefix");
    fs::create_dir_all(root.join("share/blkkin")).unwrap();
    fs::write(scratch.0.join("other"), "").unwrap();
    // Digest of an empty file.
    let empty = "cbf29ce484222325";
    let check = |text: &str, line: usize| {
        fs::write(root.join(manifest::PATH), text).unwrap();
        let error = uninstall(&location(&root)).unwrap_err();
        let expected = format!("/manifest, line {line}: no manifest of blkkin; restore it");
        assert!(error.ends_with(&expected), "{error}");
        assert!(scratch.0.join("other").exists());
    };
    check("", 1);
    check("blkkin manifest 2\n", 1);
    for line in [
        format!("file {empty} ../other"),
        format!("file {empty} {}", scratch.0.join("other").display()),
        format!("file {empty} share/../../other"),
        format!("file {empty} "),
        format!("file {empty}"),
        "folder 0 .".to_owned(),
        "file xyz bin/p".to_owned(),
        format!("socket {empty} bin/p"),
    ] {
        check(&format!("blkkin manifest 1\nfolder 0 share\n{line}\n"), 3);
    }
}

#[test]
fn places() {
    let check = |prefix: &str, destdir: Option<&str>, expected: Result<(&str, &str), &str>| {
        let location = Location { prefix: prefix.into(), destdir: destdir.map(PathBuf::from) };
        let got = location.prefix().and_then(|prefix| Ok((prefix, location.root()?)));
        match (got, expected) {
            (Ok((prefix, root)), Ok(expected)) => {
                assert_eq!((prefix.to_str(), root.to_str()), (Some(expected.0), Some(expected.1)));
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (got, _) => panic!("{prefix}: {got:?}"),
        }
    };
    check("/usr", None, Ok(("/usr", "/usr")));
    check("/opt/b", Some("/tmp/d"), Ok(("/opt/b", "/tmp/d/opt/b")));
    check("/", Some("/tmp/d"), Ok(("/", "/tmp/d/")));
    check("usr", Some("/tmp/d"), Err("does not begin with /"));
    check("/opt/my own", None, Err("letters that pkg-config"));
    check("/opt/@VERSION@", None, Err("letters that pkg-config"));
    check("/opt/100%", None, Err("letters that pkg-config"));
    check("/opt/../b", None, Err("or `..`"));
}
