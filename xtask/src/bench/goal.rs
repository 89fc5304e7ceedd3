//! Goals of the project: wanted figures, limits, and the figures of rival programs. Start at
//! [`Goal`].

use crate::measure::Table;
use serde_json::{Value, json};

/// A figure that the project wants to reach, with the measured figure.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) unit: &'static str,
    /// Set if larger figures are better, otherwise smaller ones.
    pub(super) is_more_better: bool,
    pub(super) wanted: f64,
    /// Limit beyond which the goal counts as not met; `wanted` is the limit if this is `None`.
    pub(super) limit: Option<f64>,
    /// The measured figure; `None` if it could not be measured.
    pub(super) measured: Option<f64>,
    pub(super) rival: Option<Rival>,
}

/// Another program for the same task, with its figure.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    pub(super) name: &'static str,
    /// Figure that was measured for the rival in the same run; `None` if it could not be measured.
    pub(super) measured: Option<f64>,
    /// Minimum factor by which our figure must be better than the rival's. If the factor is lower
    /// or unknown, the goal is not met.
    pub(super) times_min: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Met,
    /// The figure misses the wanted one, and is within the limit.
    Close,
    NotMet,
    NotMeasured,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Close => "done, goal not met",
            Verdict::NotMet => "NOT MET",
            Verdict::NotMeasured => "not measured",
        }
    }
}

impl Goal {
    /// Returns a goal for a figure of at most `wanted`.
    pub(super) fn at_most(wanted: f64, unit: &'static str, what: impl Into<String>) -> Goal {
        let what = what.into();
        let (limit, measured, rival) = (None, None, None);
        Goal { what, unit, is_more_better: false, wanted, limit, measured, rival }
    }

    /// Returns a goal for a figure of at least `wanted`.
    pub(super) fn at_least(wanted: f64, unit: &'static str, what: impl Into<String>) -> Goal {
        Goal { is_more_better: true, ..Goal::at_most(wanted, unit, what) }
    }

    /// Returns a goal for a cost in nanoseconds: the rival's cost must be at least `wanted` times
    /// as high.
    pub(super) fn times(wanted: f64, what: impl Into<String>, rival: Rival) -> Goal {
        let rival = Some(Rival { times_min: Some(wanted), ..rival });
        Goal { rival, ..Goal::at_most(f64::INFINITY, " ns", what) }
    }

    /// Sets the limit up to which the figure may miss the wanted one.
    pub(super) fn limit(self, limit: f64) -> Goal {
        Goal { limit: Some(limit), ..self }
    }

    pub(super) fn measured(self, measured: Option<f64>) -> Goal {
        Goal { measured, ..self }
    }

    pub(super) fn rival(self, rival: Rival) -> Goal {
        Goal { rival: Some(rival), ..self }
    }

    /// Returns whether the goal is met, or its figure is at least within the limit.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.verdict(), Verdict::Met | Verdict::Close)
    }

    fn verdict(&self) -> Verdict {
        let Some(measured) = self.measured else { return Verdict::NotMeasured };
        let reaches = |figure: f64| match self.is_more_better {
            true => measured >= figure,
            false => measured <= figure,
        };
        let times_min = self.rival.as_ref().and_then(|rival| rival.times_min);
        let is_cheap =
            times_min.is_none_or(|min| self.times_of_rival().is_some_and(|times| times >= min));
        match (reaches(self.wanted), reaches(self.limit.unwrap_or(self.wanted))) {
            (true, _) if is_cheap => Verdict::Met,
            (_, true) if is_cheap => Verdict::Close,
            _ => Verdict::NotMet,
        }
    }

    /// Returns how many times better our figure is than the rival's; `None` if either is missing,
    /// or the divisor is not positive.
    fn times_of_rival(&self) -> Option<f64> {
        let (own, other) = (self.measured?, self.rival.as_ref()?.measured?);
        let (more, less) = if self.is_more_better { (own, other) } else { (other, own) };
        (less > 0.0).then(|| more / less)
    }

    fn not_done(&self) -> String {
        let beyond = if self.is_more_better { "below" } else { "above" };
        let limit = self.limit.map(|limit| format!("{beyond} {}", show(limit)));
        let rival = self.rival.as_ref().and_then(|rival| rival.times_min);
        let times = rival.map(|times| format!("under {times} ×"));
        limit.into_iter().chain(times).collect::<Vec<_>>().join(", ")
    }

    fn wanted(&self) -> String {
        let sign = if self.is_more_better { "≥" } else { "≤" };
        match self.wanted.is_finite() {
            true => format!("{sign} {}{}", show(self.wanted), self.unit),
            false => String::new(),
        }
    }
}

