//! Access to files with the rights of another user.

use crate::errno;
use std::io;

/// Runs `work` on this thread with the file rights of another user, who then owns new files.
/// Requires root; other processes can select only their own user. Supplementary groups are not
/// changed, so the process should have none.
///
/// Open files remain usable. If the rights cannot be set, returns an error without running `work`.
pub fn as_user<T>(uid: u32, gid: u32, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    /// Guard that restores the thread's file rights, also on panic.
    struct Restore {
        uid: libc::c_int,
        gid: libc::c_int,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            set(self.uid as u32, self.gid as u32);
        }
    }
    let (before, group_before) = set(uid, gid);
    let _restore = Restore { uid: before, gid: group_before };
    match current() == (uid, gid) {
        true => work(),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Returns the user id and the group id that determine this thread's rights on files.
fn current() -> (u32, u32) {
    let nobody = libc::uid_t::MAX;
    // SAFETY: plain integers are passed; for an invalid user, both calls only return the present
    // value.
    #[expect(unsafe_code)]
    errno::preserve(|| unsafe { (libc::setfsuid(nobody) as u32, libc::setfsgid(nobody) as u32) })
}

/// Sets the user id and the group id that determine this thread's rights on files. Returns the
/// previous ids.
fn set(uid: u32, gid: u32) -> (libc::c_int, libc::c_int) {
    // SAFETY: plain integers are passed. Both calls affect this thread only. The user is set last
    // when rights are dropped and first when they are restored, because only root may set the
    // group.
    #[expect(unsafe_code)]
    errno::preserve(|| unsafe {
        match uid {
            0 => {
                let uid = libc::setfsuid(uid);
                (uid, libc::setfsgid(gid))
            }
            _ => {
                let gid = libc::setfsgid(gid);
                (libc::setfsuid(uid), gid)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn files_belong_to_the_user_and_so_do_rights() {
        let directory =
            std::env::temp_dir().join(format!("blkkin-identity-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        if fs::metadata(&directory).unwrap().uid() != 0 {
            // Only root may act as another user.
            fs::remove_dir(&directory).unwrap();
            return;
        }
        let make = |name: &str| as_user(12345, 12346, || fs::write(directory.join(name), ""));
        assert!(make("closed").is_err());
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        make("open").unwrap();
        let made = fs::metadata(directory.join("open")).unwrap();
        assert_eq!((made.uid(), made.gid()), (12345, 12346));
        fs::write(directory.join("own"), "").unwrap();
        assert_eq!(fs::metadata(directory.join("own")).unwrap().uid(), 0);
        fs::remove_dir_all(directory).unwrap();
    }
}
