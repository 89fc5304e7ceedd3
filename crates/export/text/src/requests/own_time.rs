//! Lines below a drawn span that show what its own time was spent on: a bar with a letter, or a
//! colour, for each kind, and the sums as text, largest first. The same for each service, at the
//! end of the request.

use super::truncate::truncate_text;
use crate::info::table::Theme;
use crate::info::units::duration;
use blkkin_spans::{OwnKind, OwnTime, Request};
use std::collections::BTreeMap;

/// Width of the bar in characters.
const BAR: usize = 20;
/// Minimum width of the sums beside the bar in characters. The bar is omitted on a line with less
/// room.
const SUMS_MIN: usize = 30;
/// Maximum width of the column before the bar in characters: of guides, or of a service's name.
const MARGIN_MAX: usize = 20;
/// Width of a line in characters that is used even if the terminal is narrower.
const WIDTH_MIN: usize = 34;
/// Maximum length of a device's name in characters.
const DEVICE_MAX: usize = 16;

/// Letter of each kind in a bar without colours, in the order of [`OwnKind::ALL`].
const LETTERS: [char; OwnKind::ALL.len()] = ['R', 'D', 'L', 'N', 'F', 'S', 'P', 'O', 'Q', 'E', '?'];
/// Codes of the kinds' colours, in the same order.
const COLORS: [&str; OwnKind::ALL.len()] =
    ["32", "34", "31", "35", "91", "96", "36", "37", "33", "90", "2"];

/// Layout of a request's lines of own times.
pub(super) struct OwnLines {
    theme: Theme,
    width: usize,
    /// Width of the column before the bar in characters.
    margin: usize,
    /// Width of the longest own time's text in characters.
    total: usize,
    services: Vec<(String, Sums)>,
}

/// Sums over one or more own times.
#[derive(Default)]
struct Sums {
    kinds: [u64; OwnKind::ALL.len()],
    /// Nanoseconds of the requests to each disk: queued and served.
    disks: BTreeMap<String, (u64, u64)>,
}

impl OwnLines {
    /// Returns the layout; `None` if no span's own time is known. `guides_max` is the maximum width
    /// of the guides before such a line.
    pub(super) fn new(
        theme: Theme,
        width: usize,
        guides_max: usize,
        request: &Request<'_>,
    ) -> Option<OwnLines> {
        let mut services = BTreeMap::<&str, Sums>::new();
        let mut longest = 0;
        for step in &request.steps {
            let Some(own) = &step.own else { continue };
            services.entry(step.span.local.service).or_default().add(own, theme);
            longest = longest.max(own_duration(own.total_ns(), theme).chars().count());
        }
        if services.is_empty() {
            return None;
        }
        let width = width.max(WIDTH_MIN);
        let services: Vec<(String, Sums)> = services
            .into_iter()
            .map(|(name, sums)| (theme.clean(if name.is_empty() { "?" } else { name }, 60), sums))
            .collect();
        for (_, sums) in &services {
            longest = longest.max(own_duration(sums.total_ns(), theme).chars().count());
        }
        let names = services.iter().map(|(name, _)| name.chars().count() + 2).max();
        let margin = names.unwrap_or(0).max(guides_max).min(MARGIN_MAX).min(width / 4);
        Some(OwnLines { theme, width, margin, total: longest, services })
    }

    /// Prints the lines of one span.
    pub(super) fn print_span(&self, out: &mut String, guides: &str, own: &OwnTime<'_>) {
        let mut sums = Sums::default();
        sums.add(own, self.theme);
        let guides = self.theme.colored("2", &self.fitted(guides));
        self.print(out, &guides, &guides, &sums);
    }

    /// Prints the lines of the services, below a heading.
    pub(super) fn print_services(&self, out: &mut String) {
        out.push_str(&self.theme.colored("2", "own time by service"));
        out.push('\n');
        let blank = self.fitted("");
        for (name, sums) in &self.services {
            let room = self.margin.saturating_sub(1);
            let name = self.fitted(&truncate_text(name, room, self.theme.ascii));
            self.print(out, &name, &blank, sums);
        }
    }

    /// Pads or truncates a text to the width of the margin.
    fn fitted(&self, text: &str) -> String {
        let margin = self.margin;
        format!("{:<margin$}", text.chars().take(margin).collect::<String>())
    }

    /// Prints bar and sums; `first` precedes the first line, and `further` each further line.
    fn print(&self, out: &mut String, first: &str, further: &str, sums: &Sums) {
        let total = own_duration(sums.total_ns(), self.theme);
        let head = format!("own {total:>width$}: ", width = self.total);
        let head_width = head.chars().count();
        let has_bar = self.margin + BAR + 2 + head_width + SUMS_MIN <= self.width;
        let bar = if has_bar { BAR + 2 } else { 0 };
        // Without room beside the head, the sums begin below it.
        let is_beside = self.margin + bar + head_width + SUMS_MIN <= self.width;
        let indent = if is_beside { bar + head_width } else { 2 };
        let room = self.width.saturating_sub(self.margin + indent);
        let mut line = first.to_owned();
        if has_bar {
            line.push_str(&sums.bar(self.theme));
            line.push_str("  ");
        }
        line.push_str(head.trim_end_matches(if is_beside { '\0' } else { ' ' }));
        let mut begin_line = |line: &mut String| {
            push_line(out, line);
            line.push_str(further);
            line.extend(std::iter::repeat_n(' ', indent));
        };
        if !is_beside {
            begin_line(&mut line);
        }
        let mut column = 0;
        for (kind, piece, comma) in sums.pieces(self.theme, room) {
            let text = truncate_text(&piece, room - comma.len(), self.theme.ascii);
            let length = text.chars().count() + comma.len();
            if column > 0 && column + 1 + length > room {
                begin_line(&mut line);
                column = 0;
            }
            if column > 0 {
                line.push(' ');
                column += 1;
            }
            column += length;
            match kind {
                Some(kind) => {
                    line.push_str(&self.theme.colored(COLORS[kind as usize], &text));
                }
                None => line.push_str(&text),
            }
            line.push_str(comma);
        }
        push_line(out, &mut line);
    }
}

