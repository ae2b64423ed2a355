/* A method that marks its calls inside other calls, as adapters/paddle/nested.py defines it.
 *
 * A model has thousands of layers, each of which is one such call: what stands in its place here
 * builds no frame, no tuple and no dict.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

/* -- a flag of each thread --------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Py_tss_t key; /* its value is NULL where the flag is not set */
} flag;

static PyObject *flag_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    if (!PyArg_ParseTuple(args, ":Flag")) return NULL;
    flag *self = (flag *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->key = (Py_tss_t)Py_tss_NEEDS_INIT;
    if (PyThread_tss_create(&self->key)) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_RuntimeError, "no more thread-specific data");
        return NULL;
    }
    return (PyObject *)self;
}

static void flag_free(PyObject *object) {
    PyThread_tss_delete(&((flag *)object)->key);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *flag_get(PyObject *object, void *unused) {
    return PyBool_FromLong(PyThread_tss_get(&((flag *)object)->key) != NULL);
}

static int flag_set(PyObject *object, PyObject *value, void *unused) {
    int on = value ? PyObject_IsTrue(value) : 0;
    if (on < 0) return -1;
    return PyThread_tss_set(&((flag *)object)->key, on ? object : NULL);
}

static PyGetSetDef flag_attributes[] = {{"on", flag_get, flag_set, "Of this thread."}, {NULL}};

static PyTypeObject flag_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "nvtrace.native.calls.Flag",
    .tp_basicsize = sizeof(flag),
    .tp_dealloc = flag_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_getset = flag_attributes,
    .tp_new = flag_new,
};

/* -- the method -------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    flag *inside;
    PyObject *original, *outermost, *ranges, *bind;
} nested;

static int call(PyObject *callable) {
    PyObject *result = PyObject_CallNoArgs(callable);
    Py_XDECREF(result);
    return result != NULL;
}

/* Close the range; an error that the method raised goes on. */
static PyObject *closed(PyObject *pop, PyObject *result) {
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    int popped = call(pop);
    if (!result) {
        if (!popped) PyErr_WriteUnraisable(pop);
        PyErr_Restore(type, value, trace);
    } else if (!popped) {
        Py_CLEAR(result);
    }
    return result;
}

static PyObject *nested_call(PyObject *object, PyObject *const *args, size_t count,
                             PyObject *names) {
    nested *self = (nested *)object;
    if (!PyThread_tss_get(&self->inside->key))
        return PyObject_Vectorcall(self->outermost, args, count, names);
    if (self->ranges == Py_None || !PyVectorcall_NARGS(count))
        return PyObject_Vectorcall(self->original, args, count, names);
    PyObject *kind = (PyObject *)Py_TYPE(args[0]);
    PyObject *ends = PyDict_GetItemWithError(self->ranges, kind);
    if (!ends && PyErr_Occurred()) return NULL;
    ends = ends ? Py_NewRef(ends) : PyObject_CallOneArg(self->bind, kind);
    if (!ends) return NULL;
    PyObject *result = NULL;
    if (!PyTuple_Check(ends) || PyTuple_GET_SIZE(ends) != 2) {
        PyErr_SetString(PyExc_TypeError, "a range must be a tuple of push and pop");
    } else if (call(PyTuple_GET_ITEM(ends, 0))) {
        result = PyObject_Vectorcall(self->original, args, count, names);
        result = closed(PyTuple_GET_ITEM(ends, 1), result);
    }
    Py_DECREF(ends);
    return result;
}

static PyObject *nested_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *original, *inside, *outermost, *ranges, *bind;
    if (!PyArg_ParseTuple(args, "OO!OOO:Nested", &original, &flag_type, &inside, &outermost,
                          &ranges, &bind))
        return NULL;
    if (ranges != Py_None && !PyDict_Check(ranges)) {
        PyErr_SetString(PyExc_TypeError, "ranges must be a dict or None");
        return NULL;
    }
    nested *self = (nested *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = nested_call;
    self->original = Py_NewRef(original);
    self->inside = (flag *)Py_NewRef(inside);
    self->outermost = Py_NewRef(outermost);
    self->ranges = Py_NewRef(ranges);
    self->bind = Py_NewRef(bind);
    return (PyObject *)self;
}

static int nested_traverse(PyObject *object, visitproc visit, void *arg) {
    nested *self = (nested *)object;
    Py_VISIT(self->original);
    Py_VISIT(self->outermost);
    Py_VISIT(self->ranges);
    Py_VISIT(self->bind);
    return 0;
}

static int nested_clear(PyObject *object) {
    nested *self = (nested *)object;
    Py_CLEAR(self->original);
    Py_CLEAR(self->outermost);
    Py_CLEAR(self->ranges);
    Py_CLEAR(self->bind);
    return 0;
}

static void nested_free(PyObject *object) {
    PyObject_GC_UnTrack(object);
    nested_clear(object);
    Py_XDECREF(((nested *)object)->inside);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *nested_get(PyObject *object, PyObject *instance, PyObject *owner) {
    return instance && instance != Py_None ? PyMethod_New(object, instance) : Py_NewRef(object);
}

/* What it has not itself is the original's: what traces code, as to_static does, traces that. */
static PyObject *nested_attribute(PyObject *object, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(object, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((nested *)object)->original, name);
}

static PyObject *nested_doc(PyObject *object, void *unused) {
    return PyObject_GetAttrString(((nested *)object)->original, "__doc__");
}

static PyGetSetDef nested_attributes[] = {{"__doc__", nested_doc, NULL, NULL}, {NULL}};

static PyMemberDef nested_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(nested, original), READONLY, NULL},
    {NULL},
};

static PyTypeObject nested_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "nvtrace.native.calls.Nested",
    .tp_basicsize = sizeof(nested),
    .tp_vectorcall_offset = offsetof(nested, vectorcall),
    .tp_dealloc = nested_free,
    .tp_call = PyVectorcall_Call,
    .tp_getattro = nested_attribute,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_traverse = nested_traverse,
    .tp_clear = nested_clear,
    .tp_members = nested_members,
    .tp_getset = nested_attributes,
    .tp_descr_get = nested_get,
    .tp_new = nested_new,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "calls", .m_size = -1};

PyMODINIT_FUNC PyInit_calls(void) {
    PyObject *made = PyModule_Create(&module);
    if (made && (PyModule_AddType(made, &flag_type) || PyModule_AddType(made, &nested_type)))
        Py_CLEAR(made);
    return made;
}
