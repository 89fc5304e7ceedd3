//! Tests of the text and JSON that are printed for a synthetic collection.

use super::*;
use blkkin_ctf::schema::{Clock, ClockOrigin, EnvValue, Uuid, Version};
use blkkin_reader::LossKind;
use serde_json::Value;

const START: i64 = 1_795_246_371_000_000_000;
const MS: i64 = 1_000_000;

fn clock() -> Clock {
    Clock {
        name: "monotonic".into(),
        frequency: 2_400_000_000,
        offset_seconds: 86_400,
        origin: ClockOrigin::UnixEpoch,
        ..Clock::default()
    }
}

fn event(name: &str, log_level: Option<i64>, count: u64, last: i64) -> EventInfo {
    let span = Some((START, START + last * MS));
    EventInfo { name: Some(name.into()), log_level, count, span }
}

/// Returns a collection of two streams over a tenth of a second, with 5050 events at an increasing
/// rate, and with losses in one stream.
fn collection() -> Collection {
    let env = |key: &str, value: &str| (key.to_owned(), EnvValue::Str(value.into()));
    let mut timeline = Timeline::default();
    for step in 0..100 {
        (0..=step).for_each(|event| timeline.add(START + step * MS + event));
    }
    timeline.mark_lost(START + 70 * MS, START + 75 * MS);
    let busy = Counts {
        events: 5000,
        packets: 12,
        bytes: 12 * 4096,
        content_bytes: 40_000,
        events_lost: 1250,
        events_lost_unknown: 1,
        packets_lost: 2,
        packets_lost_unknown: 0,
        span: Some((START, START + 100 * MS - 1)),
    };
    let quiet = Counts { events: 50, packets: 1, bytes: 4096, content_bytes: 400, ..busy.clone() };
    let quiet = Counts { events_lost: 0, events_lost_unknown: 0, packets_lost: 0, ..quiet };
    let stream = |cpu: u64, counts| StreamInfo {
        trace: 0,
        file: format!("/traces/s/ust/channel_{cpu}"),
        class_id: 0,
        instance: Some(cpu),
        cpu: Some(cpu),
        counts,
    };
    let loss = |kind, count, from: i64, to: i64| LossInfo {
        from: Some(START + from * MS),
        to: Some(START + to * MS),
        stream: 1,
        kind,
        count,
    };
    Collection {
        traces: vec![TraceInfo {
            name: "host/s/ust\x1b[2J".into(),
            path: "/traces/s/ust".into(),
            uuid: Some(Uuid([0x11; 16])),
            version: Version::Ctf1,
            env: vec![
                env("hostname", "host"),
                env("tracer_name", "lttng-ust"),
                ("tracer_major".into(), EnvValue::Int(2)),
                ("tracer_minor".into(), EnvValue::Int(13)),
            ],
            clocks: vec![clock()],
        }],
        streams: vec![stream(0, quiet), stream(1, busy)],
        events: vec![
            event("zipkin:keyval", Some(4), 4000, 99),
            event("zipkin:timestamp", None, 1049, 98),
            event("sched:rare", Some(99), 1, 0),
        ],
        losses: vec![
            loss(LossKind::Events, Some(1250), 70, 75),
            loss(LossKind::Packets, Some(2), 80, 80),
            loss(LossKind::Events, None, 90, 99),
        ],
        losses_left_out: 7,
        timeline,
        ..Collection::default()
    }
}

#[track_caller]
fn check(collection: &Collection, ascii: bool, expected: &str) {
    let options = Options { ascii, utc: true, ..Options::default() };
    let text = draw(collection, &options);
    assert_eq!(text, expected.trim_start_matches('\n'), "\n{text}");
}

