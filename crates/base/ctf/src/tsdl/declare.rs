//! Conversion of type specifications to [`Type`]s. [`Declarations`] stores the names declared in
//! each lexical scope, and looks them up from the innermost scope outwards. Start at
//! [`Declarations::type_of`].

use super::attributes::AttributeReader;
use super::lexer::shortened;
use super::syntax::{
    Align, Declarator, EnumSpec, Enumerator, LengthSpec, Path, Statement, TypeKind, TypeSpec, Value,
};
use super::types::{
    ArrayType, DuplicateMember, Enumeration, IntType, LengthType, MemberType, Members, PathRef,
    StructType, Type, VariantType,
};
use crate::decode::size;
use crate::metadata::budget::{allocation, owned_size, table_entry};
use crate::metadata::error::MetadataError;
use crate::metadata::limits::DEPTH_MAX;
use crate::metadata::suggest::did_you_mean;
use crate::schema::{Base, EnvValue, IntKind, Mapping, Ranges};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

pub(super) struct Declarations<'t> {
    pub(super) reader: AttributeReader<'t>,
    /// Environment of the trace, to which lengths such as `x[env.count]` refer.
    pub(super) env: Environment<'t>,
    /// Declared types by name, one table per lexical scope, the innermost last. The names of
    /// structures, variants and enumerations include their keyword.
    scopes: Vec<HashMap<Cow<'t, str>, Type<'t>>>,
}

/// Environment of the trace, in order of appearance, with an index by name.
#[derive(Default)]
pub(super) struct Environment<'t> {
    pub(super) list: Vec<(String, EnvValue)>,
    pub(super) index: HashMap<Cow<'t, str>, usize>,
}

impl Environment<'_> {
    pub(super) fn get(&self, key: &str) -> Option<&EnvValue> {
        Some(&self.list.get(*self.index.get(key)?)?.1)
    }
}

impl<'t> Declarations<'t> {
    pub(super) fn new(reader: AttributeReader<'t>) -> Declarations<'t> {
        Declarations { reader, env: Environment::default(), scopes: vec![HashMap::new()] }
    }

    /// Runs `inside` in a new lexical scope.
    pub(super) fn scoped<T>(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<T, MetadataError>,
    ) -> Result<T, MetadataError> {
        self.scopes.push(HashMap::new());
        let result = inside(self);
        self.scopes.pop();
        result
    }

    /// Declares the types of a `typedef`, `typealias` or declaration without a field. Returns any
    /// other statement.
    pub(super) fn declare<'s>(
        &mut self,
        statement: &'s Statement<'t>,
    ) -> Result<Option<&'s Statement<'t>>, MetadataError> {
        match statement {
            Statement::Declaration(class) => {
                self.type_of(class)?;
            }
            Statement::Typedef { class, names } => {
                let shared = self.declared_type(class, names)?;
                for declarator in names {
                    let declared = self.declarator_type(class, shared.as_ref(), declarator)?;
                    self.register(declarator.name.clone(), declared, declarator.at)?;
                }
            }
            Statement::Typealias(alias) => {
                let declarator = std::slice::from_ref(&alias.declarator);
                let shared = self.declared_type(&alias.class, declarator)?;
                let declared =
                    self.declarator_type(&alias.class, shared.as_ref(), &alias.declarator)?;
                self.register(alias.name.clone(), declared, alias.at)?;
            }
            _ => return Ok(Some(statement)),
        }
        Ok(None)
    }

    /// Converts a type specification. Also declares a name that it defines, as in
    /// `struct name { … }`.
    pub(super) fn type_of(&mut self, spec: &TypeSpec<'t>) -> Result<Type<'t>, MetadataError> {
        match &spec.kind {
            TypeKind::Named(name) => self.lookup(name, spec.at),
            TypeKind::Integer(attributes) => self.reader.integer(spec.at, attributes),
            TypeKind::Float(attributes) => self.reader.float(spec.at, attributes),
            TypeKind::String(attributes) => self.reader.string(attributes),
            TypeKind::Struct { name, body, align } => {
                self.structure(name.as_deref(), body.as_deref(), *align, spec.at)
            }
            TypeKind::Variant { name, tag, body } => {
                self.variant(name.as_deref(), tag.as_ref(), body.as_deref(), spec.at)
            }
            TypeKind::Enum(spec_of_enum) => self.enumeration(spec_of_enum, spec.at),
        }
    }

    fn error(&self, at: usize, message: impl Into<String>) -> MetadataError {
        self.reader.error(at, message)
    }

    fn lookup(&self, name: &str, at: usize) -> Result<Type<'t>, MetadataError> {
        if let Some(found) = self.find(name) {
            return Ok(found.clone());
        }
        // An alias of `int` also applies to `const int`.
        let words = || name.split(' ').filter(|word| *word != "const");
        if let Some(found) = self.find(&words().collect::<Vec<_>>().join(" ")) {
            return Ok(found.clone());
        }
        let names = self.scopes.iter().flat_map(|scope| scope.keys().map(AsRef::as_ref));
        let error = self.error(at, format!("unknown type `{}`", shortened(name)));
        Err(did_you_mean(error, name, names))
    }

