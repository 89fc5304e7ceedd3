//! Event types of system calls: how each argument is recorded, by its name and type in the kernel's
//! own description.

use crate::event_type::{Integer, event_type};
use crate::redaction::{self, FieldRedactions};
use crate::request_code::{SPAN_FIELDS_SIZE, span_fields};
use crate::tracefs::{Argument, SystemCall};
use blkkin_control::{EventType, FieldKind, Redaction, RedactionMethod};

/// Maximum size of a path in an event, in bytes with its NUL: the kernel's own limit.
pub(crate) const PATH_SIZE_MAX: usize = 4096;
/// Maximum size of a socket's address, in bytes: the size of the kernel's `struct
/// sockaddr_storage`.
pub(crate) const ADDRESS_SIZE_MAX: usize = 128;
/// Size in bytes of the result and the duration, which follow the arguments.
const RESULT_SIZE: usize = 16;

/// Names of arguments that are strings which the kernel reads: paths and names. The contents of
/// other memory that a `char *` points to is the program's data, which is never read.
const STRINGS: [&str; 19] = [
    "dev_name",
    "dir_name",
    "filename",
    "from_pathname",
    "linkpath",
    "name",
    "new_root",
    "newname",
    "oldname",
    "path",
    "pathname",
    "put_old",
    "special",
    "specialfile",
    "swap_file",
    "target",
    "to_pathname",
    "uname",
    "uargs_path",
];

/// Names of arguments that are addresses, although their type is that of a number.
const ADDRESSES: [&str; 4] = ["addr", "brk", "new_addr", "start"];

/// Names of arguments that point to two descriptors: those of `pipe2` and of `socketpair`.
const DESCRIPTOR_PAIRS: [&str; 2] = ["fildes", "usockvec"];

/// Way in which an argument is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    /// Low bytes of the register.
    Integer(Integer),
    /// String that the kernel reads.
    Path,
    /// Address of a socket that the program passes; the size is in the register of the argument
    /// with this index.
    SocketAddress { size: usize },
    /// Address of a socket that a successful call returns. The argument with this index points to
    /// its size.
    ReturnedSocketAddress { size: usize },
    /// Two descriptors that a successful call returns.
    ReturnedDescriptors,
}

impl ArgumentKind {
    fn of(arguments: &[Argument], index: usize) -> ArgumentKind {
        let Argument { name, type_text, .. } = &arguments[index];
        let type_text = type_text.trim();
        if type_text.contains("struct sockaddr *")
            && let Some(next) = arguments.get(index + 1)
        {
            let size = index + 1;
            return match next.type_text.contains('*') {
                true => ArgumentKind::ReturnedSocketAddress { size },
                false => ArgumentKind::SocketAddress { size },
            };
        }
        if type_text.starts_with("const char *") && STRINGS.contains(&&**name) {
            return ArgumentKind::Path;
        }
        if type_text == "int *" && DESCRIPTOR_PAIRS.contains(&&**name) {
            return ArgumentKind::ReturnedDescriptors;
        }
        if type_text.contains('*') {
            return ArgumentKind::Integer(Integer::pointer());
        }
        let (bytes, is_signed) = match type_text.trim_start_matches("const ") {
            // Descriptors are signed, so that -1 and `AT_FDCWD` are seen as such.
            "unsigned int" if name.contains("fd") => (4, true),
            "int" | "pid_t" | "clockid_t" | "timer_t" | "key_t" | "key_serial_t" | "mqd_t"
            | "rwf_t" | "__s32" | "s32" => (4, true),
            "unsigned int"
            | "unsigned"
            | "uid_t"
            | "gid_t"
            | "umode_t"
            | "u32"
            | "__u32"
            | "qid_t"
            | "enum landlock_rule_type" => (4, false),
            "long" | "off_t" | "loff_t" | "ssize_t" | "s64" | "__s64" => (8, true),
            _ => (8, false),
        };
        let is_hex = name.ends_with("flags") || ADDRESSES.contains(&&**name);
        ArgumentKind::Integer(Integer { bytes, is_signed, is_hex })
    }

    /// Returns the maximum size of the argument in an event, in bytes.
    fn size_max(self) -> usize {
        match self {
            ArgumentKind::Integer(integer) => integer.bytes,
            ArgumentKind::Path => PATH_SIZE_MAX,
            ArgumentKind::SocketAddress { .. } | ArgumentKind::ReturnedSocketAddress { .. } => {
                4 + ADDRESS_SIZE_MAX
            }
            ArgumentKind::ReturnedDescriptors => 8,
        }
    }

    fn field(self) -> FieldKind {
        match self {
            ArgumentKind::Integer(integer) => integer.field(),
            ArgumentKind::Path => FieldKind::String,
            ArgumentKind::SocketAddress { .. } | ArgumentKind::ReturnedSocketAddress { .. } => {
                FieldKind::Bytes
            }
            ArgumentKind::ReturnedDescriptors => Integer::signed(4).array(2),
        }
    }
}

