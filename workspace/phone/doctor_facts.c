/* What doctor compares. The facts of a phone come from one shell command whose answer is
 * "name=value" lines; it uses what toybox (Android) and busybox both have, and what a phone lacks
 * or forbids is left out of the answer. The needs of a workspace come from its manifest and from
 * its models, planned as `ferry run` would. */
#include "workspace/phone/doctor.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/file.h"
#include "base/math.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "bundle/qnn_config.h"
#include "cli/machine.h"
#include "cli/cut_model.h"
#include "workspace/npu/compiled.h"
#include "workspace/npu/soc_table.h"
#include "workspace/phone/phone_workspace.h"

#define HEAT                                                                                       \
    "dumpsys thermalservice | sed -n 's/^ *Thermal Status: /thermal=/p' | head -n 1; "             \
    "cd /sys/class/thermal && for z in thermal_zone*; do t= v=; read -r t <$z/type; "              \
    "read -r v <$z/temp; echo \"zone=$v $t\"; done; "

const char fy_facts_heat_command[] = "exec 2>/dev/null; " HEAT "true";

const char fy_facts_command[] =
    "exec 2>/dev/null; "
    "getprop | sed -n 's/^\\[\\(ro\\.[a-z.]*\\)\\]: \\[\\(.*\\)\\]$/\\1=\\2/p' | grep -E "
    "'^ro\\.(product\\.(manufacturer|model|cpu\\.abi|cpu\\.abilist)|soc\\.model|board\\.platform|"
    "build\\.version\\.(release|sdk))='; "
    "echo \"features=$(sed -n '/^Features/{s/^[^:]*: *//p;q;}' /proc/cpuinfo)\"; "
    "echo \"cpus=$(grep -c ^processor /proc/cpuinfo)\"; "
    "echo \"page=$(getconf PAGE_SIZE)\"; "
    "sed 's/: */=/;s/ kB$//' /proc/meminfo; "
    "echo \"free=$(stat -f -c '%a %S' " FY_PHONE_TMP ")\"; "
    "echo \"df=$(df -k " FY_PHONE_TMP " | tail -n 1)\"; "
    "cd /sys/class/power_supply/battery && for f in capacity status temp; do v=; read -r v <$f; "
    "echo \"battery.$f=$v\"; done; "
    "dumpsys battery | sed -n 's/^ *\\(level\\|temperature\\): /battery.\\1=/p'; "
    HEAT
    "for f in /vendor/lib64/libQnn*.so /vendor/lib64/libcdsprpc.so /system/lib64/libcdsprpc.so "
    "/vendor/lib/rfsa/adsp/libQnn*.so /vendor/dsp/cdsp/libQnn*.so; do "
    "[ -e \"$f\" ] && echo \"lib=$f\"; done; "
    "pm list packages com.termux | sed 's/^package:/package=/'; true";

/* --- values ----------------------------------------------------------------------------------- */

static void take_text(char *out, size_t size, fy_span v)
{
    size_t n = v.len < size - 1 ? v.len : size - 1;
    memcpy(out, v.ptr, n);
    out[n] = '\0';
}

/* A whole number at the start, below 2^53; -1: there is none. */
static int64_t take_number(fy_span v)
{
    int64_t n = -1;
    for (size_t i = 0; i < v.len && isdigit((unsigned char)v.ptr[i]); i++) {
        n = (n < 0 ? 0 : n) * 10 + (v.ptr[i] - '0');
        if (n >= INT64_C(1) << 53)
            return -1;
    }
    return n;
}

static int64_t product(int64_t a, int64_t b)
{
    int64_t r;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) ? -1 : r;
}

