#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>
#include <utf8proc.h>

#include "model/vocab/vocab.h"

void fy_vocab_libraries(fy_str *out)
{
    char version[64] = ""; /* "10.42 2022-12-11": the date is left out */
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) < (int)sizeof version)
        pcre2_config(PCRE2_CONFIG_VERSION, version);
    fy_str_printf(out, "pcre2 %.*s\n", (int)strcspn(version, " "), version);
    fy_str_printf(out, "utf8proc %s\n", utf8proc_version());
}
