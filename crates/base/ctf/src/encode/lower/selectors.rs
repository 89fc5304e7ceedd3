//! Labels for selectors. In CTF 1.8 a selector is an enumeration, and the label of its value names
//! the selected option. So the values that select an option get a label with the option's name.
//!
//! Several variants may depend on one selector in different ways. The selector's values are then
//! partitioned so that all values with one label select the same option in each variant. The label
//! joins the names of these options. Each variant gets an option for each label that selects one of
//! the variant's options.

use super::names;
use crate::encode::error::EncodeError;
use crate::schema::{Mapping, Ranges};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Maximum product of the number of a selector's value ranges and the number of its uses.
const LABELS_MAX: usize = 1 << 14;

/// A variant or optional that depends on a selector.
#[derive(Clone, Debug)]
pub(super) struct SelectorUse {
    /// Names and values of the options; the first matching option is selected.
    pub(super) options: Vec<(Option<String>, Ranges)>,
    /// Name of an additional last option for all values that no other option has; `None` if there
    /// is no such option.
    pub(super) otherwise: Option<&'static str>,
    /// True for a variant, false for an optional.
    pub(super) is_variant: bool,
}

/// Range of values that an integer field can have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Smallest value of the range.
    pub(super) least: i128,
    /// Largest value of the range, inclusive.
    pub(super) most: i128,
}

/// Labels of a selector, with the option that each label selects in each variant or optional.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    pub(super) mappings: Vec<Mapping>,
    /// For each use of the selector: pairs of a label's index and the index of the option that it
    /// selects.
    pub(super) choices: Vec<Vec<(usize, usize)>>,
}

/// Derives labels for all values within `bounds` that select an option in at least one use. Each
/// such value gets exactly one label. Returns `known`, the labels that the selector already has, if
/// they suffice.
pub(super) fn labels(
    uses: &[SelectorUse],
    known: Option<&[Mapping]>,
    bounds: Bounds,
) -> Result<Labels, EncodeError> {
    if let Some(known) = known
        && let Some(choices) = existing_labels(uses, known)
    {
        return Ok(Labels { mappings: known.to_vec(), choices });
    }
    let Bounds { least, most } = bounds;
    let mut starts = BTreeSet::from([least]);
    for (_, ranges) in uses.iter().flat_map(|one| &one.options) {
        for &(low, high) in &ranges.0 {
            let ends = [low, high.saturating_add(1)];
            starts.extend(ends.into_iter().filter(|&bound| least < bound && bound <= most));
        }
    }
    if starts.len().saturating_mul(uses.len()) > LABELS_MAX {
        return Err(EncodeError::new("too many variants depend on one selector"));
    }
    let starts: Vec<i128> = starts.into_iter().collect();
    // Groups values by the options that they select in all uses.
    let mut groups: BTreeMap<Vec<usize>, Vec<(i128, i128)>> = BTreeMap::new();
    for (index, &low) in starts.iter().enumerate() {
        let high = starts.get(index + 1).map_or(most, |next| next - 1);
        let chosen: Vec<usize> = uses.iter().map(|one| one.select_option(low)).collect();
        if chosen.iter().all(|&option| option == NO_OPTION) {
            continue;
        }
        let ranges = groups.entry(chosen).or_default();
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == low => *end = high,
            _ => ranges.push((low, high)),
        }
    }
    let mut taken = HashSet::new();
    let mut result = Labels { mappings: Vec::new(), choices: vec![Vec::new(); uses.len()] };
    for (chosen, ranges) in groups {
        let parts: Vec<String> = uses
            .iter()
            .zip(&chosen)
            .filter(|&(_, &option)| option != NO_OPTION)
            .map(|(one, &option)| one.name(option))
            .collect();
        let index = result.mappings.len();
        let label = names::option(&parts.join("_"), "option", &mut taken);
        result.mappings.push(Mapping { label, ranges: Ranges(ranges) });
        for (choices, option) in result.choices.iter_mut().zip(chosen) {
            if option != NO_OPTION {
                choices.push((index, option));
            }
        }
    }
    Ok(result)
}

const NO_OPTION: usize = usize::MAX;

impl SelectorUse {
    fn select_option(&self, value: i128) -> usize {
        let found = self.options.iter().position(|(_, ranges)| ranges.contains(value));
        found.or(self.otherwise.map(|_| self.options.len())).unwrap_or(NO_OPTION)
    }

    fn name(&self, option: usize) -> String {
        match (self.options.get(option), self.otherwise) {
            (Some((Some(name), _)), _) => names::member(name),
            (None, Some(otherwise)) => otherwise.to_owned(),
            _ => format!("option{option}"),
        }
    }
}

/// Returns the choices of each use if the selector's existing labels suffice, else `None`. They
/// suffice if all uses are variants, and each option of a variant has the name and values of a
/// different label. The names must be valid in CTF 1.8.
fn existing_labels(uses: &[SelectorUse], known: &[Mapping]) -> Option<Vec<Vec<(usize, usize)>>> {
    let label_of = |(name, ranges): &(Option<String>, Ranges)| {
        let name = name.as_ref().filter(|name| names::is_option(name))?;
        let index = known.iter().position(|mapping| mapping.label == *name)?;
        (known[index].ranges == *ranges).then_some(index)
    };
    let mut all = Vec::new();
    for one in uses {
        let mut seen = HashSet::new();
        let labels: Option<Vec<usize>> = one.options.iter().map(label_of).collect();
        let labels = labels.filter(|labels| {
            let mut is_new =
                |&label: &usize| seen.insert(names::strip_underscore(&known[label].label));
            one.is_variant && one.otherwise.is_none() && labels.iter().all(&mut is_new)
        })?;
        all.push(labels.into_iter().enumerate().map(|(option, label)| (label, option)).collect());
    }
    Some(all)
}
