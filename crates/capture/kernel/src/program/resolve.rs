//! [`resolve`]: finds the file of a program or library by the name that a user gives.

use super::library_cache;
use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Cache of the dynamic linker.
const CACHE: &str = "/etc/ld.so.cache";
/// Maximum size in bytes of the cache.
const CACHE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of entries of a directory that are compared with the name of a library.
const DIRECTORY_ENTRIES_MAX: usize = 100_000;
/// Directories of libraries, for systems without a cache.
const LIBRARY_DIRECTORIES: [&str; 7] = [
    if cfg!(target_arch = "aarch64") {
        "/usr/lib/aarch64-linux-gnu"
    } else {
        "/usr/lib/x86_64-linux-gnu"
    },
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib64",
];

/// Error in finding a program.
#[derive(Debug)]
pub enum ResolveError {
    /// Name that is neither in the `PATH` nor that of an installed library.
    NotFound {
        /// The name.
        name: String,
    },
    /// Path without a readable file.
    Path {
        /// The path.
        path: PathBuf,
        /// Cause of the failure.
        error: io::Error,
    },
    /// Path of a directory or a device.
    NotFile {
        /// The path.
        path: PathBuf,
    },
    /// Text after `pid:` that is no number of a process.
    InvalidPid {
        /// The text.
        text: String,
    },
    /// Process without a readable program.
    Process {
        /// Number of the process.
        pid: u32,
        /// Cause of the failure.
        error: io::Error,
    },
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::NotFound { name } => write!(
                f,
                "no program `{name}` in PATH, and no library of this name; give a path or pid:PID"
            ),
            ResolveError::Path { path, error } => write!(f, "{}: {error}", path.display()),
            ResolveError::NotFile { path } => {
                write!(f, "{}: not a file; name a program or a library", path.display())
            }
            ResolveError::InvalidPid { text } => {
                write!(f, "`pid:{text}`: expected the number of a process after `pid:`")
            }
            ResolveError::Process { pid, error } => match error.kind() {
                io::ErrorKind::NotFound if Path::new(&format!("/proc/{pid}")).exists() => {
                    write!(f, "process {pid} has no program; it belongs to the kernel or has ended")
                }
                io::ErrorKind::NotFound => write!(f, "there is no process {pid}"),
                _ => write!(f, "cannot find the program of process {pid}: {error}"),
            },
        }
    }
}

impl std::error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ResolveError::Path { error, .. } | ResolveError::Process { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Returns the absolute path of a program or library. `name` is, in this order:
///
/// - `pid:1234`: the program of a process, also in another container
/// - a path, if it contains a slash
/// - a program in the `PATH`
/// - a library, such as `libc.so.6`; without a version, such as `libc`, the newest one
pub fn resolve(name: &str) -> Result<PathBuf, ResolveError> {
    if let Some(text) = name.strip_prefix("pid:") {
        return program_of(text);
    }
    if name.contains('/') {
        return check_path(Path::new(name));
    }
    let not_found = || ResolveError::NotFound { name: name.to_owned() };
    if name.is_empty() || name.contains('\0') {
        return Err(not_found());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = find_in_path(name, &path) {
        return Ok(std::path::absolute(&found).unwrap_or(found));
    }
    find_in_cache(name, &read_cache())
        .or_else(|| find_in_directories(name, &LIBRARY_DIRECTORIES))
        .ok_or_else(not_found)
}

/// Returns the path of a process's program, which is below `/proc/PID/root` if the file is still
/// there, and else the link `/proc/PID/exe`.
fn program_of(text: &str) -> Result<PathBuf, ResolveError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(pid) = text.parse::<u32>().ok().filter(|pid| is_number && *pid > 0) else {
        return Err(ResolveError::InvalidPid { text: text.to_owned() });
    };
    let failed = |error| ResolveError::Process { pid, error };
    let link = PathBuf::from(format!("/proc/{pid}/exe"));
    let running = fs::metadata(&link).map_err(failed)?;
    let target = fs::read_link(&link).map_err(failed)?;
    if let Ok(inside) = target.strip_prefix("/") {
        let path = PathBuf::from(format!("/proc/{pid}/root")).join(inside);
        // The file may have been replaced, or its path may lead elsewhere from here.
        let is_same = fs::metadata(&path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (running.dev(), running.ino()));
        if is_same {
            return Ok(path);
        }
    }
    Ok(link)
}

/// Makes a path absolute. Symbolic links stay, since those of `/proc` lead to other containers.
fn check_path(path: &Path) -> Result<PathBuf, ResolveError> {
    let failed = |error| ResolveError::Path { path: path.to_owned(), error };
    let path = std::path::absolute(path).map_err(failed)?;
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => Ok(path),
        Ok(_) => Err(ResolveError::NotFile { path }),
        Err(error) => Err(ResolveError::Path { path, error }),
    }
}

