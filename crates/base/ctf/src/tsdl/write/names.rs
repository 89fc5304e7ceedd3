//! Written names of members. In event contexts and payloads, nearly all display names get an
//! underscore. In the other scopes, only keywords, names that start with an underscore or are no
//! identifiers, and names that would give the field a wrong role or clock get one.

use super::frame::Names;
use super::spelling::is_identifier;
use super::{WriteError, Writer};
use crate::schema::{BlobClass, FieldClass, IntKind, Member, Role, Scope, StructClass};
use crate::tsdl::roles;
use crate::tsdl::types::display_name;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

impl<'s> Writer<'s> {
    pub(super) fn names(
        &mut self,
        scope: Scope,
        structure: &'s StructClass,
    ) -> Result<Rc<Names>, WriteError> {
        let key = std::ptr::from_ref(structure);
        if let Some(names) = self.names.get(&key) {
            return Ok(names.clone());
        }
        let is_top = self.roots[scope as usize].is_some_and(|root| std::ptr::eq(root, structure));
        let displays: HashSet<&str> =
            structure.members.iter().map(|member| member.name.as_str()).collect();
        let mut names =
            Names { written: Vec::new(), by_written: HashMap::new(), by_display: HashMap::new() };
        for (index, member) in structure.members.iter().enumerate() {
            let name = member.name.as_str();
            let is_escaped = match scope < Scope::CommonContext {
                true => self.is_misleading(scope, is_top, member),
                // Readers remove one underscore from each name. babeltrace2 rejects a field whose
                // written name is the display name of an earlier field, so `X` next to `_X` gets no
                // underscore.
                false => {
                    name.starts_with('_')
                        || !displays.contains(format!("_{name}").as_str())
                        || !is_identifier(name)
                }
            };
            let written = if is_escaped { format!("_{name}") } else { name.to_owned() };
            names.by_display.insert(name.to_owned(), index);
            names.by_written.insert(written.clone(), index);
            names.written.push(written);
        }
        for (written, member) in names.written.iter().zip(&structure.members) {
            let shown = display_name(written, |name| names.by_written.contains_key(name));
            let is_unique = names.by_written.len() == structure.members.len();
            if shown != member.name || !is_unique || !is_identifier(written) {
                return Err(self.fail(format!("`{}` cannot be the name of a field", member.name)));
            }
        }
        let names = Rc::new(names);
        self.names.insert(key, names.clone());
        Ok(names)
    }

    /// Returns whether a member of a header or packet context needs an underscore: its bare name is
    /// a keyword or no identifier, starts with an underscore, or would give the member a wrong role
    /// or clock.
    fn is_misleading(&self, scope: Scope, is_top: bool, member: &Member) -> bool {
        let name = member.name.as_str();
        if name.starts_with('_') || !is_identifier(name) {
            return true;
        }
        if roles::is_uuid(scope, is_top, name) {
            return !matches!(
                &member.class,
                FieldClass::Blob(BlobClass { roles, .. }) if roles.has(Role::Uuid)
            );
        }
        let role = roles::reserved_role(scope, is_top, name);
        match &member.class {
            FieldClass::Int(int) => {
                let is_unsigned = int.kind == IntKind::Unsigned;
                role.is_some_and(|role| !int.roles.has(role) && (is_top || is_unsigned))
                    || (roles::is_timestamp_name(scope, name) && self.clock_of(int).is_none())
            }
            _ => role.is_some() && is_top,
        }
    }
}
