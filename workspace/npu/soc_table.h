/* The chips ferry knows, as data: data/soc.json beside this file (compiled in and installed),
 * replaced by --soc-table FILE, extended by $XDG_CONFIG_HOME/ferry/soc.d/NAME.json in the order of
 * their names. A row with the name of an earlier file's takes its place as a whole; within a file a
 * name or alias may be there once. Schema and sources: docs/npu-chips.md. */
#ifndef FY_WORKSPACE_SOC_TABLE_H
#define FY_WORKSPACE_SOC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    char *name;     /* owned: "SM8650", as ro.soc.model of a phone has it */
    char **aliases; /* owned, [n_aliases]: "8 Gen 3", "pineapple" */
    size_t n_aliases;
    char *title;            /* owned: "Snapdragon 8 Gen 3"; NULL: none */
    uint32_t soc_id;        /* QNN's; 0: unknown */
    uint32_t htp_arch;      /* 75 */
    uint32_t vtcm_mb;       /* tightly coupled memory; 0: unknown */
    uint32_t n_sessions;    /* that one process gets */
    uint64_t session_bytes; /* address space of one: contexts with their buffers */
    uint64_t context_bytes; /* of one context: weights, scratch and buffers */
    uint64_t file_bytes;    /* of one context binary */
    uint64_t memory_bytes;  /* of the devices that are common with it; 0: unknown */
    bool no_fp16;           /* its HTP does not compute in fp16, whatever the architecture */
    char *note, *source;    /* owned; note NULL: none */
    bool guessed;           /* fy_soc_of_arch made it */
} fy_soc;

typedef struct fy_soc_table fy_soc_table;

/* file NULL: the table that is compiled in, with what soc.d has. NULL on failure; messages name
 * file and row. */
fy_soc_table *fy_soc_table_open(const char *file, fy_err *e);
/* Of one text alone; `name` stands for the file in messages. */
fy_soc_table *fy_soc_table_parse(const void *p, size_t n, const char *name, fy_err *e);
void fy_soc_table_free(fy_soc_table *t); /* NULL is fine */
size_t fy_soc_table_n(const fy_soc_table *t);
const fy_soc *fy_soc_table_at(const fy_soc_table *t, size_t i); /* by name */

/* By name, alias or the digits of the name ("8650"), any case, or the name of a phone that has it
 * (phone_names.h; where only some have it, with a warning); view of the table. NULL: FY_EARG
 * that names the nearest ones and --htp-arch, or FY_EUNSUPPORTED for a chip of another maker. */
const fy_soc *fy_soc_find(const fy_soc_table *t, const char *name, fy_err *e);
/* As names of chips: case, spaces, '-' and '_' do not count. */
bool fy_soc_same_name(const char *a, const char *b);
bool fy_soc_name_begins(const char *name, const char *with);
/* The row whose name, alias or title is nearest; NULL: none is near. */
const fy_soc *fy_soc_nearest(const fy_soc_table *t, const char *name);
/* A chip of which only architecture and VTCM are known, with the limits that its architecture has
 * at least. fy_soc_release it. */
int fy_soc_of_arch(const fy_soc_table *t, int htp_arch, uint32_t vtcm_mb, fy_soc *out, fy_err *e);
void fy_soc_release(fy_soc *s);

/* --- Qualcomm's NPU (HTP): its architectures, and the libraries that each needs --------------- */

/* "V75", "v75" or "75" -> 75; FY_EARG lists the known ones. */
int fy_htp_parse(const char *text, int *arch, fy_err *e);

typedef struct {
    const char *name; /* "libQnnHtpV%dSkel.so" */
    const char *dir;  /* in the SDK: "lib/hexagon-v%d/unsigned" */
    int only;         /* for this architecture; 0: for all */
    bool dsp;         /* built for the DSP, else for aarch64 */
    bool optional;    /* newer or older SDKs lack it */
} fy_htp_lib;
extern const fy_htp_lib fy_htp_libs[]; /* up to a name NULL */

#endif