    fn find(&self, name: &str) -> Option<&Type<'t>> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn register(
        &mut self,
        name: Cow<'t, str>,
        class: Type<'t>,
        at: usize,
    ) -> Result<(), MetadataError> {
        self.reader
            .charge_temporary(at, table_entry::<Cow<'_, str>, Type<'_>>() + owned_size(&name))?;
        if let Type::Variant(variant) = &class
            && variant.tag.is_none()
            && !name.starts_with("variant ")
        {
            return Err(self
                .error(at, format!("`{}` is a variant without a tag", shortened(&name)))
                .hint("write `variant name { … };`, and `variant name <tag>` where it is used"));
        }
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        match scope.entry(name) {
            Entry::Vacant(vacant) => {
                vacant.insert(class);
                Ok(())
            }
            Entry::Occupied(taken) => {
                let message =
                    format!("type `{}` is already declared in this scope", shortened(taken.key()));
                Err(self.reader.error(at, message))
            }
        }
    }

    fn check_depth(&self, depth: usize, at: usize) -> Result<(), MetadataError> {
        match depth > DEPTH_MAX {
            true => Err(self.error(at, format!("nested more than {DEPTH_MAX} levels deep"))),
            false => Ok(()),
        }
    }

    fn structure(
        &mut self,
        name: Option<&str>,
        body: Option<&[Statement<'t>]>,
        align: Option<Align>,
        at: usize,
    ) -> Result<Type<'t>, MetadataError> {
        let full_name = name.map(|name| format!("struct {name}"));
        let Some(body) = body else {
            let found = self.lookup(full_name.as_deref().unwrap_or_default(), at)?;
            return match (found, align) {
                (found, None) => Ok(found),
                (Type::Struct(_), Some(align)) => Err(self
                    .error(align.at, "`align` after the name of a structure")
                    .hint("it belongs to the declaration, after `}`")),
                (_, Some(align)) => Err(self.error(align.at, "`align` of what is no structure")),
            };
        };
        let align = match align {
            None => 1,
            Some(Align { value, at }) => {
                u64::try_from(value).ok().filter(|align| align.is_power_of_two()).ok_or_else(
                    || self.error(at, format!("alignment {value}, expected a power of two")),
                )?
            }
        };
        let members = self.members(body)?;
        let depth = members.depth() + 1;
        self.check_depth(depth, at)?;
        self.reader.charge_temporary(at, allocation(size_of::<StructType<'_>>() + 16))?;
        let structure = Type::Struct(Rc::new(StructType { members, align, depth }));
        if let Some(full_name) = full_name {
            self.register(full_name.into(), structure.clone(), at)?;
        }
        Ok(structure)
    }

    fn variant(
        &mut self,
        name: Option<&str>,
        tag: Option<&Path<'t>>,
        body: Option<&[Statement<'t>]>,
        at: usize,
    ) -> Result<Type<'t>, MetadataError> {
        self.reader.charge_temporary(
            at,
            allocation(size_of::<VariantType<'_>>() + size_of::<Members<'_>>() + 32),
        )?;
        let full_name = name.map(|name| format!("variant {name}"));
        let tag = tag.map(|tag| self.path(&tag.text, tag.at)).transpose()?;
        let Some(body) = body else {
            return match self.lookup(full_name.as_deref().unwrap_or_default(), at)? {
                Type::Variant(declared) => {
                    let options = declared.options.clone();
                    let tag = tag.or_else(|| declared.tag.clone());
                    let depth = declared.depth;
                    Ok(Type::Variant(Rc::new(VariantType { options, tag, at, depth })))
                }
                other => Ok(other),
            };
        };
        let options = self.members(body)?;
        let depth = options.depth() + 1;
        self.check_depth(depth, at)?;
        let options = Rc::new(options);
        let variant = Type::Variant(Rc::new(VariantType { options, tag, at, depth }));
        if let Some(full_name) = full_name {
            self.register(full_name.into(), variant.clone(), at)?;
        }
        Ok(variant)
    }

    /// Converts the fields of a structure or variant.
    fn members(&mut self, body: &[Statement<'t>]) -> Result<Members<'t>, MetadataError> {
        self.scoped(|this| {
            let mut members = Vec::new();
            for statement in body {
                let Some(Statement::Field { class, names }) = this.declare(statement)? else {
                    continue;
                };
                let shared = this.declared_type(class, names)?;
                for declarator in names {
                    let field = this.declarator_type(class, shared.as_ref(), declarator)?;
                    if let Type::Variant(variant) = innermost(&field)
                        && variant.tag.is_none()
                    {
                        return Err(this
                            .error(variant.at, "variant without a tag")
                            .hint("write `variant <tag> …` with the name of an enumeration"));
                    }
                    let size = size_of::<MemberType<'_>>() + size_of::<u32>();
                    this.reader
                        .charge_temporary(declarator.at, size + owned_size(&declarator.name))?;
                    members.push(MemberType::new(declarator.name.clone(), field, declarator.at));
                }
            }
            Members::new(members).map_err(|DuplicateMember { name, at, first_at }| {
                let (line, column) = this.error(first_at, "").position.unwrap_or_default();
                this.error(at, format!("2nd field named `{}`", shortened(&name)))
                    .hint(format!("the 1st is on line {line}, column {column}"))
            })
        })
    }

    /// Returns the type that the declarators of `class` share; `None` if all declarators are
    /// pointers.
    fn declared_type(
        &mut self,
        class: &TypeSpec<'t>,
        names: &[Declarator<'t>],
    ) -> Result<Option<Type<'t>>, MetadataError> {
        match names.iter().all(|name| !name.pointers.is_empty()) {
            true => Ok(None),
            false => self.type_of(class).map(Some),
        }
    }

    fn declarator_type(
        &self,
        class: &TypeSpec<'t>,
        shared: Option<&Type<'t>>,
        declarator: &Declarator<'t>,
    ) -> Result<Type<'t>, MetadataError> {
        let mut declared = match shared {
            Some(shared) if declarator.pointers.is_empty() => shared.clone(),
            _ => self.pointer(class, declarator)?,
        };
        for length in declarator.lengths.iter().rev() {
            let length = self.length(length)?;
            let depth = declared.depth() + 1;
            self.check_depth(depth, declarator.at)?;
            self.reader
                .charge_temporary(declarator.at, allocation(size_of::<ArrayType<'_>>() + 16))?;
            declared = Type::Array(Rc::new(ArrayType { element: declared, length, depth }));
        }
        Ok(declared)
    }

    /// Looks up the type declared under a pointer's full name, such as `int *`. If the type is an
    /// integer, its base becomes hexadecimal.
    fn pointer(
        &self,
        class: &TypeSpec<'t>,
        declarator: &Declarator<'t>,
    ) -> Result<Type<'t>, MetadataError> {
        let name = match &class.kind {
            TypeKind::Named(name) => Cow::Borrowed(name.as_ref()),
            TypeKind::Struct { name: Some(name), .. } => Cow::Owned(format!("struct {name}")),
            _ => return Err(self.error(class.at, "pointer to a type without a name")),
        };
        let mut found = self.lookup(&format!("{name}{}", declarator.pointers), class.at)?;
        if let Type::Int(int) = &mut found {
            int.base = Base::Hexadecimal;
        }
        Ok(found)
    }

    fn length(&self, length: &LengthSpec<'t>) -> Result<LengthType, MetadataError> {
        let path = match &length.value {
            Value::Integer(value) => {
                return u64::try_from(*value).map(LengthType::Static).map_err(|_| {
                    self.error(length.at, format!("{value} is no number of elements"))
                });
            }
            Value::Text(path) => path,
        };
        let Some(key) = path.strip_prefix("env.") else {
            return Ok(LengthType::Dynamic(self.path(path, length.at)?));
        };
        match self.env.get(key) {
            Some(EnvValue::Int(value)) if *value >= 0 => Ok(LengthType::Static(*value as u64)),
            Some(_) => {
                let message = format!("`{}` is no number of elements", shortened(path));
                Err(self.error(length.at, message))
            }
            None => {
                let message = format!("there is no `{}` in the environment", shortened(key));
                let error = self.error(length.at, message);
                Err(did_you_mean(error, key, self.env.index.keys().map(AsRef::as_ref)))
            }
        }
    }

    fn path(&self, text: &str, at: usize) -> Result<Rc<PathRef>, MetadataError> {
        let words = || text.split('.');
        if words().count() > 2 * DEPTH_MAX || words().any(str::is_empty) {
            return Err(self.error(at, format!("`{}` names no field", shortened(text))));
        }
        let sizes = words().map(|word| size_of::<String>() + allocation(word.len()));
        let size = allocation(size_of::<PathRef>() + 16) + sizes.sum::<usize>();
        self.reader.charge_temporary(at, size)?;
        Ok(Rc::new(PathRef { words: words().map(str::to_owned).collect(), at }))
    }

    fn enumeration(&mut self, spec: &EnumSpec<'t>, at: usize) -> Result<Type<'t>, MetadataError> {
        let full_name = spec.name.as_ref().map(|name| format!("enum {name}"));
        let Some(labels) = &spec.labels else {
            return self.lookup(full_name.as_deref().unwrap_or_default(), at);
        };
        let container = match &spec.container {
            Some(container) => self.type_of(container)?,
            None => self.find("int").cloned().ok_or_else(|| {
                self.error(at, "enumeration without a type")
                    .hint("write `enum : type { … }`, or declare a type `int`")
            })?,
        };
        let mut int = match container {
            Type::Int(int @ IntType { enumeration: None, .. }) => int,
            other => {
                let message = format!("enumeration over {}, not an integer", other.describe());
                let at = spec.container.as_ref().map_or(at, |container| container.at);
                return Err(self.error(at, message));
            }
        };
        int.enumeration = Some(Rc::new(self.mappings(labels, int.kind)?));
        let enumeration = Type::Int(int);
        if let Some(full_name) = full_name {
            self.register(full_name.into(), enumeration.clone(), at)?;
        }
        Ok(enumeration)
    }

    fn mappings(
        &self,
        labels: &[Enumerator<'t>],
        kind: IntKind,
    ) -> Result<Enumeration, MetadataError> {
        let mut mappings: Vec<Mapping> = Vec::new();
        let mut index = HashMap::new();
        let mut next = 0;
        for Enumerator { label, at, range } in labels {
            let (low, high) = range.unwrap_or((next, next));
            let range = fit(low, kind).zip(fit(high, kind)).filter(|(low, high)| low <= high);
            let Some((low, high)) = range else {
                let message = match low == high {
                    true => format!("{low} needs more than 64 bits"),
                    false => format!("no values from {low} to {high}"),
                };
                return Err(self.error(*at, format!("label `{}`: {message}", shortened(label))));
            };
            next = high + 1;
            match index.entry(label.as_ref()) {
                Entry::Vacant(vacant) => {
                    let sizes = size::mapping(label, 1) + size_of::<u32>();
                    self.reader.charge(*at, sizes)?;
                    self.reader.charge_temporary(*at, table_entry::<&str, usize>())?;
                    vacant.insert(mappings.len());
                    let (label, ranges) = (label.to_string(), Ranges(vec![(low, high)]));
                    mappings.push(Mapping { label, ranges });
                }
                Entry::Occupied(known) => {
                    // The capacity of a growing vector is up to twice its length.
                    self.reader.charge(*at, 2 * size_of::<(i128, i128)>())?;
                    mappings[*known.get()].ranges.0.push((low, high));
                }
            }
        }
        Ok(Enumeration::new(mappings))
    }
}

/// Converts a label's value to the 64-bit range of the integer's kind; an unsigned -1 becomes the
/// largest value. Returns `None` if the value has more than 64 bits.
fn fit(value: i128, kind: IntKind) -> Option<i128> {
    match kind {
        IntKind::Signed => i64::try_from(value)
            .ok()
            .or_else(|| u64::try_from(value).ok().map(u64::cast_signed))
            .map(i128::from),
        _ => u64::try_from(value)
            .ok()
            .or_else(|| i64::try_from(value).ok().map(i64::cast_unsigned))
            .map(i128::from),
    }
}

/// Returns the innermost element type of nested arrays. Returns any other type unchanged.
fn innermost<'a, 't>(mut class: &'a Type<'t>) -> &'a Type<'t> {
    while let Type::Array(array) = class {
        class = &array.element;
    }
    class
}
