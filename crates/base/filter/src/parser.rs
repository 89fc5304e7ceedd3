//! Parser that builds a tree from tokens, by precedence climbing (Pratt). Start at [`parse`].
//!
//! The types in the tree are provisional, and each mention of a field has its own operand;
//! [`crate::check`] assigns the final types and merges operands.

use crate::fault::Fault;
use crate::glob::Glob;
use crate::lexer::Lexer;
use crate::operand::{Operand, OperandKind, PseudoField, Step};
use crate::suggest::suggest;
use crate::token::{Token, TokenKind};
use crate::tree::{BinaryOp, CompareOp, DEPTH_MAX, Expr, Node, Precedence, Span, Type};

/// Unchecked tree, with a separate operand for each mention of a field.
pub(crate) struct ParseTree {
    pub(crate) root: Node,
    pub(crate) operands: Vec<Operand>,
}

/// Parses a whole filter into an unchecked tree.
pub(crate) fn parse(text: &str) -> Result<ParseTree, Fault> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token, depth: 0, operands: Vec::new() };
    if parser.token.kind == TokenKind::End {
        return Err(Fault::new(parser.token.span, "the filter is empty"));
    }
    let root = parser.expression(None)?;
    match parser.token.kind {
        TokenKind::End => Ok(ParseTree { root: root.node, operands: parser.operands }),
        _ => Err(parser.expected_operator()),
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// Next token, which has not been consumed yet.
    token: Token<'t>,
    /// Number of calls of `unary` in progress: one for each open parenthesis and sign operator, and
    /// one for an operand that is being parsed.
    depth: usize,
    operands: Vec<Operand>,
}

/// Subtree with its height. The height is limited, to bound the recursion of all later walks.
struct Subtree {
    node: Node,
    height: usize,
}

/// Binary operator of any kind: logical, comparison, arithmetic or bit operator.
#[derive(Clone, Copy)]
enum Infix {
    Any,
    All,
    Compare(CompareOp),
    Binary(BinaryOp),
}

impl Infix {
    fn of(token: &TokenKind<'_>) -> Option<Infix> {
        let TokenKind::Symbol(symbol) = token else { return None };
        Some(match *symbol {
            "||" => Infix::Any,
            "&&" => Infix::All,
            "==" => Infix::Compare(CompareOp::Equal),
            "!=" => Infix::Compare(CompareOp::NotEqual),
            "<" => Infix::Compare(CompareOp::Less),
            "<=" => Infix::Compare(CompareOp::LessOrEqual),
            ">" => Infix::Compare(CompareOp::Greater),
            ">=" => Infix::Compare(CompareOp::GreaterOrEqual),
            "+" => Infix::Binary(BinaryOp::Add),
            "-" => Infix::Binary(BinaryOp::Subtract),
            "*" => Infix::Binary(BinaryOp::Multiply),
            "/" => Infix::Binary(BinaryOp::Divide),
            "%" => Infix::Binary(BinaryOp::Remainder),
            "&" => Infix::Binary(BinaryOp::BitAnd),
            "|" => Infix::Binary(BinaryOp::BitOr),
            "^" => Infix::Binary(BinaryOp::BitXor),
            "<<" => Infix::Binary(BinaryOp::ShiftLeft),
            ">>" => Infix::Binary(BinaryOp::ShiftRight),
            _ => return None,
        })
    }

    fn precedence(self) -> Precedence {
        match self {
            Infix::Any => Precedence::Any,
            Infix::All => Precedence::All,
            Infix::Compare(op) => op.precedence(),
            Infix::Binary(op) => op.precedence(),
        }
    }
}

