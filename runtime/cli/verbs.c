#include "cli/verb.h"

/* Every verb of this build. The device build carries the runtime's verbs only. */
#ifndef FERRY_DEVICE
#define HOST(v) &v,
#else
#define HOST(v)
#endif

extern const fy_verb fy_verb_fetch, fy_verb_convert, fy_verb_quantize, fy_verb_inspect,
    fy_verb_compare, fy_verb_create, fy_verb_pack, fy_verb_unpack, fy_verb_verify, fy_verb_keygen,
    fy_verb_sign, fy_verb_run, fy_verb_chat, fy_verb_eval, fy_verb_bench, fy_verb_tokenize,
    fy_verb_template, fy_verb_selftest, fy_verb_push, fy_verb_pull, fy_verb_explain, fy_verb_doctor,
    fy_verb_up, fy_verb_plan, fy_verb_chunk, fy_verb_agent;

const fy_verb *const fy_verbs[] = {
    HOST(fy_verb_fetch) HOST(fy_verb_convert) HOST(fy_verb_quantize) HOST(fy_verb_inspect)
            HOST(fy_verb_compare) HOST(fy_verb_plan) HOST(fy_verb_chunk) HOST(fy_verb_create)
                HOST(fy_verb_pack) HOST(fy_verb_unpack) HOST(fy_verb_keygen) HOST(fy_verb_sign)
                    HOST(fy_verb_verify) HOST(fy_verb_up) HOST(fy_verb_doctor) HOST(fy_verb_push)
                        HOST(fy_verb_pull) HOST(fy_verb_explain) &
        fy_verb_run,
    &fy_verb_chat,
    &fy_verb_eval,
    &fy_verb_bench,
    &fy_verb_tokenize,
    &fy_verb_template,
    &fy_verb_selftest,
    &fy_verb_agent,
    NULL,
};
