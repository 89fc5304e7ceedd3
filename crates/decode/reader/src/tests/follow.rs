//! Tests of traces that grow while they are followed. Each step changes files, and the next round
//! delivers the packets that have become whole.

use crate::follow::Follower;
use crate::testing::{TraceFolder, Transcript, check_lines};

/// Growing trace, and the follower that reads it.
struct Follow {
    folder: TraceFolder,
    follower: Follower,
}

impl Follow {
    fn new(description: &str) -> Follow {
        let folder = TraceFolder::new(description);
        let follower = Follower::new(&[folder.source()]);
        Follow { folder, follower }
    }

    /// Runs the next round, and checks its transcript.
    #[track_caller]
    fn check(&mut self, expected: &str) {
        self.follower.refresh(true);
        let mut transcript = Transcript::default();
        let stats = self.follower.deliver(|reading| reading, &mut transcript);
        check_lines(&transcript.finish(&self.folder, &stats), expected, "round");
    }

    /// Runs the next round up to `end_ns`, and checks its transcript.
    #[track_caller]
    fn check_until(&mut self, end_ns: i64, expected: &str) {
        self.follower.refresh(true);
        let mut transcript = Transcript::default();
        let stats = self.follower.deliver_until(end_ns, |reading| reading, &mut transcript);
        check_lines(&transcript.finish(&self.folder, &stats), expected, "round");
    }
}

#[test]
fn a_round_delivers_new_packets_in_order() {
    let mut follow = Follow::new("a 0.1 10..20 | 10 e 1, 20 e 2 \n b 0.2 10..20 | 15 e 3");
    follow.check("10 e1 0.1 \n 15 e3 0.2 \n 20 e2 0.1");
    follow.check("");
    follow.folder.append("b 0.2 30..40 | 30 e 4, 40 e 5 \n a 0.1 30..40 | 35 e 6");
    follow.check("30 e4 0.2 \n 35 e6 0.1 \n 40 e5 0.2");
    follow.check("");
}

#[test]
fn a_packet_is_delivered_when_it_is_whole() {
    let mut follow = Follow::new("a 0.1 10..20 | 10 e 1");
    follow.check("10 e1 0.1");
    let (file, packet) = follow.folder.packet("a 0.1 30..40 -2 | 30 e 2, 40 e 3");
    // The writes end within the packet's header, within its context, and one byte before its end.
    let mut start = 0;
    for end in [5, packet.len() / 2, packet.len() - 1] {
        follow.folder.append_bytes(&file, &packet[start..end]);
        follow.check("");
        start = end;
    }
    follow.folder.append_bytes(&file, &packet[start..]);
    follow.check("lost 2 events 20..40 0.1 \n 30 e2 0.1 \n 40 e3 0.1");
}

#[test]
fn new_files_and_streams_are_found() {
    let mut follow = Follow::new("");
    follow.check("");
    follow.folder.append("a 0.1 10..20 | 10 e 1");
    follow.check("10 e1 0.1");
    // A new stream, the next file of the first one, and a second trace.
    follow.folder.append(
        "b 0.2 25..30     | 25 e 2
         c 0.1 30..40     | 40 e 3
         t/a 1.3 26..30   | 26 e 4",
    );
    follow.check("25 e2 0.2 \n 26 e4 1.3 \n 40 e3 0.1");
    follow.folder.append("c 0.1 50..60 | 50 e 5 \n b 0.2 50..60 | 55 e 6");
    follow.check("50 e5 0.1 \n 55 e6 0.2");
    // Packets of a new stream in a file of another one.
    follow.folder.append("b 1.7 70..80 | 70 e 7");
    follow.check("");
    follow.check("70 e7 1.7");
}

#[test]
fn events_wait_for_their_metadata() {
    let mut follow = Follow::new("a 0.1 10..20 | 10 e 1, 15 g 2, 20 e 3");
    follow.check("10 e1 0.1");
    let problems = follow.follower.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    follow.folder.append("a 0.1 30..40 | 30 e 4 \n b 0.2 30..40 | 35 e 5");
    follow.check("35 e5 0.2");
    follow.folder.write_metadata("", true);
    follow.check("15 g2 0.1 \n 20 e3 0.1 \n 30 e4 0.1");
    assert_eq!(follow.follower.problems(), []);
}

/// A delayed packet is delivered in order if it appears before the rounds reach its begin.
#[test]
fn a_round_may_end_before_the_last_events() {
    let mut follow = Follow::new("a 0.1 10..20 | 10 e 1, 20 e 2");
    follow.check_until(15, "10 e1 0.1");
    follow.folder.append("b 0.2 15..30 | 16 f 3, 30 f 4");
    follow.check_until(20, "16 f3 0.2");
    follow.folder.append("a 0.1 20..40 | 25 e 5, 35 e 6");
    follow.check_until(30, "20 e2 0.1 \n 25 e5 0.1");
    follow.check("30 f4 0.2 \n 35 e6 0.1");
}

/// A packet that was deferred to newer metadata is kept if the sources are opened twice before the
/// next round.
#[test]
fn a_deferred_packet_outlasts_two_openings() {
    let mut follow = Follow::new("a 0.1 10..20 | 10 e 1, 15 g 2, 20 e 3");
    follow.check("10 e1 0.1");
    follow.folder.write_metadata("", true);
    assert!(follow.follower.refresh(true));
    follow.folder.append("b 0.2 30..40 | 35 e 4");
    follow.check("15 g2 0.1 \n 20 e3 0.1 \n 35 e4 0.2");
}

/// Removed files are closed, so that their space on the disk becomes free.
#[test]
fn removed_files_are_closed() {
    let mut follow = Follow::new("t/a 0.1 10..20 | 10 e 1 \n u/b 1.2 30..40 | 35 e 2");
    follow.check("10 e1 0.1 \n 35 e2 1.2");
    let path = follow.folder.path().join("t");
    let open_files = || {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.starts_with(&path)).count()
    };
    assert_eq!(open_files(), 1);
    std::fs::remove_dir_all(&path).unwrap();
    follow.check("");
    assert_eq!(open_files(), 0);
    follow.folder.append("u/b 1.2 50..60 | 50 e 3");
    follow.check("50 e3 1.2");
}
