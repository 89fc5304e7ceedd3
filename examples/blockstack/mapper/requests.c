/* Requests of the mapper. Writes go to both stores, reads alternate between them.
 *
 * While a store is lost, reads go to the other one and writes fail. So the copies can only differ in ranges that
 * were being written at that moment: these ranges are recorded as doubtful, and copied from the other store when
 * the lost one is back.
 *
 * Each request is the server side of the span that the composer started, and each call to a store is a child of
 * it, whose server side the store records. */
#define _GNU_SOURCE
#include "requests.h"
#include "map.h"

#include <blkkin.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { REQUESTS = 1024, OBJECT_SIZE = 4 << 20, NOBODY = -1 };

struct request {
	int next_free;
	int is_used;
	/* Distinguishes successive requests in one slot. */
	uint32_t generation;
	int client; /* NOBODY for the mapper's own, to repair a copy */
	uint32_t client_generation;
	uint64_t id;
	uint8_t kind;
	uint8_t flags;
	uint64_t object;
	uint64_t offset;
	uint32_t length;
	uint32_t status;
	unsigned waiting_for; /* a bit for each store */
	int tries;
	int is_followed;
	struct blkin_trace trace;
	struct blkin_trace calls[STORES];
};

struct range {
	uint64_t object;
	uint64_t offset;
	uint32_t length;
};

struct store stores[STORES];
struct link clients[CLIENTS];

static struct request requests[REQUESTS];
static int first_free;
static int free_count;
static int turn;

static struct range *doubts;
static size_t doubt_count;
static size_t doubt_room;

static struct blkin_endpoint endpoint;

static const char *const SPAN_NAMES[] = { "", "object read", "object write", "object flush",
					  "object zero" };
static const char *const CALL_NAMES[] = { "", "copy read", "copy write", "copy flush",
					  "copy zero" };

void requests_init(void)
{
	blkin_init();
	blkin_init_endpoint(&endpoint, "", 0, "mapper");
	for (int at = 0; at < REQUESTS; at++)
		requests[at].next_free = at + 1;
	free_count = REQUESTS;
	for (int at = 0; at < CLIENTS; at++)
		clients[at].fd = -1;
	for (int at = 0; at < STORES; at++)
		stores[at].link.fd = -1;
}

int requests_are_full(void)
{
	/* One slot is reserved for repairs. */
	return free_count <= 1;
}

static struct request *take_request(void)
{
	struct request *request = &requests[first_free];

	first_free = request->next_free;
	free_count--;
	request->is_used = 1;
	request->generation++;
	request->status = 0;
	request->waiting_for = 0;
	request->tries = 0;
	request->is_followed = 0;
	return request;
}

static void free_request(struct request *request)
{
	request->is_used = 0;
	request->next_free = first_free;
	first_free = (int)(request - requests);
	free_count++;
}

/* Answers the client and frees the request. */
static void finish(struct request *request, const unsigned char *payload)
{
	struct header header = { .kind = request->kind,
				 .flags = FLAG_REPLY,
				 .id = request->id,
				 .length = request->length,
				 .status = request->status };
	int has_payload = request->kind == KIND_READ && request->status == 0;
	struct link *client = &clients[request->client];

	if (client->fd >= 0 && client->generation == request->client_generation &&
	    link_append(client, &header, NULL, payload, has_payload ? request->length : 0) < 0)
		link_close(client);
	if (request->is_followed) {
		if (request->status != 0)
			BLKIN_KEYVAL_INTEGER(&request->trace, NULL, "error", request->status);
		BLKIN_TIMESTAMP(&request->trace, NULL, SERVER_SEND);
	}
	free_request(request);
}

/* Sends a request to a store, with a child of the request's span. */
static void ask(struct request *request, int store, const unsigned char *payload)
{
	struct header header = { .kind = request->kind,
				 .flags = request->flags,
				 .id = (uint64_t)request->generation << 32 |
				       (uint64_t)(request - requests),
				 .offset = request->offset,
				 .length = request->length,
				 .object = request->object };
	struct link *link = &stores[store].link;

	if (request->is_followed) {
		struct blkin_trace *call = &request->calls[store];
		struct blkin_trace_info_packed packed;

		blkin_init_child(call, &request->trace, NULL, CALL_NAMES[request->kind]);
		blkin_pack_trace_info(&call->info, &packed);
		memcpy(header.trace, &packed, sizeof(packed));
		BLKIN_TIMESTAMP(call, NULL, CLIENT_SEND);
	}
	request->waiting_for |= 1u << store;
	if (link_append(link, &header, NULL, payload,
			request->kind == KIND_WRITE ? request->length : 0) < 0) {
		/* The next poll detects the loss of the store and fails the request. */
		fprintf(stderr, "blockstack mapper: no memory for store %d\n", store + 1);
		shutdown(link->fd, SHUT_RDWR);
	}
}

