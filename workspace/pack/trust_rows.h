/* The options by which a verb is told whom to trust: rows for fields `key` (const char *) and
 * `require` (bool) of its `options`. */
#ifndef FY_WORKSPACE_TRUST_ROWS_H
#define FY_WORKSPACE_TRUST_ROWS_H

#include "cli/verb.h"
#include "workspace/pack/sign.h"

#define FY_ROWS_TRUST                                                                       \
    {.group = "Signature",                                                                  \
     .name = "require-signature",                                                           \
     .kind = FY_OPT_FLAG,                                                                   \
     .offset = offsetof(options, require),                                                  \
     .help = "Refuse what no trusted key has signed."},                                     \
    {                                                                                       \
        .group = "Signature", .name = "key", .kind = FY_OPT_STR, .arg = "KEY.pub.pem",      \
        .offset = offsetof(options, key), .line_only = true,                                \
        .help = "The one key to trust here, in place of the user's list; its signature is " \
                "required."                                                                 \
    }

#endif
