//! Names of the kernel's errors.

use nix::errno::Errno;

/// Returns the name of an error, such as `ENOENT`; a number if the error has no name.
pub(crate) fn error_name(errno: i32) -> String {
    // The kernel restarts interrupted calls that return these errors, so programs do not see them.
    match errno {
        512 => "ERESTARTSYS".to_owned(),
        513 => "ERESTARTNOINTR".to_owned(),
        514 => "ERESTARTNOHAND".to_owned(),
        516 => "ERESTART_RESTARTBLOCK".to_owned(),
        _ => match Errno::from_raw(errno) {
            Errno::UnknownErrno => format!("E{errno}"),
            errno => format!("{errno:?}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_names() {
        let check = |errno, expected: &str| assert_eq!(error_name(errno), expected);
        check(2, "ENOENT");
        check(11, "EAGAIN");
        check(512, "ERESTARTSYS");
        check(4000, "E4000");
    }
}
