/* For programs that want `listener.c` to hear what they record. */
#ifndef LISTENER_H
#define LISTENER_H

#ifdef __cplusplus
extern "C" {
#endif

/* A bit for each level; before the first call, nobody listens. */
void listen_to(int levels);

#ifdef __cplusplus
}
#endif

#endif
