/* Handling of requests: the mapper looks up the object, calls the stores with its copies, and answers when they
 * have. */
#ifndef BLOCKSTACK_REQUESTS_H
#define BLOCKSTACK_REQUESTS_H

#include "link.h"

enum { STORES = 2, CLIENTS = 8 };

enum store_state {
	STORE_DOWN,
	/* The store is connected, but may lack data that was being written when it was lost. */
	STORE_BEHIND,
	STORE_UP,
};

struct store {
	const char *address;
	enum store_state state;
	int was_lost;
	struct link link;
};

extern struct store stores[STORES];
extern struct link clients[CLIENTS];

void requests_init(void);

/* True if there is no slot for another request. */
int requests_are_full(void);

/* Starts a client's request; returns -1 if it is invalid. */
int requests_begin(int client, const struct message *message);

/* Handles a store's reply; returns -1 if it does not match a call. */
int requests_answered(int store, const struct message *message);

/* Handle the end of a store's connection, and a new connection. */
void requests_lost(int store);
void requests_back(int store);

#endif