impl<'t> Parser<'t> {
    fn advance(&mut self) -> Result<Token<'t>, Fault> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// Consumes the next token if it is `symbol`. Returns true if it was consumed.
    fn accept(&mut self, symbol: &'static str) -> Result<bool, Fault> {
        let found = self.token.kind == TokenKind::Symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Consumes a `.` or the equivalent `->`, if it is next. Returns true if it was consumed.
    fn accept_dot(&mut self) -> Result<bool, Fault> {
        Ok(self.accept(".")? || self.accept("->")?)
    }

    /// Parses an expression. `outer` is the precedence of the operator to its left, if any. The
    /// expression ends before an operator of the same or a lower precedence, since all operators
    /// are left-associative.
    fn expression(&mut self, outer: Option<Precedence>) -> Result<Subtree, Fault> {
        let mut left = self.unary()?;
        while let Some(infix) = Infix::of(&self.token.kind) {
            let precedence = Some(infix.precedence());
            if precedence <= outer {
                break;
            }
            self.advance()?;
            let right = self.expression(precedence)?;
            left = join(infix, left, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Subtree, Fault> {
        let span = self.token.span;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(span));
        }
        let symbol = match self.token.kind {
            TokenKind::Symbol(symbol @ ("!" | "-" | "~" | "+" | "(")) => symbol,
            _ => "",
        };
        let result = match symbol {
            "" => self.primary()?,
            "(" => self.parenthesized()?,
            _ => {
                self.advance()?;
                let child = self.unary()?;
                sign(symbol, span, child)?
            }
        };
        self.depth -= 1;
        Ok(result)
    }

    fn parenthesized(&mut self) -> Result<Subtree, Fault> {
        let open = self.advance()?.span;
        let mut inner = self.expression(None)?;
        let close = self.token.span;
        if !self.accept(")")? {
            return Err(match self.token.kind {
                TokenKind::End => Fault::new(open, "this parenthesis is not closed"),
                _ => self.expected_operator(),
            });
        }
        inner.node.span = open.to(close);
        Ok(inner)
    }

    /// Parses a literal, a field or `has(field)`.
    fn primary(&mut self) -> Result<Subtree, Fault> {
        if let TokenKind::Symbol(_) | TokenKind::End = self.token.kind {
            return Err(self.expected_operand());
        }
        let Token { kind, span } = self.advance()?;
        let leaf = |expr, ty, span| Ok(Subtree { node: Node { expr, ty, span }, height: 1 });
        match kind {
            TokenKind::Integer(number) => leaf(Expr::Uint(number), Type::Int, span),
            TokenKind::Float(number) => leaf(Expr::Float(number), Type::Float, span),
            TokenKind::Text(mut pieces) => {
                let expr = match Glob::new(&pieces) {
                    Some(glob) => Expr::Glob(glob),
                    None => Expr::Str(pieces.pop().unwrap_or_default().into()),
                };
                leaf(expr, Type::String, span)
            }
            TokenKind::Name(name) if self.token.kind == TokenKind::Symbol("(") => {
                let (operand, span) = self.call(name, span)?;
                leaf(Expr::Has(operand), Type::Bool, span)
            }
            TokenKind::Name(name) if name.eq_ignore_ascii_case("not") && self.at_operand() => {
                Err(Fault::new(span, format!("unknown operator `{name}`"))
                    .hint("did you mean `!`?"))
            }
            TokenKind::Name(name) => {
                let (operand, span) = self.field(OperandKind::Payload, name, span)?;
                leaf(Expr::Operand(operand), Type::Unknown, span)
            }
            TokenKind::Scope(scope) => {
                let (operand, span) = self.scoped(scope, span)?;
                leaf(Expr::Operand(operand), Type::Unknown, span)
            }
            TokenKind::Symbol(_) | TokenKind::End => Err(self.expected_operand()),
        }
    }

    /// Parses the `(field)` of `has(field)` and adds the operand. Refuses a function `name` other
    /// than `has`; the name has been consumed.
    fn call(&mut self, name: &str, span: Span) -> Result<(usize, Span), Fault> {
        if name != "has" {
            let fault = Fault::new(span, format!("unknown function `{name}`"));
            return Err(match operator_for(name) {
                Some(operator) => fault.hint(format!("did you mean `{operator}`?")),
                None => fault.hint("the only one is `has(FIELD)`: whether the event has the field"),
            });
        }
        self.advance()?;
        let Token { kind, span: inner } = self.advance()?;
        let (operand, _) = match kind {
            TokenKind::Name(name) => self.field(OperandKind::Payload, name, inner)?,
            TokenKind::Scope(scope) => self.scoped(scope, inner)?,
            _ => return Err(Fault::new(inner, "`has` needs a field").hint("write `has(FIELD)`")),
        };
        let close = self.token.span;
        if !self.accept(")")? {
            return Err(Fault::new(close, "expected `)` after the field of `has`"));
        }
        Ok((operand, span.to(close)))
    }

    /// Parses the path after a scope such as `$ctx`, from the `.NAME` to its last step. Adds the
    /// operand.
    fn scoped(&mut self, scope: &str, span: Span) -> Result<(usize, Span), Fault> {
        const SCOPES: [(&str, Option<OperandKind>); 5] = [
            ("ctx", Some(OperandKind::Context)),
            ("app", Some(OperandKind::AppContext)),
            ("env", Some(OperandKind::Env)),
            ("packet", Some(OperandKind::Packet)),
            ("event", None),
        ];
        let Some((_, kind)) = SCOPES.iter().find(|(known, _)| *known == scope) else {
            let fault = Fault::new(span, format!("unknown scope `${scope}`"));
            return Err(match suggest(scope, SCOPES.iter().map(|(known, _)| *known)) {
                Some(nearest) => fault.hint(format!("did you mean `${nearest}`?")),
                None => fault.hint("there are `$ctx`, `$app`, `$event`, `$env` and `$packet`"),
            });
        };
        let dot = self.accept_dot()?;
        let (name, name_span) = match self.token.kind {
            TokenKind::Name(name) if dot => (name, self.token.span),
            _ => {
                return Err(Fault::new(span, format!("`${scope}` without a name"))
                    .hint(format!("write `${scope}.NAME`")));
            }
        };
        self.advance()?;
        let span = span.to(name_span);
        match kind {
            Some(OperandKind::AppContext) if !name.contains(':') => {
                Err(Fault::new(span, "an application's context has a provider and a type")
                    .hint("write `$app.PROVIDER:TYPE`"))
            }
            Some(kind) => self.field(*kind, name, span),
            None => self.pseudo(name, span),
        }
    }

    /// Checks the name in `$event.NAME`. Adds the operand.
    fn pseudo(&mut self, name: &str, span: Span) -> Result<(usize, Span), Fault> {
        let Some(pseudo) = PseudoField::from_name(name) else {
            let names = PseudoField::ALL.map(PseudoField::name);
            let fault = Fault::new(span, format!("unknown field `$event.{name}`"));
            return Err(match suggest(name, names) {
                Some(nearest) => fault.hint(format!("did you mean `$event.{nearest}`?")),
                None => fault.hint(format!("`$event` has {}", names.join(", "))),
            });
        };
        if let TokenKind::Symbol("." | "->" | "[") = self.token.kind {
            return Err(Fault::new(self.token.span, format!("`$event.{name}` has no parts")));
        }
        Ok(self.mention(OperandKind::Pseudo(pseudo), Vec::new(), span))
    }

    /// Parses the steps of a field's path after its first name. Adds the operand.
    fn field(
        &mut self,
        kind: OperandKind,
        name: &str,
        mut span: Span,
    ) -> Result<(usize, Span), Fault> {
        let mut path = vec![Step::Name(name.to_string())];
        loop {
            if self.accept_dot()? {
                let name = match &self.token.kind {
                    TokenKind::Name(name) => name.to_string(),
                    TokenKind::Text(pieces) => quoted_name(pieces).ok_or_else(|| {
                        Fault::new(self.token.span, "a quoted name is UTF-8 without `*`")
                    })?,
                    _ => return Err(Fault::new(self.token.span, "expected the name of a field")),
                };
                span = span.to(self.token.span);
                path.push(Step::Name(name));
                self.advance()?;
            } else if self.accept("[")? {
                path.push(match &self.token.kind {
                    TokenKind::Integer(index) => Step::Index(*index),
                    // `["name"]` is the same as `."name"`.
                    TokenKind::Text(pieces) => {
                        Step::Name(quoted_name(pieces).ok_or_else(|| {
                            Fault::new(self.token.span, "a quoted name is UTF-8 without `*`")
                        })?)
                    }
                    _ => {
                        return Err(Fault::new(
                            self.token.span,
                            "an index is a number, 0 or more, or a name in quotes",
                        ));
                    }
                });
                self.advance()?;
                span = span.to(self.token.span);
                if !self.accept("]")? {
                    return Err(Fault::new(self.token.span, "expected `]` after the index"));
                }
            } else {
                return Ok(self.mention(kind, path, span));
            }
        }
    }

    fn mention(&mut self, kind: OperandKind, path: Vec<Step>, span: Span) -> (usize, Span) {
        self.operands.push(Operand { kind, path, span });
        (self.operands.len() - 1, span)
    }

    /// Returns true if the next token starts an operand that has no sign or parenthesis.
    fn at_operand(&self) -> bool {
        !matches!(self.token.kind, TokenKind::Symbol(_) | TokenKind::End)
    }

    /// Makes the error for the next token, where an operator is missing.
    fn expected_operator(&self) -> Fault {
        let span = self.token.span;
        let unknown = |word: &str| Fault::new(span, format!("unknown operator `{word}`"));
        match &self.token.kind {
            TokenKind::Symbol(")") => Fault::new(span, "this parenthesis was never opened"),
            TokenKind::Symbol(word) | TokenKind::Name(word) => match operator_for(word) {
                Some(operator) => unknown(word).hint(format!("did you mean `{operator}`?")),
                None => Fault::new(span, format!("expected an operator before `{word}`"))
                    .hint("conditions are joined by `&&` or `||`"),
            },
            _ => Fault::new(span, "expected an operator here")
                .hint("conditions are joined by `&&` or `||`"),
        }
    }

    /// Makes the error for the next token, where a field or literal is missing.
    fn expected_operand(&self) -> Fault {
        let span = self.token.span;
        match self.token.kind {
            TokenKind::End => Fault::new(span, "the filter ends where a field or value is missing"),
            TokenKind::Symbol(symbol) => {
                Fault::new(span, format!("expected a field or value before `{symbol}`"))
            }
            _ => Fault::new(span, "expected a field or value"),
        }
    }
}

/// Returns the filter operator that corresponds to an operator or word of another language, such as
/// `and`, or `None`.
fn operator_for(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "=" | "===" | ":=" | "=~" | "~" | "is" | "eq" | "equals" | "like" | "matches" => "==",
        "<>" | "!==" | "ne" => "!=",
        "=<" | "le" => "<=",
        "=>" | "ge" => ">=",
        "lt" => "<",
        "gt" => ">",
        "and" => "&&",
        "or" => "||",
        "not" => "!",
        "mod" => "%",
        "xor" => "^",
        "," | ";" => "&&",
        _ => return None,
    })
}

