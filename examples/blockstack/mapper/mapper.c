/* The mapper: finds the stores with the copies of an object and forwards requests to them. It runs in
 * a single thread with poll().
 *
 * It is written in C and traced through blkkin.h, like the programs that used blkin. requests.c has the logic. */
#define _GNU_SOURCE
#include "map.h"
#include "requests.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Maximum unsent output of a client in bytes; above it, the client's input is not read. RETRY_MS is
 * the interval between attempts to connect to a store, in milliseconds. */
enum { BACKLOG_MAX = 64 << 20, RETRY_MS = 200 };

static const char USAGE[] =
	"blockstack mapper --listen ADDRESS --map FILE --store ADDRESS --store ADDRESS [--until-eof]\n";

struct arguments {
	const char *listen;
	const char *map;
	int store_count;
	int until_eof;
};

static int read_arguments(int argc, char **argv, struct arguments *arguments)
{
	memset(arguments, 0, sizeof(*arguments));
	for (int at = 1; at < argc; at++) {
		const char *name = argv[at];

		if (strcmp(name, "--until-eof") == 0) {
			arguments->until_eof = 1;
			continue;
		}
		if (++at == argc)
			return -1;
		if (strcmp(name, "--listen") == 0)
			arguments->listen = argv[at];
		else if (strcmp(name, "--map") == 0)
			arguments->map = argv[at];
		else if (strcmp(name, "--store") == 0 && arguments->store_count < STORES)
			stores[arguments->store_count++].address = argv[at];
		else
			return -1;
	}
	return arguments->listen != NULL && arguments->map != NULL &&
			       arguments->store_count == STORES ?
		       0 :
		       -1;
}

static int64_t now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Connects to lost stores. Returns the timeout for poll: RETRY_MS if a store was lost, else -1. */
static int connect_stores(void)
{
	static int64_t next_try;
	int timeout = -1;

	for (int at = 0; at < STORES; at++) {
		if (stores[at].state != STORE_DOWN)
			continue;
		timeout = RETRY_MS;
		if (now_ms() < next_try)
			continue;
		link_close(&stores[at].link);
		int fd = link_connect(stores[at].address);

		if (fd < 0)
			continue;
		link_open(&stores[at].link, fd);
		requests_back(at);
	}
	if (timeout >= 0 && now_ms() >= next_try)
		next_try = now_ms() + RETRY_MS;
	return timeout;
}

static void accept_client(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (int at = 0; at < CLIENTS; at++) {
		if (clients[at].fd < 0) {
			link_open(&clients[at], fd);
			return;
		}
	}
	close(fd);
}

static int may_ask(const struct link *client)
{
	return !requests_are_full() && link_backlog(client) < BACKLOG_MAX;
}

static void serve_store(int at, short events)
{
	struct link *link = &stores[at].link;
	struct message message;
	int found = 0;

	if (events & (POLLIN | POLLHUP | POLLERR)) {
		int ended = link_receive(link) < 0;

		/* Handling the reply may close the connection. */
		while (stores[at].state != STORE_DOWN && (found = link_next(link, &message)) > 0) {
			if (requests_answered(at, &message) < 0) {
				found = -1;
				break;
			}
			link_take(link, &message);
		}
		if (ended || found < 0)
			requests_lost(at);
	}
}

static void serve_client(int at, short events)
{
	struct link *link = &clients[at];
	struct message message;
	int found = 0;

	if (events & (POLLIN | POLLHUP | POLLERR) && link_receive(link) < 0)
		found = -1;
	while (found >= 0 && may_ask(link) && (found = link_next(link, &message)) > 0) {
		if (requests_begin(at, &message) < 0)
			found = -1;
		else
			link_take(link, &message);
	}
	if (found < 0)
		link_close(link);
}

static void send_all(void)
{
	for (int at = 0; at < STORES; at++)
		if (stores[at].state != STORE_DOWN && link_send(&stores[at].link) < 0)
			requests_lost(at);
	for (int at = 0; at < CLIENTS; at++)
		if (clients[at].fd >= 0 && link_send(&clients[at]) < 0)
			link_close(&clients[at]);
}

static short wanted(const struct link *link, int may_read)
{
	return (short)((may_read ? POLLIN : 0) | (link_backlog(link) > 0 ? POLLOUT : 0));
}

/* Runs until the end of standard input, if --until-eof is given. */
static void serve(int listener, int until_eof)
{
	struct pollfd polled[2 + STORES + CLIENTS];
	struct pollfd *of_stores = polled + 2, *of_clients = polled + 2 + STORES;

	for (;;) {
		int timeout = connect_stores();
		int count;

		polled[0] = (struct pollfd){ .fd = until_eof ? STDIN_FILENO : -1 };
		polled[1] = (struct pollfd){ .fd = listener, .events = POLLIN };
		for (int at = 0; at < STORES; at++) {
			int is_down = stores[at].state == STORE_DOWN;

			of_stores[at].fd = is_down ? -1 : stores[at].link.fd;
			of_stores[at].events = wanted(&stores[at].link, 1);
			of_stores[at].revents = 0;
		}
		for (int at = 0; at < CLIENTS; at++) {
			of_clients[at].fd = clients[at].fd;
			of_clients[at].events = wanted(&clients[at], may_ask(&clients[at]));
			of_clients[at].revents = 0;
		}
		count = poll(polled, 2 + STORES + CLIENTS, timeout);
		if (count < 0 && errno != EINTR)
			return;
		if (polled[0].revents != 0)
			return;
		for (int at = 0; count >= 0 && at < STORES; at++)
			if (stores[at].state != STORE_DOWN)
				serve_store(at, of_stores[at].revents);
		for (int at = 0; count >= 0 && at < CLIENTS; at++)
			if (clients[at].fd >= 0)
				serve_client(at, of_clients[at].revents);
		if (count > 0 && polled[1].revents != 0)
			accept_client(listener);
		send_all();
	}
}

int blockstack_mapper(int argc, char **argv)
{
	struct arguments arguments;
	char shown[128];
	int listener;

	if (read_arguments(argc, argv, &arguments) < 0) {
		fputs(USAGE, stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	/* Ctrl-C and hangup are handled by the process that started all roles. */
	if (arguments.until_eof) {
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
	}
	requests_init();
	if (map_open(arguments.map) < 0) {
		fprintf(stderr, "blockstack mapper: %s: %s\n", arguments.map, strerror(errno));
		return 1;
	}
	listener = link_listen(arguments.listen, shown, sizeof(shown));
	if (listener < 0) {
		fprintf(stderr, "blockstack mapper: %s: %s\n", arguments.listen, strerror(errno));
		return 1;
	}
	connect_stores();
	printf("listening %s\n", shown);
	fflush(stdout);
	serve(listener, arguments.until_eof);
	return 0;
}
