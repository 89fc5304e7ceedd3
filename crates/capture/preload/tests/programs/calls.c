/* Makes each of the calls that the library replaces, and other things by the first argument. `calls`
 * prints a line for each call: its name in the kernel, its result, and errno if the call changed it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);

#define UNCHANGED 4242
#define CALL(name, expression) (errno = UNCHANGED, note(name, (long)(expression)))

static long note(const char *name, long result)
{
	int error = errno;
	printf("%s %ld", name, result == -1 ? -(long)error : result);
	if (error != UNCHANGED)
		printf(" errno %d", error);
	printf("\n");
	return result;
}

static void require(int condition, const char *text)
{
	if (!condition) {
		fprintf(stderr, "failed: %s (%s)\n", text, strerror(errno));
		abort();
	}
}
#define REQUIRE(condition) require(condition, #condition)

/* A bad pointer, which the kernel refuses. */
static void *volatile bad = (void *)1;

static void paths(void)
{
	CALL("openat", open("missing", O_RDONLY));
	int fd = CALL("openat", open("file", O_CREAT | O_RDWR, 0640));
	CALL("openat", open64("file", O_RDONLY));
	CALL("openat", openat(AT_FDCWD, "file", O_WRONLY | O_APPEND));
	CALL("openat", openat64(99, "file", O_RDONLY));
	CALL("openat", openat(AT_FDCWD, ".", O_TMPFILE | O_RDWR, 0600));
	CALL("openat", __open_2("file", O_RDONLY));
	CALL("openat", __open64_2("missing", O_RDONLY));
	CALL("openat", __openat_2(AT_FDCWD, "file", O_RDONLY));
	CALL("openat", __openat64_2(AT_FDCWD, "file", O_RDONLY));
	CALL("openat", open(bad, O_RDONLY));
	CALL("openat", open(NULL, O_RDONLY));
	char *path = malloc(5000);
	memset(path, 'x', 4999);
	path[4999] = 0;
	CALL("openat", open(path, O_RDONLY));
	path[4000] = 0;
	CALL("openat", open(path, O_RDONLY));
	free(path);
	CALL("creat", creat("created", 0600));
	CALL("creat", creat64("missing/created", 0600));
	CALL("rename", rename("created", "renamed"));
	CALL("renameat", renameat(AT_FDCWD, "renamed", AT_FDCWD, "again"));
	CALL("renameat2", renameat2(AT_FDCWD, "again", AT_FDCWD, "file", RENAME_NOREPLACE));
	CALL("renameat2", renameat2(AT_FDCWD, "again", AT_FDCWD, "last", 0));
	CALL("renameat2", renameat2(AT_FDCWD, bad, AT_FDCWD, bad, 0xff));
	CALL("rename", rename(bad, "x"));
	CALL("truncate", truncate("last", 100));
	CALL("truncate", truncate64("last", -1));
	CALL("unlink", unlink("last"));
	CALL("unlinkat", unlinkat(AT_FDCWD, "last", 0));
	REQUIRE(mkdir("folder", 0700) == 0);
	int folder = CALL("openat", open("folder", O_RDONLY | O_DIRECTORY));
	CALL("chdir", chdir("folder"));
	CALL("chdir", chdir("missing"));
	CALL("fchdir", fchdir(folder));
	CALL("chdir", chdir(".."));
	CALL("rmdir", rmdir("folder"));
	CALL("rmdir", rmdir("folder"));
	CALL("close", close(fd));
	CALL("close", close(fd));
	CALL("close", close(-1));
}

