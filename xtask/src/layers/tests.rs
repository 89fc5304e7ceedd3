//! Tests of the rules on synthetic graphs and texts.

use super::graph::{Dependency, Graph, Kind, Package};
use super::place::Place;
use super::{check_graph, check_lock, check_unsafe, graph, licence};

/// Builds a graph from lines such as `crates/base/ctf ctf: serde (dev)filter`. A name without a
/// folder is a package from a registry; a name that ends with `-derive` is a procedural macro. The
/// licence of all packages is MIT.
fn graph(lines: &str) -> Graph {
    let rows: Vec<(&str, &str, &str)> = lines
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (head, dependencies) = line.split_once(':').expect("a colon");
            let (folder, name) = head.rsplit_once(' ').unwrap_or(("", head));
            (folder, name, dependencies)
        })
        .collect();
    let packages = rows
        .iter()
        .map(|&(folder, name, dependencies)| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            folder: folder.into(),
            place: (!folder.is_empty()).then(|| Place::of_folder(folder)),
            licence: Some("MIT".to_owned()),
            is_proc_macro: name.ends_with("-derive"),
            dependencies: dependencies
                .split_whitespace()
                .map(|dependency| {
                    let (kind, name) = match dependency.split_once(')') {
                        Some(("(dev", name)) => (Kind::Dev, name),
                        Some(("(build", name)) => (Kind::Build, name),
                        _ => (Kind::Normal, dependency),
                    };
                    let package = rows.iter().position(|row| row.1 == name).expect("a known name");
                    Dependency { package, kind }
                })
                .collect(),
        })
        .collect();
    Graph { packages }
}

/// Checks the problems of a graph: each must begin with the line of `expected` at the same
/// position.
fn check(lines: &str, expected: &[&str]) {
    let problems = check_graph(&graph(lines));
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(expected) {
        assert!(problem.starts_with(start), "{problem}\ndoes not start with\n{start}");
    }
}

#[test]
fn the_datas_way_is_fine() {
    check(
        "crates/base/ctf ctf: memchr
         crates/base/filter filter: ctf
         crates/capture/ring ring: ctf
         crates/decode/reader reader: ctf filter
         crates/top/blkkin blkkin: reader (dev)e2e
         tests/e2e e2e: reader
         xtask xtask: tokio
         memchr:
         tokio:",
        &[],
    );
}

#[test]
fn against_the_datas_way() {
    let expected = |kind| format!("ctf (base): {kind} on reader (decode) goes against");
    for (mark, kind) in
        [("", "dependency"), ("(build)", "build-dependency"), ("(dev)", "dev-dependency")]
    {
        check(
            &format!("crates/base/ctf ctf: {mark}reader\ncrates/decode/reader reader:"),
            &[&expected(kind)],
        );
    }
}

#[test]
fn nothing_shipped_depends_on_test_support() {
    check(
        "crates/decode/reader reader: e2e\ntests/e2e e2e:",
        &["reader (decode): dependency on e2e (outside of the stations)"],
    );
    check("crates/decode/reader reader: (dev)e2e\ntests/e2e e2e:", &[]);
}

#[test]
fn crates_live_in_stations() {
    check("crates/misc/bits bits:", &["bits: is in crates/misc/bits, where no crate belongs"]);
    check("crates/bits bits:", &["bits: is in crates/bits,"]);
    check("bits bits:", &["bits: is in bits,"]);
}

#[test]
fn capture_links_no_json_and_no_runtime() {
    check(
        "crates/base/ctf ctf: serde_json
         crates/capture/ring ring: ctf
         crates/carry/relay relay: tokio ctf
         serde_json:
         tokio:",
        &["ring (capture): links serde_json through ctf > serde_json;"],
    );
    // Build scripts, tests and procedural macros have no restrictions.
    check(
        "crates/capture/trace trace: (build)tokio (dev)serde_json nice-derive
         nice-derive: serde_json
         serde_json:
         tokio:",
        &[],
    );
}

#[test]
fn licences() {
    let mut made_up =
        graph("crates/top/blkkin blkkin: shipped (build)helper\nshipped:\nhelper: deeper\ndeeper:");
    for name in ["shipped", "helper", "deeper"] {
        let package = made_up.packages.iter_mut().find(|package| package.name == name);
        package.expect("it is there").licence = Some("MPL-2.0".to_owned());
    }
    let problems = check_graph(&made_up);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].starts_with("shipped: licence `MPL-2.0` is not accepted"));

    made_up.packages[1].licence = None;
    let problems = check_graph(&made_up);
    assert!(problems[0].starts_with("shipped: states no licence expression"), "{problems:#?}");
}

