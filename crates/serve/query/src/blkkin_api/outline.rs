//! Query `outline/ID`: the spans of a request in columns. A request may have a million spans; an
//! answer has at most [`LIMIT_MAX`].

mod own;
mod rows;
mod tree;

use super::{number_between, request_id};
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use crate::span::display;
use blkkin_model::TraceId;
use own::OwnValue;
use rows::Rows;
use serde::{Serialize, Serializer};
use tree::{Parent, Tree};

/// Default number of rows in an answer, one per span; the maximum is `LIMIT_MAX`.
const LIMIT: usize = 100_000;
const LIMIT_MAX: usize = 250_000;

/// Maximum number of annotations in an answer.
const ANNOTATIONS_MAX: usize = 200_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutlineJson<'a> {
    #[serde(serialize_with = "display")]
    trace_id: TraceId,
    start_ns: String,
    duration_ns: u64,
    spans: u64,
    shown: usize,
    strings: Vec<&'a str>,
    ids: Vec<HexId>,
    /// Index of the parent of each span in the answer; -1 for a span without a parent, -2 for a
    /// missing parent and for the first span of a cycle.
    parents: Vec<i32>,
    starts: Vec<Option<u64>>,
    durations: Vec<Option<u64>>,
    services: Vec<i32>,
    names: Vec<i32>,
    kinds: Vec<u8>,
    errors: Vec<u8>,
    annotations: AnnotationsJson,
    /// Own time of the spans that have it; `None` if no span of the request has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<OwnJson<'a>>,
    /// Clocks of the spans that tell them; `None` if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    clocks: Option<ClocksJson<'a>>,
}

/// Clocks, each with the row of its span, as in the span's tag.
#[derive(Serialize)]
struct ClocksJson<'a> {
    rows: Vec<u32>,
    values: Vec<&'a str>,
}

#[derive(Serialize, Default)]
struct AnnotationsJson {
    rows: Vec<u32>,
    times: Vec<i64>,
    values: Vec<i32>,
    more: u64,
}

/// Values of own time: for each its row, its key without the prefix `blkkin.own.`, and the value.
#[derive(Serialize)]
struct OwnJson<'a> {
    rows: Vec<u32>,
    keys: Vec<&'static str>,
    values: Vec<&'a OwnValue>,
    more: u64,
}

/// Span id as 16 hexadecimal digits.
struct HexId(u64);

impl Serialize for HexId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl Api {
    pub(super) fn outline(&self, question: &ApiQuery<'_>, text: &str) -> Result<Answer> {
        let id = request_id(text)?;
        let limit = number_between(&question.params, "limit", LIMIT, LIMIT_MAX)?;
        let mut rows = Rows::default();
        self.visit(id, None, |span| rows.add(span))?;
        if rows.spans == 0 {
            return Err(Answer::failed(404, format!("{id} not found")));
        }
        self.json(&outline(id, &rows, limit))
    }
}

fn outline(trace_id: TraceId, rows: &Rows, limit: usize) -> OutlineJson<'_> {
    let tree = Tree::of(&rows.rows);
    let walk = tree.walk(limit);
    let mut place = vec![None; rows.rows.len()];
    for (&row, at) in walk.iter().zip(0u32..) {
        place[row as usize] = Some(at);
    }
    let shown = || walk.iter().map(|&row| &rows.rows[row as usize]);
    let (start_ns, end_ns) = rows.times.unwrap_or((0, 0));
    let parent = |&row: &u32| match tree.parent(row) {
        Parent::None => -1,
        Parent::Missing => -2,
        Parent::Row(parent) => place[parent as usize].map_or(-2, |at| at as i32),
    };
    let mut strings = Strings::of(rows);
    let mut annotations = AnnotationsJson::default();
    let mut notes: Vec<(u32, u64, u32)> = rows
        .annotations
        .iter()
        .filter_map(|it| Some((place[it.row as usize]?, it.time_ns, it.value)))
        .collect();
    notes.sort_unstable();
    notes.truncate(ANNOTATIONS_MAX);
    annotations.more = rows.annotation_count - notes.len() as u64;
    OutlineJson {
        trace_id,
        start_ns: start_ns.to_string(),
        duration_ns: end_ns - start_ns,
        spans: rows.spans,
        shown: walk.len(),
        ids: shown().map(|row| HexId(row.id)).collect(),
        parents: walk.iter().map(parent).collect(),
        starts: shown().map(|row| Some(row.start_ns? - start_ns)).collect(),
        durations: shown().map(|row| row.duration_ns).collect(),
        services: shown().map(|row| strings.number(row.service)).collect(),
        names: shown().map(|row| strings.number(row.name)).collect(),
        kinds: shown().map(|row| row.kind).collect(),
        errors: shown().map(|row| row.is_error.into()).collect(),
        annotations: {
            for (row, time_ns, value) in notes {
                annotations.rows.push(row);
                annotations.times.push(time_ns.wrapping_sub(start_ns) as i64);
                annotations.values.push(strings.number(value));
            }
            annotations
        },
        strings: strings.used,
        own: own(rows, &place),
        clocks: clocks(rows, &place),
    }
}

