/* An NVTX tool for the tests: appends one line per event to the file $NVTX_TEST_LOG.
 *
 * Fields, separated by tabs: pid, thread, event, domain, category, color, payload, registered (1 or
 * 0), name. It says of every domain that it is not enabled, as it lacks the call that is asked, and
 * returns -1 from push and pop, as tools may.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  union {
    int64_t integer;
    double real;
  } payload;
  int32_t message_type;
  const void *message;
} attributes_t;

typedef struct {
  char *name;
  char *categories[64];
} domain_t;

typedef struct {
  char *text;
} string_t;

enum { PAYLOAD_INT64 = 2, PAYLOAD_DOUBLE = 3, MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };
enum { CALLBACKS = 1, CORE2 = 5 };
enum { MARK = 1, START, END, PUSH, POP, NAME_CATEGORY = 8, REGISTER = 10, CREATE = 12 };

static int log_file = -1;

static void write_line(const char *event, domain_t *domain, const attributes_t *a, uint64_t handle) {
  char payload[64] = "", name[4096] = "", line[8192];
  const char *category = "";
  int registered = 0;
  if (a) {
    if (a->payload_type == PAYLOAD_INT64) sprintf(payload, "%" PRId64, a->payload.integer);
    if (a->payload_type == PAYLOAD_DOUBLE) sprintf(payload, "%.17g", a->payload.real);
    if (a->category < 64 && domain->categories[a->category]) category = domain->categories[a->category];
    registered = a->message_type == MESSAGE_REGISTERED;
    const char *text = registered ? ((const string_t *)a->message)->text : (const char *)a->message;
    snprintf(name, sizeof name, "%s", text);
  }
  if (handle) sprintf(payload + strlen(payload), "#%" PRIu64, handle);
  int length = snprintf(line, sizeof line, "%d\t%ld\t%s\t%s\t%s\t%08x\t%s\t%d\t%s\n", getpid(),
                        syscall(SYS_gettid), event, domain ? domain->name : "", category,
                        a ? a->color : 0, payload, registered, name);
  if (write(log_file, line, length) != length) abort();
}

static void on_mark(domain_t *d, const attributes_t *a) { write_line("mark", d, a, 0); }
static int on_push(domain_t *d, const attributes_t *a) { write_line("push", d, a, 0); return -1; }
static int on_pop(domain_t *d) { write_line("pop", d, NULL, 0); return -1; }
static void on_end(domain_t *d, uint64_t handle) { write_line("end", d, NULL, handle); }

static uint64_t on_start(domain_t *d, const attributes_t *a) {
  static uint64_t handles;
  uint64_t handle = __sync_add_and_fetch(&handles, 1);
  write_line("start", d, a, handle);
  return handle;
}

static void on_name_category(domain_t *d, uint32_t id, const char *name) {
  if (id < 64) d->categories[id] = strdup(name);
}

static string_t *on_register(domain_t *d, const char *text) {
  (void)d;
  string_t *string = malloc(sizeof *string);
  string->text = strdup(text);
  return string;
}

static domain_t *on_create(const char *name) {
  domain_t *domain = calloc(1, sizeof *domain);
  domain->name = strdup(name);
  write_line("create", domain, NULL, 0);
  return domain;
}

typedef const void *(*get_table_t)(uint32_t);
typedef struct {
  size_t size;
  int (*module_table)(int, void ****, unsigned *);
} callbacks_t;

int InitializeInjectionNvtx2(get_table_t get_table) {
  const callbacks_t *callbacks = get_table(CALLBACKS);
  void ***table;
  unsigned size;
  if (!callbacks || !callbacks->module_table(CORE2, &table, &size)) return 0;
  log_file = open(getenv("NVTX_TEST_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  *table[MARK] = (void *)on_mark;
  *table[START] = (void *)on_start;
  *table[END] = (void *)on_end;
  *table[PUSH] = (void *)on_push;
  *table[POP] = (void *)on_pop;
  *table[NAME_CATEGORY] = (void *)on_name_category;
  *table[REGISTER] = (void *)on_register;
  *table[CREATE] = (void *)on_create;
  return log_file >= 0;
}
