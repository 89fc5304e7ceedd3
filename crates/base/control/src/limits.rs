//! Limits on the size of messages and their fields. Both sides of a connection observe them, and
//! all versions with the same major number share them.

/// Maximum size of the body of the client's or the agent's first message, in bytes.
pub const OPENING_SIZE_MAX: usize = 4 << 10;
/// Maximum size of the body of a message from an application, in bytes.
pub const APPLICATION_SIZE_MAX: usize = 4 << 10;
/// Maximum size of an event type's description in a catalog, in bytes.
pub const EVENT_TYPE_SIZE_MAX: usize = 128 << 10;
/// Maximum number of event types of a program. Event type ids are smaller than this number.
pub const EVENT_TYPES_MAX: usize = 16_384;
/// Maximum number of rules of a channel. Each rule is sent in its own message.
pub const RULES_MAX: usize = 4096;
/// Maximum size of the body of any message, in bytes.
pub const BODY_SIZE_MAX: usize = 1 << 20;
/// Maximum number of descriptors with a message.
pub const DESCRIPTORS_MAX: usize = 4;

/// Maximum size of a program's name, in bytes.
pub const PROGRAM_SIZE_MAX: usize = 255;
/// Maximum size in bytes of the release of a program or library, such as `0.1.0`.
pub const RELEASE_SIZE_MAX: usize = 64;
/// Maximum size of the reason for refusing a connection or an event of the kernel, in bytes.
pub const REASON_SIZE_MAX: usize = 1 << 10;
/// Maximum size of the name of a session or channel, in bytes. File names append a date to a
/// session's name, and a ring's number to a channel's name.
pub const NAME_SIZE_MAX: usize = 200;
/// Maximum size in bytes of an event's name (`provider:name`). Names of contexts that a program
/// supplies, and patterns for names, have the same limit.
pub const EVENT_NAME_SIZE_MAX: usize = 255;
/// Maximum size of a field's name, in bytes.
pub const FIELD_NAME_SIZE_MAX: usize = 255;
/// Maximum number of fields of an event.
pub const FIELDS_MAX: usize = 256;
/// Maximum number of labels of an enumeration.
pub const LABELS_MAX: usize = 1024;
/// Maximum size of a label of an enumeration, in bytes.
pub const LABEL_SIZE_MAX: usize = 255;
/// Maximum size of a source file's path, in bytes.
pub const FILE_SIZE_MAX: usize = 1 << 10;
/// Maximum number of contexts of a channel.
pub const CONTEXTS_MAX: usize = 64;
/// Maximum size of a filter's source text, in bytes.
pub const FILTER_SIZE_MAX: usize = blkkin_filter::FILTER_SIZE_MAX;
/// Maximum size of the text of sampling rules, in bytes.
pub const SAMPLING_SIZE_MAX: usize = 255;
/// Maximum size in bytes of a path: that of Linux (`PATH_MAX` without the NUL).
pub const PATH_SIZE_MAX: usize = 4095;
/// Maximum number of patterns in each list of a selection or rule: included and excluded names.
pub const PATTERNS_MAX: usize = 512;
/// Maximum number of redactions of a rule.
pub const REDACTIONS_MAX: usize = 512;
/// Maximum number of patterns for executables in a selection.
pub const EXECUTABLES_MAX: usize = 64;
/// Maximum number of process ids in a selection.
pub const PIDS_MAX: usize = 4096;
/// Maximum size in bytes of a machine-readable identifier: a failure's code, such as
/// `no-such-session`, or a resource's name, such as `ring-bytes`.
pub const CODE_SIZE_MAX: usize = 40;
/// Maximum size of the command that is run for each closed chunk, in bytes.
pub const HOOK_SIZE_MAX: usize = 4 << 10;
/// Maximum size of the message or hint that explains a failure, or of a loss's reason, in bytes.
pub const MESSAGE_SIZE_MAX: usize = 8 << 10;
