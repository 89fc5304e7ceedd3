//! Access to the recipes of `tests/corpus`, and a runner of checks on them.

use super::recipe::Recipe;
use super::{Scratch, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the directory of the recipes.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/corpus")
}

/// Returns the recipes of a directory of the corpus, by name.
pub fn recipes(folder: &str) -> Vec<Recipe> {
    let entries = fs::read_dir(corpus().join(folder)).expect("the corpus");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ctf"));
    paths.sort();
    let recipes: Vec<Recipe> = paths.iter().map(|path| Recipe::read(path)).collect();
    assert!(recipes.len() > 10, "the corpus has only {} recipes in {folder}", recipes.len());
    recipes
}

/// Runs `check` on all recipes of a directory, several in parallel; `check` returns the
/// differences.
pub fn for_each(folder: &str, check: impl Fn(&Recipe, &Path) -> Vec<String> + Sync) {
    let scratch = Scratch::new(folder);
    let recipes = recipes(folder);
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(recipe) = recipes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    recipe.write(&scratch.0);
                    for error in check(recipe, &scratch.0) {
                        wrong.lock().expect("a lock").push(format!("{}: {error}", recipe.name));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("a lock");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Describes the difference between two outputs; `None` if they are equal.
pub fn differs(what: &str, expected: &[u8], got: &[u8]) -> Option<String> {
    (expected != got).then(|| format!("{what}\nexpected:\n{}got:\n{}", text(expected), text(got)))
}

/// Returns the losses that a command reported, with their times. Trace and stream are removed, as
/// they have other names in a written trace.
pub fn losses(output: &Output) -> String {
    let messages = text(&output.stderr);
    let losses = messages.lines().filter_map(|line| line.split_once(" in trace"));
    losses.map(|(loss, _)| format!("{loss}\n")).collect()
}

/// Returns the expected output beside a recipe; empty if there is no file.
pub fn expectation(folder: &str, name: &str, extension: &str) -> Vec<u8> {
    // Empty output has no file.
    fs::read(corpus().join(folder).join(format!("{name}.{extension}"))).unwrap_or_default()
}

/// Returns true if an environment variable requests that the tests write the expectations before
/// they compare.
pub fn writes_expectations() -> bool {
    let asked = std::env::var_os("BLKKIN_WRITE_EXPECTATIONS").is_some();
    assert!(!(asked && std::env::var_os("CI").is_some()), "expectations are written by hand");
    asked
}
