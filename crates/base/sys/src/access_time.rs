//! Times of access of files that one process writes and another one reads.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;

/// Makes reads through this descriptor leave the file's time of access. Without this, a read after
/// each write changes the file's inode, which can take as long as the read. Has no effect on files
/// of other users.
pub fn keep_access_time(file: &File) {
    if let Ok(flags) = fcntl_getfl(file) {
        let _ = fcntl_setfl(file, flags | OFlags::NOATIME);
    }
}

#[cfg(test)]
mod tests {
    use super::keep_access_time;
    use std::fs::File;
    use std::io::{Read, Write};

    /// A read after a write would change the time, unless the directory is mounted without times.
    #[test]
    fn reads_leave_the_time() {
        let name = format!("blkkin-access-time-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = File::create(&path).unwrap();
        let mut read = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        keep_access_time(&read);
        let before = read.metadata().unwrap().accessed().unwrap();
        for round in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            file.write_all(&[round]).unwrap();
            assert_eq!(read.read(&mut [0; 8]).unwrap(), 1);
        }
        assert_eq!(read.metadata().unwrap().accessed().unwrap(), before);
        assert!(read.write(&[0]).is_err(), "the mode stays");
    }
}
