//! Chart of the rate of events over time, drawn with block or ASCII characters.

use super::table::{Theme, Tone};
use super::timeline::{Slot, Timeline};
use super::units::{self, TimeUnit};
use std::ops::RangeInclusive;

const WIDTH: usize = 64;
const HEIGHT: usize = 8;
/// Width of the labels left of the vertical axis, in characters.
const MARGIN: usize = 10;
/// Maximum number of marks on the axis of time.
const TICKS_MAX: f64 = 6.0;

/// Draws the event rate over the time range `span`; labels are relative to `origin`.
pub(crate) fn draw(
    out: &mut String,
    timeline: &Timeline,
    span: &RangeInclusive<i64>,
    origin: i64,
    theme: Theme,
) {
    let slots = timeline.slots(span, WIDTH);
    let span_ns = span.end().abs_diff(*span.start()).saturating_add(1) as f64;
    let slot_seconds = span_ns / WIDTH as f64 / 1e9;
    let most = slots.iter().map(|slot| slot.events).fold(0.0, f64::max) / slot_seconds;
    let top = nice_above(most, &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]);
    rows(out, &slots, slot_seconds, top, theme);
    axis(out, &slots, span, origin, theme);
}

fn rows(out: &mut String, slots: &[Slot], slot_seconds: f64, top: f64, theme: Theme) {
    let eighths = |slot: &Slot| match slot.events / slot_seconds / top * (HEIGHT * 8) as f64 {
        0.0 => 0,
        height => (height.round() as usize).max(1),
    };
    let heights: Vec<usize> = slots.iter().map(eighths).collect();
    for row in (0..HEIGHT).rev() {
        let label = match row + 1 {
            HEIGHT => units::si(top),
            row if row == HEIGHT / 2 => units::si(top / 2.0),
            _ => String::new(),
        };
        let line = match (theme.ascii, label.is_empty()) {
            (true, _) => '|',
            (false, true) => '│',
            (false, false) => '┤',
        };
        let cell = |&height: &usize| theme.rising(height.saturating_sub(row * 8).min(8));
        let bars: String = heights.iter().map(cell).collect();
        out.push_str(&theme.paint(Tone::Faint, &format!("{label:>MARGIN$} {line}")));
        out.push_str(&theme.paint(Tone::Bar, bars.trim_end()));
        out.push('\n');
    }
}

/// Draws the time axis, a row of marks for losses, and the labels of the axis.
fn axis(out: &mut String, slots: &[Slot], span: &RangeInclusive<i64>, origin: i64, theme: Theme) {
    let (first, last) = (*span.start(), *span.end());
    let start = (i128::from(first) - i128::from(origin)) as f64;
    let span = last.abs_diff(first).saturating_add(1) as f64;
    let farthest = (start + span).abs().max(start.abs());
    let unit = TimeUnit::for_axis(farthest);
    let step = nice_above(span / TICKS_MAX / unit.ns, &[1.0, 2.0, 5.0]) * unit.ns;
    let (corner, flat, down) = if theme.ascii { ('+', '-', '+') } else { ('└', '─', '┬') };
    let mut line = vec![flat; WIDTH];
    let mut labels = vec![' '; WIDTH];
    let mut free = 0;
    let decimals = (-(step / unit.ns).log10().floor()).max(0.0) as usize;
    for tick in 0..=(span / step) as usize + 1 {
        // Adding 0 turns a negative zero into a positive one.
        let time = ((start / step).ceil() + tick as f64) * step + 0.0;
        let place = ((time - start) / span * WIDTH as f64) as usize;
        let label = format!("{:.*} {}", decimals, time / unit.ns, unit.name);
        let label = if theme.ascii { label } else { label.replace("us", "µs") };
        if place >= WIDTH {
            break;
        }
        line[place] = down;
        if place >= free {
            labels.resize(labels.len().max(place + label.chars().count()), ' ');
            labels.splice(place..place + label.chars().count(), label.chars());
            free = place + label.chars().count() + 2;
        }
    }
    let line: String = line.into_iter().collect();
    let labels: String = labels.into_iter().collect();
    out.push_str(&theme.paint(Tone::Faint, &format!("{:>MARGIN$} {corner}{line}", 0)));
    out.push('\n');
    if slots.iter().any(|slot| slot.lost) {
        let mark = if theme.ascii { 'x' } else { '×' };
        let marks: String = slots.iter().map(|slot| if slot.lost { mark } else { ' ' }).collect();
        let marks = format!("{:>MARGIN$}  {}", "lost", marks.trim_end());
        out.push_str(&theme.paint(Tone::Alarm, &marks));
        out.push('\n');
    }
    let labels = format!("{:MARGIN$}  {}", "", labels.trim_end());
    out.push_str(&theme.paint(Tone::Faint, &labels));
    out.push('\n');
}

/// Returns the smallest number that is at least `value` and one of `steps` times a power of ten; 1
/// if `value` is not positive or not finite.
fn nice_above(value: f64, steps: &[f64]) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let found = steps.iter().map(|step| step * power).find(|nice| *nice >= value);
    found.unwrap_or(10.0 * power)
}
