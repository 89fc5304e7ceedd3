//! Debian packages: `blkkin` with all installed files, and `blkkin-dbgsym` with debug symbols.
//!
//! A package is an `ar` archive of three members. Its members are written here, because a header is
//! one line of text; dpkg's own tools are on Debian only.

use super::archive::{gzip, hex, tar};
use super::date;
use super::elf::Elf;
use super::output::Product;
use super::release::Release;
use super::tree::{Content, Tree};
use crate::install::plan;
use crate::tools::{at, workspace_root};
use md5::{Digest, Md5};
use std::fmt::Write as _;
use std::fs;

const MAINTAINER: &str = "BlkKin developers <blkkin@users.noreply.github.com>";

/// Packages of the libraries that our files may need, with the prefix of the versions that count.
const LIBRARIES: [(&str, &str, &str); 7] = [
    ("libc.so.6", "libc6", "GLIBC_"),
    ("libm.so.6", "libc6", "GLIBC_"),
    ("libdl.so.2", "libc6", "GLIBC_"),
    ("libpthread.so.0", "libc6", "GLIBC_"),
    ("ld-linux-x86-64.so.2", "libc6", "GLIBC_"),
    ("ld-linux-aarch64.so.1", "libc6", "GLIBC_"),
    ("libgcc_s.so.1", "libgcc-s1", "GCC_"),
];

/// Debug symbols of one file.
pub(super) struct Symbols {
    pub(super) build_id: String,
    pub(super) bytes: Vec<u8>,
}

/// Makes the package with all items, which were installed below `/usr`. `library` is the shared
/// library among them, and decides about dependencies.
pub(super) fn package(
    release: &Release,
    items: &[plan::Item],
    library: &Elf,
) -> Result<Product, String> {
    let mut tree = Tree::default();
    tree.install("usr", items)?;
    adapt(&mut tree)?;
    let version = release.debian_version();
    let changelog = include_str!("files/changelog")
        .replace("@VERSION@", &version)
        .replace("@MAINTAINER@", MAINTAINER)
        .replace("@DATE@", &date::rfc5322(release.seconds));
    tree.file("usr/share/doc/blkkin/changelog.gz", gzip(changelog.as_bytes())?, 0o644);
    tree.file("usr/share/doc/blkkin/copyright", copyright(release)?, 0o644);
    let overrides = include_str!("files/lintian-overrides");
    tree.file("usr/share/lintian/overrides/blkkin", overrides, 0o644);
    let control = include_str!("files/control").replace("@DEPENDS@", &dependencies(library)?);
    let shlibs = format!("libblkkin {} blkkin (>= {version})\n", plan::names().compatible);
    let others = [("shlibs", shlibs.as_str()), ("triggers", "activate-noawait ldconfig\n")];
    pack(release, "blkkin", &control, &others, &tree)
}

/// Makes the package with debug symbols, which debuggers find by build id.
pub(super) fn debug_package(release: &Release, symbols: &[Symbols]) -> Result<Product, String> {
    let mut tree = Tree::default();
    let mut ids: Vec<&str> = symbols.iter().map(|symbols| symbols.build_id.as_str()).collect();
    ids.sort_unstable();
    for Symbols { build_id, bytes } in symbols {
        let (folder, name) = build_id.split_at(2.min(build_id.len()));
        let path = format!("usr/lib/debug/.build-id/{folder}/{name}.debug");
        tree.file(&path, bytes.as_slice(), 0o644);
    }
    // Both packages have the same licence and changelog.
    tree.link("usr/share/doc/blkkin-dbgsym", "blkkin");
    let control = include_str!("files/control-debug").replace("@BUILD_IDS@", &ids.join(" "));
    pack(release, "blkkin-dbgsym", &control, &[], &tree)
}

