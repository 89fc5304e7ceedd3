//! Resolution of the fields named by lengths and tags, in CTF 1.8's order of search: the structures
//! around the reference from the innermost outwards, then the earlier scopes from last to first. A
//! path that starts with a scope's name is searched in this scope only. Start at
//! [`Expander::resolve`].

use super::expand::Expander;
use super::frame::{Frame, Level, Purpose};
use super::lexer::shortened;
use super::types::{IntType, Members, PathRef, Type};
use crate::metadata::error::MetadataError;
use crate::metadata::suggest::did_you_mean;
use crate::schema::{FieldRef, IntKind, Scope};

/// The field at the end of a path.
struct FieldAtPath<'t> {
    /// Display names of the members on the path.
    names: Vec<String>,
    /// Indexes of the members and options on the path, and 0 for each array.
    steps: Vec<usize>,
    class: Type<'t>,
}

impl<'t> Expander<'t> {
    /// Finds the field to which `path` refers from the current position, and its type.
    pub(super) fn resolve(
        &self,
        path: &PathRef,
        purpose: Purpose,
    ) -> Result<(FieldRef, Type<'t>), MetadataError> {
        let (mut field, class) = match split_scope(path) {
            Some((scope, words)) => self.resolve_absolute(scope, words, path, purpose)?,
            None => self.resolve_relative(path).ok_or_else(|| self.not_found(path, purpose))?,
        };
        let fits = match (&class, purpose) {
            (Type::Int(IntType { kind, .. }), Purpose::Length) => *kind == IntKind::Unsigned,
            (Type::Int(IntType { enumeration, .. }), Purpose::Tag) => enumeration.is_some(),
            _ => false,
        };
        if fits {
            field.path.shrink_to_fit();
            return Ok((field, class));
        }
        let expected = match purpose {
            Purpose::Length => "an unsigned integer",
            Purpose::Tag => "an enumeration",
        };
        let (name, found) = (path.shown(), class.describe());
        let message = format!("{} `{name}` is {found}, expected {expected}", purpose.name());
        Err(self.error(path.at, message))
    }

    fn resolve_absolute(
        &self,
        scope: Scope,
        words: &[String],
        path: &PathRef,
        purpose: Purpose,
    ) -> Result<(FieldRef, Type<'t>), MetadataError> {
        let too_late = |why: &str| {
            let message = format!("{} `{}` {why}", purpose.name(), path.shown());
            self.error(path.at, message)
        };
        if scope > self.current {
            return Err(too_late("comes later in the trace"));
        }
        let root = match self.frames.first() {
            Some(Frame { level: Level::Struct(root), .. }) if scope == self.current => {
                Some(&root.members)
            }
            _ => self.scope_members(scope),
        };
        let found = root
            .and_then(|root| descend(root, words, true).or_else(|| descend(root, words, false)));
        let Some(found) = found else { return Err(self.not_found(path, purpose)) };
        if scope == self.current {
            let here = self.frames.iter().map(|frame| frame.index);
            let parted = found.steps.iter().zip(here).position(|(there, here)| *there != here);
            match parted {
                None => return Err(too_late("holds itself")),
                Some(level) if matches!(self.frames[level].level, Level::Variant) => {
                    return Err(too_late("is in another option of the same variant"));
                }
                Some(level) if found.steps[level] > self.frames[level].index => {
                    return Err(too_late("comes later in the trace"));
                }
                Some(_) => (),
            }
        }
        Ok((FieldRef { scope, path: found.names }, found.class))
    }

    /// Searches for a path without a scope, first by exact names, then by names that differ in the
    /// escaping underscore.
    fn resolve_relative(&self, path: &PathRef) -> Option<(FieldRef, Type<'t>)> {
        [true, false].into_iter().find_map(|exactly| {
            self.around(&path.words, exactly).or_else(|| {
                Scope::ALL[..self.current as usize].iter().rev().find_map(|&scope| {
                    let found = descend(self.scope_members(scope)?, &path.words, exactly)?;
                    Some((FieldRef { scope, path: found.names }, found.class))
                })
            })
        })
    }

