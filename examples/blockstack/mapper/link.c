/* Sockets and messages of the mapper, as declared in link.h. Other roles are not trusted: lengths are
 * checked before they are used. */
#define _GNU_SOURCE
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Minimum free space for a read, and initial size of buffers. */
enum { CHUNK = 256 << 10 };

union any_address {
	struct sockaddr any;
	struct sockaddr_un path;
	struct sockaddr_in in;
};

/* Parses an address; returns its size, or 0. */
static socklen_t parse(const char *text, union any_address *address)
{
	const char *colon = strrchr(text, ':');
	char host[64];
	char *end;
	long port;

	memset(address, 0, sizeof(*address));
	if (strchr(text, '/') != NULL) {
		if (strlen(text) >= sizeof(address->path.sun_path))
			return 0;
		address->path.sun_family = AF_UNIX;
		strcpy(address->path.sun_path, text);
		return sizeof(address->path);
	}
	if (colon == NULL || (size_t)(colon - text) >= sizeof(host))
		return 0;
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	port = strtol(colon + 1, &end, 10);
	if (end == colon + 1 || *end != '\0' || port < 0 || port > 65535)
		return 0;
	address->in.sin_family = AF_INET;
	address->in.sin_port = htons((uint16_t)port);
	if (inet_pton(AF_INET, host, &address->in.sin_addr) != 1)
		return 0;
	return sizeof(address->in);
}

static int open_socket(const union any_address *address)
{
	return socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int link_listen(const char *text, char *shown, size_t shown_size)
{
	union any_address address;
	socklen_t size = parse(text, &address);
	int one = 1;
	int fd;

	if (size == 0) {
		errno = EINVAL;
		return -1;
	}
	fd = open_socket(&address);
	if (fd < 0)
		return -1;
	if (address.any.sa_family == AF_UNIX)
		unlink(address.path.sun_path);
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &address.any, size) < 0 || listen(fd, 16) < 0) {
		close(fd);
		return -1;
	}
	snprintf(shown, shown_size, "%s", text);
	if (address.any.sa_family == AF_INET &&
	    getsockname(fd, &address.any, &size) == 0) {
		char host[INET_ADDRSTRLEN];

		inet_ntop(AF_INET, &address.in.sin_addr, host, sizeof(host));
		snprintf(shown, shown_size, "%s:%u", host, ntohs(address.in.sin_port));
	}
	return fd;
}