/* Returns the store to read from, or -1. */
static int choose(unsigned tried)
{
	for (int count = 0; count < STORES; count++) {
		turn = (turn + 1) % STORES;
		if (stores[turn].state == STORE_UP && !(tried >> turn & 1))
			return turn;
	}
	return -1;
}

static int all_are_up(void)
{
	for (int at = 0; at < STORES; at++)
		if (stores[at].state != STORE_UP)
			return 0;
	return 1;
}

static void fail(struct request *request, int error)
{
	request->status = (uint32_t)error;
	finish(request, NULL);
}

/* Finds the object, or creates it for the first write. Returns whether it exists. */
static int look_up(struct request *request, const struct message *message)
{
	size_t size = message->header.name_size;

	request->object = map_find(message->name, size);
	if (request->object == 0 && request->kind == KIND_WRITE) {
		request->object = map_add(message->name, size);
		if (request->object == 0)
			request->status = (uint32_t)errno;
		if (request->is_followed)
			BLKIN_TIMESTAMP(&request->trace, NULL, "mapped");
	}
	if (request->is_followed)
		BLKIN_KEYVAL_INTEGER(&request->trace, NULL, "object",
				     (int64_t)request->object);
	return request->object != 0;
}

/* Maps a request that has just arrived, and sends it to stores or answers it. */
static void start(struct request *request, const struct message *message)
{
	const struct header *header = &message->header;
	int store;

	if (request->kind != KIND_FLUSH) {
		if (header->name_size == 0 || header->offset > OBJECT_SIZE ||
		    header->length > OBJECT_SIZE - header->offset) {
			fail(request, EINVAL);
			return;
		}
		if (request->kind != KIND_READ && !all_are_up()) {
			fail(request, EIO);
			return;
		}
		/* An object without a number reads as zeros already. If a number could not be
		 * assigned, the status is set. */
		if (!look_up(request, message)) {
			finish(request, NULL);
			return;
		}
	}
	if (request->kind == KIND_READ) {
		store = choose(0);
		if (store < 0)
			fail(request, EIO);
		else
			ask(request, store, NULL);
	} else if (!all_are_up()) {
		fail(request, EIO);
	} else {
		for (store = 0; store < STORES; store++)
			ask(request, store, message->payload);
	}
}

int requests_begin(int client, const struct message *message)
{
	const struct header *header = &message->header;
	struct blkin_trace_info info;
	struct blkkin_entered entered;
	struct request *request;

	if (header->flags & FLAG_REPLY || header->kind < KIND_READ || header->kind > KIND_ZERO)
		return -1;
	request = take_request();
	request->client = client;
	request->client_generation = clients[client].generation;
	request->id = header->id;
	request->kind = header->kind;
	request->flags = header->flags & FLAG_FUA;
	request->offset = header->offset;
	request->length = header->length;
	request->object = 0;
	blkin_unpack_trace_info((const struct blkin_trace_info_packed *)header->trace, &info);
	request->is_followed = info.trace_id != 0;
	if (request->is_followed) {
		blkin_set_trace_properties(&request->trace, &info, SPAN_NAMES[request->kind],
					   &endpoint);
		BLKIN_TIMESTAMP(&request->trace, NULL, SERVER_RECV);
	}
	blkkin_span_enter(&entered, request->is_followed ? &request->trace : NULL);
	start(request, message);
	blkkin_span_exit(&entered);
	return 0;
}

static int other(int store)
{
	return 1 - store;
}

/* Records that the copies of a range may differ. */
static void doubt(const struct request *request)
{
	struct range range = { request->object, request->offset, request->length };

	for (size_t at = 0; at < doubt_count; at++)
		if (doubts[at].object == range.object && doubts[at].offset == range.offset &&
		    doubts[at].length == range.length)
			return;
	if (doubt_count == doubt_room) {
		size_t room = doubt_room == 0 ? REQUESTS : 2 * doubt_room;
		struct range *more = realloc(doubts, room * sizeof(*more));

		if (more == NULL) {
			fprintf(stderr, "blockstack mapper: no memory to note what differs\n");
			exit(1);
		}
		doubts = more;
		doubt_room = room;
	}
	doubts[doubt_count++] = range;
}

