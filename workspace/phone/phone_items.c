/* What of ours is on a phone: asked for, parsed, removed. */
#include "workspace/phone/phone_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/math.h"
#include "bundle/agent_store.h"
#include "bundle/manifest_read.h"
#include "workspace/phone/phone_workspace.h"

/* Workspaces first: du counts a file of two names where it meets it first. */
#define EACH FY_STORE_VERSIONS "/* " FY_STORE_MODELS "/" FY_STORE_VERSIONS "/* .agent/* .tmp/*"

/* Where each kind lies. */
static const struct {
    const char *dir;
    fy_phone_kind kind;
} places[] = {
    {FY_STORE_VERSIONS "/", FY_PHONE_OLDER},
    {FY_STORE_MODELS "/" FY_STORE_VERSIONS "/", FY_PHONE_MODEL},
    {".agent/", FY_PHONE_PROGRAM},
    {".tmp/", FY_PHONE_TEMP},
};

const char *fy_phone_kind_name(fy_phone_kind kind)
{
    static const char *const names[] = {"workspace", "older version", "model", "program",
                                        "files of a call"};
    return names[kind];
}

void fy_phone_items_release(fy_phone_items *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->item[i].path);
        free(l->item[i].name);
    }
    free(l->item);
    *l = (fy_phone_items){0};
}

/* --- parsing ---------------------------------------------------------------------------------- */

/* The name in "NAME-<12 hex digits>", "...part" or "...damaged"; its length, 0: it is not one. */
static size_t version_name(fy_span file, bool *part)
{
    size_t n = 0;
    for (size_t i = 1; i < file.len && n == 0; i++) {
        size_t hex = 0;
        while (i + 1 + hex < file.len && fy_hex_digit(file.ptr[i + 1 + hex]) >= 0)
            hex++;
        if (file.ptr[i] != '-' || hex != FY_STORE_ID_HEX)
            continue;
        size_t end = i + 1 + FY_STORE_ID_HEX;
        fy_span rest = {file.ptr + end, file.len - end};
        *part = rest.len > 0;
        if (!*part || fy_span_is(rest, FY_STORE_PART) || fy_span_is(rest, FY_STORE_DAMAGED))
            n = i;
    }
    return n;
}

/* The item of a path below FY_PHONE_DIR. 1; 0: it is not one of ours; -1. */
static int parse_path(fy_span path, fy_phone_item *out, fy_err *e)
{
    *out = (fy_phone_item){0};
    char *text = strndup(path.ptr, path.len);
    bool plain = text != NULL && fy_manifest_path_ok(text);
    free(text);
    if (text == NULL)
        return fy_nomem(e);
    for (size_t i = 0; plain && i < sizeof places / sizeof places[0]; i++) {
        size_t skip = strlen(places[i].dir);
        fy_span file = {path.ptr + skip, path.len - skip};
        if (!fy_span_begins(path, places[i].dir) || file.len == 0 || file.ptr[0] == '.' ||
            memchr(file.ptr, '/', file.len) != NULL)
            continue;
        bool version = places[i].kind == FY_PHONE_OLDER || places[i].kind == FY_PHONE_MODEL;
        size_t n = version ? version_name(file, &out->part) : file.len;
        if (n == 0)
            continue;
        out->kind = places[i].kind;
        if (!version)
            out->part = fy_span_ends(file, FY_STORE_PART);
        out->path = strndup(path.ptr, path.len);
        out->name = strndup(file.ptr, n);
        return out->path != NULL && out->name != NULL ? 1 : fy_nomem(e);
    }
    return 0;
}

/* "KIB PATH" of du. */
static int take_size(fy_phone_items *l, fy_span line, fy_err *e)
{
    fy_span rest = line, word = fy_span_cut_word(&rest);
    uint64_t kib = 0, bytes;
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] < '0' || word.ptr[i] > '9' || !fy_mul_u64(kib, 10, &kib) ||
            !fy_add_u64(kib, (uint64_t)(word.ptr[i] - '0'), &kib))
            return 0;
    }
    if (word.len == 0 || !fy_mul_u64(kib, 1024, &bytes))
        return 0;
    while (rest.len > 0 && (*rest.ptr == ' ' || *rest.ptr == '\t'))
        rest = (fy_span){rest.ptr + 1, rest.len - 1};
    fy_phone_item item;
    int rc = parse_path(rest, &item, e);
    item.bytes = bytes;
    if (rc == 1 && fy_append(&l->item, &l->n, &l->cap, &item, sizeof item, e) == 0)
        return 0;
    free(item.path);
    free(item.name);
    return rc == 0 ? 0 : -1;
}

static fy_phone_item *find(fy_phone_items *l, fy_span path)
{
    for (size_t i = 0; i < l->n; i++) {
        if (fy_span_is(path, l->item[i].path))
            return &l->item[i];
    }
    return NULL;
}

/* "SECONDS PATH" of stat. */
static void take_time(fy_phone_items *l, fy_span line)
{
    fy_span rest = line, word = fy_span_cut_word(&rest);
    int64_t s = 0;
    for (size_t i = 0; i < word.len && i < 12; i++) {
        if (word.ptr[i] < '0' || word.ptr[i] > '9')
            return;
        s = s * 10 + (word.ptr[i] - '0');
    }
    fy_phone_item *item = rest.len > 0 ? find(l, (fy_span){rest.ptr + 1, rest.len - 1}) : NULL;
    if (item != NULL)
        item->used_s = s;
}

/* "NAME TARGET" of a link that may be that of a workspace. */
static void take_link(fy_phone_items *l, fy_span line)
{
    fy_span rest = line, name = fy_span_cut_word(&rest);
    fy_phone_item *item = rest.len > 0 ? find(l, (fy_span){rest.ptr + 1, rest.len - 1}) : NULL;
    if (item != NULL && item->kind == FY_PHONE_OLDER && !item->part && fy_span_is(name, item->name))
        item->kind = FY_PHONE_WORKSPACE;
}