int link_connect(const char *text)
{
	union any_address address;
	socklen_t size = parse(text, &address);
	int fd;

	if (size == 0) {
		errno = EINVAL;
		return -1;
	}
	fd = open_socket(&address);
	if (fd >= 0 && connect(fd, &address.any, size) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void link_open(struct link *link, int fd)
{
	int one = 1;

	link_close(link);
	link->fd = fd;
	link->generation++;
	/* Harmless for other than TCP sockets. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void link_close(struct link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	free(link->input.bytes);
	free(link->output.bytes);
	memset(&link->input, 0, sizeof(link->input));
	memset(&link->output, 0, sizeof(link->output));
}

/* Makes space for `more` bytes after the end. */
static int make_room(struct queue *queue, size_t more)
{
	size_t used = queue->end - queue->start;
	size_t room = queue->room == 0 ? CHUNK : queue->room;
	unsigned char *bytes;

	if (queue->room - queue->end >= more)
		return 0;
	/* Moved only if the space before the bytes can hold them, so moving costs no more than receiving did. */
	if (queue->room - used >= more && queue->start >= used) {
		memmove(queue->bytes, queue->bytes + queue->start, used);
		queue->start = 0;
		queue->end = used;
		return 0;
	}
	while (room - used < more)
		room *= 2;
	if (room < 2 * used)
		room *= 2;
	bytes = malloc(room);
	if (bytes == NULL)
		return -1;
	if (used > 0)
		memcpy(bytes, queue->bytes + queue->start, used);
	free(queue->bytes);
	queue->bytes = bytes;
	queue->room = room;
	queue->start = 0;
	queue->end = used;
	return 0;
}

static void remove_first(struct queue *queue, size_t count)
{
	queue->start += count;
	if (queue->start == queue->end) {
		queue->start = 0;
		queue->end = 0;
	}
}

int link_receive(struct link *link)
{
	struct queue *input = &link->input;
	ssize_t count;

	if (make_room(input, CHUNK) < 0)
		return -1;
	count = recv(link->fd, input->bytes + input->end, input->room - input->end, MSG_DONTWAIT);
	if (count > 0)
		input->end += (size_t)count;
	else if (count == 0 || (errno != EAGAIN && errno != EINTR))
		return -1;
	return 0;
}

int link_send(struct link *link)
{
	struct queue *output = &link->output;

	while (output->start < output->end) {
		ssize_t count = send(link->fd, output->bytes + output->start,
				     output->end - output->start, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (count < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		remove_first(output, (size_t)count);
	}
	return 0;
}

size_t link_backlog(const struct link *link)
{
	return link->output.end - link->output.start;
}

/* Messages are little-endian on all machines. */
static uint64_t get(const unsigned char *from, int size)
{
	uint64_t number = 0;

	while (size-- > 0)
		number = number << 8 | from[size];
	return number;
}

static void put(unsigned char *to, uint64_t number, int size)
{
	for (int at = 0; at < size; at++, number >>= 8)
		to[at] = (unsigned char)number;
}

int link_next(struct link *link, struct message *message)
{
	const unsigned char *bytes = link->input.bytes + link->input.start;
	size_t size = link->input.end - link->input.start;
	struct header *header = &message->header;
	size_t whole;

	if (size < HEADER_SIZE)
		return 0;
	header->kind = bytes[4];
	header->flags = bytes[5];
	header->name_size = (uint16_t)get(bytes + 6, 2);
	header->id = get(bytes + 8, 8);
	header->offset = get(bytes + 16, 8);
	header->length = (uint32_t)get(bytes + 24, 4);
	header->status = (uint32_t)get(bytes + 28, 4);
	header->object = get(bytes + 32, 8);
	memcpy(header->trace, bytes + 40, sizeof(header->trace));
	message->payload_size = 0;
	if (header->flags & FLAG_REPLY) {
		if (header->kind == KIND_READ && header->status == 0)
			message->payload_size = header->length;
	} else if (header->kind == KIND_WRITE) {
		message->payload_size = header->length;
	}
	if (get(bytes, 4) != MESSAGE_MAGIC || header->name_size > NAME_MAX_SIZE ||
	    message->payload_size > PAYLOAD_MAX)
		return -1;
	whole = (size_t)HEADER_SIZE + header->name_size + message->payload_size;
	if (size < whole)
		return make_room(&link->input, whole - size) < 0 ? -1 : 0;
	message->name = (const char *)bytes + HEADER_SIZE;
	message->payload = bytes + HEADER_SIZE + header->name_size;
	return 1;
}

void link_take(struct link *link, const struct message *message)
{
	remove_first(&link->input,
		     (size_t)HEADER_SIZE + message->header.name_size + message->payload_size);
}

int link_append(struct link *link, const struct header *header, const char *name,
		const unsigned char *payload, uint32_t payload_size)
{
	struct queue *output = &link->output;
	size_t size = (size_t)HEADER_SIZE + header->name_size + payload_size;
	unsigned char *bytes;

	if (make_room(output, size) < 0)
		return -1;
	bytes = output->bytes + output->end;
	put(bytes, MESSAGE_MAGIC, 4);
	bytes[4] = header->kind;
	bytes[5] = header->flags;
	put(bytes + 6, header->name_size, 2);
	put(bytes + 8, header->id, 8);
	put(bytes + 16, header->offset, 8);
	put(bytes + 24, header->length, 4);
	put(bytes + 28, header->status, 4);
	put(bytes + 32, header->object, 8);
	memcpy(bytes + 40, header->trace, sizeof(header->trace));
	if (header->name_size > 0)
		memcpy(bytes + HEADER_SIZE, name, header->name_size);
	bytes += HEADER_SIZE + header->name_size;
	if (payload != NULL)
		memcpy(bytes, payload, payload_size);
	else
		memset(bytes, 0, payload_size);
	output->end += size;
	return 0;
}
