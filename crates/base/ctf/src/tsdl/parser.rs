//! From tokens to the syntax tree. Start at [`parse`], which reads statement by statement.
//!
//! TSDL's grammar needs no table of type names as long as the last word before `[`, `,` or `;` is
//! taken for the field's name and those before it for its type.

use super::lexer::{self, Kind, Lexer, Token};
use super::syntax::{
    Align, Attribute, Block, BlockKind, Declarator, EnumSpec, Enumerator, LengthSpec, Path,
    Statement, TypeKind, TypeSpec, Typealias, Value,
};
use crate::metadata::{DEPTH_MAX, MetadataError};
use std::borrow::Cow;

/// More statements, attributes and labels than any real trace has; bounds the tree's memory.
const NODES_MAX: usize = 1 << 23;

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Vec<Statement<'_>>, MetadataError> {
    let mut lexer = Lexer::new(text);
    let current = lexer.next()?;
    let following = lexer.next()?;
    let mut parser = Parser { text, lexer, current, following, depth: 0, nodes: 0 };
    let mut statements = Vec::new();
    while parser.current.kind != Kind::End {
        if let Some(statement) = parser.root_statement()? {
            statements.push(statement);
        }
    }
    Ok(statements)
}

/// Where a statement stands decides what it may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Block,
    /// Inside a structure or variant.
    Fields,
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    current: Token<'t>,
    following: Token<'t>,
    depth: usize,
    nodes: usize,
}

