//! Tests of whole packages, made of small synthetic files.

use super::elf::Elf;
use super::output::{Product, write};
use super::release::{Platform, Release};
use super::{Parts, Symbols, products};
use crate::install::plan::{Content, Item};
use blkkin_sys::testing::{Scratch, skip};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Time of all packed files.
const SECONDS: u64 = 1_764_000_000;
/// Synthetic files below a prefix.
const FILES: [(&str, &str); 5] = [
    ("bin/blkkin", "program"),
    ("lib/libblkkin.so.0.1.0", "library"),
    ("share/doc/blkkin/LICENSE-MIT", "licence"),
    ("share/man/man1/blkkin.1", "manual"),
    ("share/zsh/site-functions/_blkkin", "completion"),
];

fn release() -> Release {
    let platform = Platform {
        triple: "x86_64-unknown-linux-gnu".to_owned(),
        machine: "x86_64",
        debian: "amd64",
        oci: "amd64",
    };
    Release { platform, seconds: SECONDS, commit: Some("0123abcd".to_owned()), has_changes: false }
}

/// Writes the files in the given order, with permissions and a time, and returns them as items in
/// that order.
fn items<'f>(
    root: &Path,
    files: impl Iterator<Item = &'f (&'f str, &'f str)>,
    mode: u32,
    time: SystemTime,
) -> Vec<Item> {
    let file = |&(path, text): &(&str, &str)| {
        let source = root.join(path);
        fs::create_dir_all(source.parent().expect("a parent")).expect("a folder");
        fs::write(&source, text).expect("to write");
        fs::set_permissions(&source, fs::Permissions::from_mode(mode)).expect("to set the mode");
        let options = fs::File::options().append(true).open(&source);
        options.expect("the file").set_modified(time).expect("to set the time");
        let mode = if path.starts_with("share") { 0o644 } else { 0o755 };
        Item { path: path.into(), content: Content::File(source), mode }
    };
    let mut items: Vec<Item> = files.map(file).collect();
    let link = Content::Link("libblkkin.so.0.1.0".into());
    items.push(Item { path: "lib/libblkkin.so".into(), content: link, mode: 0o644 });
    items
}

fn parts(make: &dyn Fn() -> Vec<Item>) -> Parts {
    let symbols = |byte: u8| Symbols { build_id: format!("{byte:02x}cd"), bytes: vec![byte; 9] };
    Parts {
        local: make(),
        system: make(),
        debug: make(),
        symbols: vec![symbols(0xab), symbols(0x12)],
        notices: "licences".to_owned(),
        program: b"program".to_vec(),
        library: Elf::default(),
    }
}

fn some(scratch: &Scratch) -> Vec<Product> {
    let make = || items(&scratch.0.join("a"), FILES.iter(), 0o644, SystemTime::now());
    products(&release(), &parts(&make)).expect("packages")
}

/// The order, permissions and times of the source files do not matter.
#[test]
fn the_same_files_give_the_same_bytes() {
    let scratch = Scratch::new("package-same");
    let one = some(&scratch);
    let earlier = SystemTime::now() - Duration::from_secs(100_000);
    let make = || items(&scratch.0.join("b"), FILES.iter().rev(), 0o600, earlier);
    let other = products(&release(), &parts(&make)).expect("packages");
    let names = |products: &[Product]| -> Vec<String> {
        products.iter().map(|product| product.path.clone()).collect()
    };
    assert_eq!(names(&one), names(&other));
    for (one, other) in one.iter().zip(&other) {
        assert!(one.bytes == other.bytes, "{} differs", one.path);
    }
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        format!("blkkin-{version}-x86_64.tar.gz"),
        format!("blkkin-{version}-x86_64-debug.tar.gz"),
        format!("blkkin_{version}_amd64.deb"),
        format!("blkkin-dbgsym_{version}_amd64.deb"),
    ];
    assert_eq!(names(&one)[..4], expected);
}

/// Owner, mode and contents of the entries of a tar archive, by name; every time is the release's.
fn entries(tar: &[u8]) -> BTreeMap<String, (u64, u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(tar);
    let entries = archive.entries().expect("entries").map(|entry| {
        let mut entry = entry.expect("an entry");
        let header = entry.header();
        assert_eq!(header.mtime().expect("a time"), SECONDS);
        assert_eq!(header.uid().expect("a user"), header.gid().expect("a group"));
        let (owner, mode) = (header.uid().expect("a user"), header.mode().expect("a mode"));
        let name = String::from_utf8(entry.path_bytes().into_owned()).expect("a name");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("contents");
        (name, (owner, mode, bytes))
    });
    entries.collect()
}

fn unpack(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unpacked).expect("gzip");
    unpacked
}

#[test]
fn the_tarball_has_one_folder() {
    let scratch = Scratch::new("package-tarball");
    let products = some(&scratch);
    for tarball in &products[..2] {
        let entries = entries(&unpack(&tarball.bytes));
        let folder = release().stem();
        assert!(entries.keys().all(|name| name.starts_with(&format!("{folder}/"))));
        let program = &entries[&format!("{folder}/bin/blkkin")];
        assert_eq!(*program, (0, 0o755, b"program".to_vec()));
        assert_eq!(entries[&format!("{folder}/bin/")], (0, 0o755, Vec::new()));
    }
}

