/* The chips that ferry knows, from workspace/data/soc.json and the user's own files, and the
 * vendor's libraries for each architecture of their NPU. */
#include "workspace/npu/soc_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/names.h"
#include "base/opts.h"
#include "base/str.h"
#include "workspace/data/data_files.h"
#include "workspace/npu/phone_names.h"

#define MAX_ROWS   1000
#define MAX_NAME   32
#define MIB        (1u << 20)
#define MAX_ALL_MB 65536u /* of all sessions of a process */

struct fy_soc_table {
    fy_soc *row; /* owned, [n]; by name once the table is whole */
    size_t n, cap;
    fy_soc defaults;   /* of the first file: what rows of the others do not say either */
    fy_names index;    /* of every name, alias and title, as key_of has them: the row */
    fy_arena keys;     /* what the index views, and this: */
    const char **near; /* [n_near] those that others may be near to */
    size_t n_near;
};

void fy_soc_release(fy_soc *s)
{
    free(s->name);
    fy_data_list_free(s->aliases, s->n_aliases);
    free(s->title);
    free(s->note);
    free(s->source);
    *s = (fy_soc){0};
}

static void rows_release(fy_soc_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        fy_soc_release(&t->row[i]);
    free(t->row);
    fy_soc_release(&t->defaults);
    fy_names_release(&t->index);
    fy_arena_release(&t->keys);
    *t = (fy_soc_table){0};
}

void fy_soc_table_free(fy_soc_table *t)
{
    if (t != NULL)
        rows_release(t);
    free(t);
}

/* --- a row ------------------------------------------------------------------------------------ */

static int take_aliases(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    fy_soc *s = at;
    return fy_data_list(j, &s->aliases, &s->n_aliases, e);
}

/* Kinds of objects: "defaults" has some of a row's members. */
enum { ROW = 1, DEFAULTS = 2 };

#define NUMBER(name, field, low, high, kinds)                                                \
    {                                                                                        \
        .key = name, .type = FY_JSON_ROW_U32, .offset = offsetof(fy_soc, field), .min = low, \
        .max = high, .in = kinds                                                             \
    }
#define MEBIBYTES(name, field, low, high, kinds)                                             \
    {                                                                                        \
        .key = name, .type = FY_JSON_ROW_U64, .offset = offsetof(fy_soc, field), .min = low, \
        .max = high, .in = kinds, .unit = MIB                                                \
    }
static const fy_json_row soc_rows[] = {
    FY_DATA_TEXT("name", fy_soc, name, ROW),
    {.key = "aliases", .type = FY_JSON_ROW_TAKE, .in = ROW, .take = take_aliases},
    FY_DATA_TEXT("title", fy_soc, title, ROW),
    NUMBER("soc_id", soc_id, 1, 65535, ROW),
    NUMBER("htp_arch", htp_arch, 60, 199, ROW),
    NUMBER("vtcm_mb", vtcm_mb, 1, 64, ROW),
    NUMBER("sessions", n_sessions, 1, 16, ROW | DEFAULTS),
    MEBIBYTES("session_mb", session_bytes, 64, 16384, ROW | DEFAULTS),
    MEBIBYTES("context_mb", context_bytes, 64, 16384, ROW | DEFAULTS),
    MEBIBYTES("file_mb", file_bytes, 64, 16384, ROW | DEFAULTS),
    MEBIBYTES("memory_mb", memory_bytes, 256, 1 << 20, ROW),
    {.key = "no_fp16", .type = FY_JSON_ROW_BOOL, .offset = offsetof(fy_soc, no_fp16), .in = ROW},
    FY_DATA_TEXT("note", fy_soc, note, ROW),
    FY_DATA_TEXT("source", fy_soc, source, ROW | DEFAULTS),
};

static const fy_json_table soc_table = {FY_JSON_ROWS(soc_rows), .in = ROW,
                                        .strict = true,         .item_bytes = sizeof(fy_soc),
                                        .most = MAX_ROWS,       .named = true};
static const fy_json_table defaults_table = {FY_JSON_ROWS(soc_rows), .in = DEFAULTS,
                                             .strict = true};

static const fy_json_row file_rows[] = {
    {.key = "defaults",
     .type = FY_JSON_ROW_OBJECT,
     .offset = offsetof(fy_soc_table, defaults),
     .table = &defaults_table},
    {.key = "socs",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(fy_soc_table, row),
     .n_at = offsetof(fy_soc_table, n),
     .table = &soc_table},
};
static const fy_json_table file_table = {FY_JSON_ROWS(file_rows), .strict = true};