/// Returns the own time of the rows that have a place in the answer, in order of place.
fn own<'a>(rows: &'a Rows, place: &[Option<u32>]) -> Option<OwnJson<'a>> {
    if rows.own.count == 0 {
        return None;
    }
    let placed = rows.own.rows.iter().filter_map(|it| Some((place[it.row as usize]?, it)));
    let mut placed: Vec<_> = placed.collect();
    placed.sort_by_key(|(at, _)| *at);
    Some(OwnJson {
        rows: placed.iter().map(|(at, _)| *at).collect(),
        keys: placed.iter().map(|(_, it)| it.key).collect(),
        values: placed.iter().map(|(_, it)| &it.value).collect(),
        more: rows.own.count - placed.len() as u64,
    })
}

/// Returns the clocks of the rows that have a place in the answer.
fn clocks<'a>(rows: &'a Rows, place: &[Option<u32>]) -> Option<ClocksJson<'a>> {
    let placed =
        rows.clocks.iter().filter_map(|(row, clock)| Some((place[*row as usize]?, &**clock)));
    let mut placed: Vec<(u32, &str)> = placed.collect();
    placed.sort_unstable();
    let (rows, values) = placed.into_iter().unzip();
    let clocks = ClocksJson { rows, values };
    (!clocks.rows.is_empty()).then_some(clocks)
}

/// String table of an answer. Strings are numbered in the order in which they are first used.
struct Strings<'r> {
    rows: &'r Rows,
    numbers: Vec<Option<i32>>,
    used: Vec<&'r str>,
}

