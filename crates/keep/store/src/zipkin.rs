//! Conversion of Zipkin's search parameters to conditions. Start at [`conditions`].

use crate::{Condition, Error, TagTest, TextField, TextTest};

/// Maximum number of terms in an `annotationQuery`. In a longer query, the text after the first 99
/// terms is a single term.
const PARTS_MAX: usize = 100;

/// Search parameters of Zipkin's API that apply to spans. Empty texts are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters<'a> {
    /// `serviceName`: all other parameters must match spans that this service recorded.
    pub service: &'a str,
    /// `remoteServiceName`: the service at the other end of the call.
    pub remote_service: &'a str,
    /// `spanName`: the name of the span. The value `all` is ignored.
    pub span_name: &'a str,
    /// `annotationQuery`: terms joined by ` and `. A term `KEY=VALUE` matches a tag. Any other term
    /// matches an annotation's text or a tag's key; `KEY=` is the same as `KEY`.
    pub annotation_query: &'a str,
    /// `minDuration`: the minimum duration of the span, in microseconds.
    pub duration_us_min: Option<i64>,
    /// `maxDuration`: the maximum duration of the span, in microseconds.
    pub duration_us_max: Option<i64>,
}

/// Converts search parameters to conditions. Each condition must hold for some span of the request,
/// not necessarily for the same span. Errors have Zipkin's wording.
pub fn conditions(parameters: &Parameters<'_>) -> Result<Vec<Condition>, Error> {
    let Parameters { service, remote_service, span_name, .. } = *parameters;
    let text = |field, text: &str| {
        let is = |text: &str| Condition::Text(field, TextTest::Is(text.to_ascii_lowercase()));
        (!text.is_empty()).then(|| is(text))
    };
    let span_name = if span_name.eq_ignore_ascii_case("all") { "" } else { span_name };
    let mut asked: Vec<Condition> = Vec::new();
    asked.extend(text(TextField::RemoteService, remote_service));
    asked.extend(text(TextField::Name, span_name));
    asked.extend(terms(parameters.annotation_query).into_iter().map(term));
    asked.extend(duration(parameters.duration_us_min, parameters.duration_us_max)?);
    let Some(recorded_by) = text(TextField::Service, service) else { return Ok(asked) };
    if asked.is_empty() {
        return Ok(vec![recorded_by]);
    }
    let all = |condition| Condition::All(vec![recorded_by.clone(), condition]);
    Ok(asked.into_iter().map(all).collect())
}

/// Parses an `annotationQuery` into pairs of key and value. Each key occurs once. A term without a
/// value has an empty value.
fn terms(query: &str) -> Vec<(&str, &str)> {
    let mut terms: Vec<(&str, &str)> = Vec::new();
    for part in query.splitn(PARTS_MAX, " and ").filter(|_| !query.is_empty()) {
        let (key, value) =
            part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value)));
        let (key, value) = (key.trim(), value.map(str::trim));
        match terms.iter_mut().find(|(known, _)| *known == key) {
            None => terms.push((key, value.unwrap_or_default())),
            // A later term without a value does not replace a value.
            Some(term) => term.1 = value.unwrap_or(term.1),
        }
    }
    terms
}

fn term((key, value): (&str, &str)) -> Condition {
    let tag = |test| Condition::Tag(key.to_owned(), test);
    match value {
        "" => Condition::Any(vec![
            Condition::Annotation(TextTest::Is(key.to_owned())),
            tag(TagTest::Present),
        ]),
        value => tag(TagTest::Text(TextTest::Is(value.to_owned()))),
    }
}

