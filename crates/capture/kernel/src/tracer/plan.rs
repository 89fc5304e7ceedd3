//! From the rules of a channel to groups of probes that are attached together: a group has the same
//! processes, the same filter and the same redactions.

use crate::call_type::REQUEST_CALL_PREFIX;
use crate::state::StateKind;
use blkkin_control::rules::Pattern;
use blkkin_control::{KernelRule, Processes, Redaction, Selection};
use std::collections::BTreeMap;

/// Kinds of probes that are no events in the kernel's lists: they are attached where their text
/// says, and a pattern in it is that of their kind.
const EXPLICIT: [&str; 9] = [
    "kprobe:",
    "kretprobe:",
    "fentry:",
    "fexit:",
    "raw:",
    "uprobe:",
    "uretprobe:",
    "usdt:",
    "profile:",
];
/// Optional prefix of tracepoints.
const TRACEPOINT: &str = "tracepoint:";
/// Prefixes of events that record the same as the events `syscall:NAME`. Only a pattern with the
/// same prefix selects them.
const EXPLICIT_ONLY: [&str; 2] = ["syscalls:", REQUEST_CALL_PREFIX];

/// Probes with the same processes, filter and redactions. State has groups of its own, so that it
/// is not recorded again when rules for other events change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Processes whose events are recorded.
    pub(super) processes: Processes,
    /// Source text of a filter for all events.
    pub(super) filter: Option<String>,
    /// Redactions of the events' fields, in ascending order.
    pub(super) redactions: Vec<Redaction>,
    /// Set if the events tell the state of the machine.
    pub(super) is_state: bool,
    /// Names of events in the kernel's lists, and texts of other probes.
    pub(super) names: Vec<String>,
}

impl Group {
    /// Returns true if probes of both groups can be attached together.
    pub(super) fn fits(&self, other: &Group) -> bool {
        let Group { processes, filter, redactions, is_state, names: _ } = self;
        (processes, filter, redactions, is_state)
            == (&other.processes, &other.filter, &other.redactions, &other.is_state)
    }
}

/// Groups of probes that fulfil the rules of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) groups: Vec<Group>,
    /// Patterns that match no event.
    pub(super) unmatched: Vec<String>,
}

impl Plan {
    /// Makes a plan for rules in the order in which they were added, and for the events that the
    /// kernel has. If several rules enable the same events for different processes or with
    /// different filters, the events of all these processes are recorded for which one of the
    /// filters holds. The redactions of all these rules hold.
    pub(super) fn new(rules: &[KernelRule], events: &[String]) -> Plan {
        let mut plan = Plan::default();
        let mut planned: BTreeMap<String, Enabled> = BTreeMap::new();
        for rule in rules {
            let Selection { names, .. } = &rule.selection;
            let is_excluded = is_excluded(&rule.selection);
            if !rule.enabled {
                let disabled: Vec<Pattern> = names.iter().map(|text| pattern(text)).collect();
                planned.retain(|name, _| {
                    is_excluded(name) || !disabled.iter().any(|one| one.fits(name.as_bytes()))
                });
                continue;
            }
            for text in names {
                let found = matching(text, events);
                if found.is_empty() {
                    plan.unmatched.push(text.clone());
                }
                for name in found.into_iter().filter(|name| !is_excluded(name)) {
                    match planned.get_mut(&name) {
                        Some(enabled) => enabled.add(rule),
                        None => drop(planned.insert(name, Enabled::by(rule))),
                    }
                }
            }
        }
        for (name, Enabled { processes, filters, mut redactions }) in planned {
            let filter = filters.map(|filters| match &filters[..] {
                [one] => one.clone(),
                several => {
                    several.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" || ")
                }
            });
            redactions.sort_unstable();
            redactions.dedup();
            let is_state = StateKind::of_event(&name).is_some();
            let names = vec![name];
            let group = Group { processes, filter, redactions, is_state, names };
            match plan.groups.iter_mut().find(|known| known.fits(&group)) {
                Some(known) => known.names.extend(group.names),
                None => plan.groups.push(group),
            }
        }
        plan
    }
}

/// Processes, filters and redactions of the rules that enable an event.
#[derive(Debug)]
struct Enabled {
    processes: Processes,
    /// `None` if a rule has no filter.
    filters: Option<Vec<String>>,
    redactions: Vec<Redaction>,
}

impl Enabled {
    fn by(rule: &KernelRule) -> Enabled {
        let KernelRule { selection, redactions, .. } = rule;
        let filters = selection.filter.clone().map(|filter| vec![filter]);
        let (processes, redactions) = (selection.processes.clone(), redactions.clone());
        Enabled { processes, filters, redactions }
    }

