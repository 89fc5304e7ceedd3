//! Lowering of field classes. [`Lowering`] walks classes and the decoder's nodes in parallel. For
//! each visible field it derives the new class and the step that writes the field. Start at
//! [`Lowering::scope`].

use super::names;
use super::selectors::{Bounds, Labels, SelectorUse, labels};
use super::standard::{mapping, plain};
use super::target::{Key, Target};
use crate::bits::usual;
use crate::decode::{Decoder, Node};
use crate::encode::error::EncodeError;
use crate::encode::step::{Count, Prefix, Step, Write};
use crate::metadata::limits::DEPTH_MAX;
use crate::schema::*;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of classes made for a scope, and of classes collected from all scopes. Variants
/// that depend on one selector multiply their options.
const CLASSES_MAX: usize = 1 << 20;

pub(super) struct Lowering<'d> {
    pub(super) target: Target,
    source: &'d Decoder,
    nodes: &'d [Node],
    order: ByteOrder,
    steps: Vec<Step>,
    /// Slots of fields that contain the length of a string.
    slots: HashMap<Key, u16>,
    /// Bounds and labels of each integer field, because later fields may use it as a selector.
    ints: HashMap<Key, Selector>,
    uses: HashMap<Key, Vec<SelectorUse>>,
    /// For CTF 1.8: key of the selector of each variant or optional, and index of the variant or
    /// optional in the selector's `uses`. Contains only variants and optionals that can refer to
    /// their selector in the output. The map's key is the address of the class.
    use_of: HashMap<usize, (Key, usize)>,
    labels: HashMap<Key, Labels>,
    renamed: HashMap<Key, String>,
    // Current position: stream, event, scope, path in source and output, next node.
    stream: usize,
    event: Option<usize>,
    scope: Scope,
    path: Vec<String>,
    target_path: Vec<String>,
    next: usize,
    depth: usize,
    class_count: usize,
}

/// Bounds and labels of an integer, needed if the integer is a selector.
struct Selector {
    bounds: Bounds,
    mappings: Option<Arc<[Mapping]>>,
}

/// New class of a field, and the prefix field to insert before it.
struct LoweredField {
    class: FieldClass,
    prefix: Option<Member>,
}

fn empty_struct() -> FieldClass {
    FieldClass::Struct(StructClass { members: Vec::new(), align: 1 })
}

