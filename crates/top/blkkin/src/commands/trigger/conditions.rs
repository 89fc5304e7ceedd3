//! Conditions that are checked at intervals: lost events, and space on disks.

use crate::values;
use blkkin_client::Client;
use blkkin_control::{Loss, Reply, Request};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Number of lost events of a session that fires a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LossLimit {
    pub(super) session: String,
    pub(super) events: u64,
}

/// Free space of a directory's file system that fires a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskLimit {
    pub(super) directory: PathBuf,
    pub(super) bytes: u64,
}

/// Interval between two checks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

fn divide(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once('=').filter(|(left, _)| !left.is_empty())
}

impl FromStr for LossLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<LossLimit, String> {
        let wrong = || "not a session and a number of events, such as web=1000".to_owned();
        let (session, events) = divide(text).ok_or_else(wrong)?;
        let events = events.parse().ok().filter(|events| *events > 0).ok_or_else(wrong)?;
        Ok(LossLimit { session: session.to_owned(), events })
    }
}

impl FromStr for DiskLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<DiskLimit, String> {
        let wrong = || "not a directory and a size, such as /srv=10G".to_owned();
        let (directory, size) = divide(text).ok_or_else(wrong)?;
        let directory = PathBuf::from(directory);
        if !directory.is_absolute() {
            return Err("the directory is not an absolute path".to_owned());
        }
        Ok(DiskLimit { directory, bytes: values::bytes(size)? })
    }
}

/// Condition that holds.
#[derive(Debug)]
pub(super) struct Firing {
    /// Condition in words.
    pub(super) text: String,
    /// Number of the disk that is short of space; `None` for lost events.
    pub(super) disk: Option<usize>,
}

/// Result of the checks.
#[derive(Debug, Default)]
pub(super) struct CheckReport {
    /// Conditions that hold.
    pub(super) fired: Vec<Firing>,
    /// Reasons why conditions cannot be checked.
    pub(super) troubles: Vec<String>,
    /// Set if the agent does not answer.
    pub(super) lacks_agent: bool,
}

/// Checks of the conditions of one trigger.
pub(super) struct Checks {
    losses: Vec<(LossLimit, Option<u64>)>,
    disks: Vec<(DiskLimit, bool)>,
}

impl Checks {
    pub(super) fn new(losses: &[LossLimit], disks: &[DiskLimit]) -> Checks {
        Checks {
            losses: losses.iter().map(|limit| (limit.clone(), None)).collect(),
            disks: disks.iter().map(|limit| (limit.clone(), false)).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.losses.is_empty() && self.disks.is_empty()
    }

    /// Returns whether an agent is needed.
    pub(super) fn need_agent(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Forgets what was lost before, as after a time in which nothing was checked.
    pub(super) fn begin_again(&mut self) {
        self.losses.iter_mut().for_each(|(_, before)| *before = None);
    }

    /// Lets the condition of a disk fire again, since it had no consequence.
    pub(super) fn fire_again(&mut self, disk: usize) {
        if let Some((_, was_short)) = self.disks.get_mut(disk) {
            *was_short = false;
        }
    }

    /// Returns the conditions that hold now, and did not at the last check.
    pub(super) fn check(&mut self, client: Option<&mut Client>) -> CheckReport {
        let mut checked = CheckReport::default();
        if let Some(client) = client {
            for (limit, before) in &mut self.losses {
                let now = match lost(client, &limit.session) {
                    Ok(now) => now,
                    Err(error) => {
                        checked.lacks_agent |=
                            !matches!(error, blkkin_client::Error::Failed { .. });
                        checked.troubles.push(error.to_string());
                        continue;
                    }
                };
                let more = now.saturating_sub(before.replace(now).unwrap_or(now));
                if more >= limit.events {
                    let text = format!("session `{}` lost {more} events", limit.session);
                    checked.fired.push(Firing { text, disk: None });
                }
            }
        }
        for (number, (limit, was_short)) in self.disks.iter_mut().enumerate() {
            let found = match rustix::fs::statvfs(&limit.directory) {
                Ok(found) => found,
                Err(error) => {
                    checked.troubles.push(format!("{}: {error}", limit.directory.display()));
                    continue;
                }
            };
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let is_short = free < limit.bytes;
            if is_short && !std::mem::replace(was_short, is_short) {
                let free = values::bytes_text(free >> 20 << 20);
                let text = format!("{} has {free} free", limit.directory.display());
                checked.fired.push(Firing { text, disk: Some(number) });
            }
            *was_short = is_short;
        }
        checked
    }
}

/// Returns the number of events that a session has lost.
fn lost(client: &mut Client, session: &str) -> Result<u64, blkkin_client::Error> {
    let replies = client.request_all(&Request::Status(Some(session.to_owned())))?;
    let losses = replies.into_iter().filter_map(|reply| match reply {
        Reply::Loss(Loss { events, .. }) => Some(events),
        _ => None,
    });
    Ok(losses.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_name_what_they_limit() {
        let loss = "web=1000".parse::<LossLimit>();
        assert_eq!(loss, Ok(LossLimit { session: "web".into(), events: 1000 }));
        let disk = "/srv/a=b=10G".parse::<DiskLimit>();
        assert_eq!(disk, Ok(DiskLimit { directory: "/srv/a=b".into(), bytes: 10 << 30 }));
        for wrong in ["web", "=1", "web=0", "web=x", "web="] {
            assert!(wrong.parse::<LossLimit>().is_err(), "{wrong}");
        }
        for wrong in ["srv=10G", "/srv", "/srv=", "/srv=x", "=1G"] {
            assert!(wrong.parse::<DiskLimit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn full_disks_fire_once() {
        let limit = |bytes| DiskLimit { directory: "/".into(), bytes };
        let mut checks = Checks::new(&[], &[limit(u64::MAX), limit(0)]);
        assert_eq!(checks.check(None).fired.len(), 1);
        assert_eq!(checks.check(None).fired.len(), 0);
        checks.fire_again(0);
        assert_eq!(checks.check(None).fired.len(), 1);
        let missing = DiskLimit { directory: "/nonexistent".into(), bytes: 1 };
        assert_eq!(Checks::new(&[], &[missing]).check(None).troubles.len(), 1);
    }
}
