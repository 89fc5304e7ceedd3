//! Plans of filters: the tree of a filter, with operands resolved to the fields of one event type.
//!
//! The types of all fields are known, so each expression is a number of known signedness, a text,
//! or has no value. Comparisons whose result is therefore certain disappear. What remains unknown
//! until an event is evaluated is the value, and whether an operation has a result: a division by
//! 0 has none.

use super::fields::{FieldForm, FieldTable};
use crate::event_type::{Integer, LEVEL};
use blkkin_filter::tree::{BinaryOp, CompareOp};
use blkkin_filter::{
    Expr, Filter, FilterError, Glob, Node, Operand, OperandKind, PseudoField, Severity, Step, Value,
};

/// Maximum number of different texts and arrays in a filter.
pub(super) const BLOCKS_MAX: usize = 4;
/// Maximum number of values that wait for the other side of an operator.
pub(super) const WAITING_MAX: usize = 8;

/// Filter for the events of one type.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) root: Condition,
    /// Texts and arrays that are copied before they are compared.
    pub(super) blocks: Vec<Block>,
}

/// Condition that is true or false.
#[derive(Debug)]
pub(super) enum Condition {
    Fixed(bool),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    /// The number is not 0.
    True(Number),
    /// The number has a value.
    Exists(Number),
    Numbers(CompareOp, Number, Number),
    /// Comparison of a block, on the left, with known bytes.
    Text(CompareOp, usize, Box<[u8]>),
    /// Comparison of two blocks.
    Blocks(CompareOp, usize, usize),
    /// The block matches the pattern.
    Matches(usize, Glob),
}

/// Number of 64 bits.
#[derive(Debug)]
pub(super) struct Number {
    pub(super) is_signed: bool,
    pub(super) source: NumberSource,
}

#[derive(Debug)]
pub(super) enum NumberSource {
    Fixed(u64),
    Pid,
    Tid,
    Cpu,
    /// Field with this name.
    Field(String, Integer),
    /// Element of the array in the register of the field with this name.
    Word(String, Integer, usize),
    /// Integer in a block, at this offset; it has no value if the block is shorter.
    InBlock(usize, Integer, usize),
    /// 1 or 0.
    Truth(Box<Condition>),
    Negate(Box<Number>),
    BitNot(Box<Number>),
    Binary(BinaryOp, Box<Number>, Box<Number>),
}

/// Text or array that is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Field with this name.
    Field(String),
    /// Name of the thread.
    Procname,
}

/// Value of an expression, as far as it is known without an event.
enum ResolvedValue {
    /// The event has no such field.
    Absent,
    /// The field has no value that can be compared.
    Present,
    Number(Number),
    Text(Box<[u8]>),
    Block(usize),
    /// Number with labels: a severity.
    Severity(Severity),
}

impl Plan {
    /// Resolves a filter for the events of a type. An error states the part of the filter that
    /// cannot run in the kernel.
    pub(super) fn new(filter: &Filter, fields: &FieldTable<'_>) -> Result<Plan, FilterError> {
        let mut planner = Planner { filter, fields, blocks: Vec::new() };
        let root = planner.condition(filter.root())?;
        if root.need() > WAITING_MAX {
            let message = "this filter has too many parentheses for the kernel";
            return Err(FilterError::unsupported(filter, filter.root().span, message, None));
        }
        Ok(Plan { root, blocks: planner.blocks })
    }
}

struct Planner<'p> {
    filter: &'p Filter,
    fields: &'p FieldTable<'p>,
    blocks: Vec<Block>,
}

