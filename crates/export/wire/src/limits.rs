//! How much of a batch is taken, whatever it says of itself.

/// How large a batch and what is in it may be. What is larger is refused, not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a batch. Decoding takes memory only for what cannot be borrowed from it, such as text with
    /// escapes, of one span at a time.
    pub batch_bytes: usize,
    /// Texts and byte strings of a batch's spans together, beside eight times the batch's own size.
    /// A value of a resource or scope counts for each span that has it, so a small batch can expand
    /// to far more than its own size.
    pub expanded_bytes: u64,
    /// Spans of a batch, as they came: one of Zipkin's first format can become several.
    pub spans: u64,
    /// Tags of a span, with those of its resource and scope.
    pub tags: usize,
    /// Tags of a resource and a scope: each span gets them all.
    pub shared_tags: usize,
    /// Annotations of a span.
    pub annotations: usize,
    /// Hosts that take part in one span of Zipkin's first format, each of which becomes a span.
    pub hosts: usize,
    /// Each text: a name, a key, a value.
    pub text_bytes: usize,
    /// Lists and maps within each other. At most 120.
    pub depth: usize,
}

/// Nothing that is met in practice is as large.
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
