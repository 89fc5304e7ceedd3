//! Checks of names and paths from the network, which become names of files and directories.

/// Maximum size of a name, which is a file's name: 255 bytes.
const NAME_BYTES_MAX: usize = 255;
/// Maximum size of a path, in bytes, without its NUL.
pub(crate) const PATH_BYTES_MAX: usize = 4095;

/// Returns true if `name` can be the name of a file in any directory: not empty, no `/`, no control
/// character, and no dot at its start, so that it is neither hidden nor above the directory.
pub fn is_component(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.chars().any(|c| c == '/' || c.is_control())
}

/// Returns `path` with each component made a valid name: a dot at its start and control characters
/// are replaced by `_`. `None` if the path is absolute, has an empty component, `.` or `..`, or a
/// component that is too long. An empty path has no component.
pub(crate) fn sanitized_path(path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(String::new());
    }
    let component = |name: &str| {
        let mut name = name.replace(char::is_control, "_");
        if name == "." || name == ".." {
            return None;
        }
        if name.starts_with('.') {
            name.replace_range(..1, "_");
        }
        is_component(&name).then_some(name)
    };
    let path = path.split('/').map(component).collect::<Option<Vec<String>>>()?.join("/");
    (path.len() <= PATH_BYTES_MAX).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_visible_components() {
        for name in ["a", "web-1", "uid", "64-bit", "a b", "ü", "a..b"] {
            assert!(is_component(name), "{name}");
        }
        let long = "a".repeat(256);
        for name in ["", ".", "..", ".hidden", "a/b", "/", "a\0b", "a\nb", &long] {
            assert!(!is_component(name), "{name:?}");
        }
    }

    #[test]
    fn paths_stay_below_their_directory() {
        for path in ["", "ust/uid/0/64-bit", "kernel"] {
            assert_eq!(sanitized_path(path).as_deref(), Some(path));
        }
        assert_eq!(sanitized_path("ust/.a\n-1").as_deref(), Some("ust/_a_-1"));
        let long = "a/".repeat(3000) + "a";
        for path in ["/", "/a", "a/", "a//b", "../x", "a/../../x", "a/./b", &long] {
            assert_eq!(sanitized_path(path), None, "{path:?}");
        }
    }
}
