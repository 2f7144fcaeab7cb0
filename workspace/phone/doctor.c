#include "workspace/phone/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/log.h"
#include "base/quote.h"
#include "bundle/bundle.h"
#include "workspace/pack/workspace.h"
#include "workspace/phone/phone_workspace.h"
#include "workspace/phone/quirks.h"

const char *const fy_verdict_names[4] = {"ok", "note", "warning", "fail"};

/* --- the report ------------------------------------------------------------------------------- */

void fy_doctor_add(fy_doctor_report *r, const char *name, fy_verdict v, fy_code code,
                   const char *found, const char *remedy)
{
    fy_check *grown = fy_grow(r->check, r->n, &r->cap, sizeof *grown);
    fy_check c = {strdup(name), strdup(found), strdup(remedy), v, code};
    r->check = grown != NULL ? grown : r->check;
    if (grown == NULL || c.name == NULL || c.found == NULL || c.remedy == NULL) {
        free(c.name);
        free(c.found);
        free(c.remedy);
        r->oom = true;
        return;
    }
    r->check[r->n++] = c;
}

void fy_doctor_release(fy_doctor_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->check[i].name);
        free(r->check[i].found);
        free(r->check[i].remedy);
    }
    free(r->check);
    fy_need_release(&r->need);
    *r = (fy_doctor_report){0};
}

fy_code fy_doctor_code(const fy_doctor_report *r)
{
    fy_code worst = FY_OK;
    for (size_t i = 0; i < r->n; i++) {
        if (r->check[i].verdict == FY_CHECK_FAIL && worst != FY_EDEVICE)
            worst = r->check[i].code;
    }
    return worst;
}

size_t fy_doctor_count(const fy_doctor_report *r, fy_verdict v)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->check[i].verdict == v;
    return n;
}

static char *quoted(const char *text)
{
    fy_str s = {0};
    fy_str_put_quoted(&s, fy_span_of(text), 2000);
    char *copy = s.oom ? NULL : strdup(fy_str_z(&s));
    fy_str_release(&s);
    return copy;
}

int fy_doctor_quirks(fy_doctor_report *r, fy_err *e)
{
    fy_quirks q;
    int rc = fy_quirks_read(&q, e);
    for (size_t i = 0; rc == 0 && i < q.n; i++) {
        const fy_quirk *row = &q.row[i];
        if (!fy_quirk_fits(row, &r->facts, &r->need))
            continue;
        /* what only some workspaces meet is a note as long as there is none */
        bool open = r->need.dir == NULL && (row->npu || row->parameters_above > 0);
        char *name = quoted(row->id), *found = quoted(row->found), *remedy = quoted(row->remedy);
        if (name != NULL && found != NULL && remedy != NULL)
            fy_doctor_add(r, name, open ? FY_CHECK_NOTE : row->verdict, FY_EDEVICE, found, remedy);
        else
            r->oom = true;
        free(name);
        free(found);
        free(remedy);
    }
    fy_quirks_release(&q);
    return rc;
}

/* --- asking the phone ------------------------------------------------------------------------- */

static int ask_facts(const fy_adb *a, fy_facts *out, fy_err *e)
{
    fy_str text = {0};
    int status, rc = fy_adb_shell(a, fy_facts_command, &text, NULL, &status, e);
    if (rc == 0) {
        fy_facts_parse(fy_str_z(&text), text.len, out);
        rc = fy_facts_chip(out, e);
    }
    fy_str_release(&text);
    return rc;
}

/* The version in what `ferry --version --json` says there. */
static void read_version(fy_span text, fy_probe *p)
{
    fy_json *j = fy_json_new(text.ptr, text.len, NULL);
    fy_span key, value;
    bool ok = j != NULL && fy_json_object_begin(j, NULL) == 0;
    while (ok && fy_json_object_next(j, &key, NULL) == 1) {
        if (!fy_span_is(key, "version")) {
            ok = fy_json_skip(j, NULL) == 0;
            continue;
        }
        ok = fy_json_string(j, &value, NULL, NULL) == 0;
        p->ran = ok;
        for (size_t i = 0; ok && i < value.len && i + 1 < sizeof p->version; i++)
            p->version[i] = value.ptr[i];
    }
    fy_json_free(j);
}

