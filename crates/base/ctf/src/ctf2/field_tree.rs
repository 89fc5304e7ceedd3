//! Resolution of field locations. The field of a length must be an unsigned integer. The field of a
//! selector must be an integer or, for an optional, may also be a boolean.
//!
//! [`FieldTree`] is a tree of the fields read so far, with their kinds. It serves to check that a
//! referenced field precedes the field that depends on it. The tree follows the reader through
//! structures and members; [`FieldTree::resolve`] resolves a location.

use super::json::{Problem, array, object, optional, quote, required, string};
use super::value::{Object, Value};
use super::vocabulary::unknown_word;
use crate::metadata::budget::{owned_size, table_entry};
use crate::schema::{FieldClass, FieldRef, IntKind, Scope};
use std::borrow::Cow;
use std::collections::HashMap;

/// A field location as stated in the metadata.
pub(super) struct Location {
    /// Scope in which the path starts. `None` if the path starts at the structure that contains the
    /// dependent field.
    origin: Option<Scope>,
    /// Steps of the path: a member's name, or `None` for a step out to the enclosing structure.
    steps: Vec<Option<String>>,
}

impl Location {
    /// Reads a location. Also accepts a plain array of names, as in CTF 2's release candidates.
    pub(super) fn read(value: &Value<'_>) -> Result<Location, Problem> {
        let location = match value {
            Value::Array(steps) => match steps.split_first() {
                Some((Value::String(first), rest)) if scope(first).is_ok() => {
                    Location { origin: scope(first).ok(), steps: path(rest)? }
                }
                _ => Location { origin: None, steps: path(steps)? },
            },
            _ => Location::read_object(object(value)?)?,
        };
        match location.steps.last() {
            None => Err(Problem::new("the path is empty")),
            Some(None) => Err(Problem::new("the path ends in null, not in a field's name")),
            Some(Some(_)) => Ok(location),
        }
    }

    fn read_object(object: &Object<'_>) -> Result<Location, Problem> {
        Ok(Location {
            origin: optional(object, "origin", |value| scope(string(value)?))?,
            steps: required(object, "path", |value| path(array(value)?))?,
        })
    }
}

fn scope(word: &str) -> Result<Scope, Problem> {
    let found = Scope::ALL.into_iter().find(|scope| scope.ctf2_name() == word);
    found.ok_or_else(|| unknown_word(word, Scope::ALL.into_iter().map(Scope::ctf2_name)))
}

fn path(steps: &[Value<'_>]) -> Result<Vec<Option<String>>, Problem> {
    let step = |value: &Value<'_>| match value {
        Value::Null => Ok(None),
        _ => string(value).map(|name| Some(name.to_owned())),
    };
    steps.iter().map(step).collect()
}

/// A set of field kinds: unsigned, signed, boolean, other.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const UNSIGNED: Kinds = Kinds(1);
    pub(super) const SIGNED: Kinds = Kinds(2);
    pub(super) const BOOLEAN: Kinds = Kinds(4);
    const OTHER: Kinds = Kinds(8);
    const NONE: Kinds = Kinds(0);

    /// Returns the union of this set and `other`.
    pub(super) const fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Returns whether the set is not empty and has no kinds beyond `allowed`.
    pub(super) fn is_subset_of(self, allowed: Kinds) -> bool {
        self != Kinds::NONE && self.or(allowed) == allowed
    }

    /// Returns the kinds that a field of `class` adds to its node. Arrays, optionals and variants
    /// add none: the classes of their contents have already added theirs.
    fn of(class: &FieldClass) -> Kinds {
        match class {
            FieldClass::Int(int) => match int.kind {
                IntKind::Unsigned => Kinds::UNSIGNED,
                IntKind::Signed => Kinds::SIGNED,
                IntKind::Bool => Kinds::BOOLEAN,
                IntKind::BitArray | IntKind::BitMap => Kinds::OTHER,
            },
            FieldClass::VarInt(int) if int.signed => Kinds::SIGNED,
            FieldClass::VarInt(_) => Kinds::UNSIGNED,
            FieldClass::Float(_)
            | FieldClass::String(_)
            | FieldClass::Text(_)
            | FieldClass::Blob(_)
            | FieldClass::Struct(_) => Kinds::OTHER,
            FieldClass::Array(_) | FieldClass::Optional(_) | FieldClass::Variant(_) => Kinds::NONE,
        }
    }
}

/// Tree of the field names read so far, with one root per scope. All options of a variant share one
/// node, and so do all elements of an array.
#[derive(Default)]
pub(super) struct FieldTree<'t> {
    nodes: Vec<Node>,
    /// Index of a member's node, by the index of the parent's node and the member's name.
    children: HashMap<(u32, Cow<'t, str>), u32>,
    /// Index of each scope's root node; `None` until the scope is read.
    roots: [Option<u32>; Scope::ALL.len()],
    /// Scope that is being read. Together with `open` (the unfinished structures) and `node`, this
    /// is the reader's position.
    scope: Option<Scope>,
    open: Vec<OpenStructure<'t>>,
    node: u32,
    /// Number of structures and members begun so far. Options of a variant share nodes, so this
    /// number tells whether a member at a node belongs to the current structure or to an earlier
    /// option.
    sequence: u64,
    size: usize,
}

#[derive(Default)]
struct Node {
    /// Kinds of all fields at this node; several if options of a variant share the node.
    kinds: Kinds,
    /// Kinds of the most recently read member at this node.
    kinds_latest: Kinds,
    /// Value of [`FieldTree::sequence`] at the start of the most recently read member at this node.
    sequence: u64,
}

