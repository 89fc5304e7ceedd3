//! Finds import cycles among the modules of one crate.
//!
//! Each file is a module. It depends on every module that it names in a path, in a `use` or in
//! code; such a path begins with `crate`, `super`, `self` or the name of a child module. `pub use`
//! is a facade and no dependency; a path to an item that is re-exported by name leads to the module
//! that defines the item. Test code does not count.

use std::collections::{BTreeMap, BTreeSet};

/// The path of a module from its crate's root, such as `["layers", "graph"]`.
type ModulePath = Vec<String>;

/// A source file of a crate: its path below `src`, and its text.
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
}

/// Returns the import cycles, each as the list of its files. A cycle is a strongly connected
/// component of at least two modules.
pub(super) fn cycles(sources: &[Source]) -> Vec<Vec<String>> {
    let modules: BTreeMap<ModulePath, Module> = sources
        .iter()
        .filter(|source| !is_for_tests(&source.file))
        .map(|source| (module_path(&source.file), Module::parse(source)))
        .collect();
    let paths: Vec<&ModulePath> = modules.keys().collect();
    let edges: Vec<BTreeSet<usize>> = modules
        .iter()
        .map(|(own, module)| {
            let targets = module.paths.iter().filter_map(|path| target(&modules, own, path));
            let targets = targets.filter(|path| path != own);
            targets.filter_map(|path| paths.binary_search(&&path).ok()).collect()
        })
        .collect();
    let groups = connected(&edges).into_iter().filter(|group| group.len() > 1);
    let file = |index: &usize| modules[paths[*index]].file.clone();
    groups.map(|group| group.iter().map(file).collect()).collect()
}

/// Returns true if a file has only test code, judged by its name and folders.
fn is_for_tests(file: &str) -> bool {
    file.split('/').any(|part| matches!(part, "tests.rs" | "tests" | "testing.rs" | "testing"))
}

/// Returns `layers::graph` for `layers/graph.rs` and `layers/graph/mod.rs`, and the crate's root
/// for `lib.rs` and `main.rs`.
fn module_path(file: &str) -> ModulePath {
    let name = file.strip_suffix(".rs").unwrap_or(file);
    let mut path: ModulePath = name.split('/').map(str::to_owned).collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

struct Module {
    file: String,
    /// Paths in the code and in `use`, except re-exported paths, split at `::`.
    paths: BTreeSet<Vec<String>>,
    /// Re-exported paths, by the name under which this module exports them.
    exports: BTreeMap<String, Vec<String>>,
}

impl Module {
    fn parse(source: &Source) -> Module {
        let tokens = tokens(&source.text);
        let mut module =
            Module { file: source.file.clone(), paths: BTreeSet::new(), exports: BTreeMap::new() };
        let mut at = 0;
        let mut is_public = false;
        while at < tokens.len() {
            match tokens[at].as_str() {
                "#" if tokens[at + 1..].iter().map(String::as_str).take(6).eq(CFG_TEST) => {
                    at = end_of_item(&tokens, at + 7);
                    continue;
                }
                "pub" => {
                    is_public = true;
                    // `pub(crate) use` is a re-export within the crate, too.
                    at = match tokens.get(at + 1).map(String::as_str) {
                        Some("(") => skip_group(&tokens, at + 1),
                        _ => at + 1,
                    };
                    continue;
                }
                "use" => {
                    let mut found = Vec::new();
                    at = use_tree(&tokens, at + 1, &[], &mut found);
                    for (path, name) in found {
                        if is_public {
                            module.exports.insert(name, path);
                        } else {
                            module.paths.insert(path);
                        }
                    }
                }
                first if is_name(first) => {
                    let path = path_at(&tokens, at);
                    at += 2 * path.len() - 1;
                    let is_qualified = path.len() > 1;
                    if is_qualified {
                        module.paths.insert(path);
                    }
                }
                _ => at += 1,
            }
            is_public = false;
        }
        module
    }
}

/// Tokens after `#` of the attribute that limits an item to tests.
const CFG_TEST: [&str; 6] = ["[", "cfg", "(", "test", ")", "]"];

/// Returns the module of this crate to which a path in module `own` refers; `None` if the path
/// leads elsewhere.
fn target(
    modules: &BTreeMap<ModulePath, Module>,
    own: &ModulePath,
    path: &[String],
) -> Option<ModulePath> {
    resolve(modules, own, path, 0)
}

fn resolve(
    modules: &BTreeMap<ModulePath, Module>,
    own: &ModulePath,
    path: &[String],
    depth: usize,
) -> Option<ModulePath> {
    let mut module = own.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            module.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                module.pop()?;
                rest = &rest[1..];
            }
        }
        child => {
            let mut inner = own.clone();
            inner.push(child.to_owned());
            modules.get(&inner)?;
        }
    }
    while let Some(part) = rest.first() {
        let mut inner = module.clone();
        inner.push(part.clone());
        if modules.contains_key(&inner) {
            module = inner;
            rest = &rest[1..];
            continue;
        }
        // The path's next name is an item, which may be a re-export.
        let export = modules.get(&module).and_then(|module| module.exports.get(part));
        match export {
            Some(behind) if depth < DEPTH_MAX => {
                return resolve(modules, &module, behind, depth + 1).or(Some(module));
            }
            _ => break,
        }
    }
    Some(module)
}

