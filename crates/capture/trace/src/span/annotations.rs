//! Annotations of a span: moments with a text, and keys with values.

use super::{Endpoint, Trace};
use crate::Level;
use crate::family::{
    Annotation, AnnotationContent, DEFAULT_LEVEL, Family, KEYVAL_INTEGER, KEYVAL_STRING, TIMESTAMP,
};

/// Zipkin's core annotations, each recorded as a short code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CoreAnnotation {
    ClientSend,
    ClientReceive,
    ServerSend,
    ServerReceive,
    WireSend,
    WireReceive,
    ClientSendFragment,
    ClientReceiveFragment,
    ServerSendFragment,
    ServerReceiveFragment,
    MessageSend,
    MessageReceive,
}

impl CoreAnnotation {
    /// Returns the code by which the annotation is recorded, such as `cs` for [`Self::ClientSend`].
    pub const fn word(self) -> &'static str {
        match self {
            CoreAnnotation::ClientSend => "cs",
            CoreAnnotation::ClientReceive => "cr",
            CoreAnnotation::ServerSend => "ss",
            CoreAnnotation::ServerReceive => "sr",
            CoreAnnotation::WireSend => "ws",
            CoreAnnotation::WireReceive => "wr",
            CoreAnnotation::ClientSendFragment => "csf",
            CoreAnnotation::ClientReceiveFragment => "crf",
            CoreAnnotation::ServerSendFragment => "ssf",
            CoreAnnotation::ServerReceiveFragment => "srf",
            CoreAnnotation::MessageSend => "ms",
            CoreAnnotation::MessageReceive => "mr",
        }
    }
}

impl AsRef<str> for CoreAnnotation {
    #[inline]
    fn as_ref(&self) -> &str {
        self.word()
    }
}

/// Value of a key-value annotation: a string or an integer.
pub trait KeyValue {
    /// Family of the annotations that have values of this type.
    const FAMILY: &'static Family;

    /// Returns the content of an annotation with this key and value.
    fn content<'s>(&'s self, key: &'s str) -> AnnotationContent<&'s str>;
}

impl KeyValue for str {
    const FAMILY: &'static Family = &KEYVAL_STRING;

    #[inline]
    fn content<'s>(&'s self, key: &'s str) -> AnnotationContent<&'s str> {
        AnnotationContent::String { key, val: self }
    }
}

impl KeyValue for String {
    const FAMILY: &'static Family = &KEYVAL_STRING;

    #[inline]
    fn content<'s>(&'s self, key: &'s str) -> AnnotationContent<&'s str> {
        AnnotationContent::String { key, val: self }
    }
}

impl<V: KeyValue + ?Sized> KeyValue for &V {
    const FAMILY: &'static Family = V::FAMILY;

    #[inline]
    fn content<'s>(&'s self, key: &'s str) -> AnnotationContent<&'s str> {
        (**self).content(key)
    }
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(impl KeyValue for $type {
            const FAMILY: &'static Family = &KEYVAL_INTEGER;

            /// Converts the value to a signed 64-bit number. Values above the maximum wrap, as in
            /// C.
            #[inline]
            fn content<'s>(&'s self, key: &'s str) -> AnnotationContent<&'s str> {
                AnnotationContent::Integer { key, val: *self as i64 }
            }
        })*
    };
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, bool);

/// Methods that record annotations. Those without a level parameter record at [`DEFAULT_LEVEL`], as
/// blkin does.
impl<'a> Trace<'a> {
    /// Records an annotation with a text, at the current time.
    #[inline]
    pub fn event(&self, event: impl AsRef<str>) {
        self.event_at(DEFAULT_LEVEL, event);
    }

    /// Records an annotation with a text at a level, at the current time.
    #[inline]
    pub fn event_at(&self, level: Level, event: impl AsRef<str>) {
        if TIMESTAMP.at(level).is_enabled() && self.is_followed() {
            self.annotate(level, AnnotationContent::Event(event.as_ref()));
        }
    }