/* Degrees, from a number in thousandths, tenths or whole ones; NAN: no temperature. */
static double take_celsius(fy_span v)
{
    bool minus = v.len > 0 && *v.ptr == '-';
    int64_t n = take_number(minus ? (fy_span){v.ptr + 1, v.len - 1} : v);
    double c = n < 0 ? NAN : (double)n / (n >= 1000 ? 1000.0 : n >= 150 ? 10.0 : 1.0);
    return c <= 150 ? (minus ? -c : c) : NAN;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void set_text(char *field, size_t size, fy_span v)
{
    if (field[0] == '\0')
        take_text(field, size, v);
}

static void set_number(int64_t *field, int64_t n)
{
    if (*field < 0)
        *field = n;
}

static void take_zone(fy_facts *f, fy_span v)
{
    double c = take_celsius(fy_span_cut_word(&v));
    if (isnan(c) || f->n_zones == FY_FACT_ZONES)
        return;
    f->zone[f->n_zones].c = c;
    take_text(f->zone[f->n_zones++].type, FY_FACT_BYTES, fy_span_cut_word(&v));
}

/* Blocks and their size, of stat -f; or the fourth column of df, whose last one is a path. */
static void take_space(fy_facts *f, fy_span v, bool is_df)
{
    fy_span word[8] = {0};
    size_t n = 0;
    for (fy_span w; n < 8 && (w = fy_span_cut_word(&v)).len > 0;)
        word[n++] = w;
    if (!is_df && n == 2)
        set_number(&f->storage_free, product(take_number(word[0]), take_number(word[1])));
    else if (is_df && n >= 3)
        set_number(&f->storage_free, product(take_number(word[n - 3]), 1024));
}

#define TEXT(name, json, field)                                                              \
    {                                                                                        \
        name, json, FY_FACT_TEXT, offsetof(fy_facts, field), sizeof((fy_facts *)0)->field, 0 \
    }
#define NUMBER(name, json, field, unit)                                \
    {                                                                  \
        name, json, FY_FACT_NUMBER, offsetof(fy_facts, field), 0, unit \
    }
const fy_fact_row fy_fact_rows[] = {
    TEXT("ro.product.manufacturer", "manufacturer", manufacturer),
    TEXT("ro.product.model", "model", model),
    TEXT("ro.soc.model", "soc", soc),
    TEXT("ro.board.platform", "platform", platform),
    TEXT("ro.build.version.release", "android", android),
    NUMBER("ro.build.version.sdk", "sdk", sdk, 1),
    TEXT("ro.product.cpu.abi", "abi", abi),
    TEXT("ro.product.cpu.abilist", NULL, abis),
    TEXT("features", "cpu_features", features),
    NUMBER("cpus", "cpus", n_cpus, 1),
    NUMBER("page", "page_bytes", page_bytes, 1),
    NUMBER("MemTotal", "memory_total_bytes", mem_total, 1024),
    NUMBER("MemAvailable", "memory_available_bytes", mem_available, 1024),
    NUMBER(NULL, "storage_free_bytes", storage_free, 0),
    NUMBER("battery.capacity", "battery_percent", battery_percent, 1),
    NUMBER("battery.level", NULL, battery_percent, 1),
    TEXT("battery.status", "battery_status", battery_status),
    {"battery.temp", "battery_celsius", FY_FACT_CELSIUS, offsetof(fy_facts, battery_c), 0, 0},
    {"battery.temperature", NULL, FY_FACT_CELSIUS, offsetof(fy_facts, battery_c), 0, 0},
    NUMBER("thermal", "thermal_status", thermal_status, 1),
    {NULL, NULL, FY_FACT_TEXT, 0, 0, 0},
};

/* What was said before stays. */
static void set_fact(const fy_fact_row *r, fy_facts *f, fy_span v)
{
    void *at = (char *)f + r->offset;
    double *celsius = at;
    if (r->kind == FY_FACT_TEXT)
        set_text(at, r->bytes, v);
    else if (r->kind == FY_FACT_NUMBER)
        set_number(at, product(take_number(v), r->unit));
    else if (isnan(*celsius))
        *celsius = take_celsius(v);
}

static void take_line(fy_facts *f, fy_span name, fy_span v)
{
    for (const fy_fact_row *r = fy_fact_rows; r->name != NULL || r->json != NULL; r++) {
        if (r->name != NULL && fy_span_is(name, r->name)) {
            set_fact(r, f, v);
            return;
        }
    }
    if (fy_span_is(name, "zone"))
        take_zone(f, v);
    else if (fy_span_is(name, "free") || fy_span_is(name, "df"))
        take_space(f, v, name.len == 2);
    else if (fy_span_is(name, "lib") && f->n_libs < FY_FACT_LIBS)
        take_text(f->lib[f->n_libs++], FY_FACT_BYTES, v);
    else if (fy_span_is(name, "package") && f->n_packages < FY_FACT_PACKAGES)
        take_text(f->package[f->n_packages++], FY_FACT_BYTES, v);
}

void fy_facts_parse(const char *text, size_t n, fy_facts *out)
{
    *out = (fy_facts){.sdk = -1,
                      .n_cpus = -1,
                      .page_bytes = -1,
                      .mem_total = -1,
                      .mem_available = -1,
                      .storage_free = -1,
                      .battery_percent = -1,
                      .battery_c = NAN,
                      .thermal_status = -1};
    for (fy_span rest = {text, n}; rest.len > 0;) {
        fy_span line = fy_span_cut_line(&rest);
        while (line.len > 0 && strchr("\r ", line.ptr[line.len - 1]) != NULL &&
               line.ptr[line.len - 1] != '\0')
            line.len--;
        const char *equals = line.len > 0 ? memchr(line.ptr, '=', line.len) : NULL;
        if (equals == NULL)
            continue;
        fy_span name = {line.ptr, (size_t)(equals - line.ptr)};
        fy_span value = {equals + 1, line.len - name.len - 1};
        take_line(out, name, value);
    }
}

int fy_facts_chip(fy_facts *f, fy_err *e)
{
    fy_soc_table *t = fy_soc_table_open(NULL, e);
    if (t == NULL)
        return -1;
    const fy_soc *soc = fy_soc_find(t, f->soc, NULL);
    f->htp = soc != NULL ? (int)soc->htp_arch : 0;
    fy_soc_table_free(t);
    return 0;
}

/* --- what a workspace needs ------------------------------------------------------------------- */

/* A tied output matrix of a cut model is there twice and counts once as parameters. */
static void add_file(void *user, const fy_gguf *g)
{
    fy_need *out = user;
    bool tied = false;
    fy_gguf_get_bool(g, FY_CHUNK_KEYS "tied", &tied, NULL);
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        uint64_t elems = 1;
        for (uint32_t d = 0; d < t->n_dims; d++)
            elems *= (uint64_t)t->ne[d]; /* the reader has checked that this fits */
        out->parameters += tied && fy_span_is(t->name, "output.weight") ? 0 : elems;
        out->weights += t->bytes;
    }
}

