/* What `up` keeps of its steps, so that the next run does only what has changed. */
#include "workspace/phone/up_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/thread.h"
#include "workspace/pack/manifest.h"

enum { MAX_FILES = 8192, MAX_DEPTH = 16, RECORD_MAX = 64 * 1024 };

/* --- sources ---------------------------------------------------------------------------------- */

typedef struct {
    char *path, *rel; /* owned */
    uint64_t size, inode, device;
    int64_t mtime_ns;
    char sha256[FY_SHA256_HEX]; /* "": not known */
    fy_err err;
} source_file;

typedef struct {
    source_file *file; /* owned; sorted by rel */
    size_t n, cap;
    bool checkpoint;
    fy_progress *progress;
} source_list;

static void source_release(source_list *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->file[i].path);
        free(s->file[i].rel);
    }
    free(s->file);
}

static int add_file(source_list *s, const char *path, const char *rel, const struct stat *st,
                    fy_err *e)
{
    source_file *grown = fy_grow(s->file, s->n, &s->cap, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    s->file = grown;
    source_file f = {.path = realpath(path, NULL),
                     .rel = strdup(rel),
                     .size = (uint64_t)st->st_size,
                     .inode = st->st_ino,
                     .device = st->st_dev,
                     .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec};
    grown[s->n++] = f;
    if (f.path == NULL)
        return fy_fail_errno(e, "%s", path);
    if (s->n > MAX_FILES)
        return fy_fail(e, FY_EARG, "%s: more than %d files; expected a checkpoint", path,
                       MAX_FILES);
    return f.rel != NULL ? 0 : fy_nomem(e);
}

static bool is_left_out(const char *name)
{
    size_t n = strlen(name);
    return name[0] == '.' || (n > 3 && strcmp(name + n - 3, ".md") == 0);
}

/* Beside the weights that are converted some checkpoints hold others of the same size below
 * "original" or "onnx". */
static bool is_entered(const source_list *s, const FTSENT *en)
{
    if (s->checkpoint)
        return en->fts_level == 1 && strcmp(en->fts_name, "additional_chat_templates") == 0;
    return en->fts_level <= MAX_DEPTH && !is_left_out(en->fts_name);
}

static int walk(FTS *fts, source_list *s, size_t root, fy_err *e)
{
    FTSENT *en;
    while (errno = 0, (en = fts_read(fts)) != NULL) {
        bool below = en->fts_level > 0;
        if (en->fts_info == FTS_D && below && !is_entered(s, en)) {
            fts_set(fts, en, FTS_SKIP);
        } else if (en->fts_info == FTS_F && !is_left_out(en->fts_name)) {
            if (add_file(s, en->fts_path, en->fts_path + root + 1, en->fts_statp, e) != 0)
                return -1;
        } else if (en->fts_info == FTS_DNR || en->fts_info == FTS_ERR) {
            errno = en->fts_errno;
            return fy_fail_errno(e, "%s: cannot read", en->fts_path);
        }
    }
    return errno == 0 ? 0 : fy_fail_errno(e, "cannot list");
}

static int by_rel(const void *a, const void *b)
{
    return strcmp(((const source_file *)a)->rel, ((const source_file *)b)->rel);
}

static int list_files(source_list *s, const char *path, fy_err *e)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fy_fail_errno(e, "%s", path);
    if (!S_ISDIR(st.st_mode))
        return add_file(s, path, fy_path_base(path).ptr, &st, e);
    char *root = realpath(path, NULL);
    if (root == NULL)
        return fy_fail_errno(e, "%s", path);
    char *const roots[] = {root, NULL};
    FTS *fts = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    int rc = fts != NULL ? walk(fts, s, strlen(root), e) : fy_fail_errno(e, "%s", path);
    if (fts != NULL)
        fts_close(fts);
    free(root);
    if (s->n > 0)
        qsort(s->file, s->n, sizeof *s->file, by_rel);
    return rc;
}

/* The file of remembered hashes; for the caller to free. */
static char *index_path(const char *cache, const char *path, fy_err *e)
{
    char *real = realpath(path, NULL), hex[FY_SHA256_HEX], *file = NULL;
    uint8_t hash[FY_SHA256_BYTES];
    if (real == NULL) {
        fy_fail_errno(e, "%s", path);
    } else if (fy_sha256_of(real, strlen(real), hash, e) == 0) {
        fy_sha256_to_hex(hash, hex);
        file = fy_path_format(e, "%s/hashes-%.16s", cache, hex);
    }
    free(real);
    return file;
}