#[test]
fn licence_expressions() {
    fn check(expression: &str, expected: bool) {
        assert_eq!(licence::check(expression, true).is_ok(), expected, "{expression}");
    }
    check("MIT", true);
    check("MIT OR Apache-2.0", true);
    check("MIT/Apache-2.0", true);
    check("GPL-3.0-only", false);
    check("GPL-3.0-only OR MIT", true);
    check("GPL-3.0-only AND MIT", false);
    check("(MIT OR Apache-2.0) AND Unicode-3.0", true);
    check("(MIT OR Apache-2.0) AND NCSA", false);
    check("MIT OR Apache-2.0 AND NCSA", true);
    check("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", true);
    check("GPL-2.0-only WITH Classpath-exception-2.0", false);
    check("MPL-2.0", false);
    check("", false);
    check("MIT OR", false);
    check("(MIT", false);
    check("MIT)", false);
    check("MIT MIT", false);
    check(&"(".repeat(100_000), false);
}

#[test]
fn forbidden_packages() {
    fn check(lock: &str, expected: usize) {
        assert_eq!(check_lock(lock).len(), expected, "{lock}");
    }
    check("[[package]]\nname = \"memchr\"\nversion = \"2.0.0\"\n", 0);
    check("[[package]]\nname = \"openssl-sys\"\n", 1);
    check("[[package]]\nname = \"native-tls\"\n[[package]]\nname = \"aws-lc-sys\"\n", 2);
    check("[[package]]\nname = \"not-openssl-sys\"\n", 0);
    check("[[package]]\nname = \"btf-rs\"\n", 1);
}

#[test]
fn unsafe_code() {
    fn check(file: &str, text: &str, expected: usize) {
        assert_eq!(check_unsafe(file, text).len(), expected, "{file}: {text}");
    }
    check("crates/base/sys/src/map.rs", "unsafe { f() }", 0);
    check("crates/capture/ring/src/lib.rs", "unsafe impl Sync for Ring {}", 0);
    check("crates/base/systems/src/lib.rs", "unsafe { f() }", 1);
    check("crates/capture/trace/src/start.rs", "#[unsafe(link_section = \".init_array\")]", 0);
    check("crates/capture/trace/src/event.rs", "#[unsafe(link_section = \".init_array\")]", 1);
    check("examples/blockstack/src/mapper.rs", "unsafe extern \"C\" {", 0);
    check("examples/blockstack/src/hub.rs", "unsafe extern \"C\" {", 1);
    check("crates/decode/reader/src/lib.rs", "let x = unsafe { f() };\n\nunsafe fn g() {}", 2);
    check("crates/decode/reader/src/lib.rs", "#![allow(unsafe_code)]", 1);
    check("crates/decode/reader/src/lib.rs", "#[unsafe(no_mangle)]", 1);
    check("crates/decode/reader/src/lib.rs", "// there is no unsafe { } here", 0);
    check("crates/decode/reader/src/lib.rs", "#![forbid(unsafe_code)]", 0);
}

#[test]
fn cargo_metadata_is_understood() {
    let json = br#"{
        "workspace_root": "/w",
        "workspace_members": ["a", "b"],
        "packages": [
            {"id": "a", "name": "ctf", "manifest_path": "/w/crates/base/ctf/Cargo.toml",
             "license": "MIT", "targets": [{"kind": ["lib"]}]},
            {"id": "b", "name": "reader", "manifest_path": "/w/crates/decode/reader/Cargo.toml",
             "license": "MIT", "targets": [{"kind": ["lib"]}]},
            {"id": "c", "name": "some-derive", "manifest_path": "/r/some-derive/Cargo.toml",
             "license": null, "targets": [{"kind": ["proc-macro"]}]}
        ],
        "resolve": {"nodes": [
            {"id": "a", "deps": [
                {"pkg": "b", "dep_kinds": [{"kind": "dev"}]},
                {"pkg": "c", "dep_kinds": [{"kind": null}]}
            ]},
            {"id": "b", "deps": []}, {"id": "c", "deps": []}
        ]}
    }"#;
    let graph = graph::parse(json).expect("well-formed");
    let problems = check_graph(&graph);
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(problems[0].starts_with("ctf (base): dev-dependency on reader (decode)"));
    assert!(problems[1].starts_with("some-derive: states no licence expression"));
    assert!(graph::parse(b"{").is_err());
}
