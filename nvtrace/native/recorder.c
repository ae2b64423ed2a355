/* Ranges into memory, as nvtrace/emit/nest.py does it, and what a `with` statement looks up in a
 * range, as in nvtrace/emit/blocks.py.
 *
 * Everything runs with the interpreter's lock held and calls no Python while a buffer is in hand,
 * so neither a signal handler nor another thread comes in between: there is no lock of our own.
 * For CPython with that lock alone, see setup.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

enum { CHUNK_EVENTS = 2048 };

typedef struct {
    int64_t code, time; /* label where it begins, ~label where it ends; CLOCK_REALTIME, ns */
} event;

typedef struct chunk {
    struct chunk *after;
    event events[CHUNK_EVENTS];
} chunk;

/* What one thread recorded. It lives as long as its nest. */
typedef struct part {
    struct part *before;
    PyObject *thread; /* what make_thread returned on that thread, NULL until then */
    uint64_t owner;
    chunk *first, *last;
    event *next, *end; /* where the next event goes; equal where there is no room */
    int64_t until, dropped;
} part;

typedef struct {
    PyObject_HEAD
    PyObject *make_thread;
    part *parts;
    uint64_t number;
    int64_t left; /* bytes */
    int64_t homeless; /* ranges of threads for which there was no memory at all */
    char taken;
} nest;

/* The part that this thread used last. Numbers are never used again, as addresses are. */
static __thread struct {
    uint64_t nest, thread;
    part *part;
} here;
static uint64_t nests, threads;

static inline int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* -- the buffers ------------------------------------------------------------------------------- */

static int spend(nest *self, int64_t bytes) {
    self->left -= bytes;
    return self->left >= 0;
}

/* Begin a new chunk. The first of a thread is free; without room for another, it ends here. */
static int make_room(nest *self, part *mine) {
    if (mine->until || self->taken) return 0;
    chunk *fresh = NULL;
    if (!mine->last || spend(self, sizeof fresh->events)) fresh = PyMem_RawMalloc(sizeof *fresh);
    if (!fresh) {
        mine->until = now();
        return 0;
    }
    fresh->after = NULL;
    if (mine->last) mine->last->after = fresh; else mine->first = fresh;
    mine->last = fresh;
    mine->next = fresh->events;
    mine->end = fresh->events + CHUNK_EVENTS;
    return 1;
}

static part *add_part(nest *self) {
    part *mine = PyMem_RawCalloc(1, sizeof *mine);
    if (!mine) return NULL;
    mine->owner = here.thread;
    mine->before = self->parts;
    self->parts = mine;
    return mine;
}

/* Learn whose part it is, or close it. Python runs here, and may come back to this very part. */
static void name_part(nest *self, part *mine) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *thread = PyObject_CallNoArgs(self->make_thread);
    if (!thread) PyErr_WriteUnraisable(self->make_thread);
    if (mine->thread) Py_XDECREF(thread); else mine->thread = thread;
    if (!mine->thread) {
        mine->until = now();
        mine->end = mine->next;
    }
    PyErr_Restore(type, value, trace);
}

static part *find_part(nest *self) {
    if (!here.thread) here.thread = ++threads;
    part *mine = self->parts;
    while (mine && mine->owner != here.thread) mine = mine->before;
    int fresh = !mine;
    if (fresh) mine = add_part(self);
    if (mine) {
        here.nest = self->number;
        here.part = mine;
    }
    if (mine && fresh) name_part(self, mine);
    return mine;
}

static inline part *my_part(nest *self) {
    return here.nest == self->number ? here.part : find_part(self);
}

/* -- what a label does ------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    nest *nest;
    int64_t code;
    PyObject *push_onward, *pop_onward; /* calls to make as well, or NULL */
} label;

static int call(PyObject *callable) {
    PyObject *result = PyObject_CallNoArgs(callable);
    Py_XDECREF(result);
    return result != NULL;
}

