//! Compiles a filter's text to a [`Condition`]. Start at [`Condition::parse`].

use super::field::{Field, KINDS, STATUSES, attribute_owner, kind_of, suggest_field};
use super::{Condition, Number, TagTest, TextTest};
use blkkin_filter::tree::{BinaryOp, CompareOp, Expr, Node, Span};
use blkkin_filter::{Filter, FilterError, Glob, Operand, Step, suggest};
use blkkin_model::{Kind, TraceId};
use std::ops::RangeInclusive;

/// Lower bound of ranges that have only an upper bound. `HIGHEST` is the upper bound of ranges that
/// have only a lower bound.
const LOWEST: Number = Number::Float(f64::NEG_INFINITY);
const HIGHEST: Number = Number::Float(f64::INFINITY);

impl Condition {
    /// Compiles a filter in the language of `base/filter`.
    ///
    /// - `service`, `remote` (or `remote_service`) and `name` are texts; `kind` is client, server,
    ///   producer, consumer or internal. Comparisons with these fields ignore case.
    /// - `duration` and `start` (or `time`) are nanoseconds.
    /// - `error` and `root` are flags and are not compared. `status` is error, ok or unset.
    /// - `trace_id` is the request's id, hexadecimal.
    /// - `annotation` matches if any annotation of the span does.
    /// - `event` is the name of an event, `event.KEY` an attribute of an event.
    /// - `link` is the trace id of a link's target, `link.KEY` an attribute of the link.
    /// - `any` matches if any text of the span does, ignoring case: service, remote service, name,
    ///   an annotation, or the value of a tag.
    /// - `tag.KEY`, with dots or without, is a tag, and so is any other name. A tag compares with
    ///   text, and with numbers if its value or text is a number.
    ///
    /// Empty text counts as absent, except that `has` of a tag or an attribute holds for an empty
    /// value. If a span has several texts for a field, such as annotations, `!=` holds if none of
    /// them matches. Arithmetic, comparisons of two fields and `<` with text are errors.
    pub fn parse(text: &str) -> Result<Condition, FilterError> {
        let filter = Filter::parse(text)?;
        Parser::of(&filter).condition(filter.root())
    }

    /// Compiles a filter for requests: conditions on spans and limits of `trace.duration`, joined
    /// by `&&`. Returns the condition on spans, and the range of request durations in nanoseconds.
    pub fn parse_with_durations(
        text: &str,
    ) -> Result<(Condition, RangeInclusive<u64>), FilterError> {
        let filter = Filter::parse(text)?;
        let (mut parts, mut durations) = (Vec::new(), 0..=u64::MAX);
        Parser::of(&filter).split(filter.root(), &mut parts, &mut durations)?;
        let condition = if parts.len() == 1 { parts.remove(0) } else { Condition::All(parts) };
        Ok((condition, durations))
    }
}

/// Returns hints for a filter that matched nothing. They point out names that were resolved as keys
/// of tags but are similar to the name of a field, and attributes of events or links that may be
/// meant as tags.
pub fn filter_hints(text: &str) -> Vec<String> {
    let Ok(filter) = Filter::parse(text) else { return Vec::new() };
    let doubt = |operand: &Operand| {
        if let Some((owner, key)) = attribute_owner(operand) {
            return Some(format!(
                "`{operand}` is an attribute of {owner}; the tag of that name is `tag.{key}`"
            ));
        }
        let is_word = |word: &str| operand.to_string().eq_ignore_ascii_case(word);
        if STATUSES.into_iter().chain(KINDS.map(|(word, _)| word)).any(is_word) {
            // The operand names a kind or a status, and is probably compared with `kind` or
            // `status`.
            return None;
        }
        let meant = suggest_field(operand)?;
        Some(format!("`{operand}` is taken for a tag; did you mean `{meant}`?"))
    };
    filter.operands().iter().filter_map(doubt).collect()
}

/// Comparison of a field, on the left, with a literal, on the right.
#[derive(Clone, Copy)]
struct Comparison<'n> {
    /// Operator, mirrored if the filter has the literal on the left.
    op: CompareOp,
    /// Index of the field among the filter's operands.
    operand: usize,
    /// Number, text or pattern.
    literal: &'n Node,
    /// Byte range of the comparison in the filter's text.
    span: Span,
}

