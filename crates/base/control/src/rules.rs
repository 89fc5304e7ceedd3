//! Evaluates the rules of a channel: in a program to select the events to record, and in the agent
//! to select the event types to describe; and tells for which events a redaction holds.

use crate::application::EventRule;
use crate::redaction::Redaction;
use crate::selection::Levels;
use blkkin_filter::Glob;
use blkkin_filter::Severity as Level;

/// Event that only its full name enables, because it is frequent and useful only beside the
/// kernel's events of the same spans. `blkkin event enable --kernel` enables it with those.
const RUN: &str = "blkkin:run";

/// Rules of a channel in ascending order of precedence.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

/// Rule for the events of a channel, with compiled patterns.
#[derive(Clone, Debug)]
pub struct Rule {
    enabled: bool,
    names: Vec<Pattern>,
    excluded: Vec<Pattern>,
    levels: Levels,
    has_filter: bool,
}

/// Result of evaluating the rules for an event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Verdict for an event type of which no event is recorded.
    No,
    /// Verdict for an event type whose events are recorded if the filter of at least one rule in
    /// [`Rules::in_force`] holds.
    Filtered,
    /// Verdict for an event type of which all events are recorded.
    Yes,
}

impl Rules {
    /// Compiles the rules of a channel, given in the order in which they were added.
    pub fn new(rules: &[EventRule]) -> Rules {
        Rules(rules.iter().map(Rule::new).collect())
    }

    /// Evaluates the rules for events with this name and level. Allocates nothing, so that signal
    /// handlers may call it.
    pub fn verdict(&self, name: &str, level: Level) -> Verdict {
        let mut verdict = Verdict::No;
        for place in self.in_force(name, level) {
            match self.0[place].has_filter {
                true => verdict = Verdict::Filtered,
                false => return Verdict::Yes,
            }
        }
        verdict
    }

    /// Returns the indexes of the rules in force for events with this name and level. These are the
    /// matching rules after the last matching rule that disables events.
    pub fn in_force(&self, name: &str, level: Level) -> impl Iterator<Item = usize> {
        let fits = move |rule: &Rule| rule.fits(name, level);
        let disabled = self.0.iter().rposition(|rule| !rule.enabled && fits(rule));
        let first = disabled.map_or(0, |place| place + 1);
        (first..self.0.len()).filter(move |place| fits(&self.0[*place]))
    }

    /// Returns true if no rule enables any event.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|rule| !rule.enabled)
    }
}

impl Rule {
    /// Compiles the patterns of a rule.
    pub fn new(rule: &EventRule) -> Rule {
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
        Rule {
            enabled: rule.enabled,
            names: patterns(&rule.names),
            excluded: patterns(&rule.excluded),
            levels: rule.levels,
            has_filter: rule.filter.is_some(),
        }
    }

    /// Returns true if the rule enables events, and false if it disables them.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Estimates the memory that the rule occupies, in bytes, including the allocator's overhead.
    pub fn size(&self) -> usize {
        let patterns = self.names.iter().chain(&self.excluded);
        size_of::<Rule>() + patterns.map(Pattern::size).sum::<usize>()
    }

    /// Returns true if the rule selects events with this name and level.
    pub fn fits(&self, name: &str, level: Level) -> bool {
        let needs_name = self.enabled && name == RUN;
        let name = name.as_bytes();
        let fits = |pattern: &Pattern| pattern.fits(name) && (!needs_name || pattern.is_exact());
        self.levels.contains(level)
            && self.names.iter().any(fits)
            && !self.excluded.iter().any(|pattern| pattern.fits(name))
    }
}

impl Levels {
    /// Returns true if the set contains this level.
    pub fn contains(self, level: Level) -> bool {
        match self {
            Levels::Any => true,
            Levels::AtLeast { level: least } => level.number() <= least.number(),
            Levels::Exactly { level: only } => level == only,
        }
    }
}

/// Approximate overhead of the allocator for each allocation, in bytes.
const ALLOCATION_SIZE: usize = 16;

/// Pattern for names: either a plain name, or text in which `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Exact(Box<[u8]>),
    Glob(Glob),
}

