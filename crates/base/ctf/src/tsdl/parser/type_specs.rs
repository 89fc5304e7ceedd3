//! Parsing of type specifications and declarators. Start at [`Parser::type_spec`].

use super::{Parser, StatementPosition};
use crate::metadata::budget::allocation;
use crate::metadata::error::MetadataError;
use crate::metadata::limits::DEPTH_MAX;
use crate::tsdl::lexer::{self, Kind};
use crate::tsdl::syntax::{
    Align, Declarator, EnumSpec, Enumerator, LengthSpec, Path, Statement, TypeKind, TypeSpec,
};
use std::borrow::Cow;

impl<'t> Parser<'t, '_> {
    /// Parses the name of a new type: all words up to `*` or `;`.
    pub(super) fn type_name(&mut self) -> Result<Cow<'t, str>, MetadataError> {
        let mut name = Cow::Borrowed("");
        while let Kind::Word(_) = self.current.kind {
            let word = self.word("the name of a type")?;
            self.join(&mut name, word, " ")?;
        }
        match name.is_empty() {
            true => Err(self.unexpected("the name of a type")),
            false => Ok(name),
        }
    }

    /// Parses a type specification. The returned flag is true if the specification contains the
    /// word `typedef`. If `named` is true, the parser does not consume the last word, because that
    /// is the declarator's name.
    pub(super) fn type_spec(&mut self, named: bool) -> Result<(TypeSpec<'t>, bool), MetadataError> {
        self.nested(|parser| parser.type_spec_inner(named))
    }

    fn type_spec_inner(&mut self, named: bool) -> Result<(TypeSpec<'t>, bool), MetadataError> {
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
                // `const` is significant only in names of aliases, because traces are read-only.
                "const" => {
                    self.advance()?;
                    if kind.is_none() && (!words.is_empty() || self.current_is_alias_word()) {
                        self.join(&mut words, word, " ")?;
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
                    self.join(&mut words, word, " ")?;
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
                    self.join(&mut words, word, " ")?;
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

    /// Returns whether the current token can be a word of an alias's name: a type keyword such as
    /// `int`, or a word that is no keyword.
    fn current_is_alias_word(&self) -> bool {
        match &self.current.kind {
            Kind::Word(word) => lexer::is_type_keyword(word) || !lexer::is_keyword(word),
            _ => false,
        }
    }

    /// Parses a type after the keyword `word`, such as `struct` or `enum`, which has been consumed.
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
            _ => {
                self.pass(allocation(size_of::<EnumSpec<'_>>()))?;
                TypeKind::Enum(Box::new(self.enumeration()?))
            }
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
            let label = self.enumerator()?;
            self.push(&mut labels, label)?;
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
        let at = self.current.at;
        let label = match &self.current.kind {
            Kind::Word(_) | Kind::Text(_) => self.advance_text()?,
            _ => return Err(self.unexpected("a label")),
        };
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
            Kind::Word(word) if !lexer::is_keyword(word) => self.advance_text().map(Some),
            _ => Ok(None),
        }
    }

    fn optional_fields(&mut self) -> Result<Option<Vec<Statement<'t>>>, MetadataError> {
        if !self.is_symbol("{") {
            return Ok(None);
        }
        self.braces(|parser| parser.declaration(StatementPosition::Fields)).map(Some)
    }

    pub(super) fn declarator(&mut self, named: bool) -> Result<Declarator<'t>, MetadataError> {
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
            let value = self.value()?;
            self.push(&mut lengths, LengthSpec { at, value })?;
            self.expect("]")?;
        }
        if self.is_symbol(":") {
            return Err(self
                .unexpected("`;`")
                .hint("bit fields of C are written as `integer { size = …; align = 1; }`"));
        }
        Ok(Declarator { at, pointers, name, lengths })
    }

    pub(super) fn pointers(&mut self) -> Result<String, MetadataError> {
        let mut pointers = String::new();
        while self.skip("*")? {
            self.pass(16)?;
            pointers.push_str(" *");
            if self.is_word("const") {
                self.advance()?;
                pointers.push_str(" const");
            }
        }
        Ok(pointers)
    }
}