struct Parser<'f> {
    filter: &'f Filter,
    /// Field of each operand, in the order of the filter's operands.
    fields: Vec<Result<Field, FilterError>>,
}

impl<'f> Parser<'f> {
    fn of(filter: &'f Filter) -> Parser<'f> {
        let fields = filter.operands().iter().map(|operand| Field::of(filter, operand));
        // An operand that is compared with `kind` or `status` is a word and need not be a field. An
        // operand's error is therefore returned only when the operand is used as a field.
        Parser { filter, fields: fields.collect() }
    }

    /// Splits a conjunction. Conditions on spans are appended to `parts`; conditions on the
    /// request's duration narrow `durations`.
    fn split(
        &self,
        node: &Node,
        parts: &mut Vec<Condition>,
        durations: &mut RangeInclusive<u64>,
    ) -> Result<(), FilterError> {
        if let Expr::All(children) = &node.expr {
            return children.iter().try_for_each(|child| self.split(child, parts, durations));
        }
        let Some((op, literal)) = self.trace_duration(node) else {
            parts.push(self.condition(node)?);
            return Ok(());
        };
        let (least, greatest) =
            match range_condition(op, Literal::of(&literal.expr), Condition::Duration) {
                Condition::Duration(least, greatest) => (least, greatest),
                Condition::Any(_) => (1, 0),
                _ => {
                    return self.refuse(
                        node.span,
                        "`trace.duration` cannot be compared by `!=`",
                        "use `<`, `<=`, `>`, `>=` or `==`",
                    );
                }
            };
        *durations = (*durations.start()).max(least)..=(*durations.end()).min(greatest);
        Ok(())
    }

    /// Returns the operator and the number if a node compares the request's duration with a number;
    /// `None` otherwise. If the number is on the left, the operator is mirrored.
    fn trace_duration<'n>(&self, node: &'n Node) -> Option<(CompareOp, &'n Node)> {
        let Expr::Compare(op, left, right) = &node.expr else { return None };
        let is_field = |node: &Node| match node.expr {
            Expr::Operand(operand) => matches!(self.field(operand), Ok(Field::TraceDuration)),
            _ => false,
        };
        let is_number =
            |node: &Node| matches!(node.expr, Expr::Uint(_) | Expr::Int(_) | Expr::Float(_));
        if is_field(left) && is_number(right) {
            Some((*op, right))
        } else if is_field(right) && is_number(left) {
            Some((mirrored(*op), left))
        } else {
            None
        }
    }