/* The clock is read last on the way in and first on the way out. */
static PyObject *push(PyObject *object, PyObject *unused) {
    label *self = (label *)object;
    if (self->push_onward && !call(self->push_onward)) return NULL;
    part *mine = my_part(self->nest);
    if (mine && (mine->next != mine->end || make_room(self->nest, mine))) {
        event *one = mine->next++;
        one->code = self->code;
        one->time = now();
    }
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *object, PyObject *unused) {
    int64_t end = now();
    label *self = (label *)object;
    part *mine = my_part(self->nest);
    if (mine && (mine->next != mine->end || make_room(self->nest, mine))) {
        event *one = mine->next++;
        one->code = ~self->code;
        one->time = end;
    } else if (!self->nest->taken) {
        if (mine) mine->dropped++; else self->nest->homeless++;
    }
    if (self->pop_onward && !call(self->pop_onward)) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef push_method = {"push", push, METH_NOARGS, "Open the range."};
static PyMethodDef pop_method = {"pop", pop, METH_NOARGS, "Close the range."};

static void label_free(PyObject *object) {
    label *self = (label *)object;
    Py_XDECREF(self->nest);
    Py_XDECREF(self->push_onward);
    Py_XDECREF(self->pop_onward);
    PyObject_Free(self);
}

static PyTypeObject label_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "nvtrace.native.recorder.Label",
    .tp_basicsize = sizeof(label),
    .tp_dealloc = label_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

/* -- the nest ---------------------------------------------------------------------------------- */

static PyObject *nest_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *make_thread;
    long long budget;
    if (!PyArg_ParseTuple(args, "LO:Nest", &budget, &make_thread)) return NULL;
    nest *self = (nest *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->number = ++nests;
    self->left = budget;
    self->make_thread = Py_NewRef(make_thread);
    return (PyObject *)self;
}

static void free_chunks(part *mine) {
    for (chunk *one; (one = mine->first);) {
        mine->first = one->after;
        PyMem_RawFree(one);
    }
}

static void nest_free(PyObject *object) {
    nest *self = (nest *)object;
    for (part *one; (one = self->parts);) {
        self->parts = one->before;
        free_chunks(one);
        Py_XDECREF(one->thread);
        PyMem_RawFree(one);
    }
    Py_XDECREF(self->make_thread);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *nest_calls(PyObject *object, PyObject *args) {
    long long code;
    PyObject *push_onward = Py_None, *pop_onward = Py_None;
    if (!PyArg_ParseTuple(args, "L|OO:calls", &code, &push_onward, &pop_onward)) return NULL;
    label *one = PyObject_New(label, &label_type);
    if (!one) return NULL;
    one->nest = (nest *)Py_NewRef(object);
    one->code = code;
    one->push_onward = push_onward == Py_None ? NULL : Py_NewRef(push_onward);
    one->pop_onward = pop_onward == Py_None ? NULL : Py_NewRef(pop_onward);
    PyObject *calls = Py_BuildValue("NN", PyCFunction_New(&push_method, (PyObject *)one),
                                    PyCFunction_New(&pop_method, (PyObject *)one));
    Py_DECREF(one);
    return calls;
}

static PyObject *nest_spend(PyObject *object, PyObject *bytes) {
    long long size = PyLong_AsLongLong(bytes);
    if (size == -1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(spend((nest *)object, size));
}

static PyObject *nest_thread(PyObject *object, PyObject *unused) {
    part *mine = my_part((nest *)object);
    if (!mine) return PyErr_NoMemory();
    if (!mine->thread) name_part((nest *)object, mine); /* a handler came before its name */
    if (!mine->thread) return PyErr_NoMemory();
    return Py_NewRef(mine->thread);
}

/* The events of one part as bytes; its chunks are given back on the way. */
static PyObject *events_of(part *mine, event *next) {
    Py_ssize_t count = 0;
    for (chunk *one = mine->first; one; one = one->after)
        count += one->after ? CHUNK_EVENTS : next - one->events;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(event));
    if (!bytes) return NULL;
    char *to = PyBytes_AS_STRING(bytes);
    for (chunk *one; (one = mine->first);) {
        size_t size = sizeof(event) * (one->after ? CHUNK_EVENTS : (size_t)(next - one->events));
        memcpy(to, one->events, size);
        to += size;
        mine->first = one->after;
        PyMem_RawFree(one);
    }
    return bytes;
}

/* First no part takes more, then what they hold is read: Python may run in between. */
static PyObject *nest_take(PyObject *object, PyObject *unused) {
    nest *self = (nest *)object;
    int64_t dropped = self->homeless;
    self->homeless = 0;
    self->taken = 1;
    self->left = -1;
    part *newest = self->parts;
    for (part *one = newest; one; one = one->before) {
        one->end = one->next; /* no room from here on, and where the last chunk ends */
        dropped += one->dropped;
        one->dropped = 0;
    }
    PyObject *parts = PyList_New(0);
    if (!parts) return NULL;
    for (part *one = newest; one; one = one->before) {
        PyObject *bytes = events_of(one, one->next);
        one->last = NULL;
        one->next = one->end = NULL;
        if (!bytes) goto failed;
        if (!one->thread) {
            Py_DECREF(bytes); /* what a signal handler recorded before the part was closed */
            continue;
        }
        PyObject *row = Py_BuildValue("ONL", one->thread, bytes, (long long)one->until);
        int failure = !row || PyList_Append(parts, row);
        Py_XDECREF(row);
        if (failure) goto failed;
    }
    if (PyList_Reverse(parts)) goto failed;
    return Py_BuildValue("NL", parts, (long long)dropped);
failed:
    Py_DECREF(parts);
    return NULL;
}

static PyMethodDef nest_methods[] = {
    {"calls", nest_calls, METH_VARARGS, "calls(number, push_onward=None, pop_onward=None)"},
    {"spend", nest_spend, METH_O, "spend(size)"},
    {"thread", nest_thread, METH_NOARGS, "thread()"},
    {"take", nest_take, METH_NOARGS, "take()"},
    {NULL},
};

static PyTypeObject nest_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "nvtrace.native.recorder.Nest",
    .tp_basicsize = sizeof(nest),
    .tp_dealloc = nest_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Nest(budget_bytes, make_thread): see nvtrace.emit.nest",
    .tp_methods = nest_methods,
    .tp_new = nest_new,
};

/* -- what a with statement looks up ------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    PyObject *push, *pop;
} block;

/* Call push or pop, without the way through Python where it is one of those above. */
static int call_bound(PyObject *bound, PyCFunction native) {
    Py_INCREF(bound); /* the block may be unbound meanwhile */
    PyObject *result;
    if (PyCFunction_CheckExact(bound) && PyCFunction_GET_FUNCTION(bound) == native)
        result = native(PyCFunction_GET_SELF(bound), NULL);
    else
        result = PyObject_CallNoArgs(bound);
    Py_DECREF(bound);
    Py_XDECREF(result);
    return result != NULL;
}

static PyObject *push_unbound;

static int open_block(PyObject *object) {
    PyObject *bound = ((block *)object)->push;
    if (bound) return call_bound(bound, push);
    PyObject *result = PyObject_CallMethodNoArgs(object, push_unbound);
    Py_XDECREF(result);
    return result != NULL;
}

static PyObject *block_enter(PyObject *object, PyObject *unused) {
    return open_block(object) ? Py_NewRef(object) : NULL;
}

static PyObject *block_exit(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    PyObject *bound = ((block *)object)->pop;
    if (!bound) {
        PyErr_SetString(PyExc_AttributeError, "_pop");
        return NULL;
    }
    if (!call_bound(bound, pop)) return NULL;
    Py_RETURN_NONE;
}

/* Arguments: function, tuple, dictionary. What is open is closed where it was opened. */
static PyObject *block_call(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyTuple_Check(args[1]) || !PyDict_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "_call(function, args, kwargs)");
        return NULL;
    }
    if (!open_block(object)) return NULL;
    PyObject *bound = Py_XNewRef(((block *)object)->pop);
    PyObject *result = PyObject_Call(args[0], args[1], args[2]);
    if (!bound) return result; /* another thread unbound the block, which keeps its pop: never */
    PyObject *type, *value, *trace;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    if (!call_bound(bound, pop)) Py_CLEAR(result);
    else if (!result) PyErr_Restore(type, value, trace);
    Py_DECREF(bound);
    return result;
}

