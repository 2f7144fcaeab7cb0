/* The model that a verb is given: by -m, -d or -hf, or by its first argument. One rule for all verbs
 * with fy_verb.model: the call settles it before the verb or the phone sees its options, so that
 * they find the path of what is there:
 *
 *     FILE.gguf                  a GGUF file, of a split model the first
 *     DIR                        a workspace (goes to -d, where the verb has it), a cut model, a
 *                                checkpoint where the verb takes one, an entry of the hub's cache,
 *                                or a directory of GGUF files, of which one is chosen
 *     ORG/NAME[:TYPE][@REV]      a repository of the hub, where no such path exists; from the cache,
 *                                or fetched: with --fetch, or when a terminal says yes
 *
 * The device build has no hub. */
#ifndef FY_CLI_MODEL_ARG_H
#define FY_CLI_MODEL_ARG_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/call.h"

/* While the words are parsed: the first argument becomes the value of -m, unless the command line
 * has -m, -d or -hf. */
int fy_model_arg_take(fy_call *c, fy_err *e);

/* Before the verb runs. remote: on the phone, where a name may be a workspace's. */
int fy_model_arg_settle(fy_call *c, bool remote, fy_err *e);

#endif