impl<'d> Lowering<'d> {
    pub(super) fn new(source: &'d Decoder, target: Target) -> Lowering<'d> {
        let nothing = Step { align: 1, write: Write::Compound, save: None, prefix: None };
        Lowering {
            target,
            source,
            nodes: source.nodes(),
            order: source.schema().trace.byte_order,
            steps: vec![nothing; source.nodes().len()],
            slots: HashMap::new(),
            ints: HashMap::new(),
            uses: HashMap::new(),
            use_of: HashMap::new(),
            labels: HashMap::new(),
            renamed: HashMap::new(),
            stream: 0,
            event: None,
            scope: Scope::PacketHeader,
            path: Vec::new(),
            target_path: Vec::new(),
            next: 0,
            depth: 0,
            class_count: 0,
        }
    }

    pub(super) fn finish(self) -> (Vec<Step>, usize) {
        (self.steps, self.slots.len())
    }

    /// Makes a scope the current one.
    pub(super) fn enter(&mut self, stream: usize, event: Option<usize>, scope: Scope) -> &mut Self {
        (self.stream, self.event, self.scope) = (stream, event, scope);
        self.path.clear();
        self.target_path.clear();
        self.depth = 0;
        self
    }

    fn key(&self) -> Key {
        Key::new(self.stream, self.event, self.scope, &self.path)
    }

    fn key_of(&self, field: &FieldRef) -> Key {
        Key::of(self.stream, self.event, field)
    }

    fn fail<T>(&self, message: &str) -> Result<T, EncodeError> {
        let scope = self.scope.tsdl_name();
        Err(EncodeError::new(format!("{scope}.{}: {message}", self.path.join("."))))
    }

    fn enter_field(&mut self) -> Result<(), EncodeError> {
        self.depth += 1;
        self.class_count += 1;
        match self.depth > DEPTH_MAX || self.class_count > CLASSES_MAX {
            true => self.fail("too many or too deeply nested fields"),
            false => Ok(()),
        }
    }

    // First pass: dependencies between fields.

    /// Collects the integers, lengths and selectors of a scope.
    pub(super) fn collect_scope(
        &mut self,
        stream: usize,
        event: Option<usize>,
        scope: Scope,
        class: &Option<FieldClass>,
    ) -> Result<(), EncodeError> {
        self.enter(stream, event, scope);
        class.as_ref().map_or(Ok(()), |class| self.collect(class))
    }

    fn collect(&mut self, class: &FieldClass) -> Result<(), EncodeError> {
        self.enter_field()?;
        match class {
            FieldClass::Int(int) => {
                let size = int.bits.size.clamp(1, 64);
                let (least, most) = match int.kind {
                    IntKind::Signed => (-(1i128 << (size - 1)), (1i128 << (size - 1)) - 1),
                    IntKind::Bool => (0, 1),
                    _ => (0, (1i128 << size) - 1),
                };
                self.integer(Bounds { least, most }, int.mappings.as_ref());
            }
            FieldClass::VarInt(int) => {
                let (least, most) = match int.signed {
                    true => (i64::MIN.into(), i64::MAX.into()),
                    false => (0, u64::MAX.into()),
                };
                self.integer(Bounds { least, most }, int.mappings.as_ref());
            }
            FieldClass::Float(_) | FieldClass::String(_) | FieldClass::Blob(_) => {}
            FieldClass::Text(text) => {
                if let Length::Dynamic(field) = &text.length
                    && !is_header(field)
                {
                    let count = self.slots.len();
                    let Ok(slot) = u16::try_from(count) else {
                        return self.fail("too many texts have lengths of their own");
                    };
                    self.slots.entry(self.key_of(field)).or_insert(slot);
                }
            }
            FieldClass::Struct(structure) => {
                for member in &structure.members {
                    self.path.push(member.name.clone());
                    let done = self.collect(&member.class);
                    self.path.pop();
                    done?;
                }
            }
            FieldClass::Array(array) => self.collect(&array.element)?,
            FieldClass::Optional(optional) => {
                let (present, absent) = match &optional.ranges {
                    None => ("true", "false"),
                    Some(_) => ("present", "absent"),
                };
                let true_ranges = || Ranges(vec![(1, u64::MAX.into())]);
                let ranges = optional.ranges.clone().unwrap_or_else(true_ranges);
                let options = vec![(Some(present.to_owned()), ranges)];
                let one = SelectorUse { options, otherwise: Some(absent), is_variant: false };
                self.register_use(&optional.selector, address(&**optional), one);
                self.collect(&optional.content)?;
            }
            FieldClass::Variant(variant) => {
                let option = |option: &VariantOption| (option.name.clone(), option.ranges.clone());
                let options = variant.options.iter().map(option).collect();
                let one = SelectorUse { options, otherwise: None, is_variant: true };
                self.register_use(&variant.selector, address(variant), one);
                for option in &variant.options {
                    self.collect(&option.class)?;
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn integer(&mut self, bounds: Bounds, mappings: Option<&Arc<[Mapping]>>) {
        let key = self.key();
        let known = self
            .ints
            .entry(key)
            .or_insert_with(|| Selector { bounds, mappings: mappings.cloned() });
        known.bounds.least = known.bounds.least.min(bounds.least);
        known.bounds.most = known.bounds.most.max(bounds.most);
    }

    fn register_use(&mut self, selector: &FieldRef, address: usize, one: SelectorUse) {
        if self.target != Target::Ctf1 || !self.is_reachable_selector(selector) {
            return;
        }
        let key = self.key_of(selector);
        let uses = self.uses.entry(key.clone()).or_default();
        self.use_of.insert(address, (key, uses.len()));
        uses.push(one);
    }

    /// Derives the labels of all selectors from their uses.
    pub(super) fn make_labels(&mut self) -> Result<(), EncodeError> {
        for (key, uses) in std::mem::take(&mut self.uses) {
            let Some(selector) = self.ints.get(&key) else {
                let name = key.path.join(".");
                return Err(EncodeError::new(format!("selector {name} is no integer")));
            };
            let known = selector.mappings.as_deref();
            let known = known.filter(|&known| normalize_labels(known, selector.bounds) == known);
            let labels = labels(&uses, known, selector.bounds)?;
            self.labels.insert(key, labels);
        }
        Ok(())
    }

    /// Returns whether a field of the output can refer to a selector. In an unchanged schema all
    /// fields can. Otherwise the selector must not be in a header and, for CTF 1.8, must be in a
    /// structure around the current field.
    fn is_reachable_selector(&self, field: &FieldRef) -> bool {
        if self.target == Target::Same {
            return true;
        }
        let parents = field.path.len().saturating_sub(1);
        let is_around = field.scope == self.scope
            && parents < self.path.len()
            && field.path[..parents] == self.path[..parents];
        !is_header(field) && (is_around || self.target != Target::Ctf1)
    }

    // Second pass: new classes, and steps.

    /// Derives the new structure of the current scope; `None` if no field of the scope is visible.
    /// `taken` are names that the structure's members must not have.
    pub(super) fn scope(
        &mut self,
        class: &Option<FieldClass>,
        taken: HashSet<String>,
    ) -> Result<Option<StructClass>, EncodeError> {
        self.class_count = 0;
        let Some(FieldClass::Struct(structure)) = class else { return Ok(None) };
        let Some(root) = self.source.scope_node(self.stream, self.event, self.scope) else {
            let is_hidden = self.target == Target::Same && self.scope != Scope::PacketContext;
            return if is_hidden { self.fail("nothing of it is visible") } else { Ok(None) };
        };
        self.next = root as usize + 1;
        let structure = self.structure(structure, root, taken)?;
        self.steps[root as usize].align = struct_align(&structure);
        Ok(Some(structure))
    }

    /// Returns for each member of a packet context whether it is visible.
    pub(super) fn shown_members(&self, stream: usize, class: &Option<FieldClass>) -> Vec<bool> {
        let Some(FieldClass::Struct(structure)) = class else { return Vec::new() };
        let root = self.source.scope_node(stream, None, Scope::PacketContext);
        let shown: HashSet<&str> = match root {
            None => HashSet::new(),
            Some(_) => self
                .nodes
                .iter()
                .filter(|node| node.parent == root)
                .filter_map(|node| node.name.as_deref())
                .collect(),
        };
        structure.members.iter().map(|member| shown.contains(member.name.as_str())).collect()
    }

    fn has_child(&self, parent: u32, name: Option<&str>) -> bool {
        let next = self.nodes.get(self.next);
        next.is_some_and(|node| {
            node.parent == Some(parent) && (name.is_none() || node.name.as_deref() == name)
        })
    }

    fn structure(
        &mut self,
        structure: &StructClass,
        node: u32,
        mut taken: HashSet<String>,
    ) -> Result<StructClass, EncodeError> {
        let mut members = Vec::with_capacity(structure.members.len());
        let mut all_names: HashSet<String> = taken.clone();
        all_names.extend(structure.members.iter().map(|member| member.name.clone()));
        for member in &structure.members {
            self.path.push(member.name.clone());
            if !self.has_child(node, Some(&member.name)) {
                if self.target == Target::Same && self.scope != Scope::PacketContext {
                    return self.fail("it has a role or clock outside of a header");
                }
                self.path.pop();
                continue;
            }
            let name = match self.target {
                Target::Ctf1 => names::unique(names::member(&member.name), &mut taken),
                Target::Ctf2 => names::unique(member.name.clone(), &mut taken),
                Target::Same => member.name.clone(),
            };
            if name != member.name {
                self.renamed.insert(self.key(), name.clone());
            }
            all_names.insert(name.clone());
            self.target_path.push(name.clone());
            let LoweredField { class, prefix } = self.field(&member.class, Some(&mut all_names))?;
            if let Some(prefix) = prefix {
                taken.insert(prefix.name.clone());
                members.push(prefix);
            }
            members.push(Member { name, class });
            self.target_path.pop();
            self.path.pop();
        }
        Ok(StructClass { members, align: structure.align })
    }

    /// Derives the output class of the field that belongs to the next node. `names` are the names
    /// in the enclosing structure; `None` if the field is no member.
    fn field(
        &mut self,
        class: &FieldClass,
        names: Option<&mut HashSet<String>>,
    ) -> Result<LoweredField, EncodeError> {
        self.enter_field()?;
        let node = self.next as u32;
        self.next += 1;
        if node as usize >= self.nodes.len() {
            return self.fail("it is not visible where it should be");
        }
        let prefix = self.prefix(class, names);
        let new = self.class(class, node, prefix.as_ref())?;
        let new = if self.target == Target::Same { class.clone() } else { new };
        let from = match class {
            FieldClass::String(string) => string.encoding,
            FieldClass::Text(text) => text.encoding,
            _ => Encoding::Utf8,
        };
        let mut step = Step::of(&new, from);
        self.finish_step(&mut step, class, &new, prefix.is_some());
        let lower = match prefix {
            Some(PrefixField { member, bits, wraps: true, .. }) => {
                let members = vec![member, Member { name: "value".to_owned(), class: new }];
                let class = FieldClass::Struct(StructClass { members, align: 1 });
                step.prefix = Some(Prefix { align: class.align(), bits });
                LoweredField { class, prefix: None }
            }
            Some(PrefixField { member, bits, wraps: false, .. }) => {
                step.prefix = Some(Prefix { align: 1, bits });
                LoweredField { class: new, prefix: Some(member) }
            }
            None => LoweredField { class: new, prefix: None },
        };
        self.steps[node as usize] = step;
        self.depth -= 1;
        Ok(lower)
    }

    fn finish_step(&self, step: &mut Step, old: &FieldClass, new: &FieldClass, prefixed: bool) {
        match (old, new) {
            (FieldClass::Int(IntClass { kind: IntKind::Bool, .. }), FieldClass::Int(int))
                if self.target == Target::Ctf1 =>
            {
                step.write = Write::Truth(int.bits);
            }
            (FieldClass::Blob(blob), FieldClass::Array(_)) => {
                step.write = Write::Blob(Count::of(&blob.length));
            }
            (FieldClass::Text(text), FieldClass::Text(_)) => {
                if let Length::Dynamic(field) = &text.length
                    && !prefixed
                    && let Some(&slot) = self.slots.get(&self.key_of(field))
                {
                    step.write = Write::Text(Count::Slot(slot));
                }
            }
            _ => {}
        }
        if let FieldClass::Int(_) | FieldClass::VarInt(_) = old {
            step.save = self.slots.get(&self.key()).copied();
        }
    }

    fn class(
        &mut self,
        class: &FieldClass,
        node: u32,
        prefix: Option<&PrefixField>,
    ) -> Result<FieldClass, EncodeError> {
        let is_ctf1 = self.target == Target::Ctf1;
        Ok(match class {
            FieldClass::Int(int) => FieldClass::Int(self.int(int)),
            FieldClass::VarInt(int) if is_ctf1 => {
                let kind = if int.signed { IntKind::Signed } else { IntKind::Unsigned };
                let labels = self.mappings(int.mappings.as_deref());
                let plain = plain(64, self.order, kind);
                FieldClass::Int(IntClass { base: int.base, mappings: labels, ..plain })
            }
            FieldClass::VarInt(int) => {
                FieldClass::VarInt(VarIntClass { roles: Roles::NONE, ..int.clone() })
            }
            FieldClass::Float(float) => FieldClass::Float(self.float(float)),
            FieldClass::String(string) => {
                FieldClass::String(StringClass { encoding: self.encoding(string.encoding) })
            }
            FieldClass::Text(text) if is_ctf1 && text.encoding.unit_size() > 1 => {
                FieldClass::String(StringClass { encoding: Encoding::Utf8 })
            }
            FieldClass::Text(text) => FieldClass::Text(TextClass {
                length: self.length(&text.length, prefix),
                encoding: self.encoding(text.encoding),
            }),
            FieldClass::Blob(blob) if is_ctf1 => {
                let byte = plain(8, self.order, IntKind::Unsigned);
                let byte = IntClass { base: Base::Hexadecimal, ..byte };
                FieldClass::Array(Box::new(ArrayClass {
                    length: self.length(&blob.length, prefix),
                    element: FieldClass::Int(byte),
                    align: 1,
                }))
            }
            FieldClass::Blob(blob) => FieldClass::Blob(BlobClass {
                length: self.length(&blob.length, prefix),
                media_type: blob.media_type.clone(),
                roles: Roles::NONE,
            }),
            FieldClass::Struct(structure) => {
                FieldClass::Struct(self.structure(structure, node, HashSet::new())?)
            }
            FieldClass::Array(array) => FieldClass::Array(Box::new(ArrayClass {
                length: self.length(&array.length, prefix),
                element: self.field(&array.element, None)?.class,
                align: if is_ctf1 { 1 } else { array.align },
            })),
            FieldClass::Optional(optional) => {
                let content = match self.has_child(node, None) {
                    true => self.field(&optional.content, None)?.class,
                    false => empty_struct(),
                };
                self.optional(optional, content, prefix)?
            }
            FieldClass::Variant(variant) => {
                let mut options = Vec::with_capacity(variant.options.len());
                for option in &variant.options {
                    options.push(self.field(&option.class, None)?.class);
                }
                self.variant(variant, options, prefix)?
            }
        })
    }

    fn int(&self, int: &IntClass) -> IntClass {
        let bits = self.bits(int.bits);
        let (roles, clock) = (Roles::NONE, None);
        let same = IntClass { bits, roles, clock, ..int.clone() };
        if self.target != Target::Ctf1 {
            return same;
        }
        let is_hexadecimal = int.base == Base::Hexadecimal
            || matches!(int.kind, IntKind::BitArray | IntKind::BitMap);
        let same = match bits.size {
            // babeltrace2 prints hexadecimal integers of 61 to 63 bits as 0.
            61..=63 if is_hexadecimal => {
                IntClass { bits: usual(64, bits.align.max(8), self.order), ..same }
            }
            _ => same,
        };
        match int.kind {
            IntKind::Unsigned | IntKind::Signed => {
                IntClass { mappings: self.mappings(int.mappings.as_deref()), ..same }
            }
            IntKind::Bool => {
                let known = [mapping("false", 0, 0), mapping("true", 1, 1)];
                let byte = plain(8, self.order, IntKind::Unsigned);
                IntClass { mappings: self.mappings(Some(&known)), ..byte }
            }
            IntKind::BitArray | IntKind::BitMap => IntClass {
                kind: IntKind::Unsigned,
                base: Base::Hexadecimal,
                mappings: None,
                ..same
            },
        }
    }

    /// Returns the labels of the current integer in CTF 1.8. A selector has the labels derived for
    /// it; any other integer has its `own` labels, as far as CTF 1.8 can express them.
    fn mappings(&self, own: Option<&[Mapping]>) -> Option<Arc<[Mapping]>> {
        let key = self.key();
        if let Some(labels) = self.labels.get(&key) {
            return Some(labels.mappings.as_slice().into())
                .filter(|labels: &Arc<[_]>| !labels.is_empty());
        }
        let bounds = self.ints.get(&key).map(|selector| selector.bounds);
        let bounds = bounds.unwrap_or(Bounds { least: 0, most: 1 });
        own.map(|own| normalize_labels(own, bounds))
            .filter(|mappings| !mappings.is_empty())
            .map(Arc::from)
    }

    /// Converts a layout to the usual bit order. A field that may share bytes with other fields
    /// also gets the trace's byte order.
    fn bits(&self, bits: Bits) -> Bits {
        let whole = bits.size.is_multiple_of(8) && bits.align >= 8;
        let order = if whole { bits.byte_order } else { self.order };
        usual(bits.size, bits.align, order)
    }

    fn float(&self, float: &FloatClass) -> FloatClass {
        let exponent = match (float.bits.size, self.target) {
            (32, _) => 8,
            (64, _) => 11,
            (16, Target::Ctf2) => 5,
            (128, Target::Ctf2) => 15,
            _ => 0,
        };
        if float.exponent == exponent {
            return FloatClass { bits: self.bits(float.bits), ..float.clone() };
        }
        let bits = usual(64, float.bits.align.max(8), self.order);
        FloatClass { bits, exponent: 11, mantissa: 53 }
    }

    fn encoding(&self, encoding: Encoding) -> Encoding {
        match (self.target, encoding) {
            (Target::Ctf2, Encoding::Ascii) => Encoding::Utf8,
            (Target::Ctf1, encoding) if encoding.unit_size() > 1 => Encoding::Utf8,
            _ => encoding,
        }
    }

    fn length(&self, length: &Length, prefix: Option<&PrefixField>) -> Length {
        match length {
            Length::Static(length) => Length::Static(*length),
            Length::Dynamic(field) => Length::Dynamic(self.reference(field, prefix)),
        }
    }

    /// Converts a reference for the output. If a prefix has been inserted, refers to the prefix,
    /// otherwise to `field` with the new names on its path.
    fn reference(&self, field: &FieldRef, prefix: Option<&PrefixField>) -> FieldRef {
        if let Some(prefix) = prefix {
            return prefix.field.clone();
        }
        let name = |index: usize| {
            let path = &field.path[..=index];
            let key = Key::new(self.stream, self.event, field.scope, path);
            self.renamed.get(&key).unwrap_or(&field.path[index]).clone()
        };
        FieldRef { scope: field.scope, path: (0..field.path.len()).map(name).collect() }
    }

    fn optional(
        &mut self,
        optional: &OptionalClass,
        content: FieldClass,
        prefix: Option<&PrefixField>,
    ) -> Result<FieldClass, EncodeError> {
        let selector = self.reference(&optional.selector, prefix);
        if self.target == Target::Ctf1 {
            let options = vec![content, empty_struct()];
            return self.labelled_variant(address(optional), selector, options, prefix);
        }
        let ranges = if prefix.is_some() { None } else { optional.ranges.clone() };
        Ok(FieldClass::Optional(Box::new(OptionalClass { selector, ranges, content })))
    }

    fn variant(
        &mut self,
        variant: &VariantClass,
        classes: Vec<FieldClass>,
        prefix: Option<&PrefixField>,
    ) -> Result<FieldClass, EncodeError> {
        let selector = self.reference(&variant.selector, prefix);
        if self.target == Target::Ctf1 {
            return self.labelled_variant(address(variant), selector, classes, prefix);
        }
        let options = variant.options.iter().zip(classes).enumerate();
        let options = options.map(|(index, (option, class))| VariantOption {
            name: option.name.clone(),
            ranges: match prefix {
                Some(_) => Ranges(vec![(index as i128, index as i128)]),
                None => option.ranges.clone(),
            },
            class,
        });
        Ok(FieldClass::Variant(VariantClass { selector, options: options.collect() }))
    }

    /// Makes a variant whose options are named by the labels of its selector.
    fn labelled_variant(
        &mut self,
        address: usize,
        selector: FieldRef,
        classes: Vec<FieldClass>,
        prefix: Option<&PrefixField>,
    ) -> Result<FieldClass, EncodeError> {
        let of_prefix;
        let (mappings, choices) = match (prefix, self.use_of.get(&address)) {
            (Some(prefix), _) => {
                of_prefix = (0..prefix.order.len()).map(|l| (l, prefix.order[l])).collect();
                (&prefix.mappings[..], &of_prefix)
            }
            (None, Some((key, number))) => match self.labels.get(key) {
                Some(labels) => (&labels.mappings[..], &labels.choices[*number]),
                None => (&[][..], &Vec::new()),
            },
            (None, None) => (&[][..], &Vec::new()),
        };
        let mut options = Vec::with_capacity(choices.len());
        for &(label, option) in choices {
            let class = &classes[option];
            self.class_count += class_count(class);
            if self.class_count > CLASSES_MAX {
                return self.fail("its selector's variants would have too many options");
            }
            options.push(VariantOption {
                name: Some(mappings[label].label.clone()),
                ranges: mappings[label].ranges.clone(),
                class: class.clone(),
            });
        }
        match options.is_empty() {
            true => self.fail("no value of its selector chooses an option"),
            false => Ok(FieldClass::Variant(VariantClass { selector, options })),
        }
    }

    /// Makes the prefix field of a field that cannot refer to its length or selector in the output.
    fn prefix(
        &self,
        class: &FieldClass,
        names: Option<&mut HashSet<String>>,
    ) -> Option<PrefixField> {
        if self.target == Target::Same {
            return None;
        }
        let is_ctf1 = self.target == Target::Ctf1;
        let mut taken = HashSet::new();
        let plain = |size, kind| plain(size, self.order, kind);
        let (suffix, int, order) = match class {
            FieldClass::Variant(variant) if !self.is_reachable_selector(&variant.selector) => {
                let label = |(index, option): (usize, &VariantOption)| {
                    let name = option.name.as_deref().unwrap_or_default();
                    let name = names::option(name, "option", &mut taken);
                    mapping(&name, index as i128, index as i128)
                };
                let mappings = variant.options.iter().enumerate().map(label).collect();
                let mappings = Some(mappings).filter(|_| is_ctf1);
                let int = IntClass { mappings, ..plain(32, IntKind::Unsigned) };
                ("tag", int, (0..variant.options.len()).collect())
            }
            FieldClass::Optional(optional) if !self.is_reachable_selector(&optional.selector) => {
                let labels = [mapping("absent", 0, 0), mapping("present", 1, 1)].into();
                let int = match is_ctf1 {
                    true => IntClass { mappings: Some(labels), ..plain(8, IntKind::Unsigned) },
                    false => plain(8, IntKind::Bool),
                };
                // Options are content and empty structure, so "absent" (0) selects option 1,
                // "present" (1) option 0.
                ("tag", int, vec![1, 0])
            }
            class if length_field(class).is_some_and(is_header) => {
                let is_text = matches!(class, FieldClass::Text(text)
                    if is_ctf1 && text.encoding.unit_size() > 1);
                if is_text {
                    return None;
                }
                ("length", plain(64, IntKind::Unsigned), Vec::new())
            }
            _ => return None,
        };
        let wraps = names.is_none();
        let mut path = self.target_path.clone();
        let name = match (names, path.last()) {
            (Some(names), Some(last)) => {
                let name = names::unique(format!("{last}_{suffix}"), names);
                path.pop();
                name
            }
            _ => suffix.to_owned(),
        };
        path.push(name.clone());
        Some(PrefixField {
            field: FieldRef { scope: self.scope, path },
            bits: int.bits,
            mappings: int.mappings.clone().unwrap_or_default(),
            order,
            wraps,
            member: Member { name, class: FieldClass::Int(int) },
        })
    }
}

/// Integer field inserted before another field, with the length or selector value that the other
/// field needs.
struct PrefixField {
    field: FieldRef,
    bits: Bits,
    member: Member,
    mappings: Arc<[Mapping]>,
    /// Index of the option that each label selects, by index of the label; empty if the prefix
    /// contains a length.
    order: Vec<usize>,
    /// True if prefix and field are put into a new structure, because the field is not a member of
    /// a structure.
    wraps: bool,
}

fn is_header(field: &FieldRef) -> bool {
    matches!(field.scope, Scope::PacketHeader | Scope::EventHeader)
}

fn address<T>(class: &T) -> usize {
    std::ptr::from_ref(class).addr()
}

fn struct_align(structure: &StructClass) -> u64 {
    let members = structure.members.iter().map(|member| member.class.align());
    members.fold(structure.align.max(1), u64::max)
}

fn class_count(class: &FieldClass) -> usize {
    1 + match class {
        FieldClass::Struct(structure) => {
            structure.members.iter().map(|member| class_count(&member.class)).sum()
        }
        FieldClass::Array(array) => class_count(&array.element),
        FieldClass::Optional(optional) => class_count(&optional.content),
        FieldClass::Variant(variant) => {
            variant.options.iter().map(|option| class_count(&option.class)).sum()
        }
        _ => 0,
    }
}

/// Converts labels to the form of a CTF 1.8 enumeration: each label once, with ranges within the
/// bounds.
fn normalize_labels(mappings: &[Mapping], bounds: Bounds) -> Vec<Mapping> {
    let Bounds { least, most } = bounds;
    let mut cleaned: Vec<Mapping> = Vec::with_capacity(mappings.len());
    let mut index_of: HashMap<&str, usize> = HashMap::new();
    for Mapping { label, ranges } in mappings {
        let ranges = ranges.0.iter().map(|&(low, high)| (low.max(least), high.min(most)));
        let ranges = ranges.filter(|(low, high)| low <= high);
        let index = *index_of.entry(label).or_insert(cleaned.len());
        if index == cleaned.len() {
            cleaned.push(Mapping { label: label.clone(), ranges: Ranges::default() });
        }
        cleaned[index].ranges.0.extend(ranges);
    }
    cleaned.retain(|mapping| !mapping.ranges.0.is_empty());
    cleaned
}

/// Returns the reference to the field with the length of `class`, if the length is dynamic.
fn length_field(class: &FieldClass) -> Option<&FieldRef> {
    let length = match class {
        FieldClass::Array(array) => &array.length,
        FieldClass::Text(text) => &text.length,
        FieldClass::Blob(blob) => &blob.length,
        _ => return None,
    };
    match length {
        Length::Static(_) => None,
        Length::Dynamic(field) => Some(field),
    }
}
