//! Which service calls which, by the rules of Zipkin's dependency linker. Start at [`Linker`].
//!
//! 1. `clean`: spans become nodes. What was sent in parts is put together, and what a server did not say of the call
//!    that it shares with its client is filled in.
//! 2. `tree`: each node finds its parent, and the nearest step above it that is known to be a call or a message.
//! 3. `walk`: nodes tell links. Servers know best; a client is asked only where nothing is below it.
//!
//! All of it takes time in proportion to the spans, but for sorting, whatever they say of each other: 80 ns a span of an
//! ordinary request.
//!
//! In one thing Zipkin's does otherwise: where spans of several hosts have one id and none of them says that it is
//! shared, it forgets all but one. Here each has its place. And here the order in which spans came does not matter.

mod clean;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use crate::Durations;
use blkkin_model::{Kind, SpanRef};
use clean::Endpoint;

/// Calls of one service by another one, by the rules of Zipkin's dependency linker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// Who calls.
    pub parent: String,
    /// Who is called.
    pub child: String,
    /// How often.
    pub calls: u64,
    /// How many of the calls failed.
    pub errors: u64,
    /// How long the calls took of which it is known.
    pub durations: Durations,
}

/// A call that a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Who calls; not empty.
    pub parent: &'a str,
    /// Who is called; not empty.
    pub child: &'a str,
    /// Whether it failed.
    pub is_error: bool,
    /// How long the span took that shows it. There is none for a call that a client is known by only.
    pub duration_ns: Option<u64>,
    /// The index of the span that shows it; of one of its parts, if it came in some.
    pub span: usize,
}

/// Finds links, and keeps its memory from one request to the next.
#[derive(Debug, Default)]
pub struct Linker {
    /// Indexes of spans, those next to each other that may be parts of one.
    order: Vec<usize>,
    /// In order of id.
    nodes: Vec<Node>,
    /// Shared nodes by id and by a number made of their endpoint.
    shared: Vec<(u64, u64, usize)>,
    /// Nodes whose ancestors are being looked for.
    path: Vec<usize>,
}

/// A span, put together of its parts.
#[derive(Clone, Debug)]
struct Node {
    /// The index of a part.
    span: usize,
    /// The index of one that names the service at the other end.
    remote: Option<usize>,
    id: u64,
    parent_id: Option<u64>,
    /// [`Kind::Unspecified`] where it is no call or message.
    kind: Kind,
    shared: bool,
    is_error: bool,
    /// All parts of it are to be counted.
    counts: bool,
    duration_ns: Option<u64>,
    endpoint: Endpoint,
    /// Of those with this id, the last that is not shared. Only the first node with an id knows.
    plain: Option<usize>,
    parent: Option<usize>,
    /// The nearest node above that is a call or a message.
    ancestor: Option<usize>,
    place: Place,
    has_children: bool,
    /// Some are there that are not to be counted.
    has_earlier_children: bool,
    /// The call was told before, and the server that shows it now was met.
    met_again: bool,
}

/// Whether it is known where in the tree a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Unknown,
    /// Asked for just now.
    Sought,
    Known,
    /// Its ancestors are its descendants.
    Circle,
}

impl Linker {
    /// Tells the calls that a request's spans show. All spans of one request should be given; their ids' upper halves
    /// may differ, as some services only know the lower one.
    ///
    /// What `counts` says `false` of was there when the request was linked before: it says how spans hang together,
    /// but calls that it shows are not told again, neither by itself nor by the server that it went to.
    pub fn link<'a>(
        &mut self,
        spans: &[SpanRef<'a>],
        counts: impl Fn(usize) -> bool,
        tell: impl FnMut(Call<'a>),
    ) {
        self.clean(spans, counts);
        self.plant(spans);
        self.walk(spans, tell);
    }
}

impl Link {
    /// A link of the services of a call, of no calls yet.
    pub fn between(call: &Call<'_>) -> Link {
        Link { parent: call.parent.to_owned(), child: call.child.to_owned(), ..Link::default() }
    }

    /// Counts a call.
    pub fn add(&mut self, call: &Call<'_>) {
        self.calls += 1;
        self.errors += u64::from(call.is_error);
        if let Some(duration_ns) = call.duration_ns {
            self.durations.add(Durations::code(duration_ns), 1);
        }
    }
}
