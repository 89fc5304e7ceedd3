//! Charts of the results as SVG: each round as a point, rates and sizes as bars. The charts adapt
//! to light and dark pages, and distinguish modes by shapes and by colours that most people can
//! distinguish. They also describe their content in words.

use super::figures::{Quartiles, grouped};
use super::server_comparison::Beside;
use super::tracing_switch::{Cell, MODES, Mode};
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 40.0;

const STYLE: &str = "\
.page{fill:#ffffff}.text{fill:#1f2328;font:13px system-ui,sans-serif}.strong{font-weight:600}\
.faint{fill:#59636e;font-size:12px}.axis{stroke:#59636e}.grid{stroke:#d8dee4}.mark{stroke:#8250df;stroke-dasharray:4 3}\
.marked{fill:#8250df;font-size:12px}.middle{stroke:#1f2328;stroke-width:2.5}\
.c0{fill:#6e7781}.c1{fill:#0072b2}.c2{fill:#007a59}.c3{fill:#c04f00}.c4{fill:#a0338f}.range{opacity:.3}\
@media (prefers-color-scheme:dark){.page{fill:#0d1117}.text{fill:#e6edf3}.faint{fill:#9198a1}.axis{stroke:#9198a1}\
.grid{stroke:#2d333b}.mark{stroke:#bc8cff}.marked{fill:#bc8cff}.middle{stroke:#e6edf3}\
.c0{fill:#9aa4af}.c1{fill:#56b4e9}.c2{fill:#2fc89a}.c3{fill:#ff9a4d}.c4{fill:#e58fd0}}";

struct Picture {
    body: String,
    height: f64,
}