impl Planner<'_> {
    fn refuse<T>(&self, node: &Node, message: &str) -> Result<T, FilterError> {
        let hint = Some("events can be filtered when they are read".to_owned());
        Err(FilterError::unsupported(self.filter, node.span, message, hint))
    }

    fn condition(&mut self, node: &Node) -> Result<Condition, FilterError> {
        Ok(match &node.expr {
            Expr::Not(child) => match self.condition(child)? {
                Condition::Fixed(is_true) => Condition::Fixed(!is_true),
                child => Condition::Not(Box::new(child)),
            },
            Expr::All(children) => self.chain(children, false)?,
            Expr::Any(children) => self.chain(children, true)?,
            Expr::Has(operand) => match self.operand(node, *operand)? {
                ResolvedValue::Absent => Condition::Fixed(false),
                ResolvedValue::Number(number) if number.may_be_absent() => {
                    Condition::Exists(number)
                }
                _ => Condition::Fixed(true),
            },
            Expr::Compare(op, left, right) => self.compare(*op, left, right)?,
            _ => match self.value(node)? {
                ResolvedValue::Number(number) => truth(number),
                ResolvedValue::Severity(level) => Condition::Fixed(level.number() != 0),
                ResolvedValue::Absent
                | ResolvedValue::Present
                | ResolvedValue::Text(_)
                | ResolvedValue::Block(_) => Condition::Fixed(false),
            },
        })
    }

    /// Returns the condition for `&&`, or for `||` if `is_any`.
    fn chain(&mut self, children: &[Node], is_any: bool) -> Result<Condition, FilterError> {
        let mut conditions = Vec::new();
        let mut is_decided = false;
        for child in children {
            match self.condition(child)? {
                Condition::Fixed(is_true) => is_decided |= is_true == is_any,
                condition => conditions.push(condition),
            }
        }
        Ok(match conditions.len() {
            _ if is_decided => Condition::Fixed(is_any),
            0 => Condition::Fixed(!is_any),
            _ if is_any => Condition::Any(conditions),
            _ => Condition::All(conditions),
        })
    }

    fn compare(
        &mut self,
        op: CompareOp,
        left: &Node,
        right: &Node,
    ) -> Result<Condition, FilterError> {
        match (&left.expr, &right.expr) {
            (Expr::Glob(glob), _) => return self.compare_glob(op, glob, right),
            (_, Expr::Glob(glob)) => return self.compare_glob(op, glob, left),
            _ => {}
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        Ok(match (left, right) {
            (ResolvedValue::Block(left), ResolvedValue::Block(right)) => {
                Condition::Blocks(op, left, right)
            }
            (ResolvedValue::Block(block), ResolvedValue::Text(text)) => {
                Condition::Text(op, block, text)
            }
            (ResolvedValue::Text(text), ResolvedValue::Block(block)) => {
                Condition::Text(reversed(op), block, text)
            }
            (ResolvedValue::Text(left), ResolvedValue::Text(right)) => {
                Condition::Fixed(holds(op, left.cmp(&right)))
            }
            (ResolvedValue::Severity(level), ResolvedValue::Text(text))
            | (ResolvedValue::Text(text), ResolvedValue::Severity(level)) => {
                let is_label = labels(level).iter().any(|label| **label == *text);
                Condition::Fixed(op.is_equality() && is_label == (op == CompareOp::Equal))
            }
            (ResolvedValue::Severity(level), ResolvedValue::Block(block))
            | (ResolvedValue::Block(block), ResolvedValue::Severity(level)) => {
                compare_labels(op, block, labels(level))
            }
            (left, right) => match (left.into_number(), right.into_number()) {
                (Some(left), Some(right)) => compare_numbers(op, left, right),
                _ => Condition::Fixed(false),
            },
        })
    }

    fn compare_glob(
        &mut self,
        op: CompareOp,
        glob: &Glob,
        other: &Node,
    ) -> Result<Condition, FilterError> {
        let is_equal = op == CompareOp::Equal;
        Ok(match self.value(other)? {
            ResolvedValue::Block(block) => {
                let matches = Condition::Matches(block, glob.clone());
                if is_equal { matches } else { Condition::Not(Box::new(matches)) }
            }
            ResolvedValue::Text(text) => Condition::Fixed(glob.matches(&text) == is_equal),
            ResolvedValue::Severity(level) => {
                let is_label = labels(level).iter().any(|label| glob.matches(label));
                Condition::Fixed(is_label == is_equal)
            }
            ResolvedValue::Absent | ResolvedValue::Present | ResolvedValue::Number(_) => {
                Condition::Fixed(false)
            }
        })
    }

    fn value(&mut self, node: &Node) -> Result<ResolvedValue, FilterError> {
        let known = match &node.expr {
            Expr::Uint(number) => ResolvedValue::fixed(*number, false),
            Expr::Int(number) => ResolvedValue::fixed(number.cast_unsigned(), true),
            Expr::Severity(level) => ResolvedValue::fixed(level.number(), false),
            Expr::Float(_) => {
                return self.refuse(node, "the kernel cannot compute with floats");
            }
            Expr::Str(bytes) => ResolvedValue::Text(bytes.clone()),
            Expr::Operand(operand) => self.operand(node, *operand)?,
            Expr::Negate(child) => {
                self.value(child)?.map(|number| (true, NumberSource::Negate(Box::new(number))))
            }
            Expr::BitNot(child) => {
                self.value(child)?.map(|number| (false, NumberSource::BitNot(Box::new(number))))
            }
            Expr::Binary(op, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                match (left.into_number(), right.into_number()) {
                    (Some(left), Some(right)) => {
                        let is_signed = is_signed(*op, &left, &right);
                        let source = NumberSource::Binary(*op, Box::new(left), Box::new(right));
                        ResolvedValue::Number(Number { is_signed, source })
                    }
                    _ => ResolvedValue::Absent,
                }
            }
            // A pattern has no value of its own.
            Expr::Glob(_) => ResolvedValue::Absent,
            Expr::Not(_) | Expr::All(_) | Expr::Any(_) | Expr::Compare(..) | Expr::Has(_) => {
                match self.condition(node)? {
                    Condition::Fixed(is_true) => ResolvedValue::fixed(is_true.into(), false),
                    condition => {
                        let source = NumberSource::Truth(Box::new(condition));
                        ResolvedValue::Number(Number { is_signed: false, source })
                    }
                }
            }
        };
        Ok(known)
    }

    fn operand(&mut self, node: &Node, index: usize) -> Result<ResolvedValue, FilterError> {
        let Some(operand) = self.filter.operands().get(index) else {
            return Ok(ResolvedValue::Absent);
        };
        let pseudo = match (operand.kind, operand.path.as_slice()) {
            (OperandKind::Payload, [Step::Name(name), Step::Index(index)]) => {
                return self.element(node, name, *index);
            }
            (OperandKind::Payload, [Step::Name(name)]) => match self.field(node, name)? {
                Some(known) => return Ok(known),
                None => operand.pseudo(),
            },
            (OperandKind::Pseudo(pseudo), _) => Some(pseudo),
            (OperandKind::Context, [Step::Name(name)]) => PseudoField::of_context(name),
            (OperandKind::Env | OperandKind::Packet, _) => {
                return self.refuse(node, "this does not exist while events are recorded");
            }
            _ => None,
        };
        match pseudo {
            Some(pseudo) => self.pseudo(node, pseudo, operand),
            None => Ok(ResolvedValue::Absent),
        }
    }

    fn pseudo(
        &mut self,
        node: &Node,
        pseudo: PseudoField,
        operand: &Operand,
    ) -> Result<ResolvedValue, FilterError> {
        let number = |source, is_signed| ResolvedValue::Number(Number { is_signed, source });
        Ok(match pseudo {
            PseudoField::Name => ResolvedValue::Text(self.fields.event.as_bytes().into()),
            PseudoField::Severity => ResolvedValue::Severity(LEVEL),
            PseudoField::Cpu => number(NumberSource::Cpu, false),
            PseudoField::Pid => number(NumberSource::Pid, true),
            PseudoField::Tid => number(NumberSource::Tid, true),
            PseudoField::Procname => self.block(node, Block::Procname)?,
            // `has` tests a bare name, which may be that of a field.
            PseudoField::Time | PseudoField::Stream | PseudoField::Trace
                if operand.kind == OperandKind::Payload =>
            {
                ResolvedValue::Absent
            }
            PseudoField::Time | PseudoField::Stream | PseudoField::Trace => {
                return self.refuse(node, "this does not exist while events are recorded");
            }
        })
    }

    /// Returns the value of a field of the payload; `None` if there is no such field.
    fn field(&mut self, node: &Node, name: &str) -> Result<Option<ResolvedValue>, FilterError> {
        let Some(loader) = self.fields.find(name) else { return Ok(None) };
        Ok(Some(match loader.form {
            FieldForm::Integer(integer) => ResolvedValue::Number(Number {
                is_signed: integer.is_signed,
                source: NumberSource::Field(name.to_owned(), integer),
            }),
            FieldForm::Float => {
                return self.refuse(node, "the kernel cannot compare floating-point numbers");
            }
            FieldForm::Text { .. } => self.block(node, Block::Field(name.to_owned()))?,
            FieldForm::Word { .. } | FieldForm::Array { .. } | FieldForm::Bytes { .. } => {
                ResolvedValue::Present
            }
        }))
    }

    /// Returns the value of an element of an array.
    fn element(
        &mut self,
        node: &Node,
        name: &str,
        index: u64,
    ) -> Result<ResolvedValue, FilterError> {
        let Some(loader) = self.fields.find(name) else { return Ok(ResolvedValue::Absent) };
        let (element, count) = match loader.form {
            FieldForm::Word { element, count } | FieldForm::Array { element, count } => {
                (element, count)
            }
            FieldForm::Bytes { size_max, .. } => (Integer::unsigned(1), size_max),
            FieldForm::Integer(_) | FieldForm::Float | FieldForm::Text { .. } => {
                return Ok(ResolvedValue::Absent);
            }
        };
        let Some(index) = usize::try_from(index).ok().filter(|index| *index < count) else {
            return Ok(ResolvedValue::Absent);
        };
        let source = match loader.form {
            FieldForm::Word { .. } => NumberSource::Word(name.to_owned(), element, index),
            _ => {
                let block = self.block_index(node, Block::Field(name.to_owned()))?;
                NumberSource::InBlock(block, element, index * element.bytes)
            }
        };
        Ok(ResolvedValue::Number(Number { is_signed: element.is_signed, source }))
    }

    fn block(&mut self, node: &Node, block: Block) -> Result<ResolvedValue, FilterError> {
        self.block_index(node, block).map(ResolvedValue::Block)
    }

    fn block_index(&mut self, node: &Node, block: Block) -> Result<usize, FilterError> {
        if let Some(index) = self.blocks.iter().position(|known| *known == block) {
            return Ok(index);
        }
        if self.blocks.len() == BLOCKS_MAX {
            let message = format!("a filter in the kernel can use {BLOCKS_MAX} texts or arrays");
            return self.refuse(node, &message);
        }
        self.blocks.push(block);
        Ok(self.blocks.len() - 1)
    }
}

