/* Messages between roles, and their sockets: the equivalent of src/message.rs. Only link_connect
 * blocks: unsent bytes are buffered, and the caller polls for input. */
#ifndef BLOCKSTACK_LINK_H
#define BLOCKSTACK_LINK_H

#include <stddef.h>
#include <stdint.h>

/* As in src/message.rs, but with a smaller PAYLOAD_MAX: a call concerns one object of 4 MiB. */
enum {
	MESSAGE_MAGIC = 0x4b545342,
	HEADER_SIZE = 64,
	NAME_MAX_SIZE = 56,
	PAYLOAD_MAX = 4 << 20,
};

enum { KIND_READ = 1, KIND_WRITE, KIND_FLUSH, KIND_ZERO };

enum { FLAG_FUA = 1, FLAG_REPLY = 2 };

/* Header of a message, in the machine's byte order. */
struct header {
	uint8_t kind;
	uint8_t flags;
	uint16_t name_size;
	uint64_t id;
	uint64_t offset;
	uint32_t length;
	uint32_t status;
	uint64_t object;
	/* Packed as by blkin; all 0 if the request is not sampled. */
	unsigned char trace[24];
};

struct message {
	struct header header;
	const char *name;
	const unsigned char *payload;
	uint32_t payload_size;
};

/* A buffer; its bytes are from `start` to `end`. */
struct queue {
	unsigned char *bytes;
	size_t start;
	size_t end;
	size_t room;
};

struct link {
	int fd; /* -1 if not connected */
	/* Distinguishes successive connections in one slot. */
	uint32_t generation;
	struct queue input;
	struct queue output;
};

/* Opens a listening socket, or returns -1. ADDRESS is a path if it has a slash, else HOST:PORT with a numeric
 * host. The actual address, without port 0, is written to `shown`. */
int link_listen(const char *address, char *shown, size_t shown_size);

/* Connects to an address, or returns -1. */
int link_connect(const char *address);

/* Takes over a connected socket, with empty buffers. */
void link_open(struct link *link, int fd);

/* Closes the link, if it is open, and frees its buffers. */
void link_close(struct link *link);

/* Reads available bytes, up to a limit; returns -1 if the connection has ended or memory is
 * lacking. */
int link_receive(struct link *link);

/* Sends as much as the socket accepts; returns -1 if the connection has ended. */
int link_send(struct link *link);

/* Number of unsent bytes. */
size_t link_backlog(const struct link *link);

/* Decodes the next message: returns 1, 0 if it is incomplete, or -1 if it is invalid or memory is
 * lacking. Pointers are valid until link_take. */
int link_next(struct link *link, struct message *message);

/* Consumes the message that link_next returned. */
void link_take(struct link *link, const struct message *message);

/* Appends a message to the output. A payload of NULL means zeros. Returns -1 without memory. */
int link_append(struct link *link, const struct header *header, const char *name,
		const unsigned char *payload, uint32_t payload_size);

#endif