impl<'t> Parser<'t> {
    fn root_statement(&mut self) -> Result<Option<Statement<'t>>, MetadataError> {
        if self.skip(";")? {
            return Ok(None);
        }
        let Some(kind) = self.block_kind() else {
            return self.declaration(Place::Root).map(Some);
        };
        let at = self.advance()?.at;
        let body = self.braces(|parser| parser.block_statement())?;
        self.end_of_statement()?;
        Ok(Some(Statement::Block(Block { kind, at, body })))
    }

    fn block_kind(&self) -> Option<BlockKind> {
        let Kind::Word(word) = &self.current.kind else { return None };
        if self.following.kind != Kind::Symbol("{") {
            return None;
        }
        match word.as_ref() {
            "trace" => Some(BlockKind::Trace),
            "env" => Some(BlockKind::Env),
            "clock" => Some(BlockKind::Clock),
            "stream" => Some(BlockKind::Stream),
            "event" => Some(BlockKind::Event),
            "callsite" => Some(BlockKind::Callsite),
            _ => None,
        }
    }

    /// Attributes may have keywords for names, so what follows the first word decides.
    fn block_statement(&mut self) -> Result<Statement<'t>, MetadataError> {
        let is_attribute = match self.current.kind {
            Kind::Text(_) => true,
            Kind::Word(_) => {
                matches!(self.following.kind, Kind::Symbol("=" | ":=" | "." | "->" | ":"))
            }
            _ => false,
        };
        if !is_attribute {
            return self.declaration(Place::Block);
        }
        let at = self.current.at;
        let key = self.dotted("the name of an attribute")?;
        let statement = if self.skip(":=")? {
            Statement::Assignment { key, at, class: self.type_spec(false)?.0 }
        } else {
            Statement::Attribute(self.attribute_value(key, at)?)
        };
        self.end_of_statement()?;
        Ok(statement)
    }

    /// The rest of an attribute after its name.
    fn attribute_value(
        &mut self,
        key: Cow<'t, str>,
        at: usize,
    ) -> Result<Attribute<'t>, MetadataError> {
        self.count_node()?;
        if self.is_symbol(":") {
            return Err(self.unexpected("`=`").hint("a type is assigned with `:=`"));
        }
        self.expect("=")?;
        let value_at = self.current.at;
        Ok(Attribute { key, at, value: self.value()?, value_at })
    }

    /// `{ key = value; … }` of an `integer`, `floating_point` or `string`.
    fn attributes(&mut self) -> Result<Vec<Attribute<'t>>, MetadataError> {
        self.braces(|parser| {
            let at = parser.current.at;
            let key = parser.dotted("the name of an attribute")?;
            let attribute = parser.attribute_value(key, at)?;
            parser.end_of_statement()?;
            Ok(attribute)
        })
    }

    fn declaration(&mut self, place: Place) -> Result<Statement<'t>, MetadataError> {
        self.count_node()?;
        if self.is_word("typealias") {
            return self.typealias();
        }
        let (class, is_typedef) = self.type_spec(true)?;
        if self.is_symbol(";") && !is_typedef {
            let is_type = !matches!(class.kind, TypeKind::Named(_));
            if !is_type || (place == Place::Fields && !declares_name(&class.kind)) {
                return Err(self.unexpected("the name of a field"));
            }
            self.advance()?;
            return Ok(Statement::Declaration(class));
        }
        if !is_typedef && place != Place::Fields {
            return Err(self
                .unexpected("`;`")
                .hint("fields are declared in structures, types with `typedef` or `typealias`"));
        }
        let mut names = Vec::new();
        loop {
            names.push(self.declarator(true)?);
            if !self.skip(",")? {
                break;
            }
        }
        self.end_of_statement()?;
        Ok(match is_typedef {
            true => Statement::Typedef { class, names },
            false => Statement::Field { class, names },
        })
    }

    fn typealias(&mut self) -> Result<Statement<'t>, MetadataError> {
        self.advance()?;
        let (class, _) = self.type_spec(false)?;
        let declarator = self.declarator(false)?;
        self.expect(":=")?;
        let at = self.current.at;
        let mut name = self.type_name()?;
        let pointers = self.pointers()?;
        if !pointers.is_empty() {
            name.to_mut().push_str(&pointers);
        }
        self.end_of_statement()?;
        Ok(Statement::Typealias(Box::new(Typealias { class, declarator, name, at })))
    }

    /// A new type's name: all words up to `*` or `;`.
    fn type_name(&mut self) -> Result<Cow<'t, str>, MetadataError> {
        let mut name = Cow::Borrowed("");
        while let Kind::Word(_) = self.current.kind {
            let word = self.word("the name of a type")?;
            join(&mut name, word, " ");
        }
        match name.is_empty() {
            true => Err(self.unexpected("the name of a type")),
            false => Ok(name),
        }
    }

    /// A type, and whether the word `typedef` stood in it. With `named`, the last word is left
    /// over for the declarator.
    fn type_spec(&mut self, named: bool) -> Result<(TypeSpec<'t>, bool), MetadataError> {
        self.nested(|parser| parser.type_spec_inner(named))
    }

    fn type_spec_inner(&mut self, named: bool) -> Result<(TypeSpec<'t>, bool), MetadataError> {
        self.count_node()?;
        let at = self.current.at;
        let mut is_typedef = false;
        let mut words = Cow::Borrowed("");
        let mut kind = None;
        while let Kind::Word(word) = &self.current.kind {
            let word = word.clone();
            let is_first = kind.is_none() && words.is_empty();
            match word.as_ref() {
                "typedef" => {
                    is_typedef = true;
                    self.advance()?;
                }
                // Nothing that is read is ever written to: the word matters in names only.
                "const" => {
                    self.advance()?;
                    if kind.is_none() && (!words.is_empty() || self.current_is_alias_word()) {
                        join(&mut words, word, " ");
                    }
                }
                "integer" | "floating_point" | "string" | "struct" | "variant" | "enum"
                    if is_first =>
                {
                    self.advance()?;
                    kind = Some(self.compound(&word)?);
                }
                _ if kind.is_some() => break,
                type_word if lexer::is_type_keyword(type_word) => {
                    self.advance()?;
                    join(&mut words, word, " ");
                }
                keyword if lexer::is_keyword(keyword) => break,
                _ => {
                    let is_type_word = !named
                        || words.is_empty()
                        || words == "const"
                        || matches!(self.following.kind, Kind::Word(_) | Kind::Symbol("*"));
                    if !is_type_word {
                        break;
                    }
                    self.advance()?;
                    join(&mut words, word, " ");
                }
            }
        }
        let kind = match kind {
            Some(kind) => kind,
            None if words.is_empty() => return Err(self.unexpected("a type")),
            None => TypeKind::Named(words),
        };
        Ok((TypeSpec { at, kind }, is_typedef))
    }

    /// Whether the current word can be part of an alias' name, rather than start a `struct` or so.
    fn current_is_alias_word(&self) -> bool {
        match &self.current.kind {
            Kind::Word(word) => lexer::is_type_keyword(word) || !lexer::is_keyword(word),
            _ => false,
        }
    }

    /// The rest of a type that starts with the keyword `word`.
    fn compound(&mut self, word: &str) -> Result<TypeKind<'t>, MetadataError> {
        Ok(match word {
            "integer" => TypeKind::Integer(self.attributes()?),
            "floating_point" => TypeKind::Float(self.attributes()?),
            "string" if self.is_symbol("{") => TypeKind::String(self.attributes()?),
            "string" => TypeKind::String(Vec::new()),
            "struct" => {
                let name = self.optional_name()?;
                let body = self.optional_fields()?;
                if name.is_none() && body.is_none() {
                    return Err(self.unexpected("`{` or the name of a structure"));
                }
                let align = if self.is_word("align") { Some(self.align()?) } else { None };
                TypeKind::Struct { name, body, align }
            }
            "variant" => {
                let name = self.optional_name()?;
                let tag = if self.skip("<")? { Some(self.tag()?) } else { None };
                let body = self.optional_fields()?;
                if name.is_none() && body.is_none() {
                    return Err(self.unexpected("`{` or the name of a variant"));
                }
                TypeKind::Variant { name, tag, body }
            }
            _ => TypeKind::Enum(Box::new(self.enumeration()?)),
        })
    }

    fn enumeration(&mut self) -> Result<EnumSpec<'t>, MetadataError> {
        let name = self.optional_name()?;
        let container = if self.skip(":")? { Some(self.type_spec(false)?.0) } else { None };
        if !self.is_symbol("{") {
            if name.is_none() || container.is_some() {
                return Err(self.unexpected("`{`"));
            }
            return Ok(EnumSpec { name, container, labels: None });
        }
        self.advance()?;
        let mut labels = Vec::new();
        loop {
            labels.push(self.enumerator()?);
            let more = self.skip(",")?;
            if self.skip("}")? {
                break;
            }
            if !more {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
        Ok(EnumSpec { name, container, labels: Some(labels) })
    }

    fn enumerator(&mut self) -> Result<Enumerator<'t>, MetadataError> {
        self.count_node()?;
        let at = self.current.at;
        let label = match &self.current.kind {
            Kind::Word(label) | Kind::Text(label) => label.clone(),
            _ => return Err(self.unexpected("a label")),
        };
        self.advance()?;
        let range = if self.skip("=")? {
            let low = self.integer()?;
            let high = if self.skip("...")? { self.integer()? } else { low };
            Some((low, high))
        } else {
            None
        };
        Ok(Enumerator { label, at, range })
    }

    fn align(&mut self) -> Result<Align, MetadataError> {
        self.advance()?;
        self.expect("(")?;
        let at = self.current.at;
        let value = self.integer()?;
        self.expect(")")?;
        Ok(Align { value, at })
    }

    fn tag(&mut self) -> Result<Path<'t>, MetadataError> {
        let at = self.current.at;
        let text = self.dotted("the name of a tag")?;
        self.expect(">")?;
        Ok(Path { text, at })
    }

    fn optional_name(&mut self) -> Result<Option<Cow<'t, str>>, MetadataError> {
        match &self.current.kind {
            Kind::Word(word) if !lexer::is_keyword(word) => {
                let name = word.clone();
                self.advance()?;
                Ok(Some(name))
            }
            _ => Ok(None),
        }
    }

    fn optional_fields(&mut self) -> Result<Option<Vec<Statement<'t>>>, MetadataError> {
        if !self.is_symbol("{") {
            return Ok(None);
        }
        self.braces(|parser| parser.declaration(Place::Fields)).map(Some)
    }

    fn declarator(&mut self, named: bool) -> Result<Declarator<'t>, MetadataError> {
        self.count_node()?;
        let at = self.current.at;
        let pointers = self.pointers()?;
        let mut name = Cow::Borrowed("");
        if named {
            name = match &self.current.kind {
                Kind::Word(word) if lexer::is_keyword(word) => {
                    let hint = format!("it is a keyword; producers write `_{word}`");
                    return Err(self.unexpected("a name").hint(hint));
                }
                _ => self.word("a name")?,
            };
        }
        let mut lengths = Vec::new();
        while self.skip("[")? {
            if lengths.len() == DEPTH_MAX {
                return Err(self.too_deep());
            }
            let at = self.current.at;
            lengths.push(LengthSpec { at, value: self.value()? });
            self.expect("]")?;
        }
        if self.is_symbol(":") {
            return Err(self
                .unexpected("`;`")
                .hint("bit fields of C are written as `integer { size = …; align = 1; }`"));
        }
        Ok(Declarator { at, pointers, name, lengths })
    }

    fn pointers(&mut self) -> Result<String, MetadataError> {
        let mut pointers = String::new();
        while self.skip("*")? {
            pointers.push_str(" *");
            if self.is_word("const") {
                self.advance()?;
                pointers.push_str(" const");
            }
        }
        Ok(pointers)
    }

    fn value(&mut self) -> Result<Value<'t>, MetadataError> {
        match self.current.kind {
            Kind::Integer(_) | Kind::Symbol("+" | "-" | "(") => self.integer().map(Value::Integer),
            _ => self.dotted("a value").map(Value::Text),
        }
    }

    fn integer(&mut self) -> Result<i128, MetadataError> {
        if self.skip("-")? {
            return self.unsigned_integer().map(|value| -value);
        }
        self.skip("+")?;
        self.unsigned_integer()
    }

    fn unsigned_integer(&mut self) -> Result<i128, MetadataError> {
        if self.is_symbol("(") {
            return self.nested(|parser| {
                parser.advance()?;
                let value = parser.integer()?;
                parser.expect(")")?;
                Ok(value)
            });
        }
        let Kind::Integer(value) = self.current.kind else {
            return Err(self.unexpected("an integer"));
        };
        self.advance()?;
        Ok(i128::from(value))
    }

    /// Words or a string, joined by dots.
    fn dotted(&mut self, what: &str) -> Result<Cow<'t, str>, MetadataError> {
        let mut path = match &self.current.kind {
            Kind::Text(text) => {
                let text = text.clone();
                self.advance()?;
                text
            }
            _ => self.word(what)?,
        };
        while self.is_symbol(".") || self.is_symbol("->") {
            self.advance()?;
            let word = self.word("a name")?;
            join(&mut path, word, ".");
        }
        Ok(path)
    }

    fn word(&mut self, what: &str) -> Result<Cow<'t, str>, MetadataError> {
        match &self.current.kind {
            Kind::Word(word) => {
                let word = word.clone();
                self.advance()?;
                Ok(word)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// `{`, items, `}`.
    fn braces<T>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T, MetadataError>,
    ) -> Result<Vec<T>, MetadataError> {
        let opening = self.current.at;
        self.expect("{")?;
        self.nested(|parser| {
            let mut items = Vec::new();
            while !parser.skip("}")? {
                if parser.current.kind == Kind::End {
                    return Err(MetadataError::at(parser.text, opening, "`{` without its `}`"));
                }
                if !parser.skip(";")? {
                    items.push(item(parser)?);
                }
            }
            Ok(items)
        })
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, MetadataError>,
    ) -> Result<T, MetadataError> {
        // A type and its braces are two levels here but one level of nesting, and the outermost
        // structure is in a block and the innermost holds fields.
        if self.depth == 2 * DEPTH_MAX + 2 {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&self) -> MetadataError {
        let message = format!("nested more than {DEPTH_MAX} levels deep");
        MetadataError::at(self.text, self.current.at, message)
    }

    fn count_node(&mut self) -> Result<(), MetadataError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let message = format!("more than {NODES_MAX} declarations");
            return Err(MetadataError::at(self.text, self.current.at, message));
        }
        Ok(())
    }

    /// Moves on and returns what was current.
    fn advance(&mut self) -> Result<Token<'t>, MetadataError> {
        let after = self.lexer.next()?;
        let current = std::mem::replace(&mut self.following, after);
        Ok(std::mem::replace(&mut self.current, current))
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.current.kind, Kind::Symbol(current) if current == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.current.kind, Kind::Word(current) if current == word)
    }

    /// Moves over `symbol` if it is there.
    fn skip(&mut self, symbol: &str) -> Result<bool, MetadataError> {
        let there = self.is_symbol(symbol);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    fn expect(&mut self, symbol: &str) -> Result<(), MetadataError> {
        match self.skip(symbol)? {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{symbol}`"))),
        }
    }

    fn end_of_statement(&mut self) -> Result<(), MetadataError> {
        self.expect(";")
    }

    fn unexpected(&self, expected: &str) -> MetadataError {
        let found = self.current.kind.describe();
        MetadataError::at(self.text, self.current.at, format!("expected {expected}, found {found}"))
    }
}

/// Whether a type makes a name known, as `struct name { … }` does.
fn declares_name(kind: &TypeKind<'_>) -> bool {
    match kind {
        TypeKind::Struct { name, body, .. } | TypeKind::Variant { name, body, .. } => {
            name.is_some() && body.is_some()
        }
        TypeKind::Enum(spec) => spec.name.is_some() && spec.labels.is_some(),
        _ => false,
    }
}

/// Appends a word; allocates nothing for a single one.
fn join<'t>(text: &mut Cow<'t, str>, word: Cow<'t, str>, between: &str) {
    if text.is_empty() {
        *text = word;
    } else {
        let text = text.to_mut();
        text.push_str(between);
        text.push_str(&word);
    }
}