/* The first line, or all of it that fits. */
static void keep_text(const fy_str *s, fy_fact out)
{
    const char *text = fy_str_z(s);
    size_t n = strcspn(text, "\r\n");
    n = n < FY_FACT_BYTES - 1 ? n : FY_FACT_BYTES - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

static int run_probe(const fy_adb *a, const char *exe, fy_probe *p, fy_err *e)
{
    fy_str temp = {0}, cmd = {0}, out = {0}, err = {0};
    fy_phone_temp_name(&temp);
    fy_str_printf(&cmd, "%s/ferry --version --json", fy_str_z(&temp));
    int rc = temp.oom || cmd.oom ? fy_nomem(e)
                                 : fy_phone_send(a, exe, fy_str_z(&temp), "ferry", 0755, e);
    if (rc == 0)
        rc = fy_adb_shell(a, fy_str_z(&cmd), &out, &err, &p->status, e);
    if (rc == 0) {
        p->tried = true;
        if (p->status == 0)
            read_version((fy_span){fy_str_z(&out), out.len}, p);
        keep_text(err.len > 0 ? &err : &out, p->text);
    }
    if (!temp.oom)
        fy_phone_temp_remove(a, fy_str_z(&temp));
    fy_str_release(&temp);
    fy_str_release(&cmd);
    fy_str_release(&out);
    fy_str_release(&err);
    return rc;
}

/* The workspace's own program, else the one of this installation. */
static int probe(const fy_adb *a, const fy_doctor_params *p, fy_probe *out, fy_err *e)
{
    fy_err why = {0};
    char *exe = p->dir != NULL ? fy_path_join(p->dir, FY_BUNDLE_EXE) : NULL;
    if (exe == NULL || !fy_file_exists(exe)) {
        free(exe);
        exe = fy_device_exe(getenv("FERRY_EXE_PATH"), p->self, &why);
    }
    if (exe == NULL) {
        memcpy(out->text, why.msg, sizeof out->text - 1);
        return 0;
    }
    int rc = run_probe(a, exe, out, e);
    if (rc != 0 && e != NULL && e->code == FY_ENOSPACE) {
        *e = (fy_err){0}; /* the check of the storage says so */
        memcpy(out->text, "there is no space for it", sizeof "there is no space for it");
        rc = 0;
    }
    free(exe);
    return rc;
}

static int look_there(const fy_adb *a, fy_doctor_report *r, fy_err *e)
{
    fy_phone_workspace w;
    fy_str path = {0};
    if (r->need.dir == NULL)
        return 0;
    fy_str_printf(&path, FY_PHONE_DIR "/%s", r->need.name);
    int rc = path.oom ? fy_nomem(e) : fy_phone_workspace_of(a, fy_str_z(&path), &w, e);
    if (rc == 0) {
        memcpy(r->there, w.sha256, sizeof r->there);
        fy_phone_workspace_release(&w);
    }
    fy_str_release(&path);
    return rc;
}

int fy_doctor(const fy_doctor_params *p, fy_doctor_report *out, fy_err *e)
{
    *out = (fy_doctor_report){0};
    if (p->dir != NULL && fy_need_of(p->dir, p->n_ctx, p->type_k, p->type_v, &out->need, e) != 0)
        return -1;
    fy_adb *a = fy_adb_open(p->serial, e);
    int rc = a != NULL ? ask_facts(a, &out->facts, e) : -1;
    if (rc == 0) {
        snprintf(out->serial, sizeof out->serial, "%s", fy_adb_serial(a));
        rc = look_there(a, out, e);
    }
    if (rc == 0)
        rc = probe(a, p, &out->probe, e);
    fy_adb_close(a);
    if (rc == 0) {
        fy_doctor_checks(out);
        rc = fy_doctor_quirks(out, e);
    }
    if (rc == 0 && out->oom)
        rc = fy_nomem(e);
    if (rc != 0)
        fy_doctor_release(out);
    return rc;
}
