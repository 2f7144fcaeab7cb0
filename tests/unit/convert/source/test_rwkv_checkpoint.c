/* BlinkDL's files of RWKV: the version by the names, the sizes by the shapes, and what is none of
 * them, or damaged, by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "convert/source/checkpoint.h"

static char path[64];
static uint8_t *bytes;
static size_t n_bytes;

static void read_version(const char *version)
{
    char name[64];
    fy_map m;
    fy_err e = {0};
    snprintf(name, sizeof name, "tests/data/rwkv/%s/rwkv.pth", version);
    assert_int_equal(fy_map_open(&m, name, &e), 0);
    n_bytes = m.size;
    bytes = malloc(n_bytes);
    assert_non_null(bytes);
    memcpy(bytes, m.data, n_bytes);
    fy_map_close(&m);
}

static void write_file(size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Every name in the file, which is as long as before. */
static void rename_all(const char *from, const char *to)
{
    const size_t n = strlen(from);
    assert_int_equal(n, strlen(to));
    for (size_t i = 0; i + n <= n_bytes; i++) {
        if (memcmp(bytes + i, from, n) == 0)
            memcpy(bytes + i, to, n);
    }
}

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-rwkv-XXXXXX.pth");
    const int fd = mkstemps(path, 4);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static fy_hf_config opened(const char *version)
{
    char name[64];
    fy_err e = {0};
    fy_hf_config config;
    snprintf(name, sizeof name, "tests/data/rwkv/%s%s", version,
             strchr(version, '-') != NULL ? "" : "/rwkv.pth");
    fy_ckpt *c = fy_ckpt_open_model(name, &config, &e);
    if (c == NULL)
        fail_msg("%s: %s", version, e.msg);
    const fy_hf_config numbers = {.family = config.family, .hp = config.hp};
    fy_ckpt_close(c);
    fy_hf_config_release(&config);
    return numbers;
}

static void refuses(fy_code code, const char *text)
{
    fy_err e = {0};
    fy_hf_config config;
    fy_ckpt *c = fy_ckpt_open_model(path, &config, &e);
    if (c != NULL)
        fail_msg("opened, expected: %s", text);
    if (e.code != code || strstr(e.msg, text) == NULL || strstr(e.msg, path) == NULL)
        fail_msg("%d: %s; expected %s", e.code, e.msg, text);
    fy_hf_config_release(&config);
}

static void versions_are_told_by_names_and_sizes_by_shapes(void **state)
{
    static const struct {
        const char *version, *family;
        uint32_t width, head, ff, mix, decay, iclr, value, gate;
    } cases[] = {
        {"v5", "rwkv5", 64, 16, 224, 0, 0, 0, 0, 0},
        {"v5.1", "rwkv5", 64, 32, 224, 0, 0, 0, 0, 0},
        {"v5.2", "rwkv5", 96, 32, 320, 0, 0, 0, 0, 0},
        {"v6", "rwkv6", 96, 32, 320, 12, 20, 0, 0, 0},
        {"v6-hf", "rwkv6", 64, 16, 224, 32, 64, 0, 0, 0},
        {"v7", "rwkv7", 96, 32, 384, 0, 8, 12, 4, 20},
        {"v7-hf", "rwkv7", 128, 64, 512, 0, 16, 12, 8, 32},
        {"v7-hf-xx", "rwkv7", 128, 64, 512, 0, 8, 32, 16, 8},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_hf_config config = opened(cases[i].version);
        const fy_hparams *hp = &config.hp;
        assert_string_equal(config.family->name, cases[i].family);
        assert_int_equal(hp->n_layer, 3);
        assert_int_equal(hp->n_vocab, 384);
        assert_int_equal(hp->n_embd, cases[i].width);
        assert_int_equal(hp->wkv_head, cases[i].head);
        assert_int_equal(hp->n_head * hp->wkv_head, cases[i].width);
        assert_int_equal(hp->n_ff, cases[i].ff);
        assert_int_equal(hp->n_rank_mix, cases[i].mix);
        assert_int_equal(hp->n_rank_decay, cases[i].decay);
        assert_int_equal(hp->n_rank_iclr, cases[i].iclr);
        assert_int_equal(hp->n_rank_value, cases[i].value);
        assert_int_equal(hp->n_rank_gate, cases[i].gate);
        assert_true(hp->group_eps > 63e-5F && hp->group_eps < 65e-5F);
    }
}

static void a_damaged_file_is_refused(void **state)
{
    (void)state;
    read_version("v7");
    static const int parts[] = {0, 1, 500, 900, 990, 999};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        fy_err e = {0};
        fy_hf_config config;
        write_file(n_bytes * (size_t)parts[i] / 1000);
        assert_null(fy_ckpt_open_model(path, &config, &e));
        assert_true(e.code == FY_EFORMAT || e.code == FY_EUNSUPPORTED || e.code == FY_EIO);
        assert_non_null(strstr(e.msg, path));
        fy_hf_config_release(&config);
    }
    free(bytes);
}

static void another_version_is_refused_by_name(void **state)
{
    (void)state;
    read_version("v5"); /* without what version 5 has and 4 has not */
    rename_all("att.ln_x.weight", "att.xx_x.weight");
    write_file(n_bytes);
    refuses(FY_EUNSUPPORTED, "none of the versions 5, 6 and 7");
    free(bytes);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    read_version("v7");
    rename_all("blocks.0.ffn.key.weight", "blocks.0.ffn.xxx.weight");
    write_file(n_bytes);
    refuses(FY_EFORMAT, "no tensor 'blocks.0.ffn.key.weight'");
    free(bytes);
    read_version("v7"); /* [heads, 32] becomes a vector of 96 */
    rename_all("blocks.0.att.r_k", "blocks.0.att.xxx");
    rename_all("blocks.0.att.x_k", "blocks.0.att.r_k");
    rename_all("blocks.0.ffn.x_k", "blocks.0.att.x_k");
    write_file(n_bytes);
    fy_err e = {0};
    fy_hf_config config;
    fy_ckpt *c = fy_ckpt_open_model(path, &config, &e); /* one head of 96: a shape for the plan */
    if (c != NULL)
        assert_int_equal(config.hp.wkv_head, 96);
    fy_ckpt_close(c);
    fy_hf_config_release(&config);
    free(bytes);
    read_version("v7"); /* a layer that nobody has */
    rename_all("blocks.2.", "blocks.9.");
    rename_all("blocks.9.ln1.weight", "blocks.999999.eight");
    write_file(n_bytes);
    refuses(FY_EFORMAT, "block_count is 1000000");
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_told_by_names_and_sizes_by_shapes),
        cmocka_unit_test(a_damaged_file_is_refused),
        cmocka_unit_test(another_version_is_refused_by_name),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
