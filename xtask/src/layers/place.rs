//! Places of crates in the workspace, and the stations, which give the places their order.

use std::fmt;

/// The folders of `crates/`. The alphabetical order is the order in which data passes through them.
pub(super) const STATIONS: [&str; 9] =
    ["base", "capture", "carry", "decode", "distill", "export", "keep", "serve", "top"];

/// Place of a crate in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A folder `crates/STATION/NAME`; the value is the station.
    Station(&'static str),
    /// `xtask`, or a folder of `tests`, `examples`, `benches`. Stations may have leaves only as
    /// dev-dependencies, except for `top`, because `blkkin demo` contains an example.
    Leaf,
    /// Any other folder, where no crate belongs.
    Elsewhere(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Station(station) => f.write_str(station),
            Place::Leaf => f.write_str("outside of the stations"),
            Place::Elsewhere(folder) => f.write_str(folder),
        }
    }
}

impl Place {
    /// Returns the place of a crate by its folder, relative to the workspace.
    pub(crate) fn of_folder(folder: &str) -> Place {
        let parts: Vec<&str> = folder.split('/').collect();
        let place = match parts[..] {
            ["crates", station, _] => {
                STATIONS.iter().find(|name| **name == station).map(|name| Place::Station(name))
            }
            ["xtask"] | ["tests" | "examples" | "benches", ..] => Some(Place::Leaf),
            _ => None,
        };
        place.unwrap_or_else(|| Place::Elsewhere(folder.to_owned()))
    }
}
