//! Comparison of the spans inside and outside of a box. The box is a range of start times and
//! durations. Spans are compared by their words, which are the values of fields and tags, and by
//! their own time. Start at [`Tally`].

use crate::own_time::OwnTimeTally;
use crate::{OwnTimeDifference, Window, text_of};
use blkkin_model::{Kind, SpanRef, Status, TagRef, is_own_time_key, own_time_ns};
use std::collections::HashMap;

/// Maximum number of distinct words that are counted.
const VALUES_MAX: usize = 1 << 16;

/// Maximum size of a counted word and its tag key together, in bytes.
const BYTES_MAX: usize = 512;

/// Box of start times and durations, all bounds inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Start times of spans in the box.
    pub window: Window,
    /// Minimum duration of spans in the box, in nanoseconds.
    pub least_ns: u64,
    /// Maximum duration of spans in the box, in nanoseconds.
    pub greatest_ns: u64,
}

/// Field of a span whose value is counted as a word. `K` is the type of a tag's key, `String` or
/// `&str`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic<K> {
    /// Service that recorded the span.
    Service,
    /// Name of the span, which is usually the name of an operation.
    Name,
    /// Kind of the span. A span with an unspecified kind has no word for this topic.
    Kind,
    /// Status of the span: `error` if it failed, `ok` if its sender marked it as successful. Other
    /// spans have no word for this topic.
    Status,
    /// Value of the tag with this key.
    Tag(K),
}

/// Counts of words inside and outside of a box, and mean own times. A word is the value of a field
/// or tag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Number of spans inside the box.
    pub inside: u64,
    /// Number of spans outside the box that were examined. They are a sample if
    /// [`Self::outside_one_in`] is greater than 1.
    pub outside: u64,
    /// Sampling divisor for the spans outside the box: about one span in this many was examined.
    pub outside_one_in: u64,
    /// Distinct words with their counts, in order of topic and value.
    pub values: Vec<ValueCount>,
    /// Mean own times of spans inside and outside the box.
    pub own_time: OwnTimeDifference,
    /// Number of occurrences of words that `values` does not count, because a word is too long or
    /// there are too many distinct words.
    pub omitted: u64,
}

/// Word with the number of spans that have it, inside and outside the box.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueCount {
    /// Field or tag whose value is the word.
    pub topic: Topic<String>,
    /// Value of the field or tag, as text.
    pub value: String,
    /// Number of spans inside the box with this word.
    pub inside: u64,
    /// Number of spans outside the box with this word.
    pub outside: u64,
}

/// Counter of words with bounded memory. The listed counts inside the box are exact if all spans
/// inside are added first and have no more distinct words than the tally can hold.
#[derive(Debug, Default)]
pub struct Tally {
    inside: u64,
    outside: u64,
    /// Word counts of the topics service, name, kind and status; the index is
    /// [`Topic::field_index`].
    fields: [WordCounts; 4],
    tags: HashMap<String, WordCounts>,
    count: usize,
    /// Number of distinct words that occurred only outside the box.
    others: usize,
    omitted: u64,
    own_time: OwnTimeTally,
}

/// Number of spans with each word: first inside the box, then outside.
type WordCounts = HashMap<String, [u64; 2]>;

impl Area {
    /// Returns whether a span with this start and duration is in the box.
    #[inline]
    pub fn holds(&self, start_ns: u64, duration_ns: u64) -> bool {
        self.window.holds(start_ns) && (self.least_ns..=self.greatest_ns).contains(&duration_ns)
    }
}

/// Calls `each` with every nonempty word of a span. If several tags have the same key, only the
/// last one counts. Tags of own time have no words ([`is_own_time_key`]).
pub fn for_each_word<'a>(span: &SpanRef<'a>, mut each: impl FnMut(Topic<&'a str>, &str)) {
    let status = if span.is_error() {
        "error"
    } else if span.status == Status::Ok {
        "ok"
    } else {
        ""
    };
    let own = [
        (Topic::Service, span.local.service),
        (Topic::Name, span.name),
        (Topic::Kind, kind_word(span.kind)),
        (Topic::Status, status),
    ];
    own.into_iter().filter(|(_, word)| !word.is_empty()).for_each(|(of, word)| each(of, word));
    for tag in last_tags(span).filter(|tag| !is_own_time_key(tag.key)) {
        let text = text_of(tag.value);
        if !text.is_empty() {
            each(Topic::Tag(tag.key), &text);
        }
    }
}

