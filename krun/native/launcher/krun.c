/*
 * build/bin/krun: the Python interpreter with its core alone, started straight into the bundle of hot modules
 * (krun/native/build_launcher.py makes both, krun/native/launcher/start.py is the first code that runs).
 *
 * PEP 587's two-phase start: without the second phase there is no file-system importer, no codec registry, no
 * sys.stdout; it takes half the time of /usr/bin/python3 -IS.  full() makes up for the second phase where a
 * rare path needs it.  Whatever is wrong with the bundle (absent, another interpreter's, a source changed
 * since) ends in an execve of the plain script beside it, which does the same more slowly.
 *
 * Compiled in: KR_SCRIPT, the script; KR_BUNDLE, the bundle; KR_PATHS, sys.path of the second phase,
 * ":"-separated.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <marshal.h>

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The head of the bundle; then the marshalled start code, the marshalled index, the modules. */
struct head {
    char magic[8];
    uint32_t python;
    uint32_t start;
    uint32_t index;
    uint32_t unused;
};

extern int _PySignal_Init(int install_handlers); /* hidden, but we are linked statically */

static char **arguments;
static const char *data;
static size_t size;
static int64_t began;

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

static PyMethodDef host_methods[] = {
    {"full", host_full, METH_NOARGS, "Does the second phase of the interpreter's start."},
    {"script", host_script, METH_NOARGS, "Becomes the plain script; does not return."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef host_module = {
    PyModuleDef_HEAD_INIT, "_krun_host", NULL, -1, host_methods, NULL, NULL, NULL, NULL,
};

static PyObject *host_init(void) {
    PyObject *module = PyModule_Create(&host_module);
    if (!module)
        return NULL;
    PyObject *view = PyMemoryView_FromMemory((char *)data, (Py_ssize_t)size, PyBUF_READ);
    PyObject *t0 = PyLong_FromLongLong(began);
    PyObject *argv = PyList_New(0);
    for (char **word = arguments; argv && *word; word++) {
        PyObject *text = PyUnicode_DecodeUTF8(*word, (Py_ssize_t)strlen(*word), "surrogateescape");
        if (!text || PyList_Append(argv, text) < 0)
            return NULL;
        Py_DECREF(text);
    }
    PyObject *search = PyList_New(0);
    char paths[] = KR_PATHS;
    for (char *word = strtok(paths, ":"); search && word; word = strtok(NULL, ":"))
        PyList_Append(search, PyUnicode_DecodeFSDefault(word));
    const struct head *head = (const struct head *)data;
    long index = (long)(sizeof(*head) + head->start);
    if (PyModule_AddObject(module, "data", view) < 0 || PyModule_AddObject(module, "t0", t0) < 0 ||
        PyModule_AddObject(module, "argv", argv) < 0 || PyModule_AddObject(module, "paths", search) < 0 ||
        PyModule_AddIntConstant(module, "index", index) < 0 ||
        PyModule_AddIntConstant(module, "modules", index + (long)head->index) < 0)
        return NULL;
    return module;
}

static int map_bundle(void) {
    struct stat st;
    int fd = open(KR_BUNDLE, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    size = (size_t)st.st_size;
    void *at = size < sizeof(struct head) ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return -1;
    data = at;
    const struct head *head = at;
    if (memcmp(head->magic, "KRBUNDLE", 8) != 0 || head->python != PY_VERSION_HEX)
        return -1;
    return sizeof(*head) + head->start + head->index <= size ? 0 : -1;
}

static void interpreter(int argc) {
    PyPreConfig pre;
    PyPreConfig_InitIsolatedConfig(&pre);
    pre.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&pre);
    if (PyStatus_Exception(status))
        by_script();
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config._init_main = 0;
    config.site_import = 0;
    config.parse_argv = 0;
    config.use_frozen_modules = 1;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    config.install_signal_handlers = 1;
    /* Given, or the interpreter would look for itself all over the file system. */
    config.module_search_paths_set = 1;
    char paths[] = KR_PATHS;
    for (char *word = strtok(paths, ":"); word; word = strtok(NULL, ":")) {
        wchar_t *wide = Py_DecodeLocale(word, NULL);
        if (!wide || PyStatus_Exception(PyWideStringList_Append(&config.module_search_paths, wide)))
            by_script();
    }
    wchar_t **fixed[] = {&config.executable,  &config.base_executable, &config.prefix,
                         &config.base_prefix, &config.exec_prefix,     &config.base_exec_prefix,
                         &config.stdlib_dir,  &config.program_name};
    const wchar_t *values[] = {L"" KR_PYTHON, L"" KR_PYTHON, L"/usr",       L"/usr",
                               L"/usr",       L"/usr",       L"" KR_STDLIB, L"krun"};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (PyStatus_Exception(PyConfig_SetString(&config, fixed[i], values[i])))
            by_script();
    if (PyStatus_Exception(PyConfig_SetBytesArgv(&config, argc, arguments)))
        by_script();
    status = Py_InitializeFromConfig(&config);
    if (PyStatus_Exception(status))
        by_script();
}

int main(int argc, char **argv) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    began = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    arguments = argv;
    if (map_bundle() < 0)
        by_script();
    if (PyImport_AppendInittab("_krun_host", host_init) < 0)
        by_script();
    interpreter(argc);
    const struct head *head = (const struct head *)data;
    PyGC_Disable();
    /*
     * Of the second phase: SIGPIPE and SIGXFSZ ignored (the child sets them back, krun/oci/init.py, step 1),
     * SIGINT an exception; the module _signal cannot be imported without it.
     */
    if (_PySignal_Init(1) < 0)
        by_script();
    PyObject *code = PyMarshal_ReadObjectFromString(data + sizeof(*head), head->start);
    PyObject *module = PyImport_AddModule("__main__");
    if (!code || !module)
        by_script();
    PyObject *space = PyModule_GetDict(module);
    PyDict_SetItemString(space, "__builtins__", PyEval_GetBuiltins());
    PyObject *result = PyEval_EvalCode(code, space, space);
    if (!result) {
        PyErr_Print();
        _exit(1);
    }
    _exit(0);
}
