#include "bundle/sampling_hints.h"

#include <math.h>
#include <stdint.h>

#define KEY(name) "general.sampling." name

const fy_hint_row fy_hints[FY_HINTS] = {
    [FY_HINT_TEMP] = {KEY("temp"), "temperature", "temperature", 0, 100, false, true},
    [FY_HINT_TOP_K] = {KEY("top_k"), "top_k", "top_k", 0, INT32_MAX, true, true},
    [FY_HINT_TOP_P] = {KEY("top_p"), "top_p", "top_p", 0, 1, false, true},
    [FY_HINT_MIN_P] = {KEY("min_p"), "min_p", "min_p", 0, 1, false, true},
    [FY_HINT_TYPICAL] = {KEY("typical_p"), "typical_p", "typical_p", 0, 1, false, true},
    [FY_HINT_REPEAT] = {KEY("penalty_repeat"), "penalty_repeat", "repetition_penalty", 0.01, 100,
                        false, false},
    [FY_HINT_LAST_N] = {KEY("penalty_last_n"), "penalty_last_n", NULL, -1, 1 << 20, true, false},
    [FY_HINT_PRESENCE] = {NULL, "penalty_present", NULL, -100, 100, false, false},
    [FY_HINT_FREQUENCY] = {NULL, "penalty_freq", NULL, -100, 100, false, false},
};

double fy_hint_of(const fy_gguf *g, fy_hint h, bool *bad)
{
    const fy_hint_row *row = &fy_hints[h];
    const fy_gguf_kv *kv = row->gguf != NULL ? fy_gguf_find(g, row->gguf) : NULL;
    double v = NAN;
    if (bad != NULL)
        *bad = false;
    if (kv == NULL)
        return NAN;
    if (kv->type == FY_KV_F32 || kv->type == FY_KV_F64)
        v = fy_gguf_float_at(kv, 0);
    else if (kv->type != FY_KV_ARRAY && kv->type != FY_KV_STRING && kv->type != FY_KV_BOOL)
        v = (double)fy_gguf_int_at(kv, 0);
    if (v >= row->min && v <= row->max && (!row->whole || v == floor(v)))
        return v;
    if (bad != NULL)
        *bad = true;
    return NAN;
}