/// Returns the tags of a span; of several tags with the same key, only the last one.
fn last_tags<'a>(span: &SpanRef<'a>) -> impl Iterator<Item = &'a TagRef<'a>> {
    let tags = span.tags;
    let is_last = |at: usize, key| tags.get(at + 1).is_none_or(|next| next.key != key);
    tags.iter().enumerate().filter(move |(at, tag)| is_last(*at, tag.key)).map(|(_, tag)| tag)
}

/// Returns the word for a span kind; empty for an unspecified kind.
fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Unspecified => "",
        Kind::Internal => "internal",
        Kind::Client => "client",
        Kind::Server => "server",
        Kind::Producer => "producer",
        Kind::Consumer => "consumer",
    }
}

impl Tally {
    /// Adds `count` to the number of spans inside or outside the box, without counting words.
    pub fn add_spans(&mut self, is_inside: bool, count: u64) {
        *(if is_inside { &mut self.inside } else { &mut self.outside }) += count;
    }

    /// Counts a span, each value of its service, name, kind, status and tags, and its own time.
    pub fn add_span(&mut self, is_inside: bool, span: &SpanRef<'_>) {
        self.add_spans(is_inside, 1);
        for_each_word(span, |topic, word| self.add(is_inside, topic, word, 1));
        let times = last_tags(span)
            .filter_map(|tag| own_time_ns(tag.key, tag.value).map(|time_ns| (tag.key, time_ns)));
        self.add_own_times(is_inside, &times.collect::<Vec<(&str, u64)>>());
    }

    /// Adds the own times of one span inside or outside the box, without counting the span. Each
    /// time is in nanoseconds, with the key of the tag that contains it ([`own_time_ns`]).
    pub fn add_own_times(&mut self, is_inside: bool, times: &[(&str, u64)]) {
        self.own_time.add_span(is_inside, times);
    }

    /// Returns the numbers of spans inside and outside the box.
    pub fn spans(&self) -> [u64; 2] {
        [self.inside, self.outside]
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.inside += other.inside;
        self.outside += other.outside;
        self.omitted += other.omitted;
        self.own_time.merge(&other.own_time);
        let topics = [Topic::Service, Topic::Name, Topic::Kind, Topic::Status];
        let own = topics.into_iter().zip(&other.fields);
        let tags = other.tags.iter().map(|(key, values)| (Topic::Tag(key.as_str()), values));
        let all: Vec<(Topic<&str>, &WordCounts)> = own.chain(tags).collect();
        for (is_inside, side) in [(true, 0), (false, 1)] {
            for (topic, values) in &all {
                for (value, counts) in *values {
                    self.add(is_inside, *topic, value, counts[side]);
                }
            }
        }
    }

    /// Counts a word that `count` spans inside or outside the box have.
    pub fn add(&mut self, is_inside: bool, topic: Topic<&str>, word: &str, count: u64) {
        if count == 0 {
            return;
        }
        let side = usize::from(!is_inside);
        if let Some(counts) = self.values(topic).and_then(|values| values.get_mut(word)) {
            let was_other = counts[0] == 0;
            counts[side] += count;
            let is_other = counts[0] == 0;
            self.others -= usize::from(was_other && !is_other);
            return;
        }
        let key = if let Topic::Tag(key) = topic { key } else { "" };
        if key.len() + word.len() > BYTES_MAX || !self.reserve_word(is_inside) {
            self.omitted += count;
            return;
        }
        let mut counts = [0; 2];
        counts[side] = count;
        let values = match topic.field_index() {
            Some(place) => &mut self.fields[place],
            None => self.tags.entry(key.to_owned()).or_default(),
        };
        values.insert(word.to_owned(), counts);
        self.count += 1;
        self.others += usize::from(!is_inside);
    }

