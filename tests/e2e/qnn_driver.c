/* qnn_driver LIBRARIES CHIP DIR OUT N <PROMPTS: computes a compiled model on ferry's reference
 * library with nothing of the program: the interface as the reference declares it, the tensors as
 * libQnnRefSystem.so describes them, qnn/config.json by jansson, and masks, tables, caches and
 * calls of its own, after docs/npu-graphs.md. For each line of token ids it computes the prompt,
 * then N tokens, always the likeliest, which it prints; OUT gets the logits of every token that was
 * computed, as floats. tests/e2e/qnn_tokens.sh holds both to what ferry computes. */
#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qnnref/ref_abi.h"

enum { MOST_GRAPHS = 256, MOST_BUFFERS = 4096, MOST_IDS = 1 << 16 };

typedef struct {
    char name[64];
    uint8_t *p;
    uint32_t bytes;
} buffer;

typedef struct {
    uint32_t batch, first, end; /* layers, or tokens of a slice */
    abi_handle handle;
    abi_tensor *in, *out; /* the system library's, with our buffers */
    uint32_t n_in, n_out;
} graph;

typedef struct {
    uint32_t n_layer, n_head, n_kv, n_embd, n_rot, n_vocab, n_cache, n_ctx;
    double theta, mask_value;
    float *embedding; /* [n_vocab][n_embd] */
    graph layer[MOST_GRAPHS], head[MOST_GRAPHS];
    uint32_t n_layer_graphs, n_head_graphs, max_batch;
    buffer buffers[MOST_BUFFERS];
    uint32_t n_buffers, n_past;
} model;

static _Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void *take(size_t n)
{
    void *p = calloc(n > 0 ? n : 1, 1);
    if (p == NULL)
        die("out of memory");
    return p;
}

static uint8_t *read_file(const char *dir, const char *name, size_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0)
        die("%s: cannot be read", path);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = take(*n);
    if (fread(p, 1, *n, f) != *n)
        die("%s: cannot be read", path);
    fclose(f);
    return p;
}

/* --- the embedding: a GGUF file, of which ferry wrote every byte ------------------------------ */

static uint64_t number(const uint8_t **p, int n)
{
    uint64_t v = 0;
    memcpy(&v, *p, (size_t)n);
    *p += n;
    return v;
}

static const char *text(const uint8_t **p, size_t *n)
{
    *n = (size_t)number(p, 8);
    *p += *n;
    return (const char *)*p - *n;
}

static bool is(const char *s, size_t n, const char *want)
{
    return n == strlen(want) && memcmp(s, want, n) == 0;
}

static void skip_value(const uint8_t **p, uint32_t type)
{
    static const int sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    size_t n;
    if (type == 8) {
        text(p, &n);
    } else if (type == 9) {
        const uint32_t of = (uint32_t)number(p, 4);
        for (uint64_t left = number(p, 8); left > 0; left--)
            skip_value(p, of);
    } else {
        *p += sizes[type];
    }
}

static void take_value(model *m, const char *key, size_t n, const uint8_t *p)
{
    const struct {
        const char *name;
        uint32_t *to;
    } numbers[] = {{"llama.block_count", &m->n_layer},
                   {"llama.embedding_length", &m->n_embd},
                   {"llama.attention.head_count", &m->n_head},
                   {"llama.attention.head_count_kv", &m->n_kv},
                   {"llama.rope.dimension_count", &m->n_rot}};
    float theta;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (is(key, n, numbers[i].name))
            memcpy(numbers[i].to, p, 4);
    }
    if (is(key, n, "llama.rope.freq_base")) {
        memcpy(&theta, p, 4);
        m->theta = (double)theta;
    }
}

static float of_half(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float v = exponent == 0 ? ldexpf((float)mantissa, -24)
                                  : ldexpf((float)(mantissa + 1024), exponent - 25);
    return h >> 15 != 0 ? -v : v;
}

