//! Dependency graph of the packages, from `cargo metadata`. Start at [`Graph`]; [`load`] runs
//! cargo, [`parse`] reads its output.

use super::place::Place;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

/// All packages that are built for Linux on x86-64, from the workspace and from registries.
pub(crate) struct Graph {
    pub(crate) packages: Vec<Package>,
}

/// A package with its dependencies.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Folder of the sources.
    pub(crate) folder: PathBuf,
    /// Place in the workspace; `None` for packages from registries.
    pub(crate) place: Option<Place>,
    pub(crate) licence: Option<String>,
    pub(crate) is_proc_macro: bool,
    pub(crate) dependencies: Vec<Dependency>,
}

/// Dependency of a package: an outgoing edge of the package graph.
pub(crate) struct Dependency {
    /// Index into [`Graph::packages`].
    pub(crate) package: usize,
    pub(crate) kind: Kind,
}

/// Purpose of a dependency: for the program, for tests, or for build scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Normal => "dependency",
            Kind::Build => "build-dependency",
            Kind::Dev => "dev-dependency",
        })
    }
}

impl Graph {
    /// Returns the shortest path over linked dependencies from a package to the package `name`,
    /// without the start; `None` if `name` is not linked.
    pub(super) fn path_to(&self, start: usize, name: &str) -> Option<Vec<&str>> {
        let mut came_from = HashMap::from([(start, start)]);
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            if at != start && self.packages[at].name == name {
                let mut path = Vec::new();
                let mut step = at;
                while step != start {
                    path.push(self.packages[step].name.as_str());
                    step = came_from[&step];
                }
                path.reverse();
                return Some(path);
            }
            for next in self.linked_dependencies(at) {
                came_from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    at
                });
            }
        }
        None
    }

    /// Returns a flag for each package, by index: true if the package is shipped, because it is in
    /// a station or linked by one. All other packages only help to build and test.
    pub(crate) fn linked(&self) -> Vec<bool> {
        let mut linked = vec![false; self.packages.len()];
        let mut queue: Vec<usize> = (0..self.packages.len())
            .filter(|index| matches!(self.packages[*index].place, Some(Place::Station(_))))
            .collect();
        while let Some(at) = queue.pop() {
            if !std::mem::replace(&mut linked[at], true) {
                queue.extend(self.linked_dependencies(at));
            }
        }
        linked
    }

    /// Returns an iterator over normal dependencies, except procedural macros, which run in the
    /// compiler and are not linked.
    fn linked_dependencies(&self, package: usize) -> impl Iterator<Item = usize> {
        self.packages[package]
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == Kind::Normal)
            .map(|dependency| dependency.package)
            .filter(|index| !self.packages[*index].is_proc_macro)
    }
}

/// Runs cargo and returns the graph of the workspace at `root`.
pub(crate) fn load(root: &Path) -> Result<Graph, String> {
    let output = crate::tools::cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    parse(&output.stdout)
}

/// Parses the output of `cargo metadata --format-version 1`.
pub(super) fn parse(json: &[u8]) -> Result<Graph, String> {
    let metadata: Value =
        serde_json::from_slice(json).map_err(|error| format!("cargo metadata: {error}"))?;
    let root = text(&metadata["workspace_root"]);
    let members = array(&metadata["workspace_members"]);
    let mut indexes = HashMap::new();
    let mut packages = Vec::new();
    for package in array(&metadata["packages"]) {
        indexes.insert(text(&package["id"]), packages.len());
        let folder = Path::new(text(&package["manifest_path"])).parent().unwrap_or(Path::new(""));
        let inner = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy();
        packages.push(Package {
            name: text(&package["name"]).to_owned(),
            version: text(&package["version"]).to_owned(),
            folder: folder.to_owned(),
            place: members.contains(&package["id"]).then(|| Place::of_folder(&inner)),
            licence: package["license"].as_str().map(str::to_owned),
            is_proc_macro: array(&package["targets"])
                .iter()
                .any(|target| array(&target["kind"]).iter().any(|kind| kind == "proc-macro")),
            dependencies: Vec::new(),
        });
    }
    for node in array(&metadata["resolve"]["nodes"]) {
        let Some(&from) = indexes.get(text(&node["id"])) else { continue };
        for dependency in array(&node["deps"]) {
            let Some(&package) = indexes.get(text(&dependency["pkg"])) else { continue };
            for kind in array(&dependency["dep_kinds"]) {
                let kind = match kind["kind"].as_str() {
                    Some("dev") => Kind::Dev,
                    Some("build") => Kind::Build,
                    _ => Kind::Normal,
                };
                packages[from].dependencies.push(Dependency { package, kind });
            }
        }
    }
    Ok(Graph { packages })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
