//! The store passes the tests that every store must pass: with all in memory, in files as soon as it comes, and in files
//! that are merged.

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
            lake.write_files().expect("written");
        }
        lake.link();
    });
    if in_files { subject.measuring_parts() } else { subject }
}

mod in_memory {
    fn make() -> super::Subject {
        super::subject(super::Options::default())
    }

    blkkin_store::conformance_tests!(make);
}

/// With no room for the calls of all files, so that each file is asked.
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

/// With columns read before any request is.
mod in_files_by_columns {
    fn make() -> super::Subject {
        let options = super::Options { in_vain_max: 0, ..super::Options::default() };
        super::subject(super::Options { file_spans: 1, merge_files: 4, ..options })
    }

    blkkin_store::conformance_tests!(make);
}
