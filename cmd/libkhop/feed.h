/* The memory of a loader's messages, which the consumer (feed.c) and Go (server.Mail) share. */
#ifndef KHOP_FEED_H
#define KHOP_FEED_H

#include <pthread.h>
#include <stdint.h>

#include "khop.h"

#define KHOP_POST (1 << 19)

#ifndef KHOP_OF_GO /* cgo does not know atomic types */
#include <stdatomic.h>
#define SHARED(type) _Atomic type
#else
#define SHARED(type) type
#endif

/* One direction, as server.Post in Go says it. On x86-64, where all processors see stores in order, the package for
 * Python reads a BATCH where it is: KHOP_ABI grows when this changes. */
struct khop_post {
    SHARED(uint64_t) written;
    char pad0[56];
    SHARED(uint64_t) read;
    char pad1[56];
    SHARED(uint32_t) sleeps;
    SHARED(uint32_t) ended;
    char pad2[56];
    uint8_t data[KHOP_POST];
};

struct khop_feed {
    struct khop_post down, up; /* first: Go has them as server.Mail */
    int32_t down_bell, up_bell;
    SHARED(int32_t) owners;
    pthread_mutex_t putting;
};

/* Makes another owner, which calls khop_feed_free too. */
void khop_feed_keep(khop_feed *feed);

#endif
