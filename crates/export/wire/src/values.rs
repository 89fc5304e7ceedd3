//! Parsing and validation of the values that Zipkin's formats share: hexadecimal ids, times in
//! microseconds, ports and addresses, by Zipkin's rules. OpenTelemetry's decoders use [`exact_id`]
//! and [`address_of_text`].
//!
//! Times are stricter than in Zipkin: times after the year 2554 (usually nanoseconds mistaken for
//! microseconds) are refused. The JSON formats also refuse annotations before 1970.

use crate::error::Reason;
use blkkin_model::{EndpointRef, SpanId, TraceId, hex};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parses a trace id of 1 to 32 digits; 0 is an error.
#[inline]
pub(crate) fn trace_id(digits: &[u8]) -> Result<TraceId, Reason> {
    let number = match digits.len() {
        0 => return Err(Reason::Empty),
        16 => parse_hex(digits)?.into(),
        size @ ..=32 => {
            let (high, low) = digits.split_at(size.saturating_sub(16));
            u128::from(parse_hex(high)?) << 64 | u128::from(parse_hex(low)?)
        }
        size => return Err(Reason::IdSize { size, size_max: 32 }),
    };
    TraceId::from_number(number).ok_or(Reason::Zero)
}

/// Parses a span id of 1 to 16 digits; 0 is an error.
#[inline]
pub(crate) fn span_id(digits: &[u8]) -> Result<SpanId, Reason> {
    parent_id(digits)?.ok_or(Reason::Zero)
}

/// Parses a span id of 1 to 16 digits; 0 means that the span has no parent.
#[inline]
pub(crate) fn parent_id(digits: &[u8]) -> Result<Option<SpanId>, Reason> {
    match digits.len() {
        0 => Err(Reason::Empty),
        1..=16 => Ok(SpanId::from_number(parse_hex(digits)?)),
        size => Err(Reason::IdSize { size, size_max: 16 }),
    }
}

/// Parses at most 16 hexadecimal digits in lower case; no digits give 0.
#[inline]
fn parse_hex(digits: &[u8]) -> Result<u64, Reason> {
    hex::parse(digits).ok_or(Reason::NotHex)
}

/// Parses an id of exactly `size` digits, in upper or lower case. Empty input gives 0.
pub(crate) fn exact_id(digits: &[u8], size: usize) -> Result<u128, Reason> {
    if digits.len() != size {
        let is_short = if size == 32 { "an id of 32 digits" } else { "an id of 16 digits" };
        return if digits.is_empty() { Ok(0) } else { Err(Reason::Expected(is_short)) };
    }
    let lower: [u8; 32] =
        std::array::from_fn(|index| digits.get(index).map_or(b'0', u8::to_ascii_lowercase));
    let (high, low) = lower.split_at(16);
    match size {
        32 => Ok(u128::from(parse_hex(high)?) << 64 | u128::from(parse_hex(low)?)),
        _ => parse_hex(high).map(u128::from),
    }
}

/// Reads a big-endian id of 1 to `size_max` bytes.
#[inline]
pub(crate) fn id_of_bytes(bytes: &[u8], size_max: usize) -> Result<u128, Reason> {
    match bytes.len() {
        0 => Err(Reason::Empty),
        size if size > size_max => Err(Reason::IdSize { size, size_max }),
        _ => Ok(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))),
    }
}

/// Converts microseconds to nanoseconds. 0 and negative numbers mean unknown.
#[inline]
pub(crate) fn ns_if_known(us: i64) -> Result<Option<u64>, Reason> {
    if us > 0 { ns(us).map(Some) } else { Ok(None) }
}

/// Converts microseconds to nanoseconds. Negative and too large numbers are errors.
#[inline]
pub(crate) fn ns(us: i64) -> Result<u64, Reason> {
    u64::try_from(us).ok().and_then(|us| us.checked_mul(1000)).ok_or(Reason::OutOfRange)
}

/// Checks a port. 0 and negative numbers mean unknown.
#[inline]
pub(crate) fn port(number: i64) -> Result<u16, Reason> {
    u16::try_from(number.max(0)).map_err(|_| Reason::OutOfRange)
}

