//! Parsing of tokens into the syntax tree, statement by statement. Start at [`parse`].
//!
//! The parser needs no table of type names: the last word before `[`, `,` or `;` is the field's
//! name, and the words before it are the type.

mod type_specs;

use super::lexer::{Kind, Lexer, Token};
use super::syntax::{Attribute, Block, BlockKind, Statement, Syntax, TypeKind, Typealias, Value};
use crate::metadata::budget::{Budget, OverBudget, allocation, owned_size};
use crate::metadata::error::MetadataError;
use crate::metadata::limits::DEPTH_MAX;
use std::borrow::Cow;

/// Parses a whole text, except for the contents of `event` blocks.
pub(super) fn parse<'t>(text: &'t str, budget: &Budget) -> Result<Syntax<'t>, MetadataError> {
    let mut parser = Parser::new(text, 0, budget)?;
    let mut syntax = Syntax::default();
    while parser.current.kind != Kind::End {
        match parser.block_kind() {
            Some(BlockKind::Event) => {
                budget.charge(size_of::<usize>()).map_err(|error| parser.over_budget(error))?;
                syntax.events.push(parser.skip_block()?);
            }
            Some(BlockKind::Callsite) => {
                let before = budget.passing();
                parser.root_statement()?;
                budget.release_to(before);
            }
            _ => {
                parser.pass(size_of::<Statement<'_>>())?;
                syntax.statements.extend(parser.root_statement()?);
            }
        }
    }
    syntax.size = budget.passing();
    Ok(syntax)
}

/// Parses the `event` block at a byte offset of the text, such as those in [`Syntax::events`].
pub(super) fn event<'t>(
    text: &'t str,
    at: usize,
    budget: &Budget,
) -> Result<Block<'t>, MetadataError> {
    let mut parser = Parser::new(text, at, budget)?;
    match parser.root_statement()? {
        Some(Statement::Block(block)) => Ok(block),
        _ => Err(MetadataError::at(text, at, "this is no block")),
    }
}

/// Position of a statement, which determines its permitted forms.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatementPosition {
    Root,
    Block,
    /// The braces of a structure or variant.
    Fields,
}

struct Parser<'t, 'b> {
    text: &'t str,
    budget: &'b Budget,
    lexer: Lexer<'t>,
    current: Token<'t>,
    following: Token<'t>,
    depth: usize,
}

impl<'t, 'b> Parser<'t, 'b> {
    fn new(text: &'t str, at: usize, budget: &'b Budget) -> Result<Parser<'t, 'b>, MetadataError> {
        let mut lexer = Lexer::new(text, at);
        let current = lexer.next()?;
        let following = lexer.next()?;
        Ok(Parser { text, budget, lexer, current, following, depth: 0 })
    }

    /// Skips a block by counting braces, and returns its offset.
    fn skip_block(&mut self) -> Result<usize, MetadataError> {
        let at = self.advance()?.at;
        let mut open = 0_usize;
        loop {
            match self.advance()?.kind {
                Kind::Symbol("{") => open += 1,
                Kind::Symbol("}") => open -= 1,
                // A closing brace is missing; the full parser reports the position of its opening
                // brace.
                Kind::End => return event(self.text, at, self.budget).map(|block| block.at),
                _ => {}
            }
            if open == 0 {
                break;
            }
        }
        self.end_of_statement()?;
        Ok(at)
    }

    fn root_statement(&mut self) -> Result<Option<Statement<'t>>, MetadataError> {
        if self.skip(";")? {
            return Ok(None);
        }
        let Some(kind) = self.block_kind() else {
            return self.declaration(StatementPosition::Root).map(Some);
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

    /// Parses a statement in a block. Keywords can name attributes, so the token after the first
    /// word distinguishes attributes and assignments from declarations.
    fn block_statement(&mut self) -> Result<Statement<'t>, MetadataError> {
        let is_attribute = match self.current.kind {
            Kind::Text(_) => true,
            Kind::Word(_) => {
                matches!(self.following.kind, Kind::Symbol("=" | ":=" | "." | "->" | ":"))
            }
            _ => false,
        };
        if !is_attribute {
            return self.declaration(StatementPosition::Block);
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

    /// Parses `= value` of an attribute, after its name `key`.
    fn attribute_value(
        &mut self,
        key: Cow<'t, str>,
        at: usize,
    ) -> Result<Attribute<'t>, MetadataError> {
        if self.is_symbol(":") {
            return Err(self.unexpected("`=`").hint("a type is assigned with `:=`"));
        }
        self.expect("=")?;
        let value_at = self.current.at;
        Ok(Attribute { key, at, value: self.value()?, value_at })
    }

    /// Parses the `{ key = value; … }` after `integer`, `floating_point` or `string`.
    fn attributes(&mut self) -> Result<Vec<Attribute<'t>>, MetadataError> {
        self.braces(|parser| {
            let at = parser.current.at;
            let key = parser.dotted("the name of an attribute")?;
            let attribute = parser.attribute_value(key, at)?;
            parser.end_of_statement()?;
            Ok(attribute)
        })
    }