static void read_embedding(model *m, const char *dir)
{
    size_t n_file, n;
    const uint8_t *file = read_file(dir, "ggml/weights.gguf", &n_file), *p = file + 8;
    uint64_t n_tensors = number(&p, 8), n_values = number(&p, 8), offset = 0, type = 0;
    for (; n_values > 0; n_values--) {
        const char *key = text(&p, &n);
        const uint32_t kind = (uint32_t)number(&p, 4);
        take_value(m, key, n, p);
        skip_value(&p, kind);
    }
    for (; n_tensors > 0; n_tensors--) {
        const char *name = text(&p, &n);
        uint64_t dims[4] = {1, 1, 1, 1};
        const uint32_t rank = (uint32_t)number(&p, 4);
        for (uint32_t i = 0; i < rank; i++)
            dims[i] = number(&p, 8);
        const uint64_t kind = number(&p, 4), at = number(&p, 8);
        if (!is(name, n, "token_embd.weight"))
            continue;
        m->n_vocab = (uint32_t)dims[1];
        type = kind;
        offset = at;
    }
    p = file + ((size_t)(p - file) + 31) / 32 * 32 + offset;
    if (m->n_vocab == 0 || m->n_embd == 0 || m->n_rot == 0 || m->theta <= 0 || type > 1)
        die("%s/ggml/weights.gguf: not a Llama with an embedding of f32 or f16", dir);
    const size_t n_elements = (size_t)m->n_vocab * m->n_embd;
    m->embedding = take(n_elements * sizeof(float));
    for (size_t i = 0; i < n_elements; i++) {
        uint16_t half;
        if (type == 0) {
            memcpy(&m->embedding[i], p + 4 * i, 4);
        } else {
            memcpy(&half, p + 2 * i, 2);
            m->embedding[i] = of_half(half);
        }
    }
    free((void *)(uintptr_t)file);
}

/* --- the libraries ---------------------------------------------------------------------------- */

typedef abi_error get_providers(const abi_provider ***, uint32_t *);
typedef abi_error get_system_providers(const abi_system_provider ***, uint32_t *);
typedef abi_error create_backend(abi_handle, const abi_config **, abi_handle *);
typedef abi_error create_device(abi_handle, const abi_config **, abi_handle *);
typedef abi_error load_context(abi_handle, abi_handle, const abi_config **, const void *, uint64_t,
                               abi_handle *, abi_handle);
typedef abi_error retrieve_graph(abi_handle, const char *, abi_handle *);
typedef abi_error execute_graph(abi_handle, const abi_tensor *, uint32_t, abi_tensor *, uint32_t,
                                abi_handle, abi_handle);
typedef abi_error free_object(abi_handle);
typedef abi_error free_context(abi_handle, abi_handle);
typedef abi_error create_system(abi_handle *);
typedef abi_error get_binary_info(abi_handle, void *, uint64_t, const abi_binary_info **,
                                  uint64_t *);

static const abi_provider *provider;
static const abi_system_provider *reader;

static void *symbol(const char *dir, const char *library, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, library);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *p = handle != NULL ? dlsym(handle, name) : NULL;
    if (p == NULL)
        die("%s: %s", path, dlerror());
    return p;
}

static void open_libraries(const char *dir)
{
    const abi_provider **list;
    const abi_system_provider **systems;
    uint32_t n;
    void *of = symbol(dir, "libQnnRef.so", "QnnInterface_getProviders");
    get_providers *get;
    get_system_providers *get_system;
    memcpy(&get, &of, sizeof get);
    of = symbol(dir, "libQnnRefSystem.so", "QnnSystemInterface_getProviders");
    memcpy(&get_system, &of, sizeof get_system);
    if (get(&list, &n) != 0 || n == 0 || get_system(&systems, &n) != 0 || n == 0)
        die("%s: the libraries offer nothing", dir);
    provider = list[0];
    reader = systems[0];
}

static void check(const char *call, abi_error code)
{
    if (code != 0)
        die("%s: error %u", call, (unsigned)(code & 0xffff));
}

/* --- graphs ----------------------------------------------------------------------------------- */

