//! Tables that users can query, with their documentation. Each table is a view of the span files.
//! Start at [`TABLES`].

/// Table that users can query, with its documentation.
#[derive(Debug)]
pub struct Table {
    /// Name of the table in SQL.
    pub name: &'static str,
    /// Meaning of a row, for the documentation.
    pub meaning: &'static str,
    /// Columns of the table, in order.
    pub columns: &'static [Column],
    /// SQL query that defines the view.
    pub(crate) sql: &'static str,
}

/// Column of a table, with its documentation.
#[derive(Debug)]
pub struct Column {
    /// Name of the column in SQL.
    pub name: &'static str,
    /// Type of the values: text, int, bool, time, or map.
    pub kind: &'static str,
    /// Description of the values.
    pub meaning: &'static str,
}

const fn column(name: &'static str, kind: &'static str, meaning: &'static str) -> Column {
    Column { name, kind, meaning }
}

const TRACE_ID: Column = column("trace_id", "text", "the request: hexadecimal, 16 or 32 digits");
const SPAN_ID: Column = column("span_id", "text", "the span: hexadecimal, 16 digits");
const SERVICE: Column = column("service", "text", "who recorded the span");
const NAME: Column = column("name", "text", "what the span did");
const KIND: Column =
    column("kind", "text", "client, server, producer, consumer, internal; or NULL");
const START_TIME: Column = column("start_time", "time", "when the span started, in UTC");
const DURATION: Column = column("duration_ns", "int", "how long the span took, in nanoseconds");
const ERROR: Column = column("error", "bool", "whether the span failed");

