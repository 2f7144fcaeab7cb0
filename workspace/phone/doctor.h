/* `ferry doctor`: what a phone is and has, and what will fail there. One command on the phone
 * gathers the facts (doctor_facts.c), one probe starts our program there, checks compare the facts
 * with what a workspace needs, and a table of known quirks is matched (doctor_checks.c). All text
 * of the phone is untrusted: quoted where it is shown, never part of a command. docs/doctor.md
 * lists the checks. */
#ifndef FY_WORKSPACE_DOCTOR_H
#define FY_WORKSPACE_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/types.h"
#include "workspace/phone/adb.h"

/* --- facts ------------------------------------------------------------------------------------ */

#define FY_FACT_BYTES 96 /* of one text; longer ones are cut */

enum { FY_FACT_ZONES = 256, FY_FACT_LIBS = 64, FY_FACT_PACKAGES = 8 };
typedef char fy_fact[FY_FACT_BYTES];

/* Numbers that the phone did not say are negative; texts "". */
typedef struct {
    fy_fact manufacturer, model, soc, platform, android, abi, abis;
    char features[1024]; /* of /proc/cpuinfo: "fp asimd aes ..." */
    int64_t sdk, n_cpus, page_bytes;
    int64_t mem_total, mem_available, storage_free; /* bytes */
    int64_t battery_percent;
    fy_fact battery_status;
    double battery_c;       /* NAN: unknown */
    int64_t thermal_status; /* 0 none .. 6 shutdown, as Android's thermal service says it */
    struct {
        fy_fact type;
        double c;
    } zone[FY_FACT_ZONES];
    size_t n_zones;
    fy_fact lib[FY_FACT_LIBS]; /* paths of NPU libraries of the phone */
    size_t n_libs;
    fy_fact package[FY_FACT_PACKAGES];
    size_t n_packages;
    int htp; /* architecture of its NPU by the table of chips: 75; 0: unknown, or not looked up */
} fy_facts;

typedef enum { FY_FACT_TEXT, FY_FACT_NUMBER, FY_FACT_CELSIUS } fy_fact_kind;

/* Each with one value: its names in the phone's answer, the first that has a value counts, and in
 * our JSON; in the order of that. */
typedef struct {
    const char *name, *json; /* NULL: another row has it, or it is not written */
    fy_fact_kind kind;
    size_t offset, bytes; /* in fy_facts; bytes of a text */
    int64_t unit;
} fy_fact_row;
extern const fy_fact_row fy_fact_rows[]; /* up to a name and a json that are NULL */

/* The command that makes the phone tell them. */
extern const char fy_facts_command[];
/* Only temperatures and Android's thermal status. */
extern const char fy_facts_heat_command[];
/* Reads its answer: lines "name=value", unknown ones skipped. Never fails. */
void fy_facts_parse(const char *text, size_t n, fy_facts *out);
/* "chip 41 °C, skin 33 °C, Android's status: light"; "" when the phone shows none of them. True: it is so
 * hot that it computes slower. */
bool fy_facts_heat(const fy_facts *f, char *text, size_t size);
/* Looks f->soc up in the table of chips (soc_table.h), which has to be readable. */
int fy_facts_chip(fy_facts *f, fy_err *e);

/* fy_program's phone_chip (cli/verb.h). */
int fy_doctor_chip(const char *serial, char soc[FY_QUOTE_BYTES], uint64_t *memory, fy_err *e);

/* --- what a workspace asks for ---------------------------------------------------------------- */

typedef struct {
    char *dir, *name; /* owned; NULL without a workspace */
    uint64_t bytes;   /* of all its files */
    uint64_t weights, kv, scratch, parameters;
    uint32_t n_ctx;
    bool npu;     /* it brings context binaries or the vendor's libraries */
    int npu_arch; /* of its qnn_libs: 75; 0: none */
    int compiled; /* for this architecture; 0: it has no compiled model */
    char sha256[65];
} fy_need;

/* n_ctx 0: the default. */
int fy_need_of(const char *dir, uint32_t n_ctx, fy_type type_k, fy_type type_v, fy_need *out,
               fy_err *e);
void fy_need_release(fy_need *n);

/* --- the report ------------------------------------------------------------------------------- */

typedef enum { FY_CHECK_OK, FY_CHECK_NOTE, FY_CHECK_WARNING, FY_CHECK_FAIL } fy_verdict;
extern const char *const fy_verdict_names[4]; /* "ok", "note", "warning", "fail" */

