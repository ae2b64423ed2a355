/* A stand-in for a CUPTI library of version 13.0 that works without a GPU.
 *
 * It keeps the contract that a collector lives by: one subscriber, callbacks for memory called from
 * native threads with a lock held, records in the layout of 13.0, flushes. double_work() makes the
 * records of launches; DOUBLE_* variables choose what goes wrong.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void (*request_t)(uint8_t **, size_t *, size_t *);
typedef void (*complete_t)(void *, uint32_t, uint8_t *, size_t, size_t);

enum { OK = 0, INVALID = 1, NOT_INITIALIZED = 15, MAX_LIMIT = 12, HELD = 39, KINDS = 64 };

static const uint32_t sizes[KINDS] = {[1] = 96, [2] = 88, [3] = 216, [4] = 40, [5] = 40, [10] = 216,
                                      [17] = 56, [22] = 96, [38] = 56, [39] = 24, [51] = 56};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request_t request;
static complete_t complete;
static int subscribed, enabled[KINDS], driver_calls[1024], silenced[1024], thread_ids;
static uint32_t correlation;
static struct stream { uint8_t *memory; size_t size, used; } streams[64];

static const char *text(const char *name) { return getenv(name); }
static long number(const char *name) { return text(name) ? atol(text(name)) : 0; }
static void report(const char *what, long value) {
    if (text("DOUBLE_LOG")) {
        FILE *log = fopen(text("DOUBLE_LOG"), "a");
        fprintf(log, "%s %ld\n", what, value);
        fclose(log);
    }
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    uint64_t ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    return text("DOUBLE_TICKS") ? ns / 2 * 5 : ns; /* 2.5 ticks a ns, as another client's clock */
}

int cuptiGetVersion(uint32_t *version) {
    return *version = text("DOUBLE_VERSION") ? (uint32_t)number("DOUBLE_VERSION") : 130001, OK;
}
int cuptiGetTimestamp(uint64_t *time) { return *time = now(), OK; }
int cuptiSetThreadIdType(int type) { return thread_ids = type, OK; }
int cuptiGetResultString(int code, const char **string) {
    return *string = code == HELD ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "DOUBLE", OK;
}

struct params { size_t size; const char *name; char *old; size_t old_size; };

int cuptiSubscribe(void **subscriber, void *callback, void *user) {
    (void)callback, (void)user;
    if (subscribed || text("DOUBLE_HELD")) return HELD;
    return subscribed = 1, *subscriber = &subscribed, report("subscribe", 0), OK;
}
int cuptiSubscribe_v2(void **subscriber, void *callback, void *user, struct params *params) {
    if (params && params->size < 32) return INVALID;
    if (params && params->old && params->old_size && text("DOUBLE_HELD"))
        snprintf(params->old, params->old_size, "%s", text("DOUBLE_HELD"));
    int code = cuptiSubscribe(subscriber, callback, user);
    if (!code && params && params->name) report(params->name, (long)params->size);
    return code;
}
int cuptiUnsubscribe(void *subscriber) {
    if (subscriber != &subscribed) return INVALID;
    return subscribed = 0, report("unsubscribe", 0), OK;
}

int cuptiActivityRegisterCallbacks(request_t one, complete_t two) {
    return request = one, complete = two, report("register", 0), OK;
}
int cuptiActivityEnable(int kind) {
    report("enable", kind);
    if (number("DOUBLE_REFUSE_KIND") == kind) return (int)number("DOUBLE_REFUSE_CODE");
    return enabled[kind] = 1, OK;
}
int cuptiActivityDisable(int kind) { return report("disable", kind), enabled[kind] = 0, OK; }
int cuptiActivityEnableDriverApi(uint32_t callback, uint8_t on) {
    return driver_calls[callback] = on, report(on ? "driver" : "driver-off", callback), OK;
}
int cuptiActivityEnableRuntimeApi(uint32_t callback, uint8_t on) {
    return silenced[callback] = !on, report(on ? "runtime" : "runtime-off", callback), OK;
}
int cuptiGetCallbackName(int domain, uint32_t callback, const char **name) {
    static const struct { int domain; uint32_t callback; const char *name; } table[] = {
        {1, 307, "cuLaunchKernel"}, {1, 514, "cuGraphLaunch"}, {1, 5, "cuDeviceGetName"},
        {2, 211, "cudaLaunchKernel_v7000"}, {2, 41, "cudaMemcpyAsync_v3020"},
        {2, 16, "cudaSetDevice_v3020"}, {2, 17, "cudaGetDevice_v3020"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].domain == domain && table[i].callback == callback)
            return *name = table[i].name, OK;
    return *name = NULL, INVALID;
}
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
    (void)context, (void)stream;
    return *dropped = (size_t)number("DOUBLE_DROPPED"), OK;
}
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
    uint8_t *next = buffer;
    if (*record) {
        uint32_t kind = *(uint32_t *)*record;
        next = *record + (kind < KINDS ? sizes[kind] : 0);
    }
    if (next + 8 > buffer + valid) return MAX_LIMIT;
    uint32_t kind = *(uint32_t *)next;
    if (kind >= KINDS || !sizes[kind]) return INVALID;
    if (next + sizes[kind] > buffer + valid) return MAX_LIMIT;
    return *record = next, OK;
}

