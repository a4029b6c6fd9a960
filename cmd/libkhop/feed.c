//go:build libkhop

/* The consumer's side of a loader's messages: khop_feed_* of khop.h. None of it enters Go, whose runtime would have to
 * find a processor for the call, and would keep it for a while after. */
#include "feed.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRAME 8
#define WRAP UINT32_MAX

khop_feed *khop_feed_new(void) {
    khop_feed *feed =
        mmap(NULL, sizeof *feed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (feed == MAP_FAILED) return NULL;
    feed->down_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    feed->up_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&feed->owners, 1);
    if (feed->down_bell < 0 || feed->up_bell < 0 || pthread_mutex_init(&feed->putting, NULL) != 0) {
        khop_feed_free(feed);
        return NULL;
    }
    return feed;
}

void khop_feed_keep(khop_feed *feed) { atomic_fetch_add(&feed->owners, 1); }

void khop_feed_free(khop_feed *feed) {
    if (feed == NULL || atomic_fetch_sub(&feed->owners, 1) != 1) return;
    if (feed->down_bell >= 0) close(feed->down_bell);
    if (feed->up_bell >= 0) close(feed->up_bell);
    munmap(feed, sizeof *feed);
}

int32_t khop_feed_bell(khop_feed *feed) { return feed->down_bell; }

static void ring(int fd) {
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void still(int fd) {
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

int32_t khop_feed_put(khop_feed *feed, const void *message, uint32_t size) {
    struct khop_post *up = &feed->up;
    if (size == 0 || size > KHOP_MESSAGE) return KHOP_ARGUMENT;
    pthread_mutex_lock(&feed->putting);
    uint64_t written = atomic_load_explicit(&up->written, memory_order_relaxed);
    uint64_t at = written % KHOP_POST, need = FRAME + (((uint64_t)size + 7) & ~7ULL);
    uint64_t skip = at + need > KHOP_POST ? KHOP_POST - at : 0;
    int32_t code = KHOP_AGAIN;
    if (written + skip + need - atomic_load_explicit(&up->read, memory_order_acquire) <= KHOP_POST) {
        if (skip > 0) {
            *(uint32_t *)(up->data + at) = WRAP;
            at = 0;
        }
        *(uint32_t *)(up->data + at) = size; /* Go has no use for the kind */
        memcpy(up->data + at + FRAME, message, size);
        atomic_store(&up->written, written + skip + need);
        code = KHOP_OK;
    }
    pthread_mutex_unlock(&feed->putting);
    if (atomic_load(&up->sleeps) != 0 && atomic_exchange(&up->sleeps, 0) != 0) ring(feed->up_bell);
    return code;
}

/* Copies the message at a place to room; 0 where there is none, -1 where none will come. */
static int32_t look(struct khop_post *down, uint64_t at, void *room, uint64_t *next) {
    uint32_t ended = atomic_load(&down->ended);
    if (atomic_load(&down->written) == at) return ended ? -1 : 0;
    uint64_t from = at % KHOP_POST;
    uint32_t size = *(uint32_t *)(down->data + from);
    if (size == WRAP) {
        at += KHOP_POST - from;
        from = 0;
        size = *(uint32_t *)down->data;
    }
    memcpy(room, down->data + from + FRAME, size);
    *next = at + FRAME + (((uint64_t)size + 7) & ~7ULL);
    return (int32_t)size;
}

int32_t khop_feed_take(khop_feed *feed, uint64_t at, void *room, uint64_t *next) {
    struct khop_post *down = &feed->down;
    uint64_t read = atomic_load_explicit(&down->read, memory_order_relaxed);
    if (at < read || at > atomic_load(&down->written)) return -2;
    if (at > read) atomic_store(&down->read, at);
    int32_t size = look(down, at, room, next);
    if (size != 0) return size;
    atomic_store(&down->sleeps, 1);
    still(feed->down_bell);
    return look(down, at, room, next);
}
