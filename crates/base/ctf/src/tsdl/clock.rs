//! Reading of `clock` blocks into [`Clock`]s.

use super::attributes::AttributeReader;
use super::syntax::Block;
use crate::metadata::budget::{allocation, table_entry};
use crate::metadata::error::MetadataError;
use crate::schema::{Clock, ClockOrigin};

/// Reads a clock from a block. `is_lttng` is true if LTTng wrote the trace.
pub(super) fn clock(
    reader: &AttributeReader<'_>,
    block: &Block<'_>,
    is_lttng: bool,
) -> Result<Clock, MetadataError> {
    let (mut name, mut uuid, mut precision) = (None, None, None);
    let mut description: Option<String> = None;
    let (mut frequency, mut seconds, mut cycles, mut absolute) = (None, None, None, None);
    for attribute in block.attributes() {
        let text = || reader.string_value(attribute).map(str::to_owned);
        match attribute.key.as_ref() {
            "name" => reader.set_once(&mut name, attribute, text()?)?,
            "uuid" => reader.set_once(&mut uuid, attribute, reader.uuid(attribute)?)?,
            "description" => reader.set_once(&mut description, attribute, text()?)?,
            "freq" => {
                let value = reader.unsigned(attribute)?;
                if value == 0 || value == u64::MAX {
                    return Err(reader.bad_value(attribute, "cycles a second"));
                }
                reader.set_once(&mut frequency, attribute, value)?;
            }
            "precision" => {
                let value = reader.unsigned(attribute)?;
                reader.set_once(&mut precision, attribute, value)?;
            }
            "offset_s" => {
                let value = reader.signed(attribute)?;
                reader.set_once(&mut seconds, attribute, value)?;
            }
            "offset" => {
                let value = reader.signed(attribute)?;
                reader.set_once(&mut cycles, attribute, value)?;
            }
            "absolute" => {
                reader.set_once(&mut absolute, attribute, reader.truth(attribute)?)?;
            }
            _ => (),
        }
    }
    let Some(name) = name else {
        return Err(reader.error(block.at, "`clock` block without `name`"));
    };
    let frequency = frequency.unwrap_or(1_000_000_000);
    let texts = 2 * allocation(name.len()) + description.as_deref().map_or(0, str::len);
    let entry = size_of::<Clock>() + table_entry::<String, usize>();
    reader.charge(block.at, entry + texts)?;
    // Moves whole seconds from the cycles to the seconds, so that 0 <= cycles < frequency.
    let (seconds, cycles) = (seconds.unwrap_or(0), cycles.unwrap_or(0));
    let seconds = seconds + cycles.div_euclid(i128::from(frequency));
    let cycles = cycles.rem_euclid(i128::from(frequency));
    let (Ok(offset_seconds), Ok(offset_cycles)) = (i64::try_from(seconds), i64::try_from(cycles))
    else {
        return Err(reader.error(block.at, "clock's offset needs more than 64 bits"));
    };
    // LTTng's "monotonic" clock counts from the epoch, although its metadata does not state it.
    let is_absolute = absolute == Some(true) || (is_lttng && name == "monotonic");
    Ok(Clock {
        name,
        identity: None,
        uuid,
        description,
        frequency,
        precision,
        accuracy: None,
        offset_seconds,
        offset_cycles,
        origin: if is_absolute { ClockOrigin::UnixEpoch } else { ClockOrigin::Unknown },
    })
}