static uint32_t bytes_of(const abi_tensor1 *t)
{
    uint32_t n = t->data_type == ABI_F32 ? 4 : t->data_type == ABI_U8 ? 1 : 2;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

static buffer *find(model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_buffers; i++) {
        if (strcmp(m->buffers[i].name, name) == 0)
            return &m->buffers[i];
    }
    return NULL;
}

/* One memory for all tensors of a name, as large as the largest needs; those of the lm_head are
 * others. Graphs of the largest batch size come first. */
static void give_memory(model *m, abi_tensor *list, uint32_t n, bool head)
{
    for (uint32_t i = 0; i < n; i++) {
        abi_tensor1 *t = &list[i].u.v1;
        char name[64];
        snprintf(name, sizeof name, "%s%s", head ? "head " : "", t->name);
        buffer *b = find(m, name);
        if (b == NULL) {
            if (m->n_buffers == MOST_BUFFERS || t->rank != 2)
                die("tensor '%s' has rank %u", t->name, t->rank);
            b = &m->buffers[m->n_buffers++];
            *b = (buffer){.bytes = bytes_of(t), .p = take(bytes_of(t))};
            memcpy(b->name, name, sizeof name);
        }
        t->mem_type = ABI_RAW;
        t->u.buffer = (abi_buffer){b->p, bytes_of(t)};
        if (t->u.buffer.size > b->bytes)
            die("tensor '%s' is larger in another graph", t->name);
    }
}

static abi_graph_info1 *info_of(const abi_binary_info *info, const char *name)
{
    static const size_t sizes[] = {0, sizeof(abi_graph_info1), sizeof(abi_graph_info2),
                                   sizeof(abi_graph_info3)};
    const uint32_t n = info->version == 3 ? info->u.v3.n_graphs : info->u.v2.n_graphs;
    uint8_t *p = info->version == 3 ? info->u.v3.graphs : info->u.v2.graphs;
    for (uint32_t i = 0; i < n; i++, p += sizes[info->version]) {
        abi_graph_info1 *g = (abi_graph_info1 *)(void *)p;
        if (strcmp(g->name, name) == 0)
            return g;
    }
    die("graph '%s' is missing", name);
    return NULL;
}

/* A binary's context and description, loaded when the first of its graphs is. */
typedef struct {
    const char *path;
    abi_handle context, system;
    const abi_binary_info *info;
} binary;

static binary binaries[MOST_GRAPHS];
static uint32_t n_binaries;
static abi_handle backend, device;

static void open_device(uint32_t chip)
{
    uint32_t custom[16] = {0, chip, chip}; /* releases differ in where they read it */
    const abi_config by_chip = {.option = 0, .u.custom = custom};
    const abi_config *config[] = {&by_chip, NULL};
    check("backendCreate", ((create_backend *)provider->slots[1])(NULL, NULL, &backend));
    check("deviceCreate", ((create_device *)provider->slots[40])(NULL, config, &device));
}

static binary *load(const char *qnn, const char *path)
{
    size_t n;
    uint64_t n_info;
    for (uint32_t i = 0; i < n_binaries; i++) {
        if (strcmp(binaries[i].path, path) == 0)
            return &binaries[i];
    }
    binary *b = &binaries[n_binaries++];
    uint8_t *p = read_file(qnn, path, &n);
    b->path = path;
    check("contextCreateFromBinary",
          ((load_context *)provider->slots[13])(backend, device, NULL, p, n, &b->context, NULL));
    check("systemContextCreate", ((create_system *)reader->slots[0])(&b->system));
    check("getBinaryInfo",
          ((get_binary_info *)reader->slots[1])(b->system, p, n, &b->info, &n_info));
    free(p);
    return b;
}

static void close_all(void)
{
    for (uint32_t i = 0; i < n_binaries; i++) {
        check("contextFree", ((free_context *)provider->slots[14])(binaries[i].context, NULL));
        check("systemContextFree", ((free_object *)reader->slots[3])(binaries[i].system));
    }
    check("deviceFree", ((free_object *)provider->slots[43])(device));
    check("backendFree", ((free_object *)provider->slots[8])(backend));
}

