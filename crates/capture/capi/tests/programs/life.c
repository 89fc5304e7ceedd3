/* Forks, sandboxes itself, closes descriptors or ends, as its first argument selects. All modes but
 * "sandboxes" wait for lines of input and record annotations. */
#define _GNU_SOURCE
#include <blkkin.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct blkin_endpoint endpoint;
static struct blkin_trace trace;

static void record(int number)
{
	blkkin_keyval_integer(&trace, NULL, BLKKIN_INFO, "number", number);
}

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

static int next(void)
{
	int c;

	do
		c = getchar();
	while (c != '\n' && c != EOF);
	return c != EOF;
}

static void counts(void)
{
	int number = 0;

	while (next()) {
		record(number++);
		say("done");
	}
}

/* Forbids all of its threads, at once, the system call rseq, which a new thread makes at first. */
static int sandboxes(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_rseq, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		return 7;
	usleep(20000);
	return 0;
}

/* Forks a child for each line, which records ten annotations and nothing else. */
static void forks(void)
{
	int number = 0, status;

	while (next()) {
		pid_t child = fork();

		if (child == 0) {
			for (int i = 0; i < 10; i++)
				record(10 * number + i);
			_exit(0);
		}
		number++;
		if (waitpid(child, &status, 0) != child || status != 0)
			abort();
		say("done");
	}
}

/* Makes a user namespace, in a child for each line. Only a single-threaded process can do that. */
static void unshares(void)
{
	int number = 0, status;

	while (next()) {
		pid_t child = fork();

		if (child == 0) {
			if (unshare(CLONE_NEWUSER) != 0)
				_exit(1);
			record(number);
			_exit(0);
		}
		number++;
		if (waitpid(child, &status, 0) != child)
			abort();
		say(status == 0 ? "done" : "not permitted");
	}
}

/* Closes all files but the standard ones, opens its own under the numbers 3 to 699, and checks that
 * it stays unchanged. */
static void closes(void)
{
	char path[] = "/tmp/blkkin-life-XXXXXX";
	int file = mkstemp(path), number;
	struct stat status;

	if (file < 0 || file > 500 || dup2(file, 3) != 3)
		abort();
	unlink(path);
	for (number = 4; number < 4096; number++)
		close(number);
	for (number = 4; number < 700; number++)
		if (dup2(3, number) != number)
			abort();
	say("closed");
	counts();
	for (number = 3; number < 700; number++)
		if (fstat(number, &status) != 0 || status.st_size != 0)
			abort();
	if (lseek(3, 0, SEEK_CUR) != 0)
		abort();
}

/* Replaces its standard streams slowly, like an old daemon. */
static void replaces(void)
{
	int input, number;

	next();
	input = dup(0);
	close(0);
	close(1);
	close(2);
	usleep(700000);
	if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1 || dup(0) != 2)
		_exit(9);
	usleep(200000);
	record(7);
	for (number = 0; number < 3; number++)
		if (lseek(number, 0, SEEK_CUR) != 0)
			_exit(8);
	while (read(input, &number, 1) > 0)
		;
}

static int count(const char *folder)
{
	DIR *directory = opendir(folder);
	int found = 0;

	while (readdir(directory))
		found++;
	closedir(directory);
	return found;
}

static void plugs(const char *library)
{
	int turn, threads = 0, descriptors = 0;
	void *plugin;

	for (turn = 0; turn < 1000; turn++) {
		int (*record_event)(const struct blkin_trace *, const struct blkin_endpoint *,
				    blkkin_level, const char *);

		plugin = dlopen(library, RTLD_NOW);
		if (!plugin)
			abort();
		*(void **)&record_event = dlsym(plugin, "blkkin_event");
		if (record_event(&trace, &endpoint, BLKKIN_INFO, "plugged") != 0)
			abort();
		dlclose(plugin);
		if (turn == 0) {
			/* The test goes on once its agent has accepted the program. */
			say("plugged");
			next();
			threads = count("/proc/self/task");
			descriptors = count("/proc/self/fd");
		}
	}
	if (count("/proc/self/task") != threads || count("/proc/self/fd") != descriptors)
		abort();
	say("done");
	next();
}

static void *run(void *argument)
{
	(void)argument;
	for (;;)
		record(1);
	return NULL;
}

static void *end(void *argument)
{
	(void)argument;
	exit(0);
}

static int ends;

__attribute__((destructor)) static void at_the_end(void)
{
	if (ends)
		record(99);
}

static void at_exit(void)
{
	record(98);
}

static void exits(void)
{
	pthread_t thread;

	next();
	ends = 1;
	atexit(at_exit);
	if (pthread_create(&thread, NULL, run, NULL) || pthread_create(&thread, NULL, run, NULL))
		abort();
	usleep(2000);
	if (pthread_create(&thread, NULL, end, NULL))
		abort();
	run(NULL);
}

static void spawns(void)
{
	char *arguments[] = { (char *)"true", NULL };
	int turn, status;
	pid_t child;

	next();
	for (turn = 0; turn < 50; turn++) {
		child = vfork();
		if (child == 0) {
			execvp("true", arguments);
			_exit(1);
		}
		if (waitpid(child, &status, 0) != child || status != 0)
			abort();
		if (posix_spawnp(&child, "true", NULL, NULL, arguments, environ) != 0 ||
		    waitpid(child, &status, 0) != child || status != 0)
			abort();
		record(turn);
	}
	say("done");
	next();
}

static void macros(void)
{
	while (next()) {
		blkkin_set_context("life:context", "of C");
		BLKKIN_EVENT(&trace, NULL, BLKKIN_INFO, "from a macro");
		say(blkkin_enabled_at(BLKKIN_INFO) ? "on" : "off");
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "sandboxes") == 0)
		return sandboxes();
	endpoint.ip = "10.0.0.7";
	endpoint.port = 1;
	endpoint.name = "life";
	trace.name = "life";
	trace.info.trace_id = 1;
	trace.endpoint = &endpoint;
	if (strcmp(what, "counts") == 0)
		counts();
	else if (strcmp(what, "closes") == 0 && next())
		closes();
	else if (strcmp(what, "daemon") == 0 && next() && daemon(1, 1) == 0)
		closes();
	else if (strcmp(what, "replaces") == 0)
		replaces();
	else if (strcmp(what, "plugs") == 0)
		plugs(argv[2]);
	else if (strcmp(what, "exits") == 0)
		exits();
	else if (strcmp(what, "forks") == 0)
		forks();
	else if (strcmp(what, "unshares") == 0)
		unshares();
	else if (strcmp(what, "spawns") == 0)
		spawns();
	else if (strcmp(what, "macros") == 0)
		macros();
	else if (strcmp(what, "executes") == 0 && next())
		execl(argv[0], argv[0], "counts", (char *)NULL);
	return 0;
}
