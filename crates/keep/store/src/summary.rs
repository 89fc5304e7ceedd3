//! Summaries of requests for lists ([`Summary`]), and the start and the root of a request.

use blkkin_model::{SpanRef, TraceId};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Summary of a request, shown as one line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Id of the summarized request.
    pub trace_id: TraceId,
    /// Start of the earliest span, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Duration of the root in nanoseconds; `extent_ns` if the root lacks a start or a duration.
    pub duration_ns: u64,
    /// Time from the start of the first span to the end of the last span, in nanoseconds; at least
    /// `duration_ns`. The last span may be asynchronous work long after the root.
    pub extent_ns: u64,
    /// Service of the root ([`root_of`]); empty if unknown.
    pub service: String,
    /// Name of the root ([`root_of`]); empty if unknown.
    pub name: String,
    /// Number of spans of the request.
    pub spans: u64,
    /// Number of failed spans of the request.
    pub errors: u64,
    /// Services of the spans, sorted by number of spans in descending order, then by name.
    pub services: Vec<ServiceSpans>,
}

/// Number of spans that one service recorded in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpans {
    /// Name of the service; not empty.
    pub service: String,
    /// Number of spans that the service recorded.
    pub spans: u64,
    /// Number of failed spans that the service recorded.
    pub errors: u64,
}

/// Returns the start of a request: the earliest start of a span without a parent. If no such span
/// has a start, it is the earliest start of all spans. The result does not depend on the order of
/// the spans. `None` if no span has a start.
pub fn request_start_ns<'s>(spans: impl IntoIterator<Item = &'s SpanRef<'s>>) -> Option<u64> {
    let started = spans
        .into_iter()
        .filter_map(|span| span.start_ns.map(|start| (span.parent_id.is_some(), start)));
    started.min().map(|(_, start)| start)
}

/// Returns the span that represents a request: the earliest span without a parent, or the earliest
/// span if all have parents. Among the candidates, spans without a start come last. `None` if there
/// are no spans.
pub fn root_of<'s, 'a>(spans: &'s [SpanRef<'a>]) -> Option<&'s SpanRef<'a>> {
    spans.iter().min_by_key(|span| {
        let place = (span.parent_id.is_some(), span.start_ns.is_none(), span.start_ns);
        let said = (span.kind, span.local.service, span.name, Reverse(span.duration_ns));
        (place, span.id, span.shared, said)
    })
}

