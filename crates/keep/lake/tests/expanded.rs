//! Test of values that many spans share. Each value is stored once, and neither a batch nor a query
//! takes memory for a copy per span. The test is alone in its process, whose memory it measures.

use blkkin_lake::{Lake, Options};
use blkkin_store::{AcceptedBatch, Batch, Order, Policy, Query, SpanStore};
use blkkin_wire::{End, Format};
use std::sync::mpsc;

/// Maximum growth of the peak memory in one step, in bytes, in addition to the step's allowance for
/// the batches that it processes.
const GROWN_MAX: u64 = 32 << 20;

/// Field number of a string in OTLP's `AnyValue`. `BYTES` is the field number of a byte string.
const TEXT: u32 = 1;
const BYTES: u32 = 7;

/// Returns the peak memory of this process in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// Encodes a length-delimited protobuf field.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 8);
    for mut value in [u64::from(number << 3 | 2), content.len() as u64] {
        while value > 127 {
            out.push(value as u8 | 128);
            value >>= 7;
        }
        out.push(value as u8);
    }
    out.extend_from_slice(content);
    out
}

/// Encodes a batch with `spans` spans of one request in OTLP. The resource has `attributes`
/// attributes with values of `size` bytes each. `kind` is [`TEXT`] or [`BYTES`].
fn batch(trace: u128, spans: u64, kind: u32, attributes: u32, size: usize) -> Vec<u8> {
    let mut resource = Vec::new();
    for key in 0..attributes {
        let value = field(2, &field(kind, &vec![b'x'; size]));
        let pair = [field(1, format!("key {key}").as_bytes()), value].concat();
        resource.extend(field(1, &pair));
    }
    let mut all = Vec::new();
    for id in 1..=spans {
        let start = [&[7 << 3 | 1][..], &1_700_000_000_000_000_000u64.to_le_bytes()].concat();
        let ids = [field(1, &trace.to_be_bytes()), field(2, &id.to_be_bytes())].concat();
        all.extend(field(2, &[ids, start].concat()));
    }
    field(1, &[field(1, &resource), field(2, &all)].concat())
}

fn accept(lake: &Lake, bytes: &[u8]) -> AcceptedBatch {
    let (tell, told) = mpsc::channel();
    let batch = Batch { format: Format::OtlpProto, bytes, policy: Policy::EachSpan };
    lake.accept(batch, Box::new(move |outcome| drop(tell.send(outcome))));
    told.recv().expect("an answer").expect("taken")
}

#[test]
fn shared_values_are_stored_once() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (lake, _) = Lake::open(scratch.path(), Options::default()).expect("opened");
    let of_bytes = batch(1, 120, BYTES, 1, 1 << 20);
    let of_text = batch(2, 35, TEXT, 4, 1 << 20);
    let beyond = batch(3, 2000, TEXT, 4, 1 << 20);
    // This batch makes the journal and the store allocate their buffers.
    assert_eq!(accept(&lake, &batch(4, 100, TEXT, 4, 1)).outcome.accepted, 100);
    let mut last = peak();
    let mut grows_little = |what: &str, more: usize| {
        let now = peak().max(last);
        assert!(now - last <= GROWN_MAX + more as u64, "{what}: {} bytes", now - last);
        // Resets the peak to the current memory.
        std::fs::write("/proc/self/clear_refs", "5").expect("allowed");
        last = peak();
    };
    assert_eq!(accept(&lake, &of_bytes).outcome.accepted, 120);
    grows_little("bytes are taken", of_bytes.len());
    assert_eq!(accept(&lake, &of_text).outcome.accepted, 35);
    grows_little("text is taken", of_text.len());
    let ask = |what: &str| {
        for order in [Order::Newest, Order::Slowest] {
            let page = lake.search(&Query { order, ..Query::new(10) }).expect("found");
            let spans: Vec<u64> = page.requests.iter().map(|request| request.spans).collect();
            assert!(spans.contains(&120) && spans.contains(&35), "{what}: {spans:?}");
        }
    };
    ask("memory");
    grows_little("a search in memory", 0);
    lake.flush().expect("written");
    grows_little("a file is written", of_bytes.len() + of_text.len());
    // The requests are now partly in memory and partly in a file, so their spans must be merged.
    for trace in [1, 2] {
        accept(&lake, &batch(trace, 1, TEXT, 1, 1));
    }
    for order in [Order::Newest, Order::Slowest] {
        let page = lake.search(&Query { order, ..Query::new(10) }).expect("found");
        assert!(page.requests.iter().any(|request| request.spans == 121));
    }
    grows_little("a search in a file", of_bytes.len() + of_text.len());
    // A query for the long values of a tag takes memory only for the values in its result.
    let distinct: Vec<u8> =
        (0..48).flat_map(|number| batch(5, 1, TEXT, 1, (1 << 20) - number)).collect();
    assert_eq!(accept(&lake, &distinct).outcome.accepted, 48);
    // Growing columns take a multiple of the batch.
    grows_little("long values are taken", 4 * distinct.len());
    let values = lake.tag_values("key 0", 1000).expect("values");
    let bytes: usize = values.iter().map(String::len).sum();
    assert!(values.is_sorted() && (8 << 20..=16 << 20).contains(&bytes), "{bytes} bytes");
    assert_eq!(lake.tag_values("key 0", 2).expect("values"), values[..2]);
    grows_little("values of a tag", 0);
    let refused = accept(&lake, &beyond).outcome;
    grows_little("too much is refused", beyond.len());
    let End::Broken(refusal) = refused.end else { panic!("{refused:?}") };
    let bound = ((128 << 20) + 8 * beyond.len()).to_string();
    assert!(refusal.to_string().contains(&bound), "{refusal}");
}
