/* Inside the reference library. An object of the interface is a ref_object with a handle that is a
 * generation and an index, never an address: a handle that was freed, or is of another kind, is
 * found out. Parents outlive their children.
 *
 * Every entry point is a pair: the function of the table, which calls ref_begin and ref_end, and a
 * function that does the work. ref_begin applies the faults of FERRY_REF_FAULTS, finds the object,
 * and stops the process if another thread is inside a call on a related one.
 *
 * Functions that work return 0 or an error code of ref_abi.h, and log why (ref_fail).
 *
 * Environment, for tests and experiments:
 *   FERRY_REF_MINOR=N     the release, by its core API's minor version (ref_release.c); else the
 * newest FERRY_REF_FAULTS=F    faults (ref_faults.c) FERRY_REF_ROUND=away|up|trunc   one rounding
 * for all operations FERRY_REF_JITTER=N    results of nodes are off by up to N steps
 *   FERRY_REF_COVERAGE=F  appends which rules and faults were used
 *   FERRY_REF_STRICT=1    objects left at exit, and calls with bad handles, make the exit status 99
 */
#ifndef FY_QNNREF_REF_IMPL_H
#define FY_QNNREF_REF_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qnnref/ref_abi.h"

enum { REF_MAX_RANK = 5, REF_MAX_INPUTS = 256, REF_MAX_OUTPUTS = 64, REF_MAX_PARAMS = 8 };

/* --- objects (ref_objects.c) --- */

typedef enum {
    REF_ANY,
    REF_BACKEND,
    REF_DEVICE,
    REF_CONTEXT,
    REF_GRAPH,
    REF_MEM,
    REF_LOG,
    REF_PROFILE,
    REF_POWER
} ref_kind;

typedef struct ref_object {
    ref_kind kind;
    abi_handle handle;
    struct ref_object *parent; /* NULL for logs, devices and backends */
    uint32_t n_children;
    const char *busy; /* the call that is inside this root object */
    pthread_t thread; /* that makes it */
} ref_object;

typedef struct {
    ref_object *object, *root;
    abi_error code;      /* the answer when object is NULL */
    unsigned long count; /* which call of this function this is, from 1 */
    const char *name;
} ref_call;

/* Registers an object of which the caller keeps the memory; 0 or ABI_MEM_ALLOC. */
abi_error ref_publish(ref_object *o, ref_kind kind, ref_object *parent);
void ref_retire(ref_object *o);
void *ref_find(abi_handle h, ref_kind kind); /* NULL: not such an object */
/* The object of the handle. NULL: call->code is the answer. With REF_ANY there is none to find and
 * only call->code counts. */
void *ref_begin(ref_call *call, const char *name, abi_handle h, ref_kind kind);
abi_error ref_end(ref_call *call, abi_error code);
/* Calls on objects that every context has lost, after a subsystem restart. */
void ref_lose_contexts(void);

/* --- log lines (ref_log.c), which reach callbacks from a thread of their own --- */