impl ResolvedValue {
    fn fixed(bits: u64, is_signed: bool) -> ResolvedValue {
        ResolvedValue::Number(Number { is_signed, source: NumberSource::Fixed(bits) })
    }

    fn into_number(self) -> Option<Number> {
        match self {
            ResolvedValue::Number(number) => Some(number),
            ResolvedValue::Severity(level) => {
                ResolvedValue::fixed(level.number(), false).into_number()
            }
            ResolvedValue::Absent
            | ResolvedValue::Present
            | ResolvedValue::Text(_)
            | ResolvedValue::Block(_) => None,
        }
    }

    /// Returns the number that `operation` makes of this number, by its signedness and source.
    fn map(self, operation: impl FnOnce(Number) -> (bool, NumberSource)) -> ResolvedValue {
        let Some(number) = self.into_number() else { return ResolvedValue::Absent };
        let (is_signed, source) = operation(number);
        ResolvedValue::Number(Number { is_signed, source })
    }
}

fn labels(level: Severity) -> Vec<Box<[u8]>> {
    let mut found = Vec::new();
    if let Value::Enum(integer, labels) = level.value() {
        labels.any(integer, &mut |label| {
            found.push(label.into());
            false
        });
    }
    found
}

/// Returns the comparison of a block with labels, of which one must match.
fn compare_labels(op: CompareOp, block: usize, labels: Vec<Box<[u8]>>) -> Condition {
    if !op.is_equality() {
        return Condition::Fixed(false);
    }
    let equal = |label| Condition::Text(CompareOp::Equal, block, label);
    let any = Condition::Any(labels.into_iter().map(equal).collect());
    if op == CompareOp::Equal { any } else { Condition::Not(Box::new(any)) }
}