impl Summary {
    /// Summarizes the distinct spans of a request. `None` if no span has a start.
    pub fn of(spans: &[SpanRef<'_>]) -> Option<Summary> {
        let starts = spans.iter().filter_map(|span| span.start_ns);
        let start_ns = starts.min()?;
        let end = |span: &SpanRef<'_>| {
            Some(span.start_ns?.saturating_add(span.duration_ns.unwrap_or_default()))
        };
        let extent_ns = spans.iter().filter_map(end).max()? - start_ns;
        let root = root_of(spans)?;
        let mut services: HashMap<&str, (u64, u64)> = HashMap::new();
        for span in spans.iter().filter(|span| !span.local.service.is_empty()) {
            let (spans, errors) = services.entry(span.local.service).or_default();
            *spans += 1;
            *errors += u64::from(span.is_error());
        }
        let mut services: Vec<ServiceSpans> = services
            .into_iter()
            .map(|(service, (spans, errors))| ServiceSpans {
                service: service.to_owned(),
                spans,
                errors,
            })
            .collect();
        services
            .sort_by(|a, b| (Reverse(a.spans), &a.service).cmp(&(Reverse(b.spans), &b.service)));
        Some(Summary {
            trace_id: root.trace_id,
            start_ns,
            duration_ns: root
                .start_ns
                .and(root.duration_ns)
                .map_or(extent_ns, |it| it.min(extent_ns)),
            extent_ns,
            service: root.local.service.to_owned(),
            name: root.name.to_owned(),
            spans: spans.len() as u64,
            errors: spans.iter().filter(|span| span.is_error()).count() as u64,
            services,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_model::{EndpointRef, SpanId, Status};

    /// Creates a span of request 1. The arguments are id, parent (0 for none), start, duration (0
    /// for none) and `service/name`. A span with the name `bad` has failed.
    fn span(
        id: u64,
        parent: u64,
        start_ns: Option<u64>,
        duration: u64,
        said: &'static str,
    ) -> SpanRef<'static> {
        let (service, name) = said.split_once('/').expect("service/name");
        let trace = TraceId::from_number(1).expect("not 0");
        SpanRef {
            parent_id: SpanId::from_number(parent),
            start_ns,
            duration_ns: (duration > 0).then_some(duration),
            name,
            local: EndpointRef { service, ..EndpointRef::NONE },
            status: if name == "bad" { Status::Error } else { Status::Unset },
            ..SpanRef::new(trace, SpanId::from_number(id).expect("not 0"))
        }
    }

    /// Asserts that spans have the expected summary in every rotation of their order. `expected`
    /// has the form `began; start+duration<extent service/name spans errors
    /// service:spans:errors...`.
    #[track_caller]
    fn check(spans: &[SpanRef<'static>], expected: &str) {
        let mut spans = spans.to_vec();
        let count = spans.len();
        for _ in 0..count.max(1) {
            let began = request_start_ns(&spans).map_or("-".to_owned(), |began| began.to_string());
            let summary = Summary::of(&spans).map_or("-".to_owned(), |it| {
                let services = it.services.iter();
                let services =
                    services.map(|it| format!(" {}:{}:{}", it.service, it.spans, it.errors));
                let Summary { start_ns, duration_ns, extent_ns, .. } = it;
                let Summary { service, name, spans, errors, .. } = &it;
                let all: String = services.collect();
                format!(
                    "{start_ns}+{duration_ns}<{extent_ns} {service}/{name} {spans} {errors}{all}"
                )
            });
            assert_eq!(format!("{began}; {summary}"), expected);
            spans.rotate_left(count.min(1));
        }
    }

    #[test]
    fn requests_in_short() {
        check(&[], "-; -");
        check(&[span(1, 0, None, 5, "a/x")], "-; -");
        check(&[span(1, 0, Some(3), 0, "/")], "3; 3+0<0 / 1 0");
        check(&[span(1, 0, Some(0), 9, "a/x")], "0; 0+9<9 a/x 1 0 a:1:0");
        // A child may start before its root if the clocks of their hosts differ.
        check(
            &[span(1, 0, Some(10), 5, "a/x"), span(2, 1, Some(8), 9, "b/bad")],
            "10; 8+5<9 a/x 2 1 a:1:0 b:1:1",
        );
        // Work after the root's end extends the request but not its duration.
        check(
            &[span(1, 0, Some(10), 5, "a/x"), span(2, 1, Some(14), 90, "b/y")],
            "10; 10+5<94 a/x 2 0 a:1:0 b:1:0",
        );
        // For a root without a duration, the request's duration is the extent.
        check(
            &[span(1, 0, Some(10), 0, "a/x"), span(2, 1, Some(14), 90, "b/y")],
            "10; 10+94<94 a/x 2 0 a:1:0 b:1:0",
        );
        // The earliest of several roots represents the request; without a root, the earliest span.
        check(
            &[span(1, 0, Some(10), 1, "a/x"), span(2, 0, Some(9), 1, "b/y")],
            "9; 9+1<2 b/y 2 0 a:1:0 b:1:0",
        );
        check(
            &[span(3, 1, Some(10), 1, "a/x"), span(2, 1, Some(9), 9, "a/y")],
            "9; 9+9<9 a/y 2 0 a:2:0",
        );
        // A root without a start gives service and name, but not the start.
        check(
            &[span(1, 0, None, 7, "a/x"), span(2, 1, Some(9), 1, "b/y")],
            "9; 9+1<1 a/x 2 0 a:1:0 b:1:0",
        );
        // If roots start at the same time, the root with the lesser id is chosen.
        check(
            &[span(5, 0, Some(9), 1, "b/y"), span(4, 0, Some(9), 1, "c/z")],
            "9; 9+1<1 c/z 2 0 b:1:0 c:1:0",
        );
        let all = [
            span(1, 0, Some(5), u64::MAX, "b/x"),
            span(2, 1, Some(u64::MAX), 5, "b/bad"),
            span(3, 1, Some(6), 0, "c/x"),
            span(4, 1, None, 0, "c/bad"),
            span(5, 1, Some(6), 0, "a/x"),
            span(6, 1, Some(6), 0, "/bad"),
        ];
        check(&all, &format!("5; 5+{0}<{0} b/x 6 3 b:2:1 c:2:1 a:1:0", u64::MAX - 5));
    }
}
