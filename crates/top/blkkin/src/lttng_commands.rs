//! Suggestions for users of LTTng who type one of `lttng`'s subcommands.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Subcommands of `lttng`, each with the equivalent `blkkin` command.
const EQUIVALENTS: [(&str, &str); 13] = [
    ("create", "session create"),
    ("list", "session list`, or `blkkin event list"),
    ("start", "session start"),
    ("stop", "session stop"),
    ("clear", "session clear"),
    ("snapshot", "session snapshot"),
    ("destroy", "session destroy"),
    ("enable-channel", "channel create"),
    ("add-context", "channel create --context"),
    ("enable-event", "event enable"),
    ("disable-event", "event disable"),
    ("track", "event enable --pid"),
    ("untrack", "event disable --pid"),
];

/// Replaces clap's suggestion of a similar name if the unknown subcommand is one of `lttng`, or
/// `sql` in a build without SQL. The new suggestion is the equivalent command, or a note on the
/// build.
pub(crate) fn suggest_equivalent(error: &mut Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let known = EQUIVALENTS.iter().find(|(lttng, _)| lttng == word);
    let hint = match known {
        Some((_, command)) => Some(format!("it is `blkkin {command}` here")),
        None if word == "sql" && cfg!(not(feature = "sql")) => Some(
            "this blkkin was built without SQL, by --no-default-features or --without-sql"
                .to_owned(),
        ),
        None => None,
    };
    if let (ErrorKind::InvalidSubcommand, Some(hint)) = (error.kind(), hint) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
}