fn compare_numbers(op: CompareOp, left: Number, right: Number) -> Condition {
    match (left.exact(), right.exact()) {
        (Some(left), Some(right)) => Condition::Fixed(holds(op, left.cmp(&right))),
        _ => Condition::Numbers(op, left, right),
    }
}

fn truth(number: Number) -> Condition {
    match number.source {
        NumberSource::Fixed(bits) => Condition::Fixed(bits != 0),
        NumberSource::Truth(condition) => *condition,
        _ => Condition::True(number),
    }
}

/// Returns true if a comparison holds for two values in this order.
pub(super) fn holds(op: CompareOp, order: std::cmp::Ordering) -> bool {
    match op {
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::Less => order.is_lt(),
        CompareOp::LessOrEqual => order.is_le(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::GreaterOrEqual => order.is_ge(),
    }
}

/// Returns the operator for the same comparison with its sides exchanged.
fn reversed(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Less => CompareOp::Greater,
        CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
        CompareOp::Equal | CompareOp::NotEqual => op,
    }
}

fn is_signed(op: BinaryOp, left: &Number, right: &Number) -> bool {
    match op {
        BinaryOp::Subtract => true,
        BinaryOp::Add | BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Remainder => {
            left.is_signed || right.is_signed
        }
        BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRight => false,
    }
}

