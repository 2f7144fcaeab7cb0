/* Prompt caches: whatever the bytes are, they are refused with a message, or hold tokens, and what a
 * session has after them is what it says. The hash over all of them is made right first, and so is
 * what names the model: no change of a byte would come further. The model has states beside keys
 * and values, and layers with a window. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/prompt_cache.h"
#include "tests/unit/model/tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MODEL_AT = 16, KERNELS_AT = 48, TYPES_AT = 52 };

static fy_session *session;
static fy_prompt_cache_shape shape;

static void begin(void)
{
    char path[] = "/tmp/ferry-fuzz-XXXXXX";
    fy_err e = {0};
    tiny_model t = tiny_of("lfm3", false);
    t.hp.conv_len = 3;
    t.hp.n_swa = 5;
    fy_layer_put(&t.hp.no_attn_layers, 0, true);
    const int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || tiny_write(&t, path, &e) != 0)
        abort();
    const fy_model *m = fy_model_open(path, &e); /* lasts as long as the process */
    const fy_session_params p = {
        .n_ctx = 400, .n_batch = 4, .n_threads = 1, .n_seq = 2, .ring = true, .snapshots = true};
    session = m != NULL ? fy_session_new(m, &p, &e) : NULL;
    if (session == NULL || unlink(path) != 0 || fy_prompt_cache_shape_of(session, &shape, &e) != 0)
        abort();
}

/* The first n tokens, as far as the file can go on from there. */
static void load(const fy_prompt_cache *c, uint32_t seq, uint32_t n)
{
    fy_err e = {0};
    const int rc = fy_prompt_cache_load(c, session, seq, n, &e);
    if (rc != 0 ? e.code != FY_EFIT : fy_session_seq_n_past(session, seq) > n)
        abort();
    fy_session_seq_rewind(session, seq, n / 2);
    if (fy_session_seq_n_past(session, seq) > n / 2)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    uint32_t n = 0;
    uint8_t *p = malloc(size + 1);
    if (p == NULL)
        return 0;
    if (session == NULL)
        begin();
    memcpy(p, data, size);
    if (size >= TYPES_AT + FY_SHA256_BYTES) {
        memcpy(p + MODEL_AT, shape.model, sizeof shape.model);
        memcpy(p + KERNELS_AT, &shape.kernels, sizeof shape.kernels);
    }
    if (size >= FY_SHA256_BYTES &&
        fy_sha256_of(p, size - FY_SHA256_BYTES, p + size - FY_SHA256_BYTES, NULL) != 0)
        abort();
    fy_prompt_cache *c = fy_prompt_cache_parse(p, size, NULL, &e);
    if (c == NULL ? e.code == FY_OK || e.msg[0] == '\0' : e.code != FY_OK)
        abort();
    if (c != NULL) {
        const int32_t *ids = fy_prompt_cache_ids(c, &n);
        for (uint32_t i = 0; i < n; i++) {
            if (ids[i] < 0)
                abort();
        }
        if (n == 0 || n > size / 4)
            abort();
        if (fy_prompt_cache_check(c, session, &e) == 0) {
            load(c, 0, n);
            load(c, 1, n - 1);
        } else if (e.code != FY_EFORMAT) {
            abort();
        }
    }
    fy_prompt_cache_close(c);
    free(p);
    return 0;
}
