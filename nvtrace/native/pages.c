/* Rows of SQLite's leaf pages as columns.
 *
 * What nvtrace/sources/sqlite_cells.py does with numpy, row by row in one pass: the plain definition
 * is there, the file format at https://www.sqlite.org/fileformat2.html. Nothing is read outside of
 * its page, nothing written past the capacity, whatever the pages hold. What is unusual or damaged
 * stops the pass, and SQLite itself is asked. No Python.h: called through ctypes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind { VALUES, CODES, REALS, TEXTS, TESTED };
enum { MAX_COLUMNS = 64, MAX_PLACES = 256, LEAF = 0x0D };
enum { UNUSUAL = -1, SKIPPED, FOUND };

/* The distinct values of a column by code: numbers, or where texts lie in the file. */
typedef struct {
    int64_t *keys;
    int32_t *lengths; /* of texts; -1 is NULL */
    uint32_t *hashes, *slots;
    int64_t count, capacity, last, null;
} dictionary;

typedef struct {
    int32_t place, kind; /* place in the table's declaration */
    int64_t missing;     /* what NULL becomes */
    void *out;           /* VALUES: int64_t a row; else room for 4 bytes a row, all zero */
    int64_t width;       /* bytes of a code as it is stored: 1, 2 or 4 */
    dictionary known;
} column;

typedef struct {
    int64_t which; /* which column is tested, -1 for none; NULL counts as -1 */
    int64_t inverse, count;
    const int64_t *values;
} condition;

typedef struct {
    const uint8_t *memory; /* the file */
    uint64_t pages, page_size;
} file;

typedef struct {
    uint64_t serial;
    const uint8_t *at;
} cell;

/* A varint of at most three bytes; returns where it ends, NULL where that is beyond `end`. */
static const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int byte = 0; byte < 3 && at < end; byte++) {
        *value = *value << 7 | (*at & 0x7F);
        if (*at++ < 0x80) return at;
    }
    return NULL;
}

static const uint8_t *skip_varint(const uint8_t *at, const uint8_t *end) {
    for (int byte = 0; byte < 9 && at < end; byte++)
        if (*at++ < 0x80 || byte == 8) return at;
    return NULL;
}

/* A signed number of 1 to 8 bytes: the low ones of the eight that end with it. Those before it are
 * of its row and of what lies before that in the file, where the first page always is. */
static int64_t big_endian(const uint8_t *at, unsigned bytes) {
    const uint8_t *word = at + bytes - 8;
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | word[i];
    const unsigned above = 64 - 8 * bytes;
    return (int64_t)(value << above) >> above;
}

#define TWICE(n) n, n
#define EIGHT(n) TWICE(n), TWICE(n + 1), TWICE(n + 2), TWICE(n + 3)
/* Bytes of a value by its serial type, as far as types take one byte. */
static const uint8_t bytes_of[128] = {
    0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, EIGHT(0), EIGHT(4), EIGHT(8), EIGHT(12), EIGHT(16),
    EIGHT(20), EIGHT(24), EIGHT(28), EIGHT(32), EIGHT(36), EIGHT(40), EIGHT(44), EIGHT(48),
    EIGHT(52), TWICE(56), TWICE(57)};

/* Where the values of a row are put: the slot of each place up to the last one wanted. */
typedef struct {
    int32_t places, tested; /* the place that decides whether the row is wanted, or -1 */
    uint8_t slots[MAX_PLACES];
} layout;

static int lay_out(layout *of, const column *columns, int count, const condition *where) {
    memset(of->slots, MAX_COLUMNS, sizeof of->slots); /* one that nobody looks at */
    for (int i = 0; i < count; i++) {
        if (columns[i].place < 0 || columns[i].place >= MAX_PLACES) return 0;
        of->slots[columns[i].place] = (uint8_t)i;
        of->places = columns[i].place + 1;
    }
    of->tested = where->which < 0 ? -1 : columns[where->which].place;
    return count <= MAX_COLUMNS && where->which < count;
}

static int number(cell one, int64_t missing, int64_t *value) {
    double real;
    if (one.serial - 1 < 6) {
        *value = big_endian(one.at, bytes_of[one.serial]);
        return 1;
    }
    switch (one.serial) {
    case 0: *value = missing; return 1;
    case 7:
        *value = big_endian(one.at, 8);
        memcpy(&real, value, 8);
        if (real != real) *value = missing; /* as in SQLite */
        else if (real >= -0x1p63 && real < 0x1p63) *value = (int64_t)real;
        else return 0;
        return 1;
    case 8: *value = 0; return 1;
    case 9: *value = 1; return 1;
    default: return 0;
    }
}