static uint32_t member(const json_t *of, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(of, name));
}

static void add_graph(model *m, const char *qnn, const json_t *j, bool head)
{
    graph *g = head ? &m->head[m->n_head_graphs++] : &m->layer[m->n_layer_graphs++];
    const char *name = json_string_value(json_object_get(j, "graph_name"));
    binary *b = load(qnn, json_string_value(json_object_get(j, "model_path")));
    abi_graph_info1 *info = info_of(b->info, name);
    *g = (graph){.batch = member(j, "batch_size"),
                 .first = member(j, head ? "first_token" : "start_layer_id"),
                 .end = member(j, head ? "end_token" : "end_layer_id"),
                 .in = info->inputs,
                 .out = info->outputs,
                 .n_in = info->n_inputs,
                 .n_out = info->n_outputs};
    if (head && g->end == 0)
        g->end = m->n_vocab;
    m->max_batch = g->batch > m->max_batch ? g->batch : m->max_batch;
    check("graphRetrieve", ((retrieve_graph *)provider->slots[20])(b->context, name, &g->handle));
}

static int by_batch(const void *a, const void *b)
{
    const graph *x = a, *y = b;
    return x->batch != y->batch ? (x->batch < y->batch) - (x->batch > y->batch)
                                : (x->first > y->first) - (x->first < y->first);
}

static void read_graphs(model *m, const char *dir)
{
    char qnn[4096];
    size_t n;
    snprintf(qnn, sizeof qnn, "%s/qnn", dir);
    uint8_t *p = read_file(qnn, "config.json", &n);
    json_t *config = json_loadb((const char *)p, n, 0, NULL);
    const json_t *layers = json_object_get(config, "graphs"),
                 *heads = json_object_get(config, "embeddings");
    const json_t *first = json_array_get(layers, 0);
    m->n_cache = member(first, "cache_size");
    m->n_ctx = member(first, "context_size");
    m->mask_value = json_number_value(
        json_object_get(json_object_get(config, "model_parameters"), "attention_mask_value"));
    for (size_t i = 0; i < json_array_size(layers); i++)
        add_graph(m, qnn, json_array_get(layers, i), false);
    for (size_t i = 0; i < json_array_size(heads); i++)
        add_graph(m, qnn, json_array_get(heads, i), true);
    qsort(m->layer, m->n_layer_graphs, sizeof *m->layer, by_batch);
    qsort(m->head, m->n_head_graphs, sizeof *m->head, by_batch);
    for (uint32_t i = 0; i < m->n_layer_graphs + m->n_head_graphs; i++) {
        const bool head = i >= m->n_layer_graphs;
        graph *g = head ? &m->head[i - m->n_layer_graphs] : &m->layer[i];
        give_memory(m, g->in, g->n_in, head);
        give_memory(m, g->out, g->n_out, head);
    }
}

/* --- a call ----------------------------------------------------------------------------------- */

/* An empty slot holds the code of 0. */
static void clear_caches(model *m)
{
    const graph *g = m->layer;
    for (uint32_t i = 0; i < m->n_layer_graphs && g[i].batch == g->batch; i++) {
        for (uint32_t k = 0; k < g[i].n_in; k++) {
            const abi_tensor1 *t = &g[i].in[k].u.v1;
            const int zero =
                t->quant.definition == ABI_DEFINED ? -t->quant.u.scale_offset.offset : 0;
            if (strstr(t->name, "_cache_") == NULL)
                continue;
            if (t->data_type != ABI_U8 && zero != 0)
                die("'%s' has a code of 0 other than 0", t->name);
            memset(t->u.buffer.data, zero, t->u.buffer.size);
        }
    }
    m->n_past = 0;
}