fn find_in_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    let programs = env::split_paths(path).map(|folder| folder.join(name));
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    programs.into_iter().find(is_program)
}

/// Reads the cache; an empty one if it is unreadable.
fn read_cache() -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(CACHE) {
        let _ = file.take(CACHE_BYTES_MAX).read_to_end(&mut bytes);
    }
    bytes
}

/// Returns the path of the newest library with this name in a cache, if the file exists.
fn find_in_cache(name: &str, cache: &[u8]) -> Option<PathBuf> {
    let libraries = library_cache::libraries(cache).filter_map(|library| {
        let version = library_version(name, library.name.to_str()?)?;
        Some((version, library.path))
    });
    newest(libraries.filter(|library| library.1.is_file())).map(Path::to_owned)
}

/// Returns the path of the newest library with this name in the first directory that has one.
fn find_in_directories(name: &str, directories: &[&str]) -> Option<PathBuf> {
    directories.iter().find_map(|directory| {
        let entries = fs::read_dir(directory).ok()?.take(DIRECTORY_ENTRIES_MAX);
        let libraries = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let version = library_version(name, entry.file_name().to_str()?)?;
            Some((version, entry.path()))
        });
        newest(libraries.filter(|library| library.1.is_file()))
    })
}

/// Returns the library with the highest version; of several, the first one.
fn newest<P>(libraries: impl Iterator<Item = (Vec<u64>, P)>) -> Option<P> {
    let mut best: Option<(Vec<u64>, P)> = None;
    for library in libraries {
        if best.as_ref().is_none_or(|best| library.0 > best.0) {
            best = Some(library);
        }
    }
    best.map(|library| library.1)
}

