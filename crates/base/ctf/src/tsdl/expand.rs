//! Expansion of a [`Type`] to a tree of field classes, for each use of the type. The expander
//! assigns display names and reserved roles, resolves lengths and tags, and copies shared types.
//! Start at [`Expander::scope`].

use super::frame::{Frame, Level, Purpose};
use super::roles;
use super::syntax::BlockKind;
use super::types::{ArrayType, IntType, LengthType, MemberType, Type, VariantType};
use crate::decode::size;
use crate::metadata::budget::Budget;
use crate::metadata::error::MetadataError;
use crate::metadata::suggest::did_you_mean;
use crate::schema::{
    ArrayClass, BlobClass, Clock, FieldClass, IntClass, IntKind, Length, Member, Role, Roles,
    Scope, StringClass, StructClass, TextClass, VariantClass, VariantOption,
};
use std::collections::HashSet;

/// Types of the scopes read so far, indexed by [`Scope`].
pub(super) type ScopeTypes<'t> = [Option<Type<'t>>; 6];

pub(super) struct Expander<'t> {
    pub(super) text: &'t str,
    budget: &'t Budget,
    pub(super) clocks: Vec<Clock>,
    /// Types of the scopes before the current one, to which fields of the current scope may refer.
    pub(super) scopes: ScopeTypes<'t>,
    pub(super) current: Scope,
    /// The compound types around the current field, the outermost first.
    pub(super) frames: Vec<Frame<'t>>,
    /// Offset of the current field's declaration, for error messages.
    at: usize,
}