    /// Searches the structures around the current field, from the innermost outwards.
    fn around(&self, words: &[String], exactly: bool) -> Option<(FieldRef, Type<'t>)> {
        (0..self.frames.len()).rev().find_map(|depth| {
            let frame = &self.frames[depth];
            let Level::Struct(structure) = &frame.level else { return None };
            if structure.members.find(&words[0], exactly)? >= frame.index {
                return None;
            }
            let found = descend(&structure.members, words, exactly)?;
            let mut names: Vec<String> = self.frames[..depth].iter().filter_map(name_of).collect();
            names.extend(found.names);
            Some((FieldRef { scope: self.current, path: names }, found.class))
        })
    }

    /// Returns the members of an earlier scope's structure; `None` if the metadata declares no such
    /// scope.
    fn scope_members(&self, scope: Scope) -> Option<&Members<'t>> {
        match &self.scopes[scope as usize] {
            Some(Type::Struct(structure)) => Some(&structure.members),
            _ => None,
        }
    }

    fn not_found(&self, path: &PathRef, purpose: Purpose) -> MetadataError {
        let (name, purpose) = (path.shown(), purpose.name());
        let first = &path.words[0];
        let error = self.error(path.at, format!("{purpose} `{name}` is no field before this one"));
        let around = || {
            self.frames.iter().filter_map(|frame| match &frame.level {
                Level::Struct(structure) => Some((&structure.members, frame.index)),
                _ => None,
            })
        };
        let later = around()
            .any(|(members, index)| members.find(first, true).is_some_and(|found| found >= index));
        if later {
            return error.hint(format!("`{first}` has to stand before the field that needs it"));
        }
        let before = Scope::ALL[..self.current as usize]
            .iter()
            .filter_map(|&scope| self.scope_members(scope).map(|members| members.list.as_slice()));
        let here = around().map(|(members, index)| &members.list[..index]);
        let names = here.chain(before).flatten().map(|member| member.written.as_ref());
        did_you_mean(error, &name, names)
    }
}

impl PathRef {
    /// Returns the words of the path joined by dots, shortened for messages.
    fn shown(&self) -> String {
        shortened(&self.words.join(".")).into_owned()
    }
}

/// Splits the name of a scope from the start of a path; `None` if the path does not start with one,
/// or has no further words.
fn split_scope(path: &PathRef) -> Option<(Scope, &[String])> {
    Scope::ALL.iter().find_map(|&scope| {
        let mut words = &*path.words;
        for part in scope.tsdl_name().split('.') {
            let (first, rest) = words.split_first()?;
            if first != part {
                return None;
            }
            words = rest;
        }
        (!words.is_empty()).then_some((scope, words))
    })
}

/// Follows `words` from a structure to a field. An array consumes no word, a variant the name of an
/// option.
fn descend<'t>(root: &Members<'t>, words: &[String], exactly: bool) -> Option<FieldAtPath<'t>> {
    let mut members = root;
    let mut in_variant = false;
    let mut found = FieldAtPath { names: Vec::new(), steps: Vec::new(), class: Type::WideInt(0) };
    for (position, word) in words.iter().enumerate() {
        let index = members.find(word, exactly).or_else(|| members.find(word, true))?;
        let member = &members.list[index];
        found.steps.push(index);
        if !in_variant {
            found.names.push(member.display().to_owned());
        }
        if position + 1 == words.len() {
            found.class = member.class.clone();
            return Some(found);
        }
        let mut class = &member.class;
        while let Type::Array(array) = class {
            found.steps.push(0);
            class = &array.element;
        }
        (members, in_variant) = match class {
            Type::Struct(structure) => (&structure.members, false),
            Type::Variant(variant) => (variant.options.as_ref(), true),
            _ => return None,
        };
    }
    None
}

/// Returns the display name that a frame adds to a path; `None` unless the frame is a structure.
fn name_of(frame: &Frame<'_>) -> Option<String> {
    match &frame.level {
        Level::Struct(structure) => {
            structure.members.list.get(frame.index).map(|member| member.display().to_owned())
        }
        _ => None,
    }
}
