/* Opening GGUF files: one, or all those of a split model, whose first one was given; and the names
 * of those files. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/math.h"
#include "base/str.h"
#include "format/gguf.h"
#include "format/gguf_impl.h"

typedef struct {
    uint32_t no, count, n_tensors; /* n_tensors: of all files; 0: not given */
} split;

static int read_split(const fy_gguf *g, split *s, fy_err *e)
{
    *s = (split){.count = 1};
    return fy_gguf_get_u32(g, FY_KEY_SPLIT_NO, &s->no, e) < 0 ||
                   fy_gguf_get_u32(g, FY_KEY_SPLIT_COUNT, &s->count, e) < 0 ||
                   fy_gguf_get_u32(g, FY_KEY_SPLIT_TENSORS, &s->n_tensors, e) < 0
               ? -1
               : 0;
}

static fy_gguf *open_one(const char *path, const fy_map_options *options, fy_err *e)
{
    fy_map map;
    uint64_t before = 0;
    if (options->progress != NULL) { /* its total becomes that of this file */
        before = options->progress->total_bytes;
        options->progress->total_bytes = 0;
    }
    if (fy_map_open_as(&map, path, options, e) != 0)
        return NULL;
    if (options->progress != NULL)
        options->progress->total_bytes += before;
    fy_gguf *g = fy_gguf_parse(map.data, map.size, path, false, e);
    if (g == NULL)
        fy_map_close(&map);
    else
        g->first.map = map;
    return g;
}

/* Appends the tensors of another file to those of g, with its map. Frees `from`. */
static int take_over(fy_gguf *g, fy_gguf *from, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < from->n_tensors; i++) {
        fy_gguf_tensor t = from->tensor[i];
        t.file = (uint32_t)g->n_files;
        rc = fy_names_add(&g->names, t.name, (uint32_t)g->n_tensors);
        if (rc > 0)
            rc = fy_fail(e, FY_EFORMAT, "%s: tensor '%s' is also in an earlier file",
                         from->first.path, fy_quote(shown, sizeof shown, t.name));
        else if (rc < 0)
            fy_nomem(e);
        else
            rc = fy_append(&g->tensor, &g->n_tensors, &g->tensor_cap, &t, sizeof t, e);
    }
    g->files[g->n_files++] = from->first; /* in any case: names may be views into it */
    from->first = (fy_gguf_file){0};
    fy_gguf_close(from);
    return rc;
}

static int add_file(fy_gguf *g, const split *s, uint32_t no, const fy_map_options *options,
                    fy_err *e)
{
    bool oom;
    split its;
    char *path = fy_gguf_split_sibling(g->first.path, 0, no, s->count, &oom);
    if (path == NULL)
        return oom ? fy_nomem(e)
                   : fy_fail(e, FY_EFORMAT,
                             "%s: is file 1 of %" PRIu32 " of a split model, expected a name that "
                             "ends in -00001-of-%05" PRIu32 ".gguf, so that the others are found",
                             g->first.path, s->count, s->count);
    int rc = -1;
    if (!fy_file_exists(path)) {
        fy_fail(e, FY_EIO, "%s: is absent, file %" PRIu32 " of %" PRIu32 " of the model", path,
                no + 1, s->count);
        free(path);
        return -1;
    }
    fy_gguf *from = open_one(path, options, e);
    if (from != NULL && read_split(from, &its, e) == 0) {
        if (its.no != no || its.count != s->count)
            fy_fail(e, FY_EFORMAT,
                    "%s: claims to be file %" PRIu64 " of %" PRIu32 ", expected %" PRIu32
                    " of %" PRIu32 ": of another model, or renamed",
                    path, (uint64_t)its.no + 1, its.count, no + 1, s->count);
        else
            rc = 0;
    }
    free(path);
    if (rc == 0)
        return take_over(g, from, e);
    fy_gguf_close(from);
    return -1;
}