    fn refuse<T>(
        &self,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Result<T, FilterError> {
        Err(FilterError::unsupported(self.filter, span, message, Some(hint.into())))
    }

    fn field(&self, operand: usize) -> Result<&Field, FilterError> {
        self.fields[operand].as_ref().map_err(Clone::clone)
    }

    fn condition(&self, node: &Node) -> Result<Condition, FilterError> {
        self.refuse_trace_duration(node)?;
        let all = |nodes: &[Node]| -> Result<Vec<Condition>, FilterError> {
            nodes.iter().map(|node| self.condition(node)).collect()
        };
        match &node.expr {
            Expr::Not(child) => Ok(not(self.condition(child)?)),
            Expr::All(children) => all(children).map(Condition::All),
            Expr::Any(children) => all(children).map(Condition::Any),
            Expr::Has(operand) => self.field(*operand).map(presence_condition),
            Expr::Operand(operand) => self.bare_field(*operand, node.span),
            Expr::Compare(op, left, right) => self.comparison(*op, left, right, node.span),
            Expr::Uint(_) | Expr::Int(_) | Expr::Float(_) | Expr::Severity(_) => self.refuse(
                node.span,
                "a number alone asks nothing of a span",
                "compare a field with it",
            ),
            _ => self.refuse_calculation(node),
        }
    }

    /// Compiles an operand without an operator. The condition holds if a flag is set, or a number
    /// is not 0.
    fn bare_field(&self, operand: usize, span: Span) -> Result<Condition, FilterError> {
        match self.field(operand)? {
            Field::Error => Ok(Condition::Error),
            Field::Root => Ok(Condition::Root),
            Field::Duration => Ok(Condition::Duration(1, u64::MAX)),
            Field::Start => Ok(Condition::Start(1, u64::MAX)),
            field @ (Field::Tag(_) | Field::EventAttribute(_) | Field::LinkAttribute(_)) => {
                Ok(attribute_number(field, CompareOp::NotEqual, Number::Int(0)))
            }
            Field::Text(_)
            | Field::Kind
            | Field::Status
            | Field::TraceId
            | Field::Annotation
            | Field::Event
            | Field::Link
            | Field::AnyText
            | Field::TraceDuration => {
                let name = &self.filter.operands()[operand];
                self.refuse(
                    span,
                    format!("`{name}` is text, which is neither true nor false"),
                    format!(
                        "compare it, as in `{name} == \"open*\"`, or ask for it by `has({name})`"
                    ),
                )
            }
        }
    }

    fn comparison(
        &self,
        op: CompareOp,
        left: &Node,
        right: &Node,
        span: Span,
    ) -> Result<Condition, FilterError> {
        match (&left.expr, &right.expr) {
            (Expr::Operand(one), Expr::Operand(other)) => {
                match (self.field(*one), self.field(*other)) {
                    (Ok(Field::Kind), _) => self.kind_word(op, self.word(*other), right.span),
                    (_, Ok(Field::Kind)) => self.kind_word(op, self.word(*one), left.span),
                    (Ok(Field::Status), _) => self.status_word(op, self.word(*other), right.span),
                    (_, Ok(Field::Status)) => self.status_word(op, self.word(*one), left.span),
                    _ => self.refuse(
                        span,
                        "two fields cannot be compared",
                        "if one of them is text, put it in quotes",
                    ),
                }
            }
            (Expr::Operand(operand), _) => {
                self.compare(Comparison { op, operand: *operand, literal: right, span })
            }
            (_, Expr::Operand(operand)) => {
                let op = mirrored(op);
                self.compare(Comparison { op, operand: *operand, literal: left, span })
            }
            (Expr::Binary(..) | Expr::Negate(_) | Expr::BitNot(_), _) => {
                self.refuse_calculation(left)
            }
            (_, Expr::Binary(..) | Expr::Negate(_) | Expr::BitNot(_)) => {
                self.refuse_calculation(right)
            }
            _ => self.refuse(
                span,
                "this comparison asks nothing of a span",
                "compare a field with a number or with text",
            ),
        }
    }

    fn compare(&self, comparison: Comparison<'_>) -> Result<Condition, FilterError> {
        let Comparison { operand, literal, span, .. } = comparison;
        let field = self.field(operand)?;
        if matches!(field, Field::Error | Field::Root) {
            let name = &self.filter.operands()[operand];
            return self.refuse(
                span,
                format!("`{name}` is true or false, and compares with nothing"),
                format!("write `{name}` or `!{name}`; the tag of that name is `tag.{name}`"),
            );
        }
        match &literal.expr {
            Expr::Uint(_) | Expr::Int(_) | Expr::Float(_) => self.compare_number(comparison, field),
            Expr::Str(_) | Expr::Glob(_) => self.compare_text(comparison, field),
            Expr::Severity(_) => self.refuse(
                literal.span,
                "spans have no severity",
                "compare the tag with a number, or with text in quotes",
            ),
            _ => self.refuse_calculation(literal),
        }
    }

    fn compare_number(
        &self,
        comparison: Comparison<'_>,
        field: &Field,
    ) -> Result<Condition, FilterError> {
        let Comparison { op, operand, literal, .. } = comparison;
        let (number, span) = (Literal::of(&literal.expr), literal.span);
        match field {
            Field::TraceId | Field::Link => {
                self.refuse(span, "an id is text", "put it in quotes; it is hexadecimal")
            }
            Field::Status => self.refuse(
                span,
                format!("a status is {}", STATUSES.join(", ")),
                "the tag of that name is `tag.status`",
            ),
            Field::Duration => Ok(range_condition(op, number, Condition::Duration)),
            Field::Start => Ok(range_condition(op, number, Condition::Start)),
            Field::Tag(_) | Field::EventAttribute(_) | Field::LinkAttribute(_) => {
                Ok(attribute_number(field, op, number.number()))
            }
            Field::Text(_)
            | Field::Kind
            | Field::Annotation
            | Field::Event
            | Field::AnyText
            | Field::TraceDuration
            | Field::Error
            | Field::Root => {
                let name = &self.filter.operands()[operand];
                self.refuse(
                    span,
                    format!("`{name}` is text, and compares with no number"),
                    "put the text in quotes",
                )
            }
        }
    }

    fn compare_text(
        &self,
        comparison: Comparison<'_>,
        field: &Field,
    ) -> Result<Condition, FilterError> {
        let Comparison { op, operand, literal, span } = comparison;
        if matches!(field, Field::Duration | Field::Start) {
            let name = &self.filter.operands()[operand];
            return self.refuse(
                literal.span,
                format!("`{name}` is a number, and compares with no text"),
                "times are numbers of nanoseconds, or have a unit, as in `5ms`",
            );
        }
        if !op.is_equality() {
            return self.refuse(
                span,
                format!("text cannot be compared by `{}`", op.symbol()),
                "use `==` or `!=`; a number is written without quotes",
            );
        }
        let ignores_case = matches!(field, Field::Text(_) | Field::AnyText);
        let equal = match (field, &literal.expr) {
            (Field::Kind, Expr::Str(word)) => {
                return self.kind_word(op, std::str::from_utf8(word).ok(), literal.span);
            }
            (Field::Status, Expr::Str(word)) => {
                return self.status_word(op, std::str::from_utf8(word).ok(), literal.span);
            }
            (Field::TraceId, Expr::Str(text)) => {
                Condition::TraceId(self.trace_id(text, literal.span)?)
            }
            (Field::Link, Expr::Str(text)) => {
                Condition::Link(Some(self.trace_id(text, literal.span)?))
            }
            (Field::Status | Field::TraceId | Field::Link, _) => {
                return self.refuse(
                    literal.span,
                    "neither ids nor statuses have patterns",
                    "write it without `*`",
                );
            }
            (Field::Kind, Expr::Glob(glob)) => {
                let glob = in_lower_case(glob);
                let alike = KINDS.iter().filter(|(word, _)| glob.matches(word.as_bytes()));
                Condition::Any(alike.map(|(_, kind)| Condition::Kind(*kind)).collect())
            }
            (_, expr) => match text_test(expr, ignores_case) {
                None => Condition::Any(Vec::new()),
                Some(test) => match field {
                    Field::Text(field) => Condition::Text(*field, test),
                    Field::Tag(_) | Field::EventAttribute(_) | Field::LinkAttribute(_) => {
                        attribute(field, TagTest::Text(test))
                    }
                    Field::Event => Condition::Event(test),
                    Field::AnyText => Condition::AnyText(test),
                    _ => Condition::Annotation(test),
                },
            },
        };
        Ok(match op {
            CompareOp::NotEqual => Condition::All(vec![has_text(field), not(equal)]),
            _ => equal,
        })
    }

    /// Returns an error if a node uses `trace.duration`, where only conditions on spans are
    /// allowed.
    fn refuse_trace_duration(&self, node: &Node) -> Result<(), FilterError> {
        let operands: &[usize] = match &node.expr {
            Expr::Operand(operand) | Expr::Has(operand) => &[*operand],
            Expr::Compare(_, left, right) => match (&left.expr, &right.expr) {
                (Expr::Operand(one), Expr::Operand(other)) => &[*one, *other],
                (Expr::Operand(one), _) | (_, Expr::Operand(one)) => &[*one],
                _ => &[],
            },
            _ => &[],
        };
        let is_duration =
            |operand: &&usize| matches!(self.fields[**operand], Ok(Field::TraceDuration));
        match operands.iter().find(is_duration) {
            None => Ok(()),
            Some(_) => self.refuse(
                node.span,
                "`trace.duration` is not the duration of a span",
                "in a search, compare it with a number, beside `&&`; a span's is `duration`",
            ),
        }
    }

    /// Returns the operand's name if the operand is a single name; `None` otherwise.
    fn word(&self, operand: usize) -> Option<&str> {
        match self.filter.operands()[operand].path.as_slice() {
            [Step::Name(name)] => Some(name),
            _ => None,
        }
    }

    fn kind_word(
        &self,
        op: CompareOp,
        word: Option<&str>,
        span: Span,
    ) -> Result<Condition, FilterError> {
        if !op.is_equality() {
            let message = format!("kinds cannot be compared by `{}`", op.symbol());
            return self.refuse(span, message, "use `==` or `!=`");
        }
        let Some(kind) = word.and_then(kind_of) else {
            let nearest = suggest(word.unwrap_or_default(), KINDS.map(|(word, _)| word));
            let hint = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("there are {}", KINDS.map(|(word, _)| word).join(", ")),
            };
            return self.refuse(span, "unknown kind of span", hint);
        };
        let equal = Condition::Kind(kind);
        Ok(match op {
            CompareOp::NotEqual => {
                Condition::All(vec![presence_condition(&Field::Kind), not(equal)])
            }
            _ => equal,
        })
    }

