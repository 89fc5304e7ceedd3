//! Sums that are drawn at intervals: on the terminal with keys, or else as tables or JSON, one
//! after the other.

use crate::output;
use crate::terminal::{Key, Screen};
use blkkin_io::{DiskRequest, Operation, Summary};
use blkkin_text::operations::{self, LiveOptions, LiveSums, Order, SummaryOptions};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of the slowest operations of an interval.
const SLOWEST_MAX: usize = 10;
/// Maximum number of rows of a table that is not drawn on a screen.
const ROWS_MAX: usize = 1000;
/// Maximum number of lines of a drawing that is not on a screen.
const LINES_MAX: usize = 40;
/// Last line of a drawing on a screen.
const KEYS: &str = "q quit  s sort  p pause  up, down: other rows";

/// Time whose operations are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// The last interval.
    Interval,
    /// All intervals so far.
    Whole,
}

/// Options of a live view.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveViewOptions {
    pub(super) window: Window,
    pub(super) interval: Duration,
    /// Number of intervals after which the view is over.
    pub(super) count: Option<u64>,
    pub(super) is_json: bool,
    pub(super) has_color: bool,
    /// Set if the keys of the terminal are for this program and not for a command that it runs.
    pub(super) has_keys: bool,
}

/// Sums of operations that are drawn at intervals.
pub(super) struct LiveView {
    options: LiveViewOptions,
    is_ascii: bool,
    screen: Option<Screen>,
    /// Sums of all intervals, if they are drawn.
    whole: Option<Summary>,
    /// Sums of the interval that has not ended.
    current: Summary,
    /// Sums of the last interval that has ended, and its duration.
    last: (Summary, Duration),
    begun: Instant,
    /// Start of the interval that has not ended.
    since: Instant,
    intervals: u64,
    order: Order,
    first: usize,
    is_paused: bool,
    is_over: bool,
    lost: u64,
}

impl LiveView {
    /// Begins the first interval.
    pub(super) fn new(options: LiveViewOptions) -> io::Result<LiveView> {
        let is_screen = io::stdout().is_terminal() && !options.is_json;
        let now = Instant::now();
        Ok(LiveView {
            options,
            is_ascii: !output::locale_is_utf8(),
            screen: if is_screen { Some(Screen::open(options.has_keys)?) } else { None },
            whole: (options.window == Window::Whole).then(|| Summary::new(SLOWEST_MAX)),
            current: Summary::new(SLOWEST_MAX),
            last: (Summary::new(0), Duration::ZERO),
            begun: now,
            since: now,
            intervals: 0,
            order: Order::default(),
            first: 0,
            is_paused: false,
            is_over: false,
            lost: 0,
        })
    }

    pub(super) fn add(&mut self, operation: &Operation) {
        if let Some(whole) = &mut self.whole {
            whole.add(operation);
        }
        self.current.add(operation);
    }

    /// Adds a request to a disk that belongs to no operation.
    pub(super) fn add_disk_request(&mut self, request: &DiskRequest) {
        if let Some(whole) = &mut self.whole {
            whole.add_disk_request(request);
        }
        self.current.add_disk_request(request);
    }

    /// Counts lost events.
    pub(super) fn lost(&mut self, count: u64) {
        self.lost += count;
    }

    /// Returns true once the user has ended the view, or all intervals have.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Obeys the keys, and draws if the interval has ended. Appends to `text` what is not drawn on
    /// the screen.
    pub(super) fn update(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let keys = self.screen.as_ref().map_or(Vec::new(), Screen::keys);
        let has_changed = keys.into_iter().fold(false, |changed, key| self.obey(key) | changed);
        let has_ended = self.since.elapsed() >= self.options.interval && !self.is_over;
        if has_ended {
            self.end_interval(text);
        }
        if has_changed || has_ended && !self.is_paused {
            self.draw()?;
        }
        Ok(())
    }

    /// Carries out a key's command. Returns true if the drawing changes.
    fn obey(&mut self, key: Key) -> bool {
        match key {
            Key::Letter(b'q' | b'Q') => self.is_over = true,
            Key::Letter(b's' | b'S') => self.order = self.order.next(),
            Key::Letter(b'p' | b'P' | b' ') => self.is_paused = !self.is_paused,
            Key::Up => self.first = self.first.saturating_sub(1),
            Key::Down => self.first = (self.first + 1).min(self.rows().0.row_count()),
            Key::Letter(_) => return false,
        }
        true
    }

    fn end_interval(&mut self, text: &mut Vec<u8>) {
        let took = self.since.elapsed();
        self.since = Instant::now();
        self.intervals += 1;
        self.is_over |= self.options.count.is_some_and(|count| self.intervals >= count);
        let ended = self.current.take();
        if !self.is_paused {
            self.last = (ended, took);
        }
        if self.screen.is_none() {
            self.print(text);
        }
    }

    /// Returns the sums of the rows, and their time.
    fn rows(&self) -> (&Summary, Duration) {
        match &self.whole {
            Some(whole) => (whole, self.begun.elapsed()),
            None => (&self.last.0, self.last.1),
        }
    }

    /// Appends the sums of the last interval as JSON or as a table.
    fn print(&self, text: &mut Vec<u8>) {
        let (rows, took) = self.rows();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        if self.options.is_json {
            operations::interval_json(text, rows, now_ns, nanoseconds(took));
            operations::summary_json(text, rows);
        } else {
            text.extend_from_slice(self.lines(output::width(), LINES_MAX, "").as_bytes());
            text.push(b'\n');
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        if self.screen.is_none() {
            return Ok(());
        }
        let (width, height) = Screen::size();
        let has_keys = self.screen.as_ref().is_some_and(Screen::has_keys);
        // Without keys the cursor is in the last line.
        let height = if has_keys { height } else { height.saturating_sub(1) };
        let lines = self.lines(width, height, if has_keys { KEYS } else { "" });
        match &mut self.screen {
            Some(screen) => screen.draw(&lines),
            None => Ok(()),
        }
    }

    fn lines(&self, width: usize, height: usize, keys: &'static str) -> String {
        let (rows, took) = self.rows();
        let (slowest, lost) = (&self.last.0, self.lost);
        let sums = LiveSums { rows, duration_ns: nanoseconds(took), slowest, lost };
        let options = LiveOptions {
            color: self.options.has_color,
            ascii: self.is_ascii,
            width,
            height,
            order: self.order,
            first: self.first,
            keys,
            is_paused: self.is_paused,
        };
        operations::live(&sums, &options)
    }

    /// Ends the drawings. Appends the sums of all intervals to `text`, or those of the interval
    /// that has not ended.
    pub(super) fn finish(&mut self, text: &mut Vec<u8>) {
        let had_screen = self.screen.take();
        if let Some(whole) = &self.whole {
            // A drawing without keys is replaced by the table.
            if had_screen.is_some_and(|screen| !screen.has_keys()) && self.intervals > 0 {
                text.extend_from_slice(b"\x1b[H\x1b[J");
            }
            let (color, ascii) = (self.options.has_color, self.is_ascii);
            let options = SummaryOptions { color, ascii, rows_max: ROWS_MAX };
            text.extend_from_slice(operations::summary(whole, &options).as_bytes());
        } else if had_screen.is_none() && !self.is_over && !self.current.is_empty() {
            self.end_interval(text);
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