/// Formats goals as a table. Columns without content are left out.
pub(super) fn render(goals: &[Goal]) -> String {
    let header = ["goal", "wanted", "not done", "measured", "other", "needs", "times", ""];
    let rows: Vec<_> = goals.iter().map(cells).collect();
    let is_used = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..header.len()).filter(is_used).collect();
    let mut table = Table::new(&columns.iter().map(|&column| header[column]).collect::<Vec<_>>());
    for row in &rows {
        table.row(columns.iter().map(|&column| row[column].clone()).collect());
    }
    table.render()
}

fn cells(goal: &Goal) -> [String; 8] {
    let or_nothing = |text: Option<String>| text.unwrap_or_default();
    let unit = goal.unit;
    let rival = goal.rival.as_ref();
    let needs = rival.and_then(|rival| rival.measured);
    [
        goal.what.clone(),
        goal.wanted(),
        goal.not_done(),
        or_nothing(goal.measured.map(|measured| show(measured) + unit)),
        or_nothing(rival.map(|rival| rival.name.to_owned())),
        or_nothing(needs.map(|needs| show(needs) + unit)),
        or_nothing(goal.times_of_rival().map(|times| format!("{times:.1} ×"))),
        goal.verdict().name().to_owned(),
    ]
}

/// Converts a goal to JSON for the line that a bench prints with `--json`.
pub(super) fn to_json(goal: &Goal) -> Value {
    let rival = goal.rival.as_ref();
    json!({
        "goal": goal.what,
        "unit": goal.unit.trim(),
        "wanted": goal.wanted(),
        "not_done": goal.not_done(),
        "measured": goal.measured,
        "other": rival.map(|rival| rival.name),
        "other_measured": rival.and_then(|rival| rival.measured),
        "times": goal.times_of_rival(),
        "verdict": goal.verdict().name(),
    })
}

fn show(figure: f64) -> String {
    match figure.abs() {
        _ if figure.fract() == 0.0 => format!("{figure:.0}"),
        size if size < 10.0 => format!("{figure:.2}"),
        size if size < 1000.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rival(measured: f64, times_min: Option<f64>) -> Rival {
        Rival { name: "rival", measured: Some(measured), times_min }
    }

    #[test]
    fn goals_are_judged() {
        let check = |goal: &Goal, measured: Option<f64>, expected| {
            let goal = goal.clone().measured(measured);
            assert_eq!(goal.verdict(), expected, "{goal:?}");
            assert_eq!(goal.is_done(), matches!(expected, Verdict::Met | Verdict::Close));
        };
        let plain = Goal::at_most(14.0, " ns", "an event");
        check(&plain, Some(14.0), Verdict::Met);
        check(&plain, Some(14.1), Verdict::NotMet);
        check(&plain, Some(f64::NAN), Verdict::NotMet);
        check(&plain, None, Verdict::NotMeasured);
        let limited = plain.limit(16.0);
        check(&limited, Some(13.0), Verdict::Met);
        check(&limited, Some(16.0), Verdict::Close);
        check(&limited, Some(16.1), Verdict::NotMet);
        let compared = limited.rival(rival(120.0, Some(8.0)));
        check(&compared, Some(14.0), Verdict::Met);
        check(&compared, Some(15.0), Verdict::Close);
        check(&compared, Some(15.5), Verdict::NotMet);
        let much = Goal::at_least(5e6, "/s", "sustained").limit(4e6);
        check(&much, Some(5e6), Verdict::Met);
        check(&much, Some(4.5e6), Verdict::Close);
        check(&much, Some(3e6), Verdict::NotMet);
        let times = Goal::times(4.0, "a span", rival(400.0, None));
        check(&times, Some(100.0), Verdict::Met);
        check(&times, Some(101.0), Verdict::NotMet);
        check(&times, Some(0.0), Verdict::NotMet);
        let faster = Goal::at_least(10.0, "/s", "spans").rival(rival(5.0, Some(4.0)));
        check(&faster, Some(20.0), Verdict::Met);
        check(&faster, Some(19.0), Verdict::NotMet);
    }

    #[test]
    fn goals_are_shown() {
        let goal = Goal::at_most(14.0, " ns", "one integer").limit(16.0).measured(Some(15.25));
        let goals = [goal.rival(rival(130.5, Some(8.0))), Goal::at_least(1.0, "", "none")];
        let lines: Vec<String> = render(&goals)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "goal wanted not done measured other needs times",
            "one integer ≤ 14 ns above 16, under 8 × 15.2 ns rival 130.5 ns 8.6 × done, goal not met",
            "none ≥ 1 not measured",
        ];
        assert_eq!(lines, expected);
        let speed = Goal::at_least(30.0, "x", "speed").measured(Some(29.5));
        assert_eq!(render(&[speed]), "goal   wanted  measured\nspeed   ≥ 30x     29.5x  NOT MET\n");
        assert_eq!(to_json(&goals[0])["verdict"], "done, goal not met");
    }
}
