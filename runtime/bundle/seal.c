#include "bundle/seal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void fy_seal_close(fy_seal *s)
{
    fy_str_release(&s->sig_text);
    fy_str_release(&s->key_text);
    fy_map_close(&s->map);
    *s = (fy_seal){0};
}

/* A small file of the workspace; *there false when it has none. */
static int read_small(const char *dir, const char *name, size_t max, fy_str *out, bool *there,
                      fy_err *e)
{
    fy_map map;
    char *path = fy_path_join(dir, name);
    if (path == NULL)
        return fy_nomem(e);
    int rc = 0;
    *there = access(path, F_OK) == 0 || errno != ENOENT;
    if (*there && (rc = fy_map_open(&map, path, e)) == 0) {
        /* one byte more than fits says that there is more */
        fy_str_add(out, map.data, map.size < max + 1 ? map.size : max + 1);
        rc = out->oom ? fy_nomem(e) : 0;
        fy_map_close(&map);
    }
    free(path);
    return rc;
}

int fy_seal_open(const char *dir, fy_seal *out, fy_err *e)
{
    fy_seal s = {0};
    int rc = fy_manifest_load(dir, &s.map, e);
    if (rc == 0)
        rc = read_small(dir, FY_MANIFEST_SIG, FY_MANIFEST_SIG_BYTES, &s.sig_text, &s.has_sig, e);
    if (rc == 0)
        rc = read_small(dir, FY_MANIFEST_KEY, FY_MANIFEST_KEY_MAX, &s.key_text, &s.has_key, e);
    if (rc != 0) {
        fy_seal_close(&s);
        return rc;
    }
    s.manifest = (fy_span){(const char *)s.map.data, s.map.size};
    s.sig = (fy_span){fy_str_z(&s.sig_text), s.sig_text.len};
    s.key = (fy_span){fy_str_z(&s.key_text), s.key_text.len};
    *out = s;
    return 0;
}

int fy_seal_check_form(const fy_seal *s, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    if (!s->has_sig && s->has_key)
        return fy_fail(e, FY_EVERIFY, FY_MANIFEST_KEY " is there without " FY_MANIFEST_SIG);
    if (s->has_sig && s->sig.len != FY_MANIFEST_SIG_BYTES)
        return fy_fail(e, FY_EVERIFY, FY_MANIFEST_SIG " does not have %d bytes",
                       FY_MANIFEST_SIG_BYTES);
    fy_err what = {0};
    if (s->has_key && fy_public_key_parse(s->key, key, &what) != 0)
        return fy_fail(e, FY_EVERIFY, FY_MANIFEST_KEY " %s", what.msg);
    return 0;
}

int fy_seal_does_not_fit(fy_err *e)
{
    return fy_fail(e, FY_EVERIFY,
                   FY_MANIFEST_SIG " is not the signature of this " FY_MANIFEST_NAME
                                   " by the key of " FY_MANIFEST_KEY);
}

int fy_seal_check(const fy_seal *s, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    bool fits = true;
    if (fy_seal_check_form(s, key, e) != 0 ||
        (s->has_key &&
         fy_public_key_verify(key, s->manifest, (const uint8_t *)s->sig.ptr, &fits, e) != 0))
        return -1;
    return fits ? 0 : fy_seal_does_not_fit(e);
}
