//! Builds the released files with cargo: a static program and dynamic libraries, without any path
//! of this machine.

use super::release::{Platform, VERSION, rustc};
use crate::install::plan;
use crate::tools::{at, cargo, target_dir, workspace_root};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder with the files of the last build, as [`plan::items`] expects them.
pub(super) fn built() -> PathBuf {
    folder().join("built")
}

/// Returns the folder of the target directories. These builds have compiler options of their own,
/// and would otherwise replace the files of ordinary builds.
fn folder() -> PathBuf {
    target_dir().join("package-build")
}

/// Builds program and libraries, and copies them to [`built`].
pub(super) fn build(platform: &Platform, with_sql: bool, seconds: u64) -> Result<(), String> {
    let paths = Paths::find()?;
    let mut flags = workspace_flags(&platform.triple)?;
    flags.extend(paths.flags());
    // Debug symbols are found by the build id. lld adds none by default.
    flags.push("-Clink-arg=-Wl,--build-id=sha1".to_owned());
    let dynamic = Build {
        target: folder().join("dynamic"),
        platform,
        flags: flags.clone(),
        paths: &paths,
        seconds,
    };
    // glibc from 2.34 on contains the name services `files` and `dns`, so that a static program
    // resolves host names.
    flags.push("-Ctarget-feature=+crt-static".to_owned());
    let fixed = Build { target: folder().join("static"), platform, flags, paths: &paths, seconds };
    let features: &[&str] = if with_sql { &[] } else { &["--no-default-features"] };
    let built = built();
    fs::create_dir_all(&built).map_err(at(&built))?;
    let copy = |build: &Build<'_>, name: &str| {
        let source = build.target.join(&platform.triple).join("release").join(name);
        fs::copy(&source, built.join(name)).map(drop).map_err(at(&source))
    };
    eprintln!("building the static program");
    fixed.run(&[&["--package=blkkin", "--bin=blkkin"], features].concat())?;
    copy(&fixed, plan::PROGRAM)?;
    eprintln!("building the libraries");
    dynamic.run(&["--package=blkkin-capi", "--package=blkkin-preload", "--lib"])?;
    plan::BUILT[1..].iter().try_for_each(|name| copy(&dynamic, name))
}

/// Returns the options for rustc of ordinary builds, from cargo's configuration in the workspace.
fn workspace_flags(triple: &str) -> Result<Vec<String>, String> {
    let path = workspace_root().join(".cargo/config.toml");
    let config = fs::read_to_string(&path).map_err(at(&path))?;
    flags_in(&config, triple).ok_or_else(|| {
        format!("{}: the array `rustflags` is not on one line; write it so", path.display())
    })
}

/// Returns `rustflags` of a target; `None` if the value is not understood. An array of strings on
/// one line is the same in TOML and JSON.
fn flags_in(config: &str, triple: &str) -> Option<Vec<String>> {
    let title = format!("[target.{triple}]");
    let lines = config.lines().skip_while(|line| *line != title).skip(1);
    let mut lines = lines.take_while(|line| !line.starts_with('['));
    let Some(line) = lines.find_map(|line| line.strip_prefix("rustflags = ")) else {
        return Some(Vec::new());
    };
    serde_json::from_str::<serde_json::Value>(line)
        .ok()?
        .as_array()?
        .iter()
        .map(|flag| flag.as_str().map(str::to_owned))
        .collect()
}

/// Returns the paths of this machine that a built file contains, without subfolders of a returned
/// folder. Short paths, such as `/src`, may be in any file and are not looked for.
pub(super) fn leaks(bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut leaks: Vec<String> = Vec::new();
    for (path, _) in Paths::find()?.all {
        let is_long = path.matches('/').count() > 1;
        let is_new = !leaks.iter().any(|outer| path.starts_with(outer.as_str()));
        if is_long && is_new && contains(bytes, path.as_bytes()) {
            leaks.push(path);
        }
    }
    Ok(leaks)
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let Some((first, rest)) = text.split_first() else { return true };
    let mut bytes = bytes;
    while let Some(at) = bytes.iter().position(|byte| byte == first) {
        bytes = &bytes[at + 1..];
        if bytes.starts_with(rest) {
            return true;
        }
    }
    false
}

/// Folders of this machine and their replacements in built files, each after the folders around it:
/// of several folders that contain a file, the compilers replace the last.
struct Paths {
    all: Vec<(String, String)>,
}

