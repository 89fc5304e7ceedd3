/* The C API of blkin, for programs that were written for it. <blkkin.h> documents it. */
#ifndef ZIPKIN_C_H_
#define ZIPKIN_C_H_

#include <asm/byteorder.h>

#include "../blkkin.h"

#endif
