/*
 * build/bin/krun: a Python interpreter that has started already.
 *
 * This file is linked twice into the same executable, so to speak.  build_launcher.py links it with the
 * static libpython and runs the result once (make): the interpreter starts, krun/native/launcher/start.py
 * loads every module of the hot verbs, and the writable memory of the process (everything from .data to the
 * last byte handed out in blocks.c) is written to a file.  build_launcher.py puts that memory into a copy
 * of the executable, in the place of .data and .bss.  The copy is what callers run (resume): it finds
 * everything made, renews what belongs to a process (thread, signals, environment, arguments) and goes
 * straight to the verb.
 *
 * What makes it possible: the executable is not position-independent, and whatever Python allocates comes
 * from `arena` here, so all of Python's pointers stay true.  libc is shared and not part of it: ld.so writes
 * its pointers (.got, copy relocations) anew at every start, after the kernel has mapped the segment.
 * build_launcher.py makes the memory twice, with libraries, heap and stack at other addresses, and refuses it
 * if a byte differs.
 *
 * PEP 587's two-phase start: only the first phase is in the memory (no importer of files, no codec registry,
 * no sys.stdout); full() makes up for the second where a rare path needs it.
 *
 * Compiled in: KR_SCRIPT, the plain script of the same effect; KR_PATHS, sys.path of the second phase,
 * ":"-separated; KR_PYTHON, KR_STDLIB.
 */
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_codecs.h>
#endif
#include <internal/pycore_pystate.h>
#include <internal/pycore_runtime.h>
#include <marshal.h>

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"
#include "blocks.h"

extern int _PySignal_Init(int install_handlers); /* hidden, but we are linked statically */
extern char __data_start[], _end[];

static PyObject *resume_function;
static PyOS_sighandler_t on_interrupt;
static const char *sources; /* build_launcher.py, `stamps` */
static size_t sources_size;
static char **arguments;

/* Where the interpreter keeps the thread's state: from 3.12 on in a thread-local variable, which is no part of
 * the memory, and the key of PyGILState_Ensure() has moved. */
#if PY_VERSION_HEX >= 0x030C0000
static PyThreadState *kept;
#define TSS_KEY (_PyRuntime.autoTSSkey)
/* Above the top of its stack of frames lie those that have returned, with pointers to C's stack. */
static void keep_thread(PyThreadState *thread) {
    kept = thread;
    memset(thread->datastack_top, 0,
           (size_t)((char *)thread->datastack_limit - (char *)thread->datastack_top));
}
static PyThreadState *thread_again(void) { return _Py_tss_tstate = kept; }
#else
#define TSS_KEY (_PyRuntime.gilstate.autoTSSkey)
static void keep_thread(PyThreadState *thread) { (void)thread; }
static PyThreadState *thread_again(void) { return PyThreadState_Get(); }
#endif

/* ---------------------------------------------------------------------------------------------- for start.py
 */

static void by_script(void) {
    execv(KR_SCRIPT, arguments);
    static const char text[] = "krun: " KR_SCRIPT " cannot be executed; run ./dev setup\n";
    if (write(2, text, sizeof(text) - 1) < 0)
        _exit(127);
    _exit(127);
}