/// Returns the version of a library's file if it has the wanted name: `libc`, `libc.so` and
/// `libc.so.6` are names of `libc.so.6`.
fn library_version(wanted: &str, file: &str) -> Option<Vec<u64>> {
    let rest = file.strip_prefix(wanted)?;
    let rest = if wanted.contains(".so") { rest } else { rest.strip_prefix(".so")? };
    if rest.is_empty() {
        return Some(Vec::new());
    }
    let version = rest.strip_prefix('.')?;
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        ResolveError, find_in_cache, find_in_directories, find_in_path, library_version, resolve,
    };
    use blkkin_sys::testing::Scratch;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    #[test]
    fn names_of_libraries() {
        #[track_caller]
        fn check(wanted: &str, file: &str, version: Option<&[u64]>) {
            assert_eq!(library_version(wanted, file).as_deref(), version, "{wanted} {file}");
        }
        check("libc", "libc.so.6", Some(&[6]));
        check("libc.so", "libc.so.6", Some(&[6]));
        check("libc.so.6", "libc.so.6", Some(&[]));
        check("libssl", "libssl.so", Some(&[]));
        check("libssl", "libssl.so.1.1", Some(&[1, 1]));
        check("libc", "libcrypt.so.1", None);
        check("libc.so.6", "libc.so.60", None);
        check("libc", "libc.a", None);
        check("lib", "libc.so.6", None);
        check("libc", "libc.so.6-gdb.py", None);
    }

    /// Makes a cache in the current format with the entries' flags, names and paths.
    fn cache(entries: &[(u32, &str, &str)]) -> Vec<u8> {
        let mut texts = Vec::new();
        let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
        bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        bytes.resize(48, 0);
        let start = 48 + entries.len() * 24;
        for entry in entries {
            bytes.extend_from_slice(&entry.0.to_le_bytes());
            for text in [entry.1, entry.2] {
                bytes.extend_from_slice(&((start + texts.len()) as u32).to_le_bytes());
                texts.extend_from_slice(text.as_bytes());
                texts.push(0);
            }
            bytes.resize(bytes.len() + 12, 0);
        }
        bytes.extend_from_slice(&texts);
        bytes
    }

    /// Libraries of the cache are found by name, those of other processors are not; the older
    /// format in front of the cache is skipped; cut caches give no result.
    #[test]
    fn libraries_of_a_cache() {
        let scratch = Scratch::new("library-cache");
        let file = |name: &str| {
            let path = scratch.0.join(name);
            fs::write(&path, "").expect("a file");
            path.to_str().expect("a path").to_owned()
        };
        let (one, three, missing) = (file("1.1"), file("3"), "/missing/libssl.so.4");
        let flags = super::library_cache::FLAGS;
        let cache = cache(&[
            (flags, "libssl.so.1.1", &one),
            (3, "libssl.so.5", &one),
            (flags, "libssl.so.3", &three),
            (flags, "libssl.so.4", missing),
        ]);
        assert_eq!(find_in_cache("libssl", &cache), Some(PathBuf::from(&three)));
        assert_eq!(find_in_cache("libssl.so.1.1", &cache), Some(PathBuf::from(&one)));
        assert_eq!(find_in_cache("libcrypto", &cache), None);
        let mut old = b"ld.so-1.7.0\0\x01\0\0\0".to_vec();
        old.resize(32, 0);
        old.extend_from_slice(&cache);
        assert_eq!(find_in_cache("libssl", &old), Some(PathBuf::from(&three)));
        for size in 0..cache.len() {
            let _ = find_in_cache("libssl", &cache[..size]);
        }
        assert_eq!(find_in_cache("libssl", &cache[..100]), None);
    }

    #[test]
    fn files_of_directories() {
        let scratch = Scratch::new("library-directories");
        let folder = scratch.0.to_str().expect("a path");
        for name in ["libx.so", "libx.so.2", "libx.so.10", "libx.so.11.py", "run"] {
            fs::write(scratch.0.join(name), "").expect("a file");
        }
        let found = find_in_directories("libx", &["/missing", folder]);
        assert_eq!(found, Some(scratch.0.join("libx.so.10")));
        assert_eq!(find_in_path("run", scratch.0.as_os_str()), None);
        let run = scratch.0.join("run");
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).expect("permissions");
        assert_eq!(find_in_path("run", scratch.0.as_os_str()), Some(run));
    }

    #[test]
    fn names_of_this_system() {
        let own = std::env::current_exe().expect("the program");
        let found = resolve(&format!("pid:{}", std::process::id())).expect("this process");
        assert!(found.starts_with(format!("/proc/{}/root", std::process::id())), "{found:?}");
        assert_eq!(fs::canonicalize(&found).ok(), fs::canonicalize(&own).ok());
        assert_eq!(resolve(own.to_str().expect("a path")).ok(), Some(own));
        assert!(resolve("sh").expect("a shell").is_absolute());
        assert!(resolve("./Cargo.toml").expect("a file").is_absolute());
        if Path::new("/etc/ld.so.cache").exists() {
            let path = resolve("libc.so.6").expect("the C library");
            assert!(path.is_absolute());
            assert_eq!(resolve("libc").ok(), Some(path));
        }
    }

    #[test]
    fn errors() {
        #[track_caller]
        fn check(name: &str, expected: &str) {
            let error = resolve(name).expect_err("no such program");
            assert_eq!(error.to_string(), expected);
        }
        let not_found = "in PATH, and no library of this name; give a path or pid:PID";
        check("no-such-program", &format!("no program `no-such-program` {not_found}"));
        check("", &format!("no program `` {not_found}"));
        check("/missing/file", "/missing/file: No such file or directory (os error 2)");
        check("/proc", "/proc: not a file; name a program or a library");
        check("pid:", "`pid:`: expected the number of a process after `pid:`");
        check("pid:+1", "`pid:+1`: expected the number of a process after `pid:`");
        check("pid:4294967295", "there is no process 4294967295");
        assert!(matches!(resolve("a\0b"), Err(ResolveError::NotFound { .. })));
        assert!(matches!(resolve("/a\0b"), Err(ResolveError::Path { .. })));
    }
}