static int add_files(fy_gguf *g, const fy_map_options *options, fy_err *e)
{
    split s;
    const char *path = g->first.path;
    if (read_split(g, &s, e) != 0)
        return -1;
    if (s.count <= 1)
        return 0;
    if (s.no != 0) {
        bool oom;
        char *first = fy_gguf_split_sibling(path, s.no, 0, s.count, &oom);
        fy_fail(e, FY_EARG,
                "%s: is file %" PRIu64 " of %" PRIu32 " of a split model; give the first one%s%s",
                path, (uint64_t)s.no + 1, s.count, first != NULL ? ", " : "",
                first != NULL ? first : "");
        free(first);
        return -1;
    }
    if (s.count > FY_GGUF_MAX_FILES)
        return fy_fail(e, FY_EUNSUPPORTED, "%s: %" PRIu32 " files of a split model, at most %d",
                       path, s.count, FY_GGUF_MAX_FILES);
    fy_gguf_file *files = calloc(s.count, sizeof *files);
    if (files == NULL)
        return fy_nomem(e);
    files[0] = g->first;
    g->files = files;
    for (uint32_t no = 1; no < s.count; no++) {
        if (add_file(g, &s, no, options, e) != 0)
            return -1;
    }
    if (s.n_tensors != 0 && s.n_tensors != g->n_tensors)
        return fy_fail(e, FY_EFORMAT,
                       "%s: its %" PRIu32 " files hold %zu tensors, expected %" PRIu32
                       ": one is of another model",
                       path, s.count, g->n_tensors, s.n_tensors);
    return 0;
}

fy_gguf *fy_gguf_open(const char *path, fy_err *e)
{
    const fy_map_options mapped = {0};
    return fy_gguf_open_as(path, &mapped, e);
}

fy_gguf *fy_gguf_open_as(const char *path, const fy_map_options *options, fy_err *e)
{
    fy_gguf *g = open_one(path, options, e);
    if (g != NULL && add_files(g, options, e) != 0) {
        fy_gguf_close(g);
        return NULL;
    }
    return g;
}

/* --- names of split files --------------------------------------------------------------------- */

#define GGUF ".gguf"

static char *name_of(const char *stem, size_t n, uint32_t no, uint32_t count)
{
    fy_str s = {0};
    fy_str_add(&s, stem, n);
    fy_str_printf(&s, "-%05u-of-%05u" GGUF, (unsigned)no + 1, (unsigned)count);
    if (s.oom)
        fy_str_release(&s);
    return s.ptr;
}

char *fy_gguf_split_name(const char *path, uint32_t no, uint32_t count)
{
    size_t n = strlen(path), end = sizeof GGUF - 1;
    if (count == 1)
        return strdup(path);
    if (n > end && strcmp(path + n - end, GGUF) == 0 && path[n - end - 1] != '/')
        n -= end;
    return name_of(path, n, no, count);
}

char *fy_gguf_split_sibling(const char *path, uint32_t of, uint32_t no, uint32_t count, bool *oom)
{
    char tail[48];
    const size_t n = strlen(path), end = (size_t)snprintf(tail, sizeof tail, "-%05u-of-%05u" GGUF,
                                                          (unsigned)of + 1, (unsigned)count);
    *oom = false;
    if (n < end || strcmp(path + n - end, tail) != 0)
        return NULL;
    char *name = name_of(path, n - end, no, count);
    *oom = name == NULL;
    return name;
}

int fy_split_size(const char *text, uint64_t *bytes, fy_err *e)
{
    *bytes = 0;
    if (text == NULL)
        return 0;
    char *end = NULL;
    const bool digit = isdigit((unsigned char)text[0]);
    const uint64_t n = digit ? strtoull(text, &end, 10) : 0;
    const uint64_t unit = !digit                       ? 0
                          : *end == 'K' || *end == 'k' ? 1000
                          : *end == 'M' || *end == 'm' ? 1000000
                          : *end == 'G' || *end == 'g' ? 1000000000
                          : *end == '\0'               ? 1
                                                       : 0;
    if (unit == 0 || (unit > 1 && end[1] != '\0') || n == 0 || !fy_mul_u64(n, unit, bytes) ||
        *bytes > INT64_MAX)
        return fy_fail(e, FY_EARG,
                       "--split-max-size %s: expected a size such as 400M or 2G (decimal)", text);
    return 0;
}
