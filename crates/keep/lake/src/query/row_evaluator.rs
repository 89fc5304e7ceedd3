//! [`RowEvaluator`]: evaluates a condition row by row. Tests on services and names are evaluated
//! once for each combination of dictionary codes on a page. The whole condition is evaluated for
//! rows that these tests, the duration and the error flag leave undecided, and for rows whose
//! service or name has no code.

use crate::files::index::NO_DURATION;
use crate::files::loaded_file::LoadedFile;
use crate::query::matching::groups;
use crate::query::projection::{Fault, Projection};
use crate::query::residual::{GroupTexts, Residual, Truth};
use blkkin_columns::{Column, PageColumns};
use blkkin_store::{Condition, Durations};
use std::collections::HashMap;

/// Columns of the texts that define a group of spans.
const COMMON: [Column; 3] = [Column::Service, Column::Name, Column::RemoteService];

/// Code of a text that is missing or that the condition does not test. It replaces the dictionary
/// code.
const NO_TEXT: u32 = u32::MAX;

/// Evaluator of a condition on the rows of a file.
pub(crate) struct RowEvaluator<'c> {
    condition: &'c Condition,
    /// Projection of the condition; `None` if the groups of the index show that the condition holds
    /// for all rows.
    projection: Option<Projection<'c>>,
    /// First row of the page to which the entries of `residuals` belong; `None` before the first
    /// page. The key of an entry is the dictionary codes of service, name and remote service.
    page: Option<u64>,
    residuals: HashMap<[u32; 3], Residual>,
}

impl<'c> RowEvaluator<'c> {
    /// Prepares the evaluation for a file. Returns `None` if no group of the file may meet the
    /// condition.
    pub(crate) fn of(loaded: &LoadedFile, condition: &'c Condition) -> Option<RowEvaluator<'c>> {
        let (mut count, mut holds_always) = (0, true);
        for (_, residual, _) in groups(loaded, condition) {
            count += 1;
            holds_always &= residual == Residual::Decided(true);
        }
        let holds_always = holds_always && count == loaded.index.directory.groups.len();
        let projection = (!holds_always).then(|| Projection::of(condition));
        let evaluator =
            RowEvaluator { condition, projection, page: None, residuals: HashMap::new() };
        (count > 0).then_some(evaluator)
    }

    /// Returns the columns that [`RowEvaluator::holds`] needs in addition to the duration.
    pub(crate) fn columns(&self) -> &[Column] {
        self.projection.as_ref().map_or(&[], Projection::columns)
    }

    /// Returns whether the condition holds for a row of a page.
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
                // Without a dictionary, texts have no codes that could serve as a key.
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
            Residual::Decided(holds) => return Ok(*holds),
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

/// Returns the index of the row's value, if the column is read and the row has a value.
fn page_value(page: &PageColumns, column: Column, row: usize, reads: bool) -> Option<usize> {
    if reads { page.values(column, row).next() } else { None }
}