impl<'r> Strings<'r> {
    fn of(rows: &'r Rows) -> Strings<'r> {
        Strings { rows, numbers: vec![None; rows.texts.len()], used: Vec::new() }
    }

    /// Converts the string number `text` of [`Rows`] to an index in the answer's string table; -1
    /// for [`NO_TEXT`](rows::NO_TEXT).
    fn number(&mut self, text: u32) -> i32 {
        let Some(number) = self.numbers.get_mut(text as usize) else { return -1 };
        *number.get_or_insert_with(|| {
            self.used.push(&self.rows.texts[text as usize]);
            self.used.len() as i32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_model::{
        AnnotationRef, EndpointRef, Kind, Origin, SpanId, SpanRef, TagRef, ValueRef,
    };

    fn trace() -> TraceId {
        TraceId::from_number(7).expect("not 0")
    }

    fn span(id: u64, parent: u64, start: u64) -> SpanRef<'static> {
        SpanRef {
            parent_id: SpanId::from_number(parent),
            start_ns: Some(1000 + start),
            duration_ns: Some(10),
            name: "x",
            local: EndpointRef { service: "a", ..EndpointRef::NONE },
            ..SpanRef::new(trace(), SpanId::from_number(id).expect("not 0"))
        }
    }

    fn told(spans: &[SpanRef<'_>], limit: usize) -> serde_json::Value {
        let mut rows = Rows::default();
        spans.iter().for_each(|span| rows.add(span));
        serde_json::to_value(outline(trace(), &rows, limit)).expect("JSON")
    }

    #[test]
    fn a_request_is_told_in_columns() {
        let annotations = [
            AnnotationRef { time_ns: 990, value: "early" },
            AnnotationRef { time_ns: 1012, value: "x" },
        ];
        let spans = [
            SpanRef { kind: Kind::Server, name: "", ..span(3, 2, 12) },
            SpanRef { annotations: &annotations, kind: Kind::Client, ..span(2, 1, 11) },
            SpanRef { status: blkkin_model::Status::Error, ..span(1, 0, 0) },
            SpanRef { start_ns: None, duration_ns: None, ..span(4, 9, 0) },
            span(1, 0, 0),
            SpanRef { status: blkkin_model::Status::Error, ..span(1, 0, 0) },
        ];
        let told = told(&spans, 10);
        assert_eq!(
            told,
            serde_json::json!({
                "traceId": "0000000000000007",
                "startNs": "1000",
                "durationNs": 22,
                "spans": 5,
                "shown": 5,
                "strings": ["a", "x", "early"],
                "ids": ["0000000000000001", "0000000000000002", "0000000000000003",
                    "0000000000000001", "0000000000000004"],
                "parents": [-1, 0, 1, -1, -2],
                "starts": [0, 11, 12, 0, null],
                "durations": [10, 10, 10, 10, null],
                "services": [0, 0, 0, 0, 0],
                "names": [1, 1, -1, 1, 1],
                "kinds": [0, 1, 2, 0, 0],
                "errors": [1, 0, 0, 0, 0],
                "annotations": { "rows": [1, 1], "times": [-10, 12], "values": [2, 1], "more": 0 },
            })
        );
    }

    #[test]
    fn own_time_is_told_of_the_rows_that_have_it() {
        let tag = |key, value| TagRef { key, value, origin: Origin::Span };
        let bands = "running 0 4;disk 4 6 vda";
        let tags = [
            tag("blkkin.own.running", ValueRef::Int(4)),
            tag("blkkin.own.disk", ValueRef::Str("6")),
            tag("blkkin.own.bands", ValueRef::Str(bands)),
            tag("blkkin.disk.vda.served", ValueRef::Int(5)),
        ];
        let spans = [
            SpanRef { tags: &tags, ..span(3, 1, 12) },
            span(1, 0, 0),
            SpanRef { tags: &tags[..1], ..span(2, 1, 1) },
        ];
        assert_eq!(
            told(&spans, 10)["own"],
            serde_json::json!({
                "rows": [1, 2, 2, 2],
                "keys": ["running", "running", "disk", "bands"],
                "values": [4, 4, 6, bands],
                "more": 0,
            })
        );
        let told = told(&spans, 2);
        assert_eq!(
            (&told["own"]["rows"], &told["own"]["more"]),
            (&serde_json::json!([1]), &3.into())
        );
    }

    #[test]
    fn clocks_are_listed_by_row() {
        let clock = |value| [TagRef { key: "blkkin.clock", value, origin: Origin::Span }];
        let (one, other) = (clock(ValueRef::Str("b1 40")), clock(ValueRef::Str("unknown")));
        let wrong = clock(ValueRef::Int(7));
        let spans = [
            SpanRef { tags: &other, ..span(3, 1, 12) },
            SpanRef { tags: &one, ..span(1, 0, 0) },
            SpanRef { tags: &wrong, ..span(2, 1, 1) },
        ];
        let expected = serde_json::json!({ "rows": [0, 2], "values": ["b1 40", "unknown"] });
        assert_eq!(told(&spans, 10)["clocks"], expected);
        assert_eq!(told(&spans[2..], 10).get("clocks"), None);
    }

    #[test]
    fn what_is_cut_is_counted() {
        let annotations = [AnnotationRef { time_ns: 1, value: "cut" }];
        let spans = [
            span(1, 0, 0),
            span(2, 1, 1),
            span(3, 1, 2),
            SpanRef { annotations: &annotations, name: "cut", ..span(4, 1, 3) },
        ];
        let told = told(&spans, 3);
        assert_eq!((&told["spans"], &told["shown"]), (&4.into(), &3.into()));
        assert_eq!(told["strings"], serde_json::json!(["a", "x"]));
        assert_eq!(told["annotations"]["more"], 1);
        assert_eq!(told["parents"], serde_json::json!([-1, 0, 0]));
    }
}