/// Horizontal scale of a chart, from the figure at its left end to the figure at its right end.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn at(self, figure: f64) -> f64 {
        let part = (figure.clamp(self.from, self.to) - self.from) / (self.to - self.from);
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    /// Returns the figures of the ticks: at most nine round figures in equal steps.
    fn ticks(self) -> Vec<f64> {
        let rough = (self.to - self.from) / 8.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

impl Picture {
    fn new() -> Picture {
        Picture { body: String::new(), height: 0.0 }
    }

    fn text(&mut self, class: &str, anchor: &str, at: (f64, f64), text: &str) {
        let (x, y) = at;
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            r#"<text class="text {class}" text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        );
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        let ((x, y), (width, height)) = (at, size);
        let _ = writeln!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
        );
    }

    /// Draws a point at (`x`, `y`) in the shape and colour of a mode.
    fn point(&mut self, mode: usize, x: f64, y: f64) {
        let shape = match mode {
            0 => format!(r#"<circle class="c0" cx="{x:.1}" cy="{y:.1}" r="2.7"/>"#),
            1 => format!(r#"<path class="c1" d="M{x:.1} {:.1}l3.2 5.8h-6.4z"/>"#, y - 3.4),
            2 => format!(
                r#"<rect class="c2" x="{:.1}" y="{:.1}" width="5" height="5"/>"#,
                x - 2.5,
                y - 2.5
            ),
            3 => format!(
                r#"<path class="c3" d="M{x:.1} {:.1}l3.6 3.6l-3.6 3.6l-3.6 -3.6z"/>"#,
                y - 3.6
            ),
            _ => format!(r#"<path class="c4" d="M{x:.1} {:.1}l3.2 -5.8h-6.4z"/>"#, y + 3.4),
        };
        let _ = writeln!(self.body, "{shape}");
    }

    /// Draws the horizontal axis below the chart: ticks, and grid lines up to the height `top`.
    fn axis(&mut self, axis: Axis, top: f64, title: &str, show: impl Fn(f64) -> String) {
        let bottom = self.height;
        let mut grid = Picture::new();
        for tick in axis.ticks() {
            let x = axis.at(tick);
            let class = if tick == 0.0 { "axis" } else { "grid" };
            grid.line(class, (x, top), (x, bottom));
            grid.text("faint", "middle", (x, bottom + 16.0), &show(tick));
        }
        // The grid is put before the other elements, so that it is drawn in the background.
        self.body = grid.body + &self.body;
        self.line("axis", (LEFT, bottom), (WIDTH - RIGHT, bottom));
        self.text("", "middle", ((LEFT + WIDTH - RIGHT) / 2.0, bottom + 36.0), title);
        self.height = bottom + 48.0;
    }

    fn finish(self, title: &str, words: &str) -> String {
        let (height, title, words) = (self.height, escaped(title), escaped(words));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
             height=\"{height:.0}\" role=\"img\" aria-labelledby=\"title words\">\n\
             <title id=\"title\">{title}</title>\n<desc id=\"words\">{words}</desc>\n<style>{STYLE}</style>\n\
             <rect class=\"page\" width=\"{WIDTH}\" height=\"{height:.0}\"/>\n{}</svg>\n",
            self.body
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns a chart of the slowdown in each round, by server, load and mode.
pub(super) fn cost(cells: &[Cell], wanted: f64, limit: f64) -> String {
    const ROW: f64 = 13.0;
    let mut picture = Picture::new();
    let all: Vec<f64> =
        cells.iter().flat_map(|cell| &cell.measured).flat_map(|it| it.cost.clone()).collect();
    let axis = range(&all, wanted, limit);
    let mut x = LEFT;
    let modes = cells.iter().flat_map(|cell| &cell.measured).map(|measured| measured.mode);
    let modes: Vec<Mode> =
        MODES.into_iter().filter(|mode| modes.clone().any(|it| it == *mode)).collect();
    for (at, mode) in modes.iter().enumerate() {
        picture.point(at, x, 18.0);
        picture.text("", "start", (x + 9.0, 22.0), mode.name());
        x += 40.0 + 7.2 * mode.name().len() as f64;
    }
    let top = 44.0;
    let mut y = top;
    let mut target = None;
    for cell in cells {
        if target != Some(cell.target) {
            target = Some(cell.target);
            y += 14.0;
            picture.text("strong", "start", (14.0, y), cell.target.name());
        }
        y += 8.0;
        let middle = y + ROW * modes.len() as f64 / 2.0 + 4.0;
        picture.text("", "end", (LEFT - 14.0, middle), cell.load.name);
        for (at, measured) in cell.measured.iter().enumerate() {
            let row = y + ROW * (at as f64 + 0.5);
            let Quartiles { low, median, high, .. } = measured.cost();
            let (left, right) = (axis.at(low), axis.at(high));
            let size = ((right - left).max(1.0), 9.0);
            picture.rect(&format!("range c{at}"), (left, row - 4.5), size);
            for cost in &measured.cost {
                picture.point(at, axis.at(*cost), row);
            }
            let x = axis.at(median);
            picture.line("middle", (x, row - 5.5), (x, row + 5.5));
        }
        y += ROW * modes.len() as f64 + 4.0;
    }
    for (figure, name, anchor, aside) in
        [(wanted, "goal", "end", -3.0), (limit, "limit", "start", 3.0)]
    {
        let x = axis.at(figure);
        picture.line("mark", (x, top), (x, y));
        picture.text("marked", anchor, (x + aside, top + 4.0), name);
    }
    picture.height = y;
    let title = "requests a second less than with tracing off, %";
    picture.axis(axis, top, title, |tick| format!("{tick}"));
    picture.finish(
        "What following requests costs",
        "A point for each round: by how many per cent the NBD server alone, and the chain, answered fewer requests a \
         second than in the slices of time before and after, in which tracing was off. A bar is the middle half of the \
         rounds, a line their median. What lies outside is drawn at the edge.",
    )
}

/// Returns a scale that contains the goal, the limit, and all figures except the lowest and the
/// highest 2.5 %.
fn range(figures: &[f64], wanted: f64, limit: f64) -> Axis {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let outside = sorted.len() / 40;
    let from = sorted.get(outside).copied().unwrap_or(0.0).min(-wanted);
    let to = sorted.iter().rev().nth(outside).copied().unwrap_or(0.0).max(limit + wanted);
    Axis { from: from.floor(), to: to.ceil() }
}

/// Returns a chart of all servers' rates, and of the NBD server's rates with all requests sampled.
pub(super) fn rates(beside: &[Beside], cells: &[Cell]) -> String {
    let mut picture = Picture::new();
    let mut bars: Vec<(&str, Vec<Bar<'_>>)> = Vec::new();
    for one in beside {
        let of_servers = one.measured.iter().map(|measured| {
            let class = if measured.who.is_ours() { "c2" } else { "c0" };
            (measured.who.name(), class, measured.rate())
        });
        let cell = cells.iter().find(|cell| cell.load == one.load);
        let followed = [Mode::Flight, Mode::Written].into_iter().filter_map(|mode| {
            let rate = cell?.of(mode)?.rate;
            let name = if mode == Mode::Flight {
                "all followed, in memory"
            } else {
                "all followed, to files"
            };
            Some((name, "c3", rate))
        });
        bars.push((one.load.name, of_servers.chain(followed).collect()));
    }
    let most = bars.iter().flat_map(|(_, bars)| bars).map(|(_, _, rate)| rate.high);
    let axis = Axis { from: 0.0, to: most.fold(1.0, f64::max) * 1.12 };
    let mut y = 10.0;
    for (load, bars) in bars {
        y += 18.0;
        picture.text("strong", "start", (14.0, y), load);
        y += 8.0;
        for bar in bars {
            y = draw_bar(&mut picture, axis, y, &bar, grouped(bar.2.median));
        }
    }
    picture.height = y + 6.0;
    picture.axis(axis, 12.0, "requests of 4 KiB a second", grouped);
    picture.finish(
        "Requests a second of servers with a volume in memory",
        "Bars for blockstack's NBD server with and without instrumentation, and when requests are followed; and for \
         nbdkit with its plugin for memory, with and without its log of requests. A line at the end of a bar is the \
         middle half of the rounds.",
    )
}

/// Label of a bar, CSS class of its colour, and quartiles of its figure.
type Bar<'a> = (&'a str, &'a str, Quartiles);

/// Draws a bar at the position `y`, with its label on the left and the text `said` on the right.
/// Returns the position of the next bar.
fn draw_bar(picture: &mut Picture, axis: Axis, y: f64, bar: &Bar<'_>, said: String) -> f64 {
    let (name, class, Quartiles { low, median, high, .. }) = bar;
    picture.text("", "end", (LEFT - 14.0, y + 14.0), name);
    picture.rect(class, (LEFT, y + 2.0), (axis.at(*median) - LEFT, 15.0));
    let middle = y + 9.5;
    picture.line("middle", (axis.at(*low), middle), (axis.at(*high), middle));
    let end = axis.at(median.max(*high));
    picture.text("faint", "start", (end + 6.0, y + 14.0), &said);
    y + 21.0
}

/// Returns a chart of the average size of a span in bytes, by storage, with the limit.
pub(super) fn bytes(all: &[(String, f64)], limit: f64) -> String {
    let mut picture = Picture::new();
    let most = all.iter().map(|(_, bytes)| *bytes).fold(limit, f64::max);
    let axis = Axis { from: 0.0, to: most * 1.12 };
    let (top, mut y) = (16.0, 22.0);
    for (name, bytes) in all {
        let class = if name.starts_with("BlkKin") { "c2" } else { "c0" };
        let (low, median, high) = (*bytes, *bytes, *bytes);
        let figures = Quartiles { low, median, high, confidence_interval: None };
        y = draw_bar(&mut picture, axis, y, &(name, class, figures), format!("{bytes:.1}"));
    }
    let x = axis.at(limit);
    picture.line("mark", (x, top), (x, y));
    picture.text("marked", "start", (x + 3.0, top + 2.0), "at most");
    picture.height = y + 6.0;
    picture.axis(axis, top, "bytes a span", |tick| format!("{tick}"));
    picture.finish(
        "What a span of the chain takes on disk",
        "Bars for the trace as it was recorded, for BlkKin's files without and with their index, and for the same rows \
         as DuckDB and pyarrow keep them.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::blockstack::fio::LOADS;
    use crate::bench::blockstack::tracing_switch::{Measured, Target};

    fn cell() -> Cell {
        let quartiles = Quartiles { low: 1.0, median: 2.0, high: 3.0, confidence_interval: None };
        let measured = |mode| Measured {
            mode,
            rate: quartiles,
            cost: vec![-0.5, 0.5, 90.0],
            cpu_us: vec![0.1],
            agent_share: 0.0,
            recorded: None,
        };
        Cell {
            target: Target::Alone,
            load: LOADS[0],
            off: quartiles,
            off_cpu_us: 1.0,
            measured: MODES.into_iter().map(measured).collect(),
        }
    }

    /// Every round has a point, and no point is beyond the ends of the axis. The test reads the
    /// points of the first mode.
    #[test]
    fn pictures_hold_all_points() {
        let svg = cost(&[cell()], 1.0, 3.0);
        let circles: Vec<f64> = svg
            .lines()
            .filter_map(|line| line.strip_prefix(r#"<circle class="c0" cx=""#))
            .map(|rest| rest.split('"').next().and_then(|x| x.parse().ok()).expect("a number"))
            .collect();
        // The legend has the first circle.
        assert_eq!(circles.len(), 1 + 3);
        assert!(circles.iter().all(|x| (LEFT..=WIDTH - RIGHT).contains(x)), "{circles:?}");
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        assert!(svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Axis { from: -2.0, to: 6.0 }.ticks(), [-2., -1., 0., 1., 2., 3., 4., 5., 6.]);
        assert_eq!(Axis { from: 0.0, to: 100.0 }.ticks(), [0., 20., 40., 60., 80., 100.]);
    }

    #[test]
    fn text_is_text() {
        assert_eq!(escaped("a < b & c > d"), "a &lt; b &amp; c &gt; d");
        assert!(bytes(&[("<who>".to_owned(), 40.0)], 35.0).contains("&lt;who&gt;"));
    }
}
