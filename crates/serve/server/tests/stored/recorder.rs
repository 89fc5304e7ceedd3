//! Disk that logs all its writes, discards and flushes in order, with a file system on it. Start at
//! [`Recorder`].
//!
//! QEMU's `blklogwrites` driver writes the disk and the log to two files in memory. FUSE exports
//! the disk as a file, which is mounted through a loop device.

use crate::harness::HANG;
use blkkin_sys::testing::{Mounted, is_installed, unmount};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Type of file system on the recorded disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystem {
    pub(crate) name: &'static str,
    mkfs: &'static str,
    words: &'static [&'static str],
    mib: u64,
    /// Mount options. For xfs `nouuid` is needed, because two images with the same UUID are mounted
    /// at the same time.
    options: &'static str,
    /// Blocks that the file system expects the disk to write atomically.
    pub(crate) whole: AtomicWrites,
}

/// Blocks that a simulated power cut never tears, because otherwise the file system itself could
/// not be mounted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtomicWrites {
    /// The start of the disk, which contains the superblock. The value is its size in bytes.
    First(u64),
    /// Every block of the disk. The value is the block size in bytes.
    Blocks(u64),
}

pub(crate) const KINDS: [FileSystem; 2] = [
    FileSystem {
        name: "ext4",
        mkfs: "mkfs.ext4",
        // Lazy initialization is off, so that the log contains no background writes of the kernel.
        words: &["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
        mib: 64,
        options: "loop",
        whole: AtomicWrites::First(4096),
    },
    FileSystem {
        name: "xfs",
        mkfs: "mkfs.xfs",
        words: &["-q", "-f"],
        mib: 320,
        options: "loop,nouuid",
        whole: AtomicWrites::Blocks(4096),
    },
];

impl FileSystem {
    /// Mounts an image that has this type of file system.
    pub(crate) fn mount(&self, image: &Path) -> Result<Mounted, String> {
        Mounted::new(&["-t", self.name, "-o", self.options, &image.to_string_lossy()])
    }
}

/// Returns the reason why a recorder cannot run on this machine; `None` if it can.
pub(crate) fn missing_requirement() -> Option<String> {
    let programs = ["qemu-storage-daemon", "cp", "mount", "umount"];
    let mkfs = KINDS.map(|kind| kind.mkfs);
    let gone = programs.iter().chain(&mkfs).find(|program| !is_installed(program));
    if let Some(program) = gone {
        return Some(format!("{program} is missing"));
    }
    let devices = ["/dev/fuse", "/dev/loop-control"];
    let gone = devices.iter().find(|device| File::options().write(true).open(device).is_err());
    if let Some(device) = gone {
        return Some(format!("{device} cannot be opened"));
    }
    Mounted::in_memory(64).err().map(|why| format!("only root can mount one: {why}"))
}

/// New file system, mounted on a disk that logs its writes.
pub(crate) struct Recorder {
    // Fields are dropped in this order: the mounted file system, then the daemon below it.
    mounted: Option<Mounted>,
    daemon: Option<Daemon>,
    files: Mounted,
}

impl Recorder {
    pub(crate) fn new(kind: FileSystem) -> Recorder {
        let files = Mounted::in_memory(2 << 20).expect("memory");
        let mut recorder = Recorder { mounted: None, daemon: None, files };
        let (image, log) = (recorder.image(), recorder.log());
        let file = File::create(&image).expect("a file");
        file.set_len(kind.mib << 20).expect("a size");
        File::create(&log).expect("a file");
        let status = Command::new(kind.mkfs).args(kind.words).arg(&image).status();
        assert!(status.expect("a program").success(), "{}", kind.mkfs);
        copy(&image, &recorder.beginning());
        let exported = recorder.files.path().join("exported");
        recorder.daemon = Some(Daemon::start(&image, &log, &exported, kind.mib << 20));
        recorder.mounted = Some(kind.mount(&exported).expect("a file system"));
        recorder
    }

    /// Returns the path at which the file system is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.mounted.as_ref().expect("it has not been ended").path()
    }

    /// Returns the path of the file with the disk's current content.
    pub(crate) fn image(&self) -> PathBuf {
        self.files.path().join("image")
    }

    /// Returns the path of the file with the disk's content before the first logged write.
    pub(crate) fn beginning(&self) -> PathBuf {
        self.files.path().join("beginning")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.files.path().join("log")
    }

    /// Returns the directory of the recorder's files, which is used for further images.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// Unmounts the file system and stops the daemon. The image and the log stay.
    pub(crate) fn end(&mut self) {
        self.mounted.take().expect("it has not been ended").unmount();
        self.daemon = None;
    }
}

/// Process of QEMU's storage daemon, which exports the disk.
struct Daemon {
    child: Child,
    exported: PathBuf,
}

impl Daemon {
    fn start(image: &Path, log: &Path, exported: &Path, bytes: u64) -> Daemon {
        File::create(exported).expect("a file");
        let file = |name: &str, path: &Path| {
            let path = path.display();
            // Skips flushes to this machine's disk; the files are in memory.
            format!("driver=file,node-name={name},filename={path},cache.no-flush=on")
        };
        let mut command = Command::new("qemu-storage-daemon");
        command.args(["--blockdev", &file("image", image), "--blockdev", &file("log", log)]);
        let disk = "driver=blklogwrites,node-name=disk,file=image,log=log,log-sector-size=512";
        let point = exported.display();
        let export = format!("type=fuse,id=disk,node-name=disk,mountpoint={point},writable=on");
        command.args(["--blockdev", disk, "--export", &export]).stdin(Stdio::null());
        let child = command.spawn().expect("a program");
        let mut daemon = Daemon { child, exported: exported.to_owned() };
        let begun = Instant::now();
        while std::fs::metadata(exported).is_ok_and(|file| file.len() < bytes) {
            assert!(daemon.child.try_wait().expect("a process").is_none(), "it has ended");
            assert!(begun.elapsed() < HANG, "nothing is exported");
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon has written all data to the files already.
        unmount(&self.exported);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies a file. Ranges of zeros become holes in the copy.
pub(crate) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--sparse=always").args([from, to]).status();
    assert!(status.expect("a program").success());
}
