//! Correction of clock skew between hosts, by Zipkin's rule.
//!
//! A server cannot start before its client. If the client is on another host, a server's span that
//! starts earlier is shifted: to the middle of the call if both durations are known and the span is
//! no longer than the call, else to one microsecond after the call's start. Durations do not
//! change. Spans that the server caused on the same host are shifted by the same time.

use crate::join::Draft;
use crate::resolver::Resolver;
use blkkin_model::Kind;

/// Returns the shift of each draft in nanoseconds. `order` contains all drafts, parents first.
pub(crate) fn corrections(
    drafts: &[Draft],
    parents: &[Option<usize>],
    order: impl Iterator<Item = usize>,
    resolver: Resolver<'_>,
) -> Vec<i64> {
    let mut shifts = vec![0i64; drafts.len()];
    for at in order {
        let Some(parent) = parents[at] else { continue };
        let (server, client) = (&drafts[at], &drafts[parent]);
        let is_elsewhere = is_elsewhere(server, client, resolver);
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

/// Returns true if two spans are from different hosts: their IP addresses differ or, if one of them
/// is unknown, their services.
fn is_elsewhere(a: &Draft, b: &Draft, resolver: Resolver<'_>) -> bool {
    match (a.address.ip, b.address.ip) {
        (Some(a), Some(b)) => a != b,
        _ => !resolver.is_same(a.service, b.service),
    }
}
