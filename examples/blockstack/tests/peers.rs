//! Clients of network block devices that others have made, as they are: what they write, they find again.

mod support;

use std::path::Path;
use std::process::Command;
use support::{Chain, is_installed, skip};

/// Whether all of these can be had.
fn have(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_installed(program));
    if let Some(missing) = missing {
        skip(test, &format!("{missing} is not installed"));
    }
    missing.is_none()
}

/// What a command prints.
#[track_caller]
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// An image of 64 MiB with some holes in it.
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
        // What a write beyond the end does.
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
