//! Tests that existing NBD clients read the data that they wrote.

mod support;

use std::path::Path;
use std::process::Command;
use support::{Chain, is_installed, skip};

/// Returns true if all these programs are installed. If not, reports the test as skipped.
fn have(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_installed(program));
    if let Some(missing) = missing {
        skip(test, &format!("{missing} is not installed"));
    }
    missing.is_none()
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Creates an image file of 64 MiB with ranges of zeros, and returns its path.
fn image(directory: &Path) -> String {
    let mut bytes = vec![0; 64 << 20];
    for (at, chunk) in bytes.chunks_mut(64 << 10).enumerate() {
        if at % 7 < 3 {
            for (byte, number) in chunk.iter_mut().zip(0u32..) {
                *byte = (number.wrapping_mul(31) >> 3) as u8 ^ at as u8;
            }
        }
    }
    let path = directory.join("image");
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn over_both(name: &str, check: impl Fn(&mut Chain, &str)) {
    for is_tcp in [false, true] {
        let mut chain = Chain::start(name, |options| {
            if is_tcp {
                options.nbd = Some("127.0.0.1:0".parse().unwrap());
            }
        });
        let uri = chain.stack().nbd_uri();
        check(&mut chain, &uri);
        chain.stop();
        chain.check_copies();
    }
}

#[test]
fn qemu_img() {
    if !have("qemu_img", &["qemu-img", "qemu-io"]) {
        return;
    }
    over_both("qemu", |chain, uri| {
        assert!(run("qemu-img", &["info", "-f", "raw", uri]).contains("64 MiB (67108864 bytes)"));
        let image = image(&chain.scratch.0);
        run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &image, uri]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, uri]);
        let steps = ["write -P 7 1k 9000k", "write -z 3M 3M", "discard 10M 1M", "flush"];
        let checks =
            ["read -P 7 1k 3071k", "read -P 0 3M 3M", "read -P 7 6M 2857k", "read -P 0 10M 1M"];
        let mut arguments = vec!["-f", "raw"];
        arguments.extend(steps.iter().chain(&checks).flat_map(|step| ["-c", step]));
        arguments.push(uri);
        let printed = run("qemu-io", &arguments);
        assert!(!printed.contains("failed"), "{printed}");
        // A write beyond the end fails.
        let wrong = Command::new("qemu-io").args(["-f", "raw", "-c", "write 64M 4k", uri]).output();
        assert!(!wrong.unwrap().status.success());
    });
}

#[test]
fn libnbd() {
    if !have("libnbd", &["nbdinfo", "nbdcopy"]) {
        return;
    }
    over_both("libnbd", |chain, uri| {
        let info = run("nbdinfo", &[uri]);
        for line in [
            "export-size: 67108864",
            "can_flush: true",
            "can_fua: true",
            "can_multi_conn: true",
            "can_trim: true",
            "can_zero: true",
            "is_read_only: false",
            "block_size_maximum: 33554432",
        ] {
            assert!(info.contains(line), "{line}: {info}");
        }
        let list = run("nbdinfo", &["--list", uri]);
        assert!(list.contains("export=\"disk\"") && list.contains("export=\"small\""), "{list}");
        let image = image(&chain.scratch.0);
        // Over four connections.
        run("nbdcopy", &["--connections=4", "--flush", &image, uri]);
        let copy = format!("{image}.copy");
        run("nbdcopy", &["--connections=4", uri, &copy]);
        assert!(std::fs::read(&image).unwrap() == std::fs::read(&copy).unwrap());
    });
}

#[test]
fn fio() {
    if !have("fio", &["fio"]) {
        return;
    }
    over_both("fio", |chain, uri| {
        let directory = format!("--directory={}", chain.scratch.0.display());
        let uri = format!("--uri={uri}");
        let job = ["--name=job", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=16"];
        let verify = ["--size=16m", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1"];
        let verify = [&verify[..], &["--verify_state_save=0"]].concat();
        let rest = ["--fsync=64", "--output-format=terse", &uri, &directory];
        run("fio", &[&job[..], &verify, &rest].concat());
    });
}

/// Machine code of a boot sector. The guest reads the second sector, writes its complement to the
/// third sector, and then writes 42 to the port that ends QEMU.
const GUEST: [u8; 58] = [
    0x31, 0xc0, // xor ax, ax
    0x8e, 0xd8, // mov ds, ax
    0x8e, 0xc0, // mov es, ax
    0xbb, 0x00, 0x7e, // mov bx, 0x7e00
    0xb8, 0x01, 0x02, // mov ax, 0x0201: read one sector
    0xb9, 0x02, 0x00, // mov cx, 2
    0x30, 0xf6, // xor dh, dh
    0xcd, 0x13, // int 0x13
    0x72, 0x1f, // jc failed
    0xbe, 0x00, 0x7e, // mov si, 0x7e00
    0xb9, 0x00, 0x01, // mov cx, 256
    0xf7, 0x14, // again: not word [si]
    0x46, 0x46, // inc si, twice
    0xe2, 0xfa, // loop again
    0xb8, 0x01, 0x03, // mov ax, 0x0301: write one sector
    0xbb, 0x00, 0x7e, // mov bx, 0x7e00
    0xb9, 0x03, 0x00, // mov cx, 3
    0x30, 0xf6, // xor dh, dh
    0xcd, 0x13, // int 0x13
    0x72, 0x04, // jc failed
    0xb0, 0x2a, // mov al, 42
    0xe6, 0xf4, // out 0xf4, al
    0xb0, 0x01, // failed: mov al, 1
    0xe6, 0xf4, // out 0xf4, al
    0xeb, 0xfe, // wait
];

#[test]
fn a_guests_disk() {
    if !have("a_guests_disk", &["qemu-system-x86_64", "qemu-io"]) {
        return;
    }
    over_both("guest", |chain, uri| {
        let mut sector = [0; 512];
        sector[..GUEST.len()].copy_from_slice(&GUEST);
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        let file = chain.scratch.0.join("sector");
        std::fs::write(&file, sector).unwrap();
        let write = format!("write -s {} 0 512", file.display());
        run("qemu-io", &["-f", "raw", "-c", &write, "-c", "write -P 0x5a 512 512", uri]);
        let drive = format!("file={uri},format=raw,if=virtio");
        let machine = ["-accel", "tcg", "-m", "64", "-display", "none", "-serial", "none"];
        let rest = ["-monitor", "none", "-net", "none", "-no-reboot", "-drive", &drive];
        let end = ["-device", "isa-debug-exit,iobase=0xf4,iosize=1"];
        let mut guest = Command::new("qemu-system-x86_64");
        let ended = guest.args([&machine[..], &rest, &end].concat()).output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(42 << 1 | 1), "{errors}");
        let printed = run("qemu-io", &["-f", "raw", "-c", "read -P 0xa5 1024 512", uri]);
        assert!(!printed.contains("failed"), "{printed}");
    });
}
