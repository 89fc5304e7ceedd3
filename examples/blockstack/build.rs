//! Compiles the mapper, which is C, with the headers of libblkkin.

fn main() {
    let headers = "../../crates/capture/capi/include";
    println!("cargo:rerun-if-changed=mapper");
    println!("cargo:rerun-if-changed={headers}");
    cc::Build::new()
        .files(["mapper/link.c", "mapper/map.c", "mapper/requests.c", "mapper/mapper.c"])
        .include(headers)
        .std("gnu11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .compile("blockstack_mapper");
}
