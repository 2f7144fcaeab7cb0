/* `ferry list --device` and `ferry rm --device`: what of ours is on a phone. phone_items.h asks it. */
#include "workspace/phone/phone_list.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "workspace/data/model_json.h"
#include "workspace/phone/local_items.h"
#include "workspace/phone/phone_items.h"

/* --- list ------------------------------------------------------------------------------------- */

/* "2026-11-27 14:02", or "-". */
static const char *when(int64_t s, char out[20])
{
    const time_t t = (time_t)s;
    struct tm tm;
    if (s <= 0 || localtime_r(&t, &tm) == NULL || strftime(out, 20, "%Y-%m-%d %H:%M", &tm) == 0)
        snprintf(out, 20, "-");
    return out;
}

static const char *size(uint64_t bytes, char out[24])
{
    fy_str text = {0};
    fy_put_bytes_text(&text, bytes);
    snprintf(out, 24, "%s", fy_str_z(&text));
    fy_str_release(&text);
    return out;
}

static void put_row(const fy_phone_item *item, int width, fy_str *out)
{
    char date[20], bytes[24];
    fy_str_printf(out, "%-15s %-*s %10s  %s%s\n", fy_phone_kind_name(item->kind), width,
                  item->name, size(item->bytes, bytes), when(item->used_s, date),
                  item->part ? "  (incomplete)" : "");
}

static int print_table(const fy_phone_items *l, fy_err *e)
{
    fy_str out = {0};
    char bytes[24];
    int width = 4;
    for (size_t i = 0; i < l->n; i++) {
        int n = (int)strlen(l->item[i].name);
        width = n > width ? n : width;
    }
    if (l->n > 0)
        fy_str_printf(&out, "%-15s %-*s %10s  %s\n", "KIND", width, "NAME", "SIZE", "LAST USED");
    for (size_t i = 0; i < l->n; i++)
        put_row(&l->item[i], width, &out);
    if (l->n == 0)
        fy_str_puts(&out, "nothing of ferry's is there\n");
    if (l->space != UINT64_MAX)
        fy_str_printf(&out, "%s free\n", size(l->space, bytes));
    return fy_stdout_text(&out, e);
}

static int print_json(const char *serial, const fy_phone_items *l, fy_err *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->n; i++) {
        const fy_phone_item *item = &l->item[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:b}", "kind",
                            fy_phone_kind_name(item->kind), "name", item->name, "path", item->path,
                            "bytes", (json_int_t)item->bytes, "used", (json_int_t)item->used_s,
                            "incomplete", item->part));
    }
    json_t *root = json_pack("{s:s, s:o}", "serial", serial, "items", list);
    if (root != NULL && l->space <= INT64_MAX)
        json_object_set_new(root, "free_bytes", json_integer((json_int_t)l->space));
    return fy_json_print(root, 6, e);
}

int fy_phone_list_show(const char *serial, bool json, fy_err *e)
{
    fy_phone_items l = {0};
    fy_adb *a = fy_adb_open(serial, e);
    int rc = a != NULL ? fy_phone_items_list(a, &l, e) : -1;
    if (rc == 0)
        rc = json ? print_json(fy_adb_serial(a), &l, e) : print_table(&l, e);
    fy_phone_items_release(&l);
    fy_adb_close(a);
    return rc;
}

/* --- rm --------------------------------------------------------------------------------------- */

/* Its name, or that of one version: "tales-0123456789ab". */
static bool is_named(const fy_phone_item *item, const char *name)
{
    return strcmp(item->name, name) == 0 || fy_span_is(fy_path_base(item->path), name);
}

/* Moves what is named to the front; *n: how many. */
static int choose(fy_phone_items *l, int n_names, char **names, size_t *n, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    *n = 0;
    for (int k = 0; k < n_names; k++) {
        bool found = false;
        for (size_t i = 0; i < l->n; i++) {
            if (!is_named(&l->item[i], names[k]))
                continue;
            found = true;
            if (i >= *n) {
                fy_phone_item one = l->item[i];
                l->item[i] = l->item[*n];
                l->item[(*n)++] = one;
            }
        }
        if (!found)
            return fy_fail(e, FY_EARG, "nothing on the phone is called '%s'; 'ferry list --device' "
                                       "shows what is there",
                           fy_quote(shown, sizeof shown, fy_span_of(names[k])));
    }
    return 0;
}

/* 1: yes; 0: no; -1. */
static int confirm(const fy_phone_items *l, size_t n, fy_err *e)
{
    char answer[8];
    fy_str out = {0};
    for (size_t i = 0; i < n; i++)
        put_row(&l->item[i], (int)strlen(l->item[i].name), &out);
    fy_str_printf(&out, "remove %s from the phone? [y/N] ", n == 1 ? "it" : "them");
    int rc = out.oom ? fy_nomem(e) : fy_ask(fy_str_z(&out), answer, sizeof answer, e);
    fy_str_release(&out);
    return rc != 0 ? -1 : answer[0] == 'y' || answer[0] == 'Y';
}

int fy_phone_list_remove(const char *serial, int n_names, char **names, bool yes, fy_err *e)
{
    fy_phone_items l = {0};
    size_t n = 0;
    char bytes[24];
    fy_adb *a = fy_adb_open(serial, e);
    int rc = a != NULL ? fy_phone_items_list(a, &l, e) : -1;
    if (rc == 0)
        rc = choose(&l, n_names, names, &n, e);
    int go = rc != 0 ? 0 : yes ? 1 : confirm(&l, n, e);
    rc = go < 0 ? -1 : rc;
    for (size_t i = 0; rc == 0 && go == 1 && i < n; i++) {
        rc = fy_check_interrupt(e) == 0 ? fy_phone_item_remove(a, &l.item[i], e) : -1;
        if (rc == 0)
            fy_log(FY_LOG_INFO, "removed %s %s, %s", fy_phone_kind_name(l.item[i].kind),
                   l.item[i].name, size(l.item[i].bytes, bytes));
    }
    fy_phone_items_release(&l);
    fy_adb_close(a);
    return rc;
}