static int by_kind_and_use(const void *a, const void *b)
{
    const fy_phone_item *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->used_s != y->used_s)
        return x->used_s > y->used_s ? -1 : 1;
    return strcmp(x->path, y->path);
}

int fy_phone_items_parse(fy_span text, fy_phone_items *out, fy_err *e)
{
    enum { SPACE, SIZES, TIMES, LINKS, END } section = SPACE;
    fy_phone_items l = {.space = UINT64_MAX};
    while (text.len > 0) {
        fy_span line = fy_span_cut_line(&text);
        if (line.len == 0) {
            section += section < END;
        } else if (section == SPACE) {
            char space[48];
            snprintf(space, sizeof space, "%.*s", (int)(line.len < 47 ? line.len : 47), line.ptr);
            l.space = fy_phone_parse_space(space);
        } else if (section == SIZES && take_size(&l, line, e) != 0) {
            fy_phone_items_release(&l);
            return -1;
        } else if (section == TIMES) {
            take_time(&l, line);
        } else if (section == LINKS) {
            take_link(&l, line);
        }
    }
    if (l.n > 0)
        qsort(l.item, l.n, sizeof *l.item, by_kind_and_use);
    *out = l;
    return 0;
}

/* --- asking ----------------------------------------------------------------------------------- */

int fy_phone_items_list(const fy_adb *a, fy_phone_items *out, fy_err *e)
{
    fy_str cmd = {0}, text = {0};
    *out = (fy_phone_items){0};
    fy_str_puts(&cmd,
                "if cd " FY_PHONE_DIR " 2>/dev/null; then "
                "stat -f -c '%a %S' . 2>/dev/null; echo; du -sk " EACH " 2>/dev/null; echo; "
                "stat -c '%Y %n' " EACH " 2>/dev/null; echo; "
                "for l in *; do [ -L \"$l\" ] && echo \"$l $(readlink \"$l\")\"; done; true; fi");
    int rc = fy_phone_do(a, &cmd, "list what is in " FY_PHONE_DIR, &text, e);
    if (rc == 0)
        rc = fy_phone_items_parse((fy_span){fy_str_z(&text), text.len}, out, e);
    fy_str_release(&text);
    return rc;
}

/* The name goes first: what is half removed has none. */
int fy_phone_item_remove(const fy_adb *a, const fy_phone_item *item, fy_err *e)
{
    fy_str cmd = {0};
    char shown[FY_QUOTE_BYTES], doing[FY_QUOTE_BYTES + 16];
    fy_str_puts(&cmd, "cd " FY_PHONE_DIR " && p=");
    fy_adb_quote(&cmd, item->path);
    if (item->kind != FY_PHONE_PROGRAM && item->kind != FY_PHONE_TEMP) {
        fy_str_puts(&cmd, item->kind == FY_PHONE_MODEL ? "; l=" FY_STORE_MODELS "/" : "; l=./");
        fy_adb_quote(&cmd, item->name);
        fy_str_puts(&cmd, "; t=$(readlink \"$l\"); [ \"${t##*/}\" != \"${p##*/}\" ] || rm -f "
                          "\"$l\"");
    }
    fy_str_puts(&cmd, "; rm -rf \"$p\" && [ ! -e \"$p\" ]");
    snprintf(doing, sizeof doing, "remove %s",
             fy_quote(shown, sizeof shown, fy_span_of(item->name)));
    return fy_phone_do(a, &cmd, doing, NULL, e);
}

/* --- the models ------------------------------------------------------------------------------- */

/* Is it the version at `path`, or what a broken transfer left of it? */
static bool is_of(const fy_phone_item *item, const char *path)
{
    fy_span its = fy_span_of(item->path);
    return fy_span_begins(its, path) &&
           (its.len == strlen(path) || fy_span_is((fy_span){its.ptr + strlen(path),
                                                            its.len - strlen(path)},
                                                  FY_STORE_PART));
}

static int drop(const fy_adb *a, const fy_phone_item *item, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (fy_phone_item_remove(a, item, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO, "removed %s from the phone's cache of models: %.1f MB",
           fy_quote(shown, sizeof shown, fy_span_of(item->name)), (double)item->bytes * 1e-6);
    return 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t r;
    return fy_add_u64(a, b, &r) ? r : UINT64_MAX;
}

int fy_phone_models_make_room(const fy_adb *a, const char *path, uint64_t bytes, uint64_t most,
                              fy_err *e)
{
    fy_phone_items l;
    uint64_t held = 0, need = bytes;
    if (fy_phone_items_list(a, &l, e) != 0)
        return -1;
    for (size_t i = 0; i < l.n; i++) {
        const fy_phone_item *item = &l.item[i];
        if (item->kind == FY_PHONE_MODEL && is_of(item, path))
            need = item->part && item->bytes < bytes ? bytes - item->bytes : 0;
        else if (item->kind == FY_PHONE_MODEL)
            held = sum(held, item->bytes);
    }
    uint64_t room = bytes < most ? most - bytes : 0;
    bool helps = l.space < need && sum(l.space, held) >= need;
    int rc = 0;
    for (size_t i = l.n; rc == 0 && i-- > 0 && (held > room || (helps && l.space < need));) {
        const fy_phone_item *item = &l.item[i]; /* sorted: the oldest is the last of its kind */
        if (item->kind != FY_PHONE_MODEL || is_of(item, path))
            continue;
        rc = drop(a, item, e);
        held -= item->bytes;
        l.space = sum(l.space, item->bytes);
    }
    fy_phone_items_release(&l);
    return rc;
}
