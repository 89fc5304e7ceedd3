//! The virtual machine: QEMU with a kernel, and this executable as its only program.

use blkkin_sys::testing::{GuestFiles, Scratch, is_installed};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time after which a guest is ended. It needs 10 seconds of an idle machine.
const TIME_MAX: Duration = Duration::from_secs(300);

/// Number of times that a guest is started whose kernel ends before its first program. On a busy
/// machine the emulated timers may be too late for the kernel's checks.
const STARTS_MAX: usize = 3;

/// Runs one ignored test of this executable in a guest, and returns the output. `sign` is printed
/// first by the test.
pub(crate) fn run(kernel: &Path, test: &str, sign: &str) -> String {
    let mut output = String::new();
    for _ in 0..STARTS_MAX {
        output = run_once(kernel, test);
        if output.contains(sign) {
            break;
        }
    }
    output
}

fn run_once(kernel: &Path, test: &str) -> String {
    let scratch = Scratch::new("guest");
    let (image, output) = (scratch.0.join("image.cpio"), scratch.0.join("output"));
    fs::write(&image, image_of_own_executable(&scratch)).expect("to write the image");
    let words = format!("{test} --exact --ignored --nocapture --test-threads=1");
    let line =
        format!("console=ttyS0 quiet loglevel=0 panic=-1 no_timer_check rdinit=/init -- {words}");
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", "512M"]);
    command.args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(image).arg("-append").arg(line);
    command.stdin(Stdio::null()).stdout(fs::File::create(&output).expect("a file"));
    let mut guest = Guest(command.spawn().expect("QEMU"));
    let begin = Instant::now();
    while guest.0.try_wait().expect("a process").is_none() {
        if begin.elapsed() > TIME_MAX {
            let output = fs::read(&output).unwrap_or_default();
            panic!("the guest does not end:\n{}", String::from_utf8_lossy(&output));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    String::from_utf8_lossy(&fs::read(&output).expect("the output")).into_owned()
}

/// QEMU's process, which is ended on drop.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the initial file system. Debug information would make it many times as large.
fn image_of_own_executable(scratch: &Scratch) -> Vec<u8> {
    let own = std::env::current_exe().expect("a program");
    let small = scratch.0.join("init");
    let is_stripped = is_installed("strip")
        && Command::new("strip").arg("-o").args([&small, &own]).status().expect("strip").success();
    let mut files = GuestFiles::default();
    let program = if is_stripped { &small } else { &own };
    files.add_program(program, Path::new("/init")).expect("libraries");
    files.archive(&["/proc", "/sys"])
}