    fn declaration(&mut self, position: StatementPosition) -> Result<Statement<'t>, MetadataError> {
        if self.is_word("typealias") {
            return self.typealias();
        }
        let (class, is_typedef) = self.type_spec(true)?;
        if self.is_symbol(";") && !is_typedef {
            let is_type = !matches!(class.kind, TypeKind::Named(_));
            if !is_type || (position == StatementPosition::Fields && !class.kind.declares_name()) {
                return Err(self.unexpected("the name of a field"));
            }
            self.advance()?;
            return Ok(Statement::Declaration(class));
        }
        if !is_typedef && position != StatementPosition::Fields {
            return Err(self
                .unexpected("`;`")
                .hint("fields are declared in structures, types with `typedef` or `typealias`"));
        }
        let mut names = Vec::with_capacity(1);
        loop {
            let name = self.declarator(true)?;
            self.push(&mut names, name)?;
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
        self.pass(allocation(size_of::<Typealias<'_>>()))?;
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

    /// Parses words joined by `.` or `->`, and returns them joined by dots. The first word may be a
    /// string.
    fn dotted(&mut self, what: &str) -> Result<Cow<'t, str>, MetadataError> {
        let mut path = match &self.current.kind {
            Kind::Text(_) => self.advance_text()?,
            _ => self.word(what)?,
        };
        while self.is_symbol(".") || self.is_symbol("->") {
            self.advance()?;
            let word = self.word("a name")?;
            self.join(&mut path, word, ".")?;
        }
        Ok(path)
    }

    fn word(&mut self, what: &str) -> Result<Cow<'t, str>, MetadataError> {
        match &self.current.kind {
            Kind::Word(_) => self.advance_text(),
            _ => Err(self.unexpected(what)),
        }
    }

    /// Consumes a word or string, and returns it.
    fn advance_text(&mut self) -> Result<Cow<'t, str>, MetadataError> {
        let (Kind::Word(text) | Kind::Text(text)) = self.advance()?.kind else {
            return Ok(Cow::Borrowed(""));
        };
        self.pass(owned_size(&text))?;
        Ok(text)
    }

    /// Parses a list in braces; `item` parses each item.
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
                    let item = item(parser)?;
                    parser.push(&mut items, item)?;
                }
            }
            items.shrink_to_fit();
            Ok(items)
        })
    }

    /// Runs `parse` one nesting level deeper, and fails beyond the maximum nesting.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, MetadataError>,
    ) -> Result<T, MetadataError> {
        // A type and its braces are two levels here, but one level of nesting. The two additional
        // levels are the block around the outermost structure and the fields of the innermost one.
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

    /// Counts `bytes` of the syntax tree against the memory budget, as temporary memory.
    fn pass(&self, bytes: usize) -> Result<(), MetadataError> {
        self.budget.charge_temporary(bytes).map_err(|error| self.over_budget(error))
    }

    fn over_budget(&self, error: OverBudget) -> MetadataError {
        MetadataError::over_budget(self.text, self.current.at, error)
    }

    /// Appends an item to a list of the syntax tree, and counts its memory.
    fn push<T>(&self, list: &mut Vec<T>, item: T) -> Result<(), MetadataError> {
        // The first push allocates space for four items.
        let room = if list.capacity() == 0 { 4 } else { 1 };
        self.pass(room * size_of::<T>())?;
        list.push(item);
        Ok(())
    }

    /// Appends a word to a text, with `between` as separator, and counts the memory of the text.
    fn join(
        &self,
        text: &mut Cow<'t, str>,
        word: Cow<'t, str>,
        between: &str,
    ) -> Result<(), MetadataError> {
        if text.is_empty() {
            self.pass(owned_size(&word))?;
            *text = word;
            return Ok(());
        }
        self.pass(match text {
            Cow::Borrowed(first) => allocation(first.len() + word.len() + 1),
            Cow::Owned(_) => 2 * (word.len() + 1),
        })?;
        let text = text.to_mut();
        text.push_str(between);
        text.push_str(&word);
        Ok(())
    }

    /// Consumes the current token, and returns it.
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

    /// Consumes the current token if it is `symbol`. Returns whether it was.
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
