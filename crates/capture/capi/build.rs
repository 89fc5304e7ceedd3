//! Sets the library's soname, and marks the library as not unloadable, because its thread cannot be
//! ended from outside.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Before 1.0 a new minor version may break compatibility, and programs must not load it by
    // mistake.
    let part = |name: &str| var(format!("CARGO_PKG_VERSION_{name}")).unwrap_or_default();
    let compatible = match part("MAJOR").as_str() {
        "0" => format!("0.{}", part("MINOR")),
        major => major.to_owned(),
    };
    let name = format!("libblkkin.so.{compatible}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
    println!("cargo:rustc-env=BLKKIN_SONAME={name}");
}
