//! Test that gzip bombs of one gibibyte use little memory, over HTTP and gRPC. The test has its own
//! process, because it measures the memory of the process.

#[path = "server/calls.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod calls;
#[path = "server/support.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod support;

use calls::{OTLP, ZIPKIN, call, framed};
use support::{gzip, request, start};

/// Maximum growth of the process's peak memory by one bomb, or by all repeated bombs, for server
/// and client together, in bytes.
const GROWN_MAX: u64 = 32 << 20;

/// Returns the peak resident memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

#[test]
fn bombs_take_little_memory() {
    let tested = start();
    let kinds = [("application/json", [0x20]), ("application/x-protobuf", [0])];
    let post = |path: &str, kind: &str, body: &[u8]| {
        let headers = [("content-type", kind), ("content-encoding", "gzip")];
        request(tested.web(), "POST", path, &headers, body).status
    };
    let grpc = |path: &str, body: &[u8]| {
        call(tested.web(), path, &[("grpc-encoding", "gzip")], framed(1, body)).status
    };
    // A warm-up first: the code pages and the bombs themselves also count as memory.
    let bombs = kinds.map(|(_, byte)| gzip(&byte.repeat(1 << 20)).repeat(1024));
    for path in ["/api/v2/spans", "/v1/traces"] {
        for (kind, _) in kinds {
            assert_eq!(post(path, kind, &gzip(b"nonsense")), 400, "{path} {kind}");
        }
    }
    for path in [OTLP, ZIPKIN] {
        assert_eq!(grpc(path, &gzip(b"nonsense")), "3", "{path}");
    }
    let mut last = peak();
    let mut grows_little = |what: &str| {
        // The kernel updates the peak in steps, so a later value may be smaller.
        let now = peak().max(last);
        assert!(now - last <= GROWN_MAX, "{what}: {} bytes", now - last);
        last = now;
    };
    for path in ["/api/v2/spans", "/v1/traces"] {
        for ((kind, _), bomb) in kinds.iter().zip(&bombs) {
            assert_eq!(post(path, kind, bomb), 413, "{path} {kind}");
            grows_little(path);
        }
    }
    for path in [OTLP, ZIPKIN] {
        assert_eq!(grpc(path, &bombs[1]), "8", "{path}");
        grows_little(path);
    }
    // Further bombs reuse the same memory.
    for path in [OTLP, ZIPKIN].repeat(10) {
        assert_eq!(grpc(path, &bombs[1]), "8", "{path}");
    }
    grows_little("many");
}
