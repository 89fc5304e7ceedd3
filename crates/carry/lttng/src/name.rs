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

/// Returns true if each component of `path` is a valid name; an empty path has none.
pub fn is_relative_path(path: &str) -> bool {
    path.len() <= PATH_BYTES_MAX && (path.is_empty() || path.split('/').all(is_component))
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
            assert!(is_relative_path(path), "{path}");
        }
        let long = "a/".repeat(3000);
        for path in ["/", "/a", "a/", "a//b", "../x", "a/../../x", "a/./b", &long] {
            assert!(!is_relative_path(path), "{path:?}");
        }
    }
}
