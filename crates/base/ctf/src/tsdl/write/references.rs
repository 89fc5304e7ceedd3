//! References in TSDL text: from an array to its length, and from a variant to its tag. A reference
//! is the field's own name if that name resolves to the field in a structure around the reference
//! (babeltrace2 accepts no other form for tags), otherwise the field's scope and path.

use super::frame::Frame;
use super::spelling::escaped;
use super::{WriteError, Writer};
use crate::schema::{FieldClass, FieldRef, IntClass, IntKind, Scope, StructClass};

/// Purpose of a reference to a field: the length of an array, or the tag of a variant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Length,
    Tag,
}

/// The path from a scope's structure to an integer.
struct Route<'s> {
    /// Written names of the members and options on the path, the field's own name first.
    words: Vec<String>,
    class: &'s IntClass,
}

impl<'s> Writer<'s> {
    /// Returns the text of a reference, and the class of the integer to which it refers.
    pub(super) fn reference(
        &mut self,
        field: &FieldRef,
        purpose: Purpose,
    ) -> Result<(String, &'s IntClass), WriteError> {
        let shown = || format!("{}.{}", field.scope.tsdl_name(), field.path.join("."));
        let (text, class) = match self.local(field) {
            Some(found) => found,
            None => match self.absolute(field)? {
                Some(found) => found,
                None => {
                    let message = format!("it depends on {}, which is no integer", shown());
                    return Err(self.fail(message));
                }
            },
        };
        let (fits, expected) = match purpose {
            Purpose::Length => (class.kind == IntKind::Unsigned, "an unsigned integer"),
            Purpose::Tag => (class.mappings.is_some(), "an enumeration"),
        };
        match fits {
            true => Ok((text, class)),
            false => Err(self.fail(format!("it depends on {}, not {expected}", shown()))),
        }
    }

    fn absolute(&mut self, field: &FieldRef) -> Result<Option<(String, &'s IntClass)>, WriteError> {
        let Some(root) = self.roots[field.scope as usize] else { return Ok(None) };
        let Some(route) = self.route(field.scope, root, &field.path)? else { return Ok(None) };
        let mut text = field.scope.tsdl_name().to_owned();
        for word in route.words.iter().rev() {
            text.push('.');
            text.push_str(&escaped(word));
        }
        Ok(Some((text, route.class)))
    }

    /// Finds `field` in the structures around the current field, and returns its written name and
    /// class. Returns `None` if these structures have no such integer before the current field, or
    /// if a structure further inside hides its written name by another earlier member.
    fn local(&self, field: &FieldRef) -> Option<(String, &'s IntClass)> {
        if field.scope != self.current {
            return None;
        }
        let (last, parents) = field.path.split_last()?;
        let around: Vec<&str> = self.frames.iter().filter_map(Frame::name).collect();
        let mut depth = around.len();
        let mut inner: Vec<&Frame<'_>> = Vec::new();
        for frame in self.frames.iter().rev() {
            let Frame::Struct { class, names, index } = frame else { continue };
            depth -= 1;
            if around[..depth] == *parents
                && let Some(&found) = names.by_display.get(last).filter(|&found| found < index)
            {
                let written = &names.written[found];
                let is_hidden = inner.iter().any(|frame| match frame {
                    Frame::Struct { names, index, .. } => {
                        names.by_written.get(written).is_some_and(|hiding| hiding < index)
                    }
                    Frame::Variant { .. } => false,
                });
                let FieldClass::Int(int) = &class.members[found].class else { return None };
                return (!is_hidden).then(|| (escaped(written), int));
            }
            inner.push(frame);
        }
        None
    }

    /// Follows display names from a structure to an integer.
    fn route(
        &mut self,
        scope: Scope,
        structure: &'s StructClass,
        path: &[String],
    ) -> Result<Option<Route<'s>>, WriteError> {
        let Some((name, rest)) = path.split_first() else { return Ok(None) };
        let names = self.names(scope, structure)?;
        let Some(&index) = names.by_display.get(name) else { return Ok(None) };
        let mut route = self.route_into(scope, &structure.members[index].class, rest)?;
        if let Some(route) = &mut route {
            route.words.push(names.written[index].clone());
        }
        Ok(route)
    }

    fn route_into(
        &mut self,
        scope: Scope,
        class: &'s FieldClass,
        rest: &[String],
    ) -> Result<Option<Route<'s>>, WriteError> {
        match class {
            FieldClass::Int(class) if rest.is_empty() => {
                Ok(Some(Route { words: Vec::new(), class }))
            }
            FieldClass::Struct(structure) => self.route(scope, structure, rest),
            FieldClass::Array(array) if !rest.is_empty() => {
                self.route_into(scope, &array.element, rest)
            }
            FieldClass::Variant(variant) => {
                // The option around the current field has precedence over other options with a
                // field of that name.
                let around = self.frames.iter().find_map(|frame| match frame {
                    Frame::Variant { class, index } if std::ptr::eq(*class, variant) => {
                        Some(*index)
                    }
                    _ => None,
                });
                let current = around.and_then(|index| variant.options.get(index));
                for option in current.into_iter().chain(&variant.options) {
                    let Some(mut route) = self.route_into(scope, &option.class, rest)? else {
                        continue;
                    };
                    route.words.push(option.name.clone().unwrap_or_default());
                    return Ok(Some(route));
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}