#[test]
fn text() {
    check(
        &collection(),
        false,
        r"
Trace  host/s/ust?[2J
  path      /traces/s/ust
  UUID      11111111-1111-1111-1111-111111111111
  format    CTF 1.8
  host      host
  tracer    lttng-ust 2.13
  clock     monotonic, 2.40 GHz, zero at 1970-01-02 00:00:00.000000000 UTC
  start     2026-11-21 07:32:51.000000000 UTC
  end       2026-11-21 07:32:51.099999999 UTC
  duration  100 ms

Total
  events    5,050 in 100 ms, 50.5 k events/s on average
  data      52.0 KiB in 13 packets, 8 B an event, 75.9 % in use
  lost      1,250 events (19.8 % of all), an unknown number of events at 1 place, 2 packets

Rate over time (events/s; times count from 2026-11-21 07:32:51.000000000 UTC)
     150 k ┤
           │                                                        ▁ ▃ ▄ ▆
           │                                                ▁▃ ▅ ▆ ██ █ █ █
           │                                       ▂▃ ▅ ▇ █ ██ █ █ ██ █ █ █
    75.0 k ┤                            ▁ ▂  ▅ ▇ █ ██ █ █ █ ██ █ █ ██▁█▂█▂█▃
           │                   ▁ ▃ ▄▆ ▇ █ █▅▄█ █ █▁██▂█▃█▄█▅██▆█▇█▇█████████
           │          ▂ ▃ ▅ ▆█ █▁█▂██▃█▄█▅████▇█████████████████████████████
           │▁▂▁▄▂▅▃▇█▄█▅█▆█▇████████████████████████████████████████████████
         0 └┬───────────┬────────────┬────────────┬────────────┬────────────
      lost                                              ×××××
            0 ms        20 ms        40 ms        60 ms        80 ms

Event types (3)
  name              severity  events   share                first        last
  zipkin:keyval     warning    4,000  79.2 %  ███████▉  +0.000 ms  +99.000 ms
  zipkin:timestamp             1,049  20.8 %  ██▏       +0.000 ms  +98.000 ms
  sched:rare        99             1  <0.1 %  ▏         +0.000 ms   +0.000 ms

Streams (2)
  file       CPU  events   share              events/s  packets      size    lost  lost packets
  channel_0    0      50   1.0 %  ▏                500        1  4.00 KiB
  channel_1    1   5,000  99.0 %  █████████▉    50.0 k       12  48.0 KiB  1,250+             2

Losses (10 places)
  file             from          to   during          lost
  channel_1  +70.000 ms  +75.000 ms  5.00 ms  1,250 events
  channel_1  +80.000 ms  +80.000 ms     0 ns     2 packets
  channel_1  +90.000 ms  +99.000 ms  9.00 ms   some events
  and 7 more places
",
    );
}

#[test]
fn text_in_ascii() {
    check(
        &collection(),
        true,
        r"
Trace  host/s/ust?[2J
  path      /traces/s/ust
  UUID      11111111-1111-1111-1111-111111111111
  format    CTF 1.8
  host      host
  tracer    lttng-ust 2.13
  clock     monotonic, 2.40 GHz, zero at 1970-01-02 00:00:00.000000000 UTC
  start     2026-11-21 07:32:51.000000000 UTC
  end       2026-11-21 07:32:51.099999999 UTC
  duration  100 ms

Total
  events    5,050 in 100 ms, 50.5 k events/s on average
  data      52.0 KiB in 13 packets, 8 B an event, 75.9 % in use
  lost      1,250 events (19.8 % of all), an unknown number of events at 1 place, 2 packets

Rate over time (events/s; times count from 2026-11-21 07:32:51.000000000 UTC)
     150 k |
           |                                                        . . : :
           |                                                .. : : ## # # #
           |                                       .. : # # ## # # ## # # #
    75.0 k |                            . .  : # # ## # # # ## # # ##.#.#.#.
           |                   . . :: # # #::# # #.##.#.#:#:##:#############
           |          . . : :# #.#.##.#:#:##################################
           |...:.:.##:#:#:##################################################
         0 ++-----------+------------+------------+------------+------------
      lost                                              xxxxx
            0 ms        20 ms        40 ms        60 ms        80 ms

Event types (3)
  name              severity  events   share                first        last
  zipkin:keyval     warning    4,000  79.2 %  ########  +0.000 ms  +99.000 ms
  zipkin:timestamp             1,049  20.8 %  ##.       +0.000 ms  +98.000 ms
  sched:rare        99             1  <0.1 %  .         +0.000 ms   +0.000 ms

Streams (2)
  file       CPU  events   share              events/s  packets      size    lost  lost packets
  channel_0    0      50   1.0 %  .                500        1  4.00 KiB
  channel_1    1   5,000  99.0 %  ##########    50.0 k       12  48.0 KiB  1,250+             2

Losses (10 places)
  file             from          to   during          lost
  channel_1  +70.000 ms  +75.000 ms  5.00 ms  1,250 events
  channel_1  +80.000 ms  +80.000 ms     0 ns     2 packets
  channel_1  +90.000 ms  +99.000 ms  9.00 ms   some events
  and 7 more places
",
    );
}

#[test]
fn text_of_nothing() {
    let mut nothing = collection();
    nothing.streams.clear();
    nothing.events.clear();
    nothing.losses.clear();
    check(
        &nothing,
        false,
        r"
Trace  host/s/ust?[2J
  path      /traces/s/ust
  UUID      11111111-1111-1111-1111-111111111111
  format    CTF 1.8
  host      host
  tracer    lttng-ust 2.13
  clock     monotonic, 2.40 GHz, zero at 1970-01-02 00:00:00.000000000 UTC

Total
  events    0
  data      0 B in 0 packets
  lost      nothing
",
    );
}

/// The JSON object has its keys in order and its values formatted. Of the values that are plain
/// copies, only some are compared.
#[test]
fn json() {
    let problem = blkkin_reader::Problem {
        path: "/traces/s/ust/channel_0".into(),
        offset: Some(4096),
        kind: blkkin_reader::ProblemKind::Truncated { missing: 5 },
    };
    let json = to_json(&collection(), &[problem]);
    let check = |pointer: &str, expected: &str| {
        let value = json.pointer(pointer).map(Value::to_string);
        assert_eq!(value.as_deref(), Some(expected), "{pointer}");
    };
    let keys = |pointer: &str, expected: &str| {
        let object = json.pointer(pointer).and_then(Value::as_object).expect(pointer);
        assert_eq!(object.keys().map(String::as_str).collect::<Vec<_>>().join(" "), expected);
    };
    const COUNTS: &str = "begin end events events_per_second packets bytes content_bytes \
                          bytes_per_event events_lost events_lost_unknown packets_lost \
                          packets_lost_unknown";
    keys(
        "",
        "schema selected traces total streams events histogram losses losses_left_out problems",
    );
    keys("/total", COUNTS);
    keys("/traces/0", &format!("trace name path uuid ctf_version env clocks {COUNTS}"));
    keys("/streams/1", &format!("stream trace stream_class stream_id cpu file {COUNTS}"));
    check("/schema", "\"blkkin.info.v1\"");
    check(
        "/traces/0/env",
        r#"{"hostname":"host","tracer_name":"lttng-ust","tracer_major":2,"tracer_minor":13}"#,
    );
    check(
        "/traces/0/clocks/0",
        r#"{"name":"monotonic","frequency":2400000000,"origin":"unix-epoch","zero":86400000000000}"#,
    );
    check("/total/events", "5050");
    check("/total/events_lost", "1250");
    check("/total/begin", "1795246371000000000");
    check("/total/bytes_per_event", "8.0");
    check(
        "/events/1",
        r#"{"name":"zipkin:timestamp","severity":null,"events":1049,"first":1795246371000000000,"last":1795246371098000000}"#,
    );
    check("/events/2/severity", "99");
    check(
        "/losses/0",
        r#"{"stream":1,"kind":"events","count":1250,"from":1795246371070000000,"to":1795246371075000000}"#,
    );
    check("/losses/2/count", "null");
    check("/losses_left_out", "7");
    keys("/histogram", "begin bucket_ns events lost");
    check("/histogram/bucket_ns", "524288");
    let buckets = json["histogram"]["events"].as_array().expect("an array");
    assert_eq!(buckets.iter().filter_map(Value::as_u64).sum::<u64>(), 5050);
    check(
        "/problems",
        r#"[{"file":"/traces/s/ust/channel_0","offset":4096,"message":"/traces/s/ust/channel_0: offset 4096: file ends 5 bytes before its last packet does"}]"#,
    );
}

#[test]
fn json_of_a_selection_has_no_size_of_events() {
    let json = to_json(&Collection { selected: true, ..collection() }, &[]);
    assert_eq!(json["total"]["bytes_per_event"], Value::Null);
    let nothing = to_json(&Collection::default(), &[]);
    assert_eq!(nothing["histogram"]["begin"], Value::Null);
    assert_eq!(nothing["total"]["begin"], Value::Null);
}

#[test]
fn colours_do_not_move_columns() {
    let plain = draw(&collection(), &Options { utc: true, ..Options::default() });
    let coloured = draw(&collection(), &Options { utc: true, color: true, ..Options::default() });
    let mut stripped = String::new();
    for (index, part) in coloured.split("\x1b[").enumerate() {
        stripped += if index == 0 { part } else { part.split_once('m').expect("a code").1 };
    }
    assert!(coloured.contains("\x1b[1;31m1,250"));
    assert_eq!(stripped, plain);
}

#[test]
fn tables_are_cut_unless_all_is_asked_for() {
    let mut many = collection();
    many.events = (0..50).map(|number| event(&format!("event{number}"), None, 1, 0)).collect();
    let check = |all, shown: bool| {
        let text = draw(&many, &Options { all, ..Options::default() });
        assert!(text.contains("  event19 "));
        assert_eq!(text.contains("  event20 "), shown);
        assert_eq!(text.contains("  and 30 more event types\n"), !shown);
    };
    check(false, false);
    check(true, true);
}

#[test]
fn a_selection_says_so() {
    let text = draw(&Collection { selected: true, ..collection() }, &Options::default());
    assert!(text.contains("\nTotal (of the selected events)\n"));
    assert!(
        text.contains("52.0 KiB in 13 packets, 75.9 % in use, with the other events in them\n")
    );
}
