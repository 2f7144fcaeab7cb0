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
#include "base/path.h"
#include "workspace/pack/known.h"

static char root[128];

static const char *at(const char *path)
{
    static char out[4][300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(out[turn], sizeof out[0], "%s/%s", root, path);
    return out[turn];
}

static void put(const char *path, const char *text)
{
    fy_err e = {0};
    char *full = fy_path_make(root, path, &e);
    if (full == NULL || fy_file_write(full, text, strlen(text), &e) != 0)
        fail_msg("%s", e.msg);
    free(full);
}

static int make_root(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char here[128];
    (void)state;
    snprintf(here, sizeof here, "%.60s/ferry-known-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(here) == NULL || realpath(here, root) == NULL)
        return -1;
    setenv("XDG_STATE_HOME", root, 1);
    put("a/workspace.json", "{}");
    put("b/workspace.json", "{}");
    put("none/x", "");
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    return fy_tree_remove(root);
}

/* Names below the root, separated by spaces. */
static void knows(const char *want)
{
    fy_known l;
    fy_err e = {0};
    char got[600] = "";
    if (fy_known_read(&l, &e) != 0)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < l.n; i++) {
        const size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, "%s%s", n > 0 ? " " : "", l.path[i] + strlen(root) + 1);
    }
    assert_string_equal(got, want);
    fy_known_release(&l);
}

static void test_add(void **state)
{
    (void)state;
    knows("");
    fy_known_add(at("b"));
    fy_known_add(at("a/../a"));
    fy_known_add(at("b"));
    fy_known_add(at("none"));
    fy_known_add(at("nowhere"));
    knows("b a");
    assert_int_equal(unlink(at("b/workspace.json")), 0);
    knows("a");
    put("b/workspace.json", "{}");
    knows("b a"); /* nothing was written in between */
}

/* What somebody else wrote there. */
static void test_hostile(void **state)
{
    char text[1000];
    fy_known l;
    fy_err e = {0};
    (void)state;
    snprintf(text, sizeof text, "a\n../a\n\n%s\r\n%s\n%s/\n/proc/self/fd\n\x1b[2J\n%s", at("a"),
             at("none"), at("b"), at("a"));
    put("ferry/workspaces", text);
    knows("a b");
    char *large = calloc(9 << 20, 1);
    assert_non_null(large);
    memset(large, '/', (9 << 20) - 1);
    put("ferry/workspaces", large);
    free(large);
    assert_int_equal(fy_known_read(&l, &e), -1);
    assert_non_null(strstr(e.msg, "more than"));
    fy_known_add(at("a")); /* no failure */
    put("ferry/workspaces", "");
    knows("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_add), cmocka_unit_test(test_hostile)};
    return cmocka_run_group_tests_name("known", tests, make_root, remove_root);
}