static void deliver(struct stream *stream) {
    if (stream->memory) complete(NULL, 0, stream->memory, stream->size, stream->used);
    memset(stream, 0, sizeof *stream);
}

int cuptiActivityFlushAll(uint32_t forced) {
    report("flush", forced);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < 64; i++) deliver(&streams[i]);
    pthread_mutex_unlock(&lock);
    return OK;
}

static uint8_t *record(struct stream *stream, uint32_t kind) {
    if (stream->used + sizes[kind] > stream->size) {
        size_t limit = 0;
        pthread_mutex_lock(&lock); /* as CUPTI may: memory is asked for with a lock held */
        deliver(stream);
        request(&stream->memory, &stream->size, &limit);
        pthread_mutex_unlock(&lock);
        if (!stream->memory) return NULL;
    }
    uint8_t *place = stream->memory + stream->used;
    memset(place, 0, sizes[kind]);
    memcpy(place, &kind, 4);
    stream->used += sizes[kind];
    return place;
}

#define PUT(place, offset, type, value) *(type *)((place) + (offset)) = (type)(value)

struct job { int thread; long launches; };

/* Per launch: a runtime call, and a kernel; every tenth launch a copy, every hundredth a memset. */
static void *launch(void *argument) {
    const struct job *job = argument;
    struct stream *calls = &streams[job->thread], *work = &streams[32 + job->thread];
    for (long i = 0; i < job->launches; i++) {
        uint32_t id = __atomic_add_fetch(&correlation, 1, __ATOMIC_RELAXED);
        uint64_t time = now();
        uint8_t *one;
        if (enabled[5] && (one = record(calls, 5))) {
            PUT(one, 4, uint32_t, 211), PUT(one, 8, uint64_t, time), PUT(one, 16, uint64_t, time + 5);
            PUT(one, 24, uint32_t, 77), PUT(one, 28, uint32_t, 1000 + job->thread);
            PUT(one, 32, uint32_t, id);
        }
        if (enabled[10] && (one = record(work, 10))) {
            PUT(one, 6, uint16_t, 32), PUT(one, 16, uint64_t, time + 10);
            PUT(one, 24, uint64_t, time + 30 + (uint64_t)(i % 7)), PUT(one, 40, uint32_t, 0);
            PUT(one, 44, uint32_t, 1), PUT(one, 48, uint32_t, 7 + job->thread);
            PUT(one, 52, int32_t, i % 1000 + 1), PUT(one, 56, int32_t, 2), PUT(one, 60, int32_t, 3);
            PUT(one, 64, int32_t, 128), PUT(one, 68, int32_t, 4), PUT(one, 72, int32_t, 5);
            PUT(one, 76, int32_t, 48), PUT(one, 80, int32_t, 1024), PUT(one, 92, uint32_t, id);
            PUT(one, 104, const char *, i % 2 ? "_ZN3app4stepIfEEvPT_i" : "plain_kernel");
            PUT(one, 144, uint64_t, i % 5 ? 0 : 900 + (uint64_t)i % 3);
        }
        if (enabled[1] && i % 10 == 0 && (one = record(work, 1))) {
            PUT(one, 4, uint8_t, 1), PUT(one, 8, uint64_t, 4096 + i), PUT(one, 16, uint64_t, time + 40);
            PUT(one, 24, uint64_t, time + 50), PUT(one, 36, uint32_t, 1);
            PUT(one, 40, uint32_t, 7 + job->thread), PUT(one, 44, uint32_t, id);
        }
        if (enabled[2] && i % 100 == 0 && (one = record(work, 2))) {
            PUT(one, 8, uint64_t, 64), PUT(one, 16, uint64_t, time + 60);
            PUT(one, 24, uint64_t, time + 61), PUT(one, 36, uint32_t, 1);
            PUT(one, 40, uint32_t, 7 + job->thread), PUT(one, 44, uint32_t, id);
        }
    }
    return NULL;
}

/* `launches` launches on each of up to 32 native threads at once. */
void double_work(int threads, long launches) {
    pthread_t started[32];
    struct job jobs[32];
    for (int i = 0; i < threads; i++) {
        jobs[i] = (struct job){i, launches};
        pthread_create(&started[i], NULL, launch, &jobs[i]);
    }
    for (int i = 0; i < threads; i++) pthread_join(started[i], NULL);
}

static sem_t held;

static void *ask(void *unused) {
    uint8_t *memory;
    size_t size, limit;
    pthread_mutex_lock(&lock);
    sem_post(&held);
    request(&memory, &size, &limit);
    pthread_mutex_unlock(&lock);
    return unused;
}

/* A thread asks for memory with the lock held while the caller waits for the lock: 1 when it does
 * not get it within so many seconds. Called with the interpreter's lock held, it tells whether asking
 * for memory needs that one. */
int double_meet(int seconds) {
    pthread_t asking;
    struct timespec until;
    sem_init(&held, 0, 0);
    pthread_create(&asking, NULL, ask, NULL);
    pthread_detach(asking);
    sem_wait(&held);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    if (pthread_mutex_timedlock(&lock, &until)) return 1;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* A record as it is, for what double_work() does not make. */
int double_record(const uint8_t *bytes) {
    uint8_t *place = record(&streams[63], *(const uint32_t *)bytes);
    if (place) memcpy(place, bytes, sizes[*(const uint32_t *)bytes]);
    return place ? 0 : 1;
}
