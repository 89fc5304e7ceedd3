//! Virtual machine for tests that would disturb other users of the machine, for instance by turning
//! processors off. QEMU emulates the machine in software, with a kernel of this machine. Its only
//! files are the test and the programs that the test starts.

use super::trials::Trial;
use crate::test_programs::TestProgram;
use crate::tools::{at, target_dir};
use blkkin_sys::testing::{GuestFiles, guest_kernel};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of the guest's processors. It may exceed the host's number, so that the guest's
/// processors do not run in step.
const PROCESSORS: &str = "4";
const MEMORY: &str = "3G";

/// Script of the guest's first process. The kernel passes its command line to the script as
/// environment variables.
const INIT: &str = "#!/bin/sh
export PATH=/bin:/usr/bin HOME=/scratch TMPDIR=/scratch TEST_LOUD=1
mkdir -p /proc /sys /scratch /dev
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /scratch
/tests --nocapture --test-threads=1 --include-ignored $TESTS
echo o > /proc/sysrq-trigger
cat
";

/// Programs of this machine that [`INIT`] and the tests use.
const TOOLS: [&str; 4] = ["sh", "mount", "mkdir", "cat"];

/// Returns the command that runs a trial's program in a guest. The command's output includes the
/// program's output.
pub(super) fn command(
    trial: &Trial,
    program: &TestProgram,
    variables: &[(&str, u64)],
) -> Result<Command, String> {
    let kernel = guest_kernel().ok_or("there is no kernel for a guest")?;
    let image = target_dir().join("torture/guest.cpio");
    fs::write(&image, image_of(program)?).map_err(at(&image))?;
    let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
    let variables: Vec<String> = variables.collect();
    let tests = trial.tests.join(",");
    let line = format!("console=ttyS0 quiet panic=-1 TESTS={tests} {}", variables.join(" "));
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", PROCESSORS, "-m", MEMORY]);
    command.args(["-nographic", "-no-reboot", "-net", "none", "-kernel"]).arg(kernel);
    command.arg("-initrd").arg(image).arg("-append").arg(line);
    Ok(command)
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns the guest's initramfs: a cpio archive with the test program, `blkkin`, the tools and
/// their libraries.
fn image_of(program: &TestProgram) -> Result<Vec<u8>, String> {
    // The blkkin command is at the path that was compiled into the tests.
    let blkkin = program.path.ancestors().nth(2).ok_or("tests have a folder")?.join("blkkin");
    let mut files = GuestFiles::default();
    files.add(Path::new("/init"), INIT.as_bytes().to_vec());
    files.add_program(&program.path, Path::new("/tests"))?;
    files.add_program(&blkkin, &blkkin)?;
    for tool in TOOLS {
        let path = find_in_path(tool).ok_or_else(|| format!("{tool} is missing"))?;
        files.add_program(&path, &Path::new("/bin").join(tool))?;
    }
    Ok(files.archive(&["/proc", "/sys", "/scratch"]))
}
