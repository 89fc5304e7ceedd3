//! Conformance tests of the store with all spans in memory, with a flush after each batch, with
//! merged files, and with column scans. Also a test of sampling in [`SpanStore::difference`].

use blkkin_journal::testing::SimulatedDisk;
use blkkin_lake::{Lake, Options, Retention};
use blkkin_store::SpanStore;
use blkkin_store::testing::conformance::Subject;
use std::sync::Arc;

fn subject(options: Options) -> Subject {
    let in_files = options.file_spans == 1;
    let retention = Retention { age: None, bytes: None };
    let journal = blkkin_journal::Options { segment_bytes: 16 << 20, ..options.journal };
    let options = Options { retention, journal, ..options };
    let lake = Lake::open_on(Arc::new(SimulatedDisk::new(1)), options).expect("opened").0;
    let lake = Arc::new(lake);
    let store: Arc<dyn SpanStore> = lake.clone();
    let subject = Subject::settling(store, move || {
        if in_files {
            lake.flush().expect("written");
        }
        lake.refresh_calls();
    });
    if in_files { subject.measuring_parts() } else { subject }
}

mod in_memory {
    fn make() -> super::Subject {
        super::subject(super::Options::default())
    }

    blkkin_store::conformance_tests!(make);
}

/// Tests with spans in files and without memory for the ledger, so that calls are read from each
/// file.
mod in_files {
    fn make() -> super::Subject {
        let options = super::Options { links_bytes_max: 0, ..super::Options::default() };
        super::subject(super::Options { file_spans: 1, merge_files: usize::MAX, ..options })
    }

    blkkin_store::conformance_tests!(make);
}

mod in_files_that_are_merged {
    fn make() -> super::Subject {
        let options = super::Options::default();
        super::subject(super::Options { file_spans: 1, merge_files: 2, ..options })
    }

    blkkin_store::conformance_tests!(make);
}

/// Tests with spans in files, where a search with conditions scans the columns of a file before it
/// reads the first request.
mod in_files_by_columns {
    fn make() -> super::Subject {
        let options = super::Options { fruitless_reads_max: 0, ..super::Options::default() };
        super::subject(super::Options { file_spans: 1, merge_files: 4, ..options })
    }

    blkkin_store::conformance_tests!(make);
}

/// The spans outside of a box are sampled, and a name has about the same share in the sample as
/// among all spans outside. If a sample would be too small, all spans outside are counted.
#[test]
fn spans_outside_a_box_are_sampled() {
    use blkkin_model::{EndpointRef, SpanId, SpanRef, TraceId};
    use blkkin_store::{Area, Batch, Condition, Policy, TextField, TextTest, Topic, Window};
    const SPANS: u64 = 60_000;
    let disk = Arc::new(SimulatedDisk::new(1));
    let retention = Retention { age: None, bytes: None };
    let options =
        Options { outside_sample_spans: 2000, file_spans: 20_000, retention, ..Options::default() };
    let lake = Lake::open_on(disk, options).expect("opened").0;
    for first in (1..=SPANS).step_by(10_000) {
        let span = |number: u64| {
            let mixed = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let trace_id = TraceId::from_number(mixed).expect("not 0");
            let id = SpanId::from_number(number).expect("not 0");
            let service = if number.is_multiple_of(1000) { "rare" } else { "often" };
            SpanRef {
                name: if number.is_multiple_of(4) { "write" } else { "read" },
                start_ns: Some(1_700_000_000_000_000_000 + number * 1000),
                duration_ns: Some(if number % 100 == 1 { 5_000_000 } else { 100_000 }),
                local: EndpointRef { service, ..EndpointRef::NONE },
                ..SpanRef::new(trace_id, id)
            }
        };
        let mut bytes = Vec::new();
        let format = blkkin_wire::Format::ZipkinProto;
        blkkin_wire::encode(format, (first..first + 10_000).map(span), &mut bytes);
        let (tell, told) = std::sync::mpsc::channel();
        let batch = Batch { format, bytes: &bytes, policy: Policy::Whole };
        lake.accept(batch, Box::new(move |outcome| drop(tell.send(outcome))));
        told.recv().expect("an answer").expect("taken");
    }
    lake.flush().expect("written");
    let area = Area { window: Window::ALL, least_ns: 1_000_000, greatest_ns: u64::MAX };
    let all = Condition::All(Vec::new());
    let some = lake.difference(Window::ALL, &all, &area).expect("an answer");
    assert_eq!((some.inside, some.outside_one_in), (SPANS / 100, 30));
    assert!((500..8000).contains(&some.outside), "{} of {SPANS}", some.outside);
    let writes = some.values.iter().find(|it| it.topic == Topic::Name && it.value == "write");
    let share = writes.expect("some write").outside as f64 / some.outside as f64;
    assert!((share - 0.25).abs() < 0.05, "{share}");
    // Few spans match, so all of them are counted.
    let rare = Condition::Text(TextField::Service, TextTest::Is("rare".to_owned()));
    let few = lake.difference(Window::ALL, &rare, &area).expect("an answer");
    assert_eq!((few.inside, few.outside, few.outside_one_in), (0, SPANS / 1000, 1));
}
