//! Output directory of a session or a snapshot, and the files below it.
//!
//! One thread of the agent serves all users, so a file system that does not answer would block all
//! users. Users can mount such a file system at any time, for instance with `fusermount`, even over
//! a directory of an open trace. If several users share the agent, the outputs of plain users are
//! therefore *guarded*. The agent checks the directory's file system, and keeps a descriptor of the
//! directory. It opens all files from there, without entering another mount or following a symbolic
//! link. Outputs of root and of the agent's own user are trusted, and opened by their paths.

use crate::owner::Owner;
use crate::quota::Share;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, fstatfs};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Output directory of a session or a snapshot, with its owner. Its files are accessed with the
/// owner's rights.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    path: PathBuf,
    owner: Owner,
    /// Directory of a guarded output, or the error of opening the directory; empty until then.
    /// `None` if the output is trusted.
    root: Option<Arc<OnceLock<io::Result<Root>>>>,
}

/// Open directory of a guarded output, whose file system was checked.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    /// Mount id of the directory.
    mount: u64,
    _descriptor: Share,
}

/// Directory from which a relative path is resolved.
enum Base {
    Working,
    Below(OwnedFd),
}

/// Value of `f_type` in `statfs` for file systems in user space (FUSE).
const FUSE: u64 = 0x6573_5546;
/// Network file systems, by their type in `/proc/self/mountinfo` without the prefix `fuse.` or
/// `fuseblk.`.
const NETWORK: [&str; 38] = [
    "9p",
    "acfs",
    "afs",
    "autofs",
    "beegfs",
    "ceph",
    "ceph-fuse",
    "cephfs",
    "cifs",
    "coda",
    "curlftpfs",
    "davfs",
    "davfs2",
    "gcsfuse",
    "gfs",
    "gfs2",
    "glusterfs",
    "gpfs",
    "juicefs",
    "lizardfs",
    "lustre",
    "mfs",
    "moosefs",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "orangefs",
    "panfs",
    "pvfs2",
    "rclone",
    "s3fs",
    "saunafs",
    "smb3",
    "smbfs",
    "sshfs",
    "wekafs",
    "xtreemfs",
];
/// Errors of `openat2` if the call is missing: on Linux before 5.6, or because of an old seccomp
/// filter of a container.
const NO_OPENAT2: [Errno; 2] = [Errno::NOSYS, Errno::PERM];

/// Explains why a file cannot be opened without the page cache.
fn no_direct(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput => {
            let why = "the file system cannot be written without the page cache (--direct)";
            io::Error::new(io::ErrorKind::Unsupported, why)
        }
        _ => error,
    }
}

impl AsFd for Base {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Base::Working => CWD,
            Base::Below(directory) => directory.as_fd(),
        }
    }
}

impl Root {
    /// Opens a directory and checks its file system. This may block.
    pub(crate) fn open(path: &Path, owner: Owner, _descriptor: Share) -> io::Result<Root> {
        let directory = open_root(path, owner)?;
        let mount = check_guarded(&directory)?;
        Ok(Root { directory, mount, _descriptor })
    }

    /// Opens `path`, relative to this directory, without entering another mount or following a
    /// symbolic link.
    fn open_below(
        &self,
        owner: Owner,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        let mut is_known = true;
        let opened = owner.act(|| {
            let opened = rustix::fs::openat2(&self.directory, path, flags, mode, resolve);
            is_known = !opened.as_ref().is_err_and(|error| NO_OPENAT2.contains(error));
            match opened {
                Err(Errno::XDEV) => Err(other_mount()),
                opened => Ok(opened?),
            }
        });
        match is_known {
            true => opened,
            false => self.open_by_steps(owner, path, flags, mode),
        }
    }