static uint16_t to_half(double v)
{
    if (v >= 0 || v < -65504)
        return v >= 0 ? 0 : 0xfc00;
    int exponent;
    const double mantissa = frexp(-v, &exponent);            /* [0.5, 1) */
    const uint32_t digits = (uint32_t)rint(mantissa * 2048); /* 1024 to 2048 */
    return (uint16_t)(0x8000 | (((uint32_t)(exponent + 13) << 10) + digits));
}

static void write_mask(const model *m, const abi_tensor1 *t)
{
    uint16_t *to = t->u.buffer.data;
    const bool codes = t->data_type == ABI_U16;
    const uint16_t shows = codes ? (uint16_t)-t->quant.u.scale_offset.offset : 0;
    const uint16_t hides = codes ? 0 : to_half(m->mask_value);
    for (uint32_t i = 0; i < t->dims[0]; i++) {
        for (uint32_t k = 0; k < t->dims[1]; k++)
            to[i * t->dims[1] + k] =
                k < m->n_past || (k >= m->n_cache && k <= m->n_cache + i) ? shows : hides;
    }
}

static void write_table(const model *m, const abi_tensor1 *t, uint32_t n, double f(double))
{
    float *to = t->u.buffer.data;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < t->dims[1]; k++)
            to[i * t->dims[1] + k] = (float)f((m->n_past + i) * pow(m->theta, -2.0 * k / m->n_rot));
    }
}

static void execute(graph *g)
{
    check("graphExecute", ((execute_graph *)provider->slots[21])(g->handle, g->in, g->n_in, g->out,
                                                                 g->n_out, NULL, NULL));
}

static const abi_tensor1 *named(const abi_tensor *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(list[i].u.v1.name, name) == 0)
            return &list[i].u.v1;
    }
    die("tensor '%s' is missing", name);
    return NULL;
}

/* n rows of x, and zeros after them. */
static void write_x(const graph *g, const float *x, uint32_t n)
{
    const abi_tensor1 *t = named(g->in, g->n_in, "x");
    const size_t bytes = (size_t)n * t->dims[1] * sizeof *x;
    memset(t->u.buffer.data, 0, t->u.buffer.size);
    memcpy(t->u.buffer.data, x, bytes);
}

/* Fresh keys and values of n tokens go to the slots after n_past: a key becomes a column. */
static void keep(model *m, const graph *g, uint32_t n)
{
    for (uint32_t i = 0; i < g->n_out; i++) {
        const abi_tensor1 *from = &g->out[i].u.v1;
        char name[64];
        uint32_t layer, head;
        char kind[8];
        if (sscanf(from->name, "layer_%u_%5[a-z]_%u", &layer, kind, &head) != 3)
            continue;
        const bool key = strcmp(kind, "key") == 0;
        snprintf(name, sizeof name, "layer_%u_%s_cache_%u", layer, key ? "key_t" : "value", head);
        const abi_tensor1 *to = named(g->in, g->n_in, name);
        const uint32_t dim = from->dims[1], size = bytes_of(from) / from->dims[0] / dim;
        const uint8_t *row = from->u.buffer.data;
        uint8_t *cache = to->u.buffer.data;
        for (uint32_t t = 0; t < n; t++) {
            for (uint32_t e = 0; e < dim; e++) {
                const size_t slot = key ? (size_t)e * m->n_cache + m->n_past + t
                                        : (size_t)(m->n_past + t) * dim + e;
                memcpy(cache + slot * size, row + ((size_t)t * dim + e) * size, size);
            }
        }
    }
}

/* The first graph of the smallest batch size that holds n tokens, else of the largest. */
static graph *choose(graph *list, uint32_t n_list, uint32_t n)
{
    graph *best = list;
    for (uint32_t i = 0; i < n_list; i++) {
        if (list[i].batch >= n && list[i].batch < best->batch)
            best = &list[i];
    }
    return best;
}

