/* The events of a timeline, row by row.
 *
 * What nvtrace/sinks/chrome_rows.py, chrome_codes.py, chrome_paths.py and chrome_nesting.py do with
 * numpy, a column at a time: the plain definitions are there. Nothing is read outside of the columns
 * and texts that are handed in, nothing written past the buffer's capacity. No Python.h: called
 * through ctypes.
 */
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers are written as memory holds them, lowest byte first; elsewhere numpy writes them"
#endif

enum kind { NOTHING, TEXT, NUMBER, THOUSANDTHS, WHEN, VARINT, FIXED };
enum { BLOCK = 16, MOST_COLUMNS = 32, KEYS_AT_ONCE = 64, DEEPEST = 256 };

typedef struct {
    const void *values;
    int64_t count, width; /* bytes of a value, negative where they have a sign */
} integers;

/* Integers, and what is made of each: what a table has at that place, -1 where there is none, less
 * what another column has in the same row, plus a constant. */
typedef struct {
    integers own;
    int32_t by_row; /* whether there is one for each row of the table, or for each that is written */
    int32_t plain;  /* whether nothing is made of them */
    int64_t has_sign;
    integers table, less; /* of no width where there is none */
    int64_t plus;
} column;

typedef struct {
    int32_t kind;
    int32_t size; /* VARINT: bytes of all; WHEN: how many parts depend on it */
    int64_t least; /* WHEN: they are there if the value is no less */
    column of;
    const uint8_t *literal; /* what stands before the value, padded to whole blocks */
    int64_t literal_size;
    const uint8_t *bytes;  /* the TEXTs */
    const int64_t *starts; /* of each TEXT, and where the last one ends */
    int64_t texts;
} part;

typedef struct {
    const part *parts;
    int64_t count;
    int64_t longest; /* bytes of a row's parts at most, without TEXTs */
    int64_t written; /* rows of this shape so far */
} shape;

/* Combinations of values: their codes are their places in `keys`. */
typedef struct {
    int64_t *keys;   /* `width` values of each */
    int32_t *slots;  /* by hash, one more than the code; 1 << log2 of them, most of them 0 */
    int64_t width, count, capacity, log2;
} dictionary;

/* Inlined, or the calls take a tenth of all time: compilers count cases, not how often they come. */
#define INLINE static inline __attribute__((always_inline))

INLINE int64_t read(const integers *of, int64_t at) {
    switch (of->width) {
    case -1: return ((const int8_t *)of->values)[at];
    case 1: return ((const uint8_t *)of->values)[at];
    case -2: return ((const int16_t *)of->values)[at];
    case 2: return ((const uint16_t *)of->values)[at];
    case -4: return ((const int32_t *)of->values)[at];
    case 4: return ((const uint32_t *)of->values)[at];
    default: return ((const int64_t *)of->values)[at];
    }
}

INLINE int derive(const column *of, int64_t at, int64_t *value) {
    if (of->table.width) {
        if (*value >= of->table.count) return 0;
        *value = *value < 0 ? -1 : read(&of->table, *value);
    }
    uint64_t sum = (uint64_t)*value + (uint64_t)of->plus;
    if (of->less.width) {
        if (at >= of->less.count) return 0;
        sum -= (uint64_t)read(&of->less, at);
    }
    *value = (int64_t)sum;
    return 1;
}

/* Whether there is a value, for a row of the table that is the nth of its shape to be written. */
static int load(const column *of, int64_t row, int64_t nth, int64_t *value) {
    const int64_t at = of->by_row ? row : nth;
    if ((uint64_t)at >= (uint64_t)of->own.count) return 0;
    *value = read(&of->own, at);
    return of->plain || derive(of, at, value);
}

/* Four digits of each number below 10,000, the first in the lowest byte. */
static uint32_t fours[10000];

__attribute__((constructor)) static void fill_fours(void) {
    for (uint32_t n = 0; n < 10000; n++)
        fours[n] = 0x30303030 | n / 1000 | n / 100 % 10 << 8 | n / 10 % 10 << 16 | n % 10 << 24;
}

static uint64_t eight_digits(uint64_t value) {
    return fours[value / 10000] | (uint64_t)fours[value % 10000] << 32;
}

/* Bits of the zeros that such digits begin with; the last one always stands. */
static int leading_zeros(uint64_t text, int last) {
    return __builtin_ctzll((text & 0x0F0F0F0F0F0F0F0Fu) | (uint64_t)1 << last) & ~7;
}

/* Writes four or eight bytes at a time, and so past its end; BLOCK is the room for that. */
static uint8_t *digits(uint8_t *out, uint64_t value) {
    uint64_t text;
    if (value < 10000) {
        const int zeros = leading_zeros(fours[value], 24);
        const uint32_t rest = fours[value] >> zeros;
        memcpy(out, &rest, 4);
        return out + 4 - zeros / 8;
    }
    if (value < 100000000) {
        text = eight_digits(value);
        const int zeros = leading_zeros(text, 56);
        text >>= zeros;
        memcpy(out, &text, 8);
        return out + 8 - zeros / 8;
    }
    out = digits(out, value / 100000000);
    text = eight_digits(value % 100000000);
    memcpy(out, &text, 8);
    return out + 8;
}

