/* For programs whose annotations `listener.c` prints. */
#ifndef LISTENER_H
#define LISTENER_H

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the recorded levels, a bit for each. Before the first call, no level is recorded. */
void listen_to(int levels);

#ifdef __cplusplus
}
#endif

#endif