static void compute_head(model *m, const float *x, uint32_t n, float *logits)
{
    while (n > 0) {
        graph *g = choose(m->head, m->n_head_graphs, n), *end = m->head + m->n_head_graphs;
        const uint32_t batch = g->batch, now = n < batch ? n : batch;
        for (; g < end && g->batch == batch; g++) {
            write_x(g, x, now);
            execute(g);
            const abi_tensor1 *t = named(g->out, g->n_out, "logits");
            for (uint32_t i = 0; i < now; i++)
                memcpy(logits + (size_t)i * m->n_vocab + g->first,
                       (const float *)t->u.buffer.data + (size_t)i * t->dims[1],
                       t->dims[1] * sizeof *logits);
        }
        x += (size_t)now * m->n_embd;
        logits += (size_t)now * m->n_vocab;
        n -= now;
    }
}

/* Computes n tokens and the logits of each. */
static void compute(model *m, const int32_t *ids, uint32_t n, float *logits)
{
    float *x = take((size_t)m->max_batch * m->n_embd * sizeof *x);
    while (n > 0) {
        graph *g = choose(m->layer, m->n_layer_graphs, n), *end = m->layer + m->n_layer_graphs;
        const uint32_t batch = g->batch, now = n < batch ? n : batch;
        if (m->n_past + now > m->n_cache)
            die("the context is full");
        for (uint32_t i = 0; i < now; i++)
            memcpy(x + (size_t)i * m->n_embd, m->embedding + (size_t)ids[i] * m->n_embd,
                   m->n_embd * sizeof *x);
        for (; g < end && g->batch == batch; g++) {
            write_x(g, x, now);
            write_mask(m, named(g->in, g->n_in, "attn_bias"));
            write_table(m, named(g->in, g->n_in, "rope_embed_cos"), now, cos);
            write_table(m, named(g->in, g->n_in, "rope_embed_sin"), now, sin);
            execute(g);
            keep(m, g, now);
            memcpy(x, named(g->out, g->n_out, "out")->u.buffer.data,
                   (size_t)now * m->n_embd * sizeof *x);
        }
        m->n_past += now;
        compute_head(m, x, now, logits);
        ids += now;
        logits += (size_t)now * m->n_vocab;
        n -= now;
    }
    free(x);
}

/* --- texts ------------------------------------------------------------------------------------ */

static int32_t likeliest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

static void answer(model *m, const int32_t *ids, uint32_t n, uint32_t n_more, FILE *out)
{
    float *logits = take((size_t)(n > 1 ? n : 1) * m->n_vocab * sizeof *logits), *last = logits;
    clear_caches(m);
    compute(m, ids, n, logits);
    fwrite(logits, sizeof *logits * m->n_vocab, n, out);
    last += (size_t)(n - 1) * m->n_vocab;
    for (uint32_t i = 0; i < n_more; i++) {
        const int32_t id = likeliest(last, m->n_vocab);
        printf("%s%d", i > 0 ? " " : "", id);
        if (i + 1 == n_more)
            break;
        compute(m, &id, 1, logits);
        last = logits;
        fwrite(logits, sizeof *logits * m->n_vocab, 1, out);
    }
    putchar('\n');
    free(logits);
}

int main(int argc, char **argv)
{
    static model m;
    static char line[MOST_IDS * 8];
    if (argc != 6)
        die("expected LIBRARIES CHIP DIR OUT N");
    open_libraries(argv[1]);
    open_device((uint32_t)atoi(argv[2]));
    read_embedding(&m, argv[3]);
    read_graphs(&m, argv[3]);
    FILE *out = fopen(argv[4], "wb");
    int32_t *ids = take(MOST_IDS * sizeof *ids);
    while (out != NULL && fgets(line, sizeof line, stdin) != NULL) {
        uint32_t n = 0;
        for (char *p = strtok(line, " \n"); p != NULL && n < MOST_IDS; p = strtok(NULL, " \n"))
            ids[n++] = (int32_t)strtol(p, NULL, 10);
        if (n > 0)
            answer(&m, ids, n, (uint32_t)atoi(argv[5]), out);
    }
    free(ids);
    if (out == NULL || fclose(out) != 0)
        die("%s: cannot be written", argv[4]);
    close_all();
    return 0;
}