/// Sets the address from 4 or 16 bytes; other sizes are ignored. An IPv4-compatible IPv6 address
/// sets the IPv4 address.
pub(crate) fn address_of_bytes(bytes: &[u8], endpoint: &mut EndpointRef<'_>) {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        endpoint.ipv4 = Some(bytes.into());
    } else if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        match compatible(bytes.into()) {
            Some(address) => endpoint.ipv4 = Some(address),
            None => endpoint.ipv6 = Some(bytes.into()),
        }
    }
}

/// Sets the address from text; other text, such as a host name, is ignored. An IPv6 address that is
/// IPv4-compatible, or IPv4-mapped and in mixed notation (`::ffff:1.2.3.4`), sets the IPv4 address.
pub(crate) fn address_of_text(text: &str, endpoint: &mut EndpointRef<'_>) {
    if let Some(address) = ipv4(text.as_bytes()) {
        endpoint.ipv4 = Some(address);
    } else if let Ok(address) = text.parse::<Ipv6Addr>() {
        let is_mixed = text.contains('.');
        match address.to_ipv4_mapped().filter(|_| is_mixed).or_else(|| compatible(address)) {
            Some(address) => endpoint.ipv4 = Some(address),
            None => endpoint.ipv6 = Some(address),
        }
    }
}

/// Parses an IPv4 address: four numbers below 256, without leading zeros. The standard library's
/// parser is three times slower.
#[inline]
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let (mut parts, mut number, mut digits) = ([0; 4], 0_u16, 0);
    let mut part = 0;
    for byte in text {
        match byte {
            b'0'..=b'9' if digits == 0 || (number > 0 && digits < 3) => {
                number = number * 10 + u16::from(byte - b'0');
                digits += 1;
            }
            b'.' if digits > 0 && part < 3 => {
                parts[part] = u8::try_from(number).ok()?;
                (part, number, digits) = (part + 1, 0, 0);
            }
            _ => return None,
        }
    }
    if part < 3 || digits == 0 {
        return None;
    }
    parts[3] = u8::try_from(number).ok()?;
    Some(parts.into())
}

