/* Calls that the reference refuses, the faults that a test can ask for, shared memory, and what the
 * system library tells of a binary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "compose.h"

typedef abi_error register_fn(abi_handle, const abi_mem_descriptor *, uint32_t, abi_handle *);
typedef abi_error deregister_fn(const abi_handle *, uint32_t);
typedef abi_error operations_fn(abi_handle, uint32_t *, const abi_operation_name **);
typedef abi_error platform_fn(abi_handle, const abi_platform_info **);
typedef abi_error build_fn(const char **);

static char fault_path[] = "/tmp/ferry-faults-XXXXXX";

/* The lines of the fault file from now on. */
static void faults(const char *lines)
{
    FILE *f = fopen(fault_path, "w");
    assert_non_null(f);
    fputs(lines, f);
    fclose(f);
}

static void open_client(client *c)
{
    assert_int_equal(client_open(c, reference_path("libQnnRef.so")), 0);
    assert_int_equal(client_device(c, 57, 75, 8), 0);
}

/* y = x + z, u16, one row of 64. */
typedef struct {
    client c;
    abi_tensor *x, *z, *y;
    uint16_t in[2][64], out[64];
} sum;

static void compose_sum(sum *s, const char *name)
{
    abi_quant q = scale_offset(1e-4, -32768);
    assert_int_equal(client_graph(&s->c, name), 0);
    s->x = tensor(&s->c, "x", ABI_APP_WRITE, ABI_U16, q, NULL, DIMS(1, 64));
    s->z = tensor(&s->c, "z", ABI_APP_WRITE, ABI_U16, q, NULL, DIMS(1, 64));
    s->y = tensor(&s->c, "y", ABI_APP_READ, ABI_U16, q, NULL, DIMS(1, 64));
    NODE(&s->c, "ElementWiseAdd", s->y, s->x, s->z);
    for (int i = 0; i < 64; i++) {
        s->in[0][i] = (uint16_t)(32768 + i);
        s->in[1][i] = 32770;
    }
}

static abi_error run_sum(sum *s)
{
    void *in[] = {s->in[0], s->in[1]}, *out = s->out;
    return client_execute(&s->c, 2, (abi_tensor *[]){s->x, s->z}, in, 1, &s->y, &out);
}

static void open_sum(sum *s)
{
    faults("");
    open_client(&s->c);
    assert_int_equal(client_context(&s->c, false), 0);
    compose_sum(s, "g");
    assert_int_equal(s->c.add_error, 0);
    assert_int_equal(client_finalize(&s->c), 0);
}

static void handles_of_freed_objects_are_refused(void **state)
{
    (void)state;
    sum s;
    open_sum(&s);
    client *c = &s.c;
    abi_handle context = c->context, graph = c->graph;
    assert_int_equal(SLOT(c, 8, free_fn)(c->backend), ABI_NOT_PERMITTED);
    assert_int_equal(SLOT(c, 14, context_free_fn)(graph, NULL), ABI_CONTEXT_HANDLE);
    assert_int_equal(SLOT(c, 14, context_free_fn)(context, NULL), 0);
    assert_int_equal(SLOT(c, 14, context_free_fn)(context, NULL), ABI_CONTEXT_HANDLE);
    assert_int_equal(run_sum(&s), ABI_GRAPH_HANDLE);
    assert_int_equal(SLOT(c, 19, finalize_fn)(graph, NULL, NULL), ABI_GRAPH_HANDLE);
    assert_int_equal(client_context(c, false), 0);
    assert_ptr_not_equal(c->context, context);
    assert_int_equal(SLOT(c, 15, graph_create_fn)(context, "h", NULL, &graph), ABI_CONTEXT_HANDLE);
    client_close(c, true);
}