static bool is_name(const char *s)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-._";
    size_t n = strlen(s);
    return n <= MAX_NAME && strspn(s, letters) == n;
}

static void inherit(uint64_t *to, uint64_t from)
{
    *to = *to != 0 ? *to : from;
}

/* What the row does not say, from the file's defaults and the built-in file's. */
static int complete(fy_soc *s, const fy_soc *defaults, const char *file, fy_err *e)
{
    s->n_sessions = s->n_sessions != 0 ? s->n_sessions : defaults->n_sessions;
    inherit(&s->session_bytes, defaults->session_bytes);
    inherit(&s->context_bytes, defaults->context_bytes);
    inherit(&s->file_bytes, defaults->file_bytes);
    if (s->source == NULL && (s->source = strdup(file)) == NULL)
        return fy_nomem(e);
    return 0;
}

static int check_row(const fy_soc *s, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (s->name == NULL)
        return fy_fail(e, FY_EFORMAT, "\"name\" is missing");
    if (!is_name(s->name))
        return fy_fail(e, FY_EFORMAT,
                       "name '%s', expected up to %d letters, digits and any of + - . _",
                       fy_quote(shown, sizeof shown, fy_span_of(s->name)), MAX_NAME);
    if (s->htp_arch == 0)
        return fy_fail(e, FY_EFORMAT, "\"htp_arch\" is missing");
    if (s->n_sessions == 0 || s->session_bytes == 0 || s->context_bytes == 0 || s->file_bytes == 0)
        return fy_fail(e, FY_EFORMAT, "\"%s\" is missing: neither the row nor \"defaults\" has it",
                       s->n_sessions == 0      ? "sessions"
                       : s->session_bytes == 0 ? "session_mb"
                       : s->context_bytes == 0 ? "context_mb"
                                               : "file_mb");
    unsigned long long session = s->session_bytes / MIB, context = s->context_bytes / MIB,
                       file = s->file_bytes / MIB;
    if (s->n_sessions * session > MAX_ALL_MB)
        return fy_fail(e, FY_EFORMAT,
                       "%u sessions of %llu MB are more than the %u MB that a process can have",
                       s->n_sessions, session, MAX_ALL_MB);
    if (context > session)
        return fy_fail(e, FY_EFORMAT, "context_mb %llu is more than session_mb %llu", context,
                       session);
    if (file > context)
        return fy_fail(e, FY_EFORMAT, "file_mb %llu is more than context_mb %llu", file, context);
    return 0;
}

/* --- names ------------------------------------------------------------------------------------ */