/// Returns the IPv4 address of an IPv4-compatible IPv6 address (`::a.b.c.d`); `::1` has none.
fn compatible(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let number = u128::from(address);
    u32::try_from(number).ok().filter(|number| *number != 1).map(Ipv4Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_ids_are_read() {
        fn check(digits: &str, expected: Result<u128, Reason>) {
            assert_eq!(trace_id(digits.as_bytes()).map(TraceId::number), expected, "{digits}");
        }
        check("1", Ok(1));
        check("463ac35c9f6413ad", Ok(0x463a_c35c_9f64_13ad));
        check("463ac35c9f6413ad48485a3953bb6124", Ok(0x463a_c35c_9f64_13ad_4848_5a39_53bb_6124));
        check("0000000000000000463ac35c9f6413ad", Ok(0x463a_c35c_9f64_13ad));
        check("100000000000000000", Ok(1 << 68));
        check("10000000000000000000000000000000", Ok(1 << 124));
        check("", Err(Reason::Empty));
        check("0", Err(Reason::Zero));
        check(&"0".repeat(32), Err(Reason::Zero));
        check("463AC35C9F6413AD", Err(Reason::NotHex));
        check("0x3ac35c9f6413ad", Err(Reason::NotHex));
        check("463ac35c9f6413ag463ac35c9f6413ad", Err(Reason::NotHex));
        check(&"1".repeat(33), Err(Reason::IdSize { size: 33, size_max: 32 }));
    }

    #[test]
    fn span_ids_are_read() {
        fn check(digits: &str, expected: Result<Option<u64>, Reason>) {
            let number = |id: Option<SpanId>| id.map(SpanId::number);
            assert_eq!(parent_id(digits.as_bytes()).map(number), expected, "{digits}");
            let required = expected.and_then(|number| number.ok_or(Reason::Zero));
            assert_eq!(span_id(digits.as_bytes()).map(SpanId::number), required, "{digits}");
        }
        check("a", Ok(Some(10)));
        check("ffffffffffffffff", Ok(Some(u64::MAX)));
        check("0000", Ok(None));
        check("", Err(Reason::Empty));
        check("1 ", Err(Reason::NotHex));
        check("11111111111111111", Err(Reason::IdSize { size: 17, size_max: 16 }));
    }

    #[test]
    fn ids_of_bytes_are_read() {
        assert_eq!(id_of_bytes(&[1, 2], 8), Ok(0x102));
        assert_eq!(id_of_bytes(&[0xff; 16], 16), Ok(u128::MAX));
        assert_eq!(id_of_bytes(&[], 8), Err(Reason::Empty));
        assert_eq!(id_of_bytes(&[1; 9], 8), Err(Reason::IdSize { size: 9, size_max: 8 }));
    }

    #[test]
    fn times_are_read() {
        assert_eq!(ns_if_known(-1), Ok(None));
        assert_eq!(ns_if_known(0), Ok(None));
        assert_eq!(ns_if_known(1), Ok(Some(1000)));
        assert_eq!(ns(18_446_744_073_709_551), Ok(18_446_744_073_709_551_000));
        assert_eq!(ns(18_446_744_073_709_552), Err(Reason::OutOfRange));
        assert_eq!(ns(-1), Err(Reason::OutOfRange));
    }

    #[test]
    fn ports_are_read() {
        assert_eq!(port(-5), Ok(0));
        assert_eq!(port(65535), Ok(65535));
        assert_eq!(port(65536), Err(Reason::OutOfRange));
    }

    #[test]
    fn addresses_are_those_of_the_standard_library() {
        let parts =
            ["", "0", "00", "1", "01", "9", "10", "255", "256", "999", "1000", "-1", "a", " 1"];
        let mut texts = vec!["1.2.3".to_owned(), "1.2.3.4.".to_owned(), "1.2.3.4.5".to_owned()];
        for first in parts {
            for last in parts {
                texts.push(format!("{first}.2.{last}.{last}"));
                texts.push(format!("1.{last}.3.{first}"));
            }
        }
        for text in texts {
            assert_eq!(ipv4(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn addresses_are_read() {
        fn check(text: &str, ipv4: &str, ipv6: &str) {
            let mut endpoint = EndpointRef::NONE;
            address_of_text(text, &mut endpoint);
            assert_eq!(
                (endpoint.ipv4, endpoint.ipv6),
                (ipv4.parse().ok(), ipv6.parse().ok()),
                "{text}"
            );
        }
        check("192.168.0.1", "192.168.0.1", "");
        check("2001:DB8::c001", "", "2001:db8::c001");
        check("::192.168.0.1", "192.168.0.1", "");
        check("::ffff:192.168.0.1", "192.168.0.1", "");
        check("::ffff:c0a8:1", "", "::ffff:c0a8:1");
        check("::1", "", "::1");
        check("::c0a8:1", "192.168.0.1", "");
        check("osd.0", "", "");
        check("", "", "");
        check("1.2.3", "", "");

        let mut endpoint = EndpointRef::NONE;
        address_of_bytes(&[1, 2, 3], &mut endpoint);
        assert!(endpoint.is_none());
        address_of_bytes(&[1, 2, 3, 4], &mut endpoint);
        assert_eq!(endpoint.ipv4, Some(Ipv4Addr::new(1, 2, 3, 4)));
        let mapped: Ipv6Addr = "::ffff:1.2.3.4".parse().expect("an address");
        address_of_bytes(&mapped.octets(), &mut endpoint);
        assert_eq!(endpoint.ipv6, Some(mapped));
        let compatible: Ipv6Addr = "::9.9.9.9".parse().expect("an address");
        address_of_bytes(&compatible.octets(), &mut endpoint);
        assert_eq!(endpoint.ipv4, Some(Ipv4Addr::new(9, 9, 9, 9)));
    }
}
