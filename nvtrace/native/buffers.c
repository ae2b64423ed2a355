/* The activity buffers between CUPTI and Python.
 *
 * CUPTI asks for memory and gives it back full, from its own threads and, for all that is known,
 * with its own locks held: code that waits for the interpreter there can hang for good. So this
 * part is C. It needs no CUDA header and no Python.h, and is called through ctypes.
 *
 * Every buffer is in one place at a time: held by CUPTI, queued full, out at the reader, or free.
 * Memory that CUPTI holds is never freed, whatever happens.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef struct buffer {
    struct buffer *next;
    uint8_t *memory;
    size_t capacity, valid;
    int64_t requested, completed; /* CLOCK_REALTIME, ns */
} buffer;

typedef struct {
    int64_t buffers, held, queued, queued_bytes, completed;
    int64_t lost_buffers, lost_bytes, lost_records, lost_from, lost_until;
    int64_t over_limit, foreign;
} counts;

enum { MAX_KINDS = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static buffer *held, *out, *spare, *oldest, *newest;
static size_t buffer_bytes = 4u << 20, limit = 128;
static uint32_t record_sizes[MAX_KINDS];
static counts state;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void push(buffer **list, buffer *one) {
    one->next = *list;
    *list = one;
}

static buffer *take(buffer **list, const uint8_t *memory) {
    for (; *list; list = &(*list)->next)
        if ((*list)->memory == memory) {
            buffer *found = *list;
            *list = found->next;
            return found;
        }
    return NULL;
}

static buffer *take_oldest(void) {
    buffer *first = oldest;
    if (first) {
        oldest = first->next;
        if (!oldest) newest = NULL;
        state.queued--;
        state.queued_bytes -= (int64_t)first->valid;
    }
    return first;
}

static void release(buffer *one) {
    state.buffers--;
    free(one->memory);
    free(one);
}

static buffer *allocate(size_t capacity) {
    buffer *one = malloc(sizeof *one);
    void *memory = NULL;
    if (one && posix_memalign(&memory, 4096, capacity)) {
        free(one);
        return NULL;
    }
    if (one) *one = (buffer){.memory = memory, .capacity = capacity};
    return one;
}

/* Offsets and kinds of the records in a buffer; returns how many, *end is where reading stopped. */
size_t nvt_walk(const uint8_t *memory, size_t valid, const uint32_t *sizes, uint32_t kinds,
                uint32_t *offsets, uint32_t *found, size_t capacity, size_t *end) {
    size_t position = 0, count = 0;
    while (position + 8 <= valid) {
        uint32_t kind = *(const uint32_t *)(memory + position);
        uint32_t size = kind < kinds ? sizes[kind] : 0;
        if (!size || position + size > valid || (offsets && count == capacity)) break;
        if (offsets) {
            offsets[count] = (uint32_t)position;
            found[count] = kind;
        }
        count++;
        position += size;
    }
    *end = position;
    return count;
}

/* CUPTI wants memory. Out of budget, the oldest full buffer gives way, and what it held is counted;
 * with none there, memory beyond the budget: before 12.9 CUPTI crashes when refused. */
void nvt_requested(uint8_t **memory, size_t *size, size_t *max_records) {
    pthread_mutex_lock(&lock);
    const size_t wanted = buffer_bytes;
    buffer *one, *lost = NULL;
    while ((one = spare) && (spare = one->next, one->capacity != wanted)) release(one);
    if (!one && (size_t)state.buffers >= limit) {
        one = lost = take_oldest();
        if (!one) state.over_limit++;
    }
    if (!one) state.buffers++;
    pthread_mutex_unlock(&lock);

    size_t end = 0, records = 0;
    if (lost)
        records = nvt_walk(lost->memory, lost->valid, record_sizes, MAX_KINDS, NULL, NULL, 0, &end);
    if (!one) one = allocate(wanted);

    pthread_mutex_lock(&lock);
    if (lost) {
        if (!state.lost_buffers || lost->requested < state.lost_from)
            state.lost_from = lost->requested;
        if (lost->completed > state.lost_until) state.lost_until = lost->completed;
        state.lost_buffers++;
        state.lost_bytes += (int64_t)lost->valid;
        state.lost_records += (int64_t)records;
    }
    if (one) {
        one->requested = now();
        push(&held, one);
        state.held++;
    } else {
        state.buffers--;
    }
    *memory = one ? one->memory : NULL;
    *size = one ? one->capacity : 0;
    *max_records = 0;
    pthread_mutex_unlock(&lock);
}

/* CUPTI gives memory back, with the first `valid` bytes full of records. */
void nvt_completed(void *context, uint32_t stream, uint8_t *memory, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&lock);
    buffer *one = take(&held, memory);
    if (!one) {
        state.foreign++; /* another client's memory: not ours to read or to free */
    } else {
        state.held--;
        one->valid = valid < one->capacity ? valid : one->capacity;
        one->completed = now();
        if (!one->valid) {
            push(&spare, one);
        } else {
            state.completed++;
            state.queued++;
            state.queued_bytes += (int64_t)one->valid;
            one->next = NULL;
            if (newest) newest->next = one; else oldest = one;
            newest = one;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* The oldest full buffer goes to the reader until it is recycled; NULL where there is none. */
uint8_t *nvt_pop(size_t *valid) {
    pthread_mutex_lock(&lock);
    buffer *one = take_oldest();
    if (one) push(&out, one);
    *valid = one ? one->valid : 0;
    uint8_t *memory = one ? one->memory : NULL;
    pthread_mutex_unlock(&lock);
    return memory;
}

void nvt_recycle(const uint8_t *memory) {
    pthread_mutex_lock(&lock);
    buffer *one = take(&out, memory);
    if (one && (size_t)state.buffers > limit) release(one);
    else if (one) push(&spare, one);
    pthread_mutex_unlock(&lock);
}

/* Sizes of new buffers and how many there may be, from now on. */
void nvt_limit(size_t bytes, size_t buffers) {
    pthread_mutex_lock(&lock);
    buffer_bytes = bytes;
    limit = buffers;
    pthread_mutex_unlock(&lock);
}

/* A new account, and record sizes by kind to count what is lost. */
void nvt_begin(const uint32_t *sizes, uint32_t kinds) {
    pthread_mutex_lock(&lock);
    for (uint32_t kind = 0; kind < MAX_KINDS; kind++)
        record_sizes[kind] = kind < kinds ? sizes[kind] : 0;
    state = (counts){.buffers = state.buffers, .held = state.held, .queued = state.queued,
                     .queued_bytes = state.queued_bytes};
    pthread_mutex_unlock(&lock);
}

/* Give the memory that nobody uses back to the system. */
void nvt_trim(void) {
    pthread_mutex_lock(&lock);
    for (buffer *one; (one = spare);) {
        spare = one->next;
        release(one);
    }
    pthread_mutex_unlock(&lock);
}

void nvt_counts(counts *copy) {
    pthread_mutex_lock(&lock);
    *copy = state;
    pthread_mutex_unlock(&lock);
}
