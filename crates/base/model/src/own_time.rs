//! Tags with the own time of a span: on what the part of its duration was spent in which no child
//! ran.
//!
//! | key | value |
//! | --- | --- |
//! | `blkkin.own.KIND` | nanoseconds of the kind ([`OwnKind`]), unless 0 |
//! | `blkkin.disk.DEVICE.queued` | nanoseconds until the disk requests were issued, unless 0 |
//! | `blkkin.disk.DEVICE.served` | nanoseconds in which the device served them, unless 0 |
//! | `blkkin.own.bands` | the bands: `KIND START DURATION[ DETAIL]`, separated by `;` |

use crate::ValueRef;

/// Prefix of the keys of tags with the own time of a span by kind, such as `blkkin.own.disk`.
pub const OWN_TIME_PREFIX: &str = "blkkin.own.";
/// Prefix of the keys of tags with the times of a span's disk requests by device, such as
/// `blkkin.disk.vda.queued`.
pub const DISK_TIME_PREFIX: &str = "blkkin.disk.";
/// Key of the tag with the bands of a span; its value is text.
pub const BANDS_KEY: &str = "blkkin.own.bands";
/// Maximum number of bands of a span.
pub const BANDS_MAX: usize = 256;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)*) => {
        /// Kind of a moment of a span's own time: running, or waiting for something.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OwnKind {
            $($(#[$doc])* $variant,)*
        }

        impl OwnKind {
            /// All kinds. If several apply to a moment, the first one counts.
            pub const ALL: [OwnKind; [$($name),*].len()] = [$(OwnKind::$variant),*];

            /// Returns the name of the kind in JSON, in tags, and in events of the kernel.
            pub const fn name(self) -> &'static str {
                match self {
                    $(OwnKind::$variant => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// A thread ran for the span.
    Running "running";
    /// A thread waited for a disk.
    Disk "disk";
    /// A thread waited for a lock.
    Lock "lock";
    /// A thread waited for the network.
    Network "network";
    /// A thread waited for a page of its memory.
    Fault "fault";
    /// A thread slept, or waited for a signal.
    Sleep "sleep";
    /// A thread waited for any of several descriptors: poll, select or epoll.
    Poll "poll";
    /// A thread waited for something else.
    Other "other";
    /// A thread could run, but waited for a processor.
    Runnable "runnable";
    /// No thread worked for the span: it was queued in the program, or awaited an answer.
    Elsewhere "elsewhere";
    /// It was not recorded what threads did.
    Unknown "unknown";
}

impl OwnKind {
    /// Returns the kind with a name.
    pub fn of_name(name: &str) -> Option<OwnKind> {
        OwnKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns true for the kinds in which a thread waited.
    pub const fn is_wait(self) -> bool {
        !matches!(self, OwnKind::Running | OwnKind::Elsewhere | OwnKind::Unknown)
    }
}

/// Returns true for the keys of tags of own time and of disk requests. Their values differ in
/// almost every span.
#[inline]
pub fn is_own_time_key(key: &str) -> bool {
    key.starts_with(OWN_TIME_PREFIX) || key.starts_with(DISK_TIME_PREFIX)
}

/// Returns the time in a tag of own time or disk requests, in nanoseconds; `None` for other tags,
/// and unless the value is a whole number from 0 to `i64::MAX`. The number may be text: some
/// protocols have no others.
pub fn own_time_ns(key: &str, value: ValueRef<'_>) -> Option<u64> {
    if !is_own_time_key(key) || key == BANDS_KEY {
        return None;
    }
    let number: i64 = match value {
        ValueRef::Int(number) => number,
        ValueRef::Str(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().ok()?
        }
        _ => return None,
    };
    number.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_distinct_names() {
        for kind in OwnKind::ALL {
            assert_eq!(OwnKind::of_name(kind.name()), Some(kind));
        }
        assert_eq!((OwnKind::of_name(""), OwnKind::of_name("bands")), (None, None));
        assert_eq!(OwnKind::ALL.into_iter().filter(|kind| !kind.is_wait()).count(), 3);
    }

    #[test]
    fn whole_numbers_from_0_are_times() {
        let of = |key, value| own_time_ns(key, value);
        assert_eq!(of("blkkin.own.disk", ValueRef::Int(5)), Some(5));
        assert_eq!(of("blkkin.own.disk", ValueRef::Str("5")), Some(5));
        assert_eq!(of("blkkin.own.disk", ValueRef::Str("0")), Some(0));
        assert_eq!(of("blkkin.disk.vda.queued", ValueRef::Int(7)), Some(7));
        let most = i64::MAX.to_string();
        assert_eq!(of("blkkin.own.disk", ValueRef::Str(&most)), Some(i64::MAX as u64));
        for text in ["", "x", "5 ms", "5.0", "-1", "9223372036854775808", "1;2", "+1"] {
            assert_eq!(of("blkkin.own.disk", ValueRef::Str(text)), None, "{text}");
        }
        assert_eq!(of("blkkin.own.disk", ValueRef::Int(-1)), None);
        assert_eq!(of("blkkin.own.disk", ValueRef::Double(5.0)), None);
        assert_eq!(of("blkkin.own.disk", ValueRef::Bool(true)), None);
        assert_eq!(of("blkkin.own.disk", ValueRef::Bytes(b"5")), None);
        assert_eq!(of("blkkin.own.bands", ValueRef::Int(5)), None);
        assert_eq!(of("blkkin.ownership", ValueRef::Int(5)), None);
        assert!(is_own_time_key("blkkin.own.bands") && !is_own_time_key("blkkin.owner"));
    }
}