static void transfers(void)
{
	char memory[64] = "0123456789";
	struct iovec parts[2] = { { memory, 4 }, { memory + 8, 4 } };
	int fd = CALL("openat", open("data", O_CREAT | O_RDWR | O_TRUNC, 0600));
	CALL("write", write(fd, memory, 10));
	CALL("write", write(fd, bad, 10));
	CALL("pwrite64", pwrite(fd, memory, 10, 5));
	CALL("pwrite64", pwrite64(fd, memory, 10, -5));
	CALL("writev", writev(fd, parts, 2));
	CALL("pwritev", pwritev(fd, parts, 2, 20));
	CALL("pwritev", pwritev64(fd, parts, 2, 28));
	CALL("pwritev2", pwritev2(fd, parts, 2, 36, 0));
	CALL("pwritev2", pwritev64v2(fd, parts, 2, 36, RWF_DSYNC));
	CALL("lseek", lseek(fd, 3, SEEK_SET));
	CALL("lseek", lseek64(fd, -100, SEEK_CUR));
	CALL("read", read(fd, memory, 4));
	CALL("read", __read_chk(fd, memory, 4, sizeof memory));
	CALL("read", read(fd, bad, 4));
	CALL("read", read(99, memory, 4));
	CALL("pread64", pread(fd, memory, 4, 1));
	CALL("pread64", pread64(fd, memory, 4, 2));
	CALL("pread64", __pread_chk(fd, memory, 4, 2, sizeof memory));
	CALL("pread64", __pread64_chk(fd, memory, 4, 2, sizeof memory));
	CALL("readv", readv(fd, parts, 2));
	CALL("preadv", preadv(fd, parts, 2, 4));
	CALL("preadv", preadv64(fd, parts, 2, 1000));
	CALL("preadv2", preadv2(fd, parts, 2, 4, RWF_NOWAIT | RWF_HIPRI));
	CALL("preadv2", preadv64v2(fd, parts, 2, 4, 0));
	CALL("fsync", fsync(fd));
	CALL("fdatasync", fdatasync(99));
	CALL("syncfs", syncfs(99));
	CALL("sync_file_range", sync_file_range(fd, 0, 10, SYNC_FILE_RANGE_WRITE));
	CALL("ftruncate", ftruncate(fd, 5000));
	CALL("ftruncate", ftruncate64(fd, -1));
	CALL("fallocate", fallocate(fd, 0xffff, 0, 8192));
	CALL("fallocate", fallocate64(99, 0, 0, 8192));
	errno = UNCHANGED;
	int error = posix_fallocate(99, 0, 4096);
	note("fallocate", -error);
	void *hint = (void *)0x10000000;
	CALL("mmap", mmap(hint, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0));
	CALL("mmap", mmap64(NULL, 4096, PROT_READ, MAP_PRIVATE, 99, 4096));
	REQUIRE(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);

	int pair[2], other[2];
	CALL("pipe2", pipe(pair));
	CALL("pipe2", pipe2(other, O_NONBLOCK));
	CALL("pipe2", pipe(bad));
	off_t from = 0, to = 100;
	CALL("sendfile64", sendfile(pair[1], fd, &from, 10));
	CALL("sendfile64", sendfile64(pair[1], 99, NULL, 10));
	CALL("tee", tee(pair[0], other[1], 10, 0));
	from = 0;
	CALL("copy_file_range", copy_file_range(fd, &from, fd, &to, 10, 0));
	CALL("splice", splice(pair[0], NULL, other[1], NULL, 10, 0));
	CALL("splice", splice(fd, NULL, fd, NULL, 10, 0));
	CALL("read", read(other[0], memory, 64));
	CALL("read", read(other[0], memory, 64));
}

static void descriptors(void)
{
	int fd = CALL("openat", open("/dev/zero", O_RDONLY));
	CALL("dup", dup(fd));
	CALL("dup", dup(99));
	CALL("dup2", dup2(fd, 50));
	CALL("dup2", dup2(fd, -1));
	CALL("dup3", dup3(fd, 51, O_CLOEXEC));
	CALL("dup3", dup3(fd, fd, 0));
	CALL("fcntl", fcntl(fd, F_DUPFD, 60));
	CALL("fcntl", fcntl(fd, F_DUPFD_CLOEXEC, 60));
	CALL("fcntl", fcntl(61, F_GETFD));
	CALL("fcntl", fcntl(61, F_SETFD, 0));
	CALL("fcntl", fcntl(99, F_GETFL));
	CALL("eventfd2", eventfd(1, EFD_CLOEXEC));
	CALL("epoll_create", epoll_create(1));
	CALL("epoll_create1", epoll_create1(EPOLL_CLOEXEC));
	CALL("memfd_create", memfd_create("memory", MFD_CLOEXEC));
	CALL("memfd_create", memfd_create(bad, 0));
	CALL("timerfd_create", timerfd_create(CLOCK_MONOTONIC, 0));
	sigset_t signals;
	sigemptyset(&signals);
	CALL("signalfd4", signalfd(-1, &signals, 0));
	CALL("inotify_init1", inotify_init1(0));
	CALL("close_range", close_range(60, 70, 0));
	CALL("close_range", close_range(70, 60, 0));
}

