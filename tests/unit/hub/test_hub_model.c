#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/hub/hub_root.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "hub/hub_model.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* What the text leads to: a directory below the root and a name, or "!" and words of the message.
 */
static void finds_kind(const char *text, fy_hub_kind kind, const char *dir, const char *name)
{
    fy_hub_place p = {0};
    fy_err e = {0};
    if (fy_hub_find(text, kind, &p, &e) != 0) {
        if (dir[0] != '!' || strstr(e.msg, dir + 1) == NULL)
            fail_msg("%s: %s", text, e.msg);
        return;
    }
    if (dir[0] == '!' || strcmp(p.path, dir[0] == '/' ? dir : at(dir)) != 0)
        fail_msg("%s: found %s, wanted %s", text, p.path, dir);
    if ((p.name == NULL) != (name == NULL) || (name != NULL && strcmp(p.name, name) != 0))
        fail_msg("%s: name %s", text, p.name != NULL ? p.name : "(none)");
    fy_hub_place_release(&p);
}

static void finds(const char *text, const char *dir, const char *name)
{
    finds_kind(text, FY_HUB_ANY, dir, name);
}

static void test_find(void **state)
{
    (void)state;
    put("models--o--n/snapshots/" A "/config.json", "{}");
    put("models--o--n/refs/main", A "\n");
    put("models--o--n/refs/pr/1", B);
    finds("o/n", "models--o--n/snapshots/" A, "n");
    finds("o/n@main", "models--o--n/snapshots/" A, "n");
    finds("o/n@" A, "models--o--n/snapshots/" A, "n");
    finds(at("models--o--n"), "models--o--n/snapshots/" A, "n");
    finds(at("models--o--n/snapshots/" A), at("models--o--n/snapshots/" A), "n");
    finds(at("models--o--n/snapshots/" A "/config.json"),
          at("models--o--n/snapshots/" A "/config.json"), NULL);
    finds("o/n@pr/1", "!names the snapshot bbbb", NULL);
    finds("o/n@" B, "!neither refs/bbbb", NULL);
    finds("o/m", "!no such file or directory, and not in the cache", NULL);
    finds("o/m/x", "!no such file or directory", NULL);
    finds(at("nothing"), "!no such file or directory", NULL);

    /* of one snapshot without refs, of two, of none */
    put("models--gpt--2/snapshots/" A "/config.json", "{}");
    finds("gpt/2", "models--gpt--2/snapshots/" A, "2");
    put("models--gpt--2/snapshots/" B "/config.json", "{}");
    finds("gpt/2", "!several snapshots", NULL);
    put("models--e--e/blobs/x", "");
    finds("e/e", "!no snapshot is in it", NULL);
    put("models--single/snapshots/" A "/config.json", "{}");
    finds("single", "models--single/snapshots/" A, "single");

    /* refs that lead elsewhere */
    put("models--o--n/refs/bad", "../../../etc");
    finds("o/n@bad", "!holds no commit", NULL);
    put("models--o--n/refs/empty", "");
    finds("o/n@empty", "!holds no commit", NULL);

    /* a checkpoint's own directory is what it is */
    put("plain/config.json", "{}");
    put("plain/snapshots/x/config.json", "{}");
    finds(at("plain"), "plain", NULL);
}

static void test_gguf(void **state)
{
#define G "models--o--g/snapshots/" A
    (void)state;
    put("models--o--g/refs/main", A);
    put(G "/m-Q8_0.gguf", "12345678");
    put(G "/mmproj-F16.gguf", "1");
    finds("o/g", G "/m-Q8_0.gguf", "g");
    put(G "/sub/m-Q4_0-00001-of-00002.gguf", "12");
    finds("o/g", G "/m-Q8_0.gguf", "g"); /* a part of a model is none */
    put(G "/sub/m-Q4_0-00002-of-00002.gguf", "12");
    finds("o/g", G "/sub/m-Q4_0-00001-of-00002.gguf", "g");
    finds("o/g:q8_0@" A, G "/m-Q8_0.gguf", "g");
    finds(at("models--o--g"), G "/sub/m-Q4_0-00001-of-00002.gguf", "g");
    finds("o/g:Q6_K", "!not in the cache: o/g: no model of type 'Q6_K'; its GGUF files are Q4_0, Q8_0; 'ferry fetch o/g:Q6_K' downloads it", NULL);
    finds_kind("o/g", FY_HUB_CHECKPOINT, "!holds GGUF files, which need no conversion", NULL);
    finds_kind("o/g:Q8_0", FY_HUB_CHECKPOINT, "!':Q8_0' is a type of GGUF models", NULL);

    /* a directory that is a link leads nowhere */
    put("away/m-Q4_K_M.gguf", "1");
    assert_int_equal(symlink(at("away"), at(G "/more")), 0);
    finds("o/g", G "/sub/m-Q4_0-00001-of-00002.gguf", "g");

    /* both: a checkpoint, unless run asks or a type is given */
    put(G "/model.safetensors", "1");
    finds("o/g", G, "g");
    finds("o/g:Q8_0", G "/m-Q8_0.gguf", "g");
    finds_kind("o/g", FY_HUB_GGUF, G "/sub/m-Q4_0-00001-of-00002.gguf", "g");
    finds_kind("o/g", FY_HUB_CHECKPOINT, G, "g");

    /* any directory of GGUF files; not one that is a checkpoint */
    put("dir/a-Q4_K_M.gguf", "1");
    put("dir/a-Q8_0.gguf", "12");
    finds(at("dir"), "dir/a-Q4_K_M.gguf", NULL);
    finds_kind(at("dir"), FY_HUB_CHECKPOINT, "dir", NULL);
    put("dir/sub/c-Q4_0.gguf", "1");
    put("deep/a/b/c-Q4_0.gguf", "1");
    finds(at("deep"), "deep", NULL); /* one level down, no further */
    put("dir/b-Q4_K_M.gguf", "1");
    finds(at("dir"), "!2 of its models are of type 'Q4_K_M'", NULL);
    put("dir/config.json", "{}");
    finds(at("dir"), "dir", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_find), cmocka_unit_test(test_gguf)};
    return cmocka_run_group_tests_name("hub_model", tests, make_root, remove_root);
}
