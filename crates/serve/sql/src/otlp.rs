//! SQL functions `event_name`, `event_attributes` and `span_links`, which parse OTLP's events and
//! links from stored text. Start at [`add`].

use blkkin_store::{Attribute, SpanEvent, SpanLink, text_of};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapBuilder, StringBuilder, StringViewBuilder, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Registers all functions of this module in a session.
pub(crate) fn add(context: &SessionContext) {
    for part in [FunctionKind::EventName, FunctionKind::EventAttributes, FunctionKind::SpanLinks] {
        let signature = Signature::any(1, Volatility::Immutable);
        context.register_udf(ScalarUDF::new_from_impl(Function { part, signature }));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    part: FunctionKind,
    signature: Signature,
}

/// Operation that a [`Function`] implements, one for each SQL function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FunctionKind {
    /// `event_name`: the name of the event in an annotation.
    EventName,
    /// `event_attributes`: the attributes of the event in an annotation.
    EventAttributes,
    /// `span_links`: the links in a map of tags.
    SpanLinks,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.part {
            FunctionKind::EventName => "event_name",
            FunctionKind::EventAttributes => "event_attributes",
            FunctionKind::SpanLinks => "span_links",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _of: &[DataType]) -> Result<DataType> {
        Ok(match self.part {
            FunctionKind::EventName => DataType::Utf8View,
            FunctionKind::EventAttributes => attributes_type(),
            FunctionKind::SpanLinks => DataType::List(link_item()),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [array] = arrays.as_slice() else { return Err(wrong("one argument")) };
        Ok(ColumnarValue::Array(match self.part {
            FunctionKind::EventName => Arc::new(event_names(array)?),
            FunctionKind::EventAttributes => event_attributes(array)?,
            FunctionKind::SpanLinks => Arc::new(span_links(array)?),
        }))
    }
}

/// Maximum total size of the keys in one array, in bytes. The same limit applies to the values.
const BYTES_MAX: usize = i32::MAX as usize;

fn wrong(wanted: &str) -> DataFusionError {
    DataFusionError::Execution(format!("a function of events and links wants {wanted}"))
}

/// Creates a builder of maps from text to text, for the attributes of events and links.
fn attributes() -> MapBuilder<StringBuilder, StringBuilder> {
    MapBuilder::new(None, StringBuilder::new(), StringBuilder::new())
}

fn attributes_type() -> DataType {
    attributes().finish().data_type().clone()
}

fn append(map: &mut MapBuilder<StringBuilder, StringBuilder>, of: &[Attribute<'_>]) -> Result<()> {
    let (keys, values) = map.entries();
    // An array's offsets have 32 bits in Arrow.
    let held = keys.values_slice().len().max(values.values_slice().len());
    let more: usize = of.iter().map(|it| it.key.len().max(text_of(it.value()).len())).sum();
    if held + more > BYTES_MAX {
        return Err(DataFusionError::ResourcesExhausted("attributes".into()));
    }
    for attribute in of {
        map.keys().append_value(&attribute.key);
        map.values().append_value(text_of(attribute.value()));
    }
    Ok(map.append(true)?)
}

fn event_names(texts: &ArrayRef) -> Result<impl Array + use<>> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let texts = texts.as_string_view_opt().ok_or_else(|| wrong("text"))?;
    let mut names = StringViewBuilder::with_capacity(texts.len());
    for text in texts {
        names.append_option(text.map(|text| SpanEvent::of(text).name));
    }
    Ok(names.finish())
}

fn event_attributes(texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let texts = texts.as_string_view_opt().ok_or_else(|| wrong("text"))?;
    let mut maps = attributes();
    for text in texts {
        append(&mut maps, &SpanEvent::of(text.unwrap_or("")).attributes())?;
    }
    Ok(Arc::new(maps.finish()))
}

fn link_fields() -> Fields {
    let text = |name| Field::new(name, DataType::Utf8View, false);
    let attributes = Field::new("attributes", attributes_type(), false);
    [text("trace_id"), text("span_id"), text("trace_state"), attributes].into_iter().collect()
}

fn link_item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Struct(link_fields()), false))
}

fn span_links(tags: &ArrayRef) -> Result<ListArray> {
    let tags = tags.as_map_opt().ok_or_else(|| wrong("tags"))?;
    let keys = tags.keys().as_string_opt::<i32>().ok_or_else(|| wrong("tags of text"))?;
    let values = tags.values().as_string_opt::<i32>().ok_or_else(|| wrong("tags of text"))?;
    let mut columns = [(); 3].map(|()| StringViewBuilder::new());
    let (mut maps, mut counts) = (attributes(), Vec::with_capacity(tags.len()));
    for row in tags.value_offsets().windows(2) {
        let of_row = (row[0] as usize..row[1] as usize)
            .filter_map(|at| SpanLink::of(keys.value(at), values.value(at)));
        let mut count = 0;
        for link in of_row {
            columns[0].append_value(link.trace_id.to_string());
            columns[1].append_value(link.span_id.to_string());
            columns[2].append_value(link.trace_state);
            append(&mut maps, &link.attributes())?;
            count += 1;
        }
        counts.push(count);
    }
    let texts = columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
    let columns = texts.chain([Arc::new(maps.finish()) as ArrayRef]).collect();
    let links = StructArray::try_new(link_fields(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(counts);
    Ok(ListArray::try_new(link_item(), offsets, Arc::new(links), None)?)
}
