/* What the mapper does with requests: looks the object up, asks the stores that have copies of it, and answers
 * when they have. */
#ifndef BLOCKSTACK_REQUESTS_H
#define BLOCKSTACK_REQUESTS_H

#include "link.h"

enum { STORES = 2, CLIENTS = 8 };

enum store_state {
	STORE_DOWN,
	/* It is there, and may lack what was being written when it was lost. */
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

/* Whether there is no room for another one. */
int requests_are_full(void);

/* Starts what a client asks for. -1 if it is nothing that can be asked for. */
int requests_begin(int client, const struct message *message);

/* Goes on with what a store has answered. -1 if it answers what it was not asked. */
int requests_answered(int store, const struct message *message);

/* A store's connection has ended, or is there again. */
void requests_lost(int store);
void requests_back(int store);

#endif