struct OpenStructure<'t> {
    node: u32,
    sequence: u64,
    member_count: usize,
    /// Name and node of the member that is being read; `None` between members.
    member: Option<(Cow<'t, str>, u32)>,
}

/// Maximum memory of a node in bytes, with its entry in `children` but without the text of its
/// name.
const NODE_SIZE: usize = table_entry::<(u32, Cow<'_, str>), u32>() + 2 * size_of::<Node>();

impl<'t> FieldTree<'t> {
    /// Starts a scope with an empty root node.
    pub(super) fn begin(&mut self, scope: Scope) {
        self.node = self.nodes.len() as u32;
        self.nodes.push(Node::default());
        self.roots[scope as usize] = Some(self.node);
        self.scope = Some(scope);
        self.open.clear();
    }

    /// Starts a structure at the current node.
    pub(super) fn enter_structure(&mut self) {
        self.sequence += 1;
        let (node, time) = (self.node, self.sequence);
        self.open.push(OpenStructure { node, sequence: time, member_count: 0, member: None });
    }

    /// Ends the innermost structure and returns to its node.
    pub(super) fn leave_structure(&mut self) {
        if let Some(structure) = self.open.pop() {
            self.node = structure.node;
        }
    }

    /// Starts a member of the innermost structure. Returns `false` if the structure already has a
    /// member of that name.
    pub(super) fn enter_member(&mut self, name: Cow<'t, str>) -> bool {
        let Some(structure) = self.open.last_mut() else { return true };
        let next = self.nodes.len() as u32;
        let child = *self.children.entry((structure.node, name.clone())).or_insert(next);
        if child == next {
            self.nodes.push(Node::default());
            self.size += NODE_SIZE + 2 * owned_size(&name);
        }
        let node = &mut self.nodes[child as usize];
        if node.sequence > structure.sequence {
            return false;
        }
        self.sequence += 1;
        node.sequence = self.sequence;
        node.kinds_latest = Kinds::NONE;
        structure.member_count += 1;
        structure.member = Some((name, child));
        self.node = child;
        true
    }

    /// Returns the memory of the tree's nodes and names, in bytes, for the budget.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Ends the current member and returns to the node of its structure.
    pub(super) fn leave_member(&mut self) {
        if let Some(structure) = self.open.last_mut() {
            structure.member = None;
            self.node = structure.node;
        }
    }

    /// Adds the kinds of `class` to the current node.
    pub(super) fn add(&mut self, class: &FieldClass) {
        if let Some(node) = self.nodes.get_mut(self.node as usize) {
            node.kinds = node.kinds.or(Kinds::of(class));
            node.kinds_latest = node.kinds_latest.or(Kinds::of(class));
        }
    }

    /// Returns whether the field being read is in the first member of the scope's own structure,
    /// and in no nested structure.
    pub(super) fn is_first_member(&self) -> bool {
        matches!(self.open.as_slice(), [structure] if structure.member_count == 1)
    }

    /// Converts a location to an absolute field reference, and returns it with the kinds of the
    /// field. `outer` are the trees of scopes in earlier fragments.
    pub(super) fn resolve(
        &self,
        outer: &[&FieldTree<'_>],
        location: &Location,
    ) -> Result<(FieldRef, Kinds), Problem> {
        let scope = location.origin.or(self.scope).unwrap_or(Scope::Payload);
        let mut path = Vec::new();
        if location.origin.is_none() {
            let around = self.open.len().saturating_sub(1);
            let names =
                self.open[..around].iter().filter_map(|structure| structure.member.as_ref());
            path.extend(names.map(|(name, _)| name.to_string()));
        }
        for step in &location.steps {
            match step {
                Some(name) => path.push(name.clone()),
                None if path.pop().is_some() => {}
                None => return Err(Problem::new("null leaves the outermost structure")),
            }
        }
        path.shrink_to_fit();
        let kinds = self.kinds(outer, scope, &path)?;
        Ok((FieldRef { scope, path }, kinds))
    }

    fn kinds(
        &self,
        outer: &[&FieldTree<'_>],
        scope: Scope,
        path: &[String],
    ) -> Result<Kinds, Problem> {
        let mut all = std::iter::once(self).chain(outer.iter().copied());
        let found = all.find_map(|tree| Some((tree, tree.roots[scope as usize]?)));
        let Some((tree, mut node)) = found else {
            let name = scope.ctf2_name();
            return Err(Problem::new(match self.scope {
                Some(current) if scope > current => format!("the {name} comes after this field"),
                _ => format!("there is no {name}"),
            }));
        };
        let missing = || {
            let way = quote(&path.join("."));
            let name = scope.ctf2_name();
            Problem::new(format!("no field {way} of the {name} comes before this one"))
        };
        // The path may begin with members whose structures are still open.
        let mut open = if self.scope == Some(scope) { self.open.as_slice() } else { &[] };
        let mut kinds = Kinds::NONE;
        for (index, name) in path.iter().enumerate() {
            let key = (node, Cow::Borrowed(name.as_str()));
            node = *tree.children.get(&key).ok_or_else(missing)?;
            let place = &tree.nodes[node as usize];
            let Some((structure, inner)) = open.split_first() else {
                kinds = place.kinds;
                continue;
            };
            if place.sequence < structure.sequence {
                return Err(missing());
            }
            kinds = place.kinds_latest;
            open = match &structure.member {
                Some((_, member)) if *member == node => {
                    if inner.is_empty() || index + 1 == path.len() {
                        return Err(missing());
                    }
                    inner
                }
                _ => &[],
            };
        }
        Ok(kinds)
    }
}
