//! Own time of spans in an outline: sums and bands from the tags `blkkin.own.*`. Tags are
//! untrusted; those of another form are omitted, and remain in the answer of `trace/ID`. Start at
//! [`own_tag`].

use blkkin_model::{BANDS_KEY, OWN_TIME_PREFIX, OwnKind, TagRef, ValueRef, own_time_ns};
use serde::Serialize;

/// Key of the tag with the bands, without its prefix.
const BANDS: &str = "bands";

/// Maximum length of the text of a span's bands, in bytes. Senders write at most
/// [`BANDS_MAX`](blkkin_model::BANDS_MAX) bands.
const BANDS_BYTES_MAX: usize = 32 << 10;

/// Maximum number of values in [`OwnValues`].
const VALUES_MAX: usize = 400_000;

/// Maximum total length of texts in [`OwnValues`], in bytes. Without it, the bands could make the
/// answer of a request that has many spans larger than the server permits.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Value of a tag of own time, with a text of type `T`.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum OwnValue<T = Box<str>> {
    /// Sum of a kind, in nanoseconds.
    Ns(u64),
    /// Bands, as the sender wrote them.
    Bands(T),
}

/// Value of a tag of own time, with the index of the span's row and the tag's key without prefix.
#[derive(Clone, Debug)]
pub(super) struct OwnRow {
    pub(super) row: u32,
    pub(super) key: &'static str,
    pub(super) value: OwnValue,
}

/// Values of own time of all spans of a request, within limits.
#[derive(Debug, Default)]
pub(super) struct OwnValues {
    pub(super) rows: Vec<OwnRow>,
    /// Number of values, including those that exceed a limit and are not stored.
    pub(super) count: u64,
    text_bytes: usize,
}

impl OwnValues {
    /// Adds the values of a span's tags. `row` is `None` for a span that is not stored: its values
    /// are only counted.
    pub(super) fn add(&mut self, row: Option<u32>, tags: &[TagRef<'_>]) {
        for (key, value) in tags.iter().filter_map(own_tag) {
            self.count += 1;
            let Some(row) = row else { continue };
            if self.rows.len() == VALUES_MAX {
                continue;
            }
            let value = match value {
                OwnValue::Ns(ns) => OwnValue::Ns(ns),
                OwnValue::Bands(text) if self.text_bytes + text.len() > TEXT_BYTES_MAX => continue,
                OwnValue::Bands(text) => {
                    self.text_bytes += text.len();
                    OwnValue::Bands(text.into())
                }
            };
            self.rows.push(OwnRow { row, key, value });
        }
    }
}

/// Returns the key without prefix and the value of a tag of own time; `None` for other tags.
fn own_tag<'a>(tag: &TagRef<'a>) -> Option<(&'static str, OwnValue<&'a str>)> {
    if tag.key == BANDS_KEY {
        let ValueRef::Str(text) = tag.value else { return None };
        // Control characters take six bytes each in JSON, and occur in no text of bands.
        let has_control = text.chars().any(char::is_control);
        let is_right = !has_control && !text.is_empty() && text.len() <= BANDS_BYTES_MAX;
        return is_right.then_some((BANDS, OwnValue::Bands(text)));
    }
    let kind = OwnKind::of_name(tag.key.strip_prefix(OWN_TIME_PREFIX)?)?;
    Some((kind.name(), OwnValue::Ns(own_time_ns(tag.key, tag.value)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_model::Origin;

    /// Returns the values of a span with these tags, as `key=JSON` joined by spaces.
    fn values(tags: &[(&str, ValueRef<'_>)]) -> String {
        let tags: Vec<TagRef<'_>> =
            tags.iter().map(|&(key, value)| TagRef { key, value, origin: Origin::Span }).collect();
        let mut own = OwnValues::default();
        own.add(Some(7), &tags);
        assert!(own.rows.iter().all(|it| it.row == 7));
        assert_eq!(own.count, own.rows.len() as u64);
        let json = |it: &OwnRow| serde_json::to_string(&it.value).expect("JSON");
        own.rows.iter().map(|it| format!("{}={}", it.key, json(it))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sums_are_integers_or_decimal_text() {
        let tags = [
            ("blkkin.own.running", ValueRef::Int(5)),
            ("blkkin.own.disk", ValueRef::Str("12")),
            ("blkkin.own.bands", ValueRef::Str("running 0 5;disk 5 12 vdä")),
            ("blkkin.own.unknown", ValueRef::Str("9223372036854775807")),
        ];
        assert_eq!(
            values(&tags),
            "running=5 disk=12 bands=\"running 0 5;disk 5 12 vdä\" unknown=9223372036854775807"
        );
    }

    #[test]
    fn tags_of_another_form_are_omitted() {
        let long = "x".repeat(BANDS_BYTES_MAX + 1);
        let tags = [
            ("blkkin.own.running", ValueRef::Int(-1)),
            ("blkkin.own.running", ValueRef::Str("")),
            ("blkkin.own.running", ValueRef::Str("+1")),
            ("blkkin.own.running", ValueRef::Str("9223372036854775808")),
            ("blkkin.own.running", ValueRef::Double(1.0)),
            ("blkkin.own.walking", ValueRef::Int(1)),
            ("blkkin.own.", ValueRef::Int(1)),
            ("own.running", ValueRef::Int(1)),
            ("blkkin.own.bands", ValueRef::Int(1)),
            ("blkkin.own.bands", ValueRef::Str("")),
            ("blkkin.own.bands", ValueRef::Str("running 0 5\n")),
            ("blkkin.own.bands", ValueRef::Str(&long)),
        ];
        assert_eq!(values(&tags), "");
    }

    #[test]
    fn values_beyond_the_limits_are_counted() {
        let text = "y".repeat(BANDS_BYTES_MAX);
        let tag = |key, value| TagRef { key, value, origin: Origin::Span };
        let bands = [tag("blkkin.own.bands", ValueRef::Str(&text))];
        let sums = [tag("blkkin.own.lock", ValueRef::Int(1))];
        let mut own = OwnValues::default();
        let fitting = TEXT_BYTES_MAX / BANDS_BYTES_MAX;
        for row in 0..fitting as u32 + 3 {
            own.add(Some(row), &bands);
        }
        assert_eq!((own.rows.len(), own.count), (fitting, fitting as u64 + 3));
        // A sum needs no room for text.
        for row in 0..VALUES_MAX as u32 {
            own.add(Some(row), &sums);
        }
        own.add(None, &sums);
        assert_eq!(own.rows.len(), VALUES_MAX);
        assert_eq!(own.count, (fitting + 3 + VALUES_MAX + 1) as u64);
    }
}
