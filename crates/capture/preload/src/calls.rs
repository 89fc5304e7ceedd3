//! The replaced functions, by subject. The macros in [`replace`] define a function and the pointer
//! to its next definition.

mod descriptors;
mod files;
mod paths;
mod replace;
mod sockets;
mod transfers;

use crate::next::NextDefinition;

/// Finds the next definitions of all functions. Called once, at the library's start.
pub(crate) fn resolve() {
    let all: [&[&NextDefinition]; 6] = [
        descriptors::NEXT,
        files::NEXT,
        files::MAPPINGS,
        paths::NEXT,
        sockets::NEXT,
        transfers::NEXT,
    ];
    all.into_iter().flatten().for_each(|next| next.resolve());
}