/// Every digest and size of the image is right, and the layer has the files that a program without
/// a distribution needs.
#[test]
fn the_image_is_consistent() {
    let scratch = Scratch::new("package-image");
    let products = some(&scratch);
    let name = format!("{}.oci", release().stem());
    let archive = products.iter().find(|product| product.path == format!("{name}.tar"));
    let files = entries(&archive.expect("an archive").bytes);
    for (path, (_, _, bytes)) in files.iter().filter(|(path, _)| !path.ends_with('/')) {
        let inner = format!("{name}/{path}");
        let product = products.iter().find(|product| product.path == inner);
        assert!(product.is_some_and(|product| product.bytes == *bytes), "{path}");
    }
    let read = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().expect("a digest").replace(':', "/");
        let (_, _, bytes) = &files[&format!("blobs/{digest}")];
        assert_eq!(descriptor["size"], bytes.len());
        assert_eq!(digest, format!("sha256/{}", super::archive::sha256(bytes)));
        bytes.clone()
    };
    let json = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).expect("JSON") };
    let index = json(&files["index.json"].2);
    let manifest = json(&read(&index["manifests"][0]));
    let config = json(&read(&manifest["config"]));
    let layer = unpack(&read(&manifest["layers"][0]));
    let id = format!("sha256:{}", super::archive::sha256(&layer));
    assert_eq!(config["rootfs"]["diff_ids"][0], id);
    let layer = entries(&layer);
    let access = |path: &str| (layer[path].0, layer[path].1);
    assert_eq!(access("usr/bin/blkkin"), (0, 0o755));
    assert_eq!(access("tmp/"), (0, 0o1777));
    assert_eq!(access("var/lib/"), (0, 0o755));
    assert_eq!(access("var/lib/blkkin/"), (65532, 0o750));
    assert_eq!(config["config"]["User"], "65532:65532");
    let passwd = String::from_utf8(layer["etc/passwd"].2.clone()).expect("text");
    assert!(passwd.contains(":65532:65532:") && passwd.contains(":/var/lib/blkkin:"), "{passwd}");
}

#[test]
fn dpkg_reads_the_packages() {
    if !crate::peers::in_path("dpkg-deb") {
        return skip("package-dpkg", "dpkg-deb is not installed");
    }
    let scratch = Scratch::new("package-dpkg");
    write(&scratch.0, some(&scratch)).expect("to write");
    let dpkg = |arguments: &[&str]| {
        let output = Command::new("dpkg-deb").args(arguments).current_dir(&scratch.0).output();
        let output = output.expect("dpkg-deb");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    };
    let version = release().debian_version();
    let package = format!("blkkin_{version}_amd64.deb");
    assert_eq!(
        dpkg(&["--field", &package, "Package", "Version", "Architecture"]),
        format!("Package: blkkin\nVersion: {version}\nArchitecture: amd64\n")
    );
    let contents = dpkg(&["--contents", &package]);
    let has = |start: &str, end: &str| {
        contents.lines().any(|line| line.starts_with(start) && line.ends_with(end))
    };
    assert!(has("drwxr-xr-x 0/0 ", " ./"), "{contents}");
    assert!(has("-rwxr-xr-x 0/0 ", " ./usr/bin/blkkin"), "{contents}");
    assert!(has("lrwxrwxrwx 0/0 ", " ./usr/lib/libblkkin.so -> libblkkin.so.0.1.0"), "{contents}");
    assert!(has("-rw-r--r-- 0/0 ", " ./usr/lib/libblkkin.so.0.1.0"), "{contents}");
    assert!(has("-rw-r--r-- 0/0 ", " ./usr/share/man/man1/blkkin.1.gz"), "{contents}");
    assert!(has("-rw-r--r-- 0/0 ", " ./usr/share/zsh/vendor-completions/_blkkin"), "{contents}");
    assert!(!contents.contains("LICENSE") && !contents.contains("site-functions"), "{contents}");

    dpkg(&["--raw-extract", &package, "files"]);
    let files = scratch.0.join("files");
    assert_eq!(fs::read_to_string(files.join("usr/bin/blkkin")).expect("the program"), "program");
    let control = |name: &str| fs::read_to_string(files.join("DEBIAN").join(name)).expect("a file");
    let sums = control("md5sums");
    assert!(sums.contains("a9c449d4fa44e9e5a41c574ae55ce4d9  usr/bin/blkkin\n"), "{sums}");
    for name in ["control", "shlibs", "triggers"] {
        assert!(!control(name).contains('@') || name == "control", "{name}");
    }
    let copyright = fs::read_to_string(files.join("usr/share/doc/blkkin/copyright"));
    let copyright = copyright.expect("a copyright file");
    assert!(copyright.contains("\n Permission is hereby granted") && !copyright.contains('@'));

    let debug = format!("blkkin-dbgsym_{version}_amd64.deb");
    assert_eq!(dpkg(&["--field", &debug, "Build-Ids"]), "12cd abcd\n");
    let contents = dpkg(&["--contents", &debug]);
    assert!(contents.contains(" ./usr/lib/debug/.build-id/ab/cd.debug\n"), "{contents}");
}
