#include "workspace/npu/chunk_impl.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bundle/bundle.h"
#include "bundle/qnn_config.h"

/* --- which model ------------------------------------------------------------------------------ */

bool fy_chunk_is_own_key(fy_span key)
{
    return fy_span_begins(key, FY_CHUNK_KEYS) || fy_span_begins(key, "split.");
}

static void put_text(fy_str *s, fy_span text)
{
    const uint64_t n = text.len;
    fy_str_add(s, &n, sizeof n);
    fy_str_add(s, text.ptr, text.len);
}

static int add(fy_chunk_id *id, fy_str *head, const void *p, size_t n, fy_err *e)
{
    int rc = head->oom ? fy_nomem(e) : fy_sha256_add(id->hash, head->ptr, head->len, e);
    if (rc == 0 && n > 0)
        rc = fy_sha256_add(id->hash, p, n, e);
    fy_str_release(head);
    return rc;
}

static int add_key(fy_chunk_id *id, const fy_gguf_kv *kv, fy_err *e)
{
    fy_str head = {0};
    const uint32_t type = kv->type, elem = kv->elem;
    put_text(&head, kv->key);
    fy_str_add(&head, &type, sizeof type);
    if (kv->type == FY_KV_ARRAY) {
        fy_str_add(&head, &elem, sizeof elem);
        fy_str_add(&head, &kv->count, sizeof kv->count);
    }
    return add(id, &head, kv->data, (size_t)kv->bytes, e);
}

int fy_chunk_id_begin(fy_chunk_id *id, const fy_gguf *keys, fy_err *e)
{
    id->hash = fy_sha256_new(e);
    if (id->hash == NULL)
        return -1;
    for (size_t i = 0; i < fy_gguf_n_kv(keys); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(keys, i);
        if (!fy_chunk_is_own_key(kv->key) && add_key(id, kv, e) != 0)
            return -1;
    }
    return 0;
}

int fy_chunk_id_add(fy_chunk_id *id, const fy_gguf_tensor *t, const void *data, fy_err *e)
{
    fy_str head = {0};
    const uint32_t type = t->type;
    put_text(&head, t->name);
    fy_str_add(&head, &t->n_dims, sizeof t->n_dims);
    fy_str_add(&head, t->ne, t->n_dims * sizeof t->ne[0]);
    fy_str_add(&head, &type, sizeof type);
    return add(id, &head, data, t->bytes < FY_CHUNK_ID_BYTES ? (size_t)t->bytes : FY_CHUNK_ID_BYTES,
               e);
}

int fy_chunk_id_end(fy_chunk_id *id, char out[FY_CHUNK_MODEL_BYTES], fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    fy_sha256 *h = id->hash;
    *id = (fy_chunk_id){0};
    if (h == NULL || fy_sha256_end(h, out != NULL ? hash : NULL, e) != 0)
        return -1;
    if (out != NULL)
        fy_sha256_to_hex(hash, out);
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

const char *fy_part_file(const fy_chunk_info *p, char out[FY_CHUNK_FILE_BYTES])
{
    if (p->kind == FY_CHUNK_LAYERS)
        snprintf(out, FY_CHUNK_FILE_BYTES, FY_QNN_DIR "/chunk_%u.gguf", p->index);
    else if (p->kind == FY_CHUNK_HEAD && p->count > 1)
        snprintf(out, FY_CHUNK_FILE_BYTES, FY_QNN_DIR "/lm_head_%u.gguf", p->index);
    else
        snprintf(out, FY_CHUNK_FILE_BYTES, "%s",
                 p->kind == FY_CHUNK_HEAD ? FY_QNN_DIR "/lm_head.gguf" : FY_BUNDLE_WEIGHTS);
    return out;
}

static int list(const char *dir, const char *below, fy_chunk_file *each, void *user, fy_err *e)
{
    char *path = fy_path_join(dir, below);
    if (path == NULL)
        return fy_nomem(e);
    DIR *d = opendir(path);
    int rc = 0;
    if (d == NULL) {
        rc = errno == ENOENT ? 0 : fy_fail_errno(e, "%s: cannot list", path);
        free(path);
        return rc;
    }
    for (struct dirent *en; rc == 0 && (en = readdir(d)) != NULL;) {
        fy_str rel = {0};
        if (strcmp(en->d_name, ".") == 0 || strcmp(en->d_name, "..") == 0)
            continue;
        fy_str_printf(&rel, "%s%s%s", below, below[0] != '\0' ? "/" : "", en->d_name);
        rc = rel.oom ? fy_nomem(e) : each(user, rel.ptr, e);
        fy_str_release(&rel);
    }
    closedir(d);
    free(path);
    return rc;
}

int fy_chunk_files(const char *dir, fy_chunk_file *each, void *user, fy_err *e)
{
    static const char *const below[] = {"", "ggml", FY_QNN_DIR};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        if (list(dir, below[i], each, user, e) != 0)
            return -1;
    }
    return 0;
}