/// Maximum number of re-exports that are followed for one path.
const DEPTH_MAX: usize = 8;

/// Reads a `use` tree such as `a::{b, c as d}` into paths with their local names. Returns the index
/// of the token after the tree.
fn use_tree(
    tokens: &[String],
    mut at: usize,
    prefix: &[String],
    found: &mut Vec<(Vec<String>, String)>,
) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = use_tree(tokens, at, &path, found);
                    if tokens.get(at).is_some_and(|token| token == ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            "as" => {
                let name = tokens.get(at + 1).cloned().unwrap_or_default();
                found.push((path, name));
                return at + 2;
            }
            "*" => {
                found.push((path, "*".to_owned()));
                return at + 1;
            }
            name if is_name(name) => {
                path.push(name.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    if path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    let name = path.last().cloned().unwrap_or_default();
    found.push((path, name));
    at
}

/// Reads the path that begins at a name.
fn path_at(tokens: &[String], mut at: usize) -> Vec<String> {
    let mut path = vec![tokens[at].clone()];
    while tokens.get(at + 1).is_some_and(|token| token == "::")
        && tokens.get(at + 2).is_some_and(|token| is_name(token))
    {
        path.push(tokens[at + 2].clone());
        at += 2;
    }
    path
}

/// Returns the index of the token after an item, which ends with its block or its semicolon.
fn end_of_item(tokens: &[String], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            ";" => return at + 1,
            "{" => return skip_group(tokens, at),
            "(" | "[" => at = skip_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Returns the index of the token after a bracketed group.
fn skip_group(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Splits Rust source into names, `::` and single characters. Comments, and string and character
/// literals, are omitted.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
        } else if let Some(behind) = after_literal(rest) {
            rest = behind;
        } else if is_name(rest) {
            let end = rest.find(|sign: char| !sign.is_alphanumeric() && sign != '_');
            let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
            tokens.push(name.to_owned());
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("::") {
            tokens.push("::".to_owned());
            rest = behind;
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    tokens
}

/// Returns the text after the string or character literal at the start of `text`; `None` if `text`
/// does not start with such a literal.
fn after_literal(text: &str) -> Option<&str> {
    let raw = text.trim_start_matches(['b', 'c']);
    if text.len() - raw.len() <= 1
        && let Some(hashes) = raw.strip_prefix('r')
    {
        let quote = hashes.trim_start_matches('#');
        if let Some(inner) = quote.strip_prefix('"') {
            let end = format!("\"{}", "#".repeat(hashes.len() - quote.len()));
            return Some(inner.split_once(&end).map_or("", |(_, behind)| behind));
        }
    }
    let quoted = if text.len() - raw.len() <= 1 { raw } else { text };
    if let Some(inner) = quoted.strip_prefix('"') {
        let mut is_escaped = false;
        for (index, byte) in inner.bytes().enumerate() {
            match byte {
                b'"' if !is_escaped => return Some(&inner[index + 1..]),
                _ => is_escaped = byte == b'\\' && !is_escaped,
            }
        }
        return Some("");
    }
    let inner = quoted.strip_prefix('\'')?;
    // A lifetime has no closing quote after one character.
    let mut signs = inner.char_indices();
    let (_, first) = signs.next()?;
    if first == '\\' {
        let end = inner[1..].char_indices().skip(1).find(|(_, sign)| *sign == '\'')?.0;
        return Some(&inner[end + 2..]);
    }
    let (next, second) = signs.next()?;
    (second == '\'').then(|| &inner[next + 1..])
}

/// Returns the strongly connected components of a graph (Tarjan's algorithm).
fn connected(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    struct Search<'e> {
        edges: &'e [BTreeSet<usize>],
        index: Vec<Option<usize>>,
        low: Vec<usize>,
        stack: Vec<usize>,
        count: usize,
        groups: Vec<Vec<usize>>,
    }
    impl Search<'_> {
        fn visit(&mut self, node: usize) {
            self.index[node] = Some(self.count);
            self.low[node] = self.count;
            self.count += 1;
            self.stack.push(node);
            let edges = self.edges;
            for &next in &edges[node] {
                match self.index[next] {
                    None => {
                        self.visit(next);
                        self.low[node] = self.low[node].min(self.low[next]);
                    }
                    Some(index) if self.stack.contains(&next) => {
                        self.low[node] = self.low[node].min(index);
                    }
                    Some(_) => {}
                }
            }
            if self.index[node] == Some(self.low[node]) {
                let start = self.stack.iter().position(|one| *one == node).unwrap_or(0);
                let mut group = self.stack.split_off(start);
                group.sort_unstable();
                self.groups.push(group);
            }
        }
    }
    let mut search = Search {
        edges,
        index: vec![None; edges.len()],
        low: vec![0; edges.len()],
        stack: Vec::new(),
        count: 0,
        groups: Vec::new(),
    };
    for node in 0..edges.len() {
        if search.index[node].is_none() {
            search.visit(node);
        }
    }
    search.groups
}

#[cfg(test)]
mod tests {
    use super::{Source, cycles};

    /// Returns the cycles among files, given as names with their text.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let source =
            |&(file, text): &(&str, &str)| Source { file: file.to_owned(), text: text.to_owned() };
        cycles(&files.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn imports_in_both_directions_are_a_cycle() {
        let cases: [&[(&str, &str)]; 6] = [
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "use crate::b::X;"),
                ("b.rs", "use super::a::{Y, Z};"),
            ],
            &[
                ("lib.rs", ""),
                ("a.rs", "fn f() { crate::b::g::<u8>() }"),
                ("b.rs", "use crate::{a::Y as Q};"),
            ],
            // Through a child module.
            &[
                ("a.rs", "mod b; use b::c::X;"),
                ("a/b.rs", ""),
                ("a/b/c.rs", "use super::super::Y;"),
            ],
            // Through a re-export.
            &[("lib.rs", "pub use a::X;"), ("a.rs", "use crate::b::Y;"), ("b.rs", "use crate::X;")],
            &[
                ("lib.rs", "pub(crate) use a::X as Z;"),
                ("a.rs", "use crate::b::Y;"),
                ("b.rs", "use crate::Z;"),
            ],
            // After literals that contain quotes and comment signs.
            &[
                ("a.rs", "const C: char = '\\''; const D: &str = r#\"\"//\"#; use crate::b::X;"),
                ("b.rs", "fn f<'a>(x: &'a crate::a::Y) {}"),
            ],
        ];
        for case in cases {
            let found = found(case);
            assert_eq!(found.len(), 1, "{case:?}: {found:?}");
        }
    }

    #[test]
    fn facades_tests_comments_and_text_are_no_imports() {
        let cases: [&[(&str, &str)]; 5] = [
            &[("lib.rs", "mod a; pub use a::X;"), ("a.rs", "use crate::X;")],
            &[
                ("a.rs", "use crate::b::X;"),
                ("b.rs", "#[cfg(test)] mod tests { use crate::a::Y; }"),
            ],
            &[
                ("a.rs", "use crate::b::X;"),
                ("b.rs", "// crate::a::Y\n/* crate::a */ const S: &str = \"crate::a::Y\";"),
            ],
            &[("a.rs", "use crate::b::X;"), ("b.rs", "#[cfg(test)] use crate::a::Y; fn f() {}")],
            &[("a.rs", "use crate::b::X;"), ("b.rs", ""), ("b/tests.rs", "use crate::a::Y;")],
        ];
        for case in cases {
            assert_eq!(found(case), Vec::<Vec<String>>::new(), "{case:?}");
        }
    }

    #[test]
    fn each_cycle_is_told_with_its_files() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("a.rs", "use crate::b::X;"),
            ("b.rs", "use crate::c::X;"),
            ("c.rs", "use crate::a::X; use crate::d::Y;"),
            ("d.rs", "use crate::e::X;"),
            ("e.rs", "use crate::d::X;"),
        ];
        assert_eq!(found(&files), [vec!["d.rs", "e.rs"], vec!["a.rs", "b.rs", "c.rs"]]);
    }
}
