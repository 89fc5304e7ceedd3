//! The output format of lowering, and keys for the fields of a schema.

use crate::schema::{FieldRef, Scope};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Ctf1,
    Ctf2,
    Same,
}

/// Key of a field: stream and event (if the scope belongs to one), scope and path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    stream: Option<usize>,
    event: Option<usize>,
    scope: Scope,
    pub(super) path: Vec<String>,
}

impl Key {
    pub(super) fn new(stream: usize, event: Option<usize>, scope: Scope, path: &[String]) -> Key {
        let stream = (scope > Scope::PacketHeader).then_some(stream);
        let event = event.filter(|_| scope > Scope::CommonContext);
        Key { stream, event, scope, path: path.to_vec() }
    }

    pub(super) fn of(stream: usize, event: Option<usize>, field: &FieldRef) -> Key {
        Key::new(stream, event, field.scope, &field.path)
    }
}