/* Starts the next repair of a store that is back. */
static void repair(int store)
{
	struct request *request;

	if (stores[store].state != STORE_BEHIND)
		return;
	if (doubt_count == 0 || stores[other(store)].state != STORE_UP) {
		/* Without the other store, its copies are the best available. */
		stores[store].state = STORE_UP;
		return;
	}
	request = take_request();
	request->client = NOBODY;
	request->kind = KIND_READ;
	request->flags = 0;
	request->object = doubts[doubt_count - 1].object;
	request->offset = doubts[doubt_count - 1].offset;
	request->length = doubts[doubt_count - 1].length;
	ask(request, other(store), NULL);
}

/* Continues a repair: data read from one store is written to the other. */
static void repair_answered(struct request *request, int store, const struct message *message)
{
	int target = request->kind == KIND_READ ? other(store) : store;

	request->waiting_for = 0;
	if (message->header.status != 0 || stores[target].state != STORE_BEHIND) {
		free_request(request);
		if (stores[target].state == STORE_BEHIND)
			requests_lost(target);
		return;
	}
	if (request->kind == KIND_READ) {
		request->kind = KIND_WRITE;
		ask(request, target, message->payload);
		return;
	}
	/* No range is added while a store is behind, because writes fail. */
	doubt_count--;
	free_request(request);
	repair(target);
}

/* Handles a failed call, or the loss of the store during a call. */
static void call_failed(struct request *request, int store, uint32_t error)
{
	request->waiting_for &= ~(1u << store);
	if (request->kind == KIND_READ) {
		int next = choose(1u << store);

		if (next >= 0 && request->tries++ == 0)
			ask(request, next, NULL);
		else
			fail(request, (int)error);
		return;
	}
	if (request->kind != KIND_FLUSH)
		doubt(request);
	request->status = error;
	if (request->waiting_for == 0)
		finish(request, NULL);
}

int requests_answered(int store, const struct message *message)
{
	const struct header *header = &message->header;
	uint32_t place = (uint32_t)header->id;
	struct request *request = &requests[place % REQUESTS];
	struct blkkin_entered entered;

	if (place >= REQUESTS || !(header->flags & FLAG_REPLY) || !request->is_used ||
	    request->generation != header->id >> 32 || request->kind != header->kind ||
	    !(request->waiting_for >> store & 1))
		return -1;
	if (header->kind == KIND_READ && header->status == 0 && header->length != request->length)
		return -1;
	if (request->client == NOBODY) {
		repair_answered(request, store, message);
		return 0;
	}
	if (request->is_followed)
		BLKIN_TIMESTAMP(&request->calls[store], NULL, CLIENT_RECV);
	blkkin_span_enter(&entered, request->is_followed ? &request->trace : NULL);
	if (header->status != 0) {
		call_failed(request, store, header->status);
	} else {
		request->waiting_for &= ~(1u << store);
		if (request->waiting_for == 0)
			finish(request, header->kind == KIND_READ ? message->payload : NULL);
	}
	blkkin_span_exit(&entered);
	/* The store's copy is outdated now, unless the other store's is, too. */
	if (header->status != 0 && header->kind != KIND_READ &&
	    stores[other(store)].state == STORE_UP)
		requests_lost(store);
	return 0;
}

void requests_lost(int store)
{
	if (stores[store].state == STORE_DOWN)
		return;
	fprintf(stderr, "blockstack mapper: store %d is lost\n", store + 1);
	stores[store].was_lost = 1;
	stores[store].state = STORE_DOWN;
	/* The message that is being handled stays in the buffer until the next connection. */
	for (int at = 0; at < REQUESTS; at++) {
		struct request *request = &requests[at];

		if (!request->is_used || !(request->waiting_for >> store & 1))
			continue;
		if (request->client == NOBODY)
			free_request(request);
		else
			call_failed(request, store, EIO);
	}
	/* The other store may have been waiting for this one's copy. */
	repair(other(store));
}

void requests_back(int store)
{
	/* The first connection of a store is not reported. */
	if (stores[store].was_lost)
		fprintf(stderr, "blockstack mapper: store %d is back\n", store + 1);
	stores[store].state = STORE_BEHIND;
	repair(store);
}
