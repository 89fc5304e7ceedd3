//! Query `heatmap`: counts of matching spans by start and duration.

use super::{condition, number_between};
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use blkkin_store::Heat;
use serde::Serialize;

/// Default number of columns in an answer; the maximum is `COLUMNS_MAX`.
const COLUMNS: usize = 120;
const COLUMNS_MAX: usize = 1000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeatJson {
    start_ns: String,
    end_ns: String,
    column_ns: u64,
    columns: usize,
    spans: u64,
    rows: Vec<RowJson>,
    cells: Vec<(usize, usize, u64)>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RowJson {
    least_ns: u64,
    greatest_ns: u64,
}

impl Api {
    pub(super) fn heatmap(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let params = &question.params;
        let columns = number_between(params, "columns", COLUMNS, COLUMNS_MAX)?;
        let condition = condition(params)?;
        let mut heat = Heat::new(self.known_window(params)?, columns);
        self.store.heat(&condition, &mut heat)?;
        let rows = || heat.cells().map(|(_, row, _)| row);
        let (lowest, behind) = (rows().min().unwrap_or(0), rows().max().map_or(0, |row| row + 1));
        // Rows without bounds contain no duration, and are omitted.
        let mut told = Vec::new();
        let mut places = Vec::with_capacity(behind - lowest);
        for row in lowest..behind {
            places.push(told.len());
            let bounds = Heat::bounds(row);
            told.extend(bounds.map(|(least_ns, greatest_ns)| RowJson { least_ns, greatest_ns }));
        }
        let window = heat.window();
        let cells = heat.cells().map(|(column, row, count)| (column, places[row - lowest], count));
        self.json(&HeatJson {
            start_ns: window.start_ns.to_string(),
            end_ns: window.end_ns.to_string(),
            column_ns: heat.column_ns(),
            columns: heat.columns(),
            spans: heat.spans(),
            rows: told,
            cells: cells.collect(),
        })
    }
}