    fn values(&mut self, topic: Topic<&str>) -> Option<&mut WordCounts> {
        match topic {
            Topic::Tag(key) => self.tags.get_mut(key),
            own => own.field_index().map(|place| &mut self.fields[place]),
        }
    }

    /// Reserves space for a new word. At the limit, the rarer half of the words is evicted first,
    /// ordered by their count inside the box and then outside. A word from outside evicts only half
    /// of the words that occurred only outside. Returns `false` if these words are too few.
    fn reserve_word(&mut self, is_inside: bool) -> bool {
        if self.count < VALUES_MAX {
            return true;
        }
        // An eviction scans all words, so it must free many of them.
        if !is_inside && self.others < VALUES_MAX / 16 {
            return false;
        }
        let may_go = |&[inside, _]: &[u64; 2]| is_inside || inside == 0;
        let all = self.fields.iter().chain(self.tags.values()).flat_map(HashMap::values);
        let mut counts: Vec<[u64; 2]> = all.copied().filter(may_go).collect();
        let half = counts.len() / 2;
        let (less, &mut most, _) = counts.select_nth_unstable(half);
        let mut alike = half - less.iter().filter(|counts| **counts < most).count();
        for values in self.fields.iter_mut().chain(self.tags.values_mut()) {
            values.retain(|_, counts| {
                let goes = may_go(counts) && (*counts < most || *counts == most && alike > 0);
                if goes {
                    alike -= usize::from(*counts == most);
                    self.omitted += counts[0] + counts[1];
                    self.count -= 1;
                    self.others -= usize::from(counts[0] == 0);
                }
                !goes
            });
        }
        self.tags.retain(|_, values| !values.is_empty());
        true
    }

    /// Returns the counts of all values, in order of topic (service, name, kind, status, tag) and
    /// value, and the means of own times.
    pub fn finish(self) -> Difference {
        let Tally { inside, outside, fields: own, tags, omitted: left_out, own_time, .. } = self;
        let own_time = own_time.finish([inside, outside]);
        let topics = [Topic::Service, Topic::Name, Topic::Kind, Topic::Status];
        let tags = tags.into_iter().map(|(key, values)| (Topic::Tag(key), values));
        let mut spoken = Vec::with_capacity(self.count);
        for (topic, values) in topics.into_iter().zip(own).chain(tags) {
            spoken.extend(values.into_iter().map(|(value, [inside, outside])| ValueCount {
                topic: topic.clone(),
                value,
                inside,
                outside,
            }));
        }
        spoken.sort();
        Difference {
            inside,
            outside,
            outside_one_in: 1,
            values: spoken,
            own_time,
            omitted: left_out,
        }
    }
}

