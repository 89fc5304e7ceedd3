//! Contents of an installation: files and links with their paths below the prefix. Templates are in
//! `files`; each word between two `@` is a placeholder and is replaced.

use crate::symbols::{debug_file, debug_name, stripped_file};
use crate::tools::{at, workspace_root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file or link to install.
pub(crate) struct Item {
    /// Path below the prefix.
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    pub(crate) mode: u32,
}

pub(crate) enum Content {
    /// Copy of another file.
    File(PathBuf),
    Text(String),
    Link(PathBuf),
}

impl Item {
    fn new(path: impl Into<PathBuf>, content: Content) -> Item {
        Item { path: path.into(), content, mode: 0o644 }
    }
}

/// Names of blkin's libraries over time; a program is linked with one or more of them.
const BLKIN: [&str; 4] = ["libblkin", "libblkin-front", "libzipkin-c", "libzipkin-cpp"];
/// Headers in the `include` folder of libblkkin.
const HEADERS: [&str; 5] =
    ["blkkin.h", "blkkin.hpp", "blkin/zipkin_c.h", "blkin/blkin-front.h", "blkin/ztracer.hpp"];
const TEMPLATES: [(&str, &str); 14] = [
    ("lib/pkgconfig/blkkin.pc", include_str!("files/blkkin.pc")),
    ("lib/pkgconfig/blkin.pc", include_str!("files/blkin.pc")),
    // Ceph searches for this name.
    ("lib/pkgconfig/libblkin.pc", include_str!("files/blkin.pc")),
    ("lib/cmake/blkkin/blkkin-config.cmake", include_str!("files/blkkin-config.cmake")),
    (
        "lib/cmake/blkkin/blkkin-config-version.cmake",
        include_str!("files/blkkin-config-version.cmake"),
    ),
    ("lib/systemd/system/blkkin-agent.service", include_str!("files/blkkin-agent.service")),
    ("lib/systemd/system/blkkin-agent.socket", include_str!("files/blkkin-agent.socket")),
    ("lib/systemd/system/blkkin-relay.socket", include_str!("files/blkkin-relay.socket")),
    ("lib/systemd/system/blkkin-server.socket", include_str!("files/blkkin-server.socket")),
    ("lib/systemd/system/blkkin-recorder@.service", include_str!("files/blkkin-recorder@.service")),
    ("lib/systemd/system/blkkin-relay.service", include_str!("files/blkkin-relay.service")),
    ("lib/systemd/system/blkkin-server.service", include_str!("files/blkkin-server.service")),
    ("lib/sysusers.d/blkkin.conf", include_str!("files/sysusers.conf")),
    ("lib/tmpfiles.d/blkkin.conf", include_str!("files/tmpfiles.conf")),
];
/// Init script for machines without systemd, to be copied to `/etc/init.d`.
const INIT: (&str, &str) = ("share/blkkin/init.d/blkkin", include_str!("files/blkkin.init"));
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/blkkin"),
    ("zsh", "share/zsh/site-functions/_blkkin"),
    ("fish", "share/fish/vendor_completions.d/blkkin.fish"),
];

/// Program and shared library among the built files.
pub(crate) const PROGRAM: &str = "blkkin";
pub(crate) const LIBRARY: &str = "libblkkin.so";
/// Library of `blkkin io --preload`. The program searches for it beside itself and in `../lib`.
pub(crate) const PRELOADED: &str = "libblkkin_preload.so";
/// Names of the files that cargo builds and this chore installs.
pub(crate) const BUILT: [&str; 4] = [PROGRAM, LIBRARY, PRELOADED, "libblkkin.a"];

/// Names of this release's shared library.
pub(crate) struct Names {
    /// Name of the library's file, with the full version.
    pub(crate) file: String,
    /// Name by which the loader finds the library (soname); the same as in libblkkin's build
    /// script.
    pub(crate) soname: String,
    /// Leading version numbers of all releases that are compatible with programs built for this
    /// release.
    pub(crate) compatible: String,
}

