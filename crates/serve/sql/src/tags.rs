//! SQL function `span_tags`: merges a span's three lists of tags (of span, resource and scope) into
//! one, in their original order and with their types. Start at [`SpanTags`].

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StringArray, StringViewBuilder, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// SQL function `span_tags(tags, resource_tags, scope_tags, tag_layout)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpanTags {
    signature: Signature,
}

impl SpanTags {
    pub(crate) fn new() -> SpanTags {
        SpanTags { signature: Signature::any(4, Volatility::Immutable) }
    }
}

fn fields() -> Fields {
    ["key", "value", "type", "origin"]
        .map(|name| Arc::new(Field::new(name, DataType::Utf8View, false)))
        .into_iter()
        .collect()
}

fn item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Struct(fields()), false))
}

impl ScalarUDFImpl for SpanTags {
    fn name(&self) -> &str {
        "span_tags"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _of: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(item()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let joined = joined(&arrays)?;
        Ok(ColumnarValue::Array(Arc::new(joined)))
    }
}

/// Decodes a letter of a tag layout: returns the list that has the tag, as an index into
/// [`ORIGINS`], and the type of the value. An unknown letter stands for a text tag of the span.
fn of_letter(letter: u8) -> (usize, &'static str) {
    match letter {
        b'i' => (0, "int"),
        b'b' => (0, "bool"),
        b'd' => (0, "double"),
        b'x' => (0, "bytes"),
        b'S' => (1, "text"),
        b'I' => (1, "int"),
        b'B' => (1, "bool"),
        b'D' => (1, "double"),
        b'X' => (1, "bytes"),
        b't' => (2, "text"),
        b'j' => (2, "int"),
        b'c' => (2, "bool"),
        b'e' => (2, "double"),
        b'y' => (2, "bytes"),
        _ => (0, "text"),
    }
}

const ORIGINS: [&str; 3] = ["span", "resource", "scope"];

/// Column of one of the three lists of tags, for all rows.
struct List<'a> {
    map: &'a MapArray,
    keys: &'a StringArray,
    values: &'a StringArray,
}

impl<'a> List<'a> {
    fn of(array: &'a ArrayRef) -> Result<List<'a>> {
        let wrong = || DataFusionError::Execution("span_tags wants maps of texts".into());
        let map = array.as_map_opt().ok_or_else(wrong)?;
        let keys = map.keys().as_string_opt().ok_or_else(wrong)?;
        let values = map.values().as_string_opt().ok_or_else(wrong)?;
        Ok(List { map, keys, values })
    }
}

fn joined(arrays: &[ArrayRef]) -> Result<ListArray> {
    let [tags, resource, scope, layout] = arrays else {
        return Err(DataFusionError::Execution("span_tags has four arguments".into()));
    };
    let lists = [List::of(tags)?, List::of(resource)?, List::of(scope)?];
    let layouts = layout
        .as_string_view_opt()
        .ok_or_else(|| DataFusionError::Execution("span_tags wants a layout".into()))?;
    let mut columns = [(); 4].map(|()| StringViewBuilder::new());
    let mut counts = Vec::with_capacity(layouts.len());
    for row in 0..layouts.len() {
        let mut next = [0; 3];
        let mut ends = [0; 3];
        for (list, (next, end)) in lists.iter().zip(next.iter_mut().zip(&mut ends)) {
            let offsets = list.map.value_offsets();
            (*next, *end) = (offsets[row] as usize, offsets[row + 1] as usize);
        }
        let mut count = 0;
        let mut take = |of: usize, kind: &str, next: &mut [usize; 3]| {
            if next[of] < ends[of] {
                columns[0].append_value(lists[of].keys.value(next[of]));
                columns[1].append_value(lists[of].values.value(next[of]));
                columns[2].append_value(kind);
                columns[3].append_value(ORIGINS[of]);
                next[of] += 1;
                count += 1;
            }
        };
        let letters = if layouts.is_null(row) { "" } else { layouts.value(row) };
        for letter in letters.bytes() {
            let (of, kind) = of_letter(letter);
            take(of, kind, &mut next);
        }
        // Without letters, all tags are text. With too few letters, the file is malformed; its
        // remaining tags are still returned.
        for of in 0..ORIGINS.len() {
            while next[of] < ends[of] {
                take(of, "text", &mut next);
            }
        }
        counts.push(count);
    }
    let total: usize = counts.iter().sum();
    if i32::try_from(total).is_err() {
        return Err(DataFusionError::ResourcesExhausted("tags".into()));
    }
    let columns = columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect();
    let values = StructArray::try_new(fields(), columns, None)?;
    Ok(ListArray::try_new(item(), OffsetBuffer::from_lengths(counts), Arc::new(values), None)?)
}
