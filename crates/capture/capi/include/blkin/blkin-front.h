/* The C API of blkin's first generation, for programs that were written for it. <blkkin.h> declares
 * and documents it.
 *
 * In the first generation, blkin_record and the other names were pointers, set by blkin_init when
 * it had loaded the library. Here they are functions, which also work before blkin_init. */
#ifndef BLKIN_FRONT_H_
#define BLKIN_FRONT_H_

#include "zipkin_c.h"

#endif
