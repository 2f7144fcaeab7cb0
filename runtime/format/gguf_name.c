/* Names of published GGUF files (gguf_name.h): the type and the place in a split model that a name
 * tells, and the choice among the models of one place. */
#include "format/gguf_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GGUF         ".gguf"
#define SPLIT_BYTES  (sizeof "-00001-of-00003" - 1)
#define LISTED_BYTES 300 /* of the names of types in a message */

/* --- one name --------------------------------------------------------------------------------- */

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool has_word(fy_span s, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.len; i++) {
        if (strncasecmp(s.ptr + i, word, n) == 0)
            return true;
    }
    return false;
}

/* Five digits of p; 0: they are none. */
static uint32_t five_digits(const char *p)
{
    uint32_t n = 0;
    for (int i = 0; i < 5; i++) {
        if (!is_digit(p[i]))
            return 0;
        n = n * 10 + (uint32_t)(p[i] - '0');
    }
    return n;
}

/* Takes "-00001-of-00003" off *stem. */
static void read_split(fy_span *stem, fy_gguf_name *out)
{
    out->no = out->count = 1;
    if (stem->len <= SPLIT_BYTES)
        return;
    const char *tail = stem->ptr + stem->len - SPLIT_BYTES;
    const uint32_t no = five_digits(tail + 1), count = five_digits(tail + SPLIT_BYTES - 5);
    if (tail[0] != '-' || strncmp(tail + 6, "-of-", 4) != 0 || no == 0 || no > count)
        return;
    out->no = no;
    out->count = count;
    stem->len -= SPLIT_BYTES;
}

/* The bits of a type: of "Q4_K_M" 4, "IQ3_XXS" 3, "TQ1_0" 1, "BF16" 16, "MXFP4" 4; 0: it is none. */
static unsigned label_bits(fy_span s)
{
    static const struct {
        const char *name;
        unsigned bits;
    } floats[] = {{"F16", 16}, {"FP16", 16}, {"BF16", 16}, {"F32", 32},
                  {"FP32", 32}, {"MXFP4", 4}, {"MXFP4_MOE", 4}, {"NVFP4", 4}};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        if (s.len == strlen(floats[i].name) && strncasecmp(s.ptr, floats[i].name, s.len) == 0)
            return floats[i].bits;
    }
    const bool marked = s.len > 0 && (upper(s.ptr[0]) == 'I' || upper(s.ptr[0]) == 'T');
    if (s.len < 2U + marked || upper(s.ptr[marked]) != 'Q')
        return 0;
    const char bits = s.ptr[marked + 1];
    if (bits < '1' || bits > '8')
        return 0;
    for (size_t i = marked + 2U; i < s.len; i++) { /* "_0", "_K", "_K_M", "_XXS", "_0_4_4" */
        const char c = upper(s.ptr[i]);
        const bool first = i == marked + 2U, last = i + 1 == s.len;
        if (c == '_' ? last || s.ptr[i - 1] == '_' : first || !(is_digit(c) || (c >= 'A' && c <= 'Z')))
            return 0;
    }
    return (unsigned)(bits - '0');
}

/* The type that ends a word such as "Q4_K_M" or "model_q4_0"; its bits, 0: there is none. */
static unsigned word_label(fy_span word, fy_span *label)
{
    for (size_t i = 0; i < word.len; i++) {
        const fy_span rest = {word.ptr + i, word.len - i};
        const unsigned bits = i == 0 || word.ptr[i - 1] == '_' ? label_bits(rest) : 0;
        if (bits > 0) {
            *label = rest;
            return bits;
        }
    }
    return 0;
}

static bool is_mark(fy_span word)
{
    return word.len == 2 && (strncasecmp(word.ptr, "UD", 2) == 0 ||
                             strncasecmp(word.ptr, "i1", 2) == 0);
}

/* The last type in `base`, whose words are separated by '-' and '.', with the mark in front of it. */
static void read_label(fy_span base, fy_gguf_name *out)
{
    fy_span label = {NULL, 0}, before = {NULL, 0};
    for (size_t begin = 0; begin <= base.len;) {
        size_t end = begin;
        while (end < base.len && base.ptr[end] != '-' && base.ptr[end] != '.')
            end++;
        const fy_span word = {base.ptr + begin, end - begin};
        fy_span found;
        const unsigned bits = word_label(word, &found);
        if (bits > 0 && found.len < FY_GGUF_LABEL_BYTES - 3) {
            const bool marked = found.ptr == word.ptr && is_mark(before);
            label = marked ? (fy_span){before.ptr, (size_t)(found.ptr + found.len - before.ptr)}
                           : found;
            out->bits = bits;
        }
        before = word;
        begin = end + 1;
    }
    for (size_t i = 0; i < label.len; i++)
        out->label[i] = label.ptr[i] == '.' ? '-' : upper(label.ptr[i]);
}

