//go:build libkhop

/* What a consumer makes of a batch's arrays: khop_ends_* and khop_calendar of khop.h. None of it enters Go. */
#include "khop.h"

#define ENDS(NAME, IN, OUT)                                                                                        \
    int32_t NAME(const IN *indptr, const IN *indices, int64_t destinations, int64_t edges, OUT *sources,           \
                 OUT *targets) {                                                                                   \
        int64_t at = 0;                                                                                            \
        for (int64_t i = 0; i < destinations; i++) {                                                               \
            uint64_t many = (uint64_t)indptr[i + 1] - (uint64_t)indptr[i];                                         \
            if (many > (uint64_t)(edges - at)) return KHOP_ARGUMENT;                                               \
            for (int64_t end = at + (int64_t)many; at < end; at++) targets[at] = (OUT)i;                           \
        }                                                                                                          \
        if (at != edges) return KHOP_ARGUMENT;                                                                     \
        for (int64_t k = 0; k < edges; k++) sources[k] = (OUT)indices[k];                                          \
        return KHOP_OK;                                                                                            \
    }

ENDS(khop_ends_32, int32_t, int32_t)
ENDS(khop_ends_32_64, int32_t, int64_t)
ENDS(khop_ends_64, int64_t, int64_t)

#define DAY (int64_t)86400

static int64_t floored(int64_t a, int64_t b) { return a / b - (a % b < 0); }

#define ERAS 14000 /* of 400 years each: days are counted from their middle, so that none is below 0 */

/* Year, month, day and weekday of a day since 1970: figure 12 of Neri and Schneider, "Euclidean affine functions and
 * their application to calendar algorithms", Software: Practice and Experience 53(4), 2023. Years begin in March. */
static void date(uint32_t since_march_0, int64_t *out) {
    uint32_t quarters = 4 * since_march_0 + 3, century = quarters / 146097;
    uint32_t of_century = quarters % 146097 | 3;
    uint64_t scaled = (uint64_t)2939745 * of_century;
    uint32_t of_year = (uint32_t)scaled / 2939745 / 4;
    uint32_t month = 2141 * of_year + 197913;
    uint32_t next = of_year >= 306;
    out[0] = (int64_t)(100 * century + (uint32_t)(scaled >> 32) + next) - 400 * (ERAS / 2);
    out[1] = (month >> 16) - 1 - 12 * next;
    out[2] = (month & 0xffff) / 2141;
    out[3] = (since_march_0 + 2) % 7;
}

void khop_calendar(const int64_t *seconds, int64_t rows, int64_t columns, int64_t *out, int64_t step) {
    const int64_t first = 719468 + (int64_t)146097 * (ERAS / 2); /* of 1970-01-01 */
    for (int64_t r = 0; r < rows; r++, out += step) {
        for (int64_t c = 0; c < columns; c++) {
            int64_t at = *seconds++, *to = out + 7 * c;
            if (at == INT64_MIN) {
                for (int k = 0; k < 7; k++) to[k] = -1;
                continue;
            }
            int64_t day = floored(at, DAY), era = 0;
            if ((uint64_t)(day + first) >= (uint64_t)1 << 30) era = floored(day, 146097);
            date((uint32_t)(day - 146097 * era + first), to);
            to[0] += 400 * era;
            int32_t rest = (int32_t)(at - DAY * day);
            to[4] = rest / 3600;
            to[5] = rest / 60 % 60;
            to[6] = rest % 60;
        }
    }
}
