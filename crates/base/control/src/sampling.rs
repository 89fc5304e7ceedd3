//! Sampling rules and their textual form: `1/100`, `50/s`, or both with a comma between.

use std::fmt;
use std::str::FromStr;

/// Environment variable from which a program reads its sampling rules.
pub const VARIABLE: &str = "BLKKIN_SAMPLE";

/// Sampling rules for requests that start in this process. A request is sampled if both the
/// fraction and the rate limit permit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Denominator of the sampling fraction: each request is sampled with probability 1/`one_of`.
    /// With 1 all requests are sampled, with 0 none. The text `1/0` is refused.
    pub one_of: u64,
    /// Rate limit on sampled requests; `None` means no limit.
    pub limit: Option<Limit>,
}

/// Token bucket that limits the rate of sampled requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Long-term rate in requests per second. With 0, no request is sampled.
    pub per_second: u32,
    /// Capacity of the token bucket in requests; 0 counts as 1. At most `per_second + burst`
    /// requests are sampled in any second.
    pub burst: u32,
}

impl Limit {
    /// Makes a limit of `per_second` requests per second. The burst is a tenth of that number,
    /// rounded up.
    pub const fn per_second(per_second: u32) -> Limit {
        Limit { per_second, burst: per_second.div_ceil(10) }
    }
}

impl Sampling {
    /// Rules that sample every request.
    pub const ALL: Sampling = Sampling { one_of: 1, limit: None };
    /// Rules that sample no request.
    pub const NONE: Sampling = Sampling { one_of: 0, limit: None };
}

/// Writes the rules as text that [`FromStr`] parses. The text omits the limit's burst.
impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            _ if self.one_of == 0 => f.write_str("0/s"),
            Some(limit) if self.one_of == 1 => write!(f, "{}/s", limit.per_second),
            Some(limit) => write!(f, "1/{},{}/s", self.one_of, limit.per_second),
            None => write!(f, "1/{}", self.one_of),
        }
    }
}

/// Error in the text of sampling rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingError {
    /// Byte offset of the error in the text, from 0.
    pub offset: usize,
    /// Kind of the error at that offset.
    pub reason: SamplingReason,
}

/// Kind of an error in sampling rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingReason {
    /// Missing rule: the text is empty, or nothing precedes or follows a comma.
    Empty,
    /// Rule without a `/`.
    NoSlash,
    /// Fraction whose numerator is not 1.
    NotOne,
    /// Number without digits or with other characters, or rate that does not end in `s`.
    NotANumber,
    /// Fraction `1/0`.
    OneOfNone,
    /// Number that exceeds its type's range.
    TooLarge,
    /// Second rule of the same kind, such as a second fraction.
    Twice,
}

impl fmt::Display for SamplingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SamplingReason::Empty => "a rule is missing",
            SamplingReason::NoSlash => "a rule without '/'",
            SamplingReason::NotOne => "the fraction does not start with 1",
            SamplingReason::NotANumber => "not a whole number, nor the s of a second",
            SamplingReason::OneOfNone => "one request of 0 cannot be, and none is 0/s",
            SamplingReason::TooLarge => "the number is too large",
            SamplingReason::Twice => "a second rule of the same kind",
        })
    }
}

impl fmt::Display for SamplingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SamplingError { offset, reason } = self;
        write!(
            f,
            "byte {offset}: {reason}; write for instance {VARIABLE}=1/100 for one request of 100, \
             {VARIABLE}=50/s for at most 50 a second, or both: {VARIABLE}=1/100,50/s"
        )
    }
}

impl std::error::Error for SamplingError {}

impl FromStr for Sampling {
    type Err = SamplingError;

    fn from_str(text: &str) -> Result<Sampling, SamplingError> {
        let (mut one_of, mut limit) = (None, None);
        let mut offset = 0;
        for rule in text.split(',') {
            let start = offset + (rule.len() - rule.trim_ascii_start().len());
            match read_rule(rule.trim_ascii(), start)? {
                Rule::OneOf(number) if one_of.is_none() => one_of = Some(number),
                Rule::PerSecond(number) if limit.is_none() => limit = Some(number),
                _ => return Err(SamplingError { offset: start, reason: SamplingReason::Twice }),
            }
            offset += rule.len() + 1;
        }
        Ok(Sampling { one_of: one_of.unwrap_or(1), limit: limit.map(Limit::per_second) })
    }
}

enum Rule {
    OneOf(u64),
    PerSecond(u32),
}

fn read_rule(rule: &str, offset: usize) -> Result<Rule, SamplingError> {
    let error = |offset, reason| Err(SamplingError { offset, reason });
    if rule.is_empty() {
        return error(offset, SamplingReason::Empty);
    }
    let Some((before, after)) = rule.split_once('/') else {
        return error(offset, SamplingReason::NoSlash);
    };
    if after == "s" {
        return read_number(before, offset).map(Rule::PerSecond);
    }
    let number = read_number(after, offset + before.len() + 1)?;
    if before != "1" {
        return error(offset, SamplingReason::NotOne);
    }
    if number == 0 {
        return error(offset, SamplingReason::OneOfNone);
    }
    Ok(Rule::OneOf(number))
}

fn read_number<T: FromStr>(digits: &str, offset: usize) -> Result<T, SamplingError> {
    // A sign is refused, although `parse` accepts it.
    let reason = match digits.bytes().position(|byte| !byte.is_ascii_digit()) {
        Some(place) => {
            return Err(SamplingError {
                offset: offset + place,
                reason: SamplingReason::NotANumber,
            });
        }
        None if digits.is_empty() => SamplingReason::NotANumber,
        None => SamplingReason::TooLarge,
    };
    digits.parse().map_err(|_| SamplingError { offset, reason })
}
