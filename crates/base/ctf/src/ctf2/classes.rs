//! Reading of field classes. [`ClassReader::root`] reads the class of a scope and the classes
//! nested in it.
//!
//! An alias is read again at each use, because its field locations and permitted roles depend on
//! the position at which it is used. Aliases of aliases could expand a small text to a very large
//! structure in memory; [`Budget`] limits that.

use super::field_tree::{FieldTree, Kinds, Location};
use super::json::{
    self, PathContext, Problem, array, object, optional, quote, required, string, text, unsigned,
};
use super::properties::{
    alignment, bits, encoding, float, mappings, preferred_base, ranges, wide_integer_class,
};
use super::range_set::RangeSet;
use super::value::{Object, Value};
use super::vocabulary::{ROLES, meaning, role_belongs};
use crate::decode::size;
use crate::metadata::budget::{Budget, allocation};
use crate::metadata::limits::DEPTH_MAX;
use crate::schema::*;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum of [`Allowance::expansion_size`]: 256 MiB. This limits the work of reading aliases again
/// at their uses; [`Budget`] limits the memory.
const EXPANSION_SIZE_MAX: usize = 256 << 20;

/// Declaration of a field class alias. The class is kept as JSON, because each use reads it again.
pub(super) struct Alias<'t> {
    pub(super) class: Value<'t>,
    /// Size of the alias's fragment in bytes.
    pub(super) text_size: usize,
}

/// Limits on the memory and on the expansion of aliases, for all fragments of a text.
pub(super) struct Allowance<'b> {
    pub(super) memory: &'b Budget,
    /// Total size in bytes of the fragments of aliases, each counted once per use, and of the names
    /// in the paths of resolved field locations.
    expansion_size: usize,
}

impl<'b> Allowance<'b> {
    pub(super) fn new(memory: &'b Budget) -> Allowance<'b> {
        Allowance { memory, expansion_size: 0 }
    }

    fn expand(&mut self, size: usize) -> Result<(), Problem> {
        self.expansion_size = self.expansion_size.saturating_add(size);
        if self.expansion_size <= EXPANSION_SIZE_MAX {
            return Ok(());
        }
        Err(Problem::new(format!("aliases expand to more than {EXPANSION_SIZE_MAX} bytes")))
    }
}

/// UUID, clock and earlier scopes to which the field classes of a fragment may refer.
pub(super) struct OuterContext<'a, 't> {
    /// True if the preamble has a UUID.
    pub(super) has_uuid: bool,
    /// Index of the stream's default clock; `None` if the stream has none, and for the packet
    /// header.
    pub(super) clock: Option<usize>,
    /// Field trees of the scopes in earlier fragments.
    pub(super) outer: &'a [&'a FieldTree<'t>],
}

/// Reader of the field classes of one fragment. Call [`ClassReader::root`] once per scope.
pub(super) struct ClassReader<'a, 't> {
    aliases: &'a HashMap<String, Alias<'t>>,
    allowance: &'a mut Allowance<'t>,
    /// Context for resolving field locations and roles; `None` while an alias declaration is read.
    /// In a declaration, the reader only checks the form of the class, and does not resolve field
    /// locations and roles.
    context: Option<OuterContext<'a, 't>>,
    scope: Scope,
    tree: FieldTree<'t>,
    depth: usize,
}

impl<'a, 't> ClassReader<'a, 't> {
    pub(super) fn new(
        aliases: &'a HashMap<String, Alias<'t>>,
        allowance: &'a mut Allowance<'t>,
        context: Option<OuterContext<'a, 't>>,
    ) -> ClassReader<'a, 't> {
        let tree = FieldTree::default();
        ClassReader { aliases, allowance, context, scope: Scope::Payload, tree, depth: 0 }
    }

    /// Counts `bytes` of field classes against the memory budget. The classes of an alias
    /// declaration count as temporary, because they are freed with their fragment.
    fn count(&self, bytes: usize) -> Result<(), Problem> {
        let memory = self.allowance.memory;
        match self.context {
            Some(_) => memory.charge(bytes)?,
            None => memory.charge_temporary(bytes)?,
        }
        Ok(())
    }