/// All tables that users can query.
pub const TABLES: [Table; 8] = [
    Table {
        name: "spans",
        meaning: "a span: what a service did for a request, from when to when",
        columns: &[
            TRACE_ID,
            SPAN_ID,
            column("parent_id", "text", "the span that caused it; NULL at a request's root"),
            SERVICE,
            NAME,
            KIND,
            START_TIME,
            DURATION,
            ERROR,
            column("status", "text", "ok or error, if that was said; or NULL"),
            column("remote_service", "text", "who was at the other end"),
            column("local_ipv4", "text", "address of who recorded it"),
            column("local_ipv6", "text", "address of who recorded it"),
            column("local_port", "int", "port of who recorded it"),
            column("remote_ipv4", "text", "address of the other end"),
            column("remote_ipv6", "text", "address of the other end"),
            column("remote_port", "int", "port of the other end"),
            column("debug", "bool", "whether it was to be kept whatever sampling says"),
            column("shared", "bool", "whether the client's span has the same id"),
            column(
                "tags",
                "map",
                "its own tags as text; tags['http.path'] is NULL where there is none",
            ),
            column("resource_tags", "map", "those of the process or machine that recorded it"),
            column("scope_tags", "map", "those of the library that recorded it"),
        ],
        sql: "SELECT trace_id, span_id, parent_id, service, name, kind, start_time, duration_ns, error, \
              status, remote_service, local_ipv4, local_ipv6, local_port, remote_ipv4, remote_ipv6, \
              remote_port, debug, shared, tags, resource_tags, scope_tags FROM files",
    },
    Table {
        name: "annotations",
        meaning: "something that happened within a span",
        columns: &[
            TRACE_ID,
            SPAN_ID,
            column("time", "time", "when it happened, in UTC"),
            column("since_start_ns", "int", "how long after the span's start, in nanoseconds"),
            column("value", "text", "what happened"),
            column("event", "text", "the name of the OTLP event that it is, or what happened"),
            column(
                "attributes",
                "map",
                "the event's attributes as text, such as attributes['exception.type']",
            ),
            SERVICE,
            NAME,
            KIND,
            START_TIME,
            DURATION,
            ERROR,
        ],
        sql: "SELECT trace_id, span_id, said['time'] AS time, \
              CAST(said['time'] AS BIGINT) - CAST(start_time AS BIGINT) AS since_start_ns, \
              said['value'] AS value, event_name(said['value']) AS event, \
              event_attributes(said['value']) AS attributes, \
              service, name, kind, start_time, duration_ns, error \
              FROM (SELECT *, unnest(annotations) AS said FROM files)",
    },
    Table {
        name: "tags",
        meaning: "a key and a value that were said of a span, its process, or its library",
        columns: &[
            TRACE_ID,
            SPAN_ID,
            column("key", "text", "such as http.path"),
            column("value", "text", "as text, whatever its type; bytes are hexadecimal"),
            column("type", "text", "what it was: text, int, bool, double, bytes"),
            column("origin", "text", "of what it was said: span, resource, scope"),
            SERVICE,
            NAME,
            KIND,
            START_TIME,
            DURATION,
            ERROR,
        ],
        sql: "SELECT trace_id, span_id, said['key'] AS key, said['value'] AS value, \
              said['type'] AS type, said['origin'] AS origin, \
              service, name, kind, start_time, duration_ns, error \
              FROM (SELECT *, unnest(span_tags(tags, resource_tags, scope_tags, tag_layout)) AS said \
              FROM files)",
    },
    Table {
        name: "links",
        meaning: "a link of a span to another one that did not call it, such as that of a message",
        columns: &[
            TRACE_ID,
            SPAN_ID,
            column("linked_trace_id", "text", "the request that it leads to"),
            column("linked_span_id", "text", "the span that it leads to"),
            column("trace_state", "text", "W3C's tracestate"),
            column("attributes", "map", "the link's attributes as text"),
            SERVICE,
            NAME,
            KIND,
            START_TIME,
            DURATION,
            ERROR,
        ],
        sql: "SELECT trace_id, span_id, said['trace_id'] AS linked_trace_id, \
              said['span_id'] AS linked_span_id, said['trace_state'] AS trace_state, \
              said['attributes'] AS attributes, \
              service, name, kind, start_time, duration_ns, error \
              FROM (SELECT *, unnest(span_links(tags)) AS said FROM files)",
    },
    Table {
        name: "own_time",
        meaning: "on what a span spent the part of its duration in which no child ran, by kind",
        columns: &[
            TRACE_ID,
            SPAN_ID,
            column("kind", "text", "running, runnable, disk, lock, network, sleep, fault, …"),
            column("ns", "int", "how long, in nanoseconds"),
            SERVICE,
            NAME,
            START_TIME,
            DURATION,
            ERROR,
        ],
        sql: "SELECT trace_id, span_id, said['kind'] AS kind, said['ns'] AS ns, \
              service, name, start_time, duration_ns, error \
              FROM (SELECT *, unnest(own_times(tags)) AS said FROM files)",
    },
    Table {
        name: "disk_time",
        meaning: "the disk requests of a span, summed up for each device",
        columns: &[
            TRACE_ID,
            SPAN_ID,
            column("device", "text", "such as vda"),
            column("queued_ns", "int", "until they were issued to the device, in nanoseconds"),
            column("served_ns", "int", "from then until they completed, in nanoseconds"),
            SERVICE,
            NAME,
            START_TIME,
            DURATION,
            ERROR,
        ],
        sql: "SELECT trace_id, span_id, said['device'] AS device, \
              said['queued_ns'] AS queued_ns, said['served_ns'] AS served_ns, \
              service, name, start_time, duration_ns, error \
              FROM (SELECT *, unnest(disk_times(tags)) AS said FROM files)",
    },
    Table {
        name: "requests",
        meaning: "a request: what its spans have in common (all of them are gone through, so select some)",
        columns: &[
            TRACE_ID,
            column("start_time", "time", "when its first span started, in UTC"),
            column("duration_ns", "int", "from the first start to the last end, in nanoseconds"),
            column("spans", "int", "how many spans it has"),
            column("services", "int", "how many services recorded them"),
            column("errors", "int", "how many of its spans failed"),
            column("service", "text", "who recorded its root"),
            column("name", "text", "what its root did"),
        ],
        // The subquery renames the columns. Otherwise an unqualified name that equals a result
        // column would refer to the result column.
        sql: "SELECT trace_id, min(started) AS start_time, \
              max(started_ns + coalesce(took_ns, 0)) - min(started_ns) AS duration_ns, \
              count(*) AS spans, count(DISTINCT who) AS services, \
              count(*) FILTER (WHERE failed) AS errors, \
              first_value(who ORDER BY started) FILTER (WHERE is_root) AS service, \
              first_value(what ORDER BY started) FILTER (WHERE is_root) AS name \
              FROM (SELECT trace_id, start_time AS started, CAST(start_time AS BIGINT) AS started_ns, \
              duration_ns AS took_ns, service AS who, name AS what, error AS failed, \
              parent_id IS NULL AS is_root FROM files) GROUP BY trace_id",
    },
    Table {
        name: "services",
        meaning: "a service, by what it recorded",
        columns: &[
            SERVICE,
            column("spans", "int", "how many spans it recorded"),
            column("errors", "int", "how many of them failed"),
            column("first_time", "time", "when the first of them started, in UTC"),
            column("last_time", "time", "when the last of them started, in UTC"),
        ],
        sql: "SELECT service, count(*) AS spans, count(*) FILTER (WHERE error) AS errors, \
              min(start_time) AS first_time, max(start_time) AS last_time FROM files GROUP BY service",
    },
];

pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    TABLES.iter().map(|table| table.name)
}

/// Example of a query, for the documentation.
#[derive(Debug)]
pub struct Example {
    /// Question that the query answers, in plain words.
    pub question: &'static str,
    /// Query in SQL.
    pub sql: &'static str,
}

/// Example queries, which `blkkin sql --help` shows.
pub const EXAMPLES: [Example; 8] = [
    Example {
        question: "the slowest requests",
        sql: "SELECT trace_id, service, name, start_time, duration_ns FROM spans\n\
              WHERE parent_id IS NULL ORDER BY duration_ns DESC NULLS LAST LIMIT 10",
    },
    Example {
        question: "how long things take, by service and name",
        sql: "SELECT service, name, count(*) AS spans, median(duration_ns) AS p50_ns,\n\
              approx_percentile_cont(duration_ns, 0.99) AS p99_ns\n\
              FROM spans GROUP BY service, name ORDER BY p99_ns DESC NULLS LAST",
    },
    Example {
        question: "errors, by host",
        sql: "SELECT value AS host, count(*) AS spans, count(*) FILTER (WHERE error) AS errors\n\
              FROM tags WHERE key = 'host' GROUP BY value ORDER BY errors DESC, host",
    },
    Example {
        question: "the requests of a volume",
        sql: "SELECT trace_id, name, start_time, duration_ns FROM spans\n\
              WHERE tags['volume'] = 'vol-7' ORDER BY start_time",
    },
    Example {
        question: "what happened within the spans of a service, between two times",
        sql: "SELECT trace_id, name, value, since_start_ns FROM annotations WHERE service = 'osd.3'\n\
              AND time BETWEEN '2026-11-21T12:00:00Z' AND '2026-11-21T12:01:00Z' ORDER BY time",
    },
    Example {
        question: "exceptions, by their type",
        sql: "SELECT attributes['exception.type'] AS type, service, count(*) AS times FROM annotations\n\
              WHERE event = 'exception' GROUP BY type, service ORDER BY times DESC",
    },
    Example {
        question: "on what the services spend their own time",
        sql: "SELECT service, kind, count(*) AS spans, sum(ns) AS total_ns FROM own_time\n\
              GROUP BY service, kind ORDER BY total_ns DESC",
    },
    Example {
        question: "calls per minute",
        sql: "SELECT date_trunc('minute', start_time) AS minute, count(*) AS calls FROM spans\n\
              WHERE kind = 'server' AND service = 'osd.3' GROUP BY minute ORDER BY minute",
    },
];