    fn add(&mut self, rule: &KernelRule) {
        let selection = &rule.selection;
        self.redactions.extend(rule.redactions.iter().cloned());
        let has_all = |one: &Processes| one.pids.is_empty() && one.executables.is_empty();
        if has_all(&self.processes) || has_all(&selection.processes) {
            self.processes = Processes::default();
        } else {
            let Processes { pids, executables, children } = &selection.processes;
            self.processes.pids.extend(pids);
            self.processes.executables.extend(executables.iter().cloned());
            self.processes.children |= children;
            self.processes.pids.sort_unstable();
            self.processes.pids.dedup();
            self.processes.executables.sort_unstable();
            self.processes.executables.dedup();
        }
        match (&mut self.filters, &selection.filter) {
            (Some(filters), Some(filter)) if !filters.contains(filter) => {
                filters.push(filter.clone());
            }
            (Some(_), Some(_)) | (None, _) => {}
            (filters, None) => *filters = None,
        }
    }
}

/// Returns a test for the names of events that a selection excludes.
fn is_excluded(selection: &Selection) -> impl Fn(&str) -> bool {
    let excluded: Vec<Pattern> = selection.excluded.iter().map(|text| Pattern::new(text)).collect();
    move |name| excluded.iter().any(|one| one.fits(name.as_bytes()))
}

/// Returns the events that a selection selects, and the texts of other probes.
pub(super) fn selected(selection: &Selection, events: &[String]) -> Vec<String> {
    let is_excluded = is_excluded(selection);
    let found = selection.names.iter().flat_map(|text| matching(text, events));
    found.filter(|name| !is_excluded(name)).collect()
}

/// Returns the pattern of names of events for a user's text.
fn pattern(text: &str) -> Pattern {
    Pattern::new(text.strip_prefix(TRACEPOINT).unwrap_or(text))
}

/// Returns true for the text of a probe that no list of events has.
pub(super) fn is_explicit(text: &str) -> bool {
    EXPLICIT.iter().any(|kind| text.starts_with(kind))
}

/// Returns the events that a user's text selects, or the text itself if it is a probe that no list
/// has.
fn matching(text: &str, events: &[String]) -> Vec<String> {
    if is_explicit(text) {
        return vec![text.to_owned()];
    }
    let text = text.strip_prefix(TRACEPOINT).unwrap_or(text);
    let pattern = Pattern::new(text);
    let fits =
        |name: &&String| pattern.fits(name.as_bytes()) && !needs_explicit_pattern(name, text);
    events.iter().filter(fits).cloned().collect()
}

