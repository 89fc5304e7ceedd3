//! From tokens to the syntax tree. Start at [`parse`], which reads statement by statement.
//!
//! TSDL's grammar needs no table of type names as long as the last word before `[`, `,` or `;` is
//! taken for the field's name and those before it for its type.

mod type_specs;

use super::lexer::{Kind, Lexer, Token};
use super::syntax::{Attribute, Block, BlockKind, Statement, TypeKind, Typealias, Value};
use crate::metadata::{DEPTH_MAX, MetadataError};
use std::borrow::Cow;
use type_specs::declares_name;

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