impl Pattern {
    /// Parses a pattern. In `text`, a backslash makes the next byte literal: `\*` is a star, and
    /// `\\` a backslash. A backslash at the end of `text` is literal.
    pub fn new(text: &str) -> Pattern {
        let mut pieces = vec![Vec::new()];
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match (byte, pieces.last_mut()) {
                (b'*', _) => pieces.push(Vec::new()),
                (b'\\', Some(piece)) => piece.push(bytes.next().unwrap_or(b'\\')),
                (_, Some(piece)) => piece.push(byte),
                (_, None) => {}
            }
        }
        Pattern(match Glob::new(&pieces) {
            Some(glob) => Kind::Glob(glob),
            None => Kind::Exact(pieces.concat().into()),
        })
    }

    /// Returns true for a plain name, which is no pattern for several.
    fn is_exact(&self) -> bool {
        matches!(self.0, Kind::Exact(_))
    }

    /// Estimates the memory that the pattern occupies, in bytes, including the allocator's
    /// overhead.
    pub fn size(&self) -> usize {
        let apart = match &self.0 {
            Kind::Exact(one) => one.len() + ALLOCATION_SIZE,
            Kind::Glob(glob) => {
                let pieces = glob.pieces().map(|piece| {
                    // A piece between stars has a search table with an entry for each of its bytes.
                    // The first and the last piece have no table; counting one for them gives an
                    // upper bound.
                    piece.len() * (1 + size_of::<usize>())
                        + 2 * (size_of::<usize>() * 2 + ALLOCATION_SIZE)
                });
                pieces.sum::<usize>() + 2 * ALLOCATION_SIZE
            }
        };
        size_of::<Pattern>() + apart
    }

    /// Returns true if the pattern matches the whole of `text`.
    pub fn fits(&self, text: &[u8]) -> bool {
        match &self.0 {
            Kind::Exact(one) => **one == *text,
            Kind::Glob(glob) => glob.matches(text),
        }
    }
}

impl Redaction {
    /// Returns true if the redaction holds for the events with this name.
    pub fn holds_for(&self, event: &str) -> bool {
        let events = self.events.as_deref();
        events.is_none_or(|events| Pattern::new(events).fits(event.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(enabled: bool, names: &[&str], filter: Option<&str>) -> EventRule {
        let filter = filter.map(str::to_owned);
        EventRule { enabled, filter, ..EventRule::for_names(names.iter().copied()) }
    }

    #[test]
    fn later_rules_hold_against_earlier_ones() {
        let rules = Rules::new(&[
            rule(true, &["a:*"], None),
            rule(false, &["a:x*"], None),
            rule(true, &["a:xy", "b:*"], Some("n > 1")),
        ]);
        let verdict = |name| rules.verdict(name, Level::Info);
        assert_eq!(verdict("a:b"), Verdict::Yes);
        assert_eq!(verdict("a:xz"), Verdict::No);
        assert_eq!(verdict("a:xy"), Verdict::Filtered);
        assert_eq!(verdict("b:c"), Verdict::Filtered);
        assert_eq!(verdict("c:c"), Verdict::No);
        assert_eq!(rules.in_force("a:xy", Level::Info).collect::<Vec<_>>(), [2]);
        assert!(!rules.is_empty());
        assert!(Rules::new(&[rule(false, &["*"], None)]).is_empty());
    }

    #[test]
    fn runs_are_enabled_only_by_their_name() {
        let verdict = |rules: &[EventRule]| Rules::new(rules).verdict("blkkin:run", Level::Info);
        for pattern in ["*", "blkkin:*", "blkkin:ru*"] {
            assert_eq!(verdict(&[rule(true, &[pattern], None)]), Verdict::No, "{pattern}");
            let both = [rule(true, &["blkkin:run"], None), rule(false, &[pattern], None)];
            assert_eq!(verdict(&both[..1]), Verdict::Yes);
            assert_eq!(verdict(&both), Verdict::No, "{pattern}");
        }
    }

    #[test]
    fn one_rule_without_a_filter_is_enough() {
        let rules = Rules::new(&[
            rule(true, &["*"], Some("n > 1")),
            rule(true, &["a:*"], None),
            rule(true, &["*"], Some("m")),
        ]);
        assert_eq!(rules.verdict("a:b", Level::Info), Verdict::Yes);
        assert_eq!(rules.verdict("b:b", Level::Info), Verdict::Filtered);
        assert_eq!(rules.in_force("b:b", Level::Info).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn levels_and_exclusions_count() {
        let levels = Levels::AtLeast { level: Level::Warning };
        let excluded = vec!["a:secret*".to_owned()];
        let rules = Rules::new(&[EventRule { levels, excluded, ..rule(true, &["a:*"], None) }]);
        assert_eq!(rules.verdict("a:b", Level::Warning), Verdict::Yes);
        assert_eq!(rules.verdict("a:b", Level::Emergency), Verdict::Yes);
        assert_eq!(rules.verdict("a:b", Level::Info), Verdict::No);
        assert_eq!(rules.verdict("a:secrets", Level::Warning), Verdict::No);
        assert!(Levels::Exactly { level: Level::Info }.contains(Level::Info));
        assert!(!Levels::Exactly { level: Level::Info }.contains(Level::Alert));
    }

    #[test]
    fn stars_may_be_meant() {
        assert!(Pattern::new("a*").fits(b"ab"));
        assert!(Pattern::new(r"a\*").fits(b"a*"));
        assert!(!Pattern::new(r"a\*").fits(b"ab"));
        assert!(Pattern::new(r"\\*").fits(br"\b"));
        assert!(Pattern::new(r"a\").fits(br"a\"));
    }
}
