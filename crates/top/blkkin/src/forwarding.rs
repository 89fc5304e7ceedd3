//! Text and JSON about sessions that are forwarded to relays.

use crate::output::plural;
use crate::values::bytes_text;
use blkkin_control::Forwarding;
use serde_json::{Value, json};

/// Describes the forwarding of a session in one line.
pub(crate) fn line(forwarding: &Forwarding) -> String {
    let Forwarding { session, destination, progress, has_ended } = forwarding;
    let which = if *has_ended { "destroyed session" } else { "session" };
    let sent = match progress.packets {
        0 => "nothing sent yet".to_owned(),
        packets => format!("{}, {} sent", plural(packets, "packet"), bytes_text(progress.bytes)),
    };
    let at = match (progress.is_connected, &*progress.path) {
        (true, path) => format!(", to {path} there"),
        (false, _) => ", not connected".to_owned(),
    };
    let trouble = progress.trouble.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    format!("{which} {session} goes to {}: {sent}{at}{trouble}\n", destination.target)
}

pub(crate) fn to_json(forwarding: &Forwarding) -> Value {
    let Forwarding { session, destination, progress, has_ended } = forwarding;
    json!({
        "session": session,
        "destroyed": has_ended,
        "target": destination.target,
        "keeps_files": !destination.is_spool,
        "drops": if destination.drops_oldest { "oldest" } else { "newest" },
        "connected": progress.is_connected,
        "path": (!progress.path.is_empty()).then_some(&progress.path),
        "packets": progress.packets,
        "bytes": progress.bytes,
        "trouble": progress.trouble,
    })
}
