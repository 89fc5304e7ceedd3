//! `cargo xtask install` and `uninstall`: installs BlkKin below a prefix, and removes it. [`plan`]
//! lists the files, also for [`crate::package`]; [`manifest`] records the installed files, so that
//! exactly these can be removed or replaced.

mod error;
mod hints;
mod manifest;
pub(crate) mod plan;
#[cfg(test)]
mod tests;

use crate::symbols;
use crate::tools::{Outcome, cargo, target_dir, workspace_root};
use error::at;
use hints::{User, hints};
use manifest::{Entry, Manifest};
use plan::{Content, Item};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    location: Location,

    /// Install an existing build, such as another user's
    #[arg(long)]
    no_build: bool,

    /// Cargo profile; `dev` builds faster and is slow
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,

    /// Leave out `blkkin sql`, which takes most of the build time
    #[arg(long)]
    without_sql: bool,

    /// Install debug symbols in folders `.debug` beside the files, where gdb and perf find them
    #[arg(long)]
    with_debug_symbols: bool,
}

impl Options {
    /// Returns the directory in which cargo has put the built files.
    fn built(&self) -> PathBuf {
        // The profile `dev` builds into `debug`; `test` and `bench` are not supported.
        target_dir().join(if self.profile == "dev" { "debug" } else { &self.profile })
    }
}

/// Directories of an installation.
#[derive(clap::Args, Clone)]
pub(crate) struct Location {
    /// Directory of bin, lib and others, such as /usr/local
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,

    /// Write all files below this directory, for packaging; their contents refer to the prefix only
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
}

impl Location {
    /// Returns the absolute prefix, as installed files contain it.
    fn prefix(&self) -> Result<PathBuf, String> {
        let prefix = &self.prefix;
        if self.destdir.is_some() && !prefix.is_absolute() {
            return Err(format!(
                "--prefix {} does not begin with /; with --destdir it has to",
                prefix.display()
            ));
        }
        let prefix = std::path::absolute(prefix).map_err(crate::tools::at(prefix))?;
        let text = prefix.to_str().filter(|text| text.chars().all(is_plain));
        if text.is_none() || prefix.components().any(|part| part == Component::ParentDir) {
            return Err(format!(
                "--prefix {} has letters that pkg-config and systemd do not take, or `..`; give one of \
                 letters, digits and any of / . _ + - only",
                prefix.display()
            ));
        }
        Ok(prefix)
    }

    /// Returns the directory below which files are written.
    fn root(&self) -> Result<PathBuf, String> {
        let prefix = self.prefix()?;
        let Some(destdir) = &self.destdir else { return Ok(prefix) };
        let within = prefix.strip_prefix("/").unwrap_or(&prefix);
        Ok(std::path::absolute(destdir).map_err(crate::tools::at(destdir))?.join(within))
    }
}

/// Returns true if a letter has no special meaning in any installed file.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "/._+-".contains(letter)
}

