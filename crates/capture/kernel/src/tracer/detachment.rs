//! Detached probes, as a reason for users and as an event in the trace.

use super::overload::{Excess, WINDOWS};
use crate::event_type::event_type;
use blkkin_control::{EventType, FieldKind};
use std::fmt;

/// Name of the events.
const EVENT: &str = "blkkin:probes_detached";
/// Size in bytes up to which probes are listed; one is listed always.
const LIST_SIZE: usize = 100;

/// Probes that the guard has detached.
#[derive(Debug)]
pub(super) struct Detachment {
    pub(super) probes: Vec<String>,
    pub(super) excess: Excess,
}

impl Detachment {
    /// Returns the description of the events, without an id.
    pub(super) fn event_type() -> EventType {
        let fields = [
            ("probes", FieldKind::String),
            ("share_percent", FieldKind::F64),
            ("total_percent", FieldKind::F64),
            ("budget_percent", FieldKind::F64),
        ];
        event_type(0, EVENT.to_owned(), fields)
    }

    /// Returns the fields of the event.
    pub(super) fn fields(&self) -> Vec<u8> {
        let Excess { share, total, budget, .. } = self.excess;
        let mut fields = self.list("").into_bytes();
        fields.push(0);
        for share in [share, total, budget] {
            fields.extend_from_slice(&share.percent().to_le_bytes());
        }
        fields
    }

    /// Lists the first probes between quotes, and the number of the others.
    fn list(&self, quote: &str) -> String {
        let mut list = String::new();
        for (index, probe) in self.probes.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            if index > 0 && list.len() + probe.len() > LIST_SIZE {
                return format!("{list} and {} more", self.probes.len() - index);
            }
            list += &format!("{comma}{quote}{probe}{quote}");
        }
        list
    }
}

impl fmt::Display for Detachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excess { share, total, budget, .. } = self.excess;
        let probes = self.list("`");
        write!(
            f,
            "{probes}: detached, because they took {} of the time of all processors",
            share.rounded()
        )?;
        if total > share {
            write!(f, ", and all probes {}", total.rounded())?;
        }
        write!(
            f,
            ", in {WINDOWS} successive measurements; the budget is {budget}. They are attached again \
             when the channel's rules change or the session starts again: choose fewer processes or \
             events, or raise the budget (`blkkin agent --probe-budget`)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::overload::GroupId;
    use super::*;
    use crate::cpu_share::CpuShare;
    use blkkin_control::limits::REASON_SIZE_MAX;

    fn detachment(probes: impl IntoIterator<Item = String>, total_ns: u64) -> Detachment {
        let excess = Excess {
            group: GroupId { channel: 0, serial: 0 },
            share: CpuShare::of(461_234, 1_000_000),
            total: CpuShare::of(total_ns, 1_000_000),
            budget: "5%".parse().unwrap(),
        };
        Detachment { probes: probes.into_iter().collect(), excess }
    }

    #[test]
    fn the_reason_names_probes_shares_and_remedies() {
        let text = detachment(["block:a".to_owned(), "block:b".to_owned()], 461_234).to_string();
        let begin = "`block:a`, `block:b`: detached, because they took 46.1 % of the time of all \
                     processors, in 3 successive measurements; the budget is 5 %. ";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("--probe-budget"), "{text}");
        let text = detachment(["block:a".to_owned()], 500_000).to_string();
        assert!(
            text.contains("took 46.1 % of the time of all processors, and all probes 50 %, in")
        );
    }

    /// Nothing of the reason is cut off in a message.
    #[test]
    fn many_and_long_names_are_shortened() {
        let many = (0..1000).map(|number| format!("syscall:call{number}"));
        let text = detachment(many, 500_000).to_string();
        assert!(text.starts_with("`syscall:call0`, `syscall:call1`, "), "{text}");
        assert!(text.contains("` and 99"), "{text}");
        assert!(text.len() <= REASON_SIZE_MAX, "{}", text.len());
        let long = [254, 255].map(|size| "n".repeat(size));
        let text = detachment(long, 500_000).to_string();
        assert!(text.contains("n` and 1 more: detached"), "{text}");
        assert!(text.len() <= REASON_SIZE_MAX, "{}", text.len());
    }

    #[test]
    fn fields_are_those_of_the_event_type() {
        let fields = detachment(["block:a".to_owned()], 500_000).fields();
        let expected =
            [&b"block:a\0"[..], &46.1234f64.to_le_bytes(), &50f64.to_le_bytes()].concat();
        assert_eq!(fields[..expected.len()], expected);
        assert_eq!(fields[expected.len()..], 5f64.to_le_bytes());
    }
}
