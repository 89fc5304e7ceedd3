//! Texts that describe the anomalies of requests and spans.

use crate::info::units::{grouped, plural};
use blkkin_spans::{Completion, Oddity, Request, Step};

/// Returns texts for the eviction of a request, for its events that were dropped because of a
/// limit, and for each anomaly with its count.
pub(super) fn request_remarks(request: &Request<'_>) -> Vec<String> {
    let mut words = Vec::new();
    if request.completion == Completion::Evicted {
        words.push("incomplete: others needed the room".to_owned());
    }
    if request.events_left_out > 0 {
        words.push(format!("too large: {} left out", plural(request.events_left_out, "event")));
    }
    words.extend(request.oddities.iter().map(|(oddity, count)| counted(oddity, count)));
    words
}

fn counted(oddity: Oddity, count: u64) -> String {
    let spans = || plural(count, "span");
    let number = || grouped(count);
    match oddity {
        Oddity::MissingParent => format!("{} whose parent is missing", spans()),
        Oddity::OtherRoot => plural(count, "more root"),
        Oddity::Cycle => format!("{} among parents", plural(count, "circle")),
        Oddity::OtherParent => format!("{} of several parents", spans()),
        Oddity::SameId => format!("{} with another's id", spans()),
        Oddity::Unfinished => format!("{} unfinished", number()),
        Oddity::EndLost => format!("{} whose end may be lost", spans()),
        Oddity::StartLost => format!("{} whose start may be lost", spans()),
        Oddity::Repeated => format!("{} begun or ended again", spans()),
        Oddity::Backwards => format!("{} with an end before the start", spans()),
        Oddity::BeforeParent => format!("{} before the parent (clocks?)", spans()),
        Oddity::Moved => format!("{} moved (clocks)", spans()),
        Oddity::Duplicate => format!("{} twice", plural(count, "event")),
        Oddity::ManyServices => format!("{} of too many services", spans()),
        Oddity::Ambiguous => format!("{} of this request or another", spans()),
        Oddity::Late => "goes on with one shown before".to_owned(),
    }
}

/// Returns a short text for each anomaly of a span.
pub(super) fn step_remarks(step: &Step<'_>) -> Vec<String> {
    let brief = |oddity| match oddity {
        Oddity::MissingParent => match step.missing_parent() {
            Some(parent) => format!("parent {parent} missing"),
            None => "parent missing".to_owned(),
        },
        Oddity::OtherRoot => "another root".to_owned(),
        Oddity::Cycle => "a circle".to_owned(),
        Oddity::OtherParent => "several parents".to_owned(),
        Oddity::SameId => "same id".to_owned(),
        Oddity::Unfinished => "unfinished".to_owned(),
        Oddity::EndLost => "end lost?".to_owned(),
        Oddity::StartLost => "start lost?".to_owned(),
        Oddity::Repeated => "again".to_owned(),
        Oddity::Backwards => "ends before its start".to_owned(),
        Oddity::BeforeParent => "before its parent".to_owned(),
        Oddity::Moved => "moved".to_owned(),
        Oddity::Duplicate => "twice".to_owned(),
        Oddity::ManyServices => "many services".to_owned(),
        Oddity::Ambiguous => "or another request's".to_owned(),
        Oddity::Late => "late".to_owned(),
    };
    step.oddities().map(brief).collect()
}