static void graphs_are_refused_in_the_wrong_state(void **state)
{
    (void)state;
    sum s;
    open_sum(&s);
    client *c = &s.c;
    abi_handle graph;
    assert_int_equal(client_finalize(c), ABI_UNSUPPORTED);
    assert_int_equal(NODE(c, "ElementWiseAdd", s.y, s.x, s.z), ABI_GENERAL);
    assert_int_equal(SLOT(c, 15, graph_create_fn)(c->context, "g", NULL, &graph), ABI_GRAPH_NAME);
    assert_int_equal(SLOT(c, 15, graph_create_fn)(c->context, NULL, NULL, &graph), ABI_GRAPH_NAME);
    assert_int_equal(client_graph(c, "empty"), 0);
    assert_int_equal(client_finalize(c), ABI_GRAPH_FINALIZE);
    compose_sum(&s, "unfinished");
    assert_int_equal(run_sum(&s), ABI_GRAPH_NOT_FINALIZED);
    tensor(c, "unused", ABI_APP_WRITE, ABI_U16, scale_offset(1, 0), NULL, DIMS(4));
    assert_int_equal(client_finalize(c), ABI_GRAPH_UNCONNECTED);
    client_close(c, true);
}

static void executions_with_other_tensors_are_refused(void **state)
{
    (void)state;
    sum s;
    open_sum(&s);
    client *c = &s.c;
    execute_fn *execute = SLOT(c, 21, execute_fn);
    assert_int_equal(run_sum(&s), 0);
    assert_int_equal(s.out[5], 32768 + 5 + 2);
    abi_tensor in[2] = {*s.z, *s.x}, out[1] = {*s.y};
    in[0].u.v1.u.buffer = (abi_buffer){s.in[1], 128};
    in[1].u.v1.u.buffer = (abi_buffer){s.in[0], 128};
    out[0].u.v1.u.buffer = (abi_buffer){s.out, 128};
    assert_int_equal(execute(c->graph, in, 2, out, 1, NULL, NULL), 0);
    assert_int_equal(execute(c->graph, in, 1, out, 1, NULL, NULL), ABI_GRAPH_TENSOR);
    assert_int_equal(execute(c->graph, (abi_tensor[]){in[0], in[0]}, 2, out, 1, NULL, NULL),
                     ABI_GRAPH_TENSOR);
    in[0].u.v1.u.buffer.size = 127;
    assert_int_equal(execute(c->graph, in, 2, out, 1, NULL, NULL), ABI_GRAPH_TENSOR);
    in[0].u.v1.u.buffer.size = 128;
    in[0].u.v1.mem_type = ABI_MEMHANDLE;
    assert_int_equal(execute(c->graph, in, 2, out, 1, NULL, NULL), ABI_MEM_HANDLE);
    client_close(c, true);
}

static void options_that_are_not_known_are_refused(void **state)
{
    (void)state;
    client c;
    faults("");
    open_client(&c);
    uint64_t raw[8] = {99};
    abi_config k = {.option = 0, .u.custom = raw}, other = {.option = 77};
    const abi_config *custom[] = {&k, NULL}, *plain[] = {&other, NULL};
    context_create_fn *create = SLOT(&c, 9, context_create_fn);
    assert_int_equal(create(c.backend, c.device, custom, &c.context), ABI_CONTEXT_CONFIG);
    assert_int_equal(create(c.backend, c.device, plain, &c.context), ABI_UNSUPPORTED);
    raw[0] = 1;
    raw[5] = 1;
    assert_int_equal(create(c.backend, c.device, custom, &c.context), ABI_CONTEXT_CONFIG);
    assert_int_equal(client_context(&c, true), 0);
    assert_int_equal(SLOT(&c, 15, graph_create_fn)(c.context, "g", plain, &c.graph),
                     ABI_UNSUPPORTED);
    faults("config 6 refuse\n");
    assert_int_equal(client_graph(&c, "g"), ABI_UNSUPPORTED);
    uint32_t soc[16] = {0, 9999, 9999};
    k.u.custom = soc;
    assert_int_equal(SLOT(&c, 40, backend_create_fn)(c.log, custom, &c.graph), ABI_DEVICE_CONFIG);
    client_close(&c, true);
}

/* --- faults --- */

