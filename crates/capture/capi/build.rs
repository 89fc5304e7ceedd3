//! Has the library stay loaded once it is, because there may be a thread in it that nobody can end.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