    fn status_word(
        &self,
        op: CompareOp,
        word: Option<&str>,
        span: Span,
    ) -> Result<Condition, FilterError> {
        if !op.is_equality() {
            let message = format!("a status cannot be compared by `{}`", op.symbol());
            return self.refuse(span, message, "use `==` or `!=`");
        }
        let equal = match word.map(str::to_ascii_lowercase).as_deref() {
            Some("error") => Condition::Error,
            Some("ok") => Condition::StatusOk,
            Some("unset") => not(has_status()),
            _ => {
                let hint = match suggest(word.unwrap_or_default(), STATUSES) {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => {
                        format!("there are {}; a tag is `tag.status`", STATUSES.join(", "))
                    }
                };
                return self.refuse(span, "unknown status", hint);
            }
        };
        Ok(if op == CompareOp::NotEqual { not(equal) } else { equal })
    }

    fn trace_id(&self, text: &[u8], span: Span) -> Result<TraceId, FilterError> {
        let digits = std::str::from_utf8(text)
            .ok()
            .filter(|text| text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        match number.and_then(TraceId::from_number) {
            Some(id) => Ok(id),
            None => self.refuse(
                span,
                "this is no id of a trace",
                "an id is 1 to 32 hexadecimal digits, not all of them 0",
            ),
        }
    }

    fn refuse_calculation<T>(&self, node: &Node) -> Result<T, FilterError> {
        let what = match &node.expr {
            Expr::Binary(BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor, ..)
            | Expr::Binary(BinaryOp::ShiftLeft | BinaryOp::ShiftRight, ..)
            | Expr::BitNot(_) => "bits of spans cannot be asked for",
            Expr::Binary(..) | Expr::Negate(_) => "spans cannot be calculated with",
            _ => "a condition cannot be compared",
        };
        self.refuse(node.span, what, "compare one field with a number or with text")
    }
}

/// Number literal of a filter.
#[derive(Clone, Copy)]
enum Literal {
    Int(i128),
    Float(f64),
}

impl Literal {
    fn of(expr: &Expr) -> Literal {
        match expr {
            Expr::Uint(number) => Literal::Int((*number).into()),
            Expr::Int(number) => Literal::Int((*number).into()),
            Expr::Float(number) => Literal::Float(*number),
            _ => Literal::Int(0),
        }
    }