/* Lines "SHA256 SIZE MTIME INODE DEVICE REL"; what cannot be read is not known. */
static void recall(source_list *s, const char *index)
{
    FILE *f = fopen(index, "re");
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; f != NULL && (n = getline(&line, &cap, f)) > 0;) {
        char hex[FY_SHA256_HEX];
        unsigned long long size, inode, device;
        long long mtime;
        int at = 0;
        line[n - 1] = '\0';
        if (sscanf(line, "%64[0-9a-f] %llu %lld %llu %llu %n", hex, &size, &mtime, &inode, &device,
                   &at) < 5 ||
            at == 0 || strlen(hex) != FY_SHA256_HEX - 1)
            continue;
        source_file key = {.rel = line + at};
        source_file *g = s->n > 0 ? bsearch(&key, s->file, s->n, sizeof *g, by_rel) : NULL;
        if (g != NULL && g->size == size && g->mtime_ns == mtime && g->inode == inode &&
            g->device == device)
            memcpy(g->sha256, hex, sizeof hex);
    }
    free(line);
    if (f != NULL)
        fclose(f);
}

/* Not of files that changed just now: another change might leave the same time behind. */
static void remember(const source_list *s, const char *index, int64_t now_ns)
{
    enum { SETTLED_NS = 2000000000 };
    fy_str text = {0};
    for (size_t i = 0; i < s->n; i++) {
        const source_file *f = &s->file[i];
        if (f->mtime_ns < now_ns - SETTLED_NS && strchr(f->rel, '\n') == NULL)
            fy_str_printf(&text, "%s %llu %lld %llu %llu %s\n", f->sha256,
                          (unsigned long long)f->size, (long long)f->mtime_ns,
                          (unsigned long long)f->inode, (unsigned long long)f->device, f->rel);
    }
    if (!text.oom)
        fy_file_write(index, fy_str_z(&text), text.len, NULL);
    fy_str_release(&text);
}

static void hash_files(void *ctx, int64_t begin, int64_t end, int thread)
{
    source_list *s = ctx;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        source_file *f = &s->file[i];
        fy_digest d;
        if (f->sha256[0] != '\0' ||
            fy_digest_file(f->path, -1, NULL, s->progress, &d, &f->err) != 0)
            continue;
        fy_sha256_to_hex(d.sha256, f->sha256);
        fy_digest_release(&d);
    }
}

static int hash_unknown(source_list *s, size_t *n_read, fy_err *e)
{
    uint64_t total = 0;
    *n_read = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->file[i].sha256[0] == '\0') {
            total += s->file[i].size;
            (*n_read)++;
        }
    }
    if (*n_read == 0)
        return 0;
    if (s->progress != NULL)
        s->progress->total_bytes = total;
    fy_pool *pool = fy_pool_new(fy_default_threads(), e);
    if (pool == NULL)
        return -1;
    fy_pool_run(pool, (int64_t)s->n, 1, hash_files, s);
    fy_pool_free(pool);
    for (size_t i = 0; i < s->n; i++) {
        if (s->file[i].err.code != FY_OK)
            return fy_fail(e, s->file[i].err.code, "%s", s->file[i].err.msg);
    }
    return 0;
}