/// Name of a field in the structure or variant around it; `None` for an element of an array and for
/// the structure of a scope.
#[derive(Clone, Copy)]
enum Name<'n> {
    Member(&'n str),
    Option(&'n str),
    None,
}

impl<'t> Expander<'t> {
    pub(super) fn new(text: &'t str, budget: &'t Budget, clocks: Vec<Clock>) -> Expander<'t> {
        Expander {
            text,
            budget,
            clocks,
            scopes: ScopeTypes::default(),
            current: Scope::PacketHeader,
            frames: Vec::new(),
            at: 0,
        }
    }

    /// Expands a whole scope, and stores its type for references from later scopes.
    pub(super) fn scope(
        &mut self,
        scope: Scope,
        class: &Type<'t>,
        at: usize,
    ) -> Result<FieldClass, MetadataError> {
        if !matches!(class, Type::Struct(_)) {
            let message = format!("{} is {}, not a structure", scope.tsdl_name(), class.describe());
            return Err(self.error(at, message));
        }
        self.current = scope;
        self.at = at;
        let expanded = self.expand(class, Name::None)?;
        self.scopes[scope as usize] = Some(class.clone());
        Ok(expanded)
    }

    pub(super) fn error(&self, at: usize, message: impl Into<String>) -> MetadataError {
        MetadataError::at(self.text, at, message)
    }

    /// Counts `bytes` of field classes against the memory budget.
    fn keep(&self, bytes: usize) -> Result<(), MetadataError> {
        let error = |error| MetadataError::over_budget(self.text, self.at, error);
        self.budget.charge(bytes).map_err(error)
    }

    fn expand(&mut self, class: &Type<'t>, name: Name<'_>) -> Result<FieldClass, MetadataError> {
        self.keep(size::CLASS)?;
        match class {
            Type::Int(int) => self.int(int, name),
            Type::WideInt(bytes) => Ok(FieldClass::Blob(BlobClass {
                length: Length::Static(*bytes),
                media_type: None,
                roles: Roles::NONE,
            })),
            Type::Float(float) => Ok(FieldClass::Float(float.clone())),
            Type::String(encoding) => Ok(FieldClass::String(StringClass { encoding: *encoding })),
            Type::Array(array) => self.array(array, name),
            Type::Struct(structure) => {
                let mut members = Vec::with_capacity(structure.members.list.len());
                self.frames.push(Frame { level: Level::Struct(structure.clone()), index: 0 });
                for (index, member) in structure.members.list.iter().enumerate() {
                    self.enter(index, member);
                    self.keep(size::member(&member.written))?;
                    self.check_reserved(index, member)?;
                    let class = self.expand(&member.class, Name::Member(&member.written))?;
                    members.push(Member { name: member.display().to_owned(), class });
                }
                self.frames.pop();
                Ok(FieldClass::Struct(StructClass { members, align: structure.align }))
            }
            Type::Variant(variant) => self.variant(variant),
        }
    }

    /// Enters the next member or option of the innermost compound type.
    fn enter(&mut self, index: usize, member: &MemberType<'_>) {
        self.at = member.at;
        if let Some(frame) = self.frames.last_mut() {
            frame.index = index;
        }
    }

    fn is_top(&self) -> bool {
        self.frames.len() == 1
    }

    fn int(&mut self, int: &IntType, name: Name<'_>) -> Result<FieldClass, MetadataError> {
        let mappings = int.enumeration.as_ref().map(|labels| labels.mappings.clone());
        let role = match name {
            Name::Member(name) if int.kind == IntKind::Unsigned => {
                roles::reserved_role(self.current, self.is_top(), name)
            }
            _ => None,
        };
        let clock = match (int.clock, name) {
            (None, Name::Member(name) | Name::Option(name))
                if roles::is_timestamp_name(self.current, name) =>
            {
                Some(self.only_clock(name)?)
            }
            (clock, _) => clock,
        };
        Ok(FieldClass::Int(IntClass {
            bits: int.bits,
            kind: int.kind,
            base: int.base,
            mappings,
            roles: role.map_or(Roles::NONE, Roles::from),
            clock,
        }))
    }

    /// Returns the clock of timestamps without a `map`: the trace's only clock. If the trace has no
    /// clock, adds one that counts nanoseconds.
    fn only_clock(&mut self, name: &str) -> Result<usize, MetadataError> {
        if self.clocks.is_empty() {
            self.clocks.push(Clock { name: "default".to_owned(), ..Clock::default() });
        }
        match self.clocks.len() {
            1 => Ok(0),
            clocks => Err(self
                .error(self.at, format!("`{name}` names none of the {clocks} clocks"))
                .hint("add `map = clock.NAME.value;` to its type")),
        }
    }

    fn array(
        &mut self,
        array: &ArrayType<'t>,
        name: Name<'_>,
    ) -> Result<FieldClass, MetadataError> {
        if let Name::Member(name) = name
            && roles::is_uuid(self.current, self.is_top(), name)
        {
            return Ok(FieldClass::Blob(BlobClass {
                length: Length::Static(16),
                media_type: None,
                roles: Role::Uuid.into(),
            }));
        }
        let length = match &array.length {
            LengthType::Static(length) => Length::Static(*length),
            LengthType::Dynamic(path) => {
                let (field, _) = self.resolve(path, Purpose::Length)?;
                self.keep(size::reference(&field))?;
                Length::Dynamic(field)
            }
        };
        if let Type::Int(int) = &array.element
            && let Some(encoding) = int.text_encoding()
        {
            return Ok(FieldClass::Text(TextClass { length, encoding }));
        }
        self.keep(size::BOX)?;
        self.frames.push(Frame { level: Level::Array, index: 0 });
        let element = self.expand(&array.element, Name::None)?;
        self.frames.pop();
        Ok(FieldClass::Array(Box::new(ArrayClass { length, element, align: 1 })))
    }

    fn variant(&mut self, variant: &VariantType<'t>) -> Result<FieldClass, MetadataError> {
        let Some(tag) = &variant.tag else {
            return Err(self.error(variant.at, "variant without a tag"));
        };
        let (selector, tag_type) = self.resolve(tag, Purpose::Tag)?;
        self.keep(size::reference(&selector))?;
        let Type::Int(IntType { enumeration: Some(labels), .. }) = tag_type else {
            return Err(self.error(tag.at, "tag is not an enumeration"));
        };
        let mut options = Vec::with_capacity(variant.options.list.len());
        let mut seen = HashSet::new();
        self.frames.push(Frame { level: Level::Variant, index: 0 });
        for (index, option) in variant.options.list.iter().enumerate() {
            self.enter(index, option);
            let written = option.written.as_ref();
            let label = labels
                .find(written)
                .or_else(|| written.strip_prefix('_').and_then(|bare| labels.find(bare)));
            let Some(label) = label else {
                let message = format!("option `{written}` is no label of the variant's tag");
                let error = self.error(option.at, message);
                let names = labels.mappings.iter().map(|mapping| mapping.label.as_str());
                return Err(did_you_mean(error, written, names));
            };
            let mapping = &labels.mappings[label];
            if !seen.insert(label) {
                let message = format!("2nd option for the label `{}`", mapping.label);
                return Err(self.error(option.at, message));
            }
            self.keep(size::option(&mapping.label, &mapping.ranges))?;
            let class = self.expand(&option.class, Name::Option(written))?;
            let name = Some(mapping.label.clone());
            options.push(VariantOption { name, ranges: mapping.ranges.clone(), class });
        }
        self.frames.pop();
        Ok(FieldClass::Variant(VariantClass { selector, options }))
    }

    /// Rejects a direct member of the scope's structure if its name is reserved for a role that
    /// needs another type or position.
    fn check_reserved(&self, index: usize, member: &MemberType<'_>) -> Result<(), MetadataError> {
        if !self.is_top() {
            return Ok(());
        }
        let name = member.written.as_ref();
        let expected = match (roles::reserved_role(self.current, true, name), &member.class) {
            (Some(Role::Magic), Type::Int(int)) => {
                if index > 0 {
                    return Err(self.error(member.at, "`magic` is not the packet header's start"));
                }
                let fits = int.kind == IntKind::Unsigned && int.bits.size == 32;
                (!fits).then_some("an unsigned integer of 32 bits")
            }
            (Some(_), Type::Int(int)) if int.kind == IntKind::Unsigned => None,
            (Some(_), _) => Some("an unsigned integer"),
            (None, class) if roles::is_uuid(self.current, true, name) => {
                (!is_uuid_type(class)).then_some("an array of 16 unsigned bytes")
            }
            (None, _) => None,
        };
        match expected {
            None => Ok(()),
            Some(expected) => {
                let found = member.class.describe();
                let message = format!("`{name}` is {found}, expected {expected}");
                Err(self.error(member.at, message))
            }
        }
    }
}

fn is_uuid_type(class: &Type<'_>) -> bool {
    match class {
        Type::Array(array) => match (&array.length, &array.element) {
            (LengthType::Static(16), Type::Int(int)) => {
                int.kind == IntKind::Unsigned && int.bits.size == 8 && int.bits.align == 8
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns the scope of a block's key such as `event.header`; `None` for a key that names no scope.
pub(super) fn scope_of(block: BlockKind, key: &str) -> Option<Scope> {
    match (block, key) {
        (BlockKind::Trace, "packet.header") => Some(Scope::PacketHeader),
        (BlockKind::Stream, "packet.context") => Some(Scope::PacketContext),
        (BlockKind::Stream, "event.header") => Some(Scope::EventHeader),
        (BlockKind::Stream, "event.context") => Some(Scope::CommonContext),
        (BlockKind::Event, "context") => Some(Scope::SpecificContext),
        (BlockKind::Event, "fields") => Some(Scope::Payload),
        _ => None,
    }
}
