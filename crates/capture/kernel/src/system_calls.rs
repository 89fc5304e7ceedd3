//! Numbers of the system calls of x86-64, by the names that the kernel's tracepoints have.
//!
//! The names of tracepoints are those of the kernel's functions. Some differ from the names that
//! programs use, as `newstat` and `stat`.

/// Names of system calls from number 0, in the order of their numbers. The kernel has no function
/// for some of them, and no tracepoint.
const FROM_0: &str = "\
    read write open close newstat newfstat newlstat poll lseek mmap mprotect munmap brk \
    rt_sigaction rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe \
    select sched_yield mremap msync mincore madvise shmget shmat shmctl dup dup2 pause nanosleep \
    getitimer alarm setitimer getpid sendfile64 socket connect accept sendto recvfrom sendmsg \
    recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt clone \
    fork vfork execve exit wait4 kill newuname semget semop semctl shmdt msgget msgsnd msgrcv \
    msgctl fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename \
    mkdir rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown umask \
    gettimeofday getrlimit getrusage sysinfo times ptrace getuid syslog getgid setuid setgid \
    geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups \
    setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset \
    rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod uselib \
    personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam sched_getparam \
    sched_setscheduler sched_getscheduler sched_get_priority_max sched_get_priority_min \
    sched_rr_get_interval mlock munlock mlockall munlockall vhangup modify_ldt pivot_root sysctl \
    prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount umount swapon \
    swapoff reboot sethostname setdomainname iopl ioperm create_module init_module delete_module \
    get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall \
    security gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr \
    listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex \
    sched_setaffinity sched_getaffinity set_thread_area io_setup io_destroy io_getevents \
    io_submit io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old \
    remap_file_pages getdents64 set_tid_address restart_syscall semtimedop fadvise64 \
    timer_create timer_settime timer_gettime timer_getoverrun timer_delete clock_settime \
    clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes \
    vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive \
    mq_notify mq_getsetattr kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get \
    inotify_init inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat \
    fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat \
    faccessat pselect6 ppoll unshare set_robust_list get_robust_list splice tee sync_file_range \
    vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create eventfd fallocate \
    timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 \
    inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init \
    fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg \
    setns getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr \
    sched_getattr renameat2 seccomp getrandom memfd_create kexec_file_load bpf execveat \
    userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc \
    pkey_free statx io_pgetevents rseq uretprobe uprobe";

/// Number of the first system call in [`FROM_424`]. Since Linux 5.1, new system calls have the same
/// numbers on all machines.
const SHARED_NUMBERS: u32 = 424;

/// Names of system calls from number 424, in the order of their numbers.
const FROM_424: &str = "\
    pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount \
    fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 \
    process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset \
    landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv \
    set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait \
    futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal \
    setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr \
    listns";

/// Returns the number of a system call by the name of its tracepoints without `sys_enter_`. Returns
/// `None` for names that this release does not list.
pub(crate) fn number(name: &str) -> Option<u32> {
    all().find(|call| call.1 == name).map(|call| call.0)
}

/// Returns the numbers and names of all system calls that this release knows, in the order of their
/// numbers.
fn all() -> impl Iterator<Item = (u32, &'static str)> {
    let first = (0..).zip(FROM_0.split_ascii_whitespace());
    first.chain((SHARED_NUMBERS..).zip(FROM_424.split_ascii_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::{all, number};
    use std::collections::HashSet;

    /// Entries at the ends of the table's two parts, and names that differ from those in programs,
    /// have the numbers of the kernel's table.
    #[test]
    fn numbers_are_those_of_the_kernel() {
        let known = [
            ("read", 0),
            ("newstat", 4),
            ("pread64", 17),
            ("sendfile64", 40),
            ("execve", 59),
            ("newuname", 63),
            ("umount", 166),
            ("openat", 257),
            ("newfstatat", 262),
            ("prlimit64", 302),
            ("rseq", 334),
            ("uprobe", 336),
            ("pidfd_send_signal", 424),
            ("io_uring_setup", 425),
            ("clone3", 435),
            ("cachestat", 451),
            ("file_setattr", 469),
        ];
        for entry in known {
            assert_eq!(number(entry.0), Some(entry.1), "{}", entry.0);
        }
        assert_eq!((number("nothing"), number("stat")), (None, None));
    }

    #[test]
    fn names_are_unique() {
        let names: HashSet<&str> = all().map(|call| call.1).collect();
        assert_eq!(names.len(), all().count());
    }
}
