//! Limits on the size of a batch and its contents.

/// Maximum sizes of a batch and its contents. Larger input is refused, not truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a batch in bytes. Strings are borrowed from the batch; only strings that
    /// cannot be borrowed, such as escaped strings, need memory, usually for one span or resource
    /// at a time.
    pub batch_bytes: usize,
    /// Maximum total size in bytes of the strings and byte strings in all spans, in addition to
    /// eight times the size of the batch. Tags of a resource or scope count once for each span
    /// that shares them, so a small batch may expand to many times its size.
    pub expanded_bytes: u64,
    /// Maximum number of spans in the batch. A span of Zipkin's v1 format counts once, even if it
    /// is split into several.
    pub spans: u64,
    /// Maximum number of tags of a span, including those of its resource and scope.
    pub tags: usize,
    /// Maximum number of tags of a resource and a scope together. These tags are copied to each
    /// span.
    pub shared_tags: usize,
    /// Maximum number of annotations of a span.
    pub annotations: usize,
    /// Maximum number of spans into which a span of Zipkin's v1 format is split, usually one for
    /// each service among its hosts.
    pub hosts: usize,
    /// Maximum size in bytes of a string: a name, key or value.
    pub text_bytes: usize,
    /// Maximum nesting depth of lists and maps, at most 120.
    pub depth: usize,
}

/// The default limits are larger than the batches of real senders.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            batch_bytes: 64 << 20,
            expanded_bytes: 128 << 20,
            spans: 1 << 20,
            tags: 1024,
            shared_tags: 128,
            annotations: 4096,
            hosts: 32,
            text_bytes: 1 << 20,
            depth: 32,
        }
    }
}

/// Upper bound of [`Limits::depth`]: nested values are rendered recursively, and the JSON parser
/// skips nested values with a stack of 128 bits.
pub(crate) const DEPTH_MAX: usize = 120;