    /// Reads the field class of a scope, which must be a structure, from the property `key`.
    /// Returns `None` if the property is absent.
    pub(super) fn root(
        &mut self,
        object: &Object<'t>,
        key: &str,
        scope: Scope,
    ) -> Result<Option<FieldClass>, Problem> {
        optional(object, key, |value| {
            self.scope = scope;
            self.tree.begin(scope);
            match self.class(value)? {
                class @ FieldClass::Struct(_) => Ok(class),
                _ => Err(Problem::new("the field class of a scope must be a structure")),
            }
        })
    }

    /// Checks the form of the field class in an alias declaration.
    pub(super) fn declare(&mut self, value: &Value<'t>) -> Result<(), Problem> {
        self.tree.begin(self.scope);
        self.class(value).map(drop)
    }

    /// Returns the tree of the fields in all scopes read so far, to which later fragments may
    /// refer.
    pub(super) fn into_tree(self) -> FieldTree<'t> {
        self.tree
    }

    fn class(&mut self, value: &Value<'t>) -> Result<FieldClass, Problem> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Problem::new(format!("field classes nest deeper than {DEPTH_MAX}")));
        }
        let class = match value {
            Value::String(name) => self.resolve_alias(name)?,
            _ => {
                let class = self.described(object(value)?)?;
                self.tree.add(&class);
                class
            }
        };
        self.depth -= 1;
        Ok(class)
    }

    fn resolve_alias(&mut self, name: &str) -> Result<FieldClass, Problem> {
        let Some(alias) = self.aliases.get(name) else {
            let message = format!("no field class alias {} is declared before this", quote(name));
            return Err(Problem::new(message));
        };
        if self.context.is_none() {
            // The alias was checked at its own declaration, so an empty class can stand for it
            // here.
            return Ok(FieldClass::Struct(StructClass::default()));
        }
        self.allowance.expand(alias.text_size)?;
        self.class(&alias.class).add_step(format_args!("alias {}", quote(name)))
    }

    fn described(&mut self, object: &Object<'t>) -> Result<FieldClass, Problem> {
        self.count(size::CLASS)?;
        reject_extensions(object)?;
        let class_type = required(object, "type", |value| meaning(string(value)?, &CLASS_TYPES))?;
        match class_type {
            ClassType::Fixed(kind) => self.fixed(object, kind),
            ClassType::Float => float(object),
            ClassType::Variable { signed } => self.variable(object, signed),
            ClassType::String => {
                Ok(FieldClass::String(StringClass { encoding: encoding(object)? }))
            }
            ClassType::Text(count) => {
                let (length, encoding) = (self.length(object, count)?, encoding(object)?);
                Ok(FieldClass::Text(TextClass { length, encoding }))
            }
            ClassType::Blob(count) => self.blob(object, count),
            ClassType::Struct => self.structure(object),
            ClassType::Array(count) => {
                let length = self.length(object, count)?;
                let align = alignment(object, "minimum-alignment")?;
                self.count(size::BOX)?;
                let element = required(object, "element-field-class", |value| self.class(value))?;
                Ok(FieldClass::Array(Box::new(ArrayClass { length, element, align })))
            }
            ClassType::Optional => self.optional(object),
            ClassType::Variant => self.variant(object),
        }
    }

    fn fixed(&mut self, object: &Object<'_>, kind: IntKind) -> Result<FieldClass, Problem> {
        let bits = bits(object)?;
        let (mut roles, mut base, mut labels) = (Roles::NONE, Base::default(), None);
        match kind {
            IntKind::Unsigned | IntKind::Signed => {
                roles = self.int_roles(object, kind == IntKind::Unsigned, Some(bits.size))?;
                base = preferred_base(object)?;
                labels = self.mappings(object, "mappings")?;
            }
            IntKind::BitMap => {
                labels = self.mappings(object, "flags")?;
                match labels.as_deref() {
                    None => return Err(Problem::new("`flags` is missing")),
                    Some([]) => {
                        return Err(Problem::new("a bit map needs a flag")).add_step("flags");
                    }
                    Some(_) => {}
                }
            }
            IntKind::Bool | IntKind::BitArray => {}
        }
        if bits.size > 64 {
            if !roles.is_empty() {
                return Err(Problem::new(format!("{} bits are too many for a role", bits.size)));
            }
            return wide_integer_class(bits).ok_or_else(|| {
                let message = format!("{} bits are only supported if byte-aligned", bits.size);
                let hint = "with an `alignment` and a `length` that are multiples of 8";
                Problem::new(message).hint(Some(hint.to_owned()))
            });
        }
        let clock = self.clock(roles);
        Ok(FieldClass::Int(IntClass { bits, kind, base, mappings: labels, roles, clock }))
    }

    fn variable(&mut self, object: &Object<'_>, signed: bool) -> Result<FieldClass, Problem> {
        let roles = self.int_roles(object, !signed, None)?;
        let mappings = self.mappings(object, "mappings")?;
        Ok(FieldClass::VarInt(VarIntClass {
            signed,
            base: preferred_base(object)?,
            mappings,
            roles,
        }))
    }

    fn blob(&mut self, object: &Object<'_>, count: Count) -> Result<FieldClass, Problem> {
        let length = self.length(object, count)?;
        let mut roles = Roles::NONE;
        if let Length::Static(size) = length {
            roles = self.roles(object, |role| match role {
                Role::Uuid if size != 16 => Err("the field must have 16 bytes"),
                Role::Uuid => Ok(()),
                _ => Err("only an unsigned integer can have this role"),
            })?;
        }
        let media_type = text(object, "media-type")?;
        self.count(media_type.as_ref().map_or(0, |text| allocation(text.len())))?;
        Ok(FieldClass::Blob(BlobClass { length, media_type, roles }))
    }

    fn structure(&mut self, object: &Object<'t>) -> Result<FieldClass, Problem> {
        let align = alignment(object, "minimum-alignment")?;
        let member_values = optional(object, "member-classes", array)?.unwrap_or_default();
        let mut members = Vec::with_capacity(member_values.len());
        self.tree.enter_structure();
        for (index, value) in member_values.iter().enumerate() {
            let member = self.member(value);
            members.push(member.add_step(format_args!("member-classes[{index}]"))?);
        }
        self.tree.leave_structure();
        Ok(FieldClass::Struct(StructClass { members, align }))
    }

    fn member(&mut self, value: &Value<'t>) -> Result<Member, Problem> {
        let object = object(value)?;
        reject_extensions(object)?;
        let name = required(object, "name", json::name)?;
        self.count(size::member(name))?;
        let before = self.tree.size();
        if !self.tree.enter_member(name.clone()) {
            let message = format!("the structure has two members named {}", quote(name));
            return Err(Problem::new(message));
        }
        self.allowance.memory.charge_temporary(self.tree.size() - before)?;
        let class = required(object, "field-class", |value| self.class(value))?;
        self.tree.leave_member();
        Ok(Member { name: name.to_string(), class })
    }

    fn optional(&mut self, object: &Object<'t>) -> Result<FieldClass, Problem> {
        let integers = Kinds::UNSIGNED.or(Kinds::SIGNED);
        let (selector, kinds) = self.reference(object, "selector-field-location")?;
        let mut selector_ranges = optional(object, "selector-field-ranges", ranges)?;
        match kinds {
            None => {}
            Some(kinds) if kinds.is_subset_of(Kinds::BOOLEAN) => selector_ranges = None,
            Some(kinds) if !kinds.is_subset_of(integers) => {
                let message = "the field there is neither a boolean nor an integer";
                return Err(Problem::new(message)).add_step("selector-field-location");
            }
            Some(_) if selector_ranges.is_none() => {
                let message = "`selector-field-ranges` is missing: the selector is an integer";
                return Err(Problem::new(message));
            }
            Some(_) => {}
        }
        let list = selector_ranges.as_ref().map_or(0, |list| 2 * size::ranges(list.0.len()));
        self.count(size::BOX + list)?;
        let content = required(object, "field-class", |value| self.class(value))?;
        Ok(FieldClass::Optional(Box::new(OptionalClass {
            selector,
            ranges: selector_ranges,
            content,
        })))
    }

    fn variant(&mut self, object: &Object<'t>) -> Result<FieldClass, Problem> {
        let (selector, kinds) = self.reference(object, "selector-field-location")?;
        if kinds.is_some_and(|kinds| !kinds.is_subset_of(Kinds::UNSIGNED.or(Kinds::SIGNED))) {
            let problem = Problem::new("the field there is not an integer");
            return Err(problem).add_step("selector-field-location");
        }
        let option_values = required(object, "options", array)?;
        if option_values.is_empty() {
            return Err(Problem::new("a variant needs an option")).add_step("options");
        }
        let (mut names, mut taken) = (HashSet::new(), RangeSet::default());
        let mut options = Vec::with_capacity(option_values.len());
        for (index, value) in option_values.iter().enumerate() {
            let option = self.variant_option(value, &mut names, &mut taken);
            options.push(option.add_step(format_args!("options[{index}]"))?);
        }
        Ok(FieldClass::Variant(VariantClass { selector, options }))
    }

    fn variant_option<'v>(
        &mut self,
        value: &'v Value<'t>,
        names: &mut HashSet<&'v str>,
        taken: &mut RangeSet,
    ) -> Result<VariantOption, Problem> {
        let object = object(value)?;
        reject_extensions(object)?;
        let name = optional(object, "name", string)?;
        if let Some(name) = name
            && !names.insert(name)
        {
            let message = format!("the variant has two options named {}", quote(name));
            return Err(Problem::new(message));
        }
        let ranges = required(object, "selector-field-ranges", ranges)?;
        self.count(size::option(name.unwrap_or_default(), &ranges))?;
        if let Some(value) = ranges.0.iter().find_map(|&(low, high)| taken.overlap(low, high)) {
            let problem = Problem::new(format!("{value} already selects an earlier option"));
            return Err(problem).add_step("selector-field-ranges");
        }
        for &(low, high) in &ranges.0 {
            taken.insert(low, high);
        }
        let class = required(object, "field-class", |value| self.class(value))?;
        Ok(VariantOption { name: name.map(str::to_owned), ranges, class })
    }

    fn length(&mut self, object: &Object<'_>, count: Count) -> Result<Length, Problem> {
        if count == Count::Static {
            return required(object, "length", unsigned).map(Length::Static);
        }
        let (field, kinds) = self.reference(object, "length-field-location")?;
        if kinds.is_some_and(|kinds| !kinds.is_subset_of(Kinds::UNSIGNED)) {
            let problem = Problem::new("the field there is not an unsigned integer");
            return Err(problem).add_step("length-field-location");
        }
        Ok(Length::Dynamic(field))
    }

    /// Resolves the field location in the property `key`. Returns a reference to the field, and the
    /// kinds of the field. In an alias declaration, locations cannot be resolved yet, so the
    /// reference is a placeholder and the kinds are `None`.
    fn reference(
        &mut self,
        object: &Object<'_>,
        key: &str,
    ) -> Result<(FieldRef, Option<Kinds>), Problem> {
        required(object, key, |value| {
            let location = Location::read(value)?;
            let Some(context) = &self.context else {
                return Ok((FieldRef { scope: self.scope, path: Vec::new() }, None));
            };
            let (field, kinds) = self.tree.resolve(context.outer, &location)?;
            self.allowance.expand(field.path.iter().map(String::len).sum())?;
            self.count(size::reference(&field))?;
            Ok((field, Some(kinds)))
        })
    }

    /// Reads the labels of an integer or the flags of a bit map from the property `key`.
    fn mappings(&self, object: &Object<'_>, key: &str) -> Result<Option<Arc<[Mapping]>>, Problem> {
        optional(object, key, |value| mappings(value, |bytes| self.count(bytes)))
    }

    fn int_roles(
        &self,
        object: &Object<'_>,
        is_unsigned: bool,
        size: Option<u32>,
    ) -> Result<Roles, Problem> {
        self.roles(object, |role| match role {
            _ if !is_unsigned => Err("a signed integer cannot have a role"),
            Role::Uuid => Err("only a blob of 16 bytes can have this role"),
            Role::Magic if size != Some(32) => Err("the magic number must have 32 fixed bits"),
            Role::Magic if !self.tree.is_first_member() => {
                Err("the magic number must come first in the packet header")
            }
            _ => Ok(()),
        })
    }

    /// Reads the property `roles`. Ignores roles without a meaning in the current scope. For each
    /// other role, checks that the required UUID or clock exists, and calls `fits` to check whether
    /// the class may have the role. In an alias declaration, checks only the names of the roles.
    fn roles(
        &self,
        object: &Object<'_>,
        fits: impl Fn(Role) -> Result<(), &'static str>,
    ) -> Result<Roles, Problem> {
        let mut roles = Roles::NONE;
        for value in optional(object, "roles", array)?.unwrap_or_default() {
            let name = string(value).add_step("roles")?;
            let role = meaning(name, &ROLES).add_step("roles")?;
            let Some(context) = &self.context else { continue };
            if !role_belongs(role, self.scope) {
                continue;
            }
            let fit = match role {
                Role::Uuid if !context.has_uuid => Err("the preamble has no UUID"),
                Role::Timestamp | Role::PacketEnd if context.clock.is_none() => {
                    Err("the data stream class has no default clock class")
                }
                _ => fits(role),
            };
            fit.map_err(Problem::new).add_step(name).add_step("roles")?;
            roles = roles.with(role);
        }
        Ok(roles)
    }

    fn clock(&self, roles: Roles) -> Option<usize> {
        let is_timestamp = roles.has(Role::Timestamp) || roles.has(Role::PacketEnd);
        self.context.as_ref().filter(|_| is_timestamp)?.clock
    }
}