static void calls_fail_as_the_fault_file_says(void **state)
{
    (void)state;
    sum s;
    open_sum(&s);
    faults("# the second from now\ngraphExecute 2 code 6031\n");
    assert_int_equal(run_sum(&s), 0);
    assert_int_equal(run_sum(&s), 6031);
    assert_int_equal(run_sum(&s), 0);
    faults("output y bit 13\n");
    assert_int_equal(run_sum(&s), 0);
    assert_int_equal(s.out[0], (32768 + 2) ^ 1 << 13);
    faults("graphExecute sleep 120\n");
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_int_equal(run_sum(&s), 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 >= 119);
    faults("graphExecute ssr\n");
    assert_int_equal(run_sum(&s), ABI_COMMUNICATION);
    faults("");
    assert_int_equal(run_sum(&s), ABI_GRAPH_CONTEXT);
    client_drop_context(&s.c);
    assert_int_equal(client_context(&s.c, false), 0);
    compose_sum(&s, "g");
    assert_int_equal(client_finalize(&s.c), 0);
    assert_int_equal(run_sum(&s), 0);
    faults("graphExecute ssr fatal\n");
    assert_int_equal(run_sum(&s), ABI_COMMUNICATION_FATAL);
    faults("supported empty\n");
    uint32_t n = 9;
    const abi_operation_name *list;
    assert_int_equal(SLOT(&s.c, 6, operations_fn)(s.c.backend, &n, &list), 0);
    assert_int_equal(n, 0);
    faults("");
    assert_int_equal(SLOT(&s.c, 6, operations_fn)(s.c.backend, &n, &list), 0);
    assert_true(n > 40);
    client_close(&s.c, true);
}

static void operations_are_refused_as_the_fault_file_says(void **state)
{
    (void)state;
    sum s;
    faults("");
    open_client(&s.c);
    assert_int_equal(client_context(&s.c, false), 0);
    faults("validate ElementWiseAdd refuse\n");
    compose_sum(&s, "a");
    assert_int_equal(s.c.validate_error, ABI_OP_VALIDATION);
    assert_int_equal(s.c.add_error, 0);
    assert_int_equal(client_finalize(&s.c), 0);
    faults("finalize ElementWiseAdd refuse\n");
    compose_sum(&s, "b");
    assert_int_equal(s.c.validate_error, 0);
    assert_int_equal(client_finalize(&s.c), ABI_MEM_ALLOC);
    faults("validate ElementWiseAdd accept\n");
    assert_int_equal(client_graph(&s.c, "c"), 0);
    s.x = tensor(&s.c, "x", ABI_APP_WRITE, ABI_U16, scale_offset(1, 0), NULL, DIMS(1, 64));
    s.z = tensor(&s.c, "z", ABI_APP_WRITE, ABI_U8, scale_offset(1, 0), NULL, DIMS(1, 64));
    s.y = tensor(&s.c, "y", ABI_APP_READ, ABI_U16, scale_offset(1, 0), NULL, DIMS(1, 64));
    NODE(&s.c, "ElementWiseAdd", s.y, s.x, s.z);
    assert_int_equal(s.c.validate_error, 0);
    assert_int_equal(s.c.add_error, 0);
    assert_int_equal(client_finalize(&s.c), ABI_MEM_ALLOC);
    client_close(&s.c, true);
}

static void an_absent_input_is_refused_where_it_is_needed(void **state)
{
    (void)state;
    static uint32_t axes[] = {1};
    client c;
    faults("");
    open_client(&c);
    assert_int_equal(client_context(&c, false), 0);
    assert_int_equal(client_graph(&c, "g"), 0);
    abi_quant q = scale_offset(1e-4, -32768);
    abi_tensor *x = tensor(&c, "x", ABI_APP_WRITE, ABI_U16, q, NULL, DIMS(1, 64));
    abi_tensor *y = tensor(&c, "y", ABI_APP_READ, ABI_U16, q, NULL, DIMS(1, 64));
    abi_tensor *beta =
        tensor(&c, "b", ABI_STATIC, ABI_S32, scale_offset(1, 0), calloc(64, 4), DIMS(64));
    free(beta->u.v1.u.buffer.data);
    abi_tensor absent = {.version = 1, .u.v1.type = ABI_NULL};
    param_tensor(&c, "axes", ABI_UI32, axes, DIMS(1));
    param_float(&c, "epsilon", 1e-5f);
    NODE(&c, "LayerNorm", y, x, &absent, beta);
    assert_int_equal(c.validate_error, ABI_OP_VALIDATION);
    assert_int_equal(c.add_error, ABI_GRAPH_OP);
    param_scalar(&c, "axis", ABI_UI32, 1);
    assert_int_equal(NODE(&c, "Concat", y, x, &absent), ABI_GRAPH_OP);
    client_close(&c, true);
}

