/* Messages between roles, and the sockets that they go over: src/message.rs in C. Nothing here waits; what
 * cannot be sent yet is kept, and what has not come yet is waited for by whoever polls. */
#ifndef BLOCKSTACK_LINK_H
#define BLOCKSTACK_LINK_H

#include <stddef.h>
#include <stdint.h>

/* The same numbers as in src/message.rs. */
enum {
	MESSAGE_MAGIC = 0x4b545342,
	HEADER_SIZE = 64,
	NAME_MAX_SIZE = 56,
	PAYLOAD_MAX = 4 << 20,
};

enum { KIND_READ = 1, KIND_WRITE, KIND_FLUSH, KIND_ZERO };

enum { FLAG_FUA = 1, FLAG_REPLY = 2 };

/* A message's header in the order of this machine. */
struct header {
	uint8_t kind;
	uint8_t flags;
	uint16_t name_size;
	uint64_t id;
	uint64_t offset;
	uint32_t length;
	uint32_t status;
	uint64_t object;
	/* As blkin packs them; all 0 where the request is not followed. */
	unsigned char trace[24];
};

struct message {
	struct header header;
	const char *name;
	const unsigned char *payload;
	uint32_t payload_size;
};

/* Bytes that wait: from `start` to `end`. */
struct queue {
	unsigned char *bytes;
	size_t start;
	size_t end;
	size_t room;
};

struct link {
	int fd; /* -1 if there is none */
	/* Tells one connection from the next one in the same place. */
	uint32_t generation;
	struct queue input;
	struct queue output;
};

/* Opens a socket to listen at, or -1. ADDRESS is a path if it has a slash, else HOST:PORT with a host of
 * numbers. What was chosen for port 0 is written to `shown`. */
int link_listen(const char *address, char *shown, size_t shown_size);

/* Connects, or -1. */
int link_connect(const char *address);

/* Takes over a connected socket, with queues that are empty. */
void link_open(struct link *link, int fd);

/* Closes it, if it is open, and frees what it kept. */
void link_close(struct link *link);

/* Reads what there is, up to a limit. -1 if the connection has ended. */
int link_receive(struct link *link);

/* Sends what the socket takes. -1 if the connection has ended. */
int link_send(struct link *link);

/* How much waits to be sent. */
size_t link_backlog(const struct link *link);

/* Looks at the next message: 1 if it is there, 0 if bytes are missing, -1 if it is none. Pointers hold until
 * link_take. */
int link_next(struct link *link, struct message *message);

/* Removes what link_next found. */
void link_take(struct link *link, const struct message *message);

/* Appends a message to what waits to be sent. The payload may be NULL: then it is zeros. -1 without memory. */
int link_append(struct link *link, const struct header *header, const char *name,
		const unsigned char *payload, uint32_t payload_size);

#endif