impl Number {
    /// Returns the value of a literal.
    fn exact(&self) -> Option<i128> {
        match self.source {
            NumberSource::Fixed(bits) if self.is_signed => Some(bits.cast_signed().into()),
            NumberSource::Fixed(bits) => Some(bits.into()),
            _ => None,
        }
    }

    fn may_be_absent(&self) -> bool {
        matches!(self.source, NumberSource::InBlock(..))
    }

    /// Returns how many values are held at once while the number is computed.
    pub(super) fn need(&self) -> usize {
        match &self.source {
            NumberSource::Negate(child) | NumberSource::BitNot(child) => child.need(),
            NumberSource::Binary(_, left, right) => need_of_both(left, right),
            NumberSource::Truth(condition) => condition.need(),
            _ => 1,
        }
    }
}

fn need_of_both(left: &Number, right: &Number) -> usize {
    let (left, right) = (left.need(), right.need());
    left.max(right) + usize::from(left == right)
}

impl Condition {
    fn need(&self) -> usize {
        match self {
            Condition::Not(child) => child.need(),
            Condition::All(children) | Condition::Any(children) => {
                children.iter().map(Condition::need).max().unwrap_or(1)
            }
            Condition::True(number) | Condition::Exists(number) => number.need(),
            Condition::Numbers(_, left, right) => need_of_both(left, right),
            Condition::Fixed(_)
            | Condition::Text(..)
            | Condition::Blocks(..)
            | Condition::Matches(..) => 1,
        }
    }
}