bool fy_gguf_name_read(const char *path, fy_gguf_name *out)
{
    /* projectors of images, importance matrices, and what drafts for another model */
    static const char *const others[] = {"mmproj", "imatrix", "mtp-",
                                         "eagle3-", "dflash-", "dspark-"};
    fy_gguf_name n = {.label = ""};
    const size_t len = strlen(path), end = sizeof GGUF - 1;
    if (len <= end || strcasecmp(path + len - end, GGUF) != 0 || path[len - end - 1] == '/')
        return false;
    fy_span stem = {path, len - end};
    read_split(&stem, &n);
    n.model = stem;
    const char *slash = memrchr(stem.ptr, '/', stem.len);
    const size_t skip = slash != NULL ? (size_t)(slash + 1 - stem.ptr) : 0;
    const fy_span base = {stem.ptr + skip, stem.len - skip};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (has_word(base, others[i]))
            return false;
    }
    read_label(base, &n);
    *out = n;
    return true;
}

/* Past "UD-" or "I1-". */
static const char *unmarked(const char *label)
{
    const char *dash = strrchr(label, '-');
    return dash != NULL ? dash + 1 : label;
}

bool fy_gguf_label_type(const char *label, fy_type *out)
{
    /* llama-quantize's mixtures that no type is named after */
    static const struct {
        const char *label, *type;
    } mixtures[] = {{"IQ2_M", "iq2_s"}, {"IQ3_XS", "iq3_s"}, {"IQ3_M", "iq3_s"}};
    char name[FY_GGUF_LABEL_BYTES + 2];
    snprintf(name, FY_GGUF_LABEL_BYTES, "%s", unmarked(label));
    for (size_t i = 0; i < sizeof mixtures / sizeof mixtures[0]; i++) {
        if (strcmp(name, mixtures[i].label) == 0)
            strcpy(name, mixtures[i].type);
    }
    if (strncmp(name, "FP", 2) == 0)
        memmove(name + 1, name + 2, strlen(name + 2) + 1);
    for (;;) { /* Q4_K_M, then Q4_K */
        if (name[0] == 'Q' && name[1] != '\0' && name[2] == '\0')
            strcpy(name + 2, name[1] == '8' ? "_0" : "_K"); /* as Microsoft's "-q4.gguf" are */
        if (fy_type_parse(name, out))
            return fy_type_get((uint32_t)*out) != NULL;
        char *cut = strrchr(name, '_');
        if (cut == NULL || is_digit(cut[1]))
            return false;
        *cut = '\0';
    }
}

/* --- several ---------------------------------------------------------------------------------- */

static bool same_model(const fy_gguf_name *a, const fy_gguf_name *b)
{
    return a->count == b->count && fy_span_eq(a->model, b->model);
}

typedef struct {
    fy_gguf_name name;
    const char *path;
    uint64_t bytes;
} named_file;

/* Files of one model follow each other, in their order. */
static int by_model(const void *a, const void *b)
{
    const named_file *x = a, *y = b;
    const int order = fy_span_order(x->name.model, y->name.model);
    if (order != 0)
        return order;
    if (x->name.count != y->name.count)
        return x->name.count < y->name.count ? -1 : 1;
    return x->name.no < y->name.no ? -1 : x->name.no > y->name.no;
}

static int by_bytes(const void *a, const void *b)
{
    const fy_gguf_variant *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    if (x->name.bits != y->name.bits) /* a mirror may know no sizes */
        return x->name.bits < y->name.bits ? -1 : 1;
    return strcmp(x->first, y->first);
}

/* files[0..n) are all of one name. False: one is absent, or there twice (as .gguf and .GGUF). */
static bool is_whole(const named_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (files[i].name.no != i + 1)
            return false;
    }
    return n == files[0].name.count;
}

