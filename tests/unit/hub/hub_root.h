/* A cache of the hub in a directory of its own, for tests. cmocka.h comes before it. */
#ifndef TESTS_HUB_ROOT_H
#define TESTS_HUB_ROOT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"

static char root[128];

static int make_root(void **state)
{
    const char *tmp = getenv("TMPDIR");
    (void)state;
    snprintf(root, sizeof root, "%.60s/ferry-hub-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(root) == NULL)
        return -1;
    setenv("HF_HUB_CACHE", root, 1);
    return 0;
}

static int remove_root(void **state)
{
    char command[160];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static char *at(const char *path)
{
    static char out[4][400];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(out[turn], sizeof out[0], "%s/%s", root, path);
    return out[turn];
}

static void put(const char *path, const char *text)
{
    fy_err e = {0};
    char *full = at(path), dir[400];
    snprintf(dir, sizeof dir, "%s", full);
    *strrchr(dir, '/') = '\0';
    if (fy_mkdirs(dir, &e) != 0 || fy_file_write(full, text, strlen(text), &e) != 0)
        fail_msg("%s", e.msg);
}

#endif
