/* The table of phones and of other makers' chips (phone_names.h). */
#include "workspace/npu/phone_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "workspace/data/data_files.h"
#include "workspace/npu/soc_table.h"

enum { MOST = 1000 };

static int take_names(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    fy_phone *p = at;
    return fy_data_list(j, &p->names, &p->n_names, e);
}

static int take_chips(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    fy_other_chips *o = at;
    return fy_data_list(j, &o->chips, &o->n_chips, e);
}

static const fy_json_row phone_rows[] = {
    FY_DATA_TEXT("maker", fy_phone, maker, 0),
    {.key = "names", .type = FY_JSON_ROW_TAKE, .take = take_names},
    FY_DATA_TEXT("soc", fy_phone, soc, 0),
    FY_DATA_TEXT("where", fy_phone, where, 0),
    FY_DATA_TEXT("source", fy_phone, source, 0),
};
static const fy_json_table phone_table = {FY_JSON_ROWS(phone_rows), .strict = true,
                                          .item_bytes = sizeof(fy_phone), .most = MOST};

static const fy_json_row other_rows[] = {
    {.key = "chips", .type = FY_JSON_ROW_TAKE, .take = take_chips},
    FY_DATA_TEXT("maker", fy_other_chips, maker, 0),
};
static const fy_json_table other_table = {FY_JSON_ROWS(other_rows), .strict = true,
                                          .item_bytes = sizeof(fy_other_chips), .most = MOST};

static const fy_json_row file_rows[] = {
    {.key = "phones",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(fy_phone_names, phones),
     .n_at = offsetof(fy_phone_names, n_phones),
     .table = &phone_table},
    {.key = "others",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(fy_phone_names, others),
     .n_at = offsetof(fy_phone_names, n_others),
     .table = &other_table},
};
static const fy_json_table file_table = {FY_JSON_ROWS(file_rows), .strict = true};

void fy_phone_names_release(fy_phone_names *t)
{
    for (size_t i = 0; i < t->n_phones; i++) {
        fy_phone *p = &t->phones[i];
        fy_data_list_free(p->names, p->n_names);
        free(p->maker);
        free(p->soc);
        free(p->where);
        free(p->source);
    }
    for (size_t i = 0; i < t->n_others; i++) {
        fy_data_list_free(t->others[i].chips, t->others[i].n_chips);
        free(t->others[i].maker);
    }
    free(t->phones);
    free(t->others);
    *t = (fy_phone_names){0};
}

static int check(const fy_phone_names *t, fy_err *e)
{
    for (size_t i = 0; i < t->n_phones; i++) {
        const fy_phone *p = &t->phones[i];
        if (p->maker == NULL || p->n_names == 0 || p->soc == NULL || p->source == NULL)
            return fy_fail(e, FY_EFORMAT, "row %zu of phones lacks maker, names, soc or source",
                           i + 1);
    }
    for (size_t i = 0; i < t->n_others; i++) {
        if (t->others[i].maker == NULL || t->others[i].n_chips == 0)
            return fy_fail(e, FY_EFORMAT, "row %zu of others lacks chips or maker", i + 1);
    }
    return 0;
}

int fy_phone_names_open(fy_phone_names *t, fy_err *e)
{
    const fy_data_file *f = fy_data_find("phones.json");
    *t = (fy_phone_names){0};
    if (f == NULL)
        return fy_fail(e, FY_EFORMAT, "there is no built-in phones.json");
    if (fy_json_document_of((fy_span){(const char *)f->data, f->size}, &file_table, t, e) == 0 &&
        check(t, e) == 0)
        return 0;
    fy_phone_names_release(t);
    return fy_ctx(e, "the built-in phones.json");
}

static bool is_named(const fy_phone *p, const char *name, const char *wanted)
{
    fy_str full = {0};
    fy_str_printf(&full, "%s %s", p->maker, name);
    const bool yes =
        fy_soc_same_name(name, wanted) || (!full.oom && fy_soc_same_name(fy_str_z(&full), wanted));
    fy_str_release(&full);
    return yes;
}

/* "13" alone is not a phone: several makers have one. */
static bool is_distinct(const char *name)
{
    return strpbrk(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != NULL &&
           strlen(name) > 3;
}

const fy_phone *fy_phone_find(const fy_phone_names *t, const char *name)
{
    for (size_t i = 0; i < t->n_phones; i++) {
        const fy_phone *p = &t->phones[i];
        for (size_t k = 0; is_distinct(name) && k < p->n_names; k++) {
            if (is_named(p, p->names[k], name))
                return p;
        }
    }
    return NULL;
}

const char *fy_chip_maker(const fy_phone_names *t, const char *name)
{
    for (size_t i = 0; i < t->n_others; i++) {
        for (size_t k = 0; k < t->others[i].n_chips; k++) {
            if (fy_soc_name_begins(name, t->others[i].chips[k]))
                return t->others[i].maker;
        }
    }
    return NULL;
}
