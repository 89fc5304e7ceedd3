//! Query `difference`: values of fields and tags that are more or less frequent inside a box than
//! outside, and mean own times of the spans. A box is a range of starts and durations.

use super::{condition, limit_of, window};
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use blkkin_store::{Area, Difference, OwnTimeDifference, Topic, ValueCount, Window};
use serde::Serialize;
use std::cmp::Reverse;

/// Default number of values in an answer; the maximum is `LIMIT_MAX`.
const LIMIT: usize = 30;
const LIMIT_MAX: usize = 1000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DifferenceJson {
    inside: u64,
    outside: u64,
    outside_one_in: u64,
    values: Vec<ValueJson>,
    left_out: u64,
    own_time: OwnTimeJson,
}

#[derive(Serialize)]
struct ValueJson {
    key: String,
    value: String,
    inside: u64,
    outside: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnTimeJson {
    inside: u64,
    outside: u64,
    unknown_inside: u64,
    unknown_outside: u64,
    times: Vec<MeanTimeJson>,
    left_out: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MeanTimeJson {
    key: String,
    inside_ns: u64,
    outside_ns: u64,
    difference_ns: i64,
}

impl Api {
    pub(super) fn difference(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let params = &question.params;
        let limit = limit_of(params, LIMIT, LIMIT_MAX)?;
        let bound =
            |name: &str, none: u64| -> Result<u64> { Ok(params.number(name)?.unwrap_or(none)) };
        let all = Window::ALL;
        let (start_ns, end_ns) =
            (bound("boxStartNs", all.start_ns)?, bound("boxEndNs", all.end_ns)?);
        let (least_ns, greatest_ns) = (bound("boxLeastNs", 0)?, bound("boxGreatestNs", u64::MAX)?);
        if start_ns > end_ns {
            return Err(Answer::bad("boxStartNs is after boxEndNs"));
        }
        if least_ns > greatest_ns {
            return Err(Answer::bad("boxLeastNs is more than boxGreatestNs"));
        }
        let area = Area { window: Window { start_ns, end_ns }, least_ns, greatest_ns };
        let mut words = self.store.difference(window(params)?, &condition(params)?, &area)?;
        let own_time = own_time_json(std::mem::take(&mut words.own_time));
        let Difference { inside, outside, outside_one_in, omitted: left_out, .. } = words;
        let values = largest_differences(words, limit);
        let answer = DifferenceJson { inside, outside, outside_one_in, values, left_out, own_time };
        self.json(&answer)
    }
}

fn own_time_json(own_time: OwnTimeDifference) -> OwnTimeJson {
    let OwnTimeDifference { inside, outside, unknown_inside, unknown_outside, times, omitted } =
        own_time;
    let times = times.into_iter().map(|time| MeanTimeJson {
        difference_ns: time.difference_ns(),
        key: time.key,
        inside_ns: time.inside_ns,
        outside_ns: time.outside_ns,
    });
    let times = times.collect();
    OwnTimeJson { inside, outside, unknown_inside, unknown_outside, times, left_out: omitted }
}

/// Returns the values whose shares inside and outside the box differ most; empty if no span is
/// inside.
fn largest_differences(words: Difference, limit: usize) -> Vec<ValueJson> {
    let Difference { inside, outside, mut values, .. } = words;
    if inside == 0 {
        return Vec::new();
    }
    // Compares shares as fractions with the common denominator `inside * outside`.
    let share = |count: u64, of_others: u64| u128::from(count) * u128::from(of_others.max(1));
    let difference =
        |word: &ValueCount| share(word.inside, outside).abs_diff(share(word.outside, inside));
    values.retain(|word| difference(word) > 0);
    values.sort_by_cached_key(|word| Reverse((difference(word), word.inside)));
    values.truncate(limit);
    let told = values.into_iter().map(|ValueCount { topic, value, inside, outside }| {
        let key = match topic {
            Topic::Service => "service".to_owned(),
            Topic::Name => "name".to_owned(),
            Topic::Kind => "kind".to_owned(),
            Topic::Status => "status".to_owned(),
            // The prefix distinguishes such a tag from the span's own field in filters.
            Topic::Tag(key) if ["service", "name", "kind", "status"].contains(&&*key) => {
                format!("tag.{key}")
            }
            Topic::Tag(key) => key,
        };
        ValueJson { key, value, inside, outside }
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which values the answer has, in order. Each of `words` is a value as `key=value`,
    /// with its counts inside and outside the box.
    #[track_caller]
    fn check(inside: u64, outside: u64, words: &[(&str, u64, u64)], expected: &[&str]) {
        let values = words.iter().map(|&(word, inside, outside)| {
            let (key, value) = word.split_once('=').expect("key=value");
            let topic = match key {
                "SERVICE" => Topic::Service,
                key => Topic::Tag(key.to_owned()),
            };
            ValueCount { topic, value: value.to_owned(), inside, outside }
        });
        let values = values.collect();
        let words =
            Difference { inside, outside, outside_one_in: 1, values, ..Difference::default() };
        let told = largest_differences(words, 3);
        let told: Vec<String> =
            told.into_iter().map(|it| format!("{}={}", it.key, it.value)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_differs_most_comes_first() {
        check(10, 100, &[("a=1", 10, 0), ("b=1", 10, 100), ("c=1", 0, 60)], &["a=1", "c=1"]);
        check(10, 100, &[("a=1", 1, 0), ("b=1", 2, 10), ("c=1", 3, 0)], &["c=1", "b=1", "a=1"]);
        let many = [("a=1", 1, 0), ("a=2", 1, 0), ("a=3", 1, 0), ("a=4", 1, 0)];
        check(10, 100, &many, &["a=1", "a=2", "a=3"]);
        check(0, 100, &[("a=1", 0, 60)], &[]);
        check(4, 0, &[("a=1", 1, 0), ("a=2", 3, 0)], &["a=2", "a=1"]);
        check(1, 1, &[("SERVICE=x", 1, 0), ("service=x", 1, 0)], &["service=x", "tag.service=x"]);
        let (most, half) = (u64::MAX, u64::MAX / 2);
        check(most, most, &[("a=1", most, half), ("a=2", most, 0)], &["a=2", "a=1"]);
    }
}