static PyObject *block_pass_in(PyObject *object, PyObject *unused) { return Py_NewRef(object); }

static PyObject *block_pass_out(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    Py_RETURN_NONE;
}

static int block_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(((block *)object)->push);
    Py_VISIT(((block *)object)->pop);
    return 0;
}

static int block_clear(PyObject *object) {
    Py_CLEAR(((block *)object)->push);
    Py_CLEAR(((block *)object)->pop);
    return 0;
}

static void block_free(PyObject *object) {
    PyObject_GC_UnTrack(object);
    block_clear(object);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef block_methods[] = {
    {"__enter__", block_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))block_exit, METH_FASTCALL, NULL},
    {"_call", (PyCFunction)(void (*)(void))block_call, METH_FASTCALL, NULL},
    {"_pass_in", block_pass_in, METH_NOARGS, NULL},
    {"_pass_out", (PyCFunction)(void (*)(void))block_pass_out, METH_FASTCALL, NULL},
    {NULL},
};

static PyMemberDef block_members[] = {
    {"_push", T_OBJECT_EX, offsetof(block, push), 0, NULL},
    {"_pop", T_OBJECT_EX, offsetof(block, pop), 0, NULL},
    {NULL},
};

static PyTypeObject block_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "nvtrace.native.recorder.Block",
    .tp_basicsize = sizeof(block),
    .tp_dealloc = block_free,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "See nvtrace.emit.blocks",
    .tp_traverse = block_traverse,
    .tp_clear = block_clear,
    .tp_methods = block_methods,
    .tp_members = block_members,
    .tp_new = PyType_GenericNew,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "recorder", .m_size = -1};

PyMODINIT_FUNC PyInit_recorder(void) {
    push_unbound = PyUnicode_InternFromString("_push_unbound");
    if (!push_unbound || PyType_Ready(&label_type)) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made && (PyModule_AddType(made, &nest_type) || PyModule_AddType(made, &block_type)))
        Py_CLEAR(made);
    return made;
}