    /// Opens `path` without `openat2`, component by component. This has a race: the owner of a file
    /// could mount a file system over it between the check and the opening.
    fn open_by_steps(
        &self,
        owner: Owner,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> io::Result<OwnedFd> {
        if !path.components().all(|one| matches!(one, Component::Normal(_))) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut base = None;
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            let from = base.as_ref().unwrap_or(&self.directory);
            let open = |flags: OFlags| {
                let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                owner.act(|| Ok(rustix::fs::openat(from, name, flags, mode)?))
            };
            let is_last = names.peek().is_none();
            if is_last && flags.contains(OFlags::EXCL) {
                return open(flags);
            }
            let is_directory = !is_last || flags.contains(OFlags::DIRECTORY);
            let directory = if is_directory { OFlags::DIRECTORY } else { OFlags::empty() };
            // With `O_PATH`, opening a mounted file system's root does not access its server.
            let found = open(OFlags::PATH | directory)?;
            if mount_of(&found)? != self.mount {
                return Err(other_mount());
            }
            if is_last {
                return open(flags);
            }
            base = Some(found);
        }
        Err(io::ErrorKind::InvalidInput.into())
    }
}

impl Output {
    /// Returns a trusted output, whose files are opened by their paths.
    pub(crate) fn trusted(path: PathBuf, owner: Owner) -> Output {
        Output { path, owner, root: None }
    }

