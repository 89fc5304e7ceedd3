//! Whether a condition holds for rows of a file, one after the other: what it says of services and names is asked once for
//! each of them on a page, not for each row. Start at [`RowEvaluator::of`].

use crate::files::index::NO_DURATION;
use crate::files::loaded_file::LoadedFile;
use crate::query::projection::{Fault, Projection};
use crate::query::residual::{GroupTexts, Residual, Truth};
use crate::query::search::groups;
use blkkin_columns::{Column, PageColumns};
use blkkin_store::{Condition, Durations};
use std::collections::HashMap;

/// The columns of what spans have in common.
const COMMON: [Column; 3] = [Column::Service, Column::Name, Column::RemoteService];

/// Stands for a text that is not there, or not asked for.
const NO_TEXT: u32 = u32::MAX;

/// Says whether a condition holds.
pub(crate) struct RowEvaluator<'c> {
    condition: &'c Condition,
    /// None if it holds for all rows.
    projection: Option<Projection<'c>>,
    /// The first row of the page, and what is left of the condition for the texts of rows, by their numbers.
    page: Option<u64>,
    residuals: HashMap<[u32; 3], Residual>,
}

impl<'c> RowEvaluator<'c> {
    /// For the rows of a file; none if it holds for none of them.
    pub(crate) fn of(loaded: &LoadedFile, condition: &'c Condition) -> Option<RowEvaluator<'c>> {
        let (mut count, mut holds_always) = (0, true);
        for (_, residual, _) in groups(loaded, condition) {
            count += 1;
            holds_always &= residual == Residual::Known(true);
        }
        let holds_always = holds_always && count == loaded.index.directory.groups.len();
        let projection = (!holds_always).then(|| Projection::of(condition));
        let evaluator =
            RowEvaluator { condition, projection, page: None, residuals: HashMap::new() };
        (count > 0).then_some(evaluator)
    }

    /// Those that must be read, beside durations.
    pub(crate) fn columns(&self) -> &[Column] {
        self.projection.as_ref().map_or(&[], Projection::columns)
    }

    /// Whether the condition holds for a row.
    #[inline]
    pub(crate) fn holds(&mut self, page: &PageColumns, row: usize) -> Result<bool, Fault> {
        let Some(projection) = &self.projection else { return Ok(true) };
        if self.page != Some(page.first_row()) {
            self.page = Some(page.first_row());
            self.residuals.clear();
        }
        let reads = |column: Column| projection.columns().contains(&column);
        let mut key = [NO_TEXT; 3];
        for (code, column) in key.iter_mut().zip(COMMON) {
            if let Some(value) = page_value(page, column, row, reads(column)) {
                // Texts that have no numbers are asked one by one.
                let Some(number) = page.code(column, value) else {
                    return projection.holds(page, row);
                };
                *code = number;
            }
        }
        let residual = self.residuals.entry(key).or_insert_with(|| {
            let text = |column| reads(column).then(|| page.text(column, row));
            let [service, name, remote] = COMMON.map(text);
            Residual::of(self.condition, GroupTexts { service, name, remote })
        });
        let truth = match residual {
            Residual::Known(holds) => return Ok(*holds),
            residual => {
                let code = page.number(Column::Duration, row).map_or(NO_DURATION, Durations::code);
                let is_error = reads(Column::Error) && page.number(Column::Error, row) == Some(1);
                residual.truth(code, is_error)
            }
        };
        match truth {
            Truth::No => Ok(false),
            Truth::Yes => Ok(true),
            Truth::Maybe => projection.holds(page, row),
        }
    }
}

/// The value of a row of a column, if the column is read and there is one.
fn page_value(page: &PageColumns, column: Column, row: usize, reads: bool) -> Option<usize> {
    if reads { page.values(column, row).next() } else { None }
}