impl Paths {
    fn find() -> Result<Paths, String> {
        let source = format!("/usr/src/blkkin-{VERSION}");
        let home = std::env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
        let home = home.ok_or("neither CARGO_HOME nor HOME is set; set HOME")?;
        let mut all = vec![
            (workspace_root(), source.clone()),
            (folder(), format!("{source}/target/package-build")),
            (home.clone(), "/usr/src/crates".to_owned()),
        ];
        // Names of these folders depend on how this machine reaches the registry.
        for entry in home.join("registry/src").read_dir().into_iter().flatten().flatten() {
            all.push((entry.path(), "/usr/src/crates".to_owned()));
        }
        // Where the toolchain includes the standard library's sources, the compiler refers to them
        // by their local path, elsewhere by the commit.
        let version = rustc(&["--version", "--verbose"])?;
        let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
        let sysroot = PathBuf::from(rustc(&["--print", "sysroot"])?);
        let library = format!("/rustc/{}", commit.unwrap_or("unknown"));
        all.push((sysroot.clone(), library.clone()));
        all.push((sysroot.join("lib/rustlib/src/rust"), library));
        let text = |(path, new): (PathBuf, String)| match path.to_str() {
            Some(path) if !path.contains(['=', ' ']) => Ok((path.to_owned(), new)),
            _ => Err(format!("{}: compilers cannot replace this path; move it", path.display())),
        };
        let mut all = all.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        all.sort_by_key(|(path, _)| path.len());
        Ok(Paths { all })
    }

    /// Returns the options for rustc.
    fn flags(&self) -> Vec<String> {
        self.all.iter().map(|(path, new)| format!("--remap-path-prefix={path}={new}")).collect()
    }

    /// Returns the options for the C compiler.
    fn c_flags(&self) -> String {
        let flags = self.all.iter().map(|(path, new)| format!("-ffile-prefix-map={path}={new}"));
        flags.collect::<Vec<_>>().join(" ")
    }
}

/// A build with one set of compiler options.
struct Build<'a> {
    /// Target directory.
    target: PathBuf,
    platform: &'a Platform,
    /// Options of rustc.
    flags: Vec<String>,
    paths: &'a Paths,
    seconds: u64,
}

impl Build<'_> {
    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let triple = &self.platform.triple;
        let mut command = cargo();
        // With a target named, the options do not apply to build scripts and macros.
        command.args(["build", "--locked", "--release", "--target", triple, "--target-dir"]);
        command.arg(&self.target).args(arguments).current_dir(workspace_root());
        // This variable overrides RUSTFLAGS and all configuration files, so that a user's settings
        // do not change the release. It includes the workspace's own flags.
        command.env("CARGO_ENCODED_RUSTFLAGS", self.flags.join("\x1f"));
        command.env(format!("CFLAGS_{}", triple.replace('-', "_")), self.paths.c_flags());
        command.env("SOURCE_DATE_EPOCH", self.seconds.to_string()).env("LC_ALL", "C");
        let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
        if status.success() { Ok(()) } else { Err("it cannot be built; see above".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Paths, contains, flags_in, workspace_flags};

    #[test]
    fn bytes_are_found() {
        let check = |bytes: &str, text: &str| contains(bytes.as_bytes(), text.as_bytes());
        assert!(check("a/aa/b", "/aa/") && check("aab", "ab") && check("ab", "ab"));
        assert!(!check("a/a", "/aa") && !check("", "a"));
    }

    #[test]
    fn flags_of_the_workspace() {
        let config = "[alias]\nx = \"y\"\n\n# Why\n[target.a-b]\nrustflags = [\"-Ca\", \"-Cb\"]\n[target.c]\n\
                      [target.d]\nrustflags = [\n    \"-Ca\",\n]\n";
        assert_eq!(flags_in(config, "a-b"), Some(vec!["-Ca".to_owned(), "-Cb".to_owned()]));
        assert_eq!(flags_in(config, "c"), Some(Vec::new()));
        assert_eq!(flags_in(config, "other"), Some(Vec::new()));
        assert_eq!(flags_in(config, "d"), None);
        // The workspace's own configuration is understood.
        assert!(workspace_flags("x86_64-unknown-linux-gnu").is_ok());
    }

    #[test]
    fn inner_folders_come_last() {
        let paths = Paths::find().expect("paths").all;
        for (index, (path, _)) in paths.iter().enumerate() {
            let outer = paths[index + 1..].iter().find(|(later, _)| path.starts_with(later));
            assert!(outer.is_none_or(|(later, _)| later == path), "{path} before {outer:?}");
        }
    }
}