    /// Returns a guarded output. Its files can be opened after [`Output::open`].
    pub(crate) fn guarded(path: PathBuf, owner: Owner) -> Output {
        Output { path, owner, root: Some(Arc::default()) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the open directory of a guarded output, or the error of opening it. Has no effect on a
    /// trusted output.
    pub(crate) fn open(&self, root: io::Result<Root>) {
        if let Some(own) = &self.root {
            let _ = own.set(root);
        }
    }

    /// Makes a file that must not exist yet, and opens it for writing only: see `confine`.
    pub(crate) fn create_file(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        self.open_at(path, flags, Mode::from_raw_mode(0o666)).map(File::from)
    }

    /// Makes a file as [`create_file`](Self::create_file) does, for writing without the page cache.
    pub(crate) fn create_direct_file(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = self.open_at(path, flags | OFlags::DIRECT, Mode::from_raw_mode(0o666));
        opened.map(File::from).map_err(|error| {
            // The kernel has made the file before it refuses the flag.
            if error.kind() == io::ErrorKind::InvalidInput {
                let _ = self.remove_file(path);
            }
            no_direct(error)
        })
    }

    /// Fails if files of a trusted output cannot be written without the page cache. Succeeds if
    /// that is unknown.
    pub(crate) fn check_direct(&self) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::DIRECT | OFlags::CLOEXEC;
        let above = self.path.ancestors().find(|above| above.is_dir());
        let opened = self.owner.act(|| match above {
            Some(above) => {
                let opened = rustix::fs::open(above, flags, Mode::from_raw_mode(0o600));
                opened.map(drop).map_err(io::Error::from)
            }
            None => Ok(()),
        });
        match opened {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(no_direct(error)),
            _ => Ok(()),
        }
    }

    /// Returns whether users cannot make this output block the agent.
    pub(crate) fn is_trusted(&self) -> bool {
        self.root.is_none()
    }

    /// Opens an existing regular file for reading and writing. Fails without blocking if a user has
    /// replaced the file by a device or a FIFO.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_at(path, flags | OFlags::CLOEXEC, Mode::empty()).map(File::from)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "not a plain file")),
        }
    }

    /// Opens a directory as a base for paths, without reading it.
    pub(crate) fn find_directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.open_at(path, flags, Mode::empty())
    }

    pub(crate) fn read_directory(&self, path: &Path) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir::new(self.open_at(path, flags, Mode::empty())?)?)
    }

    /// Opens the directory that contains `path` as a base for [`find_within`](Self::find_within)
    /// and [`remove_within`](Self::remove_within). Returns it with the last component of `path`.
    pub(crate) fn find_parent<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        match (self.place(path)?.0, path.parent()) {
            (Base::Below(directory), _) => Ok((directory, name)),
            (Base::Working, Some(parent)) => Ok((self.find_directory(parent)?, name)),
            (Base::Working, None) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Opens a directory by its name in an open directory of this output, without reading it. Does
    /// not follow a symbolic link.
    pub(crate) fn find_within(&self, above: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
        // With `O_PATH`, opening a mounted file system's root does not access its server.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::openat(above, name, flags, Mode::empty())?);
        let found = self.owner.act(open)?;
        match self.below(&self.path)? {
            Some((root, _)) if mount_of(&found)? != root.mount => Err(other_mount()),
            _ => Ok(found),
        }
    }

    /// Opens a directory that [`find_within`](Self::find_within) has found for reading.
    pub(crate) fn read_found(&self, found: &OwnedFd) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::openat(found, ".", flags, Mode::empty())?);
        Ok(Dir::new(self.owner.act(open)?)?)
    }

    /// Removes a file or an empty directory by its name in an open directory of this output.
    pub(crate) fn remove_within(
        &self,
        above: BorrowedFd<'_>,
        name: &OsStr,
        flags: AtFlags,
    ) -> io::Result<()> {
        self.owner.act(|| Ok(rustix::fs::unlinkat(above, name, flags)?))
    }

    /// Makes a new directory and all missing directories above it. Fails if the directory exists.
    pub(crate) fn create_directory(&self, path: &Path) -> io::Result<()> {
        if self.root.is_none() {
            return self.owner.create_directory(path);
        }
        let mut above: Vec<&Path> =
            path.ancestors().skip(1).take_while(|one| *one != self.path).collect();
        above.reverse();
        for one in above {
            match self.make_directory(one) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        self.make_directory(path)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        let (base, path) = self.place(path)?;
        let mode = Mode::from_raw_mode(Owner::DIRECTORY_MODE);
        self.owner.act(|| Ok(rustix::fs::mkdirat(base, path, mode)?))
    }

    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.remove(path, AtFlags::empty())
    }

    pub(crate) fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.remove(path, AtFlags::REMOVEDIR)
    }

    fn remove(&self, path: &Path, flags: AtFlags) -> io::Result<()> {
        let (base, path) = self.place(path)?;
        self.owner.act(|| Ok(rustix::fs::unlinkat(base, path, flags)?))
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        self.owner.act(|| Ok(rustix::fs::renameat(from.0, from.1, to.0, to.1)?))
    }

    /// Returns the directory of a guarded output, and `path` relative to that directory; `None` for
    /// a trusted output.
    fn below<'p>(&self, path: &'p Path) -> io::Result<Option<(&Root, &'p Path)>> {
        let Some(root) = &self.root else { return Ok(None) };
        let root = match root.get() {
            Some(Ok(root)) => root,
            Some(Err(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
            None => return Err(no_answer()),
        };
        let path = path.strip_prefix(&self.path).map_err(io::Error::other)?;
        Ok(Some((root, path)))
    }

    fn open_at(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        match self.below(path)? {
            None => self.owner.act(|| Ok(rustix::fs::open(path, flags, mode)?)),
            Some((root, path)) => root.open_below(self.owner, path, flags, mode),
        }
    }

    /// Returns a base directory, and `path` relative to it. For a guarded output, these are the
    /// file's parent directory and its name. The parent is opened without entering another mount.
    fn place<'p>(&self, path: &'p Path) -> io::Result<(Base, &'p Path)> {
        let Some((root, below)) = self.below(path)? else { return Ok((Base::Working, path)) };
        let Some(name) = below.file_name() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let above = below.parent().filter(|above| !above.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = match above {
            Some(above) => root.open_below(self.owner, above, flags, Mode::empty())?,
            None => root.directory.try_clone()?,
        };
        Ok((Base::Below(base), Path::new(name)))
    }
}

/// Returns the error for a directory whose file system does not answer.
pub(crate) fn no_answer() -> io::Error {
    io::Error::other("its file system does not answer; choose a directory on another one")
}

fn other_mount() -> io::Error {
    let why = "another file system is mounted below the session's directory, which the agent does not enter for \
               users other than root";
    io::Error::new(io::ErrorKind::CrossesDevices, why)
}

/// Opens a directory by the path that a user chose.
fn open_root(path: &Path, owner: Owner) -> io::Result<OwnedFd> {
    // With `O_PATH`, Landlock permits opening directories whose content may not be read.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    owner.act(|| Ok(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Checks a trusted directory. Fails if its file system is served by a program of another user than
/// root.
pub(crate) fn check_trusted(path: &Path, owner: Owner) -> io::Result<()> {
    let directory = open_root(path, owner)?;
    if fstatfs(&directory)?.f_type as u64 & 0xffff_ffff != FUSE {
        return Ok(());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    check_mount(&mounts, mount_of(&directory)?, false)
}

/// Checks a guarded directory, and returns its mount id. Fails if its file system depends on other
/// machines or on programs of other users than root, or is not mounted in the agent's namespace.
fn check_guarded(directory: &OwnedFd) -> io::Result<u64> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mount = mount_of(directory)?;
    check_mount(&mounts, mount, true)?;
    Ok(mount)
}

/// Returns the mount id of an open file, without accessing its file system.
fn mount_of(file: &OwnedFd) -> io::Result<u64> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let number = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("the kernel does not say what it is mounted on"))
}