/// System call that is recorded.
#[derive(Clone, Debug)]
pub(crate) struct CallType {
    /// The kernel's number of the call.
    pub(crate) number: u32,
    /// Id of the call's events.
    pub(crate) id: u16,
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, ArgumentKind)>,
    /// Set if only calls of threads with a current span are recorded, with the ids of the span.
    pub(crate) is_of_request: bool,
    redactions: FieldRedactions,
}

/// Beginning of the names of events of system calls.
pub(crate) const CALL_PREFIX: &str = "syscall:";
/// Beginning of the names of events of system calls of threads with a current span.
pub(crate) const REQUEST_CALL_PREFIX: &str = "request:syscall:";

impl CallType {
    /// Returns the type for a call as the kernel describes it. The kernel passes at most six
    /// arguments.
    pub(crate) fn new(call: &SystemCall, id: u16) -> CallType {
        let kind = |index: usize| ArgumentKind::of(&call.arguments, index);
        let arguments = call.arguments.iter().take(6).enumerate();
        let arguments = arguments.map(|(index, one)| (one.name.clone(), kind(index))).collect();
        let name = call.name.clone();
        let (number, redactions) = (call.number, FieldRedactions::default());
        CallType { number, id, name, arguments, is_of_request: false, redactions }
    }

    /// Returns the type for the calls of threads with a current span.
    pub(crate) fn of_request(call: &SystemCall, id: u16) -> CallType {
        CallType { is_of_request: true, ..CallType::new(call, id) }
    }

    /// Returns the type of the calls with those of the redactions that hold for them.
    pub(crate) fn redacted(self, redactions: &[Redaction]) -> CallType {
        CallType { redactions: FieldRedactions::of(redactions, &self.event_name()), ..self }
    }

    /// Returns the redaction of an argument that is a text or bytes.
    pub(crate) fn redaction(&self, argument: &str) -> Option<RedactionMethod> {
        self.redactions.method(argument)
    }

    /// Returns the maximum size of an event's fields in bytes.
    pub(crate) fn size_max(&self) -> usize {
        let arguments = self.arguments.iter().map(|(name, kind)| {
            let is_redactable = redaction::is_redactable(&kind.field());
            let method = self.redaction(name).filter(|_| is_redactable);
            redaction::size_max(method, kind.size_max())
        });
        let span = if self.is_of_request { SPAN_FIELDS_SIZE } else { 0 };
        span + arguments.sum::<usize>() + RESULT_SIZE
    }

    /// Returns the description of the call's events.
    pub(crate) fn event_type(&self) -> EventType {
        let arguments = self.arguments.iter().map(|(name, kind)| (&**name, kind.field()));
        let results =
            [("ret", Integer::signed(8).field()), ("duration", Integer::unsigned(8).field())];
        let span = span_fields().into_iter().filter(|_| self.is_of_request);
        let fields = span.chain(arguments).chain(results);
        self.redactions.redact(event_type(self.id, self.event_name(), fields))
    }

    /// Returns the name of the call's events.
    pub(crate) fn event_name(&self) -> String {
        let prefix = if self.is_of_request { REQUEST_CALL_PREFIX } else { CALL_PREFIX };
        format!("{prefix}{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(arguments: &[(&str, &str)]) -> Vec<ArgumentKind> {
        let argument = |(name, type_text): &(&str, &str)| Argument {
            name: (*name).to_owned(),
            type_text: (*type_text).to_owned(),
            size: 8,
        };
        let arguments = arguments.iter().map(argument).collect();
        let call = SystemCall { name: "test".to_owned(), number: 1, arguments };
        let call = CallType::new(&call, 0);
        call.arguments.into_iter().map(|(_, kind)| kind).collect()
    }

    fn integer(bytes: usize, is_signed: bool, is_hex: bool) -> ArgumentKind {
        ArgumentKind::Integer(Integer { bytes, is_signed, is_hex })
    }

    #[test]
    fn the_data_of_a_write_are_not_read() {
        let found = kinds(&[("fd", "unsigned int"), ("buf", "const char *"), ("count", "size_t")]);
        let expected = [integer(4, true, false), integer(8, false, true), integer(8, false, false)];
        assert_eq!(found, expected);
    }

    #[test]
    fn paths_are_strings() {
        let found = kinds(&[("dfd", "int"), ("filename", "const char *"), ("flags", "int")]);
        assert_eq!(found, [integer(4, true, false), ArgumentKind::Path, integer(4, true, true)]);
    }

    #[test]
    fn addresses_of_sockets_have_sizes() {
        let passed = kinds(&[("uservaddr", "struct sockaddr *"), ("addrlen", "int")]);
        assert_eq!(passed[0], ArgumentKind::SocketAddress { size: 1 });
        let returned =
            kinds(&[("upeer_sockaddr", "struct sockaddr *"), ("upeer_addrlen", "int *")]);
        assert_eq!(returned[0], ArgumentKind::ReturnedSocketAddress { size: 1 });
        let last = kinds(&[("address", "struct sockaddr *")]);
        assert_eq!(last, [integer(8, false, true)]);
    }
}
