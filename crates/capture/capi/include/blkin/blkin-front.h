/* The C API of blkin's first generation, for programs that were written for it; <blkkin.h> has and
 * explains it.
 *
 * There, blkin_record and the others were pointers, which blkin_init set when it had loaded the
 * library. Here they are functions, so they can be called before blkin_init, too. */
#ifndef BLKIN_FRONT_H_
#define BLKIN_FRONT_H_

#include "zipkin_c.h"

#endif
