//! Fuzzes the client of a relay's sessions. The input is all that the relay sends: the client
//! takes as much for each request as the reply has, and a follower reads what it receives. Neither
//! panics, the promised time never decreases, and the requests are bounded.
#![no_main]

use blkkin_live::{Client, Goal, Late, Seek, SessionName, Step};
use blkkin_reader::{Consumer, Event, Follower, LiveSet, Loss, Source, Stream, TimeBase, Trace};
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;
use std::time::Duration;

/// Maximum number of requests and pauses.
const STEPS_MAX: usize = 2000;

struct Ignore;

impl Consumer for Ignore {
    fn event(&mut self, _: &mut Event<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

fuzz_target!(|data: &[u8]| {
    let set = LiveSet::default();
    let name = SessionName { host: "node".to_owned(), session: "web".to_owned() };
    let mut client = Client::new(Goal::Read(name, Seek::Beginning), TimeBase::Relay, set.clone());
    let mut follower = Follower::new(&[Source::LiveSet(set)]);
    let mut late = Late::new(Ignore, TimeBase::Relay);
    let mut rest = data.iter();
    let mut now = Duration::ZERO;
    let mut end_ns = i64::MIN;
    for _ in 0..STEPS_MAX + data.len() {
        match client.next(now) {
            Ok(Step::Send(_)) => {}
            Ok(Step::Receive) => {
                // A byte at a time: the client has to find the end of each reply.
                let Some(byte) = rest.next() else { break };
                if client.receive(now, &[*byte]).is_err() {
                    break;
                }
                continue;
            }
            Ok(Step::Wait(until)) => now = until.max(now + Duration::from_micros(100)),
            Ok(Step::Done) | Err(_) => break,
        }
        assert!(client.complete_until() >= end_ns);
        end_ns = client.complete_until();
        follower.refresh(false);
        follower.deliver_until(end_ns, |reading| reading, &mut late);
        client.count_round();
    }
});