int fy_gguf_variants_of(const char *const *names, const uint64_t *sizes, size_t n,
                        bool (*runs)(fy_type t), fy_gguf_variants *out, fy_err *e)
{
    named_file *files = calloc(n + 1, sizeof *files);
    fy_gguf_variants l = {calloc(n + 1, sizeof *l.v), 0};
    size_t n_files = 0;
    if (files == NULL || l.v == NULL) {
        free(files);
        fy_gguf_variants_release(&l);
        return fy_nomem(e);
    }
    for (size_t i = 0; i < n; i++) {
        named_file *f = &files[n_files];
        if (!fy_gguf_name_read(names[i], &f->name))
            continue;
        f->path = names[i];
        f->bytes = sizes[i];
        n_files++;
    }
    qsort(files, n_files, sizeof *files, by_model);
    for (size_t i = 0, end; i < n_files; i = end) {
        fy_type type;
        fy_gguf_variant v = {.first = files[i].path, .name = files[i].name};
        for (end = i; end < n_files && same_model(&files[i].name, &files[end].name); end++)
            v.bytes = v.bytes + files[end].bytes < v.bytes ? UINT64_MAX : v.bytes + files[end].bytes;
        v.runs = v.name.label[0] == '\0' || (fy_gguf_label_type(v.name.label, &type) && runs(type));
        if (is_whole(&files[i], end - i))
            l.v[l.n++] = v;
    }
    free(files);
    qsort(l.v, l.n, sizeof *l.v, by_bytes);
    *out = l;
    return 0;
}

void fy_gguf_variants_release(fy_gguf_variants *l)
{
    free(l->v);
    *l = (fy_gguf_variants){0};
}

/* --- the choice ------------------------------------------------------------------------------- */

static void put_types(const fy_gguf_variants *l, fy_str *s)
{
    for (size_t i = 0; i < l->n; i++) {
        const fy_gguf_variant *v = &l->v[i];
        fy_str_puts(s, i > 0 ? ", " : "");
        if (s->len > LISTED_BYTES) {
            fy_str_printf(s, "and %zu more", l->n - i);
            return;
        }
        if (v->name.label[0] != '\0')
            fy_str_puts(s, v->name.label);
        else
            fy_str_put_quoted(s, fy_span_of(v->first), FY_QUOTE_BYTES);
    }
}

static int refuse(const fy_gguf_variants *l, fy_err *e, const char *why)
{
    fy_str s = {0};
    put_types(l, &s);
    fy_fail(e, FY_EUNSUPPORTED, "%s; its GGUF files are %s", why, fy_str_z(&s));
    fy_str_release(&s);
    return -1;
}

/* How many have this label (marks: after their mark); *found is one of them. */
static size_t with_label(const fy_gguf_variants *l, const char *label, bool marks,
                         const fy_gguf_variant **found)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const char *its = l->v[i].name.label;
        if (strcasecmp(marks ? unmarked(its) : its, label) != 0)
            continue;
        *found = &l->v[i];
        n++;
    }
    return n;
}

/* 1: *found; 0: none has it; -1: several have. */
static int labelled(const fy_gguf_variants *l, const char *label, const fy_gguf_variant **found,
                    fy_err *e)
{
    char why[256], q[FY_QUOTE_BYTES];
    size_t n = with_label(l, label, false, found);
    if (n == 0)
        n = with_label(l, label, true, found);
    if (n <= 1)
        return (int)n;
    snprintf(why, sizeof why,
             "%zu of its models are of type '%s', '%s' is one; --include takes one by its name", n,
             label, fy_quote(q, sizeof q, fy_span_of((*found)->first)));
    return refuse(l, e, why);
}

static int preset(const fy_gguf_variants *l, const fy_gguf_variant **found, fy_err *e)
{
    static const char *const preferred[] = {"Q4_K_M", "Q4_0"};
    if (l->n == 1) {
        *found = &l->v[0];
        return 0;
    }
    for (size_t i = 0; i < sizeof preferred / sizeof preferred[0]; i++) {
        const int n = labelled(l, preferred[i], found, e);
        if (n != 0)
            return n > 0 ? 0 : -1;
    }
    for (size_t i = 0; i < l->n; i++) { /* the smallest first */
        const fy_gguf_variant *v = &l->v[i];
        if (v->runs && v->name.bits >= 4)
            return labelled(l, v->name.label, found, e) < 0 ? -1 : 0;
    }
    return refuse(l, e, "none is of 4 bits or more and of a type that ferry runs; name one");
}

const fy_gguf_variant *fy_gguf_variants_choose(const fy_gguf_variants *l, const char *label,
                                               fy_err *e)
{
    char why[FY_QUOTE_BYTES + 32], q[FY_QUOTE_BYTES];
    const fy_gguf_variant *found = NULL;
    if (label[0] == '\0')
        return preset(l, &found, e) == 0 ? found : NULL;
    const int n = labelled(l, label, &found, e);
    if (n == 0) {
        snprintf(why, sizeof why, "no model of type '%s'",
                 fy_quote(q, sizeof q, fy_span_of(label)));
        refuse(l, e, why);
    }
    return n > 0 ? found : NULL;
}