/* A child of its own: what the call does to it. */
static int ending(const char *lines)
{
    sum s;
    faults("");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        freopen("/dev/null", "w", stderr);
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        open_client(&s.c);
        faults(lines);
        client_context(&s.c, false);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void the_library_can_die_inside_a_call(void **state)
{
    (void)state;
    assert_int_equal(ending(""), 0);
    assert_int_equal(ending("contextCreate 1 abort\n"), SIGABRT);
    assert_int_equal(ending("contextCreate 1 segv\n"), SIGSEGV);
}

static void *execute_alone(void *user)
{
    run_sum(user);
    return NULL;
}

static void calls_on_one_context_from_two_threads_stop_the_process(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        sum s;
        pthread_t thread;
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        signal(SIGABRT, SIG_DFL);
        open_sum(&s);
        sum second = s;
        faults("graphExecute 1 sleep 600000\n");
        pthread_create(&thread, NULL, execute_alone, &second);
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        run_sum(&s);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void results_can_be_disturbed(void **state)
{
    (void)state;
    sum s;
    open_sum(&s);
    assert_int_equal(run_sum(&s), 0);
    uint16_t right[64];
    memcpy(right, s.out, sizeof right);
    setenv("FERRY_REF_JITTER", "2", 1);
    assert_int_equal(run_sum(&s), 0);
    unsetenv("FERRY_REF_JITTER");
    int most = 0;
    for (int i = 0; i < 64; i++) {
        int d = abs(s.out[i] - right[i]);
        most = d > most ? d : most;
    }
    assert_int_equal(most, 2);
    client_close(&s.c, true);
}

static void versions_and_chips_are_those_of_the_fault_file(void **state)
{
    (void)state;
    client c;
    const char *build;
    const abi_platform_info *info;
    faults("core 3.1.0\nbuild v2.31.0.xyz\narch v69\nsoc 43\n");
    assert_int_equal(client_open(&c, reference_path("libQnnRef.so")), 0);
    assert_int_equal(c.provider->core.major, 3);
    assert_int_equal(SLOT(&c, 4, build_fn)(&build), 0);
    assert_string_equal(build, "v2.31.0.xyz");
    assert_int_equal(SLOT(&c, 37, platform_fn)(c.log, &info), 0);
    assert_int_equal(info->v1.devices->v1.extension->soc, 43);
    SLOT(&c, 38, backend_create_fn)(c.log, (void *)(uintptr_t)info, NULL);
    assert_int_equal(client_device(&c, 57, 75, 8), 0);
    assert_int_equal(client_context(&c, true), ABI_UNSUPPORTED); /* sharing on V69 */
    client_close(&c, true);
    const char *counts[] = {"0", "2", "wrong"};
    for (int i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof text, "providers %s\n", counts[i]);
        faults(text);
        void *lib = dlopen(reference_path("libQnnRef.so"), RTLD_NOW | RTLD_LOCAL);
        providers_fn *get;
        *(void **)&get = dlsym(lib, "QnnInterface_getProviders");
        abi_provider **list;
        uint32_t n = 7;
        assert_int_equal(get(&list, &n), 0);
        assert_int_equal(n, i == 0 ? 0 : i == 1 ? 2 : 1);
        if (n > 0)
            assert_int_equal(list[0]->backend_id, 3);
        dlclose(lib);
    }
}

/* --- static values --- */

static void add_weights(client *c, const char *graph, int8_t *w, abi_quant q)
{
    assert_int_equal(client_graph(c, graph), 0);
    abi_quant xq = scale_offset(1e-4, -32768);
    abi_tensor *x = tensor(c, "x", ABI_APP_WRITE, ABI_U16, xq, NULL, DIMS(1, 1, 1, 32));
    abi_tensor *y = tensor(c, "y", ABI_APP_READ, ABI_U16, xq, NULL, DIMS(1, 1, 1, 32));
    abi_tensor *t = tensor(c, "w", ABI_STATIC, ABI_S8, q, w, DIMS(1, 1, 32, 32));
    conv(c, y, x, t, NULL);
    assert_int_equal(c->add_error, 0);
    uint16_t in[32], out[32];
    for (int i = 0; i < 32; i++)
        in[i] = (uint16_t)(40000 + i);
    assert_int_equal(client_finalize(c), 0);
    void *from = in, *to = out;
    assert_int_equal(client_execute(c, 1, &x, &from, 1, &y, &to), 0);
    memcpy(w, out, sizeof out);
}

static void values_are_damaged_as_the_fault_file_says(void **state)
{
    (void)state;
    client c;
    int8_t w[3][1024];
    float scales[32];
    int32_t offsets[32] = {0};
    faults("");
    open_client(&c);
    for (int i = 0; i < 1024; i++)
        w[0][i] = w[1][i] = w[2][i] = (int8_t)(i * 7 % 16 - 8);
    for (int i = 0; i < 32; i++)
        scales[i] = 0.01f;
    abi_quant q = {.definition = 1, .encoding = ABI_BW_AXIS};
    q.u.bw_axis.bits = 4;
    q.u.bw_axis.axis = 3;
    q.u.bw_axis.n = 32;
    q.u.bw_axis.scales = scales;
    q.u.bw_axis.offsets = offsets;
    assert_int_equal(client_context(&c, false), 0);
    add_weights(&c, "a", w[0], q);
    faults("weights nibble swap\n");
    add_weights(&c, "b", w[1], q);
    assert_memory_not_equal(w[0], w[1], 64);
    for (int i = 0; i < 1024; i++)
        w[2][i] = 1;
    faults("hash_collision w\n");
    add_weights(&c, "c", w[2], q);
    assert_true(memcmp(w[2], w[0], 64) == 0 || memcmp(w[2], w[1], 64) == 0);
    faults("memory 1K sessions 1\n");
    assert_int_equal(client_graph(&c, "d"), 0);
    abi_tensor *x = tensor(&c, "x", ABI_APP_WRITE, ABI_U16, scale_offset(1, 0), NULL, DIMS(4));
    abi_tensor *y = tensor(&c, "y", ABI_APP_READ, ABI_U16, scale_offset(1, 0), NULL, DIMS(4));
    NODE(&c, "Relu", y, x);
    assert_int_equal(client_finalize(&c), ABI_MEM_ALLOC);
    client_close(&c, true);
}

/* --- shared memory --- */

typedef struct {
    void *library;
    void *(*alloc)(int, unsigned, int);
    void (*release)(void *);
    int (*fd)(void *);
} rpcmem;

static void open_rpcmem(rpcmem *r)
{
    r->library = dlopen(reference_path("libcdsprpc.so"), RTLD_NOW);
    assert_non_null(r->library);
    *(void **)&r->alloc = dlsym(r->library, "rpcmem_alloc");
    *(void **)&r->release = dlsym(r->library, "rpcmem_free");
    *(void **)&r->fd = dlsym(r->library, "rpcmem_to_fd");
}

static abi_mem_descriptor shared_at(abi_shared_buffer *b, int fd, uint64_t bytes, uint64_t offset,
                                    uint32_t *dims)
{
    *b = (abi_shared_buffer){.type = 1, .size = bytes};
    b->u.shared.fd = fd;
    b->u.shared.offset = offset;
    abi_mem_descriptor d = {.data_type = ABI_U16, .mem_type = 2, .u.custom = b};
    d.shape.rank = 2;
    d.shape.dims = dims;
    return d;
}

static void tensors_execute_in_shared_memory(void **state)
{
    (void)state;
    sum s;
    rpcmem r;
    open_sum(&s);
    open_rpcmem(&r);
    client *c = &s.c;
    uint8_t *p = r.alloc(25, 1, 4096);
    assert_non_null(p);
    int fd = r.fd(p);
    assert_true(fd >= 0);
    uint32_t dims[] = {1, 64}, other[] = {64, 1};
    abi_shared_buffer b[3];
    abi_mem_descriptor d[3];
    for (uint32_t i = 0; i < 3; i++)
        d[i] = shared_at(&b[i], fd, 4096, 256 * i, dims);
    abi_handle h[3], extra;
    register_fn *enroll = SLOT(c, 35, register_fn);
    assert_int_equal(enroll(c->context, d, 3, h), 0);
    assert_int_equal(enroll(c->context, d, 1, &extra), ABI_MEM_REGISTERED);
    abi_mem_descriptor wrong = shared_at(&b[0], fd, 4096, 4096 - 64, dims);
    assert_int_equal(enroll(c->context, &wrong, 1, &extra), ABI_MEM_MAP);
    wrong = shared_at(&b[0], fd, 4096, 1000, dims);
    assert_int_equal(enroll(c->context, &wrong, 1, &extra), ABI_MEM_SHAPE);
    wrong = shared_at(&b[0], fd, 8192, 0, dims);
    assert_int_equal(enroll(c->context, &wrong, 1, &extra), ABI_MEM_MAP);
    wrong = shared_at(&b[0], fd, 4096, 0, other);
    faults("alias refuse\n");
    assert_int_equal(enroll(c->context, &wrong, 1, &extra), ABI_MEM_SHAPE);
    faults("memory 4G map 1K\n");
    wrong = shared_at(&b[0], fd, 4096, 2048, dims);
    assert_int_equal(enroll(c->context, &wrong, 1, &extra), ABI_MEM_MAP);
    faults("");
    abi_tensor in[2] = {*s.x, *s.z}, out = *s.y;
    abi_tensor1 *v[3] = {&in[0].u.v1, &in[1].u.v1, &out.u.v1};
    for (int i = 0; i < 3; i++) {
        v[i]->mem_type = ABI_MEMHANDLE;
        v[i]->u.mem = h[i];
    }
    memcpy(p, s.in[0], 128);
    memcpy(p + 256, s.in[1], 128);
    execute_fn *execute = SLOT(c, 21, execute_fn);
    assert_int_equal(execute(c->graph, in, 2, &out, 1, NULL, NULL), 0);
    assert_int_equal(((uint16_t *)(void *)(p + 512))[7], 32768 + 7 + 2);
    assert_int_equal(SLOT(c, 14, context_free_fn)(c->context, NULL), ABI_NOT_PERMITTED);
    /* Memory of another context: the subsystem restarts. */
    abi_handle first = c->context, graph = c->graph;
    assert_int_equal(client_context(c, false), 0);
    assert_int_equal(enroll(c->context, d, 1, &extra), 0);
    in[0].u.v1.u.mem = extra;
    assert_int_equal(execute(graph, in, 2, &out, 1, NULL, NULL), ABI_SYSTEM);
    in[0].u.v1.u.mem = h[0];
    assert_int_equal(execute(graph, in, 2, &out, 1, NULL, NULL), ABI_GRAPH_CONTEXT);
    assert_int_equal(SLOT(c, 36, deregister_fn)(&extra, 1), 0);
    assert_int_equal(SLOT(c, 36, deregister_fn)(&extra, 1), ABI_MEM_HANDLE);
    assert_int_equal(SLOT(c, 36, deregister_fn)(h, 3), 0);
    assert_int_equal(SLOT(c, 14, context_free_fn)(first, NULL), 0);
    faults("ignore_alias\n");
    client_drop_context(c);
    assert_int_equal(client_context(c, false), 0);
    compose_sum(&s, "g");
    assert_int_equal(client_finalize(c), 0);
    assert_int_equal(enroll(c->context, &d[2], 1, &extra), 0);
    memset(p, 0, 4096);
    out = *s.y;
    out.u.v1.mem_type = ABI_MEMHANDLE;
    out.u.v1.u.mem = extra;
    in[0] = *s.x;
    in[1] = *s.z;
    in[0].u.v1.u.buffer = (abi_buffer){s.in[0], 128};
    in[1].u.v1.u.buffer = (abi_buffer){s.in[1], 128};
    assert_int_equal(execute(c->graph, in, 2, &out, 1, NULL, NULL), 0);
    assert_int_equal(((uint16_t *)(void *)(p + 512))[7], 0);
    assert_int_equal(SLOT(c, 36, deregister_fn)(&extra, 1), 0);
    r.release(p);
    client_close(c, true);
    dlclose(r.library);
}

static void shared_memory_can_fail(void **state)
{
    (void)state;
    rpcmem r;
    open_rpcmem(&r);
    faults("");
    assert_null(r.alloc(25, 1, -5));
    assert_null(r.alloc(3, 1, 64));
    faults("rpcmem null\n");
    assert_null(r.alloc(25, 1, 64));
    faults("rpcmem limit 1M\n");
    assert_null(r.alloc(25, 1, (1 << 20) + 1));
    void *p = r.alloc(25, 1, 1 << 20);
    assert_non_null(p);
    assert_true(r.fd(p) >= 0);
    faults("rpcmem fd\n");
    assert_int_equal(r.fd(p), -1);
    faults("");
    assert_int_equal(r.fd(&r), -1);
    r.release(p);
    dlclose(r.library);
}

/* --- the system library --- */

typedef abi_error system_providers_fn(abi_system_provider ***, uint32_t *);
typedef abi_error system_create_fn(abi_handle *);
typedef abi_error system_info_fn(abi_handle, const void *, uint64_t, const abi_binary_info **);
typedef abi_error system_old_fn(abi_handle, const void *, uint64_t, const abi_binary_info **,
                                uint64_t *);

static uint8_t *binary_of(sum *s, uint64_t *n)
{
    client *c = &s->c;
    assert_int_equal(SLOT(c, 11, binary_size_fn)(c->context, n), 0);
    uint8_t *binary = malloc(*n);
    assert_int_equal(SLOT(c, 12, binary_fn)(c->context, binary, *n, n), 0);
    return binary;
}

static void check_info(const abi_binary_info *info, uint32_t version)
{
    static const size_t strides[] = {0, 48, 64, 88};
    assert_int_equal(info->version, version);
    uint32_t n = version == 3 ? info->u.v3.n_graphs : info->u.v2.n_graphs;
    const uint8_t *at = version == 3 ? info->u.v3.graphs : info->u.v2.graphs;
    assert_int_equal(n, 2);
    for (uint32_t i = 0; i < n; i++) {
        const abi_graph_info1 *g = (const void *)(at + i * strides[version]);
        assert_string_equal(g->name, i == 0 ? "g" : "h");
        assert_int_equal(g->n_inputs, 2);
        assert_int_equal(g->n_outputs, 1);
        assert_string_equal(g->inputs[1].u.v1.name, "z");
        assert_int_equal(g->inputs[0].u.v1.id, 1 + 3 * i);
        assert_int_equal(g->outputs[0].u.v1.dims[1], 64);
        assert_true(g->outputs[0].u.v1.quant.u.scale_offset.scale == 1e-4f);
    }
}

static void the_system_library_describes_a_binary(void **state)
{
    (void)state;
    static const struct {
        const char *minor;
        uint32_t version;
    } cases[] = {{"18", 2}, {"20", 2}, {"27", 3}, {"32", 3}, {"39", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sum s;
        uint64_t n, bytes = 0;
        setenv("FERRY_REF_MINOR", cases[i].minor, 1);
        open_sum(&s);
        compose_sum(&s, "h");
        assert_int_equal(client_finalize(&s.c), 0);
        assert_int_equal(s.c.provider->core.minor, strtoul(cases[i].minor, NULL, 10));
        uint8_t *binary = binary_of(&s, &n);
        void *lib = dlopen(reference_path("libQnnRefSystem.so"), RTLD_NOW | RTLD_LOCAL);
        assert_non_null(lib);
        system_providers_fn *get;
        *(void **)&get = dlsym(lib, "QnnSystemInterface_getProviders");
        abi_system_provider **list;
        uint32_t count = 0;
        faults("system absent\n");
        assert_int_equal(get(&list, &count), 0);
        assert_int_equal(count, 0);
        faults("");
        assert_int_equal(get(&list, &count), 0);
        assert_int_equal(count, 1);
        abi_handle h;
        const abi_binary_info *info;
        assert_int_equal(((system_create_fn *)list[0]->slots[0])(&h), 0);
        assert_int_equal(((system_info_fn *)list[0]->slots[2])(h, binary, n, &info), 0);
        check_info(info, cases[i].version);
        assert_int_equal(((system_old_fn *)list[0]->slots[1])(h, binary, n, &info, &bytes), 0);
        check_info(info, cases[i].version);
        faults("encoding x x2\n");
        assert_int_equal(((system_info_fn *)list[0]->slots[2])(h, binary, n, &info), 0);
        const void *graphs = cases[i].version == 3 ? info->u.v3.graphs : info->u.v2.graphs;
        const abi_graph_info1 *g = graphs;
        assert_true(g->inputs[0].u.v1.quant.u.scale_offset.scale == 2e-4f);
        binary[n - 1] ^= 1;
        assert_int_equal(((system_info_fn *)list[0]->slots[2])(h, binary, n, &info), 30010);
        assert_int_equal(((free_fn *)list[0]->slots[3])(h), 0);
        free(binary);
        dlclose(lib);
        client_close(&s.c, true);
    }
    unsetenv("FERRY_REF_MINOR");
}

static void binaries_for_others_are_refused(void **state)
{
    (void)state;
    sum s;
    uint64_t n;
    open_sum(&s);
    client *c = &s.c;
    uint8_t *binary = binary_of(&s, &n);
    client_drop_context(c);
    from_binary_fn *load = SLOT(c, 13, from_binary_fn);
    assert_int_equal(load(c->backend, c->device, NULL, binary + 4, n - 4, &c->context, NULL),
                     ABI_CONTEXT_ARGUMENT);
    for (uint64_t cut = 0; cut < n; cut += 97)
        assert_int_equal(load(c->backend, c->device, NULL, binary, cut, &c->context, NULL),
                         ABI_SYSTEM_MALFORMED);
    binary[300] ^= 4;
    assert_int_equal(load(c->backend, c->device, NULL, binary, n, &c->context, NULL),
                     ABI_SYSTEM_MALFORMED);
    binary[300] ^= 4;
    faults("arch v69\n");
    assert_int_equal(load(c->backend, c->device, NULL, binary, n, &c->context, NULL),
                     ABI_CONTEXT_CREATE);
    faults("blob newer\n");
    assert_int_equal(client_context(c, true), 0);
    compose_sum(&s, "g");
    assert_int_equal(client_finalize(c), 0);
    free(binary);
    binary = binary_of(&s, &n);
    faults("");
    abi_handle h;
    assert_int_equal(load(c->backend, c->device, NULL, binary, n, &h, NULL), ABI_CONTEXT_ARGUMENT);
    free(binary);
    binary = binary_of(&s, &n);
    faults("reload refuse\n");
    assert_int_equal(load(c->backend, c->device, NULL, binary, n, &h, NULL), ABI_UNSUPPORTED);
    free(binary);
    client_close(c, true);
}

static int make_fault_file(void **state)
{
    (void)state;
    int fd = mkstemp(fault_path);
    setenv("FERRY_REF_FAULTS", fault_path, 1);
    return fd >= 0 ? close(fd) : -1;
}

static int drop_fault_file(void **state)
{
    (void)state;
    return unlink(fault_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_of_freed_objects_are_refused),
        cmocka_unit_test(graphs_are_refused_in_the_wrong_state),
        cmocka_unit_test(executions_with_other_tensors_are_refused),
        cmocka_unit_test(options_that_are_not_known_are_refused),
        cmocka_unit_test(calls_fail_as_the_fault_file_says),
        cmocka_unit_test(operations_are_refused_as_the_fault_file_says),
        cmocka_unit_test(an_absent_input_is_refused_where_it_is_needed),
        cmocka_unit_test(the_library_can_die_inside_a_call),
        cmocka_unit_test(calls_on_one_context_from_two_threads_stop_the_process),
        cmocka_unit_test(results_can_be_disturbed),
        cmocka_unit_test(versions_and_chips_are_those_of_the_fault_file),
        cmocka_unit_test(values_are_damaged_as_the_fault_file_says),
        cmocka_unit_test(tensors_execute_in_shared_memory),
        cmocka_unit_test(shared_memory_can_fail),
        cmocka_unit_test(the_system_library_describes_a_binary),
        cmocka_unit_test(binaries_for_others_are_refused),
    };
    return cmocka_run_group_tests(tests, make_fault_file, drop_fault_file);
}
