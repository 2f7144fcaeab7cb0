/* Models for calls on the phone: hashed here, sent by push's helper, kept in a cache there. */
#include "workspace/phone/phone_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "bundle/agent_store.h"
#include "cli/terminal.h"
#include "format/gguf.h"
#include "workspace/pack/manifest.h"
#include "workspace/phone/phone_items.h"
#include "workspace/phone/phone_workspace.h"

#define MODELS   FY_PHONE_DIR "/" FY_STORE_MODELS
#define MAX_NAME 80 /* characters of a model's name there */

/* --- what is sent ----------------------------------------------------------------------------- */

static int add_local(fy_push_source *s, const char *file, fy_err *e)
{
    char *real = realpath(file, NULL); /* in the hub's cache files are links */
    if (real == NULL)
        return fy_fail_errno(e, "%s", file);
    s->local[s->n_local++] = real;
    return 0;
}

/* Opening it finds the other files, and anything that the phone would refuse. */
static int find_files(fy_push_source *s, const char *file, fy_err *e)
{
    fy_gguf *g = fy_gguf_open(file, e);
    if (g == NULL)
        return -1;
    size_t n = fy_gguf_n_files(g);
    s->local = calloc(n, sizeof *s->local);
    int rc = s->local != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_local(s, fy_gguf_file_path(g, i), e);
    fy_gguf_close(g);
    return rc;
}

/* One line of all that tells whether the files are those of an earlier call. *settled: none of them
 * changed just now; another change might leave the same time behind. */
