/* Tracepoints with a field of each type of LTTng-UST; see program.c. */

#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER blkkin_sample

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./tracepoints.h"

#if !defined(TRACEPOINTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(blkkin_sample, color,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("red", 0)
        lttng_ust_field_enum_value("green", 1)
        lttng_ust_field_enum_range("others", 2, 9)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(blkkin_sample, integers,
    LTTNG_UST_TP_ARGS(int64_t, n),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int8_t, i8, n)
        lttng_ust_field_integer(int16_t, i16, -n)
        lttng_ust_field_integer(int32_t, i32, n * 1000)
        lttng_ust_field_integer(int64_t, i64, -n * 1000000000)
        lttng_ust_field_integer(uint8_t, u8, n)
        lttng_ust_field_integer(uint16_t, u16, n * 7)
        lttng_ust_field_integer(uint32_t, u32, n * 1000)
        lttng_ust_field_integer(uint64_t, u64, n * 1000000000)
        lttng_ust_field_integer_hex(uint32_t, hex, n * 0x1001)
        lttng_ust_field_integer_network(uint32_t, network, n)
        lttng_ust_field_integer_network_hex(uint16_t, network_hex, n)
        lttng_ust_field_integer_nowrite(int, not_written, n)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(blkkin_sample, numbers,
    LTTNG_UST_TP_ARGS(double, x),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_float(float, f, x)
        lttng_ust_field_float(double, d, x / 3)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(blkkin_sample, texts,
    LTTNG_UST_TP_ARGS(const char *, text, size_t, length),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(whole, text)
        lttng_ust_field_array_text(char, four, text, 4)
        lttng_ust_field_sequence_text(char, part, text, size_t, length)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(blkkin_sample, lists,
    LTTNG_UST_TP_ARGS(const uint32_t *, values, uint8_t, count),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_array(uint32_t, three, values, 3)
        lttng_ust_field_array_hex(uint32_t, two_hex, values, 2)
        lttng_ust_field_sequence(uint32_t, counted, values, uint8_t, count)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(blkkin_sample, colors,
    LTTNG_UST_TP_ARGS(int, color),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(blkkin_sample, color, int, color, color))
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(blkkin_sample, colors, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)

LTTNG_UST_TRACEPOINT_EVENT(blkkin_sample, bare, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
