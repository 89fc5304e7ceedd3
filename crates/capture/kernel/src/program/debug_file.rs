//! Separate debug files: the symbols of a stripped program, in a file that a distribution's
//! debug package installs.

use super::build_id;
use super::elf::{Elf, SHT_SYMTAB};
use super::source::Source;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Directory of debug files.
const DIRECTORY: &str = "usr/lib/debug";
/// Maximum size in bytes of the section with the name of the debug file.
const LINK_BYTES_MAX: u64 = 4096;

/// Opens the debug file of a program, if there is one with the same build id and with symbols. A
/// debug file that is unreadable or belongs to another build is ignored.
pub(super) fn find(path: &Path, elf: &Elf, build_id: Option<&[u8]>) -> Option<Elf> {
    let build_id = build_id?;
    candidates(path, link_name(elf), build_id).into_iter().find_map(|candidate| {
        let debug = Elf::parse(Source::open(&candidate).ok()?).ok()?;
        let has_symbols = debug.sections_of(SHT_SYMTAB).next().is_some();
        (has_symbols && build_id::find(&debug).as_deref() == Some(build_id)).then_some(debug)
    })
}

/// Returns the name in the section `.gnu_debuglink`. The name must not lead to another directory.
fn link_name(elf: &Elf) -> Option<OsString> {
    let section = elf.section(".gnu_debuglink")?;
    let bytes = elf.read_section(section, LINK_BYTES_MAX, "bytes of a debug link").ok()?;
    let name = OsStr::from_bytes(bytes.split(|byte| *byte == 0).next()?);
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(first)), None) if first == name => Some(name.to_owned()),
        _ => None,
    }
}

/// Returns the paths at which the debug file may be, the most specific first.
fn candidates(path: &Path, link_name: Option<OsString>, build_id: &[u8]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let roots = [container_root(path), Some(PathBuf::from("/"))];
    let roots: Vec<PathBuf> = roots.into_iter().flatten().collect();
    if let [first, rest @ ..] = build_id {
        let name = rest.iter().fold(String::new(), |mut name, byte| {
            let _ = write!(name, "{byte:02x}");
            name
        });
        let name = format!(".build-id/{first:02x}/{name}.debug");
        paths.extend(roots.iter().map(|root| root.join(DIRECTORY).join(&name)));
    }
    let (Some(name), Some(folder)) = (link_name, path.parent()) else { return paths };
    paths.extend([folder.join(&name), folder.join(".debug").join(&name)]);
    for root in &roots {
        let inside = folder.strip_prefix(root).unwrap_or(folder);
        paths.push(root.join(DIRECTORY).join(inside).join(&name));
    }
    paths.retain(|candidate| candidate != path);
    paths
}

/// Returns `/proc/PID/root` for a path below it.
fn container_root(path: &Path) -> Option<PathBuf> {
    let mut components = path.components();
    let first: PathBuf = components.by_ref().take(4).collect();
    let is_root = first.starts_with("/proc") && first.ends_with("root");
    (is_root && components.next().is_some()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{candidates, container_root};
    use std::path::{Path, PathBuf};

    #[test]
    fn paths_of_debug_files() {
        let paths = candidates(Path::new("/bin/ls"), Some("ls.debug".into()), &[0xab, 1, 0xf0]);
        let expected = [
            "/usr/lib/debug/.build-id/ab/01f0.debug",
            "/bin/ls.debug",
            "/bin/.debug/ls.debug",
            "/usr/lib/debug/bin/ls.debug",
        ];
        assert_eq!(paths, expected.map(PathBuf::from));
        // In a container.
        let root = "/proc/12/root";
        let path = PathBuf::from(format!("{root}/bin/ls"));
        let paths = candidates(&path, Some("ls.debug".into()), &[0xab, 1]);
        let expected = [
            format!("{root}/usr/lib/debug/.build-id/ab/01.debug"),
            "/usr/lib/debug/.build-id/ab/01.debug".to_owned(),
            format!("{root}/bin/ls.debug"),
            format!("{root}/bin/.debug/ls.debug"),
            format!("{root}/usr/lib/debug/bin/ls.debug"),
            format!("/usr/lib/debug{root}/bin/ls.debug"),
        ];
        assert_eq!(paths, expected.map(PathBuf::from));
        assert_eq!(container_root(Path::new("/proc/12/exe")), None);
        assert_eq!(container_root(Path::new(root)), None);
    }
}
