//! Lexical resolution of paths: symbolic links are not followed.

/// Maximum size of a path in bytes, the kernel's `PATH_MAX`. It limits the memory for paths that
/// hostile `chdir` calls would otherwise make longer and longer.
pub(crate) const PATH_SIZE_MAX: usize = 4096;

/// Returns the absolute path of `path` relative to the directory `base`, without `.` and `..`.
/// Returns `None` if `base` is needed and is no absolute path, or if the result is too long.
pub(crate) fn resolve(base: &str, path: &str) -> Option<String> {
    let mut result = String::with_capacity(base.len() + path.len() + 1);
    if !path.starts_with('/') {
        if !base.starts_with('/') {
            return None;
        }
        append(&mut result, base);
    }
    append(&mut result, path);
    if result.is_empty() {
        result.push('/');
    }
    (result.len() <= PATH_SIZE_MAX).then_some(result)
}

/// Appends the components of `path`; `..` removes the last component.
fn append(result: &mut String, path: &str) {
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => result.truncate(result.rfind('/').unwrap_or(0)),
            _ => {
                result.push('/');
                result.push_str(component);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_lexically() {
        let check = |base: &str, path: &str, expected: Option<&str>| {
            assert_eq!(resolve(base, path).as_deref(), expected, "{base} {path}");
        };
        check("/home/a", "b", Some("/home/a/b"));
        check("/home/a/", "./b//c/", Some("/home/a/b/c"));
        check("/home/a", "../../../../etc/x", Some("/etc/x"));
        check("/home", "..", Some("/"));
        check("/", ".", Some("/"));
        check("socket:[3]", "x", None);
        check("", "x", None);
        check("", "/a/../b", Some("/b"));
        check("/a", "/", Some("/"));
        check("/a", &"b/".repeat(4000), None);
        check("/a", &"../".repeat(100_000), Some("/"));
    }
}