    /// Records a key and its value as an annotation of this span, at the current time.
    #[inline]
    pub fn keyval(&self, key: &str, val: impl KeyValue) {
        self.keyval_at(DEFAULT_LEVEL, key, val);
    }

    /// Records a key and its value as an annotation of this span, at a level.
    #[inline]
    pub fn keyval_at<V: KeyValue>(&self, level: Level, key: &str, val: V) {
        if V::FAMILY.at(level).is_enabled() && self.is_followed() {
            self.annotate(level, val.content(key));
        }
    }

    /// Returns true if annotations of any kind may be recorded for this span at a level. Callers
    /// can check this before they compute values.
    #[inline]
    pub fn is_annotated_at(&self, level: Level) -> bool {
        let families = [&TIMESTAMP, &KEYVAL_STRING, &KEYVAL_INTEGER];
        self.is_followed() && families.iter().any(|family| family.at(level).is_enabled())
    }

    /// Records the address of the server that this span calls: Zipkin's `sa`.
    #[inline]
    pub fn server_address(&self, server: &Endpoint<'_>) {
        self.address("sa", server);
    }

    /// Records the address of the client that calls this span: Zipkin's `ca`.
    #[inline]
    pub fn client_address(&self, client: &Endpoint<'_>) {
        self.address("ca", client);
    }

    /// Records the address of the broker that forwards this span's messages: Zipkin's `ma`.
    #[inline]
    pub fn message_address(&self, broker: &Endpoint<'_>) {
        self.address("ma", broker);
    }

    /// Records the address of a peer, as an annotation with the peer's endpoint. The annotation's
    /// value has no meaning.
    #[inline]
    fn address(&self, key: &str, endpoint: &Endpoint<'_>) {
        Trace { endpoint, ..*self }.keyval(key, "1");
    }

    /// Records an annotation. The content's variant is known at compile time in each caller. Each
    /// variant has a function that is not inlined, because its code is too large to repeat; all
    /// arguments are passed in registers.
    #[inline(always)]
    fn annotate(&self, level: Level, content: AnnotationContent<&str>) {
        match content {
            AnnotationContent::Event(event) => self.record_event(level, event),
            AnnotationContent::String { key, val } => self.record_string(level, key, val),
            AnnotationContent::Integer { key, val } => self.record_integer(level, key, val),
        }
    }

    #[inline(never)]
    fn record_event(&self, level: Level, event: &str) {
        self.record_content(level, AnnotationContent::Event(event));
    }

    #[inline(never)]
    fn record_string(&self, level: Level, key: &str, val: &str) {
        self.record_content(level, AnnotationContent::String { key, val });
    }

    #[inline(never)]
    fn record_integer(&self, level: Level, key: &str, val: i64) {
        self.record_content(level, AnnotationContent::Integer { key, val });
    }

    #[inline(always)]
    fn record_content(&self, level: Level, content: AnnotationContent<&str>) {
        Annotation {
            trace_name: self.name,
            service_name: self.endpoint.service_name(),
            port_no: self.endpoint.port(),
            ip: self.endpoint.ip(),
            trace_id: self.ids.trace[0].cast_signed(),
            span_id: self.ids.span.cast_signed(),
            parent_span_id: self.ids.parent.cast_signed(),
            content,
        }
        .record(level);
    }
}

macro_rules! core_annotations {
    ($($(#[$doc:meta])* $name:ident: $annotation:ident;)*) => {
        /// Methods that record some of Zipkin's core annotations; [`event`](Trace::event) records
        /// each [`CoreAnnotation`].
        impl Trace<'_> {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $name(&self) {
                    self.event(CoreAnnotation::$annotation);
                }
            )*
        }
    };
}

core_annotations! {
    /// Records that a client has sent its request.
    client_send: ClientSend;
    /// Records that a client has received the answer.
    client_receive: ClientReceive;
    /// Records that a server has received a request.
    server_receive: ServerReceive;
    /// Records that a server has sent its answer.
    server_send: ServerSend;
    /// Records that a message has been sent to the network.
    wire_send: WireSend;
    /// Records that a message has been received from the network.
    wire_receive: WireReceive;
}
