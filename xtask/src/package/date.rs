//! Dates in UTC as text: RFC 3339 for OCI images, RFC 5322 for Debian's changelog.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECONDS_OF_DAY: u64 = 24 * 60 * 60;

/// Formats seconds since 1970 as `2026-11-25T16:30:45Z`.
pub(super) fn rfc3339(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / SECONDS_OF_DAY);
    format!("{year:04}-{month:02}-{day:02}T{}Z", time(seconds))
}

/// Formats seconds since 1970 as `Wed, 25 Nov 2026 16:30:45 +0000`.
pub(super) fn rfc5322(seconds: u64) -> String {
    let days = seconds / SECONDS_OF_DAY;
    let (year, month, day) = civil(days);
    // 1970 began on a Thursday.
    let weekday = DAYS[(days % 7) as usize];
    let month = MONTHS[(month - 1) as usize];
    format!("{weekday}, {day:02} {month} {year:04} {} +0000", time(seconds))
}

fn time(seconds: u64) -> String {
    let seconds = seconds % SECONDS_OF_DAY;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Returns year, month and day of the Gregorian calendar.
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let (mut year, mut days) = (1970, days_since_1970);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::{rfc3339, rfc5322};

    #[test]
    fn known_dates() {
        for (seconds, short, long) in [
            (0, "1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 +0000"),
            (951_782_399, "2000-02-28T23:59:59Z", "Mon, 28 Feb 2000 23:59:59 +0000"),
            (951_782_400, "2000-02-29T00:00:00Z", "Tue, 29 Feb 2000 00:00:00 +0000"),
            (1_767_225_599, "2025-12-31T23:59:59Z", "Wed, 31 Dec 2025 23:59:59 +0000"),
            (4_107_542_400, "2100-03-01T00:00:00Z", "Mon, 01 Mar 2100 00:00:00 +0000"),
        ] {
            assert_eq!((rfc3339(seconds).as_str(), rfc5322(seconds).as_str()), (short, long));
        }
    }
}