static void sockets(void)
{
	char memory[64] = "message";
	int pair[2];
	CALL("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	CALL("socketpair", socketpair(AF_UNIX, 99, 0, pair));
	CALL("sendto", send(pair[0], memory, 7, MSG_NOSIGNAL));
	CALL("recvfrom", recv(pair[1], memory, 3, 0));
	CALL("recvfrom", __recv_chk(pair[1], memory, 2, sizeof memory, 0));
	CALL("recvfrom", __recvfrom_chk(pair[1], memory, 64, 64, MSG_DONTWAIT, NULL, NULL));
	CALL("recvfrom", recv(pair[1], memory, 64, MSG_DONTWAIT));
	struct timeval limit = { 0, 30000 };
	REQUIRE(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	CALL("recvfrom", recv(pair[1], memory, 64, 0));
	struct iovec part = { memory, 5 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	CALL("sendmsg", sendmsg(pair[0], &message, 0));
	CALL("recvmsg", recvmsg(pair[1], &message, 0));
	CALL("recvmsg", recvmsg(pair[1], bad, 0));
	struct mmsghdr messages[1] = { { .msg_hdr = message } };
	CALL("sendmmsg", sendmmsg(pair[0], messages, 1, 0));
	CALL("recvmmsg", recvmmsg(pair[1], messages, 1, 0, NULL));

	struct sockaddr_un local = { .sun_family = AF_UNIX, .sun_path = "socket" };
	struct sockaddr_un of_peer;
	socklen_t size = sizeof local, of_peer_size = sizeof of_peer;
	struct sockaddr *address = (struct sockaddr *)&local, *peer = (struct sockaddr *)&of_peer;
	int server = CALL("socket", socket(AF_UNIX, SOCK_STREAM, 0));
	CALL("bind", bind(server, address, size));
	CALL("bind", bind(server, address, size));
	REQUIRE(listen(server, 8) == 0);
	int client = CALL("socket", socket(AF_UNIX, SOCK_STREAM, 0));
	CALL("connect", connect(client, address, size));
	CALL("accept", accept(server, peer, &of_peer_size));
	strcpy(local.sun_path, "missing");
	CALL("connect", connect(client, address, size));

	struct sockaddr_in loop = { .sin_family = AF_INET };
	loop.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address = (struct sockaddr *)&loop, size = sizeof loop;
	server = CALL("socket", socket(AF_INET, SOCK_STREAM, 0));
	CALL("bind", bind(server, address, size));
	REQUIRE(getsockname(server, address, &size) == 0 && listen(server, 8) == 0);
	client = CALL("socket", socket(AF_INET, SOCK_STREAM, 0));
	CALL("connect", connect(client, address, size));
	of_peer_size = sizeof of_peer;
	CALL("accept4", accept4(server, peer, &of_peer_size, SOCK_CLOEXEC));
	CALL("accept4", accept4(server, NULL, NULL, -1));
	int datagrams = CALL("socket", socket(AF_INET, SOCK_DGRAM, 0));
	loop.sin_port = 0;
	CALL("bind", bind(datagrams, address, size));
	REQUIRE(getsockname(datagrams, address, &size) == 0);
	CALL("sendto", sendto(datagrams, memory, 5, 0, address, size));
	of_peer_size = sizeof of_peer;
	CALL("recvfrom", recvfrom(datagrams, memory, 64, 0, peer, &of_peer_size));
	CALL("connect", connect(datagrams, bad, 16));
	CALL("connect", connect(99, address, size));
}

static void on_one_cpu(void)
{
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(sched_getcpu(), &first);
	REQUIRE(sched_setaffinity(0, sizeof first, &first) == 0);
}

static void *reads(void *argument)
{
	char byte;
	for (int turn = 0; turn < 200; turn++)
		REQUIRE(read(*(int *)argument, &byte, 1) == 1);
	return NULL;
}

static void threads(void)
{
	int fd = open("/dev/zero", O_RDONLY);
	pthread_t all[4];
	for (int index = 0; index < 4; index++)
		REQUIRE(pthread_create(&all[index], NULL, reads, &fd) == 0);
	for (int index = 0; index < 4; index++)
		REQUIRE(pthread_join(all[index], NULL) == 0);
}

static volatile int zero, null, written, turns;

static void handle(int signal)
{
	(void)signal;
	int before = errno;
	REQUIRE(write(null, "x", 1) == 1);
	REQUIRE(write(-1, "x", 1) == -1 && errno == EBADF);
	written++;
	errno = before;
}

static void *interrupts(void *argument)
{
	int last = -1;
	while (turns < 1000)
		if (turns != last) {
			last = turns;
			pthread_kill(*(pthread_t *)argument, SIGUSR1);
		}
	return NULL;
}

static void signals(void)
{
	char byte;
	zero = open("/dev/zero", O_RDONLY);
	null = open("/dev/null", O_WRONLY);
	struct sigaction action = { .sa_handler = handle };
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	pthread_t self = pthread_self(), other;
	REQUIRE(pthread_create(&other, NULL, interrupts, &self) == 0);
	for (; turns < 1000; turns++) {
		errno = UNCHANGED;
		REQUIRE(read(zero, &byte, 1) == 1 && errno == UNCHANGED);
		REQUIRE(read(99, &byte, 1) == -1 && errno == EBADF);
	}
	REQUIRE(pthread_join(other, NULL) == 0);
	printf("%d\n", written);
}

static void *blocks(void *argument)
{
	char byte;
	read(*(int *)argument, &byte, 1);
	return NULL;
}

static void cancels(void)
{
	int pair[2];
	pthread_t other;
	void *result;
	REQUIRE(pipe(pair) == 0);
	REQUIRE(pthread_create(&other, NULL, blocks, &pair[0]) == 0);
	usleep(50000);
	REQUIRE(pthread_cancel(other) == 0 && pthread_join(other, &result) == 0);
	REQUIRE(result == PTHREAD_CANCELED);
	/* `dup` is no cancellation point. */
	REQUIRE(pthread_cancel(pthread_self()) == 0);
	dup(pair[0]);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void forks(void)
{
	open("/dev/null", O_RDONLY);
	pid_t child = fork();
	if (child == 0) {
		open("of-child", O_CREAT | O_RDWR, 0600);
		_exit(0);
	}
	int status;
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);
	open("of-parent", O_RDONLY);
}

static void vforks(void)
{
	pid_t child = vfork();
	if (child == 0) {
		dup2(0, 99);
		close(98);
		_exit(7);
	}
	int status;
	REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
	close(97);
}

static void closes(void)
{
	for (int fd = 3; fd < 700; fd++)
		close(fd);
	REQUIRE(open("file", O_CREAT | O_RDWR, 0600) == 3);
	closefrom(3);
}

static void *sleeps(void *argument)
{
	pause();
	return argument;
}

static void bench(long count)
{
	char byte;
	/* Calls on descriptors take longer in a process of several threads, as with the tracer's. */
	pthread_t other;
	REQUIRE(pthread_create(&other, NULL, sleeps, NULL) == 0);
	int fd = open("/dev/zero", O_RDONLY);
	double best = 1e9;
	for (int round = 0; round < 20; round++) {
		struct timespec begin, end;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (long turn = 0; turn < count; turn++)
			read(fd, &byte, 1);
		clock_gettime(CLOCK_MONOTONIC, &end);
		double ns = (end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec);
		if (ns / count < best)
			best = ns / count;
		usleep(30000);
	}
	printf("%.1f\n", best);
}

int main(int count, char **arguments)
{
	const char *mode = count > 1 ? arguments[1] : "";
	on_one_cpu();
	if (!strcmp(mode, "calls")) {
		paths();
		transfers();
		descriptors();
		sockets();
	} else if (!strcmp(mode, "threads")) {
		threads();
	} else if (!strcmp(mode, "signals")) {
		signals();
	} else if (!strcmp(mode, "cancels")) {
		cancels();
	} else if (!strcmp(mode, "forks")) {
		forks();
	} else if (!strcmp(mode, "vforks")) {
		vforks();
	} else if (!strcmp(mode, "closes")) {
		closes();
	} else if (!strcmp(mode, "bench")) {
		bench(atol(arguments[2]));
	}
	return 0;
}