int fy_up_source(const char *cache, const char *path, bool checkpoint, fy_progress *progress,
                 char hex[FY_SHA256_HEX], size_t *n_read, fy_err *e)
{
    source_list s = {.checkpoint = checkpoint, .progress = progress};
    fy_str text = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char *index = index_path(cache, path, e);
    int rc = index != NULL ? list_files(&s, path, e) : -1;
    if (rc == 0) {
        recall(&s, index);
        rc = hash_unknown(&s, n_read, e);
    }
    for (size_t i = 0; rc == 0 && i < s.n; i++)
        fy_up_key_add(&text, s.file[i].rel, s.file[i].sha256);
    if (rc == 0) /* without it the next run only reads more */
        remember(&s, index, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    if (rc == 0)
        rc = fy_up_key_end(&text, hex, e);
    fy_str_release(&text);
    source_release(&s);
    free(index);
    return rc;
}

/* --- keys ------------------------------------------------------------------------------------- */

void fy_up_key_add(fy_str *key, const char *name, const char *value)
{
    fy_str_printf(key, "%zu %s %zu %s\n", strlen(name), name, strlen(value), value);
}

int fy_up_key_add_file(fy_str *key, const char *cache, const char *name, const char *path,
                       fy_err *e)
{
    char hex[FY_SHA256_HEX];
    size_t n_read;
    if (fy_up_source(cache, path, false, NULL, hex, &n_read, e) != 0)
        return -1;
    fy_up_key_add(key, name, hex);
    return 0;
}

int fy_up_key_add_call(fy_str *key, const char *cache, const fy_call *c, const char *except,
                       fy_err *e)
{
    fy_str value = {0};
    int rc = 0;
    for (size_t i = 0; i < c->v->n_opts && rc == 0; i++) {
        const fy_opt *o = &c->v->opts[i];
        char ext[FY_EXT_BYTES];
        bool files = o->kind == FY_OPT_STR && fy_arg_names(o->arg, strlen(o->arg), ext) != 0;
        if (c->from[i] == NULL || fy_list_has(except, '|', o->name))
            continue;
        for (size_t nth = 0; rc == 0; nth++) {
            fy_str_clear(&value);
            if (!fy_opt_value(o, c->o, nth, &value))
                break;
            fy_up_key_add(key, o->name, fy_str_z(&value));
            if (files && !value.oom && fy_file_exists(fy_str_z(&value)))
                rc = fy_up_key_add_file(key, cache, "contents", fy_str_z(&value), e);
        }
    }
    if (rc == 0 && value.oom)
        rc = fy_nomem(e);
    fy_str_release(&value);
    return rc;
}

int fy_up_key_end(fy_str *key, char hex[FY_SHA256_HEX], fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    int rc = key->oom ? fy_nomem(e) : fy_sha256_of(fy_str_z(key), key->len, hash, e);
    if (rc == 0)
        fy_sha256_to_hex(hash, hex);
    fy_str_release(key);
    return rc;
}

/* --- records ---------------------------------------------------------------------------------- */

void fy_up_record_release(fy_up_record *r)
{
    free(r->source);
    free(r->result);
    *r = (fy_up_record){0};
}

/* Four lines: source, its hash, result, its hash. */
static bool parse_record(char *text, fy_up_record *out)
{
    char *line[4];
    for (size_t i = 0; i < 4; i++) {
        line[i] = text;
        text += strcspn(text, "\n");
        if (*text != '\n')
            return false;
        *text++ = '\0';
    }
    if (strlen(line[1]) != FY_SHA256_HEX - 1 || strlen(line[3]) != FY_SHA256_HEX - 1)
        return false;
    memcpy(out->source_hash, line[1], FY_SHA256_HEX);
    memcpy(out->result_hash, line[3], FY_SHA256_HEX);
    out->source = strdup(line[0]);
    out->result = strdup(line[2]);
    return out->source != NULL && out->result != NULL;
}

int fy_up_record_read(const char *cache, const char *name, fy_up_record *out, fy_err *e)
{
    char *path = fy_path_format(e, "%s/%s/record", cache, name);
    char *text = path != NULL ? calloc(1, RECORD_MAX) : NULL;
    *out = (fy_up_record){0};
    int rc = text != NULL ? 0 : fy_nomem(e);
    FILE *f = rc == 0 ? fopen(path, "re") : NULL;
    if (f != NULL) {
        text[fread(text, 1, RECORD_MAX - 1, f)] = '\0';
        rc = parse_record(text, out);
        if (rc == 0)
            fy_up_record_release(out);
        fclose(f);
    }
    free(text);
    free(path);
    return rc;
}

int fy_up_record_write(const char *cache, const char *name, const fy_up_record *r, fy_err *e)
{
    char *dir = fy_path_format(e, "%s/%s", cache, name);
    char *path = dir != NULL ? fy_path_format(e, "%s/record", dir) : NULL;
    char *text = path != NULL ? fy_path_format(e, "%s\n%s\n%s\n%s\n", r->source, r->source_hash,
                                               r->result, r->result_hash)
                              : NULL;
    int rc =
        text != NULL && fy_mkdirs(dir, e) == 0 ? fy_file_write(path, text, strlen(text), e) : -1;
    free(text);
    free(path);
    free(dir);
    return rc;
}

/* The next record of the directory, which the caller releases; NULL: there are no more. */
static const struct dirent *next_record(DIR *d, const char *cache, fy_up_record *out)
{
    const struct dirent *en = NULL;
    while (d != NULL && (en = readdir(d)) != NULL &&
           (en->d_name[0] == '.' || fy_up_record_read(cache, en->d_name, out, NULL) != 1)) {
    }
    return en;
}

bool fy_up_made(const char *cache, const char *result, const char *result_hash)
{
    fy_up_record r;
    DIR *d = opendir(cache);
    bool yes = false;
    while (!yes && next_record(d, cache, &r) != NULL) {
        yes = strcmp(r.result, result) == 0 && strcmp(r.result_hash, result_hash) == 0;
        fy_up_record_release(&r);
    }
    if (d != NULL)
        closedir(d);
    return yes;
}

void fy_up_forget(const char *cache, const char *source, const char *source_hash)
{
    fy_up_record r;
    DIR *d = opendir(cache);
    for (const struct dirent *en; (en = next_record(d, cache, &r)) != NULL;) {
        bool old = strcmp(r.source, source) == 0 && strcmp(r.source_hash, source_hash) != 0;
        char *dir = old ? fy_path_join(cache, en->d_name) : NULL;
        if (dir != NULL)
            fy_tree_remove(dir);
        free(dir);
        fy_up_record_release(&r);
    }
    if (d != NULL)
        closedir(d);
}