/* SKIPPED or FOUND, by the value that is tested; UNUSUAL where it is no number. */
static int wanted(const condition *where, cell tested) {
    int64_t value;
    if (!number(tested, -1, &value)) return UNUSUAL;
    for (int64_t i = 0; i < where->count; i++)
        if (where->values[i] == value) return where->inverse ? SKIPPED : FOUND;
    return where->inverse ? FOUND : SKIPPED;
}

/* Finds the values of the row at `at`, unless it is SKIPPED; UNUSUAL where it is not stored the
 * plain way. */
static int find_cells(const uint8_t *at, const uint8_t *page_end, uint64_t page_size,
                      const layout *of, const condition *where, cell *cells) {
    uint64_t payload, header;
    if (!(at = varint(at, page_end, &payload)) || !(at = skip_varint(at, page_end))) return UNUSUAL;
    if (payload > page_size - 35 || payload > (uint64_t)(page_end - at)) return UNUSUAL;
    const uint8_t *row = at;
    if (!(at = varint(at, row + payload, &header)) || header > payload) return UNUSUAL;
    const uint8_t *types_end = row + header;
    uint64_t offset = header;
    for (int place = 0; place < of->places; place++) {
        if (at >= types_end) return UNUSUAL; /* older than a column that was added */
        uint64_t serial = *at++, length = bytes_of[serial & 0x7F];
        if (serial >= 0x80) {
            if (!(at = varint(at - 1, types_end, &serial))) return UNUSUAL;
            length = serial < 12 ? bytes_of[serial] : (serial - 12) / 2;
        }
        cells[of->slots[place]] = (cell){serial, row + offset};
        offset += length;
        if (offset > payload) return UNUSUAL;
        if (place == of->tested) {
            const int found = wanted(where, cells[of->slots[place]]);
            if (found != FOUND) return found;
        }
    }
    return FOUND;
}

/* The bits of a double; a column of reals stores whole numbers as integers. */
static int real_bits(cell one, int64_t missing, int64_t *bits) {
    double real;
    if (one.serial == 7) {
        *bits = big_endian(one.at, 8);
        memcpy(&real, bits, 8);
        if (real != real) *bits = missing;
        return 1;
    }
    if (!number(one, 0, bits)) return 0;
    if (one.serial == 0) {
        *bits = missing;
        return 1;
    }
    real = (double)*bits;
    memcpy(bits, &real, 8);
    return 1;
}

static uint32_t hash_of(int64_t key) {
    uint64_t mixed = (uint64_t)key * 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed >> 32);
}

static uint32_t hash_text(const uint8_t *text, uint64_t length) {
    uint64_t mixed = length;
    for (; length >= 8; text += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u;
        mixed ^= mixed >> 29;
    }
    for (; length; text++, length--) mixed = (mixed ^ *text) * 0x100000001B3u;
    mixed *= 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed >> 32);
}

/* Makes room for one more key; there are twice as many slots as keys, each a code + 1. */
static int grow(dictionary *known) {
    if (known->count < known->capacity) return 1;
    int64_t capacity = known->capacity ? 2 * known->capacity : 64;
    if (capacity > INT32_MAX / 2) return 0;
    uint64_t mask = 2 * (uint64_t)capacity - 1;
    int64_t *keys = realloc(known->keys, (size_t)capacity * sizeof *keys);
    if (keys) known->keys = keys;
    int32_t *lengths = realloc(known->lengths, (size_t)capacity * sizeof *lengths);
    if (lengths) known->lengths = lengths;
    uint32_t *hashes = realloc(known->hashes, (size_t)capacity * sizeof *hashes);
    if (hashes) known->hashes = hashes;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!keys || !lengths || !hashes || !slots) {
        free(slots);
        return 0;
    }
    free(known->slots);
    known->slots = slots;
    known->capacity = capacity;
    for (int64_t code = 0; code < known->count; code++) {
        if (lengths[code] < 0) continue;
        uint64_t slot = hashes[code] & mask;
        while (slots[slot]) slot = (slot + 1) & mask;
        slots[slot] = (uint32_t)code + 1;
    }
    return 1;
}

static int64_t add(dictionary *known, int64_t key, int32_t length, uint32_t hash) {
    known->keys[known->count] = key;
    known->lengths[known->count] = length;
    known->hashes[known->count] = hash;
    return known->last = known->count++;
}

static int64_t code_of(dictionary *known, int64_t key) {
    if (known->count && known->keys[known->last] == key) return known->last;
    if (!grow(known)) return UNUSUAL;
    const uint64_t mask = 2 * (uint64_t)known->capacity - 1;
    const uint32_t hash = hash_of(key);
    uint64_t slot = hash & mask;
    for (uint32_t code; (code = known->slots[slot]); slot = (slot + 1) & mask)
        if (known->keys[code - 1] == key) return known->last = code - 1;
    known->slots[slot] = (uint32_t)known->count + 1;
    return add(known, key, 0, hash);
}

