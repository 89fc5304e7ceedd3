//! Annotations that the bench's programs record: the strings of `benches/annotations.h`, in memory
//! whose content the compiler cannot know.

use blkkin_trace::{Endpoint, Sampler, Trace};
use std::hint::black_box;

/// A span, with the key and value to annotate it with.
pub(crate) struct Annotation {
    pub(crate) trace: Trace<'static>,
    pub(crate) key: &'static str,
    pub(crate) val: &'static str,
}

/// Returns four different annotations, for recording in turn. Their spans are not sampled if
/// `sampler` rejects them.
pub(crate) fn annotations(sampler: &Sampler) -> [Annotation; 4] {
    [
        ("osd write", "osd.3", "10.0.0.7", "pool", "volume", 6802),
        ("osd read", "osd.11", "10.0.0.9", "object", "rb.1", 6804),
        ("client io", "qemu", "10.0.0.12", "size", "131072", 41532),
        ("pg queue", "osd.3", "10.0.0.7", "queued", "12.1f", 6802),
    ]
    .map(|(name, service, ip, key, val, port)| {
        let name = leaked(name);
        let endpoint = Box::leak(Box::new(Endpoint::new(leaked(service), leaked(ip), port)));
        let trace = Trace::root(name, endpoint, sampler).child(name);
        Annotation { trace, key: leaked(key), val: leaked(val) }
    })
}

fn leaked(text: &str) -> &'static str {
    black_box(Box::leak(text.to_owned().into_boxed_str()))
}