static int identify(const fy_push_source *s, fy_str *line, uint64_t *bytes, bool *settled,
                    fy_err *e)
{
    enum { SETTLED_S = 2 };
    time_t now = time(NULL);
    *bytes = 0;
    *settled = true;
    for (size_t i = 0; i < s->n_local; i++) {
        struct stat st;
        if (stat(s->local[i], &st) != 0)
            return fy_fail_errno(e, "%s", s->local[i]);
        fy_str_printf(line, "%llu %lld.%09ld %lld.%09ld %llu %llu ", (unsigned long long)st.st_size,
                      (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                      (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec,
                      (unsigned long long)st.st_ino, (unsigned long long)st.st_dev);
        *bytes += (uint64_t)st.st_size;
        *settled = *settled && st.st_ctim.tv_sec < now - SETTLED_S;
    }
    fy_str_putc(line, '\n');
    return line->oom ? fy_nomem(e) : 0;
}

/* Where the hashes of this model are kept, for the caller to free; NULL: nowhere. */
static char *hashes_path(const char *real)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    char *dir = fy_cache_dir("phone", NULL), *path = NULL;
    if (dir != NULL && fy_sha256_of(real, strlen(real), hash, NULL) == 0) {
        fy_sha256_to_hex(hash, hex);
        path = fy_path_format(NULL, "%s/hashes-%.16s", dir, hex);
    }
    free(dir);
    return path;
}

/* The manifest of an earlier call, whose line is the same. */
static bool recall(const char *path, const fy_str *line, fy_str *text)
{
    fy_map map;
    if (path == NULL || fy_map_open(&map, path, NULL) != 0)
        return false;
    bool same = map.size > line->len && memcmp(map.data, line->ptr, line->len) == 0;
    fy_manifest m;
    const char *p = (const char *)map.data + line->len;
    if (same && fy_manifest_parse(p, map.size - line->len, &m, NULL) == 0) {
        fy_str_add(text, p, map.size - line->len);
        fy_manifest_release(&m);
    }
    fy_map_close(&map);
    return text->len > 0 && !text->oom;
}

static int hash_files(const fy_push_source *s, fy_str *text, fy_progress *progress, fy_err *e)
{
    fy_manifest m;
    /* no version of ferry: the same contents are the same version on the phone */
    int rc = fy_manifest_begin(&m, "ferry", "model", e);
    for (size_t i = 0; rc == 0 && i < s->n_local; i++) {
        fy_digest d = {0};
        char *name = fy_gguf_split_name("model.gguf", (uint32_t)i, (uint32_t)s->n_local);
        rc = name != NULL ? fy_digest_file(s->local[i], -1, NULL, progress, &d, e) : fy_nomem(e);
        if (rc == 0)
            rc = fy_manifest_add(&m, name, 0644, &d, e);
        free(name);
    }
    if (rc == 0)
        rc = fy_manifest_text(&m, text, e);
    fy_manifest_release(&m);
    return rc;
}

static int make_manifest(fy_push_source *s, fy_progress *progress, fy_err *e)
{
    fy_str line = {0}, after = {0};
    uint64_t bytes;
    bool settled;
    int rc = identify(s, &line, &bytes, &settled, e);
    char *path = rc == 0 ? hashes_path(s->local[0]) : NULL;
    if (rc == 0 && !recall(path, &line, &s->text)) {
        if (progress != NULL)
            progress->total_bytes = bytes;
        rc = hash_files(s, &s->text, progress, e);
        if (rc == 0 && settled && path != NULL &&
            identify(s, &after, &bytes, &settled, NULL) == 0 &&
            fy_span_eq((fy_span){line.ptr, line.len}, (fy_span){after.ptr, after.len})) {
            fy_str_add(&line, s->text.ptr, s->text.len);
            if (!line.oom) /* without it the next call only reads more */
                fy_file_write(path, line.ptr, line.len, NULL);
        }
    }
    free(path);
    fy_str_release(&line);
    fy_str_release(&after);
    return rc;
}

int fy_phone_model_source(fy_push_source *s, const char *file, fy_progress *progress, fy_err *e)
{
    *s = (fy_push_source){0};
    int rc = find_files(s, file, e);
    if (rc == 0)
        rc = make_manifest(s, progress, e);
    if (rc == 0) {
        s->seal.manifest = (fy_span){fy_str_z(&s->text), s->text.len};
        rc = fy_push_source_parse(s, file, e);
    }
    if (rc != 0)
        fy_push_source_release(s);
    return rc;
}

/* --- where it goes ---------------------------------------------------------------------------- */

/* The file's name without .gguf and the number of a split, in letters that a path there may have. */
static void model_name(const char *file, size_t n_files, char out[MAX_NAME + 1])
{
    fy_span base = fy_path_base(file);
    char tail[32];
    snprintf(tail, sizeof tail, "-00001-of-%05zu.gguf", n_files);
    const char *end = n_files > 1 ? tail : ".gguf";
    if (fy_span_ends(base, end) && base.len > strlen(end))
        base.len -= strlen(end);
    size_t n = 0;
    for (; n < base.len && n < MAX_NAME; n++) {
        char c = base.ptr[n];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || (c == '.' && n > 0);
        out[n] = plain ? c : '_';
    }
    out[n] = '\0';
}

/* --- the transfer ----------------------------------------------------------------------------- */

static int send_model(const fy_adb *a, const fy_push_helper *helper, const fy_push_source *s,
                      const char *name, fy_progress *progress, fy_agent_done *done, fy_err *e)
{
    fy_push_link l;
    fy_err why = {0};
    uint64_t sent = 0;
    char to[sizeof MODELS + MAX_NAME + 2];
    snprintf(to, sizeof to, MODELS "/%s", name);
    int rc = fy_push_helper_reach(a, helper, false, &l, &sent, &why, e);
    if (rc == 0)
        return fy_fail(e, FY_EDEVICE, "the phone cannot run ferry's program: %s", why.msg);
    if (rc < 0)
        return -1;
    rc = fy_push_talk(&l, s, to, false, NULL, NULL, progress, done, e);
    close(l.fd);
    fy_push_link_release(&l);
    return rc;
}

static void report(const char *name, const fy_push_source *s, const fy_agent_done *d, double s_took,
                   bool kept)
{
    double mb = (double)s->bytes * 1e-6, sent = (double)d->received_bytes * 1e-6;
    if (d->received_bytes == 0)
        fy_log(FY_LOG_DEBUG, "%s: on the phone already, %.1f MB, checked there by hash", name, mb);
    else
        fy_log(FY_LOG_INFO, "%s: %.1f MB, sent %.1f MB in %.1f s, %.1f MB/s; %s", name, mb, sent,
               s_took, s_took > 0 ? sent / s_took : 0.0,
               kept ? "it stays on the phone for the next call"
                    : "larger than --cache-size: it is removed after this call");
}

/* What the user should know beside the reason. */
static int explain(const char *file, fy_err *e)
{
    if (e->code == FY_ENOSPACE) {
        const fy_err why = *e;
        *e = (fy_err){0};
        return fy_fail(e, why.code, "%s: %s; 'ferry list --device' shows what ferry has there", file,
                       why.msg);
    }
    if (e->code != FY_EINTR)
        return fy_ctx(e, "%s", file);
    *e = (fy_err){0};
    return fy_fail(e, FY_EINTR,
                   "interrupted while %s was brought to the phone; what has arrived stays there, "
                   "and the same command resumes",
                   file);
}

static int put(const fy_adb *a, const fy_push_helper *helper, const char *file,
               const fy_push_source *s, uint64_t most, char **path, fy_err *e)
{
    char name[MAX_NAME + 1], hex[FY_SHA256_HEX], what[MAX_NAME + 16];
    fy_progress progress;
    fy_agent_done done;
    model_name(file, s->n_local, name);
    fy_sha256_to_hex(s->id, hex);
    char *below = fy_path_format(e, FY_STORE_MODELS "/" FY_STORE_VERSIONS "/%s-%.*s", name,
                                 FY_STORE_ID_HEX, hex);
    if (below == NULL || fy_phone_models_make_room(a, below, s->bytes, most, e) != 0) {
        free(below);
        return -1;
    }
    snprintf(what, sizeof what, "%s to the phone", name);
    fy_show_begin(&progress, what, s->bytes);
    double begin = fy_now_s();
    int rc = send_model(a, helper, s, name, &progress, &done, e);
    fy_show_end(&progress);
    if (rc == 0) {
        report(name, s, &done, fy_now_s() - begin, s->bytes <= most);
        *path = fy_path_format(e, FY_PHONE_DIR "/%s/%s", below, s->m.entry[0].path);
        rc = *path != NULL ? 0 : -1;
    }
    free(below);
    return rc == 0 ? 0 : explain(file, e);
}

int fy_phone_model_put(const fy_adb *a, const fy_push_helper *helper, const char *file,
                       uint64_t most, char **path, uint64_t *bytes, fy_err *e)
{
    fy_push_source s;
    fy_progress progress;
    fy_show_begin(&progress, "hashing", 0);
    int rc = fy_phone_model_source(&s, file, &progress, e);
    fy_show_end(&progress);
    if (rc != 0)
        return -1;
    *bytes = s.bytes;
    rc = put(a, helper, file, &s, most, path, e);
    fy_push_source_release(&s);
    return rc;
}

void fy_phone_model_end(const fy_adb *a, uint64_t bytes, uint64_t most)
{
    if (bytes <= most)
        return;
    int sig = fy_signals_take(); /* an interrupt would keep the phone from being asked */
    fy_phone_models_make_room(a, "", 0, most, NULL);
    if (sig != 0)
        fy_interrupted = 1;
}