pub(crate) fn names() -> Names {
    let compatible = match env!("CARGO_PKG_VERSION_MAJOR") {
        "0" => concat!("0.", env!("CARGO_PKG_VERSION_MINOR")),
        major => major,
    };
    Names {
        file: concat!("libblkkin.so.", env!("CARGO_PKG_VERSION")).to_owned(),
        soname: format!("libblkkin.so.{compatible}"),
        compatible: compatible.to_owned(),
    }
}

/// Returns all items to install, except debug symbols. `built` is the folder of the built files.
pub(crate) fn items(built: &Path, prefix: &Path) -> Result<Vec<Item>, String> {
    if let Some(missing) = BUILT.map(|name| built.join(name)).iter().find(|path| !path.is_file()) {
        return Err(format!("there is no {}; run it without --no-build", missing.display()));
    }
    let path = |name| stripped_file(built, name).unwrap_or_else(|| built.join(name));
    let [program, shared, preloaded, fixed] = BUILT.map(path);
    let root = workspace_root();
    let file = |path: PathBuf| Content::File(path);
    let mut items = vec![
        Item { mode: 0o755, ..Item::new("bin/blkkin", file(program.clone())) },
        Item::new("lib/libblkkin.a", file(fixed)),
        Item { mode: 0o755, ..Item::new(Path::new("lib").join(PRELOADED), file(preloaded)) },
    ];
    let names = names();
    let shared = Item::new(Path::new("lib").join(&names.file), file(shared));
    items.push(Item { mode: 0o755, ..shared });
    let mut link = |name: &str, target: &str| {
        items.push(Item::new(Path::new("lib").join(name), Content::Link(target.into())));
    };
    link(&names.soname, &names.file);
    link("libblkkin.so", &names.soname);
    for name in BLKIN {
        link(&format!("{name}.so"), &names.soname);
        link(&format!("{name}.a"), "libblkkin.a");
    }
    let include = root.join("crates/capture/capi/include");
    for header in HEADERS {
        let path = Path::new("include").join(header);
        items.push(Item::new(path, file(include.join(header))));
    }
    for (path, template) in TEMPLATES {
        items.push(Item::new(path, Content::Text(fill(template, prefix, &names))));
    }
    let (path, template) = INIT;
    let init = Item::new(path, Content::Text(fill(template, prefix, &names)));
    items.push(Item { mode: 0o755, ..init });
    for (shell, path) in SHELLS {
        items.push(Item::new(path, Content::Text(completions(&program, shell)?)));
    }
    let pages = root.join("docs/man");
    for entry in fs::read_dir(&pages).map_err(at(&pages))? {
        let entry = entry.map_err(at(&pages))?;
        let path = Path::new("share/man/man1").join(entry.file_name());
        items.push(Item::new(path, file(entry.path())));
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"] {
        items.push(Item::new(Path::new("share/doc/blkkin").join(name), file(root.join(name))));
    }
    Ok(items)
}

/// Returns the items with the debug symbols of program and library. Debuggers look for a file's
/// debug link in the subfolder `.debug`, whatever the prefix is.
pub(crate) fn debug_items(built: &Path) -> Result<Vec<Item>, String> {
    let items = [("bin", PROGRAM), ("lib", LIBRARY)].map(|(folder, name)| {
        let file = debug_file(built, name);
        if stripped_file(built, name).is_none() || !file.is_file() {
            return Err(format!(
                "there is no up-to-date {}; install binutils, and run it without --no-build",
                file.display()
            ));
        }
        let path = Path::new(folder).join(".debug").join(debug_name(name));
        Ok(Item::new(path, Content::File(file)))
    });
    items.into_iter().collect()
}

fn fill(template: &str, prefix: &Path, names: &Names) -> String {
    template
        .replace("@PREFIX@", &prefix.to_string_lossy())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@COMPATIBLE@", &names.compatible)
        .replace("@FILE@", &names.file)
        .replace("@LOADED@", &names.soname)
}

fn completions(program: &Path, shell: &str) -> Result<String, String> {
    let output = Command::new(program)
        .args(["completions", shell])
        .env_remove("BLKKIN_COMPLETE")
        .output()
        .map_err(at(program))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} completions {shell}: {}", program.display(), errors.trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("completions {shell}: {error}"))
}