impl Topic<&str> {
    /// Returns the index of the topic in [`Tally::fields`]; `None` for tags.
    fn field_index(self) -> Option<usize> {
        match self {
            Topic::Service => Some(0),
            Topic::Name => Some(1),
            Topic::Kind => Some(2),
            Topic::Status => Some(3),
            Topic::Tag(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_model::{Origin, SpanId, TagRef, TraceId, ValueRef};

    fn span<'a>(tags: &'a [TagRef<'a>]) -> SpanRef<'a> {
        let ids = TraceId::from_number(1).zip(SpanId::from_number(1));
        let (trace, id) = ids.expect("not 0");
        SpanRef { tags, ..SpanRef::new(trace, id) }
    }

    fn tag<'a>(key: &'a str, value: ValueRef<'a>) -> TagRef<'a> {
        TagRef { key, value, origin: Origin::Span }
    }

    #[track_caller]
    fn check(span: &SpanRef<'_>, expected: &str) {
        let mut found = String::new();
        for_each_word(span, |topic, word| found += &format!("{topic:?}={word} "));
        assert_eq!(found.trim_end(), expected);
    }

    #[test]
    fn words_are_those_that_are_said() {
        check(&span(&[]), "");
        let local = blkkin_model::EndpointRef { service: "osd", ..span(&[]).local };
        let said = SpanRef { name: "read", kind: Kind::Server, local, ..span(&[]) };
        check(&said, "Service=osd Name=read Kind=server");
        check(&SpanRef { status: Status::Ok, ..span(&[]) }, "Status=ok");
        check(&SpanRef { status: Status::Error, ..span(&[]) }, "Status=error");
        let tags = [
            tag("a", ValueRef::Str("first")),
            tag("a", ValueRef::Int(7)),
            tag("b", ValueRef::Str("")),
            tag("blkkin.disk.vda.queued", ValueRef::Int(5)),
            tag("blkkin.own.bands", ValueRef::Str("disk 0 5 vda")),
            tag("blkkin.own.disk", ValueRef::Int(5)),
            tag("error", ValueRef::Str("EIO")),
        ];
        check(&span(&tags), r#"Status=error Tag("a")=7 Tag("error")=EIO"#);
    }

    #[test]
    fn words_are_counted_on_both_sides() {
        let mut tally = Tally::default();
        let tags = [tag("pool", ValueRef::Str("rbd"))];
        tally.add_span(true, &SpanRef { name: "read", ..span(&tags) });
        tally.add_span(false, &SpanRef { name: "read", ..span(&[]) });
        tally.add_span(false, &SpanRef { name: "write", ..span(&[]) });
        let words = tally.finish();
        assert_eq!((words.inside, words.outside, words.omitted), (1, 2, 0));
        let words = words.values.iter().map(|it| {
            let ValueCount { topic, value, inside, outside } = it;
            format!("{topic:?}={value} {inside}/{outside}")
        });
        let words: Vec<String> = words.collect();
        assert_eq!(words, ["Name=read 1/1", "Name=write 0/1", r#"Tag("pool")=rbd 1/0"#]);
    }

    #[test]
    fn what_two_have_counted_is_added() {
        let spans = [tag("pool", ValueRef::Str("rbd")), tag("blkkin.own.disk", ValueRef::Int(7))];
        let (mut all, mut one, mut other) = (Tally::default(), Tally::default(), Tally::default());
        for (at, tag) in spans.iter().cycle().take(7).enumerate() {
            let span =
                SpanRef { name: ["read", "write"][at % 2], ..span(std::slice::from_ref(tag)) };
            all.add_span(at % 3 == 0, &span);
            if at < 4 { &mut one } else { &mut other }.add_span(at % 3 == 0, &span);
        }
        one.merge(&other);
        let all = all.finish();
        assert_eq!((all.own_time.inside, all.own_time.outside), (1, 2));
        assert_eq!(one.finish(), all);
    }

    /// When the number of distinct words exceeds its limit, frequent words and words inside the box
    /// are kept.
    #[test]
    fn there_is_an_end_to_words() {
        let mut tally = Tally::default();
        tally.add(true, Topic::Tag("volume"), "one", 1);
        let mut said = 1;
        for at in 0..4 * VALUES_MAX {
            tally.add(false, Topic::Tag("id"), &at.to_string(), 1);
            tally.add(false, Topic::Tag("volume"), ["one", "two"][at % 2], 1);
            said += 2;
        }
        tally.add(false, Topic::Tag("sql"), &"x".repeat(BYTES_MAX), 5);
        let words = tally.finish();
        assert!(words.values.len() <= VALUES_MAX);
        let kept: u64 = words.values.iter().map(|it| it.inside + it.outside).sum();
        assert_eq!(kept + words.omitted, said + 5);
        let [.., one, two] = words.values.as_slice() else { panic!("two at the end") };
        let half = 2 * VALUES_MAX as u64;
        assert_eq!((one.value.as_str(), one.inside, one.outside), ("one", 1, half));
        assert_eq!((two.value.as_str(), two.inside, two.outside), ("two", 0, half));
    }

    #[test]
    fn many_words_inside_stay_rather_than_others() {
        let mut tally = Tally::default();
        for at in 0..2 * VALUES_MAX {
            tally.add(true, Topic::Name, &at.to_string(), 1);
        }
        let before = tally.count;
        assert!((VALUES_MAX / 4..=VALUES_MAX).contains(&before), "{before}");
        for at in 0..2 * VALUES_MAX {
            tally.add(false, Topic::Kind, &at.to_string(), 1);
        }
        let words = tally.finish();
        assert!(words.values.len() <= VALUES_MAX);
        assert_eq!(words.values.iter().filter(|it| it.inside > 0).count(), before);
    }
}