/* The next letter that counts, 0 at the end: "8 Gen 3", "8-gen-3" and "8GEN3" are one name. */
static char next_letter(const char **p)
{
    while (**p != '\0' && strchr(" -_", **p) != NULL)
        ++*p;
    char c = **p;
    *p += c != '\0';
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static void key_of(const char *name, fy_str *out)
{
    fy_str_clear(out);
    for (char c; (c = next_letter(&name)) != '\0';)
        fy_str_putc(out, c);
}

bool fy_soc_same_name(const char *a, const char *b)
{
    char c;
    while ((c = next_letter(&a)) == next_letter(&b)) {
        if (c == '\0')
            return true;
    }
    return false;
}

bool fy_soc_name_begins(const char *name, const char *with)
{
    char c;
    while ((c = next_letter(&with)) != '\0') {
        if (next_letter(&name) != c)
            return false;
    }
    return true;
}

/* i: 0 name, then aliases, then title; NULL: there are no more. */
static const char *nth_name(const fy_soc *s, size_t i)
{
    return i == 0                  ? s->name
           : i <= s->n_aliases     ? s->aliases[i - 1]
           : i == s->n_aliases + 1 ? s->title
                                   : NULL;
}

static int add_name(fy_soc_table *t, size_t row, const char *name, bool title, fy_err *e)
{
    enum { SHORTEST_NEAR = 5 }; /* "sun" is near to half of all words */
    char shown[FY_QUOTE_BYTES];
    fy_str key = {0};
    uint32_t other;
    key_of(name, &key);
    char *kept = key.oom ? NULL : fy_arena_strndup(&t->keys, fy_str_z(&key), key.len);
    fy_span span = {kept, key.len};
    fy_str_release(&key);
    fy_quote(shown, sizeof shown, fy_span_of(name));
    if (kept == NULL)
        return fy_nomem(e);
    if (span.len == 0)
        return fy_fail(e, FY_EFORMAT, "%s: alias '%s' has no letter", t->row[row].name, shown);
    if (span.len >= SHORTEST_NEAR)
        t->near[t->n_near++] = kept;
    int rc = fy_names_add(&t->index, span, (uint32_t)row);
    if (rc <= 0)
        return rc == 0 ? 0 : fy_nomem(e);
    fy_names_find(&t->index, span, &other);
    if (other != row)
        return fy_fail(e, FY_EFORMAT, "'%s' names both %s and %s", shown, t->row[other].name,
                       t->row[row].name);
    return title ? 0 : fy_fail(e, FY_EFORMAT, "%s: '%s' is there twice", t->row[row].name, shown);
}

static int index_names(fy_soc_table *t, fy_err *e)
{
    size_t most = 0;
    fy_names_release(&t->index);
    fy_arena_release(&t->keys);
    for (size_t r = 0; r < t->n; r++)
        most += 2 + t->row[r].n_aliases;
    t->n_near = 0;
    t->near = fy_arena_calloc(&t->keys, most, sizeof *t->near);
    if (t->near == NULL)
        return fy_nomem(e);
    for (size_t r = 0; r < t->n; r++) {
        const char *name;
        for (size_t i = 0; (name = nth_name(&t->row[r], i)) != NULL; i++) {
            if (add_name(t, r, name, i > t->row[r].n_aliases, e) != 0)
                return -1;
        }
    }
    return 0;
}

static int check_ids(const fy_soc_table *t, fy_err *e)
{
    for (size_t i = 0; i < t->n; i++) {
        for (size_t k = 0; k < i; k++) {
            const fy_soc *a = &t->row[i], *b = &t->row[k];
            if (a->soc_id != 0 && a->soc_id == b->soc_id && a->htp_arch != b->htp_arch)
                return fy_fail(e, FY_EFORMAT,
                               "%s and %s both have soc_id %u, but one has V%u and the other V%u",
                               b->name, a->name, a->soc_id, b->htp_arch, a->htp_arch);
        }
    }
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static int check_file(fy_soc_table *file, const fy_soc *base, const char *name, fy_err *e)
{
    if (file->n == 0)
        return fy_fail(e, FY_EFORMAT, "no chip in it; expected {\"socs\": [{\"name\": ...}]}");
    if (complete(&file->defaults, base, name, e) != 0)
        return -1;
    for (size_t i = 0; i < file->n; i++) {
        fy_soc *s = &file->row[i];
        char shown[FY_QUOTE_BYTES];
        if (complete(s, &file->defaults, name, e) != 0)
            return -1;
        if (check_row(s, e) != 0)
            return s->name == NULL
                       ? fy_ctx(e, "row %zu of socs", i + 1)
                       : fy_ctx(e, "%s", fy_quote(shown, sizeof shown, fy_span_of(s->name)));
    }
    return index_names(file, e);
}

/* Not a row that has it as an alias: that is a contradiction, which index_names finds. */
static fy_soc *same_name(const fy_soc_table *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (fy_soc_same_name(t->row[i].name, name))
            return &t->row[i];
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const fy_soc *)a)->name, ((const fy_soc *)b)->name);
}

/* Rows of `file` take the place of those with their name, or come in between. */
static int merge(fy_soc_table *t, fy_soc_table *file, fy_err *e)
{
    if (t->n == 0) {
        t->defaults = file->defaults;
        file->defaults = (fy_soc){0};
    }
    for (size_t i = 0; i < file->n; i++) {
        fy_soc *old = same_name(t, file->row[i].name);
        if (old != NULL) {
            fy_soc_release(old);
            *old = file->row[i];
            file->row[i] = (fy_soc){0};
        } else if (t->n == MAX_ROWS) {
            return fy_fail(e, FY_EFORMAT, "more than %d chips", MAX_ROWS);
        } else if (fy_append(&t->row, &t->n, &t->cap, &file->row[i], sizeof *t->row, e) != 0) {
            return -1;
        } else {
            file->row[i] = (fy_soc){0};
        }
    }
    qsort(t->row, t->n, sizeof *t->row, compare);
    return index_names(t, e) == 0 ? check_ids(t, e) : -1;
}

static int add_file(void *user, const void *p, size_t n, const char *name, fy_err *e)
{
    fy_soc_table *t = user, file = {0};
    const bool ok = fy_json_document_of((fy_span){p, n}, &file_table, &file, e) == 0 &&
                    check_file(&file, &t->defaults, name, e) == 0 && merge(t, &file, e) == 0;
    rows_release(&file);
    return ok ? 0 : fy_ctx(e, "%s", name);
}