/// Returns the condition for `minDuration` and `maxDuration`. Zipkin truncates durations to
/// microseconds, so a span up to 999 ns longer than the maximum also matches.
fn duration(min: Option<i64>, max: Option<i64>) -> Result<Option<Condition>, Error> {
    let wrong = |words: &str| Err(Error::UnsupportedQuery(words.to_owned()));
    let ns = |us: i64| u64::try_from(us).unwrap_or_default().saturating_mul(1000);
    match (min, max) {
        (None, None) => Ok(None),
        (None, Some(_)) => wrong("maxDuration is only valid with minDuration"),
        (Some(..=0), _) => wrong("minDuration <= 0"),
        (Some(min), Some(max)) if max < min => wrong("maxDuration < minDuration"),
        (Some(min), Some(max)) => {
            Ok(Some(Condition::Duration(ns(min), ns(max).saturating_add(999))))
        }
        (Some(min), None) => Ok(Some(Condition::Duration(ns(min), u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(condition: &Condition) -> String {
        match condition {
            Condition::All(all) => all.iter().map(shown).collect::<Vec<_>>().join(" & "),
            Condition::Any(all) => all.iter().map(shown).collect::<Vec<_>>().join(" | "),
            Condition::Text(field, TextTest::Is(text)) => format!("{field:?}={text}"),
            Condition::Annotation(TextTest::Is(text)) => format!("annotation {text}"),
            Condition::Tag(key, TagTest::Present) => format!("tag {key}"),
            Condition::Tag(key, TagTest::Text(TextTest::Is(text))) => format!("tag {key}={text}"),
            Condition::Duration(min, max) => format!("{min}..{max}"),
            other => format!("{other:?}"),
        }
    }

    #[track_caller]
    fn check(parameters: Parameters<'_>, expected: &str) {
        let found = match conditions(&parameters) {
            Ok(conditions) => conditions.iter().map(shown).collect::<Vec<_>>().join("; "),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(found, expected, "{parameters:?}");
    }

    #[test]
    fn names_and_durations() {
        let none = Parameters::default();
        check(none, "");
        check(Parameters { service: "Guest", ..none }, "Service=guest");
        check(Parameters { span_name: "ALL", ..none }, "");
        check(Parameters { service: "all", span_name: "all", ..none }, "Service=all");
        check(
            Parameters {
                service: "a",
                remote_service: "B",
                span_name: "Get",
                duration_us_min: Some(5),
                ..none
            },
            "Service=a & RemoteService=b; Service=a & Name=get; Service=a & 5000..18446744073709551615",
        );
        let durations =
            |min, max| Parameters { duration_us_min: min, duration_us_max: max, ..none };
        check(durations(Some(1), Some(1)), "1000..1999");
        check(durations(Some(i64::MAX), Some(i64::MAX)), &format!("{0}..{0}", u64::MAX));
        check(durations(Some(0), None), "error: minDuration <= 0");
        check(durations(Some(-1), Some(5)), "error: minDuration <= 0");
        check(durations(Some(5), Some(4)), "error: maxDuration < minDuration");
        check(durations(None, Some(4)), "error: maxDuration is only valid with minDuration");
    }

    #[test]
    fn annotation_queries() {
        let ask = |query: &str, expected: &str| {
            check(Parameters { annotation_query: query, ..Parameters::default() }, expected);
        };
        ask("error", "annotation error | tag error");
        ask("http.method=GET", "tag http.method=GET");
        ask(" a = b ", "tag a=b");
        ask("a=", "annotation a | tag a");
        ask("a=b=c", "tag a=b=c");
        ask("a=1 and error and b = 2", "tag a=1; annotation error | tag error; tag b=2");
        ask("a AND b", "annotation a AND b | tag a AND b");
        // A term with a value replaces a term without, and a later value replaces an earlier value.
        ask("a and a=1", "tag a=1");
        ask("a=1 and a", "tag a=1");
        ask("a=1 and a=2", "tag a=2");
        ask("a=1 and b and a=", "annotation a | tag a; annotation b | tag b");
        ask(" and ", "annotation  | tag ");
        check(
            Parameters { service: "s", annotation_query: "a and b=1", ..Parameters::default() },
            "Service=s & annotation a | tag a; Service=s & tag b=1",
        );
        let many: Vec<String> = (0..150).map(|number| format!("k{number}")).collect();
        let parameters =
            Parameters { annotation_query: &many.join(" and "), ..Parameters::default() };
        let found = conditions(&parameters).expect("a good question");
        assert_eq!(found.len(), 100);
        let rest = many[99..].join(" and ");
        assert_eq!(shown(&found[99]), format!("annotation {rest} | tag {rest}"));
    }
}
