//! How much of anything a message may hold, in bytes where nothing else is said. Both sides keep to
//! them, and they are the same in all versions of one major number.

/// Body of the first message of either side.
pub const OPENING_SIZE_MAX: usize = 4 << 10;
/// Body of what an application sends.
pub const APPLICATION_SIZE_MAX: usize = 4 << 10;
/// An event type in a catalog.
pub const EVENT_TYPE_SIZE_MAX: usize = 128 << 10;
/// Event types of a program. Their ids have 16 bits.
pub const EVENT_TYPES_MAX: usize = 16_384;
/// Rules of a channel, which are sent one by one.
pub const RULES_MAX: usize = 4096;
/// Body of any message.
pub const BODY_SIZE_MAX: usize = 1 << 20;
/// Descriptors with a message.
pub const DESCRIPTORS_MAX: usize = 4;

/// Name of a program.
pub const PROGRAM_SIZE_MAX: usize = 255;
/// Release of a program or library, such as `0.1.0`.
pub const RELEASE_SIZE_MAX: usize = 64;
/// Why a connection is refused.
pub const REASON_SIZE_MAX: usize = 1 << 10;
/// Name of a session or channel. With a date and a number behind it, it is a file's name.
pub const NAME_SIZE_MAX: usize = 200;
/// Name of an event (`provider:name`) or of a context that a program supplies; or a pattern.
pub const EVENT_NAME_SIZE_MAX: usize = 255;
/// Name of a field.
pub const FIELD_NAME_SIZE_MAX: usize = 255;
/// Fields of an event.
pub const FIELDS_MAX: usize = 256;
/// Labels of an enumeration.
pub const LABELS_MAX: usize = 1024;
/// Label of an enumeration.
pub const LABEL_SIZE_MAX: usize = 255;
/// Name of a source file.
pub const FILE_SIZE_MAX: usize = 1 << 10;
/// Contexts of a channel.
pub const CONTEXTS_MAX: usize = 64;
/// Text of a filter.
pub const FILTER_SIZE_MAX: usize = blkkin_filter::FILTER_SIZE_MAX;
/// Text of rules of sampling.
pub const SAMPLING_SIZE_MAX: usize = 255;
/// Path of a directory: what Linux takes.
pub const PATH_SIZE_MAX: usize = 4095;
/// Patterns of a selection: of those that include, and of those that exclude.
pub const PATTERNS_MAX: usize = 512;
/// Patterns for executables that a selection names.
pub const EXECUTABLES_MAX: usize = 64;
/// Processes that a selection names by number.
pub const PIDS_MAX: usize = 4096;
/// Word for a failure.
pub const CODE_SIZE_MAX: usize = 40;
/// What a failure says.
pub const MESSAGE_SIZE_MAX: usize = 8 << 10;
