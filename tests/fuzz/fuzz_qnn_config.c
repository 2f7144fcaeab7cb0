/* qnn/config.json: what is accepted names only files below its own directory, each binary once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/manifest_read.h"
#include "workspace/npu/qnn_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_FILES = 1000 };

static int on_file(void *user, const char *rel, uint64_t bytes, fy_err *e)
{
    size_t *n = user;
    (void)bytes;
    if (!fy_manifest_path_ok(rel))
        abort();
    return ++*n < MOST_FILES ? 0 : fy_fail(e, FY_EFORMAT, "enough");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_qnn_config c;
    fy_err e = {0};
    size_t n = 0;
    if (fy_qnn_config_parse(data, size, &c, &e) != 0)
        return 0;
    fy_model_json m = {.n_layers = c.n_layers, .head_size = 64, .n_attn_kv_heads = 2};
    fy_qnn_config_compare(&c, &m, &e);
    fy_qnn_config_files(&c, &m, on_file, &n, &e);
    if (c.n_layers == 0 || c.max_batch == 0 || c.cache_size + c.max_batch > c.context_size ||
        n == 0)
        abort();
    fy_qnn_config_release(&c);
    return 0;
}