/// Changes the installed files where Debian's rules differ from those of upstream projects.
fn adapt(tree: &mut Tree) -> Result<(), String> {
    tree.rename("usr/share/zsh/site-functions/_blkkin", "usr/share/zsh/vendor-completions/_blkkin");
    // The file `copyright` has the licences.
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        tree.remove(&format!("usr/share/doc/blkkin/{name}"));
    }
    let pages = tree.entries.keys().filter(|path| path.starts_with("usr/share/man/man"));
    let pages: Vec<String> = pages.filter(|path| path.ends_with(".1")).cloned().collect();
    for page in pages {
        if let Some(entry) = tree.entries.get_mut(&page)
            && let Content::File(bytes) = &mut entry.content
        {
            *bytes = gzip(bytes)?;
        }
        tree.rename(&page, &format!("{page}.gz"));
    }
    // Only the loader runs shared libraries.
    let libraries = tree.entries.iter_mut().filter(|(path, _)| path.starts_with("usr/lib/lib"));
    for (_, entry) in libraries.filter(|(_, entry)| matches!(entry.content, Content::File(_))) {
        entry.mode = 0o644;
    }
    Ok(())
}

/// Returns the field `Depends` for a shared library.
fn dependencies(library: &Elf) -> Result<String, String> {
    let mut dependencies: Vec<String> = Vec::new();
    for needed in &library.needed {
        let known = LIBRARIES.iter().find(|(name, ..)| name == needed);
        let (_, package, prefix) = known.ok_or_else(|| {
            format!("libblkkin.so needs {needed}; add its package to xtask/src/package/deb.rs")
        })?;
        let dependency = match library.version_max(prefix)? {
            Some(version) => format!("{package} (>= {version})"),
            None => (*package).to_owned(),
        };
        if !dependencies.contains(&dependency) {
            dependencies.push(dependency);
        }
    }
    dependencies.sort();
    Ok(dependencies.join(", "))
}

/// Returns the file that names licences and authors, in Debian's format.
fn copyright(release: &Release) -> Result<String, String> {
    let path = workspace_root().join("LICENSE-MIT");
    let licence = fs::read_to_string(&path).map_err(at(&path))?;
    let (mut holder, mut text) = (String::new(), String::new());
    for line in licence.lines().skip_while(|line| !line.starts_with("Copyright")) {
        match line.strip_prefix("Copyright (c) ") {
            Some(rest) => rest.clone_into(&mut holder),
            None if line.is_empty() && text.is_empty() => {}
            None if line.is_empty() => text += " .\n",
            None => {
                let _ = writeln!(text, " {line}");
            }
        }
    }
    if holder.is_empty() {
        return Err(format!("{}: no line begins with `Copyright (c)`", path.display()));
    }
    let year = &date::rfc3339(release.seconds)[..4];
    let template = include_str!("files/copyright");
    let holder = format!("{year} {holder}");
    Ok(template.replace("@COPYRIGHT@", &holder).replace("@MIT@\n", &text))
}

/// Packs a package from its control file, other control files, and data.
fn pack(
    release: &Release,
    name: &str,
    control: &str,
    others: &[(&str, &str)],
    data: &Tree,
) -> Result<Product, String> {
    let version = release.debian_version();
    let control = control
        .replace("@VERSION@", &version)
        .replace("@ARCHITECTURE@", release.platform.debian)
        .replace("@MAINTAINER@", MAINTAINER)
        .replace("@SIZE@", &installed_kib(data).to_string());
    let mut tree = Tree::default();
    tree.file("control", control, 0o644);
    for (name, text) in others {
        tree.file(name, *text, 0o644);
    }
    let sums = data.files().map(|(path, bytes)| format!("{}  {path}\n", hex(&Md5::digest(bytes))));
    tree.file("md5sums", sums.collect::<String>(), 0o644);
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar(&tree, "./", release.seconds)?)?),
        ("data.tar.gz", gzip(&tar(data, "./", release.seconds)?)?),
    ];
    let path = format!("{name}_{version}_{}.deb", release.platform.debian);
    Ok(Product { path, bytes: ar(&members, release.seconds) })
}

/// Returns the installed size as Debian defines it: files in whole KiB, anything else as one.
fn installed_kib(tree: &Tree) -> u64 {
    let kib = tree.entries.values().map(|entry| match &entry.content {
        Content::File(bytes) => (bytes.len() as u64).div_ceil(1024),
        Content::Link(_) | Content::Folder => 1,
    });
    kib.sum()
}

fn ar(members: &[(&str, Vec<u8>)], seconds: u64) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, member) in members {
        // Name, time, user, group, mode, size.
        let header = format!(
            "{name:<16}{seconds:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            "100644",
            member.len()
        );
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(member);
        if member.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}
