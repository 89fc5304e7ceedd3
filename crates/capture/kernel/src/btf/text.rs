//! Types in C notation.

use super::file::{Btf, Record};
use super::kind::Kind;

/// Maximum length of a type's text in bytes, before the ellipsis of a longer one.
const TEXT_BYTES_MAX: usize = 256;
/// Maximum number of types that a text may consist of. It also ends cycles.
const STEPS_MAX: u32 = 256;
/// Maximum depth of functions in parameters of functions.
const DEPTH_MAX: u32 = 4;
/// Mark of a shortened text.
const ELLIPSIS: &str = "…";

impl Btf {
    /// Returns a type in C notation, such as `const char *` or `int (*)(void *, int)`. The content
    /// of structures without a name is left out, as is that of types nested too deeply. The text
    /// has at most 256 bytes and an ellipsis.
    pub fn type_text(&self, type_id: u32) -> String {
        let mut printer = Printer { btf: self, steps_left: STEPS_MAX };
        printer.print(type_id, DEPTH_MAX)
    }
}

/// Writer of one type's text.
struct Printer<'b> {
    btf: &'b Btf,
    steps_left: u32,
}

impl Printer<'_> {
    /// Returns the text of a type. C writes a type around its declarator: the text starts as an
    /// empty declarator, which grows while pointers, arrays and functions are followed to the type
    /// at the left.
    fn print(&mut self, type_id: u32, depth: u32) -> String {
        let mut declarator = String::new();
        let mut qualifiers = String::new();
        let mut current = type_id;
        while self.steps_left > 0 && declarator.len() <= TEXT_BYTES_MAX {
            self.steps_left -= 1;
            let Some(record) = self.btf.record(current) else {
                let name = if current == 0 { "void" } else { "?" };
                return join(&qualifiers, name, &declarator);
            };
            match record.kind {
                Kind::Pointer => declarator.insert(0, '*'),
                Kind::Array => {
                    enclose(&mut declarator);
                    declarator.push_str(&format!("[{}]", record.data_word(2)));
                    current = record.data_word(0);
                    continue;
                }
                Kind::Prototype => {
                    enclose(&mut declarator);
                    let parameters = self.parameters(record, depth);
                    declarator.push_str(&format!("({parameters})"));
                }
                Kind::Const => self.qualify("const", &record, &mut declarator, &mut qualifiers),
                Kind::Volatile => {
                    self.qualify("volatile", &record, &mut declarator, &mut qualifiers);
                }
                Kind::Restrict => {
                    self.qualify("restrict", &record, &mut declarator, &mut qualifiers);
                }
                Kind::TypeTag => {}
                _ => return join(&qualifiers, &self.base(&record), &declarator),
            }
            current = record.size_or_type;
        }
        join(&qualifiers, ELLIPSIS, &declarator)
    }

    /// Adds a qualifier: to the declarator if a pointer is qualified, otherwise to the qualifiers
    /// at the left.
    fn qualify(
        &mut self,
        qualifier: &str,
        record: &Record<'_>,
        declarator: &mut String,
        qualifiers: &mut String,
    ) {
        let mut target = self.btf.record(record.size_or_type);
        while let Some(found) = target
            && matches!(found.kind, Kind::Const | Kind::Volatile | Kind::Restrict | Kind::TypeTag)
            && self.steps_left > 0
        {
            self.steps_left -= 1;
            target = self.btf.record(found.size_or_type);
        }
        if target.is_some_and(|found| found.kind == Kind::Pointer) {
            if !declarator.is_empty() && !declarator.starts_with('[') {
                declarator.insert(0, ' ');
            }
            declarator.insert_str(0, qualifier);
        } else {
            qualifiers.push_str(qualifier);
            qualifiers.push(' ');
        }
    }

    fn parameters(&mut self, prototype: Record<'_>, depth: u32) -> String {
        let mut text = String::new();
        if prototype.count == 0 {
            text.push_str("void");
        }
        for parameter in prototype.parameters() {
            if !text.is_empty() {
                text.push_str(", ");
            }
            if depth == 0 || self.steps_left == 0 || text.len() > TEXT_BYTES_MAX {
                text.push_str(ELLIPSIS);
                break;
            }
            match (parameter.type_id, parameter.name_offset) {
                (0, 0) => text.push_str("..."),
                _ => text.push_str(&self.print(parameter.type_id, depth - 1)),
            }
        }
        text
    }

    /// Returns the name of a type that no other type is part of.
    fn base(&self, record: &Record<'_>) -> String {
        let name = self.btf.name(record.name_offset);
        let keyword = match record.kind {
            Kind::Structure => "struct",
            Kind::Union => "union",
            Kind::Enumeration | Kind::Enumeration64 => "enum",
            Kind::Forward if record.is_flagged => "union",
            Kind::Forward => "struct",
            _ if name.is_empty() => return "?".to_owned(),
            _ => return name.to_owned(),
        };
        match name {
            "" => format!("{keyword} {{{ELLIPSIS}}}"),
            _ => format!("{keyword} {name}"),
        }
    }
}

/// Puts a declarator of a pointer in parentheses, because arrays and functions bind tighter.
fn enclose(declarator: &mut String) {
    // A qualified pointer begins with its qualifier only until its star is added.
    if declarator.starts_with('*') {
        declarator.insert(0, '(');
        declarator.push(')');
    }
}

/// Returns the complete text, shortened to its limit.
fn join(qualifiers: &str, base: &str, declarator: &str) -> String {
    let space = if declarator.is_empty() { "" } else { " " };
    let mut text = format!("{qualifiers}{base}{space}{declarator}");
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str(ELLIPSIS);
    }
    text
}
