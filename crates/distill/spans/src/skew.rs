//! Clocks of different hosts that disagree, put right as Zipkin does.
//!
//! A server cannot have started before its client. Where it seems so, all that it has said of this
//! call is moved: if it was shorter than the call, so that as much time is before it as after it,
//! and else to a microsecond after the call's start. So what is moved lies within the call, or
//! starts a microsecond after its start. No duration is changed. What the server has caused on
//! the same host moves along.

use crate::join::Draft;
use crate::texts::Texts;
use blkkin_model::Kind;

/// By how many nanoseconds each draft is to be moved. `order` has all of them, each behind the one
/// that caused it.
pub(crate) fn corrections(
    drafts: &[Draft],
    parents: &[Option<usize>],
    order: impl Iterator<Item = usize>,
    texts: Texts<'_>,
) -> Vec<i64> {
    let mut shifts = vec![0i64; drafts.len()];
    for at in order {
        let Some(parent) = parents[at] else { continue };
        let (server, client) = (&drafts[at], &drafts[parent]);
        let is_elsewhere = is_elsewhere(server, client, texts);
        let inherited = if is_elsewhere { 0 } else { shifts[parent] };
        shifts[at] = inherited;
        let is_call = server.kind == Kind::Server && client.kind == Kind::Client && is_elsewhere;
        if let (true, Some(start), Some(call)) = (is_call, server.start, client.start) {
            let call = i128::from(call) + i128::from(shifts[parent]);
            let start = i128::from(start) + i128::from(inherited);
            if start < call {
                let rest = client.duration.zip(server.duration);
                let rest = rest.and_then(|(call, serving)| call.checked_sub(serving));
                let behind = rest.map_or(1000, |rest| rest / 2);
                let shift = call + i128::from(behind) - start + i128::from(inherited);
                shifts[at] = shift.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            }
        }
    }
    shifts
}

/// Whether two spans are of different hosts.
fn is_elsewhere(a: &Draft, b: &Draft, texts: Texts<'_>) -> bool {
    match (a.address.ip, b.address.ip) {
        (Some(a), Some(b)) => a != b,
        _ => !texts.is_same(a.service, b.service),
    }
}
