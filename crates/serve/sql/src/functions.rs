//! SQL functions that other databases have and DataFusion lacks: `max_by`, `min_by`,
//! `width_bucket`, JSON functions, and `time_bucket`, an alias of `date_bin`. Start at [`add`].

use datafusion::arrow::array::{AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::dataframe::DataFrame;
use datafusion::functions::datetime::date_bin;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion_functions_json::functions::json_union_to_text;
use std::sync::Arc;

/// Registers all functions of this module in a session.
pub(crate) fn add(context: &mut SessionContext) -> Result<()> {
    context.register_udf(date_bin().as_ref().clone().with_aliases(["time_bucket"]));
    context.register_udf(ScalarUDF::new_from_impl(WidthBucket::new()));
    for extreme in [Extreme::Greatest, Extreme::Least] {
        context.register_udaf(AggregateUDF::new_from_impl(ValueAt::new(extreme)));
    }
    datafusion_functions_json::register_all(context)
}

/// Converts columns of JSON values, such as results of `->`, to text. Such columns have a union
/// type, which fails in JSON output and is printed as `{type=value}` in tables and CSV.
pub(crate) fn show_json_as_text(frame: DataFrame) -> Result<DataFrame> {
    let columns = frame.schema().iter();
    let columns: Vec<(Expr, bool)> = columns
        .map(|(table, field)| {
            let column = Expr::from((table, field));
            match field.data_type() {
                DataType::Union(..) => (json_union_to_text(column).alias(field.name()), true),
                _ => (column, false),
            }
        })
        .collect();
    if !columns.iter().any(|(_, is_json)| *is_json) {
        return Ok(frame);
    }
    frame.select(columns.into_iter().map(|(column, _)| column))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Extreme {
    Greatest,
    Least,
}

/// Aggregate function `max_by(value, key)` or `min_by(value, key)`: the value in the row with the
/// greatest or least key.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ValueAt {
    extreme: Extreme,
    signature: Signature,
}

impl ValueAt {
    fn new(extreme: Extreme) -> ValueAt {
        ValueAt { extreme, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ValueAt {
    fn name(&self) -> &str {
        match self.extreme {
            Extreme::Greatest => "max_by",
            Extreme::Least => "min_by",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, of: &[DataType]) -> Result<DataType> {
        of.first().cloned().ok_or_else(|| plan_error("a value and a key are wanted"))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        // Only a call over a window reaches this method; `simplify` replaces plain aggregate calls.
        Err(plan_error(&format!("{} cannot be used over a window", self.name())))
    }

    /// Rewrites the call to `first_value`, ordered by the key, over the rows whose key is not NULL.
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let is_ascending = self.extreme == Extreme::Least;
        Some(Box::new(move |call: AggregateFunction, _| {
            let params = call.params;
            if !params.order_by.is_empty() || params.distinct {
                return Err(plan_error("neither ORDER BY nor DISTINCT has a meaning here"));
            }
            let [value, key] = <[Expr; 2]>::try_from(params.args)
                .map_err(|_| plan_error("a value and a key are wanted"))?;
            let has_key = key.clone().is_not_null();
            let filter = match params.filter {
                Some(filter) => filter.and(has_key),
                None => has_key,
            };
            let order = vec![Sort::new(key, is_ascending, false)];
            Ok(Expr::AggregateFunction(AggregateFunction::new_udf(
                first_value_udaf(),
                vec![value],
                false,
                Some(Box::new(filter)),
                order,
                None,
            )))
        }))
    }
}

/// Function `width_bucket(value, low, high, count)`: the number of the bucket that contains
/// `value`, if the range from `low` to `high` is divided into `count` equal buckets. Buckets are
/// numbered from 1, starting at `low`. If `low` is less than `high`, the result is 0 below `low`,
/// and `count + 1` from `high` up; otherwise it is 0 above `low`, and `count + 1` from `high` down.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WidthBucket {
    signature: Signature,
}

impl WidthBucket {
    fn new() -> WidthBucket {
        let types = vec![DataType::Float64, DataType::Float64, DataType::Float64, DataType::Int64];
        WidthBucket { signature: Signature::exact(types, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for WidthBucket {
    fn name(&self) -> &str {
        "width_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _of: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [value, low, high, count] = arrays.as_slice() else {
            return Err(plan_error("width_bucket has four arguments"));
        };
        let floats = [value, low, high].map(|array| array.as_primitive::<Float64Type>());
        let counts = count.as_primitive::<Int64Type>();
        let [values, lows, highs] = floats.map(|floats| floats.iter());
        let rows = values.zip(lows).zip(highs).zip(counts.iter());
        let buckets = rows.map(|(((value, low), high), count)| {
            let (Some(value), Some(low), Some(high), Some(count)) = (value, low, high, count)
            else {
                return Ok(None);
            };
            bucket(value, low, high, count).map(Some)
        });
        let buckets = buckets.collect::<Result<Int64Array>>()?;
        Ok(ColumnarValue::Array(Arc::new(buckets)))
    }
}

fn bucket(value: f64, low: f64, high: f64, count: i64) -> Result<i64> {
    if count <= 0 || count == i64::MAX {
        return Err(plan_error("width_bucket wants a count of 1 or more"));
    }
    if !low.is_finite() || !high.is_finite() || low == high || value.is_nan() {
        return Err(plan_error("width_bucket wants numbers, and bounds that differ"));
    }
    if !(high - low).is_finite() {
        return bucket(value / 2.0, low / 2.0, high / 2.0, count);
    }
    // With low and high exchanged, buckets are numbered from the upper end.
    let (value, low, high) = if low < high { (value, low, high) } else { (-value, -low, -high) };
    Ok(match () {
        () if value < low => 0,
        () if value >= high => count + 1,
        () => {
            let part = ((value - low) / (high - low) * count as f64).floor() as i64;
            part.clamp(0, count - 1) + 1
        }
    })
}

fn plan_error(message: &str) -> DataFusionError {
    DataFusionError::Plan(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::bucket;

    /// `width_bucket` returns the same numbers as in PostgreSQL.
    #[test]
    fn values_are_in_buckets() {
        let of = |value, low, high, count| bucket(value, low, high, count).ok();
        assert_eq!(of(5.35, 0.024, 10.06, 5), Some(3));
        assert_eq!(of(5.0, -1e308, 1e308, 10), Some(6));
        assert_eq!([-1.0, 0.0, 9.99, 10.0].map(|it| of(it, 0.0, 10.0, 4)), [0, 1, 4, 5].map(Some));
        assert_eq!([11.0, 10.0, 0.01, 0.0].map(|it| of(it, 10.0, 0.0, 4)), [0, 1, 4, 5].map(Some));
        for (value, low, high, count) in [
            (1.0, 0.0, 0.0, 1),
            (1.0, 0.0, 1.0, 0),
            (f64::NAN, 0.0, 1.0, 1),
            (1.0, 0.0, f64::INFINITY, 1),
        ] {
            assert_eq!(of(value, low, high, count), None);
        }
    }
}
