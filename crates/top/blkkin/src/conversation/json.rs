//! JSON form of the agent's replies. Unknown and unset values are `null`. Times are nanoseconds
//! since 1970; durations have their unit in the name.

use super::{SessionChannel, SessionDetails};
use crate::forwarding;
use crate::losses;
use crate::reach;
use blkkin_control::{
    Application, Chunks, Context, EventType, Field, FieldKind, Levels, Processes, RedactedRule,
    Redaction, Rotation, Scalar, Sharing, WAIT_FOREVER,
};
use serde_json::{Value, json};

pub(crate) fn session(listed: &SessionDetails) -> Value {
    let SessionDetails {
        state,
        channels,
        rules,
        losses,
        retention,
        reaches,
        forwarding,
        size_max,
        direct,
        chunks,
    } = listed;
    json!({
        "name": state.session.name,
        "purpose": state.session.purpose.word(),
        "output": state.session.output.as_ref().map(|path| path.display().to_string()),
        "activity": state.activity.word(),
        "owner": state.owner,
        "created": state.created_ns,
        "channels": channels.iter().map(channel).collect::<Vec<_>>(),
        "rules": rules.iter().map(rule).collect::<Vec<_>>(),
        "losses": losses::all_to_json(losses),
        "keep_ms": retention.and_then(|retention| retention.keep_ms),
        "memory": retention.and_then(|retention| retention.memory),
        "reaches": reach::to_json(reaches),
        "forwarding": forwarding.as_ref().map(forwarding::to_json),
        "size_max": size_max,
        "direct": direct.map(|slowest_ns| json!({ "slowest_write_ns": slowest_ns })),
        "chunks": chunks.as_ref().map(chunk_summary),
    })
}

/// Converts the summary of a session's chunks to JSON, with the options that divide its trace.
fn chunk_summary(chunks: &Chunks) -> Value {
    let Rotation { size, age_ms, files, total, name_pattern, hook } = &chunks.rotation;
    json!({
        "count": chunks.count,
        "bytes": chunks.bytes,
        "removed": chunks.removed,
        "removed_bytes": chunks.removed_bytes,
        "hook_failures": chunks.hook_failures,
        "size": size,
        "age_ms": age_ms,
        "files": files,
        "total": total,
        "name_pattern": name_pattern,
        "on_chunk": hook.as_ref().map(|hook| &hook.command),
        "on_chunk_timeout_ms": hook.as_ref().map(|hook| hook.timeout_ms),
    })
}

pub(crate) fn channel(listed: &SessionChannel) -> Value {
    let channel = &listed.channel;
    let (part_of, percent) = match &listed.sharing {
        Some(Sharing::Part { of, percent }) => (Some(of), Some(percent)),
        _ => (None, None),
    };
    json!({
        "name": channel.name,
        "domain": listed.domain(),
        "shared": listed.sharing == Some(Sharing::Shared),
        "part_of": part_of,
        "share_percent": percent,
        "mode": channel.mode.word(),
        "subbuffer_size": channel.subbuffer_size,
        "subbuffer_count": channel.subbuffer_count,
        "contexts": channel.contexts.iter().map(Context::name).collect::<Vec<_>>(),
        "blocking_us": match channel.wait_us {
            WAIT_FOREVER => json!("inf"),
            wait_us => json!(wait_us),
        },
        "string_max": channel.event_size,
    })
}

fn rule(redacted: &RedactedRule) -> Value {
    let RedactedRule { rule, redactions } = redacted;
    let redaction = |one: &Redaction| json!({ "events": one.events, "field": one.field, "method": one.method.word() });
    let selection = &rule.selection;
    let (level, level_only) = match selection.levels {
        Levels::Any => (None, None),
        Levels::AtLeast { level } => (Some(level.to_string()), None),
        Levels::Exactly { level } => (None, Some(level.to_string())),
    };
    let Processes { pids, executables, children } = &selection.processes;
    json!({
        "channel": rule.channel,
        "enabled": rule.enabled,
        "names": selection.names,
        "excluded": selection.excluded,
        "level": level,
        "level_only": level_only,
        "filter": selection.filter,
        "pids": pids,
        "executables": executables,
        "children": children,
        "redactions": redactions.iter().map(redaction).collect::<Vec<_>>(),
    })
}

/// Converts a traced program to JSON, without its event types.
pub(crate) fn application(application: &Application) -> Value {
    json!({
        "pid": application.pid,
        "pid_inner": application.pid_inner,
        "uid": application.uid,
        "program": application.program,
        "executable": application.executable,
        "release": application.release,
        "clock": application.clock.word(),
        "event_type_count": application.event_type_count,
        "event_types_refused": application.event_types_refused,
    })
}

pub(crate) fn event_type(event_type: &EventType) -> Value {
    let field = |field: &Field| json!({ "name": field.name, "type": kind(&field.kind) });
    json!({
        "name": event_type.name,
        "level": event_type.level.to_string(),
        "file": (!event_type.file.is_empty()).then_some(&event_type.file),
        "line": (event_type.line > 0).then_some(event_type.line),
        "fields": event_type.fields.iter().map(field).collect::<Vec<_>>(),
    })
}

/// Formats the type of a field: numbers, arrays and sequences in Rust's notation, other types by
/// name.
pub(crate) fn kind(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Unsigned { width, .. } => format!("u{}", 8 * width.bytes()),
        FieldKind::Signed { width, .. } => format!("i{}", 8 * width.bytes()),
        FieldKind::Array { of, count } => format!("[{}; {count}]", scalar(*of)),
        FieldKind::Sequence { of } => format!("[{}]", scalar(*of)),
        kind => kind.word().to_owned(),
    }
}

fn scalar(of: Scalar) -> String {
    match of {
        Scalar::Unsigned { width, .. } => format!("u{}", 8 * width.bytes()),
        Scalar::Signed { width, .. } => format!("i{}", 8 * width.bytes()),
        of => of.word().to_owned(),
    }
}
