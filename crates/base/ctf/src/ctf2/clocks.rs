//! Reading of clock class fragments into [`Clock`]s.

use super::json::{
    PathContext, Problem, object, optional, required, signed, string, text, unsigned,
};
use super::value::{Object, Value};
use super::vocabulary::unknown_word;
use crate::schema::*;

pub(super) fn clock(object: &Object<'_>) -> Result<Clock, Problem> {
    let identity = identity(object)?;
    // Release candidates had no `id` and no identity; the name served as id.
    let (name, identity) = match (text(object, "id")?, identity) {
        (Some(id), identity) => (id, identity),
        (None, ClockIdentity { name: Some(name), .. }) => (name, ClockIdentity::default()),
        (None, _) => return Err(Problem::new("`id` is missing")),
    };
    let frequency = optional(object, "frequency", unsigned)?.unwrap_or(1_000_000_000);
    if frequency == 0 {
        return Err(Problem::new("must not be 0")).add_step("frequency");
    }
    let (offset_seconds, offset_cycles) =
        optional(object, "offset-from-origin", offset)?.unwrap_or((0, 0));
    Ok(Clock {
        name,
        identity: Some(identity).filter(|identity| *identity != ClockIdentity::default()),
        uuid: None,
        description: text(object, "description")?,
        frequency,
        precision: optional(object, "precision", unsigned)?,
        accuracy: optional(object, "accuracy", unsigned)?,
        offset_seconds,
        offset_cycles,
        origin: optional(object, "origin", origin)?.unwrap_or(ClockOrigin::Unknown),
    })
}

fn identity(object: &Object<'_>) -> Result<ClockIdentity, Problem> {
    Ok(ClockIdentity {
        namespace: text(object, "namespace")?,
        name: text(object, "name")?,
        uid: text(object, "uid")?,
    })
}

fn origin(value: &Value<'_>) -> Result<ClockOrigin, Problem> {
    match value {
        Value::String(word) if word == "unix-epoch" => Ok(ClockOrigin::UnixEpoch),
        Value::String(word) => Err(unknown_word(word, ["unix-epoch"].into_iter())),
        _ => {
            let object = object(value)?;
            required(object, "name", string)?;
            required(object, "uid", string)?;
            identity(object).map(ClockOrigin::Custom)
        }
    }
}

fn offset(value: &Value<'_>) -> Result<(i64, i64), Problem> {
    let object = object(value)?;
    let seconds = optional(object, "seconds", signed)?.unwrap_or(0);
    Ok((seconds, optional(object, "cycles", signed)?.unwrap_or(0)))
}