static uint8_t *thousandths(uint8_t *out, uint64_t value) {
    out = digits(out, value / 1000);
    memcpy(out, fours + value % 1000, 4);
    *out = '.';
    return out + 4;
}

/* Seven bits a byte, in `size` bytes. */
static uint8_t *varint(uint8_t *out, uint64_t value, int32_t size) {
    for (int32_t byte = 0; byte < size; byte++, value >>= 7)
        out[byte] = (uint8_t)((value & 0x7F) | (byte + 1 < size ? 0x80 : 0));
    return out + size;
}

static uint8_t *literal(uint8_t *out, const part *is) {
    for (int64_t done = 0; done < is->literal_size; done += BLOCK)
        memcpy(out + done, is->literal + done, BLOCK);
    return out + is->literal_size;
}

/* The row's end, NULL where it does not fit; *failed where a value or text does not exist. */
static uint8_t *put(uint8_t *out, const uint8_t *end, const shape *of, int64_t row, int *failed) {
    if (end - out < of->longest) return NULL;
    for (int64_t i = 0; i < of->count; i++) {
        const part *is = of->parts + i;
        int64_t value = 0;
        out = literal(out, is);
        if (is->kind == NOTHING) continue;
        if (!load(&is->of, row, of->written, &value)) return *failed = 1, NULL;
        const int negative = value < 0 && is->of.has_sign;
        const uint64_t natural = negative ? 0 : (uint64_t)value;
        switch (is->kind) {
        case TEXT:
            if ((uint64_t)value >= (uint64_t)is->texts) return *failed = 1, NULL;
            const int64_t start = is->starts[value], length = is->starts[value + 1] - start;
            if (end - out < length + of->longest) return NULL;
            memcpy(out, is->bytes + start, (size_t)length);
            out += length;
            break;
        case NUMBER: out = digits(out, natural); break;
        case THOUSANDTHS: out = thousandths(out, natural); break;
        case WHEN: i += value < is->least && (value >= 0 || negative) ? is->size : 0; break;
        case VARINT: out = varint(out, natural, is->size); break;
        case FIXED:
            memcpy(out, &value, 8);
            out += 8;
            break;
        default: return *failed = 1, NULL;
        }
    }
    return out;
}

/* Write rows while they fit; returns how many, -1 where a value or text does not exist.
 *
 * `shape_of` and `rows` say which shape each has, and which row of that shape's table it is. */
int64_t nvt_timeline_write(shape *shapes, int64_t count, const int32_t *shape_of, const int64_t *rows,
                       int64_t wanted, uint8_t *out, int64_t capacity, int64_t *used) {
    uint8_t *at = out;
    const uint8_t *end = out + capacity;
    int64_t done = 0;
    int failed = 0;
    for (; done < wanted; done++) {
        if ((uint64_t)shape_of[done] >= (uint64_t)count) return -1;
        shape *of = shapes + shape_of[done];
        uint8_t *next = put(at, end, of, rows[done], &failed);
        if (failed) return -1;
        if (!next) break;
        of->written++;
        at = next;
    }
    *used = at - out;
    return done;
}

#define GATHER(type) \
    for (int64_t i = 0; i < count; i++) { \
        const int64_t at = of->by_row ? rows[first + i] : first + i; \
        if ((uint64_t)at >= (uint64_t)of->own.count) return 0; \
        out[i * step] = (int64_t)((const type *)of->own.values)[at]; \
    } \
    return 1;

static int gather(const column *of, const int64_t *rows, int64_t first, int64_t count,
                  int64_t *out, int64_t step) {
    if (!of->plain) {
        for (int64_t i = 0; i < count; i++)
            if (!load(of, rows[first + i], first + i, out + i * step)) return 0;
        return 1;
    }
    switch (of->own.width) {
    case -1: GATHER(int8_t)
    case 1: GATHER(uint8_t)
    case -2: GATHER(int16_t)
    case 2: GATHER(uint16_t)
    case -4: GATHER(int32_t)
    case 4: GATHER(uint32_t)
    default: GATHER(int64_t)
    }
}

static uint64_t hash(const dictionary *in, const int64_t *key) {
    uint64_t mixed = 0;
    for (int64_t i = 0; i < in->width; i++) {
        mixed = (mixed ^ (uint64_t)key[i]) * 0x9E3779B97F4A7C15u;
        mixed ^= mixed >> 32;
    }
    return mixed >> (64 - in->log2);
}