typedef struct {
    char *name, *found; /* owned; found and remedy are fit for a terminal */
    char *remedy;       /* owned; "" when there is none */
    fy_verdict verdict;
    fy_code code; /* of a failure: FY_EDEVICE or FY_EFIT */
} fy_check;

/* Our own program, started on the phone. */
typedef struct {
    bool tried, ran;
    fy_fact version; /* "0.1.0" */
    fy_fact text;    /* what came instead */
    int status;
} fy_probe;

typedef struct {
    fy_fact serial;
    fy_facts facts;
    fy_need need;
    fy_probe probe;
    char there[65];  /* manifest hash of the workspace's version on the phone; "": it has none */
    fy_check *check; /* owned */
    size_t n, cap;
    bool oom;
} fy_doctor_report;

typedef struct {
    const char *serial;     /* as fy_adb_open */
    const char *dir;        /* workspace; NULL: the phone alone */
    const char *self;       /* the running program, to find a device build without a workspace */
    uint32_t n_ctx;         /* of the session that is planned; 0: the default */
    fy_type type_k, type_v; /* of its cache */
} fy_doctor_params;

/* -1: the phone could not be asked. What it lacks is in the report. */
int fy_doctor(const fy_doctor_params *p, fy_doctor_report *out, fy_err *e);
void fy_doctor_release(fy_doctor_report *r);
/* The worst failure: FY_OK, FY_EFIT or, before it, FY_EDEVICE. */
fy_code fy_doctor_code(const fy_doctor_report *r);
size_t fy_doctor_count(const fy_doctor_report *r, fy_verdict v);

/* A QNN library on this machine instead of a phone (doctor_qnn.c). */
typedef struct {
    const char *sdk;    /* as fy_qnn_find */
    const char *soc;    /* of the table of chips */
    const char *record; /* file that the calls are written to; NULL: none */
    bool record_data;   /* with their bytes */
    const char *replay; /* record to replay instead of the checks; NULL: none */
} fy_doctor_qnn_params;
/* `facts` gets the members of a JSON object with every answer. */
int fy_doctor_qnn(const fy_doctor_qnn_params *p, fy_doctor_report *out, fy_str *facts, fy_err *e);

/* Parts, for fy_doctor and its tests: add the checks for what the report holds. */
void fy_doctor_checks(fy_doctor_report *r);
int fy_doctor_quirks(fy_doctor_report *r, fy_err *e);
void fy_doctor_add(fy_doctor_report *r, const char *name, fy_verdict v, fy_code code,
                   const char *found, const char *remedy);

/* --- quirks (doctor_checks.c) ----------------------------------------------------------------- */

/* What is known of certain phones and chips, as data: workspace/data/quirks.json, compiled in, and
 * the user's own $XDG_CONFIG_HOME/ferry/quirks.json, whose rows replace those of the same id. A row
 * tells which phones it is for (docs/doctor.md has the schema). */
enum { FY_QUIRK_PATTERNS = 16 };
typedef struct {
    const char *pattern[FY_QUIRK_PATTERNS]; /* views; any of them, shell patterns, any case */
    size_t n;                               /* 0: any phone */
} fy_quirk_list;

typedef struct {
    const char *id, *found, *remedy, *source; /* views of the table's arena */
    fy_verdict verdict;                       /* never FY_CHECK_OK */
    fy_quirk_list manufacturer, model, soc, platform, package;
    int64_t android_from, android_below; /* release: 15; -1: any */
    int64_t htp_below;                   /* architecture of the NPU: 73; -1: any */
    bool npu;                            /* only for a workspace that uses the NPU */
    double parameters_above;             /* of the workspace's models; 0: any */
} fy_quirk;

typedef struct {
    fy_quirk *row; /* owned */
    size_t n;
    fy_arena strings;
} fy_quirks;

/* Adds the rows of a JSON text; `name` begins messages. */
int fy_quirks_parse(fy_quirks *q, const char *text, size_t n, const char *name, fy_err *e);
/* The built-in rows and the user's. */
int fy_quirks_read(fy_quirks *q, fy_err *e);
void fy_quirks_release(fy_quirks *q);

/* Is it for this phone and this workspace? Without a workspace what it asks of one is left open. */
bool fy_quirk_fits(const fy_quirk *q, const fy_facts *f, const fy_need *need);

#endif
