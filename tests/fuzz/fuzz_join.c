/* ferry chunk --join: whatever the bytes of the pieces are, the join is refused and leaves nothing,
 * or gives a file with the keys and tensors of the model that was cut.
 *
 * The input changes the files of a sound cut: 6 bytes each, which file (and from 128 on: cut it off
 * there), where (u32, little-endian), the byte that is put there. Behind 32 of these the rest is
 * one whole file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/math.h"
#include "tests/unit/model/tiny_model.h"
#include "workspace/npu/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGE_BYTES = 6, MOST_CHANGES = 32, CUT_OFF = 128 };

static const char *const names[] = {"ggml/weights.gguf",  "qnn/config.json",
                                    "qnn/chunk_0.gguf",   "qnn/chunk_1.gguf",
                                    "qnn/lm_head_0.gguf", "qnn/lm_head_1.gguf"};
enum { N_FILES = sizeof names / sizeof names[0] };

static char dir[64];
static fy_map model;
static struct {
    fy_map map;
    uint8_t *changed; /* owned, until the next input */
    size_t size;
} file[N_FILES];

static void require(bool ok)
{
    if (!ok)
        abort();
}

static const char *at(const char *rel)
{
    static char path[4][256];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, rel);
    return p;
}

static void clean_up(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    require(system(command) == 0);
}

/* The sound cut, once. */
static void begin(void)
{
    static const uint32_t batch[] = {4, 1};
    fy_err e = {0};
    tiny_model m = tiny_default();
    const fy_cut cut = {.n_chunks = 2,
                        .n_heads = 2,
                        .batch = batch,
                        .n_batches = 2,
                        .n_ctx = 16,
                        .soc = "",
                        .recipe = ""};
    snprintf(dir, sizeof dir, "%s/ferry-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    require(mkdtemp(dir) != NULL);
    atexit(clean_up);
    m.hp.n_layer = 2;
    m.tied = true;
    require(tiny_write(&m, at("m.gguf"), &e) == 0 &&
            fy_chunk(at("m.gguf"), at("d"), &cut, NULL, NULL, NULL, &e) == 0 &&
            fy_map_open(&model, at("m.gguf"), &e) == 0);
    for (int i = 0; i < N_FILES; i++) {
        char rel[64];
        snprintf(rel, sizeof rel, "d/%s", names[i]);
        require(fy_map_open(&file[i].map, at(rel), &e) == 0);
    }
}

static void change(const uint8_t *data, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < N_FILES; i++) {
        file[i].size = file[i].map.size;
        file[i].changed = malloc(file[i].size + size + 1);
        require(file[i].changed != NULL);
        memcpy(file[i].changed, file[i].map.data, file[i].size);
    }
    for (; n < MOST_CHANGES && size >= CHANGE_BYTES; n++) {
        const int i = data[0] % CUT_OFF % N_FILES;
        const size_t where = file[i].size > 0 ? fy_le32(data + 1) % file[i].size : 0;
        if (data[0] >= CUT_OFF)
            file[i].size = where;
        else if (file[i].size > 0)
            file[i].changed[where] = data[5];
        data += CHANGE_BYTES;
        size -= CHANGE_BYTES;
    }
    if (n == MOST_CHANGES && size > 0) {
        const int i = data[0] % N_FILES;
        memcpy(file[i].changed, data + 1, size - 1);
        file[i].size = size - 1;
    }
}

/* Without fsync and rename, which are not what is tried here. */
static void put(const char *rel, const uint8_t *p, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "d/%s", rel);
    require(unlink(at(path)) == 0); /* the map of the sound one stays */
    FILE *f = fopen(at(path), "wb");
    require(f != NULL && fwrite(p, 1, n, f) == n);
    require(fclose(f) == 0);
}

/* Weights may differ where no piece has a copy of them; nothing else may. */
static void check_joined(void)
{
    fy_err e = {0};
    fy_map joined;
    require(fy_map_open(&joined, at("again.gguf"), &e) == 0);
    fy_gguf *g = fy_gguf_parse(model.data, model.size, "model", false, &e);
    require(g != NULL && joined.size == model.size);
    require(memcmp(joined.data, model.data, (size_t)fy_gguf_data_offset(g)) == 0);
    fy_gguf_close(g);
    fy_map_close(&joined);
    require(unlink(at("again.gguf")) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    if (dir[0] == '\0')
        begin();
    change(data, size);
    for (int i = 0; i < N_FILES; i++) {
        put(names[i], file[i].changed, file[i].size);
        free(file[i].changed);
    }
    const int rc = fy_chunk_join(at("d"), at("again.gguf"), NULL, NULL, &e);
    require((rc == 0) == (e.code == FY_OK));
    require(rc == 0 || e.code == FY_EVERIFY || e.code == FY_EARG);
    if (rc == 0)
        check_joined();
    require(!fy_file_exists(at("again.gguf")) && !fy_file_exists(at("again.gguf.part")));
    return 0;
}
