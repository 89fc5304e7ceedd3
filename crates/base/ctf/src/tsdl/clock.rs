//! The `clock` block.

use super::attributes::Surroundings;
use super::syntax::Block;
use crate::metadata::budget::{allocation, table_entry};
use crate::metadata::error::MetadataError;
use crate::schema::{Clock, ClockOrigin};

/// Makes a clock of a block; `is_lttng` says who wrote it.
pub(super) fn clock(
    surroundings: &Surroundings<'_>,
    block: &Block<'_>,
    is_lttng: bool,
) -> Result<Clock, MetadataError> {
    let (mut name, mut uuid, mut precision) = (None, None, None);
    let mut description: Option<String> = None;
    let (mut frequency, mut seconds, mut cycles, mut absolute) = (None, None, None, None);
    for attribute in block.attributes() {
        let text = || surroundings.string_value(attribute).map(str::to_owned);
        match attribute.key.as_ref() {
            "name" => surroundings.once(&mut name, attribute, text()?)?,
            "uuid" => surroundings.once(&mut uuid, attribute, surroundings.uuid(attribute)?)?,
            "description" => surroundings.once(&mut description, attribute, text()?)?,
            "freq" => {
                let value = surroundings.unsigned(attribute)?;
                if value == 0 || value == u64::MAX {
                    return Err(surroundings.bad_value(attribute, "cycles a second"));
                }
                surroundings.once(&mut frequency, attribute, value)?;
            }
            "precision" => {
                let value = surroundings.unsigned(attribute)?;
                surroundings.once(&mut precision, attribute, value)?;
            }
            "offset_s" => {
                let value = surroundings.signed(attribute)?;
                surroundings.once(&mut seconds, attribute, value)?;
            }
            "offset" => {
                let value = surroundings.signed(attribute)?;
                surroundings.once(&mut cycles, attribute, value)?;
            }
            "absolute" => {
                surroundings.once(&mut absolute, attribute, surroundings.truth(attribute)?)?;
            }
            _ => (),
        }
    }
    let Some(name) = name else {
        return Err(surroundings.error(block.at, "`clock` block without `name`"));
    };
    let frequency = frequency.unwrap_or(1_000_000_000);
    let texts = 2 * allocation(name.len()) + description.as_deref().map_or(0, str::len);
    let entry = size_of::<Clock>() + table_entry::<String, usize>();
    surroundings.keep(block.at, entry + texts)?;
    // Whole seconds among the cycles are seconds: this way 0 <= cycles < frequency.
    let (seconds, cycles) = (seconds.unwrap_or(0), cycles.unwrap_or(0));
    let seconds = seconds + cycles.div_euclid(i128::from(frequency));
    let cycles = cycles.rem_euclid(i128::from(frequency));
    let (Ok(offset_seconds), Ok(offset_cycles)) = (i64::try_from(seconds), i64::try_from(cycles))
    else {
        return Err(surroundings.error(block.at, "clock's offset needs more than 64 bits"));
    };
    // LTTng's clock counts from the epoch, though LTTng does not say so.
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
