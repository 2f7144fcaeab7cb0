/* What a QNN library on this machine can do, without a phone: does it load, what does it accept of
 * the operations that ferry emits, does it compute what the reference library computes, does it
 * share weights, does its metadata describe what was composed. Each question is asked in a process
 * of its own (qnn_child.h), so that a crash or a hang is an answer as well. */
#ifndef FY_WORKSPACE_QNN_DOCTOR_H
#define FY_WORKSPACE_QNN_DOCTOR_H

#include "backend/qnn/qnn_graph.h"
#include "workspace/npu/qnn_case.h"
#include "backend/qnn/qnn_child.h"
#include "workspace/npu/qnn_layer.h"
#include "workspace/npu/qnn_replay.h"

typedef struct {
    const char *sdk; /* as fy_qnn_find; NULL: the environment */
    fy_qnn_chip chip;
    uint64_t n_elements; /* results of a case, at least, unless it has few */
    fy_qnn_record record;
} fy_qnn_doctor_params;

/* A case on the library and on the reference. */
typedef struct {
    const char *name; /* view of `cases` */
    uint32_t code[FY_QNN_STEPS], reference[FY_QNN_STEPS];
    bool crashed, hung;
    uint64_t n;       /* elements that were compared; 0: none */
    bool fixed;       /* differences are steps of the encoding, else parts of the largest value */
    double max, mean; /* differences */
} fy_qnn_case_report;

typedef struct {
    fy_qnn_version core, api;
    char build_id[64];
} fy_qnn_identity;

typedef struct {
    uint64_t one_bytes, two_bytes; /* binaries of one graph, and of two with the same weights */
    uint32_t info_version;         /* of the metadata */
    uint32_t same;                 /* read back, the graph computed the same */
} fy_qnn_binary_answer;

typedef struct {
    fy_qnn_identity id;
    fy_qnn_cases *cases;
    fy_qnn_case_report *c; /* owned, [n]; NULL: not reached */
    size_t n;
    bool has_reference;
    fy_err reference;               /* why it is not there */
    fy_err objects, binary, layers; /* of the parts below; FY_OK: they passed */
    fy_qnn_layer_answer layer[FY_QNN_LAYER_RECIPES];
    size_t n_layers; /* that were tried */
    fy_qnn_binary_answer b;
} fy_qnn_report;

/* Fails when the library is not there, cannot be loaded, or the user interrupts; what it cannot do
 * is in the report. fy_qnn_report_release in every case. */
int fy_qnn_doctor(const fy_qnn_doctor_params *p, fy_qnn_report *out, fy_err *e);
void fy_qnn_report_release(fy_qnn_report *r);

/* The record `path` on the library of p, in a child. *end as fy_qnn_child. */
int fy_qnn_doctor_replay(const fy_qnn_doctor_params *p, const char *path, fy_qnn_replayed *out,
                         fy_qnn_end *end, fy_err *e);

bool fy_qnn_codes_accept(const uint32_t code[FY_QNN_STEPS]);

#endif