/// Checks the file system at mount id `mount`, by its type and options in `mounts`. `mounts` is the
/// kernel's list of all mounts in the agent's namespace, in the format of `/proc/self/mountinfo`.
/// Network file systems fail only if `is_guarded` is set.
fn check_mount(mounts: &str, mount: u64, is_guarded: bool) -> io::Result<()> {
    let number = mount.to_string();
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<&str>>());
    let line = lines.find(|words| words.first() == Some(&&*number)).unwrap_or_default();
    // Type, source and options follow a `-`, after a varying number of fields.
    let after = line.iter().position(|word| *word == "-").map_or(&[][..], |at| &line[at + 1..]);
    let [kind, .., options] = after else {
        // The mount is in another mount namespace, entered through `/proc/PID/root`. There, users
        // mount file systems freely.
        return Err(io::Error::other(
            "its file system is not mounted in the agent's namespace; choose a directory that is on one",
        ));
    };
    let name = kind.strip_prefix("fuse.").or(kind.strip_prefix("fuseblk.")).unwrap_or(kind);
    let is_served = name != *kind || ["fuse", "fuseblk"].contains(kind);
    if is_served && !options.split(',').any(|option| option == "user_id=0") {
        return Err(io::Error::other(
            "its file system is served by a user's program, which could keep the agent waiting; choose a directory \
             on another one",
        ));
    }
    if is_guarded && NETWORK.contains(&name) {
        return Err(io::Error::other(format!(
            "its file system ({name}) depends on other machines, which could keep the agent waiting; choose a local \
             directory, or use `blkkin record`, whose agent serves you alone"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::{Accounts, Limits, Quota};
    use blkkin_sys::testing::{Scratch, skip, unmount};
    use std::process::Command;

    /// A mount that is unmounted on drop.
    struct Mount(PathBuf);

    impl Mount {
        fn new(words: &[&str], path: PathBuf) -> Option<Mount> {
            let status = Command::new("mount").args(words).arg(&path).status();
            status.is_ok_and(|status| status.success()).then_some(Mount(path))
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            unmount(&self.0);
        }
    }

    type Open = fn(&Root, Owner, &Path, OFlags, Mode) -> io::Result<OwnedFd>;

    const WAYS: [Open; 2] = [Root::open_below, Root::open_by_steps];

    /// The agent opens no files on other mounts or behind symbolic links. This holds with and
    /// without `openat2`.
    #[test]
    fn other_mounts_and_links_are_not_entered() {
        let scratch = Scratch::new("output");
        let path = &scratch.0;
        for name in ["plain/below", "mounted"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        for name in ["plain/file", "plain/below/file", "covered"] {
            fs::write(path.join(name), name).unwrap();
        }
        for (name, to) in [("link", "plain"), ("plain/link", "file"), ("out", "/")] {
            std::os::unix::fs::symlink(to, path.join(name)).unwrap();
        }
        let file = path.join("plain/file");
        let Some(_mounted) = Mount::new(&["-t", "tmpfs", "tmpfs"], path.join("mounted")) else {
            return skip("other_mounts_and_links_are_not_entered", "nothing can be mounted");
        };
        let inner = path.join("mounted/file");
        fs::write(&inner, "").unwrap();
        let _covered =
            Mount::new(&["--bind", inner.to_str().unwrap()], path.join("covered")).unwrap();
        let owner = Owner { uid: blkkin_sys::user_id(), gid: 0 };
        let account = Accounts::new(Limits::default(), None).of(owner.uid);
        let descriptor = account.reserve(Quota::Descriptors, 1).unwrap();
        let root = Root::open(path, owner, descriptor).unwrap();
        let check = |name: &str, flags: OFlags, expected: Result<(), io::ErrorKind>| {
            let mode = match flags.contains(OFlags::CREATE) {
                true => Mode::from_raw_mode(0o600),
                false => Mode::empty(),
            };
            let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            for open in WAYS {
                let opened = open(&root, owner, Path::new(name), flags, mode);
                assert_eq!(opened.map(drop).map_err(|error| error.kind()), expected, "{name}");
                if flags.contains(OFlags::CREATE) && expected.is_ok() {
                    fs::remove_file(path.join(name)).unwrap();
                }
            }
        };
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let directory = OFlags::PATH | OFlags::DIRECTORY;
        let mounted = Err(io::ErrorKind::CrossesDevices);
        check("plain/file", OFlags::RDWR, Ok(()));
        check("plain/below/file", OFlags::RDWR, Ok(()));
        check("plain/below", directory, Ok(()));
        check("plain/new", new, Ok(()));
        check("plain/file", new, Err(io::ErrorKind::AlreadyExists));
        check("plain/none", OFlags::RDWR, Err(io::ErrorKind::NotFound));
        check("mounted/file", OFlags::RDWR, mounted);
        check("mounted/new", new, mounted);
        check("mounted", directory, mounted);
        check("covered", OFlags::RDWR, mounted);
        for name in ["link/file", "plain/link", "out/etc/passwd", "../x", "/etc/passwd"] {
            for open in WAYS {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                assert!(
                    open(&root, owner, Path::new(name), flags, Mode::empty()).is_err(),
                    "{name}"
                );
            }
        }
        let output = Output::guarded(path.clone(), owner);
        output.open(Ok(root));
        output.create_directory(&path.join("new/a/b")).unwrap();
        output.create_file(&path.join("new/a/one")).unwrap();
        output.rename(&path.join("new/a/one"), &path.join("new/a/two")).unwrap();
        assert_eq!(output.read_directory(&path.join("new/a")).unwrap().flatten().count(), 4);
        output.remove_file(&path.join("new/a/two")).unwrap();
        output.remove_directory(&path.join("new/a/b")).unwrap();
        for refused in [
            output.create_directory(&path.join("mounted/a")),
            output.remove_file(&path.join("mounted/file")),
            output.rename(&file, &path.join("mounted/moved")),
        ] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::CrossesDevices);
        }
        assert!(output.remove_file(Path::new("/etc/passwd")).is_err());
        assert!(file.exists() && inner.exists());
    }

    /// FUSE mounts of plain users are refused for every output, and network file systems for
    /// guarded outputs. The mounts are in the format of `/proc/self/mountinfo`.
    #[test]
    fn file_systems_that_others_serve_are_refused() {
        let mounts = "\
            21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
            22 21 0:40 / /net rw shared:7 master:1 - nfs4 server:/export rw,vers=4.2\n\
            23 21 0:41 / /s rw - fuse.sshfs host:/ rw,user_id=0,group_id=0,allow_other\n\
            24 21 0:42 / /u\\040x rw,nosuid - fuse.any any rw,user_id=1000,group_id=1000\n\
            25 21 8:1 / /n rw - fuseblk /dev/sda1 rw,user_id=0,group_id=0,blksize=4096\n\
            26 21 0:43 / /9 rw - 9p host rw,trans=virtio\n\
            27 21 0:44 / /empty rw - tmpfs  rw\n\
            28 21 0:45 / /odd rw - fuse odd rw,user_id=01,group_id=0\n";
        let refused = |mount: u64, is_guarded: bool| {
            let checked = check_mount(mounts, mount, is_guarded);
            checked.map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        for (mount, plain, trusted) in [
            (21, "", ""),
            (22, "(nfs4)", ""),
            (23, "(sshfs)", ""),
            (24, "a user's program", "a user's program"),
            (25, "", ""),
            (26, "(9p)", ""),
            (27, "", ""),
            (28, "a user's program", "a user's program"),
            (2, "not mounted", "not mounted"),
        ] {
            for (why, expected) in [(refused(mount, true), plain), (refused(mount, false), trusted)]
            {
                assert!(
                    why.contains(expected) && why.is_empty() == expected.is_empty(),
                    "{mount}: {why}"
                );
            }
        }
    }
}