/* The slot of a combination: an empty one where it has no code. */
static int32_t *found(const dictionary *in, const int64_t *key) {
    const uint64_t mask = ((uint64_t)1 << in->log2) - 1;
    const size_t size = 8 * (size_t)in->width;
    uint64_t slot = hash(in, key);
    while (in->slots[slot] && memcmp(in->keys + (in->slots[slot] - 1) * in->width, key, size))
        slot = (slot + 1) & mask;
    return in->slots + slot;
}

/* Find the code of each row, and list those whose codes are new; returns how many, or -1.
 *
 * There is room for all rows: `capacity` combinations, and twice as many slots. */
int64_t nvt_timeline_codes(dictionary *in, const column *columns, const int64_t *rows, int64_t count,
                       int32_t *codes, int64_t *fresh) {
    int64_t keys[KEYS_AT_ONCE * MOST_COLUMNS], added = 0;
    if (in->width > MOST_COLUMNS || in->count + count > in->capacity) return -1;
    for (int64_t first = 0; first < count; first += KEYS_AT_ONCE) {
        const int64_t some = count - first < KEYS_AT_ONCE ? count - first : KEYS_AT_ONCE;
        for (int64_t i = 0; i < in->width; i++)
            if (!gather(columns + i, rows, first, some, keys + i, in->width)) return -1;
        for (int64_t nth = 0; nth < some; nth++) {
            const int64_t *key = keys + nth * in->width;
            int32_t *slot = found(in, key);
            if (!*slot) {
                memcpy(in->keys + in->count * in->width, key, 8 * (size_t)in->width);
                *slot = (int32_t)++in->count;
                fresh[added++] = first + nth;
            }
            codes[first + nth] = *slot - 1;
        }
    }
    return added;
}

/* Fill the slots, which are all 0. */
void nvt_timeline_place(dictionary *in) {
    for (int64_t code = 0; code < in->count; code++)
        *found(in, in->keys + code * in->width) = (int32_t)code + 1;
}

/* The ranges of a trace; a path is the names of a range and of those around it. */
typedef struct {
    const int32_t *names, *parents; /* -1 where nothing is around it */
    int32_t *paths;                 /* one more than the code of each path, 0 where it is unknown */
    int64_t count;
} ranges;

/* Find the paths of some ranges; returns how many ranges are listed whose paths are new.
 *
 * Stops short where the dictionary is full. -1: a range, or one around it, does not exist. */
int64_t nvt_timeline_paths(dictionary *in, const ranges *of, const int32_t *wanted, int64_t count,
                           int64_t *fresh) {
    int64_t added = 0;
    for (int64_t i = 0; i < count;) {
        int32_t inner[DEEPEST], range = wanted[i];
        int64_t level = 0; /* of the last DEEPEST on the way out, so that any depth comes to an end */
        for (; range >= 0 && !(range < of->count && of->paths[range]); range = of->parents[range]) {
            if (range >= of->count || level > of->count) return -1;
            inner[level++ % DEEPEST] = range;
        }
        if (range < -1) return -1;
        const int whole = level <= DEEPEST;
        for (int64_t left = whole ? level : DEEPEST; left > 0; left--) {
            const int32_t here = inner[--level % DEEPEST];
            const int64_t key[2] = {range < 0 ? -1 : of->paths[range] - 1, of->names[here]};
            int32_t *slot = found(in, key);
            if (!*slot) {
                if (in->count >= in->capacity) return added;
                memcpy(in->keys + in->count * in->width, key, sizeof key);
                *slot = (int32_t)++in->count;
                fresh[added++] = here;
            }
            of->paths[here] = *slot;
            range = here;
        }
        i += whole;
    }
    return added;
}

/* Slices that are open, by group. */
typedef struct {
    int64_t groups;
    int64_t *ends;   /* DEEPEST of each group, outermost first */
    int64_t *anchor; /* start of the latest slice whose start no inner slice may have */
    int32_t *open;   /* how many of each group */
    uint8_t *used, *failed;
} nest;

/* Follow slices that come by start, then longer first; returns how many, -1 for an unknown group. */
int64_t nvt_timeline_nest(nest *of, const int64_t *group, const int64_t *start, const int64_t *end,
                          const uint8_t *anchors, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t here = group[i];
        if ((uint64_t)here >= (uint64_t)of->groups) return -1;
        of->used[here] = 1;
        if (of->failed[here]) continue;
        int64_t *ends = of->ends + here * DEEPEST;
        int32_t open = of->open[here];
        while (open && ends[open - 1] <= start[i]) open--;
        const int crosses = open && ends[open - 1] < end[i];
        const int hides = of->anchor[here] == start[i] && end[i] > start[i];
        if (crosses || hides || open == DEEPEST) of->failed[here] = 1;
        else ends[open++] = end[i];
        of->open[here] = open;
        if (anchors[i]) of->anchor[here] = start[i];
    }
    return count;
}