static PyObject *host_full(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    PyStatus status = _Py_InitializeMain();
    if (PyStatus_Exception(status)) {
        PyErr_SetString(PyExc_ImportError, status.err_msg ? status.err_msg : "interpreter");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *host_script(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    by_script();
    Py_RETURN_NONE;
}

static PyObject *host_choose(PyObject *self, PyObject *pair) {
    PyObject *object;
    int part;
    (void)self;
    if (!PyArg_ParseTuple(pair, "Oi", &object, &part))
        return NULL;
    kr_order_choose(object, part);
    Py_RETURN_NONE;
}

static PyMethodDef host_methods[] = {
    {"choose", host_choose, METH_VARARGS, "Says that hot verbs touch an object (blocks.c)."},
    {"full", host_full, METH_NOARGS, "Does the second phase of the interpreter's start."},
    {"script", host_script, METH_NOARGS, "Becomes the plain script; does not return."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef host_module = {
    PyModuleDef_HEAD_INIT, "_krun_host", NULL, -1, host_methods, NULL, NULL, NULL, NULL,
};

static PyObject *host_init(void) {
    PyObject *module = PyModule_Create(&host_module);
    PyObject *search = PyList_New(0);
    char paths[] = KR_PATHS;
    for (char *word = strtok(paths, ":"); search && word; word = strtok(NULL, ":"))
        PyList_Append(search, PyUnicode_DecodeFSDefault(word));
    if (!module || PyModule_AddObject(module, "paths", search) < 0)
        return NULL;
    return module;
}

/* ------------------------------------------------------------------------------------------------------ make
 */

static void fail(const char *what) {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *text = value ? PyObject_Repr(value) : NULL;
    if (text)
        dprintf(2, "%s\n", PyUnicode_AsUTF8(text));
    dprintf(2, "krun launcher: cannot be made: %s\n", what);
    _exit(1);
}

static void check(PyStatus status, const char *what) {
    if (PyStatus_Exception(status))
        fail(status.err_msg ? status.err_msg : what);
}

/*
 * The built-in module _sha2 of 3.12 and later needs an archive that Debian's packages do not hold
 * (libHacl_Hash_SHA2.a). Its functions are replaced by these, and the module is taken out of the table before
 * the interpreter starts: hashlib and random have OpenSSL's instead.
 */
#if PY_VERSION_HEX >= 0x030C0000
#define NO_SHA2(name)                                                                                        \
    __attribute__((weak)) void python_hashlib_Hacl_Hash_SHA2_##name(void);                                   \
    void python_hashlib_Hacl_Hash_SHA2_##name(void) { abort(); }
NO_SHA2(malloc_224)
NO_SHA2(malloc_256)
NO_SHA2(malloc_384)
NO_SHA2(malloc_512)
NO_SHA2(copy_256)
NO_SHA2(copy_512)
NO_SHA2(update_256)
NO_SHA2(update_512)
NO_SHA2(digest_256)
NO_SHA2(digest_512)
NO_SHA2(free_256)
NO_SHA2(free_512)

static void drop_sha2(void) {
    struct _inittab *from = PyImport_Inittab, *to = from;
    for (; from->name; from++)
        if (strcmp(from->name, "_sha2") != 0)
            *to++ = *from;
    *to = *from;
}
#else
static void drop_sha2(void) {}
#endif

static void interpreter(unsigned long seed) {
    drop_sha2();
    PyPreConfig pre;
    PyPreConfig_InitIsolatedConfig(&pre);
    pre.utf8_mode = 1;
    check(Py_PreInitialize(&pre), "preinitialize");
    kr_without_pools();
    if (PyImport_AppendInittab("_krun_host", host_init) < 0)
        fail("table of modules");
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config._init_main = 0;
    config.site_import = 0;
    config.parse_argv = 0;
    config.use_frozen_modules = 1;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    config.install_signal_handlers = 1;
    /* Strings' hashes are part of the memory, so the seed is the build's, not the process's. */
    config.use_hash_seed = 1;
    config.hash_seed = seed;
    /* Given, or the interpreter would look for itself all over the file system. */
    config.module_search_paths_set = 1;
    char paths[] = KR_PATHS;
    for (char *word = strtok(paths, ":"); word; word = strtok(NULL, ":")) {
        wchar_t *wide = Py_DecodeLocale(word, NULL);
        if (!wide)
            fail("paths");
        check(PyWideStringList_Append(&config.module_search_paths, wide), "paths");
    }
    wchar_t **fixed[] = {&config.executable,  &config.base_executable, &config.prefix,
                         &config.base_prefix, &config.exec_prefix,     &config.base_exec_prefix,
                         &config.stdlib_dir,  &config.program_name};
    const wchar_t *values[] = {L"" KR_PYTHON, L"" KR_PYTHON, L"/usr",       L"/usr",
                               L"/usr",       L"/usr",       L"" KR_STDLIB, L"krun"};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        check(PyConfig_SetString(&config, fixed[i], values[i]), "config");
    char *name[] = {"krun"};
    check(PyConfig_SetBytesArgv(&config, 1, name), "config");
    check(Py_InitializeFromConfig(&config), "initialize");
}

static char *read_whole(const char *path, size_t *size) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        fail(path);
    char *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        fail(path);
    close(fd);
    *size = (size_t)st.st_size;
    return data;
}

static void write_whole(int fd, const void *data, size_t size) {
    for (const char *at = data; size;) {
        ssize_t wrote = write(fd, at, size);
        if (wrote <= 0)
            fail("write");
        at += wrote;
        size -= (size_t)wrote;
    }
}

static void write_order(const char *path, PyObject *touched, PyObject *frequent) {
    if (!touched || !PyObject_CallObject(touched, frequent))
        fail("start.py, touched");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        fail(path);
    size_t count;
    const unsigned char *order = kr_order_end(&count);
    write_whole(fd, order, count);
    _exit(0);
}

/*
 * PROGRAM STAMPS MODULES MEMORY SEED ORDER: files of build_launcher.py, seed of Python's hashes; if ORDER is not there,
 * it is made, and nothing else (blocks.c).  What is written to
 * MEMORY begins with the addresses of its first byte, after its last, and of the type int.  The process is
 * not in Python while it writes: a frame has pointers to the stack.
 */
static void make(int argc, char **argv) {
    if (argc != 6)
        fail("usage: STAMPS MODULES MEMORY SEED ORDER");
    if (kr_arena + KR_ARENA != _end)
        fail("the arena is not the end of .bss");
    signal(SIGINT, SIG_DFL);
    size_t size;
    int first = access(argv[5], F_OK) < 0;
    if (first)
        kr_order_begin();
    else {
        char *order = read_whole(argv[5], &size);
        kr_order_use((unsigned char *)order, size);
    }
    interpreter(strtoul(argv[4], NULL, 10));
    PyGC_Disable();
    /* Of the second phase; the module _signal cannot be imported without it. */
    if (_PySignal_Init(1) < 0)
        fail("signals");
    on_interrupt = PyOS_getsig(SIGINT);
    char *stamps = read_whole(argv[1], &size);
    sources = PyMem_RawMalloc(size);
    sources_size = size;
    memcpy((char *)sources, stamps, size);
    char *modules = read_whole(argv[2], &size);
    PyObject *all =
        PyMarshal_ReadObjectFromString(modules, (Py_ssize_t)size); /* build_launcher.py, `modules` */
    if (!all || !PyTuple_Check(all) || PyTuple_GET_SIZE(all) != 3)
        fail("modules");
    PyObject *space = PyModule_GetDict(PyImport_AddModule("__main__"));
    PyDict_SetItemString(space, "__builtins__", PyEval_GetBuiltins());
    PyDict_SetItemString(space, "BUNDLE", PyTuple_GET_ITEM(all, 2));
    if (!PyEval_EvalCode(PyTuple_GET_ITEM(all, 0), space, space))
        fail("start.py");
#if PY_VERSION_HEX >= 0x030D0000
    /* No longer made when it is first used, and an error handler may be looked for before the second phase. */
    check(_PyCodec_InitRegistry(PyInterpreterState_Get()), "codecs");
#endif
    if (first)
        write_order(argv[5], PyDict_GetItemString(space, "touched"), PyTuple_GET_ITEM(all, 1));
    PyDict_DelItemString(space, "BUNDLE");
    Py_DECREF(all);
    resume_function = PyDict_GetItemString(space, "resume");
    if (!resume_function)
        fail("start.py has no resume");
    /* It does nothing while it is disabled. Also the lists of free objects go, which lie everywhere. */
    PyGC_Enable();
    PyGC_Collect();
    PyGC_Disable();
    PyThreadState *thread = PyThreadState_Get();
    thread->thread_id = thread->native_thread_id = _PyRuntime.main_thread = 0;
    keep_thread(thread);
    kr_with_pools();
    int fd = open(argv[3], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        fail(argv[3]);
    uint64_t range[3] = {(uint64_t)__data_start, (uint64_t)kr_arena_end(), (uint64_t)&PyLong_Type};
    write_whole(fd, range, sizeof(range));
    arguments = NULL;
    kr_made = 1;
    write_whole(fd, (void *)range[0], range[1] - range[0]);
    _exit(0);
}

/* ---------------------------------------------------------------------------------------------------- resume
 */

/* Whether every source is what it was: entries of time in ns, size, length of the padded path, path. */
static int unchanged(void) {
    struct entry {
        int64_t time, size, length;
        char path[];
    };
    for (size_t at = 0; at < sources_size;) {
        const struct entry *e = (const struct entry *)(sources + at);
        struct stat st;
        if (stat(e->path, &st) < 0 || st.st_size != e->size ||
            st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec != e->time)
            return 0;
        at += sizeof(*e) + (size_t)e->length;
    }
    return 1;
}

/* What belongs to a process: the thread's identity, and the dispositions of signals as Python's start sets
 * them (the child sets them back, krun/oci/init.py, step 1). */
static void renew(void) {
    PyThreadState *thread = thread_again();
    _PyRuntime.main_thread = thread->thread_id = PyThread_get_thread_ident();
    thread->native_thread_id = PyThread_get_thread_native_id();
    Py_tss_t fresh = Py_tss_NEEDS_INIT;
    TSS_KEY = fresh;
    if (PyThread_tss_create(&TSS_KEY) != 0 || PyThread_tss_set(&TSS_KEY, thread) != 0)
        by_script();
    PyOS_setsig(SIGPIPE, SIG_IGN);
    PyOS_setsig(SIGXFSZ, SIG_IGN);
    if (PyOS_getsig(SIGINT) == SIG_DFL)
        PyOS_setsig(SIGINT, on_interrupt);
}

static PyObject *words(char **from) {
    PyObject *list = PyList_New(0);
    for (; list && *from; from++) {
        PyObject *text = PyUnicode_DecodeUTF8(*from, (Py_ssize_t)strlen(*from), "surrogateescape");
        if (!text || PyList_Append(list, text) < 0)
            return NULL;
        Py_DECREF(text);
    }
    return list;
}

/* As posixmodule.c's convertenviron: the first of two of one name counts. */
static PyObject *environment(void) {
    PyObject *found = PyDict_New();
    for (char **entry = environ; found && entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (!equals)
            continue;
        PyObject *name = PyBytes_FromStringAndSize(*entry, equals - *entry);
        PyObject *value = PyBytes_FromString(equals + 1);
        if (!name || !value || !PyDict_SetDefault(found, name, value))
            return NULL;
        Py_DECREF(name);
        Py_DECREF(value);
    }
    return found;
}

int main(int argc, char **argv) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!kr_made)
        make(argc, argv);
    arguments = argv;
    if (!unchanged())
        by_script();
    renew();
    PyObject *t0 = PyLong_FromLongLong((int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    PyObject *line = words(argv), *space = environment();
    if (!t0 || !line || !space)
        by_script();
    PyObject_CallFunctionObjArgs(resume_function, line, space, t0, NULL);
    PyErr_Print();
    _exit(1);
}