/// Source of a length: a constant from the metadata, or the value of an earlier field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    Static,
    Dynamic,
}

/// Meaning of a field class's `type` property.
#[derive(Clone, Copy)]
enum ClassType {
    Fixed(IntKind),
    Float,
    Variable { signed: bool },
    String,
    Text(Count),
    Blob(Count),
    Struct,
    Array(Count),
    Optional,
    Variant,
}

/// Values of the `type` property, with their meanings. The enumeration types are from drafts of CTF
/// 2, in which plain integers had no mappings.
const CLASS_TYPES: [(&str, ClassType); 22] = [
    ("fixed-length-bit-array", ClassType::Fixed(IntKind::BitArray)),
    ("fixed-length-bit-map", ClassType::Fixed(IntKind::BitMap)),
    ("fixed-length-boolean", ClassType::Fixed(IntKind::Bool)),
    ("fixed-length-unsigned-integer", ClassType::Fixed(IntKind::Unsigned)),
    ("fixed-length-signed-integer", ClassType::Fixed(IntKind::Signed)),
    ("fixed-length-unsigned-enumeration", ClassType::Fixed(IntKind::Unsigned)),
    ("fixed-length-signed-enumeration", ClassType::Fixed(IntKind::Signed)),
    ("fixed-length-floating-point-number", ClassType::Float),
    ("variable-length-unsigned-integer", ClassType::Variable { signed: false }),
    ("variable-length-signed-integer", ClassType::Variable { signed: true }),
    ("variable-length-unsigned-enumeration", ClassType::Variable { signed: false }),
    ("variable-length-signed-enumeration", ClassType::Variable { signed: true }),
    ("null-terminated-string", ClassType::String),
    ("static-length-string", ClassType::Text(Count::Static)),
    ("dynamic-length-string", ClassType::Text(Count::Dynamic)),
    ("static-length-blob", ClassType::Blob(Count::Static)),
    ("dynamic-length-blob", ClassType::Blob(Count::Dynamic)),
    ("structure", ClassType::Struct),
    ("static-length-array", ClassType::Array(Count::Static)),
    ("dynamic-length-array", ClassType::Array(Count::Dynamic)),
    ("optional", ClassType::Optional),
    ("variant", ClassType::Variant),
];

/// Rejects all extensions, because the reader supports none.
pub(super) fn reject_extensions(object: &Object<'_>) -> Result<(), Problem> {
    let namespaces = optional(object, "extensions", self::object)?;
    for (namespace, names) in namespaces.into_iter().flat_map(Object::iter) {
        let names = self::object(names).add_step(quote(namespace)).add_step("extensions")?;
        if let Some((name, _)) = names.iter().next() {
            let (name, namespace) = (quote(name), quote(namespace));
            let message = format!("the extension {name} of {namespace} is not supported");
            return Err(Problem::new(message)).add_step("extensions");
        }
    }
    Ok(())
}