/* user: the bytes of all. */
static int add_binary(void *user, const char *name, const fy_qnn_sidecar *s, fy_err *e)
{
    uint64_t *sum = user;
    (void)name, (void)e;
    if (!fy_add_u64(*sum, s->bytes, sum))
        *sum = UINT64_MAX;
    return 0;
}

/* The embedding, and graphs that only a phone opens: their files, caches and seams are in memory.
 */
static int add_compiled(const fy_gguf *g, const char *qnn, const fy_qnn_config *c,
                        const fy_session_params *p, fy_need *out, fy_err *e)
{
    const fy_family *family;
    fy_hparams hp;
    fy_chunk_info info;
    fy_graph_bytes bytes;
    if (fy_cut_header(g, &family, &hp, &info, e) != 0)
        return -1;
    if (p->n_ctx > c->cache_size)
        return fy_fail(e, FY_EFIT, "context of %u positions, but the graphs have %u", p->n_ctx,
                       c->cache_size);
    const fy_chunk_info layers = {.kind = FY_CHUNK_LAYERS, .end_layer = hp.n_layer};
    const fy_graph_shape shape = {.hp = &hp,
                                  .chunk = &layers,
                                  .n_batch = c->max_batch,
                                  .n_cache = c->cache_size,
                                  .n_ctx = c->context_size,
                                  .kv_bytes = strcmp(c->own.compiled.kv, "u8") == 0 ? 1 : 2};
    uint64_t kv;
    if (!fy_graph_count(&shape, &bytes) || !fy_mul_u64(bytes.layer, hp.n_layer, &kv))
        return fy_fail(e, FY_EFORMAT, "%s: more bytes of caches than 64 bits count", qnn);
    out->kv += kv;
    out->scratch += bytes.once;
    if (out->n_ctx == 0)
        out->n_ctx = c->cache_size;
    out->compiled = (int)c->own.compiled.arch;
    add_file(out, g);
    return fy_compiled_each(qnn, c, add_binary, &out->weights, e);
}

/* 1: it is compiled, and was added; 0: it is not. */
static int try_compiled(const char *path, const char *qnn, const fy_session_params *p, fy_need *out,
                        fy_err *e)
{
    fy_qnn_config c;
    fy_gguf *g = fy_gguf_open(path, e);
    if (g == NULL)
        return -1;
    int rc = !fy_is_chunk(g) ? 0 : fy_cut_config_read(qnn, &c, e) == 0 ? 1 : -1;
    if (rc == 1) {
        if (c.own.compiled.arch == 0)
            rc = 0;
        else if (add_compiled(g, qnn, &c, p, out, e) != 0)
            rc = -1;
        fy_qnn_config_release(&c);
    }
    fy_gguf_close(g);
    return rc;
}

/* As `ferry run` and `chat` would open it. qnn: its graphs; NULL: none. */
static int add_model(const char *path, const char *qnn, const fy_session_params *p, fy_need *out,
                     fy_err *e)
{
    const int compiled = qnn != NULL ? try_compiled(path, qnn, p, out, e) : 0;
    if (compiled != 0)
        return compiled == 1 ? 0 : -1;
    const fy_machine_options machine = {.backend = FY_BACKEND_AUTO};
    fy_session_plan plan;
    fy_model *m = fy_machine_open(&machine, path, qnn, NULL, e);
    if (m == NULL || fy_session_plan_of(m, p, &plan, e) != 0 ||
        fy_model_each_file(m, add_file, out, e) != 0) {
        fy_model_close(m);
        return -1;
    }
    out->kv += plan.kv_bytes;
    out->scratch += plan.scratch_bytes;
    if (out->n_ctx == 0)
        out->n_ctx = plan.params.n_ctx;
    fy_model_close(m);
    return 0;
}