/// Applies a sign operator (`!`, `-`, `+` or `~`) to an expression. `-` is merged into a number
/// literal. `+` leaves the expression as it is, but refuses a string literal.
fn sign(symbol: &str, start: Span, child: Subtree) -> Result<Subtree, Fault> {
    let Subtree { node, height } = child;
    let span = start.to(node.span);
    let build = |expr, height| {
        let node = Node { expr, ty: Type::Unknown, span };
        if height > DEPTH_MAX { Err(too_deep(span)) } else { Ok(Subtree { node, height }) }
    };
    match (symbol, node.expr) {
        ("!", expr) => build(Expr::Not(Box::new(Node { expr, ..node })), height + 1),
        ("~", expr) => build(Expr::BitNot(Box::new(Node { expr, ..node })), height + 1),
        ("-" | "+", Expr::Str(_) | Expr::Glob(_)) => {
            Err(Fault::new(span, format!("`{symbol}` needs a number, but this is a string")))
        }
        ("+", expr) => build(expr, height),
        (_, Expr::Float(number)) => build(Expr::Float(-number), height),
        (_, Expr::Int(number)) => build(Expr::Uint(number.unsigned_abs()), height),
        (_, Expr::Uint(0)) => build(Expr::Uint(0), height),
        (_, Expr::Uint(number)) => match 0i64.checked_sub_unsigned(number) {
            Some(number) => build(Expr::Int(number), height),
            None => Err(Fault::new(span, "this number does not fit in 64 bits")),
        },
        (_, expr) => build(Expr::Negate(Box::new(Node { expr, ..node })), height + 1),
    }
}