fy_soc_table *fy_soc_table_parse(const void *p, size_t n, const char *name, fy_err *e)
{
    fy_soc_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        fy_nomem(e);
    else if (add_file(t, p, n, name, e) == 0)
        return t;
    fy_soc_table_free(t);
    return NULL;
}

static int add_built_in(fy_soc_table *t, fy_err *e)
{
    const fy_data_file *f = fy_data_find("soc.json");
    return f != NULL ? add_file(t, f->data, f->size, "the built-in soc.json", e)
                     : fy_fail(e, FY_EFORMAT, "there is no built-in soc.json");
}

fy_soc_table *fy_soc_table_open(const char *file, fy_err *e)
{
    fy_soc_table *t = calloc(1, sizeof *t);
    if (t == NULL) {
        fy_nomem(e);
        return NULL;
    }
    int rc = file != NULL ? fy_data_read(file, add_file, t, e) : add_built_in(t, e);
    if (rc == 0 && file == NULL)
        rc = fy_data_read_own("soc.d", add_file, t, e);
    if (rc == 0)
        return t;
    fy_soc_table_free(t);
    return NULL;
}

size_t fy_soc_table_n(const fy_soc_table *t)
{
    return t->n;
}

const fy_soc *fy_soc_table_at(const fy_soc_table *t, size_t i)
{
    return &t->row[i];
}

/* --- looking up ------------------------------------------------------------------------------- */

/* The only one whose name is letters and then these digits; two of them (XR and AR chips share
 * some) are none. */
static const fy_soc *by_digits(const fy_soc_table *t, const char *wanted)
{
    const fy_soc *found = NULL;
    for (size_t i = 0; i < t->n; i++) {
        const char *digits = t->row[i].name + strcspn(t->row[i].name, "0123456789");
        if (*digits == '\0' || !fy_soc_same_name(digits, wanted))
            continue;
        if (found != NULL)
            return NULL;
        found = &t->row[i];
    }
    return found;
}

const fy_soc *fy_soc_nearest(const fy_soc_table *t, const char *wanted)
{
    char word[FY_QUOTE_BYTES];
    fy_str text = {0};
    uint32_t row;
    key_of(wanted, &text);
    snprintf(word, sizeof word, "%s", fy_str_z(&text));
    fy_str_release(&text);
    const char *near = fy_nearest(word, t->near, t->n_near);
    return near != NULL && fy_names_find(&t->index, fy_span_of(near), &row) ? &t->row[row] : NULL;
}

/* Chips of which a name begins so: "snapdragon", "8 Gen". *last: the last of them. */
static size_t count_beginning(const fy_soc_table *t, const char *with, const fy_soc **last)
{
    size_t n = 0;
    for (size_t r = 0; r < t->n; r++) {
        const char *name;
        bool found = false;
        for (size_t i = 0; (name = nth_name(&t->row[r], i)) != NULL; i++)
            found = found || fy_soc_name_begins(name, with);
        n += found;
        *last = found ? &t->row[r] : *last;
    }
    return n;
}

static void refuse(const fy_soc_table *t, const char *name, const char *maker, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const fy_soc *near = fy_soc_nearest(t, name), *begun = NULL;
    const size_t n = *name != '\0' ? count_beginning(t, name, &begun) : 0;
    near = begun != NULL ? begun : near;
    fy_quote(shown, sizeof shown, fy_span_of(name));
    if (maker != NULL)
        fy_fail(e, FY_EUNSUPPORTED,
                "'%s' is not Qualcomm's but %s: plans are for Qualcomm Hexagon NPUs; there the CPU "
                "computes the whole model, and 'ferry up MODEL' brings it to the phone",
                shown, maker);
    else if (n > 1)
        fy_fail(
            e, FY_EARG,
            "'%s' is not one chip: %zu have names that begin so; 'ferry plan --list-socs' lists "
            "them, 'ferry plan MODEL --device' asks the phone",
            shown, n);
    else
        fy_fail(e, FY_EARG,
                "no chip '%s' is known%s%s%s; give the architecture of its NPU with --htp-arch "
                "(create: --htp)",
                shown, near != NULL ? ", did you mean " : "", near != NULL ? near->name : "",
                near != NULL ? "?" : "");
}