/// Returns true if only an explicit pattern selects the event, and `pattern` is not one.
pub(crate) fn needs_explicit_pattern(name: &str, pattern: &str) -> bool {
    let is_missing = |prefix: &str| name.starts_with(prefix) && !pattern.starts_with(prefix);
    EXPLICIT_ONLY.into_iter().any(is_missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(enabled: bool, names: &[&str]) -> KernelRule {
        let (selection, redactions) = (Selection::for_names(names.iter().copied()), Vec::new());
        KernelRule { channel: 0, enabled, selection, redactions }
    }

    fn events() -> Vec<String> {
        [
            "block:a",
            "block:b",
            "process:exec",
            "request:syscall:read",
            "syscall:open",
            "syscall:read",
            "syscalls:sys_enter_read",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.groups.iter().flat_map(|group| &group.names).map(String::as_str).collect()
    }

    #[test]
    fn later_rules_override_earlier_ones() {
        let rules = [
            rule(true, &["block:*", "syscall:*"]),
            rule(false, &["block:*"]),
            rule(true, &["tracepoint:block:b"]),
        ];
        let plan = Plan::new(&rules, &events());
        assert_eq!(names(&plan), ["block:b", "syscall:open", "syscall:read"]);
        assert_eq!(plan.unmatched, [""; 0]);
    }

    #[test]
    fn probes_that_no_list_has_are_kept_as_text() {
        let rules = [rule(true, &["kprobe:vfs_*", "raw:sched_switch", "blok:*"])];
        let plan = Plan::new(&rules, &events());
        assert_eq!(names(&plan), ["kprobe:vfs_*", "raw:sched_switch"]);
        assert_eq!(plan.unmatched, ["blok:*"]);
        let disabled = [rules[0].clone(), rule(false, &["kprobe:vfs_*"])];
        assert_eq!(names(&Plan::new(&disabled, &events())), ["raw:sched_switch"]);
    }

    #[test]
    fn a_star_selects_system_calls_once() {
        let plan = Plan::new(&[rule(true, &["*"])], &events());
        assert_eq!(names(&plan).len(), 5);
        let plan = Plan::new(&[rule(true, &["syscalls:*"])], &events());
        assert_eq!(names(&plan), ["syscalls:sys_enter_read"]);
        let plan = Plan::new(&[rule(true, &["request:*", "request:syscall:*"])], &events());
        assert_eq!(names(&plan), ["request:syscall:read"]);
        assert_eq!(plan.unmatched, ["request:*"]);
    }

    #[test]
    fn events_are_grouped_by_processes_and_filter() {
        let mut filtered = rule(true, &["syscall:*"]);
        filtered.selection.filter = Some("ret < 0".to_owned());
        filtered.selection.processes.executables = vec!["dd".to_owned()];
        let mut other = filtered.clone();
        other.selection.names = vec!["syscall:read".to_owned()];
        other.selection.filter = Some("ret > 9".to_owned());
        other.selection.processes.executables = vec!["cp".to_owned()];
        let plan = Plan::new(&[rule(true, &["block:a"]), filtered, other], &events());
        let group = |names: &[&str], executables: &[&str], filter: Option<&str>| Group {
            processes: Processes {
                executables: executables.iter().map(|name| (*name).to_owned()).collect(),
                ..Processes::default()
            },
            filter: filter.map(str::to_owned),
            redactions: Vec::new(),
            is_state: false,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let expected = [
            group(&["block:a"], &[], None),
            group(&["syscall:open"], &["dd"], Some("ret < 0")),
            group(&["syscall:read"], &["cp", "dd"], Some("(ret < 0) || (ret > 9)")),
        ];
        assert_eq!(plan.groups, expected);
    }

    /// The redactions of all rules for an event hold, also of a rule that comes before one without
    /// redactions; they end when the event is disabled.
    #[test]
    fn redactions_of_rules_add_up() {
        let redacted = |names: &[&str], text: &str| {
            let redactions = vec![text.parse().unwrap()];
            KernelRule { redactions, ..rule(true, names) }
        };
        let mut rules = vec![
            redacted(&["syscall:*"], "filename=length"),
            redacted(&["syscall:open"], "file*=hash"),
            rule(true, &["syscall:*", "block:a"]),
        ];
        let groups = |rules: &[KernelRule]| -> Vec<(Vec<String>, Vec<String>)> {
            let groups = Plan::new(rules, &events()).groups.into_iter();
            let texts = |group: &Group| group.redactions.iter().map(ToString::to_string).collect();
            groups.map(|group| (texts(&group), group.names)).collect()
        };
        let group = |redactions: &[&str], name: &str| {
            (redactions.iter().map(|one| (*one).to_owned()).collect(), vec![name.to_owned()])
        };
        let expected = [
            group(&[], "block:a"),
            group(&["file*=hash", "filename=length"], "syscall:open"),
            group(&["filename=length"], "syscall:read"),
        ];
        assert_eq!(groups(&rules), expected);
        rules.extend([rule(false, &["syscall:*"]), rule(true, &["syscall:open"])]);
        let plain = (Vec::new(), vec!["block:a".to_owned(), "syscall:open".to_owned()]);
        assert_eq!(groups(&rules), [plain]);
    }

    #[test]
    fn state_has_a_group_of_its_own() {
        let events = ["block:a", "state:file", "state:process"].map(str::to_owned);
        let plan = Plan::new(&[rule(true, &["*"])], &events);
        let names: Vec<&[String]> = plan.groups.iter().map(|group| &group.names[..]).collect();
        assert_eq!(names, [&events[..1], &events[1..]]);
        let plan = Plan::new(&[rule(true, &["*"]), rule(false, &["block:*"])], &events);
        assert_eq!(plan.groups.len(), 1);
        assert_eq!(plan.groups[0].names, events[1..]);
    }

    #[test]
    fn a_rule_without_filter_or_processes_is_enough() {
        let mut filtered = rule(true, &["block:a"]);
        filtered.selection.filter = Some("x > 1".to_owned());
        filtered.selection.processes.pids = vec![7];
        for rules in
            [[filtered.clone(), rule(true, &["block:*"])], [rule(true, &["block:a"]), filtered]]
        {
            let plan = Plan::new(&rules, &events());
            assert_eq!(plan.groups[0].filter, None);
            assert_eq!(plan.groups[0].processes, Processes::default());
        }
    }

    #[test]
    fn excluded_events_stay_as_they_are() {
        let mut enabled = rule(true, &["block:*"]);
        enabled.selection.excluded = vec!["block:a".to_owned()];
        assert_eq!(names(&Plan::new(&[enabled], &events())), ["block:b"]);
        let mut disabled = rule(false, &["*"]);
        disabled.selection.excluded = vec!["block:a".to_owned()];
        let plan = Plan::new(&[rule(true, &["block:*"]), disabled], &events());
        assert_eq!(names(&plan), ["block:a"]);
    }
}