/// Joins two expressions by a binary operator. A chain of `&&` or `||` becomes one node, which gets
/// one more child for each further operator.
fn join(infix: Infix, left: Subtree, right: Subtree) -> Result<Subtree, Fault> {
    let span = left.node.span.to(right.node.span);
    let (expr, height) = match (infix, left.node.expr) {
        (Infix::All, Expr::All(mut children)) => {
            children.push(right.node);
            (Expr::All(children), left.height.max(right.height + 1))
        }
        (Infix::Any, Expr::Any(mut children)) => {
            children.push(right.node);
            (Expr::Any(children), left.height.max(right.height + 1))
        }
        (_, expr) => {
            let height = left.height.max(right.height) + 1;
            let left = Node { expr, ..left.node };
            let expr = match infix {
                Infix::All => Expr::All(vec![left, right.node]),
                Infix::Any => Expr::Any(vec![left, right.node]),
                Infix::Compare(op) => Expr::Compare(op, Box::new(left), Box::new(right.node)),
                Infix::Binary(op) => Expr::Binary(op, Box::new(left), Box::new(right.node)),
            };
            (expr, height)
        }
    };
    if height > DEPTH_MAX {
        return Err(too_deep(span));
    }
    Ok(Subtree { node: Node { expr, ty: Type::Unknown, span }, height })
}

fn too_deep(span: Span) -> Fault {
    Fault::new(span, format!("nested more than {DEPTH_MAX} deep"))
        .hint("`&&` and `||` may be chained without parentheses as often as you like")
}

/// Returns a field's name that is written in quotes. The name need not be an identifier. Returns
/// `None` if it contains an unescaped star or is not UTF-8.
fn quoted_name(pieces: &[Vec<u8>]) -> Option<String> {
    match pieces {
        [name] => String::from_utf8(name.clone()).ok(),
        _ => None,
    }
}