/* A name that is not a chip's: of a phone that has one, or unknown. */
static const fy_soc *find_phone(const fy_soc_table *t, const char *name, fy_err *e)
{
    fy_phone_names names;
    const fy_soc *found = NULL;
    if (fy_phone_names_open(&names, e) != 0)
        return NULL;
    const fy_phone *p = fy_phone_find(&names, name);
    if (p != NULL)
        found = same_name(t, p->soc);
    if (found == NULL)
        refuse(t, name, fy_chip_maker(&names, name), e);
    else if (p->where != NULL)
        fy_log(FY_LOG_WARN, "%s %s has %s %s", p->maker, p->names[0], p->soc, p->where);
    fy_phone_names_release(&names);
    return found;
}

const fy_soc *fy_soc_find(const fy_soc_table *t, const char *name, fy_err *e)
{
    fy_str key = {0};
    uint32_t row;
    const fy_soc *found = NULL;
    key_of(name, &key);
    if (key.oom)
        fy_nomem(e);
    else if (fy_names_find(&t->index, fy_span_of(fy_str_z(&key)), &row))
        found = &t->row[row];
    else if ((found = by_digits(t, name)) == NULL)
        found = find_phone(t, name, e);
    fy_str_release(&key);
    return found;
}

static void refuse_arch(const fy_soc_table *t, int arch, fy_err *e)
{
    fy_str list = {0};
    for (uint32_t a = 60; a < 200; a++) {
        bool there = false;
        for (size_t i = 0; i < t->n; i++)
            there |= t->row[i].htp_arch == a;
        if (there)
            fy_str_printf(&list, "%sV%u", list.len > 0 ? ", " : "", a);
    }
    fy_fail(e, FY_EARG, "no chip of the table has HTP architecture V%d; there are %s", arch,
            fy_str_z(&list));
    fy_str_release(&list);
}

static void least(uint64_t *to, uint64_t v)
{
    if (v != 0 && (*to == 0 || v < *to))
        *to = v;
}

int fy_soc_of_arch(const fy_soc_table *t, int htp_arch, uint32_t vtcm_mb, fy_soc *out, fy_err *e)
{
    fy_soc s = {.htp_arch = (uint32_t)htp_arch, .guessed = true};
    uint64_t sessions = 0, vtcm = 0;
    char name[16];
    if (vtcm_mb > 64)
        return fy_fail(e, FY_EARG, "%u MB of VTCM, expected 1 to 64", vtcm_mb);
    for (size_t i = 0; i < t->n; i++) {
        const fy_soc *r = &t->row[i];
        if (htp_arch <= 0 || r->htp_arch != s.htp_arch)
            continue;
        least(&sessions, r->n_sessions);
        least(&vtcm, r->vtcm_mb);
        least(&s.session_bytes, r->session_bytes);
        least(&s.context_bytes, r->context_bytes);
        least(&s.file_bytes, r->file_bytes);
    }
    if (sessions == 0) {
        refuse_arch(t, htp_arch, e);
        return -1;
    }
    s.n_sessions = (uint32_t)sessions;
    s.vtcm_mb = vtcm_mb != 0 ? vtcm_mb : (uint32_t)vtcm;
    snprintf(name, sizeof name, "V%d", htp_arch);
    s.name = strdup(name);
    s.source = strdup("the least that chips of this architecture have in the table");
    if (s.name == NULL || s.source == NULL) {
        fy_soc_release(&s);
        return fy_nomem(e);
    }
    *out = s;
    return 0;
}

/* --- architectures and libraries -------------------------------------------------------------- */

static const int archs[] = {68, 69, 73, 75, 79, 81};

int fy_htp_parse(const char *text, int *arch, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const char *digits = text[0] == 'v' || text[0] == 'V' ? text + 1 : text;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        char name[4] = {(char)('0' + archs[i] / 10), (char)('0' + archs[i] % 10)};
        if (strcmp(digits, name) == 0) {
            *arch = archs[i];
            return 0;
        }
    }
    return fy_fail(e, FY_EARG,
                   "'%s' is no known HTP architecture; expected V68, V69, V73, V75, V79 "
                   "or V81",
                   fy_quote(shown, sizeof shown, fy_span_of(text)));
}

#define ARM "lib/aarch64-android"
#define DSP "lib/hexagon-v%d/unsigned"

const fy_htp_lib fy_htp_libs[] = {
    {"libQnnHtp.so", ARM, 0, false, false},
    {"libQnnSystem.so", ARM, 0, false, false},
    {"libQnnHtpV%dStub.so", ARM, 0, false, false},
    {"libQnnHtpV%dSkel.so", DSP, 0, true, false},
    {"libQnnHtpV%d.so", DSP, 0, true, true},
    {"libQnnHexagonSkel_dspApp.so", DSP, 79, true, true},
    {NULL, NULL, 0, false, false},
};
