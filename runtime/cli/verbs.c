#include "cli/verb.h"

/* Every verb of this build. The device build carries the runtime's verbs only. */
#ifndef FERRY_DEVICE
#define HOST(v) &v,
#else
#define HOST(v)
#endif

extern const fy_verb fy_verb_convert, fy_verb_quantize, fy_verb_inspect, fy_verb_create,
    fy_verb_pack, fy_verb_unpack, fy_verb_verify, fy_verb_run, fy_verb_chat, fy_verb_eval,
    fy_verb_tokenize, fy_verb_template;

const fy_verb *const fy_verbs[] = {
    HOST(fy_verb_convert) HOST(fy_verb_quantize) HOST(fy_verb_inspect) HOST(fy_verb_create)
            HOST(fy_verb_pack) HOST(fy_verb_unpack) HOST(fy_verb_verify) &
        fy_verb_run,
    &fy_verb_chat,
    &fy_verb_eval,
    &fy_verb_tokenize,
    &fy_verb_template,
    NULL,
};