static int64_t code_of_text(dictionary *known, cell one, const uint8_t *memory) {
    if ((one.serial != 0 && one.serial < 13) || (one.serial && one.serial % 2 == 0)) return UNUSUAL;
    if (!grow(known)) return UNUSUAL;
    if (one.serial == 0) return add(known, 0, -1, 0);
    const uint64_t mask = 2 * (uint64_t)known->capacity - 1, length = (one.serial - 13) / 2;
    const uint32_t hash = hash_text(one.at, length);
    uint64_t slot = hash & mask;
    for (uint32_t code; (code = known->slots[slot]); slot = (slot + 1) & mask)
        if (known->hashes[code - 1] == hash && known->lengths[code - 1] == (int64_t)length &&
            !memcmp(memory + known->keys[code - 1], one.at, length))
            return code - 1;
    known->slots[slot] = (uint32_t)known->count + 1;
    return add(known, one.at - memory, (int32_t)length, hash);
}

static void put_code(column *one, int64_t row, int64_t code) {
    uint8_t *at = (uint8_t *)one->out + row * one->width;
    const uint16_t wider = (uint16_t)code;
    const uint32_t widest = (uint32_t)code;
    if (one->width == 1) *at = (uint8_t)code;
    else if (one->width == 2) memcpy(at, &wider, 2);
    else memcpy(at, &widest, 4);
}

/* Widens the codes of the rows before `row` where they lie, from the last to the first. */
static void widen(column *one, int64_t row) {
    const uint8_t *codes = one->out;
    const int64_t width = one->width;
    one->width = 2 * width;
    while (row--) {
        uint16_t code = codes[row];
        if (width == 2) memcpy(&code, codes + 2 * row, 2);
        put_code(one, row, code);
    }
}

static int store(column *one, cell found, const uint8_t *memory, int64_t row) {
    dictionary *known = &one->known;
    int64_t value, code;
    if (one->kind == TESTED) return 1;
    if (one->kind == VALUES) return number(found, one->missing, (int64_t *)one->out + row);
    if (found.serial == 0 && known->null >= 0)
        code = known->null;
    else if (one->kind == TEXTS)
        code = code_of_text(known, found, memory);
    else if ((one->kind == REALS ? real_bits : number)(found, one->missing, &value))
        code = code_of(known, value);
    else
        return 0;
    if (found.serial == 0) known->null = code;
    if (code < 0) return 0;
    /* memory that stays zero is never touched, so a column of one value costs none */
    if (!code) return 1;
    while (one->width < 4 && code >> 8 * one->width) widen(one, row);
    put_code(one, row, code);
    return 1;
}

/* Appends the wanted rows of leaf pages to the columns, from row `row` on; columns are in order of
 * their places. Returns the rows there are then, or UNUSUAL. */
int64_t nvt_pages_decode(const file *source, const uint32_t *leaves, int64_t leaf_count,
                         column *columns, int32_t count, const condition *where, int64_t row,
                         int64_t capacity) {
    cell cells[MAX_COLUMNS + 1];
    layout of;
    const uint64_t size = source->page_size;
    if (!lay_out(&of, columns, count, where) || size < 512) return UNUSUAL;
    for (int64_t leaf = 0; leaf < leaf_count; leaf++) {
        if (leaves[leaf] < 2 || leaves[leaf] > source->pages) return UNUSUAL;
        const uint8_t *page = source->memory + (leaves[leaf] - 1) * size, *end = page + size;
        const uint64_t rows = (uint64_t)page[3] << 8 | page[4];
        if (page[0] != LEAF || 8 + 2 * rows > size) return UNUSUAL;
        for (uint64_t i = 0; i < rows; i++) {
            const uint8_t *pointer = page + 8 + 2 * i;
            const uint64_t at = (uint64_t)pointer[0] << 8 | pointer[1];
            const int found =
                at < size ? find_cells(page + at, end, size, &of, where, cells) : UNUSUAL;
            if (found == SKIPPED) continue;
            if (found == UNUSUAL || row >= capacity) return UNUSUAL;
            for (int32_t c = 0; c < count; c++) {
                if (cells[c].serial == 0 && columns[c].known.null == 0) continue;
                if (!store(columns + c, cells[c], source->memory, row)) return UNUSUAL;
            }
            row++;
        }
    }
    return row;
}

void nvt_pages_free(column *columns, int32_t count) {
    for (int32_t c = 0; c < count; c++) {
        dictionary *known = &columns[c].known;
        free(known->keys);
        free(known->lengths);
        free(known->hashes);
        free(known->slots);
    }
}
