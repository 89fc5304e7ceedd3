//! Losses counted by an agent, in words and as JSON.

use crate::exit::{Exit, warn};
use crate::output::plural;
use blkkin_control::{Cause, Loss, Reply};
use serde_json::{Value, json};

/// Returns the losses among the items of the agent's reply.
pub(crate) fn from_replies(replies: &[Reply]) -> Vec<Loss> {
    let loss = |reply: &Reply| match reply {
        Reply::Loss(loss) => Some(loss.clone()),
        _ => None,
    };
    replies.iter().filter_map(loss).collect()
}

/// Returns the exit status of a successful command: [`Exit::Lost`] if there are losses.
pub(crate) fn exit(losses: &[Loss]) -> Exit {
    if losses.is_empty() { Exit::Ok } else { Exit::Lost }
}

/// Prints a warning for each loss, with amount and cause.
pub(crate) fn report(losses: &[Loss]) {
    losses.iter().for_each(|loss| warn(&format!("lost: {}", line(loss))));
}

/// Describes the amount and the cause of a loss in words.
pub(crate) fn line(loss: &Loss) -> String {
    format!("{}: {}", amount(loss), describe_cause(loss))
}

/// Describes the amount of a loss in words: events, packets, and uncounted losses. Counts of 0 are
/// omitted.
pub(crate) fn amount(loss: &Loss) -> String {
    let Loss { events, packets, uncounted, .. } = *loss;
    let unknown = match loss.cause {
        Cause::CutOff | Cause::AgentAway | Cause::Quota => {
            format!("an unknown number of events of {}", plural(uncounted, "program"))
        }
        Cause::Attach => format!("all events of {}", plural(uncounted, "program")),
        Cause::Probe => format!("events of {}", plural(uncounted, "probe")),
        Cause::EventTypes => format!("all events of {}", plural(uncounted, "event type")),
        _ => format!("an unknown number of events in {}", plural(uncounted, "ring")),
    };
    let parts = [
        (events, plural(events, "event")),
        (packets, plural(packets, "packet")),
        (uncounted, unknown),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect();
    parts.join(", ")
}

fn describe_cause(loss: &Loss) -> String {
    let reason = loss.reason.as_deref();
    let with = |words: &str| match reason {
        Some(reason) => format!("{words}: {reason}"),
        None => words.to_owned(),
    };
    match loss.cause {
        Cause::RingFull => {
            "programs recorded faster than the agent reads (larger rings: --subbuf-size, \
             --num-subbuf; or have programs wait: --blocking)"
                .into()
        }
        Cause::Output => with("the trace could not be written"),
        Cause::Size => reason.unwrap_or("the session has reached its bound on disk").into(),
        Cause::AgentAway => "no agent read the rings, which were full or given up".into(),
        Cause::Quota => with("a quota was used up"),
        Cause::Attach => with("no rings could be given"),
        Cause::Probe => with("the kernel did not record them"),
        Cause::EventTypes => "too many event types, or not what types may be".into(),
        Cause::Damaged => "the program wrote invalid data into its ring".into(),
        Cause::Overwritten => "they were overwritten before they were read".into(),
        Cause::CutOff => "the program and its agent ended at the same time".into(),
    }
}

/// Converts a loss to JSON, without its session.
pub(crate) fn to_json(loss: &Loss) -> Value {
    json!({
        "cause": loss.cause.word(),
        "events": loss.events,
        "packets": loss.packets,
        "uncounted": loss.uncounted,
        "reason": loss.reason,
    })
}

/// Converts losses to a JSON array.
pub(crate) fn all_to_json(losses: &[Loss]) -> Value {
    losses.iter().map(to_json).collect()
}