/* The draft's graphs are not in the bundle, which names the main model's. */
static int add_draft(const char *dir, const char *draft, const fy_session_params *p, fy_need *out,
                     fy_err *e)
{
    char *weights = fy_path_format(e, "%s/%s/" FY_BUNDLE_WEIGHTS, dir, draft);
    char *qnn = weights != NULL ? fy_path_format(e, "%s/%s/" FY_QNN_DIR, dir, draft) : NULL;
    int rc = qnn != NULL ? add_model(weights, fy_file_is_dir(qnn) ? qnn : NULL, p, out, e) : -1;
    free(weights);
    free(qnn);
    return rc;
}

/* "qnn_libs/libQnnHtpV75Skel.so" -> 75. */
static int arch_of_lib(const char *path)
{
    static const char prefix[] = "libQnnHtpV";
    const char *at = strstr(path, prefix);
    return at != NULL ? atoi(at + sizeof prefix - 1) : 0;
}

static int read_manifest(const char *dir, fy_need *out, fy_err *e)
{
    fy_manifest m;
    if (fy_manifest_read(dir, &m, e) != 0)
        return -1;
    for (size_t i = 0; i < m.n; i++) {
        const char *path = m.entry[i].path;
        if (!fy_add_u64(out->bytes, m.entry[i].bytes, &out->bytes))
            out->bytes = UINT64_MAX;
        out->npu |= strncmp(path, "qnn_libs/", 9) == 0 || strstr(path, "/qnn/") != NULL;
        int arch = strncmp(path, "qnn_libs/", 9) == 0 ? arch_of_lib(path) : 0;
        if (arch > 0 && arch < 1000)
            out->npu_arch = arch;
    }
    fy_manifest_release(&m);
    return 0;
}

static int read_exec(const char *dir, char **exec, fy_err *e)
{
    fy_map map;
    if (fy_map_open_in(&map, dir, FY_BUNDLE_WORKSPACE_JSON, e) != 0)
        return -1;
    int rc = fy_workspace_exec((fy_span){(const char *)map.data, map.size}, exec, e);
    fy_map_close(&map);
    return rc;
}

static int add_models(const char *dir, fy_session_params *p, fy_need *out, fy_err *e)
{
    fy_bundle b;
    char *exec;
    if (fy_bundle_open(dir, &b, e) != 0)
        return -1;
    if (read_exec(dir, &exec, e) != 0) {
        fy_bundle_release(&b);
        return -1;
    }
    p->n_batch = b.batch_size > 0 && b.batch_size <= UINT32_MAX ? (uint32_t)b.batch_size : 0;
    fy_err why = {0};
    int rc = add_model(b.weights, b.qnn, p, out, &why);
    if (rc != 0 && exec != NULL) { /* a model for another runtime: all of it may be read */
        out->weights = out->bytes;
        rc = 0;
    }
    if (rc != 0)
        fy_fail(e, why.code, "%s", why.msg);
    if (rc == 0 && exec == NULL && b.model_draft != NULL)
        rc = add_draft(dir, b.model_draft, p, out, e);
    fy_bundle_release(&b);
    free(exec);
    return rc;
}

int fy_need_of(const char *dir, uint32_t n_ctx, fy_type type_k, fy_type type_v, fy_need *out,
               fy_err *e)
{
    fy_local_workspace w;
    fy_session_params p = {.n_ctx = n_ctx, .type_k = type_k, .type_v = type_v};
    *out = (fy_need){0};
    int found = fy_local_workspace_of(dir, &w, e);
    if (found < 0)
        return -1;
    if (found == 0 || w.rel[0] != '\0') {
        fy_local_workspace_release(&w);
        return fy_fail(e, FY_EARG, "%s: is not a workspace; 'ferry create' makes one", dir);
    }
    out->dir = w.dir;
    out->name = w.name;
    memcpy(out->sha256, w.sha256, sizeof out->sha256);
    free(w.rel);
    if (read_manifest(dir, out, e) == 0 && add_models(dir, &p, out, e) == 0)
        return 0;
    fy_need_release(out);
    return -1;
}

void fy_need_release(fy_need *n)
{
    free(n->dir);
    free(n->name);
    *n = (fy_need){0};
}
