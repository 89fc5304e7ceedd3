//! Words that users of LTTng are used to, where others are used here.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What is used here instead of one of `lttng`'s subcommands.
const WORDS: [(&str, &str); 13] = [
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

/// Gives the right suggestion for such a word, which may look like another of ours.
pub(crate) fn mend(error: &mut Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let known = WORDS.iter().find(|(theirs, _)| theirs == word);
    let hint = match known {
        Some((_, ours)) => Some(format!("it is `blkkin {ours}` here")),
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