/// Appends a line without its trailing spaces, and empties it.
fn push_line(out: &mut String, line: &mut String) {
    out.push_str(line.trim_end_matches(' '));
    out.push('\n');
    line.clear();
}

fn own_duration(ns: u64, theme: Theme) -> String {
    let text = duration(ns);
    if theme.ascii { text } else { text.replace("us", "µs") }
}

impl Sums {
    fn add(&mut self, own: &OwnTime<'_>, theme: Theme) {
        for (kind, ns) in own.sums() {
            self.kinds[kind as usize] = self.kinds[kind as usize].saturating_add(ns);
        }
        for disk in &own.disks {
            let device = theme.clean(disk.device, DEVICE_MAX);
            let (queued, served) = self.disks.entry(device).or_default();
            *queued = queued.saturating_add(disk.queued_ns);
            *served = served.saturating_add(disk.served_ns);
        }
    }

    fn total_ns(&self) -> u64 {
        self.kinds.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Returns the kinds with their nanoseconds, largest first.
    fn largest_first(&self) -> Vec<(OwnKind, u64)> {
        let kinds = OwnKind::ALL.into_iter().zip(self.kinds);
        let mut kinds: Vec<_> = kinds.filter(|(_, ns)| *ns > 0).collect();
        kinds.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        kinds
    }

    /// Returns a bar with at least one cell for each kind, in the order of the text.
    fn bar(&self, theme: Theme) -> String {
        let kinds = self.largest_first();
        let rest = (BAR - kinds.len()) as u128;
        let total = u128::from(self.total_ns()).max(1);
        let cells: Vec<usize> = kinds
            .iter()
            .map(|(_, ns)| 1 + (u128::from(*ns) * rest / total).min(rest) as usize)
            .collect();
        let mut left = BAR.saturating_sub(cells.iter().sum());
        let mut bar = String::new();
        for ((kind, _), cells) in kinds.iter().zip(cells) {
            // What rounding leaves belongs to the largest kind.
            let cells = cells + std::mem::take(&mut left);
            let char = match theme.color && !theme.ascii {
                true => '█',
                false => LETTERS[*kind as usize],
            };
            let text: String = std::iter::repeat_n(char, cells).collect();
            bar.push_str(&theme.colored(COLORS[*kind as usize], &text));
        }
        if kinds.is_empty() {
            bar.extend(std::iter::repeat_n(' ', BAR));
        }
        bar
    }

    /// Returns the parts of the text between which a line may end, each with the comma after it. An
    /// item longer than `room` characters has two parts.
    fn pieces(&self, theme: Theme, room: usize) -> Vec<(Option<OwnKind>, String, &'static str)> {
        let items = self.items(theme);
        let mut pieces = Vec::new();
        for (number, (kind, text)) in items.iter().enumerate() {
            let comma = if number + 1 < items.len() { "," } else { "" };
            let is_long = text.chars().count() + comma.len() > room;
            match text.split_once(" (").filter(|_| is_long) {
                Some((before, within)) => {
                    pieces.push((*kind, before.to_owned(), ""));
                    pieces.push((*kind, format!("({within}"), comma));
                }
                None => pieces.push((*kind, text.clone(), comma)),
            }
        }
        pieces
    }

    /// Returns the kinds as text, largest first, and the disks whose times are not beside the kind.
    fn items(&self, theme: Theme) -> Vec<(Option<OwnKind>, String)> {
        let time = |ns: u64| own_duration(ns, theme);
        let queued = |ns: u64| match ns {
            0 => String::new(),
            ns => format!(" (queued {})", time(ns)),
        };
        let waited = self.kinds[OwnKind::Disk as usize] > 0;
        let only = self.disks.iter().next().filter(|_| waited && self.disks.len() == 1);
        let mut items = Vec::new();
        for (kind, ns) in self.largest_first() {
            let text = match only {
                Some((device, (in_queue, _))) if kind == OwnKind::Disk => {
                    format!("disk {device} {}{}", time(ns), queued(*in_queue))
                }
                _ => format!("{} {}", kind.name(), time(ns)),
            };
            items.push((Some(kind), text));
        }
        if only.is_none() {
            for (device, (in_queue, served)) in &self.disks {
                let served = time(*served);
                items.push((None, format!("{device} served {served}{}", queued(*in_queue))));
            }
        }
        items
    }
}
