//! SQL functions `own_times` and `disk_times`, which parse the tags of a span's own time and disk
//! requests. Start at [`add`].

use blkkin_model::{DISK_TIME_PREFIX, OWN_TIME_PREFIX, ValueRef, own_time_ns};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Builder, ListArray, StringViewBuilder, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Registers both functions in a session.
pub(crate) fn add(context: &SessionContext) {
    for kind in [FunctionKind::OwnTimes, FunctionKind::DiskTimes] {
        let signature = Signature::any(1, Volatility::Immutable);
        context.register_udf(ScalarUDF::new_from_impl(Function { kind, signature }));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    kind: FunctionKind,
    signature: Signature,
}

/// Operation that a [`Function`] implements, one for each SQL function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FunctionKind {
    /// `own_times`: the own time in a map of tags by kind.
    OwnTimes,
    /// `disk_times`: the times of disk requests in a map of tags by device.
    DiskTimes,
}

impl FunctionKind {
    /// Returns the names of the fields of a result's items: a text, and one or two times.
    fn field_names(self) -> &'static [&'static str] {
        match self {
            FunctionKind::OwnTimes => &["kind", "ns"],
            FunctionKind::DiskTimes => &["device", "queued_ns", "served_ns"],
        }
    }

    /// Returns what a tag's key says: the text of an item, and the index of the time; `None` for
    /// other keys.
    fn parse_key(self, key: &str) -> Option<(&str, usize)> {
        match self {
            FunctionKind::OwnTimes => Some((key.strip_prefix(OWN_TIME_PREFIX)?, 0)),
            FunctionKind::DiskTimes => {
                let (device, step) = key.strip_prefix(DISK_TIME_PREFIX)?.rsplit_once('.')?;
                let place = ["queued", "served"].into_iter().position(|known| known == step)?;
                Some((device, place))
            }
        }
    }

    fn fields(self) -> Fields {
        let kinds = [DataType::Utf8View, DataType::Int64, DataType::Int64];
        let fields = self.field_names().iter().zip(kinds);
        fields.map(|(name, kind)| Field::new(*name, kind, false)).collect()
    }

    fn item(self) -> FieldRef {
        Arc::new(Field::new("item", DataType::Struct(self.fields()), false))
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.kind {
            FunctionKind::OwnTimes => "own_times",
            FunctionKind::DiskTimes => "disk_times",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _of: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(self.kind.item()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [array] = arrays.as_slice() else { return Err(wrong("one argument")) };
        Ok(ColumnarValue::Array(Arc::new(times(self.kind, array)?)))
    }
}

fn wrong(wanted: &str) -> DataFusionError {
    DataFusionError::Execution(format!("a function of own times wants {wanted}"))
}

/// Returns the list of items for each map of tags, in alphabetical order of their texts. A time
/// without a tag is 0. The last of several tags with the same key counts.
fn times(kind: FunctionKind, tags: &ArrayRef) -> Result<ListArray> {
    let tags = tags.as_map_opt().ok_or_else(|| wrong("tags"))?;
    let keys = tags.keys().as_string_opt::<i32>().ok_or_else(|| wrong("tags of text"))?;
    let values = tags.values().as_string_opt::<i32>().ok_or_else(|| wrong("tags of text"))?;
    let mut texts = StringViewBuilder::new();
    let columns = kind.field_names().len() - 1;
    let mut columns: Vec<_> = (0..columns).map(|_| Int64Builder::new()).collect();
    let mut counts = Vec::with_capacity(tags.len());
    for row in tags.value_offsets().windows(2) {
        let mut items: BTreeMap<&str, [Option<u64>; 2]> = BTreeMap::new();
        for at in row[0] as usize..row[1] as usize {
            if let Some((text, place)) = kind.parse_key(keys.value(at)) {
                let time = own_time_ns(keys.value(at), ValueRef::Str(values.value(at)));
                items.entry(text).or_default()[place] = time;
            }
        }
        items.retain(|_, times| times.iter().any(Option::is_some));
        for (text, times) in &items {
            texts.append_value(text);
            for (column, time) in columns.iter_mut().zip(times) {
                column.append_value(time.unwrap_or(0).cast_signed());
            }
        }
        counts.push(items.len());
    }
    if i32::try_from(counts.iter().sum::<usize>()).is_err() {
        return Err(DataFusionError::ResourcesExhausted("own times".into()));
    }
    let columns = columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
    let columns = [Arc::new(texts.finish()) as ArrayRef].into_iter().chain(columns).collect();
    let items = StructArray::try_new(kind.fields(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(counts);
    Ok(ListArray::try_new(kind.item(), offsets, Arc::new(items), None)?)
}
