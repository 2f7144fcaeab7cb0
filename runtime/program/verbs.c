/* The verbs of this build, and the functions of the tools that lower layers call through fy_program.
 * The only file that may name symbols of all layers. The device build has only the runtime's verbs. */
#include "program/program.h"

extern const fy_verb fy_verb_run, fy_verb_chat, fy_verb_eval, fy_verb_bench, fy_verb_tokenize,
    fy_verb_template, fy_verb_selftest, fy_verb_agent, fy_verb_serve, fy_verb_tune;

#ifndef FERRY_DEVICE
#include "convert/write/planned_gguf.h"
#include "hub/hub_model.h"
#include "workspace/phone/doctor.h"
#include "workspace/phone/phone_workspace.h"

extern const fy_verb fy_verb_fetch, fy_verb_list, fy_verb_rm, fy_verb_convert, fy_verb_quantize, fy_verb_inspect,
    fy_verb_compare, fy_verb_farm, fy_verb_plan, fy_verb_chunk, fy_verb_compile, fy_verb_create, fy_verb_pack,
    fy_verb_unpack, fy_verb_keygen, fy_verb_sign, fy_verb_verify, fy_verb_up, fy_verb_doctor,
    fy_verb_push, fy_verb_pull, fy_verb_explain;
#endif

static const fy_verb *const verbs[] = {
#ifndef FERRY_DEVICE
    &fy_verb_fetch, &fy_verb_list, &fy_verb_rm, &fy_verb_convert, &fy_verb_quantize, &fy_verb_inspect, &fy_verb_compare, &fy_verb_farm,
    &fy_verb_plan, &fy_verb_chunk, &fy_verb_compile, &fy_verb_create, &fy_verb_pack,
    &fy_verb_unpack, &fy_verb_keygen, &fy_verb_sign, &fy_verb_verify, &fy_verb_up, &fy_verb_doctor,
    &fy_verb_push, &fy_verb_pull, &fy_verb_explain,
#endif
    &fy_verb_run, &fy_verb_chat, &fy_verb_serve, &fy_verb_eval, &fy_verb_bench, &fy_verb_tune, &fy_verb_tokenize,
    &fy_verb_template, &fy_verb_selftest, &fy_verb_agent,
    NULL,
};

const fy_program fy_ferry = {
    .verbs = verbs,
#ifndef FERRY_DEVICE
    .checkpoint_header = fy_checkpoint_header,
    .hub_model = fy_hub_model_path,
    .run_on_phone = fy_remote_run,
    .phone_chip = fy_doctor_chip,
#endif
};
