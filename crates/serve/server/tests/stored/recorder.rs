//! A disk that writes down what it is told, in order, with a file system on it: QEMU's `blklogwrites` on two files in
//! memory, exported as a file by FUSE, on which a loop device is. Start at [`Recorder`].

use crate::life::HANG;
use blkkin_sys::testing::{Mounted, is_installed, unmount};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A file system that stores are put on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    mkfs: &'static str,
    words: &'static [&'static str],
    mib: u64,
    /// Mounts what has the id of another one, too.
    options: &'static str,
    /// What it takes disks to write whole, of what it writes in place.
    pub(crate) whole: Whole,
}

/// What a power cut does not tear, as then the file system itself cannot be mounted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whole {
    /// Its superblock, in the first so many bytes.
    First(u64),
    /// All blocks of so many bytes.
    Blocks(u64),
}

pub(crate) const KINDS: [Kind; 2] = [
    Kind {
        name: "ext4",
        mkfs: "mkfs.ext4",
        // What is written when nobody has asked would be cut for nothing.
        words: &["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
        mib: 64,
        options: "loop",
        whole: Whole::First(4096),
    },
    Kind {
        name: "xfs",
        mkfs: "mkfs.xfs",
        words: &["-q", "-f"],
        mib: 320,
        options: "loop,nouuid",
        whole: Whole::Blocks(4096),
    },
];

impl Kind {
    /// Mounts an image of it.
    pub(crate) fn mount(&self, image: &Path) -> Result<Mounted, String> {
        Mounted::new(&["-t", self.name, "-o", self.options, &image.to_string_lossy()])
    }
}

/// Why there can be no recorder here.
pub(crate) fn missing() -> Option<String> {
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

/// A new file system on a disk that writes down what it is told.
pub(crate) struct Recorder {
    // First what is on top.
    mounted: Option<Mounted>,
    daemon: Option<Daemon>,
    files: Mounted,
}

impl Recorder {
    pub(crate) fn new(kind: Kind) -> Recorder {
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

    /// Where the file system is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.mounted.as_ref().expect("it has not been ended").path()
    }

    /// What is on the disk now.
    pub(crate) fn image(&self) -> PathBuf {
        self.files.path().join("image")
    }

    /// What was on it before it was told anything.
    pub(crate) fn beginning(&self) -> PathBuf {
        self.files.path().join("beginning")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.files.path().join("log")
    }

    /// A place for more images.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// Unmounts it. The files stay.
    pub(crate) fn end(&mut self) {
        self.mounted.take().expect("it has not been ended").unmount();
        self.daemon = None;
    }
}

/// Whoever answers for the disk.
struct Daemon {
    child: Child,
    exported: PathBuf,
}

impl Daemon {
    fn start(image: &Path, log: &Path, exported: &Path, bytes: u64) -> Daemon {
        File::create(exported).expect("a file");
        let file = |name: &str, path: &Path| {
            let path = path.display();
            // It need not be on the disk of this machine.
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
        // What it holds is in files already.
        unmount(&self.exported);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is empty takes no room.
pub(crate) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--sparse=always").args([from, to]).status();
    assert!(status.expect("a program").success());
}