pub(crate) fn run(options: &Options) -> Outcome {
    if !options.no_build {
        build(options)?;
    }
    let built = options.built();
    let mut items = plan::items(&built, &options.location.prefix()?)?;
    if options.with_debug_symbols {
        items.extend(plan::debug_items(&built)?);
    }
    let root = options.location.root()?;
    let count = install(&root, &items).map_err(|error| as_root(error, options))?;
    println!("installed {count} files below {}", root.display());
    if options.location.destdir.is_none() {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let user = User {
            is_root: nix::unistd::geteuid().is_root(),
            has_systemd: Path::new("/run/systemd/system").is_dir(),
            variable: &variable,
        };
        print!("{}", hints(&root, &user));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn uninstall(location: &Location) -> Outcome {
    let root = location.root()?;
    let words = |error: io::Error| error.to_string();
    let manifest = Manifest::read(&root).map_err(words)?.ok_or_else(|| {
        format!(
            "nothing was installed below {}: there is no {}; give the --prefix and --destdir that \
             `install` was given",
            root.display(),
            manifest::PATH
        )
    })?;
    let kept = manifest.remove(&root).map_err(words)?;
    for path in &kept {
        println!("left where it is, because it was changed: {}", root.join(path).display());
    }
    println!("uninstalled below {}", root.display());
    Ok(ExitCode::SUCCESS)
}

fn build(options: &Options) -> Result<(), String> {
    let status = cargo()
        .current_dir(workspace_root())
        .args(["build", "--locked", "--package=blkkin"])
        .args(["--package=blkkin-capi", "--package=blkkin-preload"])
        .arg(format!("--profile={}", options.profile))
        .args(options.without_sql.then_some("--no-default-features"))
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err("it cannot be built; see above".to_owned());
    }
    split(&options.built())
}

/// Writes stripped copies of the built files for [`plan::items`], with their debug symbols beside
/// them. Without binutils, the built files are installed unchanged.
fn split(built: &Path) -> Result<(), String> {
    if !symbols::can_split() {
        return Ok(());
    }
    symbols::split(built, &plan::BUILT)
}

/// Returns an error's text. If a user other than root lacks a permission, adds the command to run
/// as root. The command does not build, because root may lack cargo in its path and must not write
/// to the target directory.
fn as_root(error: io::Error, options: &Options) -> String {
    let program = std::env::current_exe().unwrap_or_default();
    if error.kind() != ErrorKind::PermissionDenied || nix::unistd::geteuid().is_root() {
        return error.to_string();
    }
    let Options { location, profile, with_debug_symbols, .. } = options;
    let symbols = if *with_debug_symbols { " --with-debug-symbols" } else { "" };
    let destdir =
        location.destdir.as_ref().map(|folder| format!(" --destdir {}", folder.display()));
    format!(
        "{error}; it is built, so go on as root: sudo CARGO_TARGET_DIR={} {} install --no-build \
         --profile {profile}{symbols} --prefix {}{}",
        target_dir().display(),
        program.display(),
        location.prefix.display(),
        destdir.unwrap_or_default(),
    )
}

/// Installs items below a directory and returns their number. Unchanged files of an earlier release
/// that this release lacks are removed.
fn install(root: &Path, items: &[Item]) -> io::Result<usize> {
    let old = Manifest::read(root)?.unwrap_or_default();
    for item in items {
        let path = root.join(&item.path);
        if fs::symlink_metadata(&path).is_ok() && !old.has(&item.path) {
            return Err(io::Error::other(format!(
                "{} is there already, and not from here; remove it, or give another --prefix",
                path.display()
            )));
        }
    }
    let mut new = Manifest::default();
    for item in items {
        let entry = match &item.content {
            Content::File(source) => {
                Entry::file(&item.path, &fs::read(source).map_err(at(source))?)
            }
            Content::Text(text) => Entry::file(&item.path, text.as_bytes()),
            Content::Link(target) => Entry::link(&item.path, target),
        };
        new.entries.push(entry);
    }
    new.entries.extend(old.entries.iter().filter(|entry| entry.is_folder()).cloned());
    let mut folders: Vec<&Path> =
        items.iter().map(|item| &*item.path).chain([Path::new(manifest::PATH)]).collect();
    folders.sort_unstable();
    for folder in folders.into_iter().filter_map(Path::parent) {
        make_folder(root, folder, &mut new)?;
    }
    // The manifest is written first, with the old entries, so that every installed file is recorded
    // at any time.
    let mut both = new.clone();
    both.entries.extend(old.entries.iter().cloned());
    both.write(root)?;
    for item in items {
        write_file(&root.join(&item.path), item)?;
    }
    let gone = old.entries.into_iter().filter(|entry| !new.has(&entry.path)).collect();
    Manifest { entries: gone }.remove_entries(root)?;
    new.write(root)?;
    Ok(items.len())
}

/// Creates a directory and its parents, and records the new directories below the root.
fn make_folder(root: &Path, folder: &Path, manifest: &mut Manifest) -> io::Result<()> {
    fs::create_dir_all(root).map_err(at(root))?;
    let mut path = PathBuf::new();
    for part in folder {
        path.push(part);
        let full = root.join(&path);
        match fs::create_dir(&full) {
            Ok(()) => {
                let open = fs::Permissions::from_mode(0o755);
                fs::set_permissions(&full, open).map_err(at(&full))?;
                manifest.entries.push(Entry::folder(&path));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at(&full)(error)),
        }
    }
    Ok(())
}

/// Writes a temporary file and renames it, as the old file may be in execution.
fn write_file(path: &Path, item: &Item) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    let written = match &item.content {
        Content::File(source) => fs::copy(source, &beside).map(drop),
        Content::Text(text) => fs::write(&beside, text),
        Content::Link(target) => symlink(target, &beside),
    };
    written.map_err(at(&beside))?;
    if !matches!(item.content, Content::Link(_)) {
        let mode = fs::Permissions::from_mode(item.mode);
        fs::set_permissions(&beside, mode).map_err(at(&beside))?;
    }
    fs::rename(&beside, path).map_err(at(path))
}