enum { REF_ERROR = 1, REF_WARN, REF_INFO, REF_VERBOSE };
void ref_log(uint32_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Logs at error level; returns the code. */
abi_error ref_fail(abi_error code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- the release (ref_provider.c) --- */

typedef struct {
    abi_version core, backend, system, blob;
    uint32_t sdk; /* minor version: 25 to 51 */
    uint32_t n_slots;
    char build_id[64];
} ref_release;

const ref_release *ref_release_now(void);
extern const char *const ref_build_default;

/* --- faults (ref_faults.c) --- */

typedef enum {
    REF_EFFECT_NONE,
    REF_EFFECT_CODE,
    REF_EFFECT_SSR,
    REF_EFFECT_SLEEP,
    REF_EFFECT_SEGV,
    REF_EFFECT_ABORT
} ref_effect;

typedef struct {
    uint64_t session_bytes, sessions, map_bytes, maps_bytes;
} ref_limits;

/* What the fault file says of the n-th call of a function, sleeping already done. */
abi_error ref_fault_call(const char *name, unsigned long n);
ref_limits ref_fault_limits(void);
/* The argument of the first line "WORD SUBJECT ARGUMENT"; NULL: none. SUBJECT NULL: any. Valid
 * until the calling thread asks again. */
const char *ref_fault(const char *word, const char *subject);

/* --- tensors --- */

typedef struct {
    uint32_t definition, encoding;
    abi_scale_offset one;   /* ABI_SCALE_OFFSET, ABI_BW */
    int32_t axis;           /* not negative */
    uint32_t n;             /* channels; blocks in all for ABI_BLOCK */
    float *scales;          /* owned: n */
    int32_t *offsets;       /* owned: n, NULL when all are 0 */
    uint32_t bits;          /* of ABI_BW, ABI_BW_AXIS, ABI_BLOCKWISE */
    uint32_t n_blocks;      /* ABI_BLOCKWISE: a channel */
    uint16_t *block_scales; /* owned: n * n_blocks */
    uint32_t block[REF_MAX_RANK];
} ref_quant;

/* The values of a static tensor, one a byte or two a byte (packed), in a mapped file. */
typedef struct ref_data {
    struct ref_data *next;
    uint8_t *p;     /* owned: a map or memory of the heap */
    uint64_t bytes; /* as stored */
    bool packed, mapped;
    uint32_t users;  /* tensors of the context */
    uint32_t number; /* in a container */
} ref_data;

typedef struct {
    char *name; /* owned */
    uint32_t id, type, data_type, rank, mem_type;
    uint32_t dims[REF_MAX_RANK];
    uint64_t n, bytes; /* elements, and bytes as the interface has them */
    ref_quant quant;
    ref_data *data; /* view of the context's: static tensors */
    bool written, used;
    uint32_t name_hash;
    uint32_t last_use; /* node that reads it last */
} ref_tensor;

uint32_t ref_type_bytes(uint32_t data_type); /* 0: not a type of ours */
const char *ref_type_name(uint32_t data_type);
bool ref_is_fixed(uint32_t data_type); /* a quantized type */
void ref_type_limits(uint32_t data_type, double *low, double *high);
/* Copies what the interface describes, without data; checks it as tensorCreateGraphTensor does. */
abi_error ref_tensor_read(ref_tensor *t, const abi_tensor *from);
void ref_tensor_release(ref_tensor *t);
uint32_t ref_name_hash(const char *name);
const abi_tensor1 *ref_tensor1(const abi_tensor *t); /* NULL: neither version 1 nor 2 */
bool ref_quant_equal(const ref_quant *a, const ref_quant *b);
void ref_quant_release(ref_quant *q);

/* --- operations --- */

typedef struct ref_node ref_node;
typedef struct ref_run ref_run;

typedef struct {
    const char *name; /* NULL ends the list */
    uint32_t data_type;
    uint8_t rank; /* of a tensor; 0: scalar */
    bool required;
} ref_param_spec;

typedef struct {
    uint32_t n, dims[2];
    uint32_t *words; /* owned; floats as their bits */
    bool given;
} ref_param;

typedef struct {
    const char *name;
    uint8_t min_inputs, max_inputs, max_outputs;
    ref_param_spec params[REF_MAX_PARAMS];
    uint32_t since_sdk; /* 0: always */
    /* Shapes and parameters; a code after ref_fail. */
    abi_error (*check)(const ref_node *n);
    abi_error (*run)(ref_run *r, const ref_node *n);
    uint32_t variant; /* of a function that does several operations */
} ref_op;

struct ref_node {
    char *name; /* owned */
    const ref_op *op;
    ref_param params[REF_MAX_PARAMS];
    uint32_t n_in, n_out;
    ref_tensor **in; /* owned list of views; an absent input is NULL */
    ref_tensor **out;
    uint32_t arch, sdk;
};

extern const ref_op ref_ops[];
extern const uint32_t ref_n_ops;
const ref_op *ref_op_find(const char *name);
bool ref_may_be_absent(const ref_op *op, uint32_t input); /* sent as a tensor of type NULL */
void ref_node_release(ref_node *n);
uint32_t ref_param_word(const ref_node *n, const char *name, uint32_t otherwise);
const ref_param *ref_param_of(const ref_node *n, const char *name); /* NULL: not given */
/* Reads the parameters; tensors of `op` are in n->in and n->out already. */
abi_error ref_node_params(ref_node *n, const abi_op *op, bool values);

/* Values during an execution. */
struct ref_run {
    uint8_t **values; /* by tensor index of the graph */
    const struct ref_graph *graph;
    bool coarse;           /* V68, V69 */
    uint64_t scratch_seed; /* FERRY_REF_JITTER */
};
const void *ref_input(const ref_run *r, const ref_tensor *t);
void *ref_output(const ref_run *r, const ref_tensor *t);

/* Checks a node by the rule table: 0, or ABI_OP_VALIDATION with the nearest row in the log. */
abi_error ref_rules_check(const ref_node *n);
/* "op inputs -> output ..." of row i for people; NULL: no such row. */
const char *ref_rules_text(uint32_t i);
void ref_rules_report(void); /* to FERRY_REF_COVERAGE */

/* --- backend, device, context, graph --- */

typedef struct {
    ref_object object;
} ref_backend;

typedef struct {
    uint32_t id, arch, vtcm_mb;
    const char *name;
} ref_soc;

typedef struct ref_device {
    ref_object object;
    ref_soc soc;
    abi_platform_info info;
    abi_hardware_info hardware;
    abi_core_info core;
    abi_device_extension extension;
} ref_device;

const ref_soc *ref_soc_find(uint32_t id);
const ref_soc *ref_soc_now(void); /* of the newest device; V68 without one */

typedef struct ref_graph {
    ref_object object;
    struct ref_context *context;
    struct ref_graph *next;
    char *name;           /* owned */
    ref_tensor **tensors; /* owned */
    uint32_t n_tensors, cap_tensors;
    ref_node *nodes; /* owned */
    uint32_t n_nodes, cap_nodes;
    bool finalized, from_binary, published, poisoned;
    uint32_t vtcm_bytes, optimization, precision;
    uint64_t hvx_threads;
    bool dlbc;
    uint64_t spill_bytes;
} ref_graph;

typedef struct ref_context {
    ref_object object;
    ref_soc soc;
    bool sharing, from_binary, lost;
    ref_graph *graphs; /* in the order of creation */
    ref_data *data;    /* static values */
    uint32_t next_id;
    uint64_t heap_bytes;
    char *const *enabled; /* owned: names of ENABLE_GRAPHS; NULL: all */
    int file;             /* unlinked, holds static values; -1: none yet */
    uint64_t file_bytes;
    struct ref_mem *mems;
    uint32_t unshared; /* static names found again with other contents */
} ref_context;

typedef struct ref_mem {
    ref_object object;
    struct ref_mem *next;
    ref_context *context;
    int fd;
    uint64_t offset, bytes, map_bytes;
    uint8_t *map, *p; /* p: the tensor inside the map */
    uint32_t data_type, rank, dims[REF_MAX_RANK];
} ref_mem;

/* The values of a static tensor join the context, shared with equal ones if that is on. */
abi_error ref_context_data(ref_context *c, ref_tensor *t, const void *values);
abi_error ref_context_room(ref_context *c, ref_data *d); /* memory for d->bytes */
abi_error ref_graph_tensor(ref_graph *g, ref_tensor *t); /* takes it over; sets no id */
ref_tensor *ref_graph_find(const ref_graph *g, uint32_t id);
ref_graph *ref_graph_new(ref_context *c, const char *name);
void ref_graph_free(ref_graph *g);
void ref_context_release(ref_context *c);
abi_error ref_graph_ready(ref_graph *g); /* life of tensors, once nodes are complete */

/* --- containers (ref_blob_write.c, ref_blob_read.c) --- */

abi_error ref_blob_size(ref_context *c, uint64_t *bytes);
abi_error ref_blob_write(ref_context *c, uint8_t *to, uint64_t cap, uint64_t *written);
typedef struct {
    abi_version core, backend, blob;
    char build_id[64];
    uint32_t soc, arch, vtcm_mb, flags;
} ref_blob_head;
/* Fills a new context. c->soc.id 0: no device to hold it against, and values are not copied. */
abi_error ref_blob_read(ref_context *c, ref_blob_head *head, const uint8_t *p, uint64_t n);

/* --- arithmetic of our own (ref_math.c): the same bits on every machine --- */

double ref_exp(double x);
double ref_tanh(double x);
double ref_erf(double x);
double ref_sin(double x);
double ref_cos(double x);
double ref_rint(double x); /* ties to even */
double ref_floor(double x);
double ref_power_of_two(int n); /* n in -1022 .. 1023 */

/* --- the table of functions --- */

#define REF_FUNCTIONS(X)                                        \
    X(0, propertyHasCapability, ref_property)                   \
    X(1, backendCreate, ref_backend_create)                     \
    X(3, backendGetApiVersion, ref_backend_version)             \
    X(4, backendGetBuildId, ref_backend_build)                  \
    X(6, backendGetSupportedOperations, ref_backend_operations) \
    X(7, backendValidateOpConfig, ref_backend_validate)         \
    X(8, backendFree, ref_backend_free)                         \
    X(9, contextCreate, ref_context_create)                     \
    X(11, contextGetBinarySize, ref_context_binary_size)        \
    X(12, contextGetBinary, ref_context_binary)                 \
    X(13, contextCreateFromBinary, ref_context_from_binary)     \
    X(14, contextFree, ref_context_free)                        \
    X(15, graphCreate, ref_graph_create)                        \
    X(17, graphSetConfig, ref_graph_config)                     \
    X(18, graphAddNode, ref_graph_add)                          \
    X(19, graphFinalize, ref_graph_finalize)                    \
    X(20, graphRetrieve, ref_graph_retrieve)                    \
    X(21, graphExecute, ref_graph_execute)                      \
    X(24, tensorCreateGraphTensor, ref_tensor_create)           \
    X(25, logCreate, ref_log_create)                            \
    X(26, logSetLogLevel, ref_log_level)                        \
    X(27, logFree, ref_log_free)                                \
    X(28, profileCreate, ref_profile_create)                    \
    X(30, profileGetEvents, ref_profile_events)                 \
    X(31, profileGetSubEvents, ref_profile_sub_events)          \
    X(32, profileGetEventData, ref_profile_data)                \
    X(34, profileFree, ref_profile_free)                        \
    X(35, memRegister, ref_mem_register)                        \
    X(36, memDeRegister, ref_mem_deregister)                    \
    X(37, deviceGetPlatformInfo, ref_device_platform)           \
    X(38, deviceFreePlatformInfo, ref_device_platform_free)     \
    X(39, deviceGetInfrastructure, ref_device_infrastructure)   \
    X(40, deviceCreate, ref_device_create)                      \
    X(42, deviceGetInfo, ref_device_info)                       \
    X(43, deviceFree, ref_device_free)                          \
    X(48, errorGetMessage, ref_error_message)                   \
    X(49, errorGetVerboseMessage, ref_error_verbose)            \
    X(50, errorFreeVerboseMessage, ref_error_free)

abi_error ref_property(uint32_t key);
abi_error ref_backend_create(abi_handle log, const abi_config **config, abi_handle *out);
abi_error ref_backend_version(abi_version out[2]);
abi_error ref_backend_build(const char **out);
abi_error ref_backend_operations(abi_handle h, uint32_t *n, const abi_operation_name **out);
abi_error ref_backend_validate(abi_handle h, abi_op op);
abi_error ref_backend_free(abi_handle h);
abi_error ref_context_create(abi_handle backend, abi_handle device, const abi_config **config,
                             abi_handle *out);
abi_error ref_context_binary_size(abi_handle h, uint64_t *bytes);
abi_error ref_context_binary(abi_handle h, void *to, uint64_t cap, uint64_t *written);
abi_error ref_context_from_binary(abi_handle backend, abi_handle device, const abi_config **config,
                                  const void *binary, uint64_t n, abi_handle *out,
                                  abi_handle profile);
abi_error ref_context_free(abi_handle h, abi_handle profile);
abi_error ref_graph_create(abi_handle context, const char *name, const abi_config **config,
                           abi_handle *out);
abi_error ref_graph_config(abi_handle h, const abi_config **config);
abi_error ref_graph_add(abi_handle h, abi_op op);
abi_error ref_graph_finalize(abi_handle h, abi_handle profile, abi_handle signal);
abi_error ref_graph_retrieve(abi_handle context, const char *name, abi_handle *out);
abi_error ref_graph_execute(abi_handle h, const abi_tensor *in, uint32_t n_in, abi_tensor *out,
                            uint32_t n_out, abi_handle profile, abi_handle signal);
abi_error ref_tensor_create(abi_handle graph, abi_tensor *t);
abi_error ref_log_create(abi_log_callback *callback, uint32_t level, abi_handle *out);
abi_error ref_log_level(abi_handle h, uint32_t level);
abi_error ref_log_free(abi_handle h);
abi_error ref_profile_create(abi_handle backend, uint32_t level, abi_handle *out);
abi_error ref_profile_events(abi_handle h, const uint64_t **ids, uint32_t *n);
abi_error ref_profile_sub_events(uint64_t id, const uint64_t **ids, uint32_t *n);
abi_error ref_profile_data(uint64_t id, abi_event_data *out);
abi_error ref_profile_free(abi_handle h);
abi_error ref_mem_register(abi_handle context, const abi_mem_descriptor *list, uint32_t n,
                           abi_handle *out);
abi_error ref_mem_deregister(const abi_handle *list, uint32_t n);
abi_error ref_device_platform(abi_handle log, const abi_platform_info **out);
abi_error ref_device_platform_free(abi_handle log, const abi_platform_info *info);
abi_error ref_device_infrastructure(const void **out);
abi_error ref_device_create(abi_handle log, const abi_config **config, abi_handle *out);
abi_error ref_device_info(abi_handle h, const abi_platform_info **out);
abi_error ref_device_free(abi_handle h);
abi_error ref_error_message(abi_error code, const char **out);
abi_error ref_error_verbose(abi_error code, const char **out);
abi_error ref_error_free(const char *text);

/* A profile, if there is one, notes how long a call took. */
abi_error ref_profile_check(abi_handle h, abi_error code);
void ref_profile_note(abi_handle h, uint32_t type, uint64_t microseconds);
uint64_t ref_microseconds(void);

#endif