    fn number(self) -> Number {
        match self {
            Literal::Int(number) => {
                i64::try_from(number).map_or(Number::Float(number as f64), Number::Int)
            }
            Literal::Float(number) => Number::Float(number),
        }
    }

    /// Returns the greatest integer not above the number, and the least integer not below it.
    fn floor_and_ceiling(self) -> (i128, i128) {
        match self {
            Literal::Int(number) => (number, number),
            Literal::Float(number) => (number.floor() as i128, number.ceil() as i128),
        }
    }
}

/// Returns the condition that a nonnegative integer field exists, and that comparing it with
/// `number` by `op` gives true. `make` creates the condition for an inclusive range.
fn range_condition(op: CompareOp, number: Literal, make: fn(u64, u64) -> Condition) -> Condition {
    let (floor, ceiling) = number.floor_and_ceiling();
    let (first, last) = match op {
        // The range is empty unless the number is an integer, as fields are integers.
        CompareOp::Equal | CompareOp::NotEqual => (ceiling, floor),
        CompareOp::Less => (0, ceiling.saturating_sub(1)),
        CompareOp::LessOrEqual => (0, floor),
        CompareOp::Greater => (floor.saturating_add(1), i128::MAX),
        CompareOp::GreaterOrEqual => (ceiling, i128::MAX),
    };
    let (first, last) = (first.max(0), last.min(u64::MAX.into()));
    let range = match (u64::try_from(first), u64::try_from(last)) {
        (Ok(first), Ok(last)) if first <= last => make(first, last),
        _ => Condition::Any(Vec::new()),
    };
    match op {
        CompareOp::NotEqual => Condition::All(vec![make(0, u64::MAX), not(range)]),
        _ => range,
    }
}

/// Returns the condition that applies a test to a tag, or to an attribute of an event or a link.
fn attribute(field: &Field, test: TagTest) -> Condition {
    match field {
        Field::Tag(key) => Condition::Tag(key.clone(), test),
        Field::EventAttribute(key) => Condition::EventAttribute(key.clone(), test),
        Field::LinkAttribute(key) => Condition::LinkAttribute(key.clone(), test),
        _ => Condition::Any(Vec::new()),
    }
}

/// Returns the condition that compares a tag or an attribute with a number.
fn attribute_number(field: &Field, op: CompareOp, number: Number) -> Condition {
    let tag = |least, greatest| attribute(field, TagTest::Number(least, greatest));
    let equal = tag(number, number);
    match op {
        CompareOp::Equal => equal,
        CompareOp::NotEqual => Condition::All(vec![tag(LOWEST, HIGHEST), not(equal)]),
        CompareOp::Less => attribute(field, TagTest::Below(number)),
        CompareOp::LessOrEqual => tag(LOWEST, number),
        CompareOp::Greater => attribute(field, TagTest::Above(number)),
        CompareOp::GreaterOrEqual => tag(number, HIGHEST),
    }
}

/// Returns the condition that a field is present in a span.
fn presence_condition(field: &Field) -> Condition {
    match field {
        Field::Text(field) => Condition::Text(*field, TextTest::Present),
        Field::Kind => not(Condition::Kind(Kind::Unspecified)),
        Field::Duration => Condition::Duration(0, u64::MAX),
        Field::Start => Condition::Start(0, u64::MAX),
        Field::Error => Condition::Error,
        Field::Status => has_status(),
        Field::TraceId => Condition::All(Vec::new()),
        Field::Root => Condition::Root,
        Field::Annotation => Condition::Annotation(TextTest::Present),
        Field::AnyText | Field::TraceDuration => Condition::AnyText(TextTest::Present),
        Field::Event => Condition::Event(TextTest::Present),
        Field::Link => Condition::Link(None),
        Field::Tag(_) | Field::EventAttribute(_) | Field::LinkAttribute(_) => {
            attribute(field, TagTest::Present)
        }
    }
}

/// Returns the condition that a span has a status: it failed, or its sender marked it as
/// successful.
fn has_status() -> Condition {
    Condition::Any(vec![Condition::Error, Condition::StatusOk])
}

/// Returns the condition that a field has a nonempty text.
fn has_text(field: &Field) -> Condition {
    match field {
        Field::Tag(_) | Field::EventAttribute(_) | Field::LinkAttribute(_) => {
            attribute(field, TagTest::Text(TextTest::Present))
        }
        field => presence_condition(field),
    }
}

/// Returns the test that compares a text with a literal. `None` if no text can match the literal.
fn text_test(expr: &Expr, ignores_case: bool) -> Option<TextTest> {
    match expr {
        Expr::Str(bytes) => {
            let text = std::str::from_utf8(bytes).ok()?;
            let text = if ignores_case { text.to_ascii_lowercase() } else { text.to_owned() };
            Some(TextTest::Is(text))
        }
        Expr::Glob(glob) if ignores_case => Some(TextTest::Like(in_lower_case(glob))),
        Expr::Glob(glob) => Some(TextTest::Like(glob.clone())),
        _ => None,
    }
}

fn in_lower_case(glob: &Glob) -> Glob {
    let pieces: Vec<Vec<u8>> = glob.pieces().map(<[u8]>::to_ascii_lowercase).collect();
    Glob::new(&pieces).unwrap_or_else(|| glob.clone())
}

/// Returns the operator for exchanged operands, such as `>` for `<`.
fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Less => CompareOp::Greater,
        CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
        equality => equality,
    }
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}
